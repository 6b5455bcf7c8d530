//===- CostModel.cpp - How long messages take -----------------------------===//

#include "dt/Cost/CostModel.h"

#include "dt/Cost/DeviceIndex.h"

#include <algorithm>
#include <unordered_map>

using namespace dt;

namespace {

//===----------------------------------------------------------------------===//
// Prediction
//===----------------------------------------------------------------------===//

/// When the lanes of one device are free.
struct Lanes {
  double started = 0;   // the last group
  double ended = 0;     // likewise
  double unpacked = 0;  // the group before the last
  double copy = 0;      // copy lane
  int64_t toUnpack = 0; // bytes of the last group

  /// Packs for the next group beside the last one, then unpacks the last.
  /// Returns when the next group may start.
  double prepare(int64_t packBytes) {
    double packed = std::max(copy, started) + packSeconds(packBytes);
    double start = std::max({ended, unpacked, packBytes ? packed : 0});
    copy = packBytes ? packed : copy;
    unpack();
    return start;
  }
  void unpack() {
    if (toUnpack > 0)
      copy = std::max(copy, ended) + packSeconds(toUnpack);
    unpacked = toUnpack > 0 ? copy : unpacked;
    toUnpack = 0;
  }
};

/// What one device does in one wave.
struct Group {
  int64_t packBytes = 0, unpackBytes = 0;
  double start = 0, begin = 0, end = 0;
};

/// Devices by number.
struct Timeline {
  DeviceIndex index;
  std::vector<Lanes> lanes;
  std::vector<Group> groups;
  /// When shared NICs are free, by the device that stands for them.
  std::unordered_map<int64_t, double> nicOut, nicIn;
  std::vector<bool> isIn;       // the wave that is looked at
  std::vector<uint32_t> inWave; // those that are
};

/// The devices of a wave, and what they pack and unpack.
void formGroups(const TimedMessage *first, const TimedMessage *last,
                Timeline &line) {
  auto groupOf = [&](int64_t device) -> Group & {
    uint32_t number = line.index(device);
    if (number == line.lanes.size()) {
      line.lanes.emplace_back();
      line.groups.emplace_back();
      line.isIn.push_back(false);
    }
    if (!line.isIn[number]) {
      line.isIn[number] = true;
      line.inWave.push_back(number);
    }
    return line.groups[number];
  };
  for (const TimedMessage *m = first; m != last; ++m) {
    groupOf(m->source).packBytes += m->isPacked ? m->bytes : 0;
    groupOf(m->destination).unpackBytes += m->isUnpacked ? m->bytes : 0;
  }
}

/// Runs the messages of one wave, [first, last).
void runWave(const TimedMessage *first, const TimedMessage *last,
             const Cluster &cluster, Timeline &line) {
  formGroups(first, last, line);
  for (uint32_t device : line.inWave) {
    Group &group = line.groups[device];
    group.start = group.begin = line.lanes[device].prepare(group.packBytes);
  }
  for (const TimedMessage *m = first; m != last; ++m) {
    Group &sender = line.groups[line.index(m->source)];
    Group &receiver = line.groups[line.index(m->destination)];
    double start = std::max(sender.start, receiver.start);
    bool waitsForNics = cluster.devicesPerNic > 1 &&
                        !cluster.sameNode(m->source, m->destination);
    if (waitsForNics)
      start = std::max({start, line.nicOut[cluster.port(m->source, true)],
                        line.nicIn[cluster.port(m->destination, true)]});
    double end = start + cluster.latencySeconds +
                 cluster.wireSeconds(m->source, m->destination, m->bytes);
    if (waitsForNics)
      line.nicOut[cluster.port(m->source, true)] =
          line.nicIn[cluster.port(m->destination, true)] = end;
    for (Group *group : {&sender, &receiver}) {
      group->begin = std::max(group->begin, start);
      group->end = std::max(group->end, end);
    }
  }
  for (uint32_t device : line.inWave) {
    Group &group = line.groups[device];
    Lanes &lane = line.lanes[device];
    lane.started = group.begin;
    lane.ended = group.end;
    lane.toUnpack = group.unpackBytes;
    group = Group();
    line.isIn[device] = false;
  }
  line.inWave.clear();
}

} // namespace

double dt::predictSeconds(const std::vector<TimedMessage> &messages,
                          const Cluster &cluster) {
  Timeline line;
  const TimedMessage *end = messages.data() + messages.size();
  for (const TimedMessage *first = messages.data(); first != end;) {
    const TimedMessage *last = first;
    while (last != end && last->wave == first->wave)
      ++last;
    runWave(first, last, cluster, line);
    first = last;
  }
  double latest = 0;
  for (Lanes &lane : line.lanes) {
    lane.unpack();
    latest = std::max({latest, lane.ended, lane.unpacked});
  }
  return latest;
}

PortSeconds dt::busiestPorts(const std::vector<TimedMessage> &messages,
                             const Cluster &cluster) {
  DeviceIndex index;
  struct Port {
    double in[2] = {0, 0}, out[2] = {0, 0}; // island, NIC
  };
  std::vector<Port> ports;
  auto portsOf = [&](int64_t device) -> Port & {
    uint32_t number = index(device);
    if (number == ports.size())
      ports.emplace_back();
    return ports[number];
  };
  for (const TimedMessage &m : messages) {
    bool inter = !cluster.sameNode(m.source, m.destination);
    double seconds = cluster.wireSeconds(m.source, m.destination, m.bytes);
    portsOf(cluster.port(m.source, inter)).out[inter] += seconds;
    portsOf(cluster.port(m.destination, inter)).in[inter] += seconds;
  }
  double seconds[2] = {0, 0};
  for (const Port &port : ports)
    for (bool inter : {false, true})
      seconds[inter] =
          std::max({seconds[inter], port.in[inter], port.out[inter]});
  return {seconds[1], seconds[0]};
}
