//===- RailGather.cpp - All-gather by all NICs of a node ------------------===//

#include "dt/Routing/RailGather.h"

#include "NodeExchange.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace dt;

namespace {

/// A part has so many cells for each message that its holder sends inside: what
/// goes beside these is rounded to cells.
constexpr int64_t kCellsPerMessage = 16;
/// More slices to a part take too many rounds.
constexpr int64_t kMostSlices = 8;

/// A slice by its holder to all others; whole parts in the fewest rounds.
std::vector<int64_t> teamsFor(int64_t rails, bool isWhole) {
  return isWhole ? fewestTeams(rails) : std::vector<int64_t>{rails};
}

} // namespace

int64_t RailGather::usualCells() const {
  return kCellsPerMessage * (rails() - 1);
}

GatherCut RailGather::cutInto(int64_t cells, int64_t slices, int64_t firstCut,
                              bool halvesLast, double inside) const {
  GatherCut cut = {cells, {}, inside};
  for (int64_t away = 1; away < int64_t(nodes.size()); ++away) {
    int64_t count = away < firstCut ? 1 : std::min(slices, cells);
    std::vector<int64_t> &sizes = cut.slices.emplace_back();
    for (int64_t i = 0; i < count; ++i)
      sizes.push_back(cut.cells * (i + 1) / count - cut.cells * i / count);
  }
  int64_t &last = cut.slices.back().back();
  if (int64_t half = last / 2; halvesLast && half > 0) {
    last -= half;
    cut.slices.back().push_back(half);
  }
  return cut;
}

/// What is exchanged of the slices, one after the other.
std::vector<RailGather::Round>
RailGather::exchange(const GatherCut &cut) const {
  std::vector<Round> out;
  for (size_t away = 1; away <= cut.slices.size(); ++away) {
    int64_t begin = 0;
    for (int64_t slice : cut.slices[away - 1]) {
      int64_t step = 0, run = 1;
      for (int64_t team : teamsFor(rails(), slice == cut.cells)) {
        for (int64_t other = 1; other < team; ++other) {
          Round &round = out.emplace_back();
          round.from = int64_t(away);
          round.begin = begin;
          round.end = begin + slice;
          round.step = step++;
          round.parts = run;
        }
        run *= team;
      }
      begin += slice;
    }
  }
  return out;
}

/// In a round a device sends inside its node what may be exchanged next, or
/// else its own part to another. By its NIC as many cells go as take as long,
/// or more: so many that the slice which comes is there when nothing is left to
/// send inside.
std::vector<RailGather::Round> RailGather::rounds(const GatherCut &cut) const {
  std::vector<Round> all, inside = exchange(cut);
  size_t next = 0;
  int64_t own = rails() - 1, away = 1, came = 0; // of the parts so far away
  auto hasCome = [&](const Round &round) {
    return round.from < away || (round.from == away && round.end <= came);
  };
  auto others = int64_t(nodes.size()) - 1;
  while (away <= others || next < inside.size() || own > 0) {
    Round round;
    int64_t pending = own * cut.cells; // cells that may be sent inside
    size_t ready = next;
    for (; ready < inside.size() && hasCome(inside[ready]); ++ready)
      pending += inside[ready].cellsInside();
    if (ready > next) {
      round = inside[next++];
    } else if (own > 0) {
      round.from = 0;
      round.end = cut.cells;
      --own;
    }
    if (away <= others) {
      int64_t end = ready < inside.size() && inside[ready].from == away
                        ? inside[ready].end
                        : cut.cells;
      double beside = double(round.cellsInside());
      double most = std::max(beside / cut.inside,
                             pending == 0 ? double(end - came)
                                          : double(end - came) * beside /
                                                double(pending));
      auto cells = std::max<int64_t>(1, int64_t(std::round(most)));
      round.away = away;
      round.first = came;
      round.last = came = std::min(cut.cells, came + cells);
      if (came == cut.cells)
        ++away, came = 0;
    }
    all.push_back(round);
  }
  return all;
}

/// Inside all nodes, in the round of that number.
void RailGather::addInside(const GatherCut &cut, const Round &round,
                           int64_t number, std::vector<RailStep> &out) const {
  auto numNodes = int64_t(nodes.size());
  bool isWhole = round.end - round.begin == cut.cells;
  std::vector<int64_t> teams = teamsFor(rails(), isWhole);
  for (const ExchangeStep &step :
       NodeExchange{rails(), rails(), teams}.steps()) {
    if (step.round != round.step)
      continue;
    for (int64_t node = 0; node < numNodes; ++node) {
      int64_t from = (node + numNodes - round.from) % numNodes;
      int64_t cell = (from * rails() + step.rail) * cut.cells;
      out.push_back({cell + round.begin,
                     cell + (step.count - 1) * cut.cells + round.end, number,
                     nodes[node][step.from], nodes[node][step.to]});
    }
  }
}

bool RailGather::canGoByNode() const {
  bool isPower = (rails() & (rails() - 1)) == 0;
  return isPower && rails() >= 4 && int64_t(nodes.size()) <= rails();
}

/// What the devices of each node get of each other. Four devices:
///
///   round   0    1    2
///   to 0    1    3    2      parts, from 1, 2 and 3
std::vector<RailStep> RailGather::within() const {
  std::vector<RailStep> out;
  auto get = [&](int64_t place, int64_t from, int64_t first, int64_t count,
                 int64_t round) {
    for (size_t node = 0; node < nodes.size(); ++node) {
      int64_t part = int64_t(node) * rails() + first;
      out.push_back(
          {part, part + count, round, nodes[node][from], nodes[node][place]});
    }
  };
  int64_t round = 0;
  for (int64_t place = 0; place < rails(); ++place)
    get(place, place ^ 1, place ^ 1, 1, round);
  for (int64_t team = 2; team < rails(); team *= 2) {
    int64_t half = team / 2;
    for (int64_t other : {team, team + half}) {
      ++round;
      for (int64_t place = 0; place < rails(); ++place) {
        int64_t from = place ^ other;
        get(place, from, (from ^ half) / half * half, half, round);
      }
    }
  }
  return out;
}

/// The device at a node's place there: its own part, and all that it got.
std::vector<RailStep>
RailGather::between(const std::vector<RailStep> &within) const {
  std::vector<RailStep> out;
  auto numNodes = int64_t(nodes.size());
  std::map<int64_t, int64_t> peers; // by sender
  for (int64_t node = 0; node < numNodes; ++node)
    for (int64_t to = 0; to < numNodes; ++to)
      if (to != node) {
        int64_t part = node * rails() + to;
        peers[nodes[node][to]] = nodes[to][node];
        out.push_back({part, part + 1, 0, nodes[node][to], nodes[to][node]});
      }
  for (const RailStep &step : within)
    if (auto peer = peers.find(step.destination); peer != peers.end())
      out.push_back({step.first, step.last, step.round + 1, step.destination,
                     peer->second});
  return out;
}

/// Whole nodes' parts, of which the device at a node's place has that node's.
void RailGather::exchangeNodes(int64_t round,
                               std::vector<RailStep> &out) const {
  auto numNodes = int64_t(nodes.size());
  for (int64_t team = 1; team < rails(); team *= 2) {
    for (int64_t node = 0; node < numNodes; ++node)
      for (int64_t place = 0; place < rails(); ++place) {
        int64_t first = place / team * team;
        int64_t last = std::min(first + team, numNodes);
        auto send = [&](std::pair<int64_t, int64_t> run, int64_t later) {
          if (run.first < run.second)
            out.push_back({run.first * rails(), run.second * rails(),
                           round + later, nodes[node][place],
                           nodes[node][place ^ team]});
        };
        // Around its own, and more of them first.
        std::pair before(first, std::clamp(node, first, std::max(first, last)));
        std::pair behind(std::max(first, node + 1), last);
        if (before.second - before.first < behind.second - behind.first)
          std::swap(before, behind);
        send(before, 0);
        send(behind, 1);
      }
    // In two messages where a team is of three nodes or more.
    round += team > 2 ? 2 : 1;
  }
}

std::vector<RailStep> RailGather::byNode() const {
  std::vector<RailStep> out = within();
  int64_t round = out.back().round + 2;
  for (const RailStep &step : between(out))
    out.push_back(step);
  exchangeNodes(round, out);
  std::stable_sort(
      out.begin(), out.end(),
      [](const RailStep &a, const RailStep &b) { return a.round < b.round; });
  return out;
}

std::vector<RailStep> RailGather::steps(const GatherCut &cut) const {
  if (cut.slices.empty())
    return byNode();
  std::vector<RailStep> out;
  auto numNodes = int64_t(nodes.size());
  int64_t number = 0, own = 0;
  for (const Round &round : rounds(cut)) {
    for (int64_t node = 0; node < numNodes; ++node)
      for (int64_t rail = 0; rail < rails(); ++rail) {
        int64_t cell = (node * rails() + rail) * cut.cells;
        if (round.last > round.first)
          out.push_back({cell + round.first, cell + round.last, number,
                         nodes[node][rail],
                         nodes[(node + round.away) % numNodes][rail]});
        if (round.from == 0)
          out.push_back({cell, cell + cut.cells, number, nodes[node][rail],
                         nodes[node][(rail + 1 + own) % rails()]});
      }
    own += round.from == 0;
    if (round.from > 0)
      addInside(cut, round, number, out);
    ++number;
  }
  return out;
}

/// All devices do the same in each round.
double RailGather::seconds(const GatherCut &cut, double partBytes,
                           const Cluster &cluster) const {
  double cell = partBytes / double(cut.cells), out = 0;
  for (const Round &round : rounds(cut))
    out += cluster.waveSeconds() +
           cell * std::max(double(round.last - round.first) /
                               cluster.bytesPerSecond(/*interNode=*/true),
                           double(round.cellsInside()) /
                               cluster.bytesPerSecond(/*interNode=*/false));
  return out;
}

/// Each round is as long as its longest message.
double RailGather::secondsByNode(double partBytes,
                                 const Cluster &cluster) const {
  std::map<int64_t, double> longest; // by round
  for (const RailStep &step : byNode()) {
    double &seconds = longest[step.round];
    seconds = std::max(
        seconds, double(step.last - step.first) * partBytes /
                     cluster.bytesPerSecond(step.source, step.destination));
  }
  double sum = 0;
  for (auto [round, seconds] : longest)
    sum += cluster.waveSeconds() + seconds;
  return sum;
}

GatherCut RailGather::bestCut(int64_t partBytes, int64_t mostSteps,
                              int64_t cells, const Cluster &cluster) const {
  double inside = cluster.bytesPerSecond(/*interNode=*/false) /
                  cluster.bytesPerSecond(/*interNode=*/true);
  GatherCut best;
  double least = 0;
  auto judge = [&](int64_t slices, int64_t firstCut, bool halvesLast) {
    GatherCut cut = cutInto(cells, slices, firstCut, halvesLast, inside);
    int64_t steps =
        2 * int64_t(nodes.size()) * rails() * int64_t(rounds(cut).size());
    if (!best.slices.empty() && steps > mostSteps)
      return;
    double time = seconds(cut, double(partBytes), cluster);
    if (!best.slices.empty() && time >= least)
      return;
    best = cut;
    least = time;
  };
  judge(1, 1, false);
  // Of the last nodes: what more slices take in rounds the end does not gain.
  constexpr int64_t kMostCutNodes = 4;
  auto last = int64_t(nodes.size()) - 1;
  for (int64_t slices = 2; slices <= kMostSlices; ++slices)
    for (int64_t firstCut = last;
         firstCut > std::max<int64_t>(0, last - kMostCutNodes); --firstCut)
      for (bool halvesLast : {false, true})
        judge(slices, firstCut, halvesLast);
  if (canGoByNode() && secondsByNode(double(partBytes), cluster) < least)
    return {1, {}, inside};
  return best;
}
