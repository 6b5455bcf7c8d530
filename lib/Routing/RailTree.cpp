//===- RailTree.cpp - A share of the data by each NIC of a node -----------===//

#include "dt/Routing/RailTree.h"

#include "FastestCut.h"
#include "NodeExchange.h"
#include "dt/Routing/Circulant.h"

#include <algorithm>
#include <map>

using namespace dt;

int64_t RailTree::gatherRounds(const RailCut &cut, const Devices &node) const {
  return NodeExchange{int64_t(node.size()), rails(), cut.teams}.rounds();
}

int64_t RailTree::longestGather(const RailCut &cut) const {
  int64_t rounds = 0;
  for (const Devices &node : nodes)
    rounds = std::max(rounds, gatherRounds(cut, node));
  return rounds;
}

/// The last group is gathered when nothing comes any more: in the fewest
/// rounds, however long their messages.
std::vector<int64_t> RailTree::teamsOf(const RailCut &cut, Span blocks) const {
  return blocks.last == cut.blocks ? fewestTeams(rails()) : cut.teams;
}

int64_t RailTree::lastGather() const {
  RailCut last = {1, 1, fewestTeams(rails())};
  return longestGather(last);
}

RailCut RailTree::cutInto(int64_t blocks, std::vector<int64_t> teams) const {
  RailCut cut = {blocks, 1, std::move(teams)};
  cut.groups =
      std::max<int64_t>(1, blocks / std::max<int64_t>(1, longestGather(cut)));
  return cut;
}

RailTree::Span RailTree::group(const RailCut &cut, int64_t number) {
  return {cut.blocks * number / cut.groups,
          cut.blocks * (number + 1) / cut.groups};
}

int64_t RailTree::cellOf(const RailCut &cut, int64_t rail,
                         int64_t block) const {
  // The last group that begins at or before the block.
  auto [first, last] = group(cut, ((block + 1) * cut.groups - 1) / cut.blocks);
  return first * rails() + rail * (last - first) + block - first;
}

/// Rounds until rails may go on one block after the other, all that they need
/// having come to their senders.
int64_t RailTree::start(const RailCut &cut) const {
  int64_t rounds = 0;
  for (const Devices &node : holding)
    for (size_t i = 1; i < node.size(); ++i)
      if (std::count(senders.begin(), senders.end(), node[i]))
        rounds = std::max(rounds, CirculantBroadcast(node.size()).phase());
  if (rounds == 0)
    return 0;
  int64_t most = (cut.blocks + cut.groups - 1) / cut.groups; // of a group
  return rounds + most * (rails() - 1) / rails();
}

int64_t RailTree::rounds(const RailCut &cut) const {
  int64_t near = 0;
  for (const Devices &node : holding)
    near = std::max(near, CirculantBroadcast(node.size()).rounds(cut.blocks));
  return std::max(near,
                  start(cut) +
                      CirculantBroadcast(nodes.size() + 1).rounds(cut.blocks) +
                      lastGather());
}

/// Blocks that came to all rails of a node, to all of its devices.
void RailTree::gather(const RailCut &cut, const Devices &node, Span blocks,
                      int64_t round, std::vector<RailStep> &out) const {
  std::vector<int64_t> teams = teamsOf(cut, blocks);
  NodeExchange exchange{int64_t(node.size()), rails(), teams};
  for (const ExchangeStep &step : exchange.steps()) {
    int64_t cell = cellOf(cut, step.rail, blocks.first);
    int64_t cells = step.count * (blocks.last - blocks.first);
    out.push_back({cell, cell + cells, round + step.round, node[step.from],
                   node[step.to]});
  }
}

/// `arrived`: the round in which each block came, by rail.
void RailTree::gatherNode(const RailCut &cut, size_t node,
                          const std::vector<std::vector<int64_t>> &arrived,
                          std::vector<RailStep> &out) const {
  int64_t round = 0;
  for (int64_t number = 0; number < cut.groups; ++number) {
    Span blocks = group(cut, number);
    for (const std::vector<int64_t> &rail : arrived)
      for (int64_t block = blocks.first; block < blocks.last; ++block)
        round = std::max(round, rail[block] + 1);
    gather(cut, nodes[node], blocks, round, out);
    round += gatherRounds(cut, nodes[node]);
  }
}

std::vector<RailStep> RailTree::steps(const RailCut &cut) const {
  std::vector<RailStep> out;
  // The round after which a device of a holder's node has a unit, which is a
  // cell of each rail.
  std::map<int64_t, std::vector<int64_t>> near;
  for (const Devices &node : holding) {
    CirculantBroadcast scatter{int64_t(node.size())};
    for (const BlockReceipt &unit : scatter.receipts(cut.blocks)) {
      int64_t device = node[unit.receiver];
      out.push_back({unit.block * rails(), (unit.block + 1) * rails(),
                     unit.round, node[unit.sender], device});
      near[device].resize(cut.blocks);
      near[device][unit.block] = unit.round + 1;
    }
  }
  CirculantBroadcast broadcast{int64_t(nodes.size()) + 1};
  std::vector<BlockReceipt> receipts = broadcast.receipts(cut.blocks);
  // By node, rail and block.
  std::vector<std::vector<std::vector<int64_t>>> arrived(
      nodes.size(), std::vector<std::vector<int64_t>>(
                        rails(), std::vector<int64_t>(cut.blocks)));
  for (int64_t rail = 0; rail < rails(); ++rail) {
    int64_t start = 0; // the sender sends block i in round i at the earliest
    if (auto came = near.find(senders[rail]); came != near.end())
      for (int64_t block = 0; block < cut.blocks; ++block)
        start = std::max(
            start, came->second[cellOf(cut, rail, block) / rails()] - block);
    for (const BlockReceipt &receipt : receipts) {
      int64_t cell = cellOf(cut, rail, receipt.block);
      int64_t round = start + receipt.round;
      auto device = [&](int64_t number) {
        return number == 0 ? senders[rail] : nodes[number - 1][rail];
      };
      out.push_back({cell, cell + 1, round, device(receipt.sender),
                     device(receipt.receiver)});
      arrived[receipt.receiver - 1][rail][receipt.block] = round;
    }
  }
  for (size_t node = 0; node < nodes.size(); ++node)
    gatherNode(cut, node, arrived[node], out);
  std::stable_sort(
      out.begin(), out.end(),
      [](const RailStep &a, const RailStep &b) { return a.round < b.round; });
  return out;
}

int64_t RailTree::numSteps(const RailCut &cut) const {
  int64_t steps = cut.blocks * rails() * int64_t(nodes.size());
  for (const Devices &node : holding)
    steps += cut.blocks * int64_t(node.size() - 1);
  for (const Devices &node : nodes)
    steps += cut.groups * rails() * gatherRounds(cut, node);
  return steps;
}

/// As long as rails go on, rounds are as long as a block on a NIC, or as what
/// goes inside nodes meanwhile; after that as long as the last gather's runs.
double RailTree::seconds(const RailCut &cut, double bytes,
                         const Cluster &cluster) const {
  double cell = bytes / double(cells(cut));
  double outside = cell / cluster.bytesPerSecond(/*interNode=*/true);
  double inside = cell / cluster.bytesPerSecond(/*interNode=*/false);
  auto [first, last] = group(cut, 0);
  double size = double(last - first);
  // Cells: of a gather's longest message, and of all that a device gets in one,
  // whatever its teams.
  double longest = size * double(rails() / cut.teams.back());
  double all = size * double(rails() - 1);
  double round = outside;
  if (cut.groups > 1)
    round = std::max(round, longest * inside);
  if (!holding.empty())
    round = std::max(round, double(rails()) * inside);
  int64_t gather = lastGather(), before = rounds(cut) - gather;
  return double(before) * (cluster.waveSeconds() + round) +
         double(gather) * cluster.waveSeconds() + all * inside;
}

RailCut RailTree::bestCut(int64_t bytes, int64_t mostSteps,
                          const Cluster &cluster) const {
  constexpr int64_t kMostBlocks = 1024;
  return fastestCut(
      rails(), kMostBlocks, mostSteps,
      [&](int64_t blocks, const std::vector<int64_t> &teams) {
        return cutInto(blocks, teams);
      },
      [&](const RailCut &cut) { return numSteps(cut); },
      [&](const RailCut &cut) { return seconds(cut, double(bytes), cluster); });
}
