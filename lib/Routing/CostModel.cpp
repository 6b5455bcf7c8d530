//===- CostModel.cpp - How long a schedule takes, and must take -----------===//

#include "dt/Routing/CostModel.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

using namespace dt;

namespace {

struct TimedMessage {
  int64_t source, destination;
  double seconds;
};

/// Runs one wave: all its groups start from the clocks before it.
void runWave(const std::vector<TimedMessage> &messages,
             std::unordered_map<int64_t, double> &clock) {
  std::unordered_map<int64_t, double> end;
  for (const TimedMessage &message : messages) {
    double start =
        std::max(clock[message.source], clock[message.destination]);
    for (int64_t device : {message.source, message.destination})
      end[device] = std::max(end[device], start + message.seconds);
  }
  for (auto [device, time] : end)
    clock[device] = time;
}

/// Bytes into and out of a device or a node that no algorithm can avoid.
struct Demand {
  int64_t in = 0, out = 0;
};

class BoundsBuilder {
public:
  explicit BoundsBuilder(const Cluster &cluster) : cluster(cluster) {}

  /// Adds `bytes` held by `holders` and wanted by `wanters`.
  void add(const std::vector<int64_t> &holders,
           const std::vector<int64_t> &wanters, int64_t bytes);
  Bounds finish() const;

private:
  const Cluster &cluster;
  Bounds bounds;
  std::map<int64_t, Demand> devices, nodes;
};

void BoundsBuilder::add(const std::vector<int64_t> &holders,
                        const std::vector<int64_t> &wanters, int64_t bytes) {
  std::set<int64_t> holderNodes, wantingNodes;
  for (int64_t device : holders)
    holderNodes.insert(cluster.node(device));
  bool leavesDevice = false;
  for (int64_t device : wanters) {
    if (std::binary_search(holders.begin(), holders.end(), device))
      continue;
    leavesDevice = true;
    devices[device].in += bytes;
    bounds.wireBytes += bytes;
    if (!holderNodes.count(cluster.node(device)))
      wantingNodes.insert(cluster.node(device));
  }
  for (int64_t node : wantingNodes)
    nodes[node].in += bytes;
  bounds.interNodeBytes += bytes * int64_t(wantingNodes.size());
  if (leavesDevice && holders.size() == 1)
    devices[holders.front()].out += bytes;
  if (!wantingNodes.empty() && holderNodes.size() == 1)
    nodes[*holderNodes.begin()].out += bytes;
}

Bounds BoundsBuilder::finish() const {
  Bounds out = bounds;
  double devicePort = cluster.intraBytesPerSecond + cluster.interBytesPerSecond;
  double nodePort = cluster.interBytesPerSecond * cluster.devicesPerNode;
  for (const auto &[device, demand] : devices)
    out.seconds =
        std::max(out.seconds, std::max(demand.in, demand.out) / devicePort);
  for (const auto &[node, demand] : nodes)
    out.seconds =
        std::max(out.seconds, std::max(demand.in, demand.out) / nodePort);
  if (out.seconds > 0)
    out.seconds += cluster.latencySeconds;
  return out;
}

} // namespace

double dt::predictSeconds(const std::vector<ScheduledMove> &scheduled,
                          const std::vector<Flow> &flows,
                          const Cluster &cluster) {
  std::unordered_map<int64_t, double> clock;
  double last = 0;
  for (size_t i = 0; i < scheduled.size();) {
    std::vector<TimedMessage> wave;
    int32_t number = scheduled[i].wave;
    while (i < scheduled.size() && scheduled[i].wave == number) {
      const Move &first = scheduled[i].move;
      int64_t bytes = 0;
      for (; i < scheduled.size() && scheduled[i].wave == number &&
             scheduled[i].move.source == first.source &&
             scheduled[i].move.destination == first.destination;
           ++i)
        bytes += scheduled[i].move.box.volume() *
                 flows[scheduled[i].move.flow].bytesPerElement;
      bool inter = !cluster.sameNode(first.source, first.destination);
      wave.push_back({first.source, first.destination,
                      cluster.latencySeconds +
                          bytes / cluster.bytesPerSecond(inter)});
    }
    runWave(wave, clock);
  }
  for (auto [device, time] : clock)
    last = std::max(last, time);
  return last;
}

Bounds dt::computeBounds(const std::vector<Flow> &flows,
                         const Cluster &cluster) {
  BoundsBuilder builder(cluster);
  for (const Flow &flow : flows) {
    std::map<std::pair<uint32_t, uint32_t>, int64_t> volumes;
    for (const CellPair &pair :
         join(flow.source.cells, flow.destination.cells))
      volumes[{flow.source.cells[pair.left].owners,
               flow.destination.cells[pair.right].owners}] +=
          pair.box.volume();
    for (auto [owners, volume] : volumes)
      builder.add(flow.source.ownerSets[owners.first],
                  flow.destination.ownerSets[owners.second],
                  volume * flow.bytesPerElement);
  }
  return builder.finish();
}
