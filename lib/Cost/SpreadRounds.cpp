//===- SpreadRounds.cpp - In how many rounds copies spread ----------------===//

#include "dt/Cost/SpreadRounds.h"

#include <algorithm>
#include <functional>

using namespace dt;

/// Devices that have it after so many rounds.
int64_t SpreadRounds::grown(NodeCopies copies, int64_t rounds) const {
  int64_t all = copies.having + copies.lacking, having = copies.having;
  for (int64_t round = 0; round < rounds && having < all; ++round)
    having *= 1 + inside;
  return std::min(having, all);
}

int64_t SpreadRounds::ofNode(NodeCopies copies) const {
  int64_t rounds = 0;
  while (grown(copies, rounds) < copies.having + copies.lacking)
    ++rounds;
  return rounds;
}

int64_t SpreadRounds::toAll(const std::vector<NodeCopies> &near,
                            std::vector<int64_t> far) const {
  if (near.empty())
    return 0;
  int64_t most = 0;
  for (NodeCopies copies : near)
    most = std::max(most, ofNode(copies));
  std::sort(far.begin(), far.end(), std::greater<>());
  std::vector<int64_t> entered; // by node, the rounds until it has one
  // Invariant: the first nodes of `far` have it, each as early as it can.
  for (int64_t round = 0; entered.size() < far.size(); ++round) {
    int64_t senders = 0;
    for (NodeCopies copies : near)
      senders += grown(copies, round);
    for (size_t i = 0; i < entered.size(); ++i)
      senders += grown({1, far[i] - 1}, round - entered[i]);
    size_t next = entered.size();
    entered.resize(std::min(far.size(), next + size_t(senders * across)),
                   round + 1);
    most = std::max(most, round + 1 + ofNode({1, far[next] - 1}));
  }
  return most;
}
