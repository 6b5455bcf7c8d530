//===- LoopbackTransport.cpp - All devices in one process -----------------===//
//
// One mutex guards all book-keeping; bytes are copied without it. A rank that
// can do nothing waits; whoever makes its condition true wakes it, and counts
// it as running from that moment. So `waiting == live` means that nothing will
// ever happen again.
//
//===----------------------------------------------------------------------===//

#include "dtrt/transport/LoopbackTransport.h"

#include "dtrt/core/Packing.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>

namespace dtrt {

namespace {
/// Waiting ranks that an error names.
constexpr size_t kMaxNamed = 4;

struct Posted {
  const std::byte *data = nullptr;
  uint64_t bytes = 0;
  const MessageView *view = nullptr;
};

Status copyPosted(const Posted &from, const TransportMessage &to) {
  if (from.view && to.view)
    return copyMessage(*from.view, *to.view);
  if (from.view)
    return packMessage(*from.view, to.data);
  if (to.view)
    return unpackMessage(*to.view, from.data);
  memcpy(to.data, from.data, from.bytes);
  return {};
}
} // namespace

/// A collective of one member set that is under way.
struct LoopbackCall {
  std::map<uint32_t, CollectiveCall> parts; // by device
  size_t done = 0;                          // members that have copied theirs
  size_t ended = 0;                         // calls before it
};

struct LoopbackWorld::State {
  std::mutex mutex;
  size_t live = 0;
  size_t waiting = 0;
  size_t connected = 0;
  CopyBytes copy;
  size_t running = 0, mayRun = SIZE_MAX;
  std::condition_variable turn; // when running < mayRun
  std::optional<Digest> digest;
  bool failed = false;
  Status failure;
  std::unordered_map<uint32_t, std::unique_ptr<Endpoint>> endpoints;
  std::vector<std::vector<uint32_t>> memberSets;
  std::map<uint32_t, LoopbackCall> calls; // by member set

  void fail(const Status &why);
  void failStuck();
  void checkStuck() {
    if (!failed && live > 0 && waiting == live)
      failStuck();
  }
};

class LoopbackWorld::Endpoint : public Transport {
public:
  Endpoint(State &world, uint32_t self) : world(world), self(self) {}

  uint32_t device() const override { return self; }
  TransportCaps caps() const override {
    TransportCaps caps;
    caps.seesPeerMemory = !world.copy;
    return caps;
  }
  Status connect(const Digest &digest,
                 const std::vector<uint32_t> &peers) override;
  Status group(const std::vector<TransportMessage> &messages) override;
  Status
  prepareCollectives(const std::vector<std::vector<uint32_t>> &sets) override {
    Lock lock(world.mutex);
    world.memberSets = sets;
    return {};
  }
  Status collective(const CollectiveCall &call) override;
  void abort(const Status &why) override;
  void leave() override;

  void wake() {
    if (!isWaiting)
      return;
    isWaiting = false;
    --world.waiting;
    wakeUp.notify_one();
  }
  std::string waitsFor() const;

private:
  using Lock = std::unique_lock<std::mutex>;
  void wait(Lock &lock);
  void takeTurn(Lock &lock);
  void endTurn();
  Status post(const std::vector<TransportMessage> &messages);
  Status postOne(const TransportMessage &message);
  Status receive(const TransportMessage &message, Lock &lock);
  Status finishGroup(Lock &lock);
  Status joinCall(const CollectiveCall &call);
  void wakeMembers(uint32_t set);
  Status copyBlocks(const CollectiveCall &call, Lock &lock);

  State &world;
  const uint32_t self;
  std::condition_variable wakeUp;
  bool isWaiting = false;
  bool hasLeft = false;
  bool hasTurn = false;
  int64_t groups = 0;
  std::unordered_map<uint32_t, Posted> inbox;
  std::unordered_map<uint32_t, TransportMessage> expected;
  std::vector<uint32_t> ready;   // peers both posted and expected
  size_t unsent = 0;             // own messages not yet taken
  std::optional<uint32_t> calls; // the member set of the collective it is in
  size_t inFlight = 0;           // of these, those being copied
};

//===----------------------------------------------------------------------===//
// Failure
//===----------------------------------------------------------------------===//

void LoopbackWorld::State::fail(const Status &why) {
  if (failed)
    return;
  failed = true;
  failure = why;
  for (auto &[device, endpoint] : endpoints)
    endpoint->wake();
}

void LoopbackWorld::State::failStuck() {
  std::vector<uint32_t> devices;
  for (auto &[device, endpoint] : endpoints)
    devices.push_back(device);
  std::sort(devices.begin(), devices.end());
  std::string text;
  size_t named = 0, stuck = 0;
  for (uint32_t device : devices) {
    std::string reason = endpoints[device]->waitsFor();
    if (reason.empty())
      continue;
    ++stuck;
    if (named++ < kMaxNamed)
      text += (text.empty() ? "" : "; ") + reason;
  }
  if (stuck > kMaxNamed)
    text += "; and " + std::to_string(stuck - kMaxNamed) + " more";
  fail(makeError("the run can never complete: ", text));
}

std::string LoopbackWorld::Endpoint::waitsFor() const {
  if (!isWaiting)
    return "";
  std::string text = "device " + std::to_string(self);
  if (groups == 0)
    return text + " waits for all devices to connect";
  text += " in its group " + std::to_string(groups - 1);
  if (calls)
    return text + " waits for all members of set " + std::to_string(*calls);
  if (!expected.empty()) {
    uint32_t peer = expected.begin()->first;
    for (const auto &[device, message] : expected)
      peer = std::min(peer, device);
    return text + " waits for a message from device " + std::to_string(peer);
  }
  return text + " waits for " + std::to_string(unsent) +
         " messages of its own to be taken";
}

void LoopbackWorld::Endpoint::wait(Lock &lock) {
  bool hadTurn = hasTurn;
  endTurn();
  isWaiting = true;
  ++world.waiting;
  world.checkStuck();
  wakeUp.wait(lock, [&] { return !isWaiting; });
  if (hadTurn)
    takeTurn(lock);
}

void LoopbackWorld::Endpoint::takeTurn(Lock &lock) {
  world.turn.wait(lock, [&] { return world.running < world.mayRun; });
  ++world.running;
  hasTurn = true;
}

void LoopbackWorld::Endpoint::endTurn() {
  if (!hasTurn)
    return;
  hasTurn = false;
  --world.running;
  world.turn.notify_one();
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

Status LoopbackWorld::Endpoint::connect(const Digest &digest,
                                        const std::vector<uint32_t> &peers) {
  Lock lock(world.mutex);
  for (uint32_t peer : peers)
    if (!world.endpoints.count(peer))
      world.fail(makeError("device ", self, " needs device ", peer,
                           ", which is not in this world"));
  if (!world.digest)
    world.digest = digest;
  if (*world.digest != digest)
    world.fail(makeError(ErrorCode::Mismatch, "device ", self, " has plan ",
                         digestText(digest), ", others have ",
                         digestText(*world.digest)));
  if (++world.connected == world.endpoints.size())
    for (auto &[device, endpoint] : world.endpoints)
      endpoint->wake();
  while (!world.failed && world.connected < world.endpoints.size())
    wait(lock);
  takeTurn(lock);
  return world.failed ? world.failure : Status();
}

Status LoopbackWorld::Endpoint::postOne(const TransportMessage &message) {
  if (!world.endpoints.count(message.peer) || message.peer == self)
    return makeError("device ", self, " has a message for device ",
                     message.peer, ", which is not a peer of it");
  Endpoint &peer = *world.endpoints[message.peer];
  if (message.receive) {
    if (!expected.emplace(message.peer, message).second)
      return makeError("device ", self, " receives twice from device ",
                       message.peer, " in one group");
    if (inbox.count(message.peer))
      ready.push_back(message.peer);
    return {};
  }
  if (!peer.inbox
           .emplace(self, Posted{message.data, message.bytes, message.view})
           .second)
    return makeError("device ", self, " sends twice to device ", message.peer,
                     " in one group");
  ++unsent;
  if (peer.expected.count(self)) {
    peer.ready.push_back(self);
    peer.wake();
  }
  return {};
}

Status
LoopbackWorld::Endpoint::post(const std::vector<TransportMessage> &messages) {
  ++groups;
  for (const TransportMessage &message : messages)
    DTRT_RETURN_IF_ERROR(postOne(message));
  return {};
}

Status LoopbackWorld::Endpoint::receive(const TransportMessage &message,
                                        Lock &lock) {
  Posted posted = inbox[message.peer];
  Endpoint &sender = *world.endpoints[message.peer];
  if (posted.bytes != message.bytes)
    return makeError(ErrorCode::Mismatch, "device ", message.peer, " sends ",
                     posted.bytes, " bytes to device ", self,
                     ", which expects ", message.bytes);
  inbox.erase(message.peer);
  ++sender.inFlight;
  lock.unlock();
  Status status = world.copy
                      ? world.copy(message.data, posted.data, posted.bytes)
                      : copyPosted(posted, message);
  lock.lock();
  --sender.inFlight;
  --sender.unsent;
  if (sender.unsent == 0 || world.failed)
    sender.wake();
  return status;
}

/// After a failure, memory of this rank may still be read by a peer's copy,
/// which always ends.
Status LoopbackWorld::Endpoint::finishGroup(Lock &lock) {
  while (world.failed && inFlight > 0) {
    isWaiting = true;
    ++world.waiting;
    wakeUp.wait(lock, [&] { return !isWaiting; });
  }
  return world.failed ? world.failure : Status();
}

Status
LoopbackWorld::Endpoint::group(const std::vector<TransportMessage> &messages) {
  Lock lock(world.mutex);
  if (!world.failed) {
    Status status = post(messages);
    if (!status.ok())
      world.fail(status);
  }
  while (!world.failed && (unsent > 0 || !expected.empty())) {
    if (ready.empty()) {
      wait(lock);
      continue;
    }
    uint32_t peer = ready.back();
    ready.pop_back();
    TransportMessage message = expected[peer];
    Status status = receive(message, lock);
    expected.erase(peer);
    if (!status.ok())
      world.fail(status);
  }
  return finishGroup(lock);
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

void LoopbackWorld::Endpoint::wakeMembers(uint32_t set) {
  for (uint32_t member : world.memberSets[set])
    world.endpoints.at(member)->wake();
}

/// All members are to give the same kind, root and size.
Status LoopbackWorld::Endpoint::joinCall(const CollectiveCall &call) {
  ++groups;
  calls = call.members;
  LoopbackCall &own = world.calls[call.members];
  if (!own.parts.empty()) {
    const CollectiveCall &first = own.parts.begin()->second;
    if (first.kind != call.kind || first.root != call.root ||
        first.blockBytes != call.blockBytes)
      return makeError(ErrorCode::Mismatch, "device ", self, " comes to a ",
                       collectiveName(call.kind), " of ", call.blockBytes,
                       " bytes, device ", own.parts.begin()->first, " to a ",
                       collectiveName(first.kind), " of ", first.blockBytes);
  }
  own.parts[self] = call;
  return {};
}

/// What this member gets of each other one, while all of them wait.
Status LoopbackWorld::Endpoint::copyBlocks(const CollectiveCall &call,
                                           Lock &lock) {
  const std::vector<uint32_t> &members = world.memberSets[call.members];
  auto place = size_t(std::lower_bound(members.begin(), members.end(), self) -
                      members.begin());
  const std::map<uint32_t, CollectiveCall> parts =
      world.calls[call.members].parts;
  lock.unlock();
  Status status;
  for (size_t k = 0; k < members.size() && call.get && status.ok(); ++k) {
    const std::byte *given = parts.at(members[k]).give;
    if (!given)
      continue;
    std::byte *to = call.get + blockFrom(call.kind, k) * call.blockBytes;
    given += blockFor(call.kind, place) * call.blockBytes;
    if (world.copy)
      status = world.copy(to, given, call.blockBytes);
    else
      memcpy(to, given, call.blockBytes);
  }
  lock.lock();
  return status;
}

/// Ends when all members have copied what is theirs: then nobody reads what
/// this one gives. Once all are there, each of them comes to its end.
Status LoopbackWorld::Endpoint::collective(const CollectiveCall &call) {
  Lock lock(world.mutex);
  if (world.failed)
    return world.failure;
  const size_t members = world.memberSets[call.members].size();
  LoopbackCall &own = world.calls[call.members];
  const size_t round = own.ended;
  if (Status joined = joinCall(call); !joined.ok())
    world.fail(joined);
  else if (own.parts.size() == members)
    wakeMembers(call.members);
  while (!world.failed && own.parts.size() < members)
    wait(lock);
  if (own.parts.size() < members)
    return world.failure;
  if (Status copied = copyBlocks(call, lock); !copied.ok())
    world.fail(copied);
  if (++own.done == members) {
    own.parts.clear();
    own.done = 0;
    ++own.ended;
    wakeMembers(call.members);
  }
  while (own.ended == round)
    wait(lock);
  calls.reset();
  return world.failed ? world.failure : Status();
}

void LoopbackWorld::Endpoint::abort(const Status &why) {
  Lock lock(world.mutex);
  world.fail(why);
}

void LoopbackWorld::Endpoint::leave() {
  Lock lock(world.mutex);
  if (hasLeft)
    return;
  hasLeft = true;
  endTurn();
  --world.live;
  world.checkStuck();
}

//===----------------------------------------------------------------------===//
// World
//===----------------------------------------------------------------------===//

LoopbackWorld::LoopbackWorld(const std::vector<uint32_t> &devices,
                             size_t running, CopyBytes copy)
    : state(std::make_unique<State>()) {
  state->copy = std::move(copy);
  state->mayRun = std::max<size_t>(running, 1);
  for (uint32_t device : devices)
    state->endpoints.emplace(device,
                             std::make_unique<Endpoint>(*state, device));
  state->live = state->endpoints.size();
}

LoopbackWorld::~LoopbackWorld() = default;

Transport &LoopbackWorld::endpoint(uint32_t device) {
  return *state->endpoints.at(device);
}

} // namespace dtrt
