//===- NcclCommunicator.cpp - A communicator that can be given up ---------===//

#include "NcclCommunicator.h"

#include "Looks.h"
#include "NcclConfig.h"
#include "Stream.h"
#include "Worker.h"

#include "dtrt/cost/KernelPlans.h"
#include "dtrt/cuda/GpuMemory.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

namespace dtrt {

namespace {

using Clock = std::chrono::steady_clock;

/// Peers of a rank in one wave: what plans keep to.
constexpr int kMaxPeers = int(kMaxGroupMessages);
/// Between two looks at NCCL's asynchronous errors.
constexpr std::chrono::milliseconds kErrorInterval(2);
/// How long a rank that fails waits until the others have been told, until a
/// call has come back from NCCL, and until all of its threads are done.
constexpr Seconds kTellLimit(1), kCallLimit(2), kEndLimit(3);
/// A rank tells its neighbour so often that it is alive, and is missed after so
/// many times that the neighbour has looked and seen nothing new. In large
/// worlds less often, so that the store is left to others.
constexpr Seconds kSignInterval(0.25), kSignIntervalPerRank(0.001);
constexpr int kSignsMissed = 12;
constexpr const char *kLeft = "left";

std::string namesOf(const std::vector<uint32_t> &devices) {
  std::string names;
  for (uint32_t device : devices)
    names += (names.empty() ? "" : ", ") + std::to_string(device);
  return names;
}

} // namespace

/// Shared with all threads, any of which NCCL may keep for ever.
struct NcclCommunicator::State : std::enable_shared_from_this<State> {
  State(NcclOptions given, uint32_t rank)
      : options(std::move(given)), rank(rank), gpu(currentGpu()),
        ranks(*options.ranks) {}

  Status gather(const Digest &digest);
  Status agreeOnId(const Digest &digest, ncclUniqueId &id);
  Result<std::string> judge(const std::vector<std::string> &records) const;
  Status make(const ncclUniqueId &id);
  Status makeBlocking();
  NcclConfig configOf(const NcclWishes &wishes) const;
  Status splitOff(int color, const NcclConfig &config, ncclComm_t &made);
  Status call(const ncclComm_t &on, const Calls &calls);
  std::vector<ncclComm_t *> allHandles();

  bool lockCalls(std::unique_lock<std::timed_mutex> &lock);
  Status settle(ncclComm_t handle, ncclResult_t result);
  Status errorOf(ncclComm_t handle, ncclResult_t result) const;
  Status asyncError();
  Status stopReason();

  Status named(const NcclPhase &phase, const Status &why) const;
  Status fail(const NcclPhase &phase, const Status &why);
  void giveUp(const Status &why, bool tell);
  void tellAll(const Status &why);
  void drop();
  void end(const Release &release);

  /// Whose signs of life this rank looks for.
  struct Neighbour {
    uint32_t rank = 0;
    std::string said;
    int missed = 0; // looks that have seen nothing new
  };
  void watch();
  Status look(Neighbour &neighbour);
  uint32_t nextRank(uint32_t after) const {
    return (after + 1) % uint32_t(options.devices.size());
  }
  std::string aliveKey(uint32_t of) const {
    return "nccl/alive/" + std::to_string(of);
  }

  const NcclOptions options;
  const uint32_t rank;
  const Result<int> gpu;
  Rendezvous &ranks;
  const NcclApi *api = nullptr;
  int version = 0;

  std::timed_mutex calls; // held while a call is inside the communicator
  ncclComm_t communicator = nullptr;
  /// What the communicator was split off; it is only there to be aborted, which
  /// lets calls inside the other one return.
  ncclComm_t parent = nullptr;
  /// By member set; null where this rank is no member. NCCL writes a handle
  /// when its split has ended, on a thread of its own: none of them moves.
  std::vector<ncclComm_t> members;
  ncclComm_t noMember = nullptr; // likewise, and stays null

  mutable std::mutex mutex; // of what follows
  Status reason;            // once stopping
  Status jobStatus;
  bool jobRuns = false;
  bool leaving = false;
  bool watching = false;
  std::condition_variable wake; // of the watch
  std::atomic<bool> stopping{false};

  Worker worker, teller, aborter, watcher;
};

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

Status NcclCommunicator::State::stopReason() {
  std::lock_guard<std::mutex> lock(mutex);
  return reason.ok()
             ? makeError(ErrorCode::Cancelled, "the communicator has ended")
             : reason;
}

/// False once the communicator is being ended.
bool NcclCommunicator::State::lockCalls(
    std::unique_lock<std::timed_mutex> &lock) {
  lock = std::unique_lock<std::timed_mutex>(calls, std::defer_lock);
  while (!stopping)
    if (lock.try_lock_for(std::chrono::milliseconds(1)))
      return !stopping;
  return false;
}

Status NcclCommunicator::State::errorOf(ncclComm_t handle,
                                        ncclResult_t result) const {
  const char *detail = api->GetLastError(handle);
  return makeError(ErrorCode::PeerLost, api->GetErrorString(result),
                   detail && *detail ? std::string(" (") + detail + ")" : "");
}

/// Until the host has carried out the call that gave `result`.
Status NcclCommunicator::State::settle(ncclComm_t handle, ncclResult_t result) {
  Looks looks;
  while (result == ncclInProgress) {
    std::unique_lock<std::timed_mutex> lock;
    if (!lockCalls(lock))
      return stopReason();
    ncclResult_t asked = api->CommGetAsyncError(handle, &result);
    if (asked != ncclSuccess)
      result = asked;
    lock.unlock();
    looks.pause();
  }
  if (result == ncclSuccess)
    return {};
  return stopping ? stopReason() : errorOf(handle, result);
}

/// What has gone wrong between calls; nothing while one is under way.
Status NcclCommunicator::State::asyncError() {
  std::unique_lock<std::timed_mutex> lock(calls, std::try_to_lock);
  if (!lock || stopping || !communicator)
    return {};
  for (ncclComm_t *handle : allHandles()) {
    if (!*handle || handle == &parent)
      continue;
    ncclResult_t result = ncclSuccess;
    ncclResult_t asked = api->CommGetAsyncError(*handle, &result);
    if (asked != ncclSuccess)
      result = asked;
    if (result != ncclSuccess && result != ncclInProgress)
      return errorOf(*handle, result);
  }
  return {};
}

Status NcclCommunicator::State::call(const ncclComm_t &on, const Calls &calls) {
  std::unique_lock<std::timed_mutex> lock;
  if (!lockCalls(lock) || !on)
    return stopReason();
  ncclComm_t handle = on;
  ncclResult_t result = calls(handle);
  lock.unlock();
  return settle(handle, result);
}

Status NcclCommunicator::call(const Calls &calls) {
  return state->call(state->communicator, calls);
}

Status NcclCommunicator::callOn(size_t set, const Calls &calls) {
  return state->call(state->members[set], calls);
}

//===----------------------------------------------------------------------===//
// Ending
//===----------------------------------------------------------------------===//

Status NcclCommunicator::State::named(const NcclPhase &phase,
                                      const Status &why) const {
  std::string peers = phase.peers.empty()
                          ? ""
                          : "; peers in this phase: " + namesOf(phase.peers);
  return makeError("device ", options.device, ": nccl ", phase.name, ": ", why,
                   peers);
}

/// Where another rank has stopped first, that is the reason here too.
Status NcclCommunicator::State::fail(const NcclPhase &phase,
                                     const Status &why) {
  Status own = named(phase, why);
  giveUp(own, /*tell=*/true);
  Status first = stopReason();
  return first.message() == own.message() ? own : named(phase, first);
}

/// On the teller.
void NcclCommunicator::State::tellAll(const Status &why) {
  auto decision = ranks.abort(why);
  if (!decision.ok() || decision->state != Attempt::State::Aborted)
    return;
  std::lock_guard<std::mutex> lock(mutex);
  reason = decision->why;
}

/// The first reason stays. Others hear of it before anything here may block.
void NcclCommunicator::State::giveUp(const Status &why, bool tell) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!reason.ok())
      return;
    reason = why;
  }
  auto self = shared_from_this();
  if (tell) {
    teller.post([self, why] { self->tellAll(why); });
    (void)teller.idleWithin(kTellLimit);
  }
  stopping = true;
  aborter.post([self] { self->drop(); });
}

/// Ends every kernel of the communicator, and every call inside it. May stay
/// until the peers do the same.
void NcclCommunicator::State::drop() {
  std::optional<UseGpu> use;
  if (gpu.ok())
    use.emplace(*gpu);
  std::unique_lock<std::timed_mutex> lock(calls, std::defer_lock);
  bool locked = lock.try_lock_for(std::chrono::milliseconds(10));
  ncclComm_t first = parent;
  parent = nullptr;
  if (first)
    api->CommAbort(first); // then a call inside the other one returns
  if (!locked && !lock.try_lock_for(kCallLimit))
    return; // the thread inside would find its communicator gone
  for (ncclComm_t *handle : allHandles()) {
    ncclComm_t last = *handle;
    *handle = nullptr;
    if (last)
      api->CommAbort(last);
  }
}

/// What was split off after what it was split off: so a split that is being
/// made ends before anything looks for what it has made.
std::vector<ncclComm_t *> NcclCommunicator::State::allHandles() {
  std::vector<ncclComm_t *> all = {&parent, &communicator};
  for (ncclComm_t &one : members)
    all.push_back(&one);
  return all;
}

/// In good order, on the worker.
void NcclCommunicator::State::end(const Release &release) {
  std::optional<UseGpu> use;
  if (gpu.ok())
    use.emplace(*gpu);
  std::unique_lock<std::timed_mutex> held;
  if (release && communicator && lockCalls(held))
    release(*api, communicator);
  held = {};
  std::vector<ncclComm_t *> all = allHandles();
  std::reverse(all.begin(), all.end());
  for (ncclComm_t *handle : all) {
    std::unique_lock<std::timed_mutex> lock;
    if (!*handle || !lockCalls(lock))
      continue;
    ncclResult_t result = api->CommFinalize(*handle);
    lock.unlock();
    if (!settle(*handle, result).ok() || !lockCalls(lock))
      continue;
    // Nothing else calls it now; an abort must not wait for this.
    ncclComm_t last = *handle;
    *handle = nullptr;
    lock.unlock();
    api->CommDestroy(last);
  }
}

//===----------------------------------------------------------------------===//
// Signs of life
//===----------------------------------------------------------------------===//

/// Looks for a rank that has stopped, and at the neighbour: the next rank that
/// has not left, so that each rank that is there is seen by one that is there.
/// Who leaves the attempt takes its sign along.
Status NcclCommunicator::State::look(Neighbour &neighbour) {
  DTRT_RETURN_IF_ERROR(ranks.checkStopped());
  if (neighbour.rank == rank)
    return {};
  auto sign = ranks.find(aliveKey(neighbour.rank));
  DTRT_RETURN_IF_ERROR(sign);
  std::string said = *sign ? **sign : "";
  if (said == kLeft || (said.empty() && !neighbour.said.empty())) {
    neighbour = {nextRank(neighbour.rank), "", 0};
    return {};
  }
  if (said != neighbour.said) {
    neighbour = {neighbour.rank, said, 0};
    return {};
  }
  if (++neighbour.missed < kSignsMissed)
    return {};
  return makeError(ErrorCode::PeerLost, "rank ", neighbour.rank, " (device ",
                   options.devices[neighbour.rank], ") does not respond");
}

void NcclCommunicator::State::watch() {
  Seconds interval = std::max(
      kSignInterval, kSignIntervalPerRank * double(options.devices.size()));
  Neighbour neighbour = {nextRank(rank), "", 0};
  uint64_t count = 0;
  std::unique_lock<std::mutex> lock(mutex);
  while (watching && reason.ok()) {
    lock.unlock();
    Status said = ranks.share(aliveKey(rank), std::to_string(++count));
    // Once this rank has left the attempt it looks for nobody.
    Status found = said.ok() ? look(neighbour) : ranks.checkStopped();
    // What only this rank may have seen.
    bool tell = neighbour.missed >= kSignsMissed;
    // Bytes do not need the store.
    if (!found.ok() && !found.is(ErrorCode::StoreLost))
      giveUp(found, tell);
    lock.lock();
    wake.wait_for(lock, interval, [&] { return !watching || !reason.ok(); });
  }
  lock.unlock();
  if (!stopping)
    (void)ranks.share(aliveKey(rank), kLeft);
}

//===----------------------------------------------------------------------===//
// Connecting
//===----------------------------------------------------------------------===//

/// Rank 0's part: NCCL's unique id, when all ranks have the library. A record
/// is empty, or says why one cannot take part.
Result<std::string>
NcclCommunicator::State::judge(const std::vector<std::string> &records) const {
  for (size_t i = 0; i < records.size(); ++i)
    if (!records[i].empty())
      return makeError(ErrorCode::System, "device ", options.devices[i], ": ",
                       records[i]);
  ncclUniqueId id;
  ncclResult_t result = api->GetUniqueId(&id);
  if (result != ncclSuccess)
    return makeError(ErrorCode::System,
                     "no unique id: ", api->GetErrorString(result));
  return std::string(id.internal, sizeof id.internal);
}

/// Where nobody has compared the plans yet.
Status NcclCommunicator::State::gather(const Digest &digest) {
  if (ranks.hasGathered())
    return {};
  Arrival arrival;
  arrival.kind = "run";
  arrival.terms = {{"plan", digestText(digest)}};
  return statusOf(ranks.gather(arrival, "", [](const auto &) {
    return Result<std::string>(std::string());
  }));
}

/// A rank that cannot take part says so in its record, to all.
Status NcclCommunicator::State::agreeOnId(const Digest &digest,
                                          ncclUniqueId &id) {
  Status gathered = gather(digest);
  if (!gathered.ok())
    return named({"connect", {}}, gathered);
  std::string record;
  api = options.api;
  if (!api) {
    auto loaded = loadNccl();
    if (loaded.ok())
      api = *loaded;
    else
      record = loaded.status().message();
  }
  if (api && !gpu.ok())
    record = gpu.status().message();
  auto verdict = ranks.agree(Step::Nccl, record,
                             [this](const auto &all) { return judge(all); });
  if (!verdict.ok())
    return named({"connect", {}}, verdict.status());
  if (verdict->size() != sizeof id.internal)
    return makeError(ErrorCode::Mismatch, "the unique id has ", verdict->size(),
                     " bytes, expected ", sizeof id.internal);
  memcpy(id.internal, verdict->data(), sizeof id.internal);
  version = api->version();
  return {};
}

/// Its calls return at once, so that a rank that does not come stops nobody.
Status NcclCommunicator::State::make(const ncclUniqueId &id) {
  NcclWishes wishes;
  wishes.shares = true;
  wishes.maxPeers = kMaxPeers;
  NcclConfig config = configOf(wishes);
  std::unique_lock<std::timed_mutex> lock;
  if (!lockCalls(lock))
    return stopReason();
  ncclResult_t result = api->CommInitRankConfig(
      &communicator, int(options.devices.size()), id, int(rank), config.get());
  lock.unlock();
  DTRT_RETURN_IF_ERROR(settle(communicator, result));
  bool blocking = options.calls == NcclCalls::Blocking;
  return blocking ? makeBlocking() : Status();
}

/// A group of a communicator whose calls return at once costs a thread; one of
/// a communicator that blocks is put on its stream by the caller. The first one
/// stays beside it, to be aborted.
Status NcclCommunicator::State::makeBlocking() {
  NcclWishes wishes;
  wishes.blocking = true;
  wishes.maxPeers = kMaxPeers;
  std::unique_lock<std::timed_mutex> lock;
  if (!lockCalls(lock))
    return stopReason();
  std::swap(parent, communicator);
  lock.unlock();
  return splitOff(/*color=*/0, configOf(wishes), communicator);
}

/// Of all communicators alike.
NcclConfig NcclCommunicator::State::configOf(const NcclWishes &wishes) const {
  NcclWishes all = wishes;
  all.channelsPerNetPeer = options.channelsPerNetPeer;
  all.graphs = options.graph;
  return makeNcclConfig(version, all);
}

/// Off the first communicator, whose calls return at once. `made` stays null
/// until the split has ended, and where the color is NCCL_SPLIT_NOCOLOR.
Status NcclCommunicator::State::splitOff(int color, const NcclConfig &config,
                                         ncclComm_t &made) {
  NcclConfig own = config;
  std::unique_lock<std::timed_mutex> lock;
  if (!lockCalls(lock))
    return stopReason();
  ncclComm_t from = parent ? parent : communicator;
  ncclResult_t result =
      api->CommSplit(from, color, int(rank), &made, own.get());
  lock.unlock();
  DTRT_RETURN_IF_ERROR(settle(from, result));
  return made || color == NCCL_SPLIT_NOCOLOR
             ? Status()
             : makeError(ErrorCode::System,
                         "ncclCommSplit gives no communicator");
}

/// Sets without a common device are split off by one call: each has a color.
static std::vector<std::vector<size_t>>
splitsOf(const std::vector<std::vector<uint32_t>> &sets) {
  std::vector<std::vector<size_t>> splits;
  std::vector<std::set<uint32_t>> taken;
  for (size_t i = 0; i < sets.size(); ++i) {
    size_t at = 0;
    auto meets = [&](uint32_t device) { return taken[at].count(device) > 0; };
    while (at < splits.size() &&
           std::any_of(sets[i].begin(), sets[i].end(), meets))
      ++at;
    if (at == splits.size()) {
      splits.emplace_back();
      taken.emplace_back();
    }
    splits[at].push_back(i);
    taken[at].insert(sets[i].begin(), sets[i].end());
  }
  return splits;
}

Status NcclCommunicator::split(const std::vector<std::vector<uint32_t>> &sets) {
  const NcclOptions &options = state->options;
  NcclWishes wishes;
  wishes.blocking = options.calls == NcclCalls::Blocking;
  NcclConfig config = state->configOf(wishes);
  {
    std::unique_lock<std::timed_mutex> lock;
    if (!state->lockCalls(lock))
      return state->stopReason();
    state->members.assign(sets.size(), nullptr);
  }
  for (const std::vector<size_t> &split : splitsOf(sets)) {
    ncclComm_t *made = &state->noMember;
    int color = NCCL_SPLIT_NOCOLOR;
    for (size_t i = 0; i < split.size(); ++i)
      if (std::binary_search(sets[split[i]].begin(), sets[split[i]].end(),
                             options.device)) {
        color = int(i);
        made = &state->members[split[i]];
      }
    DTRT_RETURN_IF_ERROR(state->splitOff(color, config, *made));
  }
  return {};
}

Status NcclCommunicator::connect(const Digest &digest) {
  ncclUniqueId id;
  DTRT_RETURN_IF_ERROR(state->agreeOnId(digest, id));
  {
    std::lock_guard<std::mutex> lock(state->mutex);
    state->watching = true;
  }
  state->watcher.post([state = state] { state->watch(); });
  return run({"bootstrap", state->options.devices},
             [state = state, id] { return state->make(id); });
}

Result<std::string> NcclCommunicator::agree(Step step,
                                            const std::string &record,
                                            const Rendezvous::Judge &judge) {
  auto verdict = state->ranks.agree(step, record, judge);
  if (!verdict.ok())
    return state->fail({"agreement", {}}, verdict.status());
  return verdict;
}

//===----------------------------------------------------------------------===//
// Jobs
//===----------------------------------------------------------------------===//

void NcclCommunicator::start(std::function<Status()> job) {
  {
    std::lock_guard<std::mutex> lock(state->mutex);
    state->jobStatus = {};
    state->jobRuns = true;
  }
  state->worker.post([state = state, job = std::move(job)] {
    Status status = state->stopReason();
    if (!state->stopping) {
      UseGpu use(*state->gpu);
      status = job();
    }
    std::lock_guard<std::mutex> lock(state->mutex);
    state->jobStatus = status;
    state->jobRuns = false;
  });
}

Status NcclCommunicator::await(const NcclPhase &phase,
                               const std::function<bool()> &reached) {
  auto limit = state->options.timeout;
  Looks looks;
  auto deadline =
      looks.begin + std::chrono::duration_cast<Clock::duration>(limit);
  auto nextLook = looks.begin + kErrorInterval;
  while (!reached()) {
    if (state->stopping)
      break;
    looks.pause();
    if (Clock::now() < nextLook)
      continue;
    nextLook = Clock::now() + kErrorInterval;
    Status found = state->asyncError();
    {
      std::lock_guard<std::mutex> lock(state->mutex);
      if (!state->jobRuns && !state->jobStatus.ok())
        found = state->jobStatus;
    }
    if (found.ok() && Clock::now() > deadline)
      found = makeError(ErrorCode::Timeout, "not finished within ",
                        limit.count(), " s");
    if (!found.ok())
      return state->fail(phase, found);
  }
  // An abort lets groups end too.
  return state->stopping ? state->fail(phase, state->stopReason()) : Status();
}

/// A job that has failed, or that NCCL keeps, ends the communicator.
Status NcclCommunicator::finish(const NcclPhase &phase) {
  auto ended = [this] {
    std::lock_guard<std::mutex> lock(state->mutex);
    return !state->jobRuns;
  };
  Status status = await(phase, ended);
  if (!status.ok()) {
    auto deadline =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(kCallLimit);
    while (!ended() && Clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    return status;
  }
  Status result;
  {
    std::lock_guard<std::mutex> lock(state->mutex);
    result = state->jobStatus;
  }
  return result.ok() ? result : state->fail(phase, result);
}

Status NcclCommunicator::run(const NcclPhase &phase,
                             std::function<Status()> job) {
  start(std::move(job));
  return finish(phase);
}

//===----------------------------------------------------------------------===//
// The communicator
//===----------------------------------------------------------------------===//

NcclCommunicator::NcclCommunicator(NcclOptions options, uint32_t rank)
    : state(std::make_shared<State>(std::move(options), rank)) {}

NcclCommunicator::~NcclCommunicator() { leave({}, {}); }

const NcclOptions &NcclCommunicator::options() const { return state->options; }
Result<int> NcclCommunicator::gpu() const { return state->gpu; }
uint32_t NcclCommunicator::rank() const { return state->rank; }
const NcclApi &NcclCommunicator::api() const { return *state->api; }
int NcclCommunicator::version() const { return state->version; }
bool NcclCommunicator::stopped() const { return state->stopping; }

Result<int> NcclCommunicator::rankOf(uint32_t device) const {
  const std::vector<uint32_t> &devices = state->options.devices;
  auto found = std::find(devices.begin(), devices.end(), device);
  if (found == devices.end())
    return makeError("device ", device, " is not in this world");
  return int(found - devices.begin());
}

void NcclCommunicator::abort(const Status &why) {
  state->giveUp(why, /*tell=*/true);
}

void NcclCommunicator::leave(Release release,
                             std::function<void(bool aborted)> freeAll) {
  {
    std::lock_guard<std::mutex> lock(state->mutex);
    if (state->leaving)
      return;
    state->leaving = true;
    state->watching = false;
  }
  state->wake.notify_all();
  // Behind the abort, where there is one; it may never end, and nothing that
  // the communicator may still use is freed then.
  auto last = [state = state, release, freeAll] {
    state->end(release);
    if (!state->stopping) {
      if (freeAll)
        freeAll(/*aborted=*/false);
      return;
    }
    state->aborter.post([state, freeAll] {
      if (freeAll && !state->communicator)
        freeAll(/*aborted=*/true);
    });
  };
  state->worker.post(last);
}

/// The worker's calls may need the abort to return; its last job may be one for
/// the aborter. One limit for all: an abort may stay as long as a peer does not
/// answer.
void NcclCommunicator::awaitEnd() {
  auto deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(kEndLimit);
  auto left = [&] { return Seconds(deadline - Clock::now()); };
  for (Worker *one : {&state->teller, &state->aborter, &state->worker,
                      &state->aborter, &state->watcher})
    (void)one->idleWithin(left());
}

std::vector<uint32_t>
peersOfMessages(const std::vector<TransportMessage> &messages) {
  std::vector<uint32_t> peers;
  for (const TransportMessage &message : messages)
    peers.push_back(message.peer);
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

} // namespace dtrt
