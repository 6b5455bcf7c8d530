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

/// Bytes that a port, or a set of ports together, cannot avoid.
struct Demand {
  int64_t in = 0, out = 0;
};

class BoundsBuilder {
public:
  explicit BoundsBuilder(const Cluster &cluster) : cluster(cluster) {}

  /// Adds `bytes` held by `holders` and wanted by `wanters`, both sorted.
  void add(const std::vector<int64_t> &holders,
           const std::vector<int64_t> &wanters, int64_t bytes);
  Bounds finish() const;

private:
  void addNode(const std::vector<int64_t> &holders,
               const std::vector<int64_t> &lacking, int64_t bytes);

  const Cluster &cluster;
  Bounds bounds;
  std::map<int64_t, Demand> nic, island; // per device
  std::map<int64_t, Demand> nodeNic;     // per node, all NICs
  std::map<int64_t, std::set<int64_t>> nodeWanters;
  /// Bytes that some port of a set of devices must send, over all of them.
  std::map<std::vector<int64_t>, int64_t> nicSets, islandSets;
};

/// One node whose devices `lacking` want what they do not hold; `holders` are
/// those of the same node.
void BoundsBuilder::addNode(const std::vector<int64_t> &holders,
                            const std::vector<int64_t> &lacking,
                            int64_t bytes) {
  int64_t node = cluster.node(lacking.front());
  if (!holders.empty()) {
    // Crossing the network would be one crossing too many.
    for (int64_t device : lacking)
      island[device].in += bytes;
    islandSets[holders] += bytes;
    return;
  }
  bounds.interNodeBytes += bytes;
  nodeNic[node].in += bytes;
  nodeWanters[node].insert(lacking.begin(), lacking.end());
  if (lacking.size() == 1)
    nic[lacking.front()].in += bytes;
}

void BoundsBuilder::add(const std::vector<int64_t> &holders,
                        const std::vector<int64_t> &wanters, int64_t bytes) {
  std::map<int64_t, std::vector<int64_t>> lacking, holding; // by node
  for (int64_t device : holders)
    holding[cluster.node(device)].push_back(device);
  for (int64_t device : wanters)
    if (!std::binary_search(holders.begin(), holders.end(), device))
      lacking[cluster.node(device)].push_back(device);
  bounds.destinationBytes += bytes * int64_t(wanters.size());
  bool crosses = false;
  for (const auto &[node, devices] : lacking) {
    bounds.wireBytes += bytes * int64_t(devices.size());
    crosses |= !holding.count(node);
    addNode(holding[node], devices, bytes);
  }
  if (!crosses)
    return;
  nicSets[holders] += bytes;
}

Bounds BoundsBuilder::finish() const {
  Bounds out = bounds;
  auto atLeast = [&](double bytes, double rate) {
    out.seconds = std::max(out.seconds, bytes / rate);
  };
  double nicRate = cluster.interBytesPerSecond;
  double islandRate = cluster.intraBytesPerSecond;
  for (const auto &[device, demand] : nic)
    atLeast(demand.in, nicRate);
  for (const auto &[device, demand] : island)
    atLeast(demand.in, islandRate);
  for (const auto &[node, demand] : nodeNic)
    atLeast(demand.in, nicRate * nodeWanters.at(node).size());
  for (const auto &[devices, bytes] : nicSets)
    atLeast(bytes, nicRate * devices.size());
  for (const auto &[devices, bytes] : islandSets)
    atLeast(bytes, islandRate * devices.size());
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

PortSeconds dt::busiestPorts(const std::vector<ScheduledMove> &scheduled,
                             const std::vector<Flow> &flows,
                             const Cluster &cluster) {
  std::map<int64_t, Demand> ports[2]; // island, NIC
  for (const ScheduledMove &entry : scheduled) {
    const Move &move = entry.move;
    int64_t bytes = move.box.volume() * flows[move.flow].bytesPerElement;
    bool inter = !cluster.sameNode(move.source, move.destination);
    ports[inter][move.source].out += bytes;
    ports[inter][move.destination].in += bytes;
  }
  double seconds[2] = {0, 0};
  for (bool inter : {false, true})
    for (const auto &[device, demand] : ports[inter])
      seconds[inter] =
          std::max(seconds[inter], std::max(demand.in, demand.out) /
                                       cluster.bytesPerSecond(inter));
  return {seconds[1], seconds[0]};
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
