//===- ExpertPlacement.cpp - Experts to ranks, by their load --------------===//

#include "dt/Advise/ExpertPlacement.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace dt::advise {

namespace {

/// EPLB's balanced_packing: equally many items in each pack, the heaviest item
/// first, to the lightest pack that has room.
std::vector<int64_t> pack(const std::vector<int64_t> &weight, int64_t packs) {
  size_t room = weight.size() / packs;
  std::vector<size_t> order(weight.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return weight[a] > weight[b]; });
  std::vector<int64_t> packOf(weight.size()), load(packs, 0);
  std::vector<size_t> count(packs, 0);
  for (size_t item : order) {
    int64_t best = -1;
    for (int64_t p = 0; p < packs; ++p)
      if (count[p] < room && (best < 0 || load[p] < load[best]))
        best = p;
    packOf[item] = best;
    load[best] += weight[item];
    ++count[best];
  }
  return packOf;
}

std::vector<int64_t> todays(const ExpertProblem &problem) {
  if (!problem.rankOf.empty())
    return problem.rankOf;
  int64_t perRank = int64_t(problem.load.size()) / problem.ranks;
  std::vector<int64_t> rankOf;
  for (size_t expert = 0; expert < problem.load.size(); ++expert)
    rankOf.push_back(int64_t(expert) / perRank);
  return rankOf;
}

ExpertPlacement placementOf(const ExpertProblem &problem,
                            std::vector<int64_t> rankOf) {
  std::vector<int64_t> load(problem.ranks, 0), today = todays(problem);
  ExpertPlacement out;
  for (size_t expert = 0; expert < rankOf.size(); ++expert) {
    load[rankOf[expert]] += problem.load[expert];
    if (rankOf[expert] != today[expert])
      out.movedBytes += problem.bytesPerExpert;
  }
  out.heaviest = *std::max_element(load.begin(), load.end());
  out.rankOf = std::move(rankOf);
  return out;
}

/// Node of each expert by EPLB's first step; all 0 where the groups do not
/// divide over the nodes, as EPLB's global policy has it.
std::vector<int64_t> packNodes(const ExpertProblem &problem, int64_t nodes) {
  int64_t size = int64_t(problem.load.size()) / problem.groups;
  std::vector<int64_t> weight(problem.groups, 0);
  for (size_t expert = 0; expert < problem.load.size(); ++expert)
    weight[expert / size] += problem.load[expert];
  std::vector<int64_t> nodeOfGroup = pack(weight, nodes), out;
  for (size_t expert = 0; expert < problem.load.size(); ++expert)
    out.push_back(nodeOfGroup[expert / size]);
  return out;
}

/// Overlap with today's placement, packs by places.
std::vector<std::vector<int64_t>> overlaps(const std::vector<int64_t> &packOf,
                                           const std::vector<int64_t> &place,
                                           int64_t n) {
  std::vector<std::vector<int64_t>> gain(n, std::vector<int64_t>(n, 0));
  for (size_t i = 0; i < packOf.size(); ++i)
    if (place[i] >= 0 && place[i] < n)
      ++gain[packOf[i]][place[i]];
  return gain;
}

/// Swaps two experts of the heaviest rank and another, the best pair each time,
/// while that helps and the budget lasts.
class Swaps {
public:
  Swaps(const ExpertProblem &problem, std::vector<int64_t> start)
      : problem(problem), today(todays(problem)), rankOf(std::move(start)),
        load(problem.ranks, 0) {
    for (size_t e = 0; e < rankOf.size(); ++e) {
      load[rankOf[e]] += problem.load[e];
      moved += rankOf[e] != today[e];
    }
  }

  std::vector<int64_t> run() {
    // Each swap lowers the sum of squares of the loads: this ends.
    while (swapOnce()) {
    }
    return rankOf;
  }

private:
  struct Pair {
    size_t a = 0, b = 0;
    int64_t most = INT64_MAX; // load of the heavier of both ranks
    int64_t moved = 0;
  };
  int64_t movedAfter(size_t a, size_t b) const {
    int64_t after = moved;
    after += (rankOf[b] != today[a]) - (rankOf[a] != today[a]);
    after += (rankOf[a] != today[b]) - (rankOf[b] != today[b]);
    return after;
  }
  bool swapOnce() {
    int64_t heavy = std::max_element(load.begin(), load.end()) - load.begin();
    Pair best;
    for (size_t a = 0; a < rankOf.size(); ++a)
      for (size_t b = 0; rankOf[a] == heavy && b < rankOf.size(); ++b) {
        int64_t gain = problem.load[a] - problem.load[b];
        if (rankOf[b] == heavy || gain <= 0)
          continue;
        int64_t most = std::max(load[heavy] - gain, load[rankOf[b]] + gain);
        int64_t after = movedAfter(a, b);
        if (most >= load[heavy] || after > problem.budget / bytes())
          continue;
        if (most < best.most || (most == best.most && after < best.moved))
          best = {a, b, most, after};
      }
    if (best.most == INT64_MAX)
      return false;
    int64_t gain = problem.load[best.a] - problem.load[best.b];
    load[rankOf[best.a]] -= gain;
    load[rankOf[best.b]] += gain;
    std::swap(rankOf[best.a], rankOf[best.b]);
    moved = best.moved;
    return true;
  }
  int64_t bytes() const { return std::max<int64_t>(1, problem.bytesPerExpert); }

  const ExpertProblem &problem;
  std::vector<int64_t> today, rankOf, load;
  int64_t moved = 0;
};

} // namespace

std::vector<int64_t>
bestAssignment(const std::vector<std::vector<int64_t>> &gain) {
  // Shortest augmenting paths with potentials, on costs -gain; 1-based.
  size_t n = gain.size();
  std::vector<int64_t> u(n + 1, 0), v(n + 1, 0);
  std::vector<size_t> row(n + 1, 0), way(n + 1, 0);
  for (size_t i = 1; i <= n; ++i) {
    std::vector<int64_t> least(n + 1, INT64_MAX);
    std::vector<bool> used(n + 1, false);
    size_t column = 0;
    row[0] = i;
    do {
      used[column] = true;
      size_t next = 0;
      int64_t delta = INT64_MAX;
      for (size_t j = 1; j <= n; ++j) {
        if (used[j])
          continue;
        int64_t cost = -gain[row[column] - 1][j - 1] - u[row[column]] - v[j];
        if (cost < least[j]) {
          least[j] = cost;
          way[j] = column;
        }
        if (least[j] < delta) {
          delta = least[j];
          next = j;
        }
      }
      for (size_t j = 0; j <= n; ++j)
        if (used[j]) {
          u[row[j]] += delta;
          v[j] -= delta;
        } else if (least[j] != INT64_MAX) {
          least[j] -= delta;
        }
      column = next;
    } while (row[column] != 0);
    for (; column != 0; column = way[column])
      row[column] = row[way[column]];
  }
  std::vector<int64_t> out(n, 0);
  for (size_t j = 1; j <= n; ++j)
    out[row[j] - 1] = int64_t(j) - 1;
  return out;
}

bool check(const ExpertProblem &problem, std::string &error) {
  error.clear();
  auto text = [](int64_t n) { return std::to_string(n); };
  int64_t experts = int64_t(problem.load.size());
  int64_t sum = 0;
  bool fits = true;
  for (int64_t load : problem.load)
    fits &= load >= 0 && !__builtin_add_overflow(sum, load, &sum);
  if (!fits)
    error = "loads are negative or add up to more than 2^63";
  else if (problem.ranks < 1 || experts == 0 || experts % problem.ranks != 0)
    error = text(experts) + " experts do not divide by " + text(problem.ranks) +
            " ranks";
  else if (problem.nodes < 1 || problem.ranks % problem.nodes != 0)
    error = text(problem.ranks) + " ranks do not divide by " +
            text(problem.nodes) + " nodes";
  else if (problem.groups < 1 || experts % problem.groups != 0)
    error = text(experts) + " experts do not divide by " +
            text(problem.groups) + " groups";
  else if (problem.bytesPerExpert < 0 || problem.budget < 0)
    error = "bytes are negative";
  if (!error.empty() || problem.rankOf.empty())
    return error.empty();
  std::vector<int64_t> count(problem.ranks, 0);
  for (int64_t rank : problem.rankOf)
    if (rank < 0 || rank >= problem.ranks)
      error = "rankOf names rank " + text(rank) + " of " + text(problem.ranks);
    else
      ++count[rank];
  if (int64_t(problem.rankOf.size()) != experts)
    error = "rankOf has " + text(int64_t(problem.rankOf.size())) +
            " entries, but there are " + text(experts) + " experts";
  for (int64_t rank = 0; rank < problem.ranks && error.empty(); ++rank)
    if (count[rank] != experts / problem.ranks)
      error = "rank " + text(rank) + " has " + text(count[rank]) +
              " experts, expected " + text(experts / problem.ranks);
  return error.empty();
}

ExpertPlacement packExperts(const ExpertProblem &problem) {
  bool byNodes = problem.groups % problem.nodes == 0;
  int64_t nodes = byNodes ? problem.nodes : 1;
  int64_t perNode = problem.ranks / nodes;
  std::vector<int64_t> nodeOf = packNodes(problem, nodes);
  std::vector<int64_t> today = todays(problem), todaysNode;
  for (int64_t rank : today)
    todaysNode.push_back(rank / perNode);
  std::vector<int64_t> node =
      bestAssignment(overlaps(nodeOf, todaysNode, nodes));
  std::vector<int64_t> rankOf(problem.load.size());
  for (int64_t n = 0; n < nodes; ++n) {
    std::vector<size_t> experts;
    std::vector<int64_t> weight, place;
    for (size_t e = 0; e < nodeOf.size(); ++e)
      if (nodeOf[e] == n) {
        experts.push_back(e);
        weight.push_back(problem.load[e]);
        place.push_back(today[e] - node[n] * perNode);
      }
    std::vector<int64_t> packOf = pack(weight, perNode);
    std::vector<int64_t> rank =
        bestAssignment(overlaps(packOf, place, perNode));
    for (size_t i = 0; i < experts.size(); ++i)
      rankOf[experts[i]] = node[n] * perNode + rank[packOf[i]];
  }
  return placementOf(problem, std::move(rankOf));
}

std::optional<ExpertPlacement> placeExperts(const ExpertProblem &problem,
                                            std::string &error) {
  if (!check(problem, error))
    return std::nullopt;
  ExpertPlacement packed = packExperts(problem);
  std::vector<ExpertPlacement> found = {
      placementOf(problem, todays(problem)),
      placementOf(problem, Swaps(problem, todays(problem)).run()), packed};
  // Swaps across nodes would undo what groups on one node save.
  if (problem.groups == 1)
    found.push_back(placementOf(problem, Swaps(problem, packed.rankOf).run()));
  const ExpertPlacement *best = nullptr;
  for (const ExpertPlacement &one : found) {
    if (one.movedBytes > problem.budget)
      continue;
    if (!best || one.heaviest < best->heaviest ||
        (one.heaviest == best->heaviest && one.movedBytes < best->movedBytes))
      best = &one;
  }
  return *best;
}

} // namespace dt::advise
