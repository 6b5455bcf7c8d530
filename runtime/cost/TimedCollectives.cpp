//===- TimedCollectives.cpp - How long a library's collectives take -------===//

#include "dtrt/cost/TimedCollectives.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace dtrt {

namespace {

/// A ring's, or fewer where a switch or copy engines reach all of a node.
double stepsOf(const TimedCollective &collective, const Cluster &cluster) {
  const std::vector<int64_t> &members = collective.members;
  auto steps = double(members.size() - 1);
  if (!cluster.sameNode(members.front(), members.back()) ||
      cluster.latencyUs == 0)
    return steps;
  bool isMulticast = collective.kind != CollectiveKind::AllToAll;
  bool isCopied = collective.kind != CollectiveKind::Broadcast;
  if (isMulticast && cluster.multicastUs > 0)
    steps = std::min(steps, cluster.multicastUs / cluster.latencyUs);
  if (isCopied && cluster.copyEngineUs > 0)
    steps = std::min(steps, cluster.copyEngineUs / cluster.latencyUs);
  return steps;
}

class EdgeMaker {
public:
  EdgeMaker(const TimedCollective &collective, const Cluster &cluster,
            std::vector<TimedMessage> &out)
      : collective(collective), cluster(cluster), out(out),
        steps(stepsOf(collective, cluster)) {}

  void run() {
    switch (collective.kind) {
    case CollectiveKind::Broadcast:
      return chain();
    case CollectiveKind::AllGather:
      return ring();
    case CollectiveKind::AllToAll:
      return exchange();
    }
  }

private:
  TimedMessage &add(int64_t from, int64_t to, int64_t bytes) {
    TimedMessage &edge = out.emplace_back();
    edge.wave = collective.wave;
    edge.source = from;
    edge.destination = to;
    edge.bytes = bytes;
    edge.steps = steps;
    return edge;
  }

  /// From the root on, round.
  void chain() {
    std::vector<int64_t> order = collective.members;
    std::rotate(order.begin(),
                std::find(order.begin(), order.end(), collective.root),
                order.end());
    for (size_t i = 0; i + 1 < order.size(); ++i)
      add(order[i], order[i + 1], collective.blockBytes).isPacked = i == 0;
  }

  void ring() {
    const std::vector<int64_t> &members = collective.members;
    for (size_t i = 0; i < members.size(); ++i)
      add(members[i], members[(i + 1) % members.size()],
          int64_t(members.size() - 1) * collective.blockBytes)
          .packBytes = collective.blockBytes;
  }

  /// Inside a node to the next member there, for all of them; to another node
  /// to the member of the next one whose place is the sender's, or the last.
  void exchange() {
    std::map<int64_t, std::vector<int64_t>> nodes;
    for (int64_t member : collective.members)
      nodes[cluster.node(member)].push_back(member);
    for (auto node = nodes.begin(); node != nodes.end(); ++node) {
      auto next =
          std::next(node) == nodes.end() ? nodes.begin() : std::next(node);
      const std::vector<int64_t> &own = node->second;
      int64_t others = int64_t(collective.members.size() - own.size());
      for (size_t i = 0; i < own.size(); ++i) {
        if (own.size() > 1)
          add(own[i], own[(i + 1) % own.size()],
              int64_t(own.size() - 1) * collective.blockBytes);
        if (others > 0)
          add(own[i], next->second[std::min(i, next->second.size() - 1)],
              others * collective.blockBytes);
      }
    }
  }

  const TimedCollective &collective;
  const Cluster &cluster;
  std::vector<TimedMessage> &out;
  const double steps;
};

} // namespace

void addCollective(const TimedCollective &collective, const Cluster &cluster,
                   std::vector<TimedMessage> &messages) {
  EdgeMaker(collective, cluster, messages).run();
}

void sortMessages(std::vector<TimedMessage> &messages) {
  std::sort(messages.begin(), messages.end(),
            [](const TimedMessage &a, const TimedMessage &b) {
              return std::tie(a.wave, a.source, a.destination) <
                     std::tie(b.wave, b.source, b.destination);
            });
}

} // namespace dtrt
