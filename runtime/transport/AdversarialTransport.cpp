//===- AdversarialTransport.cpp - The worst that a network may do ---------===//
//
// One mutex guards everything, the copies too: this transport is for tests. A
// rank that waits is counted as running again by whoever ends its batch, so
// `waiting == live` means that nothing will ever happen again.
//
//===----------------------------------------------------------------------===//

#include "dtrt/transport/AdversarialTransport.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

namespace dtrt {

namespace {
/// Longest delay before a batch, in microseconds.
constexpr unsigned kMaxDelayUs = 100;
} // namespace

/// A collective of one member set that is under way.
struct AdversarialCall {
  std::map<uint32_t, CollectiveCall> parts; // by device
};

struct AdversarialWorld::State {
  std::mutex mutex;
  std::condition_variable changed;
  Adversary adversary;
  std::vector<uint32_t> devices; // by rank
  std::vector<uint32_t> nodes;
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  /// Offered and not met: (sender, receiver) and the message.
  std::map<std::pair<uint32_t, uint32_t>, TransportMessage> sends, receives;
  std::vector<std::vector<uint32_t>> memberSets;
  std::map<uint32_t, AdversarialCall> calls; // by member set
  size_t live = 0, waiting = 0, connected = 0;
  bool failed = false;
  Status failure;

  void fail(const Status &why) {
    if (!failed)
      failure = why;
    failed = true;
    changed.notify_all();
  }
  uint32_t rankOf(uint32_t device) const {
    return uint32_t(std::lower_bound(devices.begin(), devices.end(), device) -
                    devices.begin());
  }
};

class AdversarialWorld::Endpoint : public Transport {
public:
  Endpoint(State &world, uint32_t rank, uint64_t seed)
      : world(world), rank(rank), rounds(roundsOf(rank, world.nodes)),
        rng(seed) {}

  uint32_t device() const override { return world.devices[rank]; }

  Status connect(const Digest &, const std::vector<uint32_t> &) override {
    Lock lock(world.mutex);
    ++world.connected;
    world.changed.notify_all();
    world.changed.wait(lock, [&] {
      return world.failed || world.connected == world.devices.size();
    });
    return world.failed ? world.failure : Status();
  }

  Status group(const std::vector<TransportMessage> &messages) override {
    std::vector<GroupOperation> operations;
    for (const TransportMessage &message : messages)
      operations.push_back({message.receive, world.rankOf(message.peer)});
    for (const Batch &batch :
         batchesOf(operations, rounds, world.adversary, rng)) {
      std::this_thread::sleep_for(
          std::chrono::microseconds(rng() % kMaxDelayUs));
      DTRT_RETURN_IF_ERROR(run(batch, messages));
    }
    return {};
  }

  Status
  prepareCollectives(const std::vector<std::vector<uint32_t>> &sets) override {
    Lock lock(world.mutex);
    world.memberSets = sets;
    return {};
  }

  /// Whoever comes last carries it out.
  Status collective(const CollectiveCall &call) override {
    std::this_thread::sleep_for(std::chrono::microseconds(rng() % kMaxDelayUs));
    Lock lock(world.mutex);
    if (world.failed)
      return world.failure;
    AdversarialCall &own = world.calls[call.members];
    own.parts[device()] = call;
    if (own.parts.size() == world.memberSets[call.members].size()) {
      carryOut(std::move(own.parts));
      own.parts.clear();
      return world.failed ? world.failure : Status();
    }
    open = 1;
    isWaiting = true;
    ++world.waiting;
    checkStuck();
    world.changed.wait(lock, [&] { return world.failed || open == 0; });
    return world.failed ? world.failure : Status();
  }

  void abort(const Status &why) override {
    Lock lock(world.mutex);
    world.fail(why);
  }

  void leave() override {
    Lock lock(world.mutex);
    if (hasLeft)
      return;
    hasLeft = true;
    --world.live;
    checkStuck();
  }

private:
  using Lock = std::unique_lock<std::mutex>;

  Status run(const Batch &batch,
             const std::vector<TransportMessage> &messages) {
    Lock lock(world.mutex);
    if (world.failed) // what others have offered may be gone
      return world.failure;
    for (const Work &work : batch)
      open += (work.send != Work::kNone) + (work.receive != Work::kNone);
    for (const Work &work : batch)
      for (size_t message : {work.send, work.receive})
        if (message != Work::kNone && !world.failed)
          offer(messages[message]);
    if (open > 0 && !world.failed) {
      isWaiting = true;
      ++world.waiting;
      checkStuck();
      world.changed.wait(lock, [&] { return world.failed || open == 0; });
    }
    return world.failed ? world.failure : Status();
  }

  void offer(const TransportMessage &message) {
    uint32_t peer = world.rankOf(message.peer);
    auto pair = message.receive ? std::make_pair(peer, rank)
                                : std::make_pair(rank, peer);
    auto &partners = message.receive ? world.sends : world.receives;
    auto partner = partners.find(pair);
    if (partner == partners.end()) {
      auto &own = message.receive ? world.receives : world.sends;
      if (!own.emplace(pair, message).second)
        world.fail(makeError("device ", device(),
                             " has two messages with "
                             "device ",
                             message.peer, " under way"));
      return;
    }
    const TransportMessage &to = message.receive ? message : partner->second;
    const TransportMessage &from = message.receive ? partner->second : message;
    if (to.bytes != from.bytes)
      return world.fail(makeError("device ", from.peer, " expects ", to.bytes,
                                  " bytes, found ", from.bytes));
    memcpy(to.data, from.data, to.bytes);
    partners.erase(partner);
    finish();
    world.endpoints[peer]->finish();
  }

  /// What is in a block beyond its message is anything; so is a member's own
  /// block where it gets all.
  void spoil(const CollectiveCall &call, uint64_t blocks) {
    if (call.get)
      memset(call.get, int(rng() & 0xff), blocks * call.blockBytes);
  }

  void carryOut(std::map<uint32_t, CollectiveCall> parts) {
    const std::vector<uint32_t> &members =
        world.memberSets[parts.begin()->second.members];
    for (auto &[device, call] : parts)
      spoil(call, blocksGot(call.kind, members.size(), call.root == device));
    for (auto &[receiver, to] : parts)
      for (const TransportMessage &message : *to.messages)
        if (message.receive)
          deliver(receiver, message, parts.at(message.peer), members);
    for (uint32_t member : members)
      if (member != device())
        world.endpoints[world.rankOf(member)]->finish();
  }

  void deliver(uint32_t receiver, const TransportMessage &message,
               const CollectiveCall &from,
               const std::vector<uint32_t> &members) {
    auto place =
        uint64_t(std::lower_bound(members.begin(), members.end(), receiver) -
                 members.begin());
    if (!from.give || message.bytes > from.blockBytes)
      return world.fail(makeError("device ", message.peer, " gives nothing to ",
                                  "device ", receiver, " in a collective"));
    memcpy(message.data,
           from.give + blockFor(from.kind, place) * from.blockBytes,
           message.bytes);
  }

  void finish() {
    if (--open > 0 || !isWaiting)
      return;
    isWaiting = false;
    --world.waiting;
    world.changed.notify_all();
  }

  void checkStuck() {
    if (world.failed || world.live == 0 || world.waiting < world.live)
      return;
    for (const auto &endpoint : world.endpoints)
      if (endpoint->isWaiting)
        return world.fail(makeError(
            "stuck: device ", endpoint->device(), " waits for ", endpoint->open,
            " operations, and so do ", world.waiting - 1, " others"));
  }

  State &world;
  const uint32_t rank;
  const std::vector<RoundPeers> rounds;
  std::mt19937_64 rng;
  size_t open = 0;
  bool isWaiting = false;
  bool hasLeft = false;
};

AdversarialWorld::AdversarialWorld(const std::vector<uint32_t> &devices,
                                   uint32_t perNode, const Adversary &adversary,
                                   uint64_t seed)
    : state(std::make_unique<State>()) {
  state->adversary = adversary;
  state->devices = devices;
  state->live = devices.size();
  uint32_t count = uint32_t(devices.size());
  state->nodes.assign(count / perNode, perNode);
  if (count % perNode != 0)
    state->nodes.push_back(count % perNode);
  for (uint32_t rank = 0; rank < count; ++rank)
    state->endpoints.push_back(
        std::make_unique<Endpoint>(*state, rank, seed * count + rank));
}

AdversarialWorld::~AdversarialWorld() = default;

Transport &AdversarialWorld::endpoint(uint32_t device) {
  return *state->endpoints[state->rankOf(device)];
}

} // namespace dtrt
