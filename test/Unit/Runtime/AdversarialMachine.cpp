//===- AdversarialMachine.cpp - Whole plans under the worst order ---------===//

#include "AdversarialMachine.h"

#include "GuardedDevice.h"

#include <algorithm>
#include <map>

namespace dtrt::test {

namespace {

/// The groups of all devices meet here. Invariant: a device is in `ready` or
/// has open operations, unless its program has ended.
class Machine {
public:
  Machine(const PlanReader &plan, uint32_t perNode, const Adversary &adversary,
          uint64_t seed)
      : plan(plan), adversary(adversary), rng(seed) {
    uint32_t count = uint32_t(plan.devices().size());
    nodes.assign(count / perNode, perNode);
    if (count % perNode != 0)
      nodes.push_back(count % perNode);
  }

  Status run() {
    DTRT_RETURN_IF_ERROR(prepare());
    while (!ready.empty()) {
      // A random one of those that can go on: the others are late.
      std::swap(ready[rng() % ready.size()], ready.back());
      uint32_t rank = ready.back();
      ready.pop_back();
      DTRT_RETURN_IF_ERROR(advance(rank));
    }
    for (uint32_t rank = 0; rank < ranks.size(); ++rank)
      if (ranks[rank].open > 0)
        return stuck(rank);
    for (const Rank &rank : ranks)
      DTRT_RETURN_IF_ERROR(rank.device->finish());
    return {};
  }

private:
  struct Rank {
    std::unique_ptr<GuardedDevice> device;
    std::vector<RoundPeers> rounds;
    std::vector<Batch> batches; // of the group that it is in
    size_t next = 0;            // batch
    size_t open = 0;            // operations in flight
  };
  struct Offer {
    uint32_t rank;
    GuardedMessage message;
  };

  Status prepare() {
    for (uint32_t device : plan.devices()) {
      auto program = plan.program(device);
      DTRT_RETURN_IF_ERROR(program);
      auto guarded =
          GuardedDevice::create(plan.common(), std::move(*program), rng);
      DTRT_RETURN_IF_ERROR(guarded);
      uint32_t rank = uint32_t(ranks.size());
      ranks.push_back({std::move(*guarded), roundsOf(rank, nodes), {}, 0, 0});
      ready.push_back(rank);
    }
    return {};
  }

  uint32_t rankOf(uint32_t device) const {
    const std::vector<uint32_t> &all = plan.devices();
    return uint32_t(std::lower_bound(all.begin(), all.end(), device) -
                    all.begin());
  }

  /// Goes on to the next batch, of this group or of the next that has any.
  Status advance(uint32_t index) {
    Rank &rank = ranks[index];
    while (rank.next == rank.batches.size()) {
      if (!rank.batches.empty())
        DTRT_RETURN_IF_ERROR(rank.device->endGroup());
      auto more = rank.device->runToGroup();
      DTRT_RETURN_IF_ERROR(more);
      if (!*more)
        return {};
      std::vector<GroupOperation> operations;
      for (const GuardedMessage &message : rank.device->messages())
        operations.push_back({message.receive, rankOf(message.peer)});
      rank.batches = batchesOf(operations, rank.rounds, adversary, rng);
      rank.next = 0;
    }
    const Batch &batch = rank.batches[rank.next++];
    for (const Work &work : batch)
      rank.open += (work.send != Work::kNone) + (work.receive != Work::kNone);
    for (const Work &work : batch)
      for (size_t operation : {work.send, work.receive})
        if (operation != Work::kNone)
          DTRT_RETURN_IF_ERROR(
              offer(index, rank.device->messages()[operation]));
    return {};
  }

  Status offer(uint32_t index, const GuardedMessage &message) {
    uint32_t peer = rankOf(message.peer);
    auto pair = message.receive ? std::make_pair(peer, index)
                                : std::make_pair(index, peer);
    auto &others = message.receive ? sends : receives;
    auto other = others.find(pair);
    if (other == others.end()) {
      (message.receive ? receives : sends).insert({pair, {index, message}});
      return {};
    }
    const GuardedMessage &from =
        message.receive ? other->second.message : message;
    const GuardedMessage &to =
        message.receive ? message : other->second.message;
    DTRT_RETURN_IF_ERROR(ranks[pair.second].device->arrive(from, to));
    others.erase(other);
    for (uint32_t end : {pair.first, pair.second})
      if (--ranks[end].open == 0)
        ready.push_back(end);
    return {};
  }

  Status stuck(uint32_t rank) const {
    for (const auto *offers : {&sends, &receives})
      for (const auto &[pair, offer] : *offers)
        if (offer.rank == rank)
          return makeError("stuck: device ", plan.devices()[rank], " waits to ",
                           offer.message.receive ? "receive from" : "send to",
                           " device ", offer.message.peer);
    return makeError("stuck: device ", plan.devices()[rank]);
  }

  const PlanReader &plan;
  const Adversary adversary;
  std::mt19937_64 rng;
  std::vector<uint32_t> nodes;
  std::vector<Rank> ranks;
  std::vector<uint32_t> ready;
  /// Offered and not met, by (sender, receiver).
  std::map<std::pair<uint32_t, uint32_t>, Offer> sends, receives;
};

} // namespace

Status runOnMachine(const PlanReader &plan, uint32_t perNode,
                    const Adversary &adversary, uint64_t seed) {
  return Machine(plan, perNode, adversary, seed).run();
}

Adversary randomAdversary(std::mt19937_64 &rng) {
  Adversary adversary;
  adversary.cutProbability = double(rng() % 100) / 100;
  adversary.maxBatch = unsigned(1 + rng() % 8);
  adversary.restartRounds = rng() % 2 == 0;
  return adversary;
}

} // namespace dtrt::test
