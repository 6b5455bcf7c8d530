//===- CostModel.cpp - How long a schedule takes ------------------------===//

#include "dt/Routing/CostModel.h"

#include <algorithm>
#include <map>
#include <set>
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

/// Runs the messages of one wave, [first, last).
void runWave(const Message *first, const Message *last, const Cluster &cluster,
             std::unordered_map<int64_t, Lanes> &lanes) {
  struct Group {
    int64_t packBytes = 0, unpackBytes = 0;
    double start = 0, begin = 0, end = 0;
  };
  std::unordered_map<int64_t, Group> groups;
  for (const Message *m = first; m != last; ++m) {
    groups[m->source].packBytes += m->sendSlot == kDirect ? 0 : m->bytes;
    groups[m->destination].unpackBytes +=
        m->receiveSlot == kDirect ? 0 : m->bytes;
  }
  for (auto &[device, group] : groups)
    group.start = group.begin = lanes[device].prepare(group.packBytes);
  for (const Message *m = first; m != last; ++m) {
    Group &sender = groups[m->source], &receiver = groups[m->destination];
    double start = std::max(sender.start, receiver.start);
    double end = start + cluster.latencySeconds +
                 cluster.wireSeconds(m->source, m->destination, m->bytes);
    for (Group *group : {&sender, &receiver}) {
      group->begin = std::max(group->begin, start);
      group->end = std::max(group->end, end);
    }
  }
  for (const auto &[device, group] : groups) {
    Lanes &lane = lanes[device];
    lane.started = group.begin;
    lane.ended = group.end;
    lane.toUnpack = group.unpackBytes;
  }
}

} // namespace

double dt::predictSeconds(const std::vector<Message> &messages,
                          const Cluster &cluster) {
  std::unordered_map<int64_t, Lanes> lanes;
  const Message *end = messages.data() + messages.size();
  for (const Message *first = messages.data(); first != end;) {
    const Message *last = first;
    while (last != end && last->wave == first->wave)
      ++last;
    runWave(first, last, cluster, lanes);
    first = last;
  }
  double latest = 0;
  for (auto &[device, lane] : lanes) {
    lane.unpack();
    latest = std::max({latest, lane.ended, lane.unpacked});
  }
  return latest;
}

double dt::predictSeconds(const std::vector<ScheduledMove> &scheduled,
                          const std::vector<Flow> &flows,
                          const Cluster &cluster) {
  return predictSeconds(formMessages(scheduled, flows), cluster);
}

PortSeconds dt::busiestPorts(const std::vector<ScheduledMove> &scheduled,
                             const std::vector<Flow> &flows,
                             const Cluster &cluster) {
  std::map<int64_t, double> in[2], out[2]; // island, NIC
  for (const ScheduledMove &entry : scheduled) {
    const Move &move = entry.move;
    int64_t bytes = move.box.volume() * flows[move.flow].bytesPerElement;
    bool inter = !cluster.sameNode(move.source, move.destination);
    double seconds = cluster.wireSeconds(move.source, move.destination, bytes);
    out[inter][move.source] += seconds;
    in[inter][move.destination] += seconds;
  }
  double seconds[2] = {0, 0};
  for (bool inter : {false, true})
    for (const auto *side : {&in[inter], &out[inter]})
      for (auto [device, busy] : *side)
        seconds[inter] = std::max(seconds[inter], busy);
  return {seconds[1], seconds[0]};
}
