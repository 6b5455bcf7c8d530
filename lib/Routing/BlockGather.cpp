//===- BlockGather.cpp - All-gather on rails by equal blocks --------------===//

#include "dt/Routing/BlockGather.h"

#include "NodeExchange.h"

#include <algorithm>
#include <limits>

using namespace dt;

namespace {

/// Messages that so many blocks of so many parts are: none has more cells than
/// what comes of all rails in a round.
int64_t messagesOf(int64_t parts, const BlockCut &cut, int64_t rails) {
  return (parts * cut.blocks + rails - 1) / rails;
}

} // namespace

int64_t BlockGather::exchangeRounds(const BlockCut &cut) const {
  int64_t rounds = 0, run = 1;
  for (int64_t team : cut.teams) {
    rounds += (team - 1) * messagesOf(run, cut, rails());
    run *= team;
  }
  return rounds;
}

/// Inside a node: what came from another.
void BlockGather::exchange(const BlockCut &cut, int64_t node, int64_t from,
                           int64_t round, std::vector<RailStep> &out) const {
  const Devices &devices = nodes[node];
  int64_t before = -1, messages = 0;
  for (const ExchangeStep &step :
       NodeExchange{rails(), rails(), cut.teams}.steps()) {
    if (step.round != before)
      round += messages;
    before = step.round;
    messages = messagesOf(step.count, cut, rails());
    int64_t first = (from * rails() + step.rail) * cut.blocks;
    int64_t cells = step.count * cut.blocks;
    for (int64_t i = 0; i < messages; ++i)
      out.push_back({first + cells * i / messages,
                     first + cells * (i + 1) / messages, round + i,
                     devices[step.from], devices[step.to]});
  }
}

std::vector<RailStep> BlockGather::steps(const BlockCut &cut) const {
  std::vector<RailStep> out;
  auto numNodes = int64_t(nodes.size());
  auto forEachDevice = [&](auto fn) {
    for (int64_t node = 0; node < numNodes; ++node)
      for (int64_t rail = 0; rail < rails(); ++rail)
        fn(node, rail, (node * rails() + rail) * cut.blocks);
  };
  forEachDevice([&](int64_t node, int64_t rail, int64_t cell) {
    for (int64_t away = 1; away < rails(); ++away)
      out.push_back({cell, cell + cut.blocks, away - 1, nodes[node][rail],
                     nodes[node][(rail + away) % rails()]});
  });
  int64_t free = 0; // the round in which nothing is exchanged any more
  for (int64_t away = 1; away < numNodes; ++away) {
    int64_t begin = (away - 1) * cut.blocks;
    forEachDevice([&](int64_t node, int64_t rail, int64_t cell) {
      for (int64_t block = 0; block < cut.blocks; ++block)
        out.push_back({cell + block, cell + block + 1, begin + block,
                       nodes[node][rail],
                       nodes[(node + away) % numNodes][rail]});
    });
    free = std::max(free, begin + cut.blocks);
    for (int64_t node = 0; node < numNodes; ++node)
      exchange(cut, node, (node + numNodes - away) % numNodes, free, out);
    free += exchangeRounds(cut);
  }
  std::stable_sort(
      out.begin(), out.end(),
      [](const RailStep &a, const RailStep &b) { return a.round < b.round; });
  return out;
}

int64_t BlockGather::numSteps(const BlockCut &cut) const {
  auto others = int64_t(nodes.size()) - 1;
  return int64_t(nodes.size()) * rails() *
         (rails() - 1 + others * (cut.blocks + exchangeRounds(cut)));
}

/// While parts come, rounds are as long as a block on a NIC, or as what goes
/// inside nodes meanwhile; one exchange is behind that, and what inside nodes
/// takes more rounds than between them.
double BlockGather::seconds(const BlockCut &cut, double partBytes,
                            const Cluster &cluster) const {
  auto others = int64_t(nodes.size()) - 1;
  double cell = partBytes / double(cut.blocks);
  double outside = cell / cluster.bytesPerSecond(/*interNode=*/true);
  double inside = cell / cluster.bytesPerSecond(/*interNode=*/false);
  double longest = 0;
  int64_t run = 1;
  for (int64_t team : cut.teams) {
    longest = std::max(longest, double(run * cut.blocks) /
                                    double(messagesOf(run, cut, rails())));
    run *= team;
  }
  longest *= inside;
  int64_t exchange = exchangeRounds(cut), between = others * cut.blocks;
  int64_t within = rails() - 1 + others * exchange;
  int64_t more = std::max<int64_t>(0, within - between - exchange);
  return double(between) *
             (cluster.waveSeconds() + std::max(outside, longest)) +
         double(exchange) * cluster.waveSeconds() +
         double((rails() - 1) * cut.blocks) * inside +
         double(more) * (cluster.waveSeconds() + longest);
}

BlockCut BlockGather::bestCut(int64_t partBytes, int64_t mostSteps,
                              const Cluster &cluster) const {
  constexpr int64_t kMostBlocks = 256;
  BlockCut best;
  double least = std::numeric_limits<double>::infinity();
  for (const std::vector<int64_t> &teams : teamsWorthTrying(rails()))
    for (int64_t blocks = 1; blocks <= kMostBlocks; ++blocks) {
      BlockCut cut = {blocks, teams};
      if (blocks > 1 && numSteps(cut) > mostSteps)
        break;
      double time = seconds(cut, double(partBytes), cluster);
      if (time >= least)
        continue;
      best = cut;
      least = time;
    }
  return best;
}
