//===- NcclTransport.cpp - Messages over NCCL -----------------------------===//
//
// The communicator is non-blocking: every call returns at once, and its end is
// polled for, together with asynchronous errors and the clock.
//
//===----------------------------------------------------------------------===//

#include "dtrt/NcclTransport.h"

#include <algorithm>
#include <cstring>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <thread>

namespace dtrt {

namespace {

using Clock = std::chrono::steady_clock;

/// Between two looks at a call that has not ended: longer looks cost waves
/// time, shorter ones a core.
constexpr std::chrono::microseconds kPollInterval(20);

Status cudaStatus(cudaError_t error, const char *what) {
  if (error == cudaSuccess)
    return {};
  return makeError(what, ": ", cudaGetErrorString(error));
}

std::string namesOf(const std::vector<uint32_t> &devices) {
  std::string names;
  for (uint32_t device : devices)
    names += (names.empty() ? "" : ", ") + std::to_string(device);
  return names.empty() ? "none" : names;
}

} // namespace

struct NcclTransport::State {
  explicit State(NcclOptions options) : options(std::move(options)) {}
  ~State() { close(); }

  int rankOf(uint32_t device) const {
    auto found =
        std::find(options.devices.begin(), options.devices.end(), device);
    return found == options.devices.end()
               ? -1
               : int(found - options.devices.begin());
  }

  Result<std::string> waitForKey(const std::string &key, const char *phase,
                                 uint32_t from);
  Status compareDigests(const Digest &digest);
  Status shareId(ncclUniqueId &id);
  Status makeCommunicator();
  Status warmUp(const std::vector<uint32_t> &peers);
  Status runGroup(const std::vector<TransportMessage> &messages,
                  const std::string &phase);
  Status enqueue(const std::vector<TransportMessage> &messages);
  Status waitForCall(ncclResult_t result, const std::string &phase,
                     const std::vector<uint32_t> &peers,
                     Clock::time_point deadline);
  Status waitForStream(const std::string &phase,
                       const std::vector<uint32_t> &peers,
                       Clock::time_point deadline);
  Status failed(const std::string &phase, const std::vector<uint32_t> &peers,
                const std::string &why);
  Clock::time_point deadline() const {
    return Clock::now() +
           std::chrono::duration_cast<Clock::duration>(options.timeout);
  }
  void drop();
  void close();

  NcclOptions options;
  int rank = 0;
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<void *> registrations;
  int64_t groups = 0;
};

//===----------------------------------------------------------------------===//
// Waiting, with a limit
//===----------------------------------------------------------------------===//

/// Without waiting for peers; ends every kernel of the communicator.
void NcclTransport::State::drop() {
  if (communicator)
    ncclCommAbort(communicator);
  communicator = nullptr;
  registrations.clear();
}

Status NcclTransport::State::failed(const std::string &phase,
                                    const std::vector<uint32_t> &peers,
                                    const std::string &why) {
  drop();
  return makeError("device ", options.device, ": nccl ", phase, ": ", why,
                   "; peers in this phase: devices ", namesOf(peers));
}

/// Until the call that gave `result` has been carried out by the host.
Status NcclTransport::State::waitForCall(ncclResult_t result,
                                         const std::string &phase,
                                         const std::vector<uint32_t> &peers,
                                         Clock::time_point deadline) {
  while (result == ncclInProgress) {
    if (Clock::now() > deadline)
      return failed(phase, peers, "no end within the timeout");
    std::this_thread::sleep_for(kPollInterval);
    ncclResult_t asked = ncclCommGetAsyncError(communicator, &result);
    if (asked != ncclSuccess)
      result = asked;
  }
  if (result == ncclSuccess)
    return {};
  return failed(phase, peers,
                std::string(ncclGetErrorString(result)) + " (" +
                    ncclGetLastError(communicator) + ")");
}

Status NcclTransport::State::waitForStream(const std::string &phase,
                                           const std::vector<uint32_t> &peers,
                                           Clock::time_point deadline) {
  for (;;) {
    cudaError_t error = cudaStreamQuery(stream);
    if (error == cudaSuccess)
      return {};
    if (error != cudaErrorNotReady)
      return failed(phase, peers, cudaGetErrorString(error));
    ncclResult_t result = ncclSuccess;
    ncclResult_t asked = ncclCommGetAsyncError(communicator, &result);
    if (asked != ncclSuccess || result != ncclSuccess)
      return waitForCall(asked != ncclSuccess ? asked : result, phase, peers,
                         deadline);
    if (Clock::now() > deadline)
      return failed(phase, peers, "messages do not end within the timeout");
    std::this_thread::sleep_for(kPollInterval);
  }
}

//===----------------------------------------------------------------------===//
// Connecting
//===----------------------------------------------------------------------===//

Result<std::string> NcclTransport::State::waitForKey(const std::string &key,
                                                     const char *phase,
                                                     uint32_t from) {
  Clock::time_point end = deadline();
  for (;;) {
    auto value = options.store->get(options.prefix + "-" + key);
    DTRT_RETURN_IF_ERROR(value);
    if (*value)
      return std::move(**value);
    if (Clock::now() > end)
      return failed(phase, {from}, "nothing came within the timeout");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

Status NcclTransport::State::compareDigests(const Digest &digest) {
  std::string own = digestText(digest);
  DTRT_RETURN_IF_ERROR(options.store->set(
      options.prefix + "-digest-" + std::to_string(options.device), own));
  for (uint32_t device : options.devices) {
    auto other = waitForKey("digest-" + std::to_string(device),
                            "comparing plans", device);
    DTRT_RETURN_IF_ERROR(other);
    if (*other != own)
      return makeError("device ", options.device, " has plan ", own,
                       ", device ", device, " has ", *other);
  }
  return {};
}

Status NcclTransport::State::shareId(ncclUniqueId &id) {
  if (rank == 0) {
    ncclResult_t result = ncclGetUniqueId(&id);
    if (result != ncclSuccess)
      return failed("bootstrap", {}, ncclGetErrorString(result));
    return options.store->set(options.prefix + "-id",
                              std::string(id.internal, sizeof id.internal));
  }
  auto text = waitForKey("id", "bootstrap", options.devices.front());
  DTRT_RETURN_IF_ERROR(text);
  if (text->size() != sizeof id.internal)
    return makeError("the unique id has ", text->size(), " bytes, expected ",
                     sizeof id.internal);
  memcpy(id.internal, text->data(), sizeof id.internal);
  return {};
}

Status NcclTransport::State::makeCommunicator() {
  ncclUniqueId id;
  DTRT_RETURN_IF_ERROR(shareId(id));
  DTRT_RETURN_IF_ERROR(
      cudaStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                 "cannot create a stream"));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  Clock::time_point end = deadline();
  ncclResult_t result = ncclCommInitRankConfig(
      &communicator, int(options.devices.size()), id, rank, &config);
  return waitForCall(result, "bootstrap", options.devices, end);
}

/// One byte each way with every peer: pairs connect on first use, inside a
/// group, where a pair that only one side uses yet would block the host.
Status NcclTransport::State::warmUp(const std::vector<uint32_t> &peers) {
  if (peers.empty())
    return {};
  std::byte *bytes = nullptr;
  DTRT_RETURN_IF_ERROR(cudaStatus(
      cudaMalloc(reinterpret_cast<void **>(&bytes), 2 * peers.size()),
      "cannot allocate the warm-up's bytes"));
  std::vector<TransportMessage> messages;
  for (size_t i = 0; i < peers.size(); ++i) {
    messages.push_back({false, peers[i], bytes + 2 * i, 1, nullptr});
    messages.push_back({true, peers[i], bytes + 2 * i + 1, 1, nullptr});
  }
  Status status = runGroup(messages, "warm-up");
  cudaFree(bytes);
  return status;
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

Status
NcclTransport::State::enqueue(const std::vector<TransportMessage> &messages) {
  for (const TransportMessage &message : messages) {
    int peer = rankOf(message.peer);
    if (peer < 0)
      return makeError("device ", message.peer, " is not in this world");
    ncclResult_t result = message.receive
                              ? ncclRecv(message.data, message.bytes, ncclUint8,
                                         peer, communicator, stream)
                              : ncclSend(message.data, message.bytes, ncclUint8,
                                         peer, communicator, stream);
    if (result != ncclSuccess && result != ncclInProgress)
      return makeError(ncclGetErrorString(result));
  }
  return {};
}

Status
NcclTransport::State::runGroup(const std::vector<TransportMessage> &messages,
                               const std::string &phase) {
  if (!communicator)
    return makeError("device ", options.device, ": nccl ", phase,
                     ": the communicator is gone");
  std::vector<uint32_t> peers;
  for (const TransportMessage &message : messages)
    peers.push_back(message.peer);
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  Clock::time_point end = deadline();
  ncclResult_t result = ncclGroupStart();
  if (result != ncclSuccess)
    return failed(phase, peers, ncclGetErrorString(result));
  Status enqueued = enqueue(messages);
  result = ncclGroupEnd();
  if (!enqueued.ok())
    return failed(phase, peers, enqueued.message());
  DTRT_RETURN_IF_ERROR(waitForCall(result, phase, peers, end));
  return waitForStream(phase, peers, end);
}

void NcclTransport::State::close() {
  if (communicator) {
    for (void *handle : registrations)
      ncclCommDeregister(communicator, handle);
    registrations.clear();
    // Every group of this rank has ended, so there is nothing to wait for.
    Status ended =
        waitForCall(ncclCommFinalize(communicator), "farewell", {}, deadline());
    if (ended.ok())
      ncclCommDestroy(communicator);
    communicator = nullptr;
  }
  if (stream)
    cudaStreamDestroy(stream);
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
  auto state = std::make_unique<State>(std::move(options));
  state->rank = state->rankOf(state->options.device);
  if (state->rank < 0)
    return makeError("device ", state->options.device, " is not in this world");
  if (!state->options.store)
    return makeError("no store to share NCCL's unique id through");
  return std::unique_ptr<NcclTransport>(new NcclTransport(std::move(state)));
}

uint32_t NcclTransport::device() const { return state->options.device; }

Status NcclTransport::connect(const Digest &digest,
                              const std::vector<uint32_t> &peers) {
  DTRT_RETURN_IF_ERROR(state->compareDigests(digest));
  DTRT_RETURN_IF_ERROR(state->makeCommunicator());
  return state->warmUp(peers);
}

Status NcclTransport::group(const std::vector<TransportMessage> &messages) {
  return state->runGroup(messages, "group " + std::to_string(state->groups++));
}

void NcclTransport::abort(const Status &) { state->drop(); }

void NcclTransport::leave() { state->close(); }

Status NcclTransport::registerArena(std::byte *data, uint64_t bytes) {
  if (!data || bytes == 0)
    return {};
  void *handle = nullptr;
  DTRT_RETURN_IF_ERROR(state->waitForCall(
      ncclCommRegister(state->communicator, data, bytes, &handle),
      "registration", {}, state->deadline()));
  if (handle)
    state->registrations.push_back(handle);
  return {};
}

MemorySource ncclMemory() {
  auto allocate = [](uint64_t bytes) -> std::byte * {
    void *block = nullptr;
    if (ncclMemAlloc(&block, bytes) != ncclSuccess)
      return nullptr;
    if (cudaMemset(block, 0, bytes) != cudaSuccess) {
      ncclMemFree(block);
      return nullptr;
    }
    return static_cast<std::byte *>(block);
  };
  return {allocate, [](std::byte *block) { ncclMemFree(block); }};
}

std::string ncclVersion() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess)
    return "unknown";
  return std::to_string(version / 10000) + "." +
         std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

bool ncclAllowsSharedGpus() {
  int version = 0;
  return ncclGetVersion(&version) == ncclSuccess &&
         version >= NCCL_VERSION(2, 30, 3);
}

} // namespace dtrt
