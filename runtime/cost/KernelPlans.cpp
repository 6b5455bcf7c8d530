//===- KernelPlans.cpp - How NCCL takes a group apart ---------------------===//

#include "dtrt/cost/KernelPlans.h"

#include <algorithm>
#include <numeric>

namespace dtrt {

namespace {

/// NCCL_MAX_DEV_WORK_P2P_PER_BATCH: ranks of a node that take turns together.
constexpr uint32_t kGroupSize = 8;

/// Ranks of a node that take turns as one block; divides every node.
uint32_t blockSize(const std::vector<uint32_t> &localRanks) {
  uint32_t size = localRanks.size() > 1
                      ? kGroupSize
                      : *std::max_element(localRanks.begin(), localRanks.end());
  for (uint32_t ranks : localRanks)
    size = std::gcd(size, ranks);
  return size;
}

} // namespace

/// Blocks of ranks meet at growing distances 0, 1, 3, 6, 10..., modulo the next
/// power of two, which visits every distance once; those that are no distance
/// of blocks are left out. Inside a block the places are shifted one by one.
std::vector<RoundPeers> roundsOf(uint32_t rank,
                                 const std::vector<uint32_t> &localRanks) {
  uint32_t size = blockSize(localRanks);
  uint32_t ranks = std::accumulate(localRanks.begin(), localRanks.end(), 0u);
  uint32_t blocks = ranks / size, steps = 1;
  while (steps < blocks)
    steps *= 2;
  uint32_t block = rank / size, place = rank % size;
  std::vector<RoundPeers> rounds;
  for (uint32_t step = 0, distance = 0; step < steps;
       ++step, distance = (distance + step) % steps) {
    if (distance >= blocks)
      continue;
    uint32_t to = (block + distance) % blocks;
    uint32_t from = (block + blocks - distance) % blocks;
    for (uint32_t shift = 0; shift < size; ++shift)
      rounds.push_back({to * size + (place + shift) % size,
                        from * size + (place + size - shift) % size});
  }
  return rounds;
}

namespace {

/// The operations of a group that are not taken yet, first in first out per
/// peer.
class Queues {
public:
  Queues(const std::vector<GroupOperation> &group, size_t ranks)
      : sends(ranks), receives(ranks), left(group.size()) {
    for (size_t i = group.size(); i-- > 0;)
      (group[i].receive ? receives : sends)[group[i].peer].push_back(i);
  }
  bool empty() const { return left == 0; }
  bool has(RoundPeers peers) const {
    return !sends[peers.send].empty() || !receives[peers.receive].empty();
  }
  Work take(RoundPeers peers) {
    return {pop(sends[peers.send]), pop(receives[peers.receive])};
  }

private:
  size_t pop(std::vector<size_t> &queue) {
    if (queue.empty())
      return Work::kNone;
    size_t first = queue.back();
    queue.pop_back();
    --left;
    return first;
  }

  std::vector<std::vector<size_t>> sends, receives; // last in the queue first
  size_t left;
};

} // namespace

std::vector<Batch> batchesOf(const std::vector<GroupOperation> &group,
                             const std::vector<RoundPeers> &rounds,
                             const Adversary &adversary, std::mt19937_64 &rng) {
  Queues queues(group, rounds.size());
  std::bernoulli_distribution cut(adversary.cutProbability);
  std::uniform_int_distribution<unsigned> size(1, adversary.maxBatch);
  std::vector<Batch> batches;
  size_t room = 0; // works that the last batch still takes
  size_t round = 0;
  bool fresh = true; // a plan holds at least one work
  while (!queues.empty()) {
    if (round == rounds.size()) {
      round = 0;
      room = 0; // a batch does not take a peer twice
    }
    if (!queues.has(rounds[round])) {
      ++round;
      continue;
    }
    if (!fresh && cut(rng)) {
      fresh = true;
      room = 0;
      if (adversary.restartRounds)
        round = 0;
      continue;
    }
    if (room == 0) {
      batches.emplace_back();
      room = size(rng);
    }
    batches.back().push_back(queues.take(rounds[round]));
    --room;
    fresh = false;
    ++round;
  }
  return batches;
}

} // namespace dtrt
