//===- NcclTransport.cpp - Messages over NCCL -----------------------------===//
//
// The communicator is non-blocking: every call returns at once, and its end is
// polled for, together with asynchronous errors, the clock, and a stop of this
// rank or another.
//
//===----------------------------------------------------------------------===//

#include "dtrt/NcclTransport.h"

#include "NcclApi.h"

#include "dtrt/KernelPlans.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

namespace dtrt {

namespace {

using Clock = std::chrono::steady_clock;

/// Between two looks at a call that has not ended: longer looks cost waves
/// time, shorter ones a core.
constexpr std::chrono::microseconds kPollInterval(20);
/// Between two looks into the store, for a rank that has stopped.
constexpr std::chrono::milliseconds kStopInterval(50);

Status cudaStatus(cudaError_t error, const char *what) {
  if (error == cudaSuccess)
    return {};
  return makeError(ErrorCode::System, what, ": ", cudaGetErrorString(error));
}

std::string namesOf(const std::vector<uint32_t> &devices) {
  std::string names;
  for (uint32_t device : devices)
    names += (names.empty() ? "" : ", ") + std::to_string(device);
  return names;
}

/// What is waited for, for how long, and who could be the cause when it does
/// not end.
struct Wait {
  std::string phase;
  std::vector<uint32_t> peers; // devices, ascending
  Clock::time_point deadline;
};

} // namespace

struct NcclTransport::State {
  State(NcclOptions given, uint32_t rank)
      : options(std::move(given)), rank(rank), ranks(*options.ranks) {}
  ~State() { close(); }

  Status agree(const Digest &digest, ncclUniqueId &id);
  Status gather(const Digest &digest);
  Result<std::string> judge(const std::vector<std::string> &records) const;
  Status makeCommunicator(const ncclUniqueId &id);
  Status warmUp(const std::vector<uint32_t> &peers);
  Status runGroup(const std::vector<TransportMessage> &messages,
                  const std::string &phase);
  Status enqueue(const std::vector<TransportMessage> &messages);
  Result<int> rankOf(uint32_t device) const;

  template <typename Done> Status poll(const Wait &wait, Done done);
  Status waitForCall(ncclResult_t result, const Wait &wait);
  Status waitForStream(const Wait &wait);
  Result<bool> callEnded(ncclResult_t &result);
  Status checkStopped(Clock::time_point &nextLook);
  Status failed(const Wait &wait, const Status &why);
  Wait waitFor(std::string phase, std::vector<uint32_t> peers) const {
    return {std::move(phase), std::move(peers),
            Clock::now() +
                std::chrono::duration_cast<Clock::duration>(options.timeout)};
  }
  void drop();
  void close();

  NcclOptions options;
  const uint32_t rank;
  Rendezvous &ranks;
  const NcclApi *api = nullptr;
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<void *> registrations;
  int64_t groups = 0;

  std::atomic<bool> stopping{false};
  std::mutex mutex; // of what follows
  Status reason;    // once stopping
};

//===----------------------------------------------------------------------===//
// Waiting, with a limit
//===----------------------------------------------------------------------===//

/// Without waiting for peers; ends every kernel of the communicator.
void NcclTransport::State::drop() {
  if (communicator)
    api->CommAbort(communicator);
  communicator = nullptr;
  registrations.clear(); // which go with the communicator
}

Status NcclTransport::State::failed(const Wait &wait, const Status &why) {
  drop();
  std::string peers = wait.peers.empty() ? "" : "; peers in this phase: ";
  Status named =
      makeError("device ", options.device, ": nccl ", wait.phase, ": ",
                ranks.causeOf(why), peers, namesOf(wait.peers));
  (void)ranks.abort(named);
  return named;
}

Status NcclTransport::State::checkStopped(Clock::time_point &nextLook) {
  if (stopping) {
    std::lock_guard<std::mutex> lock(mutex);
    return reason;
  }
  if (Clock::now() < nextLook)
    return {};
  nextLook = Clock::now() + kStopInterval;
  Status stopped = ranks.checkStopped();
  // Bytes do not need the store.
  return stopped.is(ErrorCode::StoreLost) ? Status() : stopped;
}

/// Until done() is true; what it fails with, or what ends the wait early, ends
/// the communicator.
template <typename Done>
Status NcclTransport::State::poll(const Wait &wait, Done done) {
  Clock::time_point nextLook = Clock::now() + kStopInterval;
  for (;;) {
    Result<bool> ended = done();
    if (!ended.ok())
      return failed(wait, ended.status());
    if (*ended)
      return {};
    Status stopped = checkStopped(nextLook);
    if (!stopped.ok())
      return failed(wait, stopped);
    if (Clock::now() > wait.deadline)
      return failed(wait, makeError(ErrorCode::Timeout, "no end within ",
                                    options.timeout.count(), " s"));
    std::this_thread::sleep_for(kPollInterval);
  }
}

/// Whether the host has carried out the call that gave `result`, which becomes
/// the communicator's last word on it.
Result<bool> NcclTransport::State::callEnded(ncclResult_t &result) {
  if (result == ncclInProgress) {
    ncclResult_t asked = api->CommGetAsyncError(communicator, &result);
    if (asked != ncclSuccess)
      result = asked;
  }
  if (result == ncclSuccess || result == ncclInProgress)
    return result == ncclSuccess;
  const char *detail = api->GetLastError(communicator);
  return makeError(ErrorCode::PeerLost, api->GetErrorString(result),
                   detail && *detail ? std::string(" (") + detail + ")" : "");
}

Status NcclTransport::State::waitForCall(ncclResult_t result,
                                         const Wait &wait) {
  return poll(wait, [&] { return callEnded(result); });
}

/// Until the GPU has carried out all that was enqueued.
Status NcclTransport::State::waitForStream(const Wait &wait) {
  return poll(wait, [&]() -> Result<bool> {
    cudaError_t error = api->queryStream(stream);
    if (error == cudaSuccess)
      return true;
    if (error != cudaErrorNotReady)
      return cudaStatus(error, "the GPU failed");
    ncclResult_t result = ncclInProgress;
    DTRT_RETURN_IF_ERROR(callEnded(result));
    return false;
  });
}

//===----------------------------------------------------------------------===//
// Connecting
//===----------------------------------------------------------------------===//

Result<int> NcclTransport::State::rankOf(uint32_t device) const {
  auto found =
      std::find(options.devices.begin(), options.devices.end(), device);
  if (found == options.devices.end())
    return makeError("device ", device, " is not in this world");
  return int(found - options.devices.begin());
}

/// Rank 0's part: NCCL's unique id, when all ranks have the library. A record
/// is empty, or says why one has not.
Result<std::string>
NcclTransport::State::judge(const std::vector<std::string> &records) const {
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
Status NcclTransport::State::gather(const Digest &digest) {
  if (ranks.hasGathered())
    return {};
  Arrival arrival;
  arrival.kind = "run";
  arrival.terms = {{"plan", digestText(digest)}};
  return statusOf(ranks.gather(arrival, "", [](const auto &) {
    return Result<std::string>(std::string());
  }));
}

/// A rank that cannot load NCCL says so in its record, to all.
Status NcclTransport::State::agree(const Digest &digest, ncclUniqueId &id) {
  Status gathered = gather(digest);
  if (!gathered.ok())
    return makeError("device ", options.device, ": nccl connect: ", gathered);
  std::string record;
  api = options.api;
  if (!api) {
    auto loaded = loadNccl();
    if (loaded.ok())
      api = *loaded;
    else
      record = loaded.status().message();
  }
  auto verdict = ranks.agree(Step::Nccl, record,
                             [this](const auto &all) { return judge(all); });
  if (!verdict.ok())
    return makeError("device ", options.device,
                     ": nccl connect: ", verdict.status());
  if (verdict->size() != sizeof id.internal)
    return makeError(ErrorCode::Mismatch, "the unique id has ", verdict->size(),
                     " bytes, expected ", sizeof id.internal);
  memcpy(id.internal, verdict->data(), sizeof id.internal);
  return {};
}

Status NcclTransport::State::makeCommunicator(const ncclUniqueId &id) {
  Wait wait = waitFor("bootstrap", options.devices);
  Status made = cudaStatus(api->makeStream(&stream), "cannot create a stream");
  if (!made.ok())
    return failed(wait, made);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.maxCTAs = kMaxChannels; // so that groups fit one kernel plan
  return waitForCall(api->CommInitRankConfig(&communicator,
                                             int(options.devices.size()), id,
                                             int(rank), &config),
                     wait);
}

/// One byte each way with every peer: NCCL connects a pair on first use, in the
/// middle of a group, which is where the plan's time would go.
Status NcclTransport::State::warmUp(const std::vector<uint32_t> &peers) {
  if (peers.empty())
    return {};
  void *block = nullptr;
  Status made = cudaStatus(api->allocate(&block, 2 * peers.size()),
                           "cannot allocate its bytes");
  if (!made.ok())
    return failed(waitFor("warm-up", peers), made);
  auto *bytes = static_cast<std::byte *>(block);
  std::vector<TransportMessage> messages;
  for (size_t i = 0; i < peers.size(); ++i) {
    messages.push_back({false, peers[i], bytes + 2 * i, 1, nullptr});
    messages.push_back({true, peers[i], bytes + 2 * i + 1, 1, nullptr});
  }
  Status status = runGroup(messages, "warm-up");
  api->free(block);
  return status;
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

/// Messages of no bytes are left out, on both of their ends.
Status
NcclTransport::State::enqueue(const std::vector<TransportMessage> &messages) {
  for (const TransportMessage &message : messages) {
    auto peer = rankOf(message.peer);
    DTRT_RETURN_IF_ERROR(peer);
    if (message.bytes == 0)
      continue;
    ncclResult_t result =
        message.receive ? api->Recv(message.data, message.bytes, ncclUint8,
                                    *peer, communicator, stream)
                        : api->Send(message.data, message.bytes, ncclUint8,
                                    *peer, communicator, stream);
    if (result != ncclSuccess && result != ncclInProgress)
      return makeError(ErrorCode::PeerLost,
                       "cannot enqueue a message with device ", message.peer,
                       ": ", api->GetErrorString(result));
  }
  return {};
}

Status
NcclTransport::State::runGroup(const std::vector<TransportMessage> &messages,
                               const std::string &phase) {
  std::vector<uint32_t> peers;
  for (const TransportMessage &message : messages)
    peers.push_back(message.peer);
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  Wait wait = waitFor(phase, std::move(peers));
  Clock::time_point never = Clock::time_point::max();
  DTRT_RETURN_IF_ERROR(checkStopped(never));
  if (!communicator)
    return makeError(ErrorCode::PeerLost, "device ", options.device, ": nccl ",
                     phase, ": there is no communicator (any more)");
  ncclResult_t result = api->GroupStart();
  if (result != ncclSuccess)
    return failed(wait,
                  makeError(ErrorCode::PeerLost, api->GetErrorString(result)));
  Status enqueued = enqueue(messages);
  result = api->GroupEnd(); // in any case: it is this thread's state
  if (!enqueued.ok())
    return failed(wait, enqueued);
  DTRT_RETURN_IF_ERROR(waitForCall(result, wait));
  return waitForStream(wait);
}

void NcclTransport::State::close() {
  if (stopping)
    drop();
  if (communicator) {
    for (void *handle : registrations)
      api->CommDeregister(communicator, handle);
    registrations.clear();
    // Every group of this rank has ended, so there is nothing to wait for.
    Status ended =
        waitForCall(api->CommFinalize(communicator), waitFor("farewell", {}));
    if (ended.ok())
      api->CommDestroy(communicator);
    communicator = nullptr;
  }
  if (stream)
    api->freeStream(stream);
  stream = nullptr;
}

//===----------------------------------------------------------------------===//
// The transport
//===----------------------------------------------------------------------===//

NcclTransport::NcclTransport(std::unique_ptr<State> state)
    : state(std::move(state)) {}

NcclTransport::~NcclTransport() = default;

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
      new NcclTransport(std::make_unique<State>(std::move(options), rank)));
}

uint32_t NcclTransport::device() const { return state->options.device; }

Status NcclTransport::connect(const Digest &digest,
                              const std::vector<uint32_t> &peers) {
  ncclUniqueId id;
  DTRT_RETURN_IF_ERROR(state->agree(digest, id));
  DTRT_RETURN_IF_ERROR(state->makeCommunicator(id));
  return state->warmUp(peers);
}

Status NcclTransport::group(const std::vector<TransportMessage> &messages) {
  return state->runGroup(messages, "group " + std::to_string(state->groups++));
}

void NcclTransport::abort(const Status &why) {
  {
    std::lock_guard<std::mutex> lock(state->mutex);
    if (state->reason.ok())
      state->reason = why;
  }
  state->stopping = true;
  (void)state->ranks.abort(why);
}

void NcclTransport::leave() { state->close(); }

Status NcclTransport::registerArena(std::byte *data, uint64_t bytes) {
  if (!data || bytes == 0)
    return {};
  void *handle = nullptr;
  DTRT_RETURN_IF_ERROR(state->waitForCall(
      state->api->CommRegister(state->communicator, data, bytes, &handle),
      state->waitFor("registration", {})));
  if (handle)
    state->registrations.push_back(handle);
  return {};
}

//===----------------------------------------------------------------------===//
// What the library has
//===----------------------------------------------------------------------===//

MemorySource ncclMemory() {
  auto allocate = [](uint64_t bytes) -> std::byte * {
    auto api = loadNccl();
    void *block = nullptr;
    if (!api.ok() || (*api)->MemAlloc(&block, bytes) != ncclSuccess)
      return nullptr;
    // Other streams do not wait for the one that the zeros are written on.
    if (cudaMemset(block, 0, bytes) != cudaSuccess ||
        cudaStreamSynchronize(cudaStreamLegacy) != cudaSuccess) {
      (*api)->MemFree(block);
      return nullptr;
    }
    return static_cast<std::byte *>(block);
  };
  auto free = [](std::byte *block) {
    auto api = loadNccl();
    if (api.ok())
      (*api)->MemFree(block);
  };
  return {allocate, free, {}};
}

bool ncclAllowsSharedGpus() {
  auto api = loadNccl();
  int version = 0;
  return api.ok() && (*api)->GetVersion(&version) == ncclSuccess &&
         version >= NCCL_VERSION(2, 30, 3);
}

} // namespace dtrt
