//===- Simulation.cpp - How long messages take ----------------------------===//

#include "dtrt/cost/Simulation.h"

#include "dtrt/cost/LinkRates.h"
#include "dtrt/types/DeviceIndex.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <unordered_map>
#include <utility>

namespace dtrt {

namespace {

/// When the lanes of one device are free.
struct Lanes {
  double started = 0;   // the last group
  double ended = 0;     // likewise
  double unpacked = 0;  // the group before the last
  double copy = 0;      // copy lane
  double copied = 0;    // what it copies on itself
  int64_t toUnpack = 0; // bytes of the last group
  int64_t toCopy = 0;   // before the next one
  int64_t beside = 0;   // beside the next one
};

/// What one device does in one wave.
struct Group {
  int64_t packBytes = 0, unpackBytes = 0;
  /// Whether it sends what the last group brought, and what of that is packed.
  bool forwards = false;
  int64_t forwardBytes = 0;
  double start = 0, begin = 0, end = 0;
  /// Of its ports, what its messages take, by level.
  double out[2] = {0, 0}, in[2] = {0, 0};
};

/// A NIC that several devices send by, or receive by.
struct SharedNic {
  double free = 0; // of the waves so far
  /// Of this wave, where its messages go at once: what they take together, and
  /// when the last one ends.
  double flows = 0, end = 0;
};

/// Who only wants to know how long it takes.
struct NoRecord {
  void copied(int64_t, Lane, double, double) {}
  void sent(const TimedMessage &, bool, double, double, double) {}
  void grouped(int64_t) {}
};

/// Writes all that happens into a timeline.
class Recorder {
public:
  Recorder(const Cluster &cluster, Timeline &timeline)
      : cluster(cluster), timeline(timeline) {}

  void copied(int64_t device, Lane which, double begin, double end) {
    lane(device, which).push_back({begin, end, end - begin});
  }
  void sent(const TimedMessage &message, bool inter, double begin, double end,
            double wire) {
    lane(message.source, inter ? Lane::NicOut : Lane::IslandOut)
        .push_back({begin, end, wire});
    lane(message.destination, inter ? Lane::NicIn : Lane::IslandIn)
        .push_back({begin, end, wire});
  }
  void grouped(int64_t device) {
    timeline.devices[device].latency += cluster.waveSeconds();
  }

private:
  std::vector<Span> &lane(int64_t device, Lane which) {
    return timeline.devices[device].lanes[size_t(which)];
  }

  const Cluster &cluster;
  Timeline &timeline;
};

/// Runs waves one after the other. Invariant: `lanes` say when each device has
/// done what it does of the waves so far, but for the last group's unpacks.
template <typename Record> class Simulation {
public:
  Simulation(const Cluster &cluster, Record record)
      : cluster(cluster), rates(cluster), record(record) {}

  void run(const std::vector<TimedMessage> &messages,
           const std::vector<TimedCopy> &copies) {
    size_t copied = 0;
    auto copyUntil = [&](int32_t wave) {
      for (; copied < copies.size() && copies[copied].wave <= wave; ++copied) {
        Lanes &lane = lanes[numberOf(copies[copied].device)];
        (copies[copied].isBeside ? lane.beside : lane.toCopy) +=
            copies[copied].bytes;
      }
    };
    const TimedMessage *end = messages.data() + messages.size();
    for (const TimedMessage *first = messages.data(); first != end;) {
      const TimedMessage *last = first;
      while (last != end && last->wave == first->wave)
        ++last;
      copyUntil(first->wave);
      runWave(first, last);
      first = last;
    }
    copyUntil(INT32_MAX);
    for (uint32_t number = 0; number < lanes.size(); ++number) {
      unpack(number);
      copy(number, lanes[number].toCopy, lanes[number].ended);
    }
  }

  /// When the last byte of a device is in place.
  double endOf(uint32_t number) const {
    const Lanes &lane = lanes[number];
    return std::max({lane.ended, lane.unpacked, lane.copied});
  }
  const std::vector<int64_t> &devices() const { return index.all(); }

private:
  uint32_t numberOf(int64_t device);
  Group &groupOf(int64_t device);
  void formGroups(const TimedMessage *first, const TimedMessage *last);
  double prepare(uint32_t number, const Group &group);
  double work(uint32_t number, Lane what, int64_t bytes, double earliest);
  void unpack(uint32_t number);
  void copy(uint32_t number, int64_t &bytes, double earliest);
  using Nics = std::array<SharedNic *, 2>; // out, in
  bool waitsForNics(bool inter) const;
  Nics nicsOf(const TimedMessage &message);
  void send(const TimedMessage &message);
  void freeNics(const TimedMessage *first, const TimedMessage *last);
  void runWave(const TimedMessage *first, const TimedMessage *last);

  const Cluster &cluster;
  const LinkRates rates;
  Record record;
  DeviceIndex index;
  std::vector<Lanes> lanes; // of devices by number, as are groups
  std::vector<Group> groups;
  /// By the device that stands for them.
  std::unordered_map<int64_t, SharedNic> nicOut, nicIn;
  std::vector<bool> isIn;       // the wave that is looked at
  std::vector<uint32_t> inWave; // those that are
};

template <typename Record>
uint32_t Simulation<Record>::numberOf(int64_t device) {
  uint32_t number = index(device);
  if (number == lanes.size()) {
    lanes.emplace_back();
    groups.emplace_back();
    isIn.push_back(false);
  }
  return number;
}

template <typename Record> Group &Simulation<Record>::groupOf(int64_t device) {
  uint32_t number = numberOf(device);
  if (!isIn[number]) {
    isIn[number] = true;
    inWave.push_back(number);
  }
  return groups[number];
}

/// The devices of a wave, and what they pack and unpack.
template <typename Record>
void Simulation<Record>::formGroups(const TimedMessage *first,
                                    const TimedMessage *last) {
  for (const TimedMessage *m = first; m != last; ++m) {
    Group &sender = groupOf(m->source);
    sender.forwards |= m->isForward;
    if (m->isPacked)
      (m->isForward ? sender.forwardBytes : sender.packBytes) +=
          m->packedBytes();
    bool inter = !cluster.sameNode(m->source, m->destination);
    Group &receiver = groupOf(m->destination);
    receiver.unpackBytes += m->isUnpacked ? m->bytes : 0;
    if (cluster.messagesPerPort(inter) == 1)
      continue;
    double port =
        double(m->bytes) / rates.portBytesPerSecond(m->source, m->destination);
    if (waitsForNics(inter)) {
      auto [out, in] = nicsOf(*m);
      out->flows += double(m->bytes) /
                    rates.nicOutBytesPerSecond(m->source, m->destination);
      in->flows += port;
      continue;
    }
    groupOf(m->source).out[inter] += port;
    receiver.in[inter] += port;
  }
}

/// Packs for the next group beside the last one, then unpacks the last. What
/// the last one brought is unpacked before it is packed. Returns when the next
/// group may start; what is copied beside it begins then.
template <typename Record>
double Simulation<Record>::prepare(uint32_t number, const Group &group) {
  Lanes &lane = lanes[number];
  double start = std::max({lane.ended, lane.unpacked, lane.copied});
  if (group.packBytes > 0) {
    work(number, Lane::Pack, group.packBytes, lane.started);
    start = std::max(start, lane.copy);
  }
  unpack(number);
  if (group.forwards || lane.toCopy > 0)
    start = std::max(start, lane.unpacked);
  copy(number, lane.toCopy, lane.ended);
  start = std::max(start, lane.copied);
  if (group.forwardBytes > 0) {
    work(number, Lane::Pack, group.forwardBytes, lane.ended);
    start = std::max(start, lane.copy);
  }
  copy(number, lane.beside, start);
  return start;
}

/// A device copies `bytes` as soon as it can, not before `earliest`; returns
/// when that ends.
template <typename Record>
double Simulation<Record>::work(uint32_t number, Lane what, int64_t bytes,
                                double earliest) {
  Lanes &lane = lanes[number];
  double begin = std::max(lane.copy, earliest);
  lane.copy = begin + cluster.packSeconds(bytes);
  record.copied(index.all()[number], what, begin, lane.copy);
  return lane.copy;
}

template <typename Record> void Simulation<Record>::unpack(uint32_t number) {
  Lanes &lane = lanes[number];
  if (int64_t bytes = std::exchange(lane.toUnpack, 0))
    lane.unpacked = work(number, Lane::Unpack, bytes, lane.ended);
}

template <typename Record>
void Simulation<Record>::copy(uint32_t number, int64_t &bytes,
                              double earliest) {
  if (int64_t count = std::exchange(bytes, 0))
    lanes[number].copied = work(number, Lane::Local, count, earliest);
}

template <typename Record>
bool Simulation<Record>::waitsForNics(bool inter) const {
  return inter && (cluster.devicesPerNic > 1 || cluster.pxn);
}

template <typename Record>
typename Simulation<Record>::Nics
Simulation<Record>::nicsOf(const TimedMessage &m) {
  return {&nicOut[cluster.nicOut(m.source, m.destination)],
          &nicIn[cluster.port(m.destination, true)]};
}

/// Where a NIC carries one message, those of a wave take turns on it; else they
/// go at once, and end when it has had time for all.
template <typename Record>
void Simulation<Record>::send(const TimedMessage &m) {
  bool inter = !cluster.sameNode(m.source, m.destination);
  double wire = double(m.bytes) / rates.bytesPerSecond(m.source, m.destination);
  Group &sender = groups[index(m.source)];
  Group &receiver = groups[index(m.destination)];
  double start = std::max(sender.start, receiver.start);
  bool takesTurns = cluster.messagesPerPort(inter) == 1;
  double flows = wire;
  if (!takesTurns)
    flows = std::max({wire, sender.out[inter], receiver.in[inter]});
  Nics nics = {};
  if (waitsForNics(inter)) {
    nics = nicsOf(m);
    start = std::max({start, nics[0]->free, nics[1]->free});
    flows = std::max({flows, nics[0]->flows, nics[1]->flows});
  }
  double end = start + m.steps * cluster.latencySeconds() + flows;
  for (SharedNic *nic : nics) {
    if (nic && takesTurns)
      nic->free = end;
    else if (nic)
      nic->end = std::max(nic->end, end);
  }
  record.sent(m, inter, start, end, wire);
  for (Group *group : {&sender, &receiver}) {
    group->begin = std::max(group->begin, start);
    group->end = std::max(group->end, end);
  }
}

/// After a wave whose messages went at once.
template <typename Record>
void Simulation<Record>::freeNics(const TimedMessage *first,
                                  const TimedMessage *last) {
  if (!waitsForNics(/*inter=*/true) || cluster.messagesPerPort(true) == 1)
    return;
  for (const TimedMessage *m = first; m != last; ++m)
    if (!cluster.sameNode(m->source, m->destination))
      for (SharedNic *nic : nicsOf(*m))
        *nic = {std::max(nic->free, nic->end)};
}

/// Runs the messages of one wave, [first, last).
template <typename Record>
void Simulation<Record>::runWave(const TimedMessage *first,
                                 const TimedMessage *last) {
  formGroups(first, last);
  for (uint32_t number : inWave) {
    Group &group = groups[number];
    group.start = group.begin =
        prepare(number, group) + cluster.launchUs * 1e-6;
  }
  for (const TimedMessage *m = first; m != last; ++m)
    send(*m);
  freeNics(first, last);
  for (uint32_t number : inWave) {
    Group &group = groups[number];
    Lanes &lane = lanes[number];
    lane.started = group.begin;
    lane.ended = group.end;
    lane.toUnpack = group.unpackBytes;
    group = Group();
    isIn[number] = false;
    record.grouped(index.all()[number]);
  }
  inWave.clear();
}

} // namespace

double predictSeconds(const std::vector<TimedMessage> &messages,
                      const Cluster &cluster,
                      const std::vector<TimedCopy> &copies) {
  Simulation<NoRecord> simulation(cluster, NoRecord());
  simulation.run(messages, copies);
  double latest = 0;
  for (uint32_t number = 0; number < simulation.devices().size(); ++number)
    latest = std::max(latest, simulation.endOf(number));
  return latest;
}

Timeline drawTimeline(const std::vector<TimedMessage> &messages,
                      const Cluster &cluster,
                      const std::vector<TimedCopy> &copies) {
  Timeline timeline;
  Simulation<Recorder> simulation(cluster, Recorder(cluster, timeline));
  simulation.run(messages, copies);
  const std::vector<int64_t> &devices = simulation.devices();
  for (uint32_t number = 0; number < devices.size(); ++number) {
    double end = simulation.endOf(number);
    timeline.devices[devices[number]].end = end;
    timeline.seconds = std::max(timeline.seconds, end);
  }
  return timeline;
}

PortSeconds busiestPorts(const std::vector<TimedMessage> &messages,
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
    portsOf(inter ? cluster.nicOut(m.source, m.destination) : m.source)
        .out[inter] += cluster.nicOutSeconds(m.source, m.destination, m.bytes);
    portsOf(cluster.port(m.destination, inter)).in[inter] +=
        cluster.portSeconds(m.source, m.destination, m.bytes);
  }
  double seconds[2] = {0, 0};
  for (const Port &port : ports)
    for (bool inter : {false, true})
      seconds[inter] =
          std::max({seconds[inter], port.in[inter], port.out[inter]});
  return {seconds[1], seconds[0]};
}

} // namespace dtrt
