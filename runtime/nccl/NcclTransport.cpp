//===- NcclTransport.cpp - Messages over NCCL -----------------------------===//

#include "dtrt/nccl/NcclTransport.h"

#include "NcclCollectives.h"
#include "NcclCommunicator.h"
#include "NcclPuts.h"
#include "Stream.h"

#include "dtrt/core/Executor.h"
#include "dtrt/core/MemorySource.h"
#include "dtrt/core/NcclPeers.h"
#include "dtrt/cuda/GpuMemory.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>
#include <thread>

namespace dtrt {

namespace {

/// Messages of this size use all that a pair has of channels, and the protocol
/// that looks at registrations: NCCL's other one is for 16 KiB per channel, of
/// which there are 32 at most.
constexpr uint64_t kWarmBytes = uint64_t(1) << 20;

/// How long a group that has failed may take to leave the GPU.
constexpr std::chrono::seconds kRest(2);

/// What arenas are: windows; else memory of NCCL that is registered, where no
/// rank has a message outside its arena; else memory like any other.
constexpr const char *kWindow = "window", *kRegister = "register",
                     *kPlain = "plain";

/// Before this, all ranks' windows have to be of one size: a rank maps those of
/// its peers by its own (symMemoryObtain in NCCL's src/dev_runtime.cc).
constexpr int kWindowsDiffer = NCCL_VERSION(2, 30, 7);
/// One-sided operations need this driver (rmaTaskAppend in src/enqueue.cc).
constexpr int kDriverOfPuts = 12050;

/// What a rank could have, and what all of them have.
struct ArenaTerms {
  std::string kind = kPlain;
  uint64_t bytes = 0;

  std::string text() const { return kind + " " + std::to_string(bytes); }
  static Result<ArenaTerms> parse(const std::string &text) {
    std::istringstream in(text);
    ArenaTerms terms;
    if (!(in >> terms.kind >> terms.bytes))
      return makeError("an arena is '", text, "', expected a kind and bytes");
    return terms;
  }
};

/// The least that one of them could have, and the most bytes.
Result<std::string> judgeArenas(const std::vector<std::string> &records) {
  ArenaTerms all = {kWindow, 0};
  for (const std::string &record : records) {
    auto terms = ArenaTerms::parse(record);
    DTRT_RETURN_IF_ERROR(terms);
    if (terms->kind == kPlain || all.kind == kWindow)
      all.kind = terms->kind;
    all.bytes = std::max(all.bytes, terms->bytes);
  }
  return all.text();
}

/// Every rank looks for itself: a call that a driver refuses on one rank would
/// be waited for by the others.
bool driverHasPuts() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess &&
         version >= kDriverOfPuts;
}

constexpr const char *kPuts = "puts", *kPairs = "pairs";

Result<std::string> judgeWaves(const std::vector<std::string> &records) {
  bool all = std::all_of(records.begin(), records.end(),
                         [](const auto &record) { return record == kPuts; });
  return std::string(all ? kPuts : kPairs);
}

/// A pair's messages, one way.
using Pair = std::pair<uint32_t, bool>; // peer, receives

struct WarmMessage {
  MessageEnds ends;
  uint64_t bytes = 0;
};

/// By number; without those that are collectives.
using WarmGroups = std::map<size_t, std::vector<WarmMessage>>;

std::map<Pair, uint64_t> largestMessages(const Traffic &traffic) {
  std::map<Pair, uint64_t> largest;
  for (size_t group = 0; group < traffic.groups.size(); ++group) {
    if (traffic.calls.count(group))
      continue;
    for (const MessageEnds &message : traffic.groups[group]) {
      uint64_t &bytes = largest[{message.peer, message.receive}];
      bytes = std::max(bytes, std::min(message.bytes, kWarmBytes));
    }
  }
  return largest;
}

/// Of each pair, each way, the first message that is as large as any of its
/// messages, or as matters. Both ends choose the same one, so the groups that
/// remain are a part of the plan's, in its order.
WarmGroups warmGroups(const Traffic &traffic) {
  std::map<Pair, uint64_t> largest = largestMessages(traffic);
  WarmGroups groups;
  for (size_t group = 0; group < traffic.groups.size(); ++group) {
    if (traffic.calls.count(group))
      continue;
    std::vector<WarmMessage> chosen;
    for (const MessageEnds &message : traffic.groups[group]) {
      auto pair = largest.find({message.peer, message.receive});
      if (pair == largest.end() || message.bytes < pair->second)
        continue;
      if (pair->second > 0)
        chosen.push_back({message, pair->second});
      largest.erase(pair);
    }
    if (!chosen.empty())
      groups[group] = std::move(chosen);
  }
  return groups;
}

/// What NCCL does when messages are captured: it registers their memory where
/// it can, at each end for itself, unless it is told not to.
bool mayCaptureMessages() {
  const char *value = getenv("NCCL_GRAPH_REGISTER");
  return value && std::string(value) == "0";
}

} // namespace

/// Shared with the jobs, which NCCL may keep.
struct NcclTransport::State : std::enable_shared_from_this<State> {
  State(NcclOptions options, uint32_t rank)
      : communicator(std::move(options), rank) {}

  Status enqueue(const std::vector<TransportMessage> &messages,
                 cudaStream_t stream);
  Status runGroup(const NcclPhase &phase,
                  const std::vector<TransportMessage> &messages);
  Status runOnStream(const NcclPhase &phase, std::function<Status()> job);
  void comeToRest();
  Status allocateArena(uint64_t bytes);
  Status allocateShared(uint64_t bytes);
  Status agreeOnWaves();
  Status enqueueEnds(const std::vector<MessageEnds> &messages,
                     cudaStream_t stream);
  std::vector<TransportMessage>
  warmMessages(const std::vector<WarmMessage> &group, std::byte *scratch) const;
  NcclPhase phaseOf(size_t group) const;
  NcclPhase callPhase(const std::string &what, uint32_t set) const;
  Status enqueueCollective(const CollectiveCall &call, cudaStream_t stream);
  Status runCollective(const NcclPhase &phase, const CollectiveCall &call);
  Status warmUpAll();

  NcclCommunicator communicator;
  Stream stream; // of groups that the caller waits for
  Traffic traffic;
  std::vector<std::vector<uint32_t>> memberSets;
  MemorySource memory;
  std::byte *arena = nullptr;
  std::string arenaKind = kPlain;
  void *registration = nullptr;
  NcclPuts puts;
  bool putsWaves = false;
  std::function<void(std::byte *)> freeArena;
  size_t groups = 0; // that the caller has waited for
};

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

/// On the worker. Messages of no bytes are left out, on both of their ends.
Status
NcclTransport::State::enqueue(const std::vector<TransportMessage> &messages,
                              cudaStream_t stream) {
  const NcclApi &api = communicator.api();
  return communicator.call([&](ncclComm_t handle) {
    ncclResult_t result = api.GroupStart();
    for (const TransportMessage &message : messages) {
      auto peer = communicator.rankOf(message.peer);
      if (!peer.ok())
        result = ncclInvalidArgument;
      if (message.bytes == 0 || result != ncclSuccess)
        continue;
      result = message.receive ? api.Recv(message.data, message.bytes,
                                          ncclUint8, *peer, handle, stream)
                               : api.Send(message.data, message.bytes,
                                          ncclUint8, *peer, handle, stream);
      if (result == ncclInProgress)
        result = ncclSuccess;
    }
    ncclResult_t ended = api.GroupEnd(); // in any case: it is thread's state
    return result == ncclSuccess ? ended : result;
  });
}

Status
NcclTransport::State::runGroup(const NcclPhase &phase,
                               const std::vector<TransportMessage> &messages) {
  return runOnStream(phase, [self = shared_from_this(), messages] {
    return self->enqueue(messages, self->stream.get());
  });
}

/// A job that puts something on the stream, and its end.
Status NcclTransport::State::runOnStream(const NcclPhase &phase,
                                         std::function<Status()> job) {
  UseGpu use(*communicator.gpu());
  Status status = communicator.run(phase, std::move(job));
  Status failed;
  if (status.ok())
    status = communicator.await(phase, [&] {
      auto idle = stream.idle();
      failed = statusOf(idle);
      return !idle.ok() || *idle;
    });
  if (status.ok())
    return failed;
  comeToRest();
  return status;
}

/// After a group that has failed: its kernels end with the communicator.
void NcclTransport::State::comeToRest() {
  auto deadline = std::chrono::steady_clock::now() + kRest;
  for (;;) {
    auto idle = stream.idle();
    if (!idle.ok() || *idle)
      return;
    if (std::chrono::steady_clock::now() > deadline)
      return stream.leak();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

/// On the worker.
Status NcclTransport::State::enqueueCollective(const CollectiveCall &call,
                                               cudaStream_t stream) {
  auto self =
      memberOf(memberSets[call.members], communicator.options().device, call);
  DTRT_RETURN_IF_ERROR(self);
  return communicator.callOn(call.members, [&](ncclComm_t handle) {
    return enqueueCall(communicator.api(), handle, *self, call, stream);
  });
}

Status NcclTransport::State::runCollective(const NcclPhase &phase,
                                           const CollectiveCall &call) {
  return runOnStream(phase, [self = shared_from_this(), call] {
    return self->enqueueCollective(call, self->stream.get());
  });
}

/// All of the set's other members are waited for.
NcclPhase NcclTransport::State::callPhase(const std::string &what,
                                          uint32_t set) const {
  NcclPhase phase = {what, memberSets[set]};
  auto &peers = phase.peers;
  peers.erase(
      std::remove(peers.begin(), peers.end(), communicator.options().device),
      peers.end());
  return phase;
}

NcclPhase NcclTransport::State::phaseOf(size_t group) const {
  auto call = traffic.calls.find(group);
  if (call != traffic.calls.end())
    return callPhase(std::string(collectiveName(call->second.kind)) +
                         " in group " + std::to_string(group),
                     call->second.members);
  std::vector<TransportMessage> messages;
  for (const MessageEnds &message : traffic.groups[group])
    messages.push_back({message.receive, message.peer});
  return {"group " + std::to_string(group), peersOfMessages(messages)};
}

//===----------------------------------------------------------------------===//
// Preparing
//===----------------------------------------------------------------------===//

/// On the worker.
Status NcclTransport::State::allocateArena(uint64_t bytes) {
  // A window is made by all ranks.
  if (arenaKind == kWindow)
    return allocateShared(std::max<uint64_t>(bytes, 1));
  if (bytes == 0)
    return {};
  if (arenaKind == kPlain) {
    memory = gpuMemory(*communicator.gpu());
    arena = memory.allocate(bytes);
    freeArena = memory.free;
    return arena ? Status()
                 : makeError(ErrorCode::OutOfMemory, "cannot allocate ", bytes,
                             " bytes of staging");
  }
  return allocateShared(bytes);
}

Status NcclTransport::State::allocateShared(uint64_t bytes) {
  const NcclApi &api = communicator.api();
  void *block = nullptr;
  if (api.MemAlloc(&block, bytes) != ncclSuccess)
    return makeError(ErrorCode::OutOfMemory, "cannot allocate ", bytes,
                     " bytes of staging");
  arena = static_cast<std::byte *>(block);
  freeArena = [&api](std::byte *at) { api.MemFree(at); };
  DTRT_RETURN_IF_ERROR(
      cudaStatus(cudaMemsetAsync(block, 0, bytes, stream.get()),
                 "cannot set the staging to zero"));
  DTRT_RETURN_IF_ERROR(stream.synchronize());
  return communicator.call([&](ncclComm_t handle) {
    return arenaKind == kWindow
               ? puts.open(api, handle, arena, bytes)
               : api.CommRegister(handle, block, bytes, &registration);
  });
}

/// Into staging, which holds nothing yet, or into scratch memory for what will
/// lie in tensors.
std::vector<TransportMessage>
NcclTransport::State::warmMessages(const std::vector<WarmMessage> &group,
                                   std::byte *scratch) const {
  std::vector<TransportMessage> messages;
  for (const WarmMessage &message : group) {
    const MessageEnds &ends = message.ends;
    messages.push_back({ends.receive, ends.peer,
                        ends.own.direct ? scratch : arena + ends.own.slot,
                        message.bytes});
  }
  return messages;
}

/// What the environment says, or NCCL's default.
static uint64_t netChunkBytes() {
  const char *text = getenv("NCCL_P2P_NET_CHUNKSIZE");
  long long given = text ? atoll(text) : 0;
  return given > 0 ? uint64_t(given) : 128 << 10;
}

uint64_t NcclTransport::leastBytesFor(const PlanCommon &common,
                                      const RankProgram &program) const {
  return ncclBuffersOf(ncclPeersOf(common, program),
                       leastNcclTerms(common.cluster, hasSeveralNodes(common),
                                      netChunkBytes()))
      .sum();
}

Result<std::byte *> NcclTransport::prepare(const Traffic &traffic) {
  state->traffic = traffic;
  const NcclOptions &options = state->communicator.options();
  bool windows = options.oneSided && traffic.knowsOtherSlots &&
                 options.calls == NcclCalls::Blocking &&
                 NcclPuts::known(state->communicator.api()) && driverHasPuts();
  ArenaTerms own = {windows ? kWindow : kRegister, traffic.arenaBytes};
  if (!traffic.staged())
    own.kind = kPlain;
  auto agreed = state->communicator.agree(Step::Arena, own.text(), judgeArenas);
  DTRT_RETURN_IF_ERROR(agreed);
  auto terms = ArenaTerms::parse(*agreed);
  DTRT_RETURN_IF_ERROR(terms);
  state->arenaKind = terms->kind;
  bool asLarge =
      terms->kind == kWindow && state->communicator.version() < kWindowsDiffer;
  uint64_t bytes = asLarge ? terms->bytes : traffic.arenaBytes;
  auto allocate = [self = state, bytes] { return self->allocateArena(bytes); };
  DTRT_RETURN_IF_ERROR(state->communicator.run({"arena", {}}, allocate));
  return state->arena;
}

/// Collective: the first signals, where arenas are windows. A communicator that
/// cannot have them says so at once, on every rank.
Status NcclTransport::State::agreeOnWaves() {
  if (arenaKind != kWindow)
    return {};
  auto works = std::make_shared<bool>(false);
  auto start = [self = shared_from_this(), works] {
    NcclCommunicator &communicator = self->communicator;
    int ranks = int(communicator.options().devices.size());
    return communicator.call([&](ncclComm_t handle) {
      ncclResult_t result =
          self->puts.start(communicator.api(), handle, int(communicator.rank()),
                           ranks, self->stream.get());
      *works = self->puts.isOpen() && result == ncclSuccess;
      return result == ncclInvalidArgument ? ncclSuccess : result;
    });
  };
  DTRT_RETURN_IF_ERROR(
      runOnStream({"first signals", communicator.options().devices}, start));
  auto agreed =
      communicator.agree(Step::Waves, *works ? kPuts : kPairs, judgeWaves);
  DTRT_RETURN_IF_ERROR(agreed);
  putsWaves = *agreed == kPuts;
  return {};
}

/// On the worker.
Status
NcclTransport::State::enqueueEnds(const std::vector<MessageEnds> &messages,
                                  cudaStream_t stream) {
  std::vector<NcclPut> own;
  for (const MessageEnds &message : messages) {
    auto peer = communicator.rankOf(message.peer);
    DTRT_RETURN_IF_ERROR(peer);
    if (message.bytes > 0)
      own.push_back({message.receive, *peer, message.own.slot,
                     message.other.slot, message.bytes});
  }
  return communicator.call([&](ncclComm_t handle) {
    return puts.wave(communicator.api(), handle, own, stream);
  });
}

/// Groups and calls in the order of the plan. Calls use the memory that is
/// theirs in it, which holds nothing yet.
Status NcclTransport::State::warmUpAll() {
  WarmGroups groups = putsWaves ? WarmGroups() : warmGroups(traffic);
  auto calls = warmCalls(traffic);
  MemorySource memory = gpuMemory(*communicator.gpu());
  std::unique_ptr<std::byte, std::function<void(std::byte *)>> scratch;
  if (!groups.empty()) {
    scratch = {memory.allocate(kWarmBytes), memory.free};
    if (!scratch)
      return makeError(ErrorCode::OutOfMemory, "cannot allocate ", kWarmBytes,
                       " bytes");
  }
  Status status;
  for (size_t i = 0; i < traffic.groups.size() && status.ok(); ++i) {
    if (auto call = calls.find(i); call != calls.end()) {
      uint32_t set = call->second.members;
      status = runCollective(callPhase("warm-up", set),
                             collectiveCall(memberSets[set].size(),
                                            communicator.options().device,
                                            call->second, arena));
    } else if (auto group = groups.find(i); group != groups.end()) {
      auto messages = warmMessages(group->second, scratch.get());
      status = runGroup({"warm-up", peersOfMessages(messages)}, messages);
    }
  }
  if (!status.ok())
    (void)scratch.release(); // a message may still come
  return status;
}

Status NcclTransport::warmUp() {
  DTRT_RETURN_IF_ERROR(state->agreeOnWaves());
  Status status = state->warmUpAll();
  if (!status.ok())
    abort(status);
  return status;
}

//===----------------------------------------------------------------------===//
// The transport
//===----------------------------------------------------------------------===//

NcclTransport::NcclTransport(std::shared_ptr<State> state)
    : state(std::move(state)) {}

/// A job may hold the state longer than this; the end is awaited here.
NcclTransport::~NcclTransport() {
  leave();
  state->communicator.awaitEnd();
}

Result<std::unique_ptr<NcclTransport>>
NcclTransport::create(NcclOptions options) {
  auto found =
      std::find(options.devices.begin(), options.devices.end(), options.device);
  if (found == options.devices.end())
    return makeError("device ", options.device, " is not in this world");
  if (!options.ranks)
    return makeError("no store to share NCCL's unique id through");
  auto rank = uint32_t(found - options.devices.begin());
  return std::unique_ptr<NcclTransport>(
      new NcclTransport(std::make_shared<State>(std::move(options), rank)));
}

uint32_t NcclTransport::device() const {
  return state->communicator.options().device;
}

Status NcclTransport::connect(const Digest &digest,
                              const std::vector<uint32_t> & /*peers*/) {
  DTRT_RETURN_IF_ERROR(state->communicator.connect(digest));
  UseGpu use(*state->communicator.gpu());
  Status made = state->stream.create(Urgency::Most);
  if (!made.ok())
    state->communicator.abort(made);
  return made;
}

Status NcclTransport::group(const std::vector<TransportMessage> &messages) {
  return state->runGroup(
      {"group " + std::to_string(state->groups++), peersOfMessages(messages)},
      messages);
}

/// Runs no kernel, as all that is done before the warm-up.
Status NcclTransport::prepareCollectives(
    const std::vector<std::vector<uint32_t>> &sets) {
  state->memberSets = sets;
  if (sets.empty())
    return {};
  return state->communicator.run(
      {"communicators of member sets", state->communicator.options().devices},
      [self = state] { return self->communicator.split(self->memberSets); });
}

Status NcclTransport::collective(const CollectiveCall &call) {
  std::string what = std::string(collectiveName(call.kind)) + " in group " +
                     std::to_string(state->groups++);
  return state->runCollective(state->callPhase(what, call.members), call);
}

void NcclTransport::abort(const Status &why) { state->communicator.abort(why); }

void NcclTransport::leave() {
  auto release = [registration = state->registration, puts = state->puts](
                     const NcclApi &api, ncclComm_t handle) mutable {
    if (registration)
      (void)api.CommDeregister(handle, registration);
    puts.close(api, handle);
  };
  // A peer that has not heard of an abort may still put into a window.
  bool isWindow = state->arenaKind == kWindow;
  auto freeAll = [arena = state->arena, freeArena = state->freeArena,
                  isWindow](bool aborted) {
    if (arena && !(isWindow && aborted))
      freeArena(arena);
  };
  state->communicator.leave(release, freeAll);
}

void NcclTransport::start(std::function<Status()> enqueueAll) {
  state->communicator.start(std::move(enqueueAll));
}

Status NcclTransport::enqueue(size_t group,
                              const std::vector<TransportMessage> &messages,
                              GpuStream stream) {
  auto self = state; // which the call may outlast
  return self->putsWaves
             ? self->enqueueEnds(self->traffic.groups[group], stream)
             : self->enqueue(messages, stream);
}

Status NcclTransport::enqueueCollective(size_t, const CollectiveCall &call,
                                        GpuStream stream) {
  auto self = state; // which the call may outlast
  return self->enqueueCollective(call, stream);
}

bool NcclTransport::stopped() const { return state->communicator.stopped(); }

Status NcclTransport::await(size_t group,
                            const std::function<bool()> &reached) {
  return state->communicator.await(state->phaseOf(group), reached);
}

Status NcclTransport::finish() {
  return state->communicator.finish({"the end of the transfer", {}});
}

bool NcclTransport::capturable() const {
  return state->communicator.options().graph && !state->putsWaves &&
         mayCaptureMessages();
}

bool NcclTransport::oneSided() const { return state->putsWaves; }

void NcclTransport::leakMemory() {
  state->arena = nullptr;
  state->stream.leak();
}

//===----------------------------------------------------------------------===//
// What the library has
//===----------------------------------------------------------------------===//

bool ncclAllowsSharedGpus(const NcclApi *api) {
  if (!api) {
    auto loaded = loadNccl();
    if (!loaded.ok())
      return false;
    api = *loaded;
  }
  return api->version() >= NCCL_VERSION(2, 30, 3);
}

} // namespace dtrt
