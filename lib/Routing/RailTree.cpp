//===- RailTree.cpp - A share of the data by each NIC of a node -----------===//

#include "dt/Routing/RailTree.h"

#include "NodeExchange.h"
#include "NodeScatter.h"
#include "dt/Routing/Circulant.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>

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
  RailCut last = {1, {1}, fewestTeams(rails())};
  return longestGather(last);
}

RailCut RailTree::cutInto(int64_t blocks, std::vector<int64_t> teams,
                          bool areEven) const {
  RailCut cut = {blocks, {}, std::move(teams)};
  int64_t size = std::max<int64_t>(1, longestGather(cut));
  int64_t groups = std::max<int64_t>(1, blocks / size);
  if (!areEven)
    groups = (blocks + size - 1) / size;
  for (int64_t number = 1; number <= groups; ++number)
    cut.ends.push_back(areEven ? blocks * number / groups
                               : blocks - (groups - number) * size);
  return cut;
}

RailTree::Span RailTree::group(const RailCut &cut, int64_t number) {
  return {number == 0 ? 0 : cut.ends[number - 1], cut.ends[number]};
}

int64_t RailTree::mostBlocks(const RailCut &cut) {
  int64_t most = 0;
  for (int64_t number = 0; number < cut.groups(); ++number) {
    Span blocks = group(cut, number);
    most = std::max(most, blocks.last - blocks.first);
  }
  return most;
}

int64_t RailTree::cellOf(const RailCut &cut, int64_t rail,
                         int64_t block) const {
  auto end = std::upper_bound(cut.ends.begin(), cut.ends.end(), block);
  auto [first, last] = group(cut, end - cut.ends.begin());
  return first * rails() + rail * (last - first) + block - first;
}

/// The last rails of a group wait longest for the scatter: they are those of
/// holders. Where rails are one block each, they all wait.
RailTree::Devices RailTree::sendersByRail(const RailCut &cut) const {
  auto lacks = [&](int64_t device) {
    return std::any_of(holding.begin(), holding.end(), [&](const auto &node) {
      return std::count(node.begin() + 1, node.end(), device) > 0;
    });
  };
  Devices out = senders;
  if (cut.blocks > 1)
    std::stable_partition(out.begin(), out.end(), lacks);
  return out;
}

/// Rounds until rails may go on one block after the other, all that they need
/// having come to their senders: until the last unit of a group has, but for
/// the holder's, to all who need it.
int64_t RailTree::start(const RailCut &cut) const {
  bool waits = false;
  for (const Devices &node : holding)
    for (size_t i = 1; i < node.size(); ++i)
      waits |= std::count(senders.begin(), senders.end(), node[i]) > 0;
  if (!waits)
    return 0;
  int64_t most = mostBlocks(cut);
  int64_t others = std::max<int64_t>(1, (rails() + most - 1) / most - 1);
  return (most * (rails() - 1) - 1) / rails() +
         CirculantBroadcast(1 + others).phase();
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
  for (int64_t number = 0; number < cut.groups(); ++number) {
    Span blocks = group(cut, number);
    for (const std::vector<int64_t> &rail : arrived)
      for (int64_t block = blocks.first; block < blocks.last; ++block)
        round = std::max(round, rail[block] + 1);
    gather(cut, nodes[node], blocks, round, out);
    round += gatherRounds(cut, nodes[node]);
  }
}

/// In a holder's node: units in the order in which their rails go on.
void RailTree::scatter(const RailCut &cut, const Devices &node,
                       std::map<int64_t, std::vector<int64_t>> &near,
                       std::vector<RailStep> &out) const {
  std::vector<std::vector<int64_t>> first(cut.blocks);
  Devices byRail = sendersByRail(cut);
  for (int64_t rail = 0; rail < rails(); ++rail) {
    auto sender = std::find(node.begin() + 1, node.end(), byRail[rail]);
    for (int64_t block = 0; sender != node.end() && block < cut.blocks;
         ++block) {
      std::vector<int64_t> &needs = first[cellOf(cut, rail, block) / rails()];
      if (needs.empty() || needs.back() != sender - node.begin())
        needs.push_back(sender - node.begin());
    }
  }
  for (const ScatterStep &step : scatterUnits(int64_t(node.size()), first)) {
    int64_t device = node[step.to];
    out.push_back({step.unit * rails(), (step.unit + 1) * rails(), step.round,
                   node[step.from], device});
    near[device].resize(cut.blocks);
    near[device][step.unit] = step.round + 1;
  }
}

std::vector<RailStep> RailTree::steps(const RailCut &cut) const {
  std::vector<RailStep> out;
  // The round after which a device of a holder's node has a unit, which is a
  // cell of each rail.
  std::map<int64_t, std::vector<int64_t>> near;
  for (const Devices &node : holding)
    scatter(cut, node, near, out);
  Devices byRail = sendersByRail(cut);
  CirculantBroadcast broadcast{int64_t(nodes.size()) + 1};
  std::vector<BlockReceipt> receipts = broadcast.receipts(cut.blocks);
  // By node, rail and block.
  std::vector<std::vector<std::vector<int64_t>>> arrived(
      nodes.size(), std::vector<std::vector<int64_t>>(
                        rails(), std::vector<int64_t>(cut.blocks)));
  for (int64_t rail = 0; rail < rails(); ++rail) {
    int64_t start = 0; // the sender sends block i in round i at the earliest
    if (auto came = near.find(byRail[rail]); came != near.end())
      for (int64_t block = 0; block < cut.blocks; ++block)
        start = std::max(
            start, came->second[cellOf(cut, rail, block) / rails()] - block);
    for (const BlockReceipt &receipt : receipts) {
      int64_t cell = cellOf(cut, rail, receipt.block);
      int64_t round = start + receipt.round;
      auto device = [&](int64_t number) {
        return number == 0 ? byRail[rail] : nodes[number - 1][rail];
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
    steps += cut.groups() * rails() * gatherRounds(cut, node);
  return steps;
}

/// While rails go on: a block on a NIC, or what goes inside nodes meanwhile, a
/// mean of the rounds of a gather. Takes the seconds of a cell on each level.
double RailTree::roundSeconds(const RailCut &cut, double outside,
                              double inside) const {
  if (!holding.empty())
    outside = std::max(outside, double(rails()) * inside);
  if (cut.groups() == 1)
    return outside;
  double size = double(cut.blocks) / double(cut.groups()), sum = 0;
  int64_t rounds = 0, run = 1;
  for (int64_t team : cut.teams) {
    sum += double(team - 1) * std::max(outside, size * double(run) * inside);
    rounds += team - 1;
    run *= team;
  }
  return sum / double(rounds);
}

/// The last gather has nothing beside it: its rounds are as long as its runs,
/// which are together what a device lacks of a group.
double RailTree::estimate(const RailCut &cut, double bytes,
                          const Cluster &cluster) const {
  double cell = bytes / double(cells(cut));
  double outside = cell / cluster.bytesPerSecond(/*interNode=*/true);
  double inside = cell / cluster.bytesPerSecond(/*interNode=*/false);
  int64_t gather = lastGather(), before = rounds(cut) - gather;
  Span last = group(cut, cut.groups() - 1);
  return double(before) *
             (cluster.waveSeconds() + roundSeconds(cut, outside, inside)) +
         double(gather) * cluster.waveSeconds() +
         double((last.last - last.first) * (rails() - 1)) * inside;
}

/// Each device goes on when its messages of a round have ended, as do its
/// peers.
double RailTree::seconds(const RailCut &cut, double bytes,
                         const Cluster &cluster) const {
  double cell = bytes / double(cells(cut)), last = 0;
  std::unordered_map<int64_t, double> before, ended; // by device
  int64_t round = 0;
  for (const RailStep &step : steps(cut)) {
    if (step.round != round)
      before = ended;
    round = step.round;
    double end = std::max(before[step.source], before[step.destination]) +
                 cluster.waveSeconds() +
                 double(step.last - step.first) * cell /
                     cluster.bytesPerSecond(step.source, step.destination);
    for (int64_t device : {step.source, step.destination})
      ended[device] = std::max(ended[device], end);
    last = std::max(last, end);
  }
  return last;
}

/// Estimated are all, and of each teams' the best are timed: what comes late
/// depends on how groups and rounds meet.
RailCut RailTree::bestCut(int64_t bytes, int64_t mostSteps,
                          const Cluster &cluster) const {
  constexpr int64_t kMostBlocks = 1024;
  constexpr size_t kTimed = 8;
  RailCut best;
  double least = std::numeric_limits<double>::infinity();
  auto time = [&](RailCut cut) {
    double timed = seconds(cut, double(bytes), cluster);
    if (timed >= least)
      return;
    least = timed;
    best = std::move(cut);
  };
  for (const std::vector<int64_t> &teams : teamsWorthTrying(rails())) {
    std::vector<std::pair<double, int64_t>> byEstimate; // and blocks
    for (int64_t blocks = 1; blocks <= kMostBlocks; ++blocks) {
      RailCut cut = cutInto(blocks, teams);
      if (blocks > 1 && numSteps(cut) > mostSteps)
        break;
      byEstimate.emplace_back(estimate(cut, double(bytes), cluster), blocks);
    }
    std::sort(byEstimate.begin(), byEstimate.end());
    byEstimate.resize(std::min(byEstimate.size(), kTimed));
    for (auto [estimated, blocks] : byEstimate)
      for (bool areEven : {false, true})
        time(cutInto(blocks, teams, areEven));
  }
  return best;
}
