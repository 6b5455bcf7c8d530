//===- AdversarialSimulation.cpp - Groups without data or threads ---------===//

#include "dtrt/transport/AdversarialSimulation.h"
#include "dtrt/transport/AdversarialTransport.h"

#include <unordered_map>

namespace dtrt {

namespace {

class Simulation {
public:
  Simulation(const std::vector<RankGroups> &ranks, uint32_t perNode,
             const Adversary &adversary, uint64_t seed)
      : rng(seed), states(ranks.size()) {
    uint32_t count = uint32_t(ranks.size());
    std::vector<uint32_t> nodes(count / perNode, perNode);
    if (count % perNode != 0)
      nodes.push_back(count % perNode);
    for (uint32_t rank = 0; rank < count; ++rank) {
      std::vector<RoundPeers> rounds = roundsOf(rank, nodes);
      for (const auto &group : ranks[rank])
        for (const Batch &batch : batchesOf(group, rounds, adversary, rng))
          states[rank].batches.push_back(peersOf(group, batch));
    }
  }

  Status run() {
    for (uint32_t rank = 0; rank < states.size(); ++rank)
      ready.push_back(rank);
    while (!ready.empty()) {
      // A random one of those that can go on: the others are late.
      std::swap(ready[rng() % ready.size()], ready.back());
      uint32_t rank = ready.back();
      ready.pop_back();
      offerNext(rank);
    }
    return checkEnded();
  }

private:
  using Operations = std::vector<GroupOperation>;
  struct RankState {
    std::vector<Operations> batches;
    size_t next = 0; // batch
    size_t open = 0; // operations in flight
  };

  static Operations peersOf(const Operations &group, const Batch &batch) {
    Operations out;
    for (const Work &work : batch)
      for (size_t operation : {work.send, work.receive})
        if (operation != Work::kNone)
          out.push_back(group[operation]);
    return out;
  }

  static uint64_t pairOf(uint32_t rank, const GroupOperation &operation) {
    uint64_t from = operation.receive ? operation.peer : rank;
    uint64_t to = operation.receive ? rank : operation.peer;
    return from << 32 | to;
  }

  void offerNext(uint32_t rank) {
    RankState &state = states[rank];
    if (state.next == state.batches.size())
      return;
    const Operations &batch = state.batches[state.next++];
    state.open = batch.size();
    for (const GroupOperation &operation : batch)
      offer(rank, operation);
  }

  /// `balance`: sends less receives of the pair that have been offered.
  void offer(uint32_t rank, const GroupOperation &operation) {
    int &balance = balances[pairOf(rank, operation)];
    bool meets = operation.receive ? balance > 0 : balance < 0;
    balance += operation.receive ? -1 : 1;
    if (!meets)
      return;
    finish(rank);
    finish(operation.peer);
  }

  void finish(uint32_t rank) {
    if (--states[rank].open == 0)
      ready.push_back(rank);
  }

  Status checkEnded() const {
    for (uint32_t rank = 0; rank < states.size(); ++rank) {
      const RankState &state = states[rank];
      if (state.open == 0)
        continue;
      for (const GroupOperation &operation : state.batches[state.next - 1]) {
        auto balance = balances.find(pairOf(rank, operation));
        if (operation.receive ? balance->second < 0 : balance->second > 0)
          return makeError("stuck: rank ", rank, " waits to ",
                           operation.receive ? "receive from" : "send to",
                           " rank ", operation.peer, " in its batch ",
                           state.next - 1, " of ", state.batches.size());
      }
    }
    return {};
  }

  std::mt19937_64 rng;
  std::vector<RankState> states;
  std::unordered_map<uint64_t, int> balances; // per ordered pair
  std::vector<uint32_t> ready;
};

} // namespace

Status simulateGroups(const std::vector<RankGroups> &ranks, uint32_t perNode,
                      const Adversary &adversary, uint64_t seed) {
  return Simulation(ranks, perNode, adversary, seed).run();
}

} // namespace dtrt
