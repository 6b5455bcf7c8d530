//===- Cluster.h - The machine that a plan is made for ----------*- C++ -*-===//
//
// Two levels: devices of one node share a fast island (NVLink), nodes meet
// over NICs, one for each device or one for several. All links are full duplex:
// a port may send and receive at its full rate at once, on both levels. Single
// pairs may be faster or slower than their level. What a library adds is part
// of it: what a wave costs to launch, and the channels of which a pair has a
// few.
//
// One struct from the request to the plan file and its simulation. It has the
// units in which people give these numbers: 1 GB/s is 1e9 bytes per second.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_COST_CLUSTER_H
#define DTRT_COST_CLUSTER_H

#include "dtrt/types/Collective.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace dtrt {

/// One end of a link: a device, or all devices of a node.
struct LinkEnd {
  bool isNode = false;
  int64_t index = 0;
  friend bool operator==(LinkEnd a, LinkEnd b) {
    return a.isNode == b.isNode && a.index == b.index;
  }
};

/// The rate from one end to the other, of every pair that fits; one way.
struct Link {
  LinkEnd from, to;
  double GBps = 0;
  friend bool operator==(const Link &a, const Link &b) {
    return a.from == b.from && a.to == b.to && a.GBps == b.GBps;
  }
};

/// Of a communicator: MAXCHANNELS in NCCL's src/include/device.h.
constexpr int64_t kMostChannels = 64;

struct Cluster {
  int64_t devicesPerNode = 8;
  double intraNodeGBps = 200; // of one device's island port, each way
  double interNodeGBps = 25;  // of one NIC port, each way
  double latencyUs = 10;      // per message
  /// What packing and unpacking cost a device. A pack reads and writes each
  /// byte once; 1 TB/s is half of the memory bandwidth of an A100 (2 TB/s), the
  /// slowest device that these plans are made for. The launch is that of a
  /// kernel. Pack and unpack of one device run one after the other, beside the
  /// wire.
  double packGBps = 1000;
  double packLaunchUs = 5;
  /// Pairs that differ from their level; of several that fit, the last holds.
  std::vector<Link> links;
  /// Devices that share a NIC, a divisor of devicesPerNode: consecutive ones.
  int64_t devicesPerNic = 1;
  /// Whether a message to another node leaves by the NIC of its receiver's
  /// place in the node, through another device (NCCL's PXN), else by its
  /// sender's.
  bool pxn = false;
  /// Of a wave, on each of its devices, before its messages begin.
  double launchUs = 0;
  /// Channels that carry the messages of one pair of devices (NCCL's: a block
  /// of the kernel each); 0: as many as fill its ports.
  int64_t channelsPerPeer = 0;
  /// Of one channel, each way. NCCL's own figures: two channels for each
  /// NVLink of 20.6 GB/s (Hopper, src/graph/topo.h; ncclTopoGetNchannels in
  /// src/graph/paths.cc), 14 GB/s of the network (NCCL_P2P_PER_CHANNEL_NET_BW
  /// there).
  double intraChannelGBps = kIntraChannelGBps;
  double interChannelGBps = kInterChannelGBps;

  /// Whether a message may go over a third device, which keeps nothing of it.
  bool relays = false;
  /// Whether collectives are calls of a library, or messages.
  CollectiveChoice collectives = CollectiveChoice::Auto;
  /// What a library's call among devices of one node takes beside its bytes
  /// where it has no ring: where the switch multicasts what one sends to all
  /// (NVLink SHARP: broadcasts, all-gathers), and where copy engines write to
  /// all peers at once (all-gathers, all-to-alls). 0: it has none of these.
  double multicastUs = 0, copyEngineUs = 0;

  static constexpr double kIntraChannelGBps = 10.3, kInterChannelGBps = 14;

  int64_t node(int64_t device) const { return device / devicesPerNode; }
  bool sameNode(int64_t a, int64_t b) const { return node(a) == node(b); }
  /// The device that stands for a device's port on one level: itself, or the
  /// first of those that share its NIC.
  int64_t port(int64_t device, bool interNode) const {
    return interNode ? device - device % devicesPerNic : device;
  }
  /// The port of all that a device sends on a level, whoever receives: where
  /// the NIC depends on that, its own, as it sends so many messages at a time.
  int64_t sendPort(int64_t device, bool interNode) const {
    return pxn ? device : port(device, interNode);
  }
  /// The NIC, by the device that stands for it, by which a message between two
  /// nodes leaves.
  int64_t nicOut(int64_t from, int64_t to) const {
    return port(pxn ? node(from) * devicesPerNode + to % devicesPerNode : from,
                /*interNode=*/true);
  }
  /// Rate of one level, of a port and of a pair, where no link says otherwise
  /// and channels are enough.
  double levelBytesPerSecond(bool interNode) const {
    return (interNode ? interNodeGBps : intraNodeGBps) * 1e9;
  }
  /// The same from one device to another, links counted.
  double linkBytesPerSecond(int64_t from, int64_t to) const {
    for (size_t i = links.size(); i-- > 0;)
      if (fits(links[i].from, from) && fits(links[i].to, to))
        return links[i].GBps * 1e9;
    return levelBytesPerSecond(!sameNode(from, to));
  }
  /// What the channels of one pair carry at most.
  double channelsBytesPerSecond(bool interNode) const {
    return channelsPerPeer == 0
               ? std::numeric_limits<double>::infinity()
               : double(channelsPerPeer) *
                     (interNode ? interChannelGBps : intraChannelGBps) * 1e9;
  }
  /// Messages that a port carries at once, each way: one, or as many as fill
  /// it where the channels of a pair do not; three at most, so that a device's
  /// fit one kernel plan (KernelPlans.h).
  int64_t messagesPerPort(bool interNode) const {
    constexpr double kMost = 3;
    if (channelsPerPeer == 0)
      return 1;
    double filling =
        levelBytesPerSecond(interNode) / channelsBytesPerSecond(interNode);
    return int64_t(std::clamp(std::ceil(filling - 1e-9), 1.0, kMost));
  }
  /// Rate of a pair of one level where no link says otherwise.
  double bytesPerSecond(bool interNode) const {
    return std::min(levelBytesPerSecond(interNode),
                    channelsBytesPerSecond(interNode));
  }
  /// Rate from one device to another.
  double bytesPerSecond(int64_t from, int64_t to) const {
    return std::min(linkBytesPerSecond(from, to),
                    channelsBytesPerSecond(!sameNode(from, to)));
  }
  /// Rate of a port with as many messages at once as it carries.
  double portBytesPerSecond(bool interNode) const {
    return std::min(levelBytesPerSecond(interNode), channelsOfAPort(interNode));
  }
  /// The same where all of them are from one device to another.
  double portBytesPerSecond(int64_t from, int64_t to) const {
    return std::min(linkBytesPerSecond(from, to),
                    channelsOfAPort(!sameNode(from, to)));
  }
  /// Whether the messages that a device sends at once may leave by a NIC each.
  bool sendsByRails(bool interNode) const { return pxn && interNode; }
  /// Rate of the port of all that a device sends (sendPort).
  double sendBytesPerSecond(bool interNode) const {
    return sendsByRails(interNode)
               ? double(messagesPerPort(interNode)) * bytesPerSecond(interNode)
               : portBytesPerSecond(interNode);
  }
  double sendBytesPerSecond(int64_t from, int64_t to) const {
    bool inter = !sameNode(from, to);
    return sendsByRails(inter)
               ? double(messagesPerPort(inter)) * bytesPerSecond(from, to)
               : portBytesPerSecond(from, to);
  }
  /// Rate of the port by which a message leaves (nicOut), and of all that it
  /// carries: where senders are several, more messages at once than fill it.
  double nicOutBytesPerSecond(int64_t from, int64_t to) const {
    bool inter = !sameNode(from, to);
    return sendsByRails(inter) && messagesPerPort(inter) > 1
               ? linkBytesPerSecond(from, to)
               : portBytesPerSecond(from, to);
  }
  /// Whether each pair has the rate of its ports.
  bool pairsFillPorts() const { return links.empty() && channelsPerPeer == 0; }
  double latencySeconds() const { return latencyUs * 1e-6; }
  /// What a wave of one message takes beside its bytes.
  double waveSeconds() const { return (latencyUs + launchUs) * 1e-6; }
  /// Whether a library's calls may be faster than a ring.
  bool hasFastCalls() const { return multicastUs > 0 || copyEngineUs > 0; }
  /// What each round of forwards after the first adds at least. A library's
  /// ring has a latency for each, and one launch; its faster calls have no
  /// rounds.
  double roundSeconds() const {
    if (collectives == CollectiveChoice::Messages)
      return waveSeconds();
    return hasFastCalls() ? 0 : latencySeconds();
  }
  /// What anything that moves takes at least, beside its bytes.
  double leastWaveSeconds() const {
    double least = latencyUs;
    for (double us : {multicastUs, copyEngineUs})
      if (us > 0 && collectives != CollectiveChoice::Messages)
        least = std::min(least, us);
    return (least + launchUs) * 1e-6;
  }
  /// Seconds that a message is on the wire, without latency.
  double wireSeconds(int64_t from, int64_t to, int64_t bytes) const {
    return double(bytes) / bytesPerSecond(from, to);
  }
  /// What a message takes of the time of its ports; of that by which it leaves
  /// (nicOut).
  double portSeconds(int64_t from, int64_t to, int64_t bytes) const {
    return double(bytes) / portBytesPerSecond(from, to);
  }
  double nicOutSeconds(int64_t from, int64_t to, int64_t bytes) const {
    return double(bytes) / nicOutBytesPerSecond(from, to);
  }
  double packSeconds(int64_t bytes) const {
    return bytes == 0 ? 0
                      : packLaunchUs / 1e6 + double(bytes) / (packGBps * 1e9);
  }
  /// Why this is no cluster, in one sentence: a rate that is not above 0, NICs
  /// that devices of a node do not share evenly.
  std::optional<std::string> check() const;

private:
  double channelsOfAPort(bool interNode) const {
    return double(messagesPerPort(interNode)) *
           channelsBytesPerSecond(interNode);
  }
  bool fits(LinkEnd end, int64_t device) const {
    return end.index == (end.isNode ? node(device) : device);
  }
};

} // namespace dtrt

#endif // DTRT_COST_CLUSTER_H
