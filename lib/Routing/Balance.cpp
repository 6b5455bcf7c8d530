//===- Balance.cpp - Relief for the busiest senders -----------------------===//

#include "Balance.h"

#include <algorithm>
#include <map>
#include <queue>

using namespace dt;

namespace {

/// Sends that differ by less than this factor count as equally long.
constexpr double kAlike = 1.05;

using PortKey = std::pair<bool, int64_t>; // between nodes, Cluster::port

class Balancer {
public:
  Balancer(const std::vector<Flow> &flows, const Cluster &cluster,
           const PortsInUse &used, std::vector<Move> &moves);

  void run(double budget);

private:
  /// How the search came to a port: `send` would move there from `from`, to
  /// this device.
  struct Step {
    PortKey from;
    uint32_t send = 0;
    int64_t device = 0;
  };

  PortKey portOf(int64_t source, int64_t destination) const {
    bool inter = !cluster.sameNode(source, destination);
    return {inter, inter ? cluster.nicOut(source, destination) : source};
  }
  double seconds(const Move &move, int64_t source) const {
    return cluster.portSeconds(source, move.destination,
                               move.box.volume() *
                                   flows[move.flow].bytesPerElement);
  }
  bool relieve(PortKey busiest);
  bool visit(PortKey port, PortKey busiest, std::map<PortKey, Step> &steps,
             std::queue<PortKey> &open);
  void apply(PortKey last, PortKey busiest,
             const std::map<PortKey, Step> &steps);

  const std::vector<Flow> &flows;
  const Cluster &cluster;
  const std::vector<MovableSend> &sends;
  std::vector<Move> &moves;
  std::map<PortKey, double> loads;
  std::map<PortKey, std::vector<uint32_t>> sendsOf;
};

Balancer::Balancer(const std::vector<Flow> &flows, const Cluster &cluster,
                   const PortsInUse &used, std::vector<Move> &moves)
    : flows(flows), cluster(cluster), sends(used.sends), moves(moves) {
  if (used.around)
    for (const TimedMessage &message : *used.around)
      loads[portOf(message.source, message.destination)] += cluster.portSeconds(
          message.source, message.destination, message.bytes);
  for (const Move &move : moves)
    loads[portOf(move.source, move.destination)] += seconds(move, move.source);
  for (uint32_t i = 0; i < sends.size(); ++i) {
    const Move &move = moves[sends[i].move];
    sendsOf[portOf(move.source, move.destination)].push_back(i);
  }
}

/// Looks at the sends of a port. True: one of them fits on a port that stays
/// below the busiest; its step is in `steps` and it is the last of `open`.
bool Balancer::visit(PortKey port, PortKey busiest,
                     std::map<PortKey, Step> &steps,
                     std::queue<PortKey> &open) {
  double most = loads[busiest] * (1 - 1e-9), gained = 0;
  if (port != busiest) {
    const Step &step = steps[port];
    gained = seconds(moves[sends[step.send].move], step.device);
  }
  for (uint32_t send : sendsOf[port]) {
    const Move &move = moves[sends[send].move];
    // Pieces are cut alike but for an element: a port that passes one on for
    // another stays where it is.
    double passed = seconds(move, move.source) * kAlike;
    if (port != busiest && loads[port] + gained - passed >= most)
      continue;
    for (int64_t holder : *sends[send].holders) {
      PortKey other = portOf(holder, move.destination);
      if (other.first != port.first || other == busiest ||
          !steps.try_emplace(other, Step{port, send, holder}).second)
        continue;
      open.push(other);
      if (loads[other] + seconds(move, holder) < most) {
        while (open.front() != other)
          open.pop();
        return true;
      }
    }
  }
  return false;
}

void Balancer::apply(PortKey last, PortKey busiest,
                     const std::map<PortKey, Step> &steps) {
  for (PortKey to = last; to != busiest;) {
    const Step &step = steps.at(to);
    Move &move = moves[sends[step.send].move];
    loads[step.from] -= seconds(move, move.source);
    loads[to] += seconds(move, step.device);
    move.source = step.device;
    std::vector<uint32_t> &before = sendsOf[step.from];
    before.erase(std::find(before.begin(), before.end(), step.send));
    sendsOf[to].push_back(step.send);
    to = step.from;
  }
}

/// Breadth first from the busiest port. False: it cannot be relieved.
bool Balancer::relieve(PortKey busiest) {
  std::map<PortKey, Step> steps;
  std::queue<PortKey> open({busiest});
  while (!open.empty()) {
    PortKey port = open.front();
    open.pop();
    if (!visit(port, busiest, steps, open))
      continue;
    apply(open.front(), busiest, steps);
    return true;
  }
  return false;
}

void Balancer::run(double budget) {
  // Each round lowers the busiest port; few are needed after a greedy start.
  constexpr int kMostRounds = 4096;
  for (int round = 0; round < kMostRounds; ++round) {
    auto busiest = std::max_element(
        loads.begin(), loads.end(),
        [](const auto &a, const auto &b) { return a.second < b.second; });
    if (busiest == loads.end() || busiest->second <= budget ||
        !relieve(busiest->first))
      return;
  }
}

} // namespace

void dt::balanceSenders(const std::vector<Flow> &flows, const Cluster &cluster,
                        const PortsInUse &used, double budget,
                        std::vector<Move> &moves) {
  Balancer(flows, cluster, used, moves).run(budget);
}
