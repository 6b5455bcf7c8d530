//===- LiveSwitch.cpp - A switch of a trainer's tensors -------------------===//

#include "LiveSwitch.h"

#include "C10dStore.h"
#include "Failure.h"
#include "GlooTransport.h"
#include "Interruptible.h"

#include "dtrt/transport/DigestTransport.h"
#include "dtrt/transport/SharedMemoryTransport.h"

#ifdef DT_HAS_CUDA
#include "dtrt/cuda/GpuCompression.h"
#include "dtrt/cuda/GpuDigests.h"
#include "dtrt/cuda/GpuMemory.h"
#endif
#ifdef DT_HAS_NCCL
#include "dtrt/nccl/NcclTransport.h"
#endif

namespace py = pybind11;

namespace dtrt {

namespace {

/// A Python function that makes a backend of some ranks. It may go when nobody
/// holds the interpreter.
SplitBackend splitBy(py::function split) {
  std::shared_ptr<py::function> shared(new py::function(std::move(split)),
                                       [](py::function *function) {
                                         py::gil_scoped_acquire acquire;
                                         delete function;
                                       });
  return [shared](uint32_t number, const std::vector<int> &ranks) {
    py::gil_scoped_acquire acquire;
    return (*shared)(number, ranks).cast<c10::intrusive_ptr<c10d::Backend>>();
  };
}

} // namespace

LiveSwitch::LiveSwitch(std::shared_ptr<PlanReader> plan, World world)
    : plan(std::move(plan)), world(world) {
#ifdef DT_HAS_CUDA
  trainerGpu = currentGpu();
#endif
  inner = take(Switch::create(*this->plan, world));
}

LiveSwitch::~LiveSwitch() {
  // Closing connections takes no Python.
  py::gil_scoped_release release;
  inner.reset();
}

std::string LiveSwitch::compare(std::vector<LiveTensor> given,
                                const std::string &note) {
  py::gil_scoped_release release;
  tensors = std::move(given);
  // A trainer may let go of them meanwhile; `transfer` is who says so.
  Owned owned;
  for (const LiveTensor &tensor : tensors)
    owned.push_back(tensor.storage.lock());
  if (Status found = findMemories(); !found.ok()) {
    Switch::refuse(*plan, world, found);
    check(inner->fail("prepare", found));
  }
  std::string first = take(inner->compare(bindingsOf(tensors), note));
  // What the destination gets at once is there now.
  noteStorages();
  return first;
}

void LiveSwitch::connect(c10::intrusive_ptr<c10d::Backend> backend,
                         py::function split, bool sharesMemory, bool digests) {
  SplitBackend splitBackend = splitBy(std::move(split));
  py::gil_scoped_release release;
  Seconds patience = inner->patience();
  auto transport = makeGlooTransport(std::move(backend), inner->devices(),
                                     patience, std::move(splitBackend));
  if (sharesMemory)
    transport = makeSharedMemoryTransport(
        std::move(transport), inner->devices(), inner->secret(), patience);
  // Digests are of the host's memory, and so is what is within them.
  bool isOnGpu = gpuOf(tensors).has_value();
  if (!isOnGpu || digests)
    transport = compressing(std::move(transport), {});
  if (digests)
    transport = makeDigestTransport(std::move(transport));
  check(isOnGpu ? connectGpu(std::move(transport), /*compresses=*/!digests)
                : inner->connect(std::move(transport)));
}

void LiveSwitch::connectNccl(bool digests, bool oneSided) {
  py::gil_scoped_release release;
  check(connectNcclOf(digests, oneSided));
}

void LiveSwitch::cannotConnect(const std::string &why) {
  py::gil_scoped_release release;
  check(inner->cannotConnect(
      makeError(ErrorCode::PeerLost, "cannot connect: ", why)));
}

void LiveSwitch::makeSure() {
  Status status;
  interruptibly([&] { status = inner->makeSure(); });
  check(status);
}

void LiveSwitch::warmUp() {
  Status status;
  interruptibly([&] { status = inner->warmUp(); });
  check(status);
}

void LiveSwitch::transfer(const std::string &note,
                          std::optional<uintptr_t> stream) {
  {
    auto owned = hold(tensors);
    failOn("transfer", statusOf(owned));
    Status status;
    interruptibly([&] {
      status = stream ? startAfter(*stream) : Status();
      if (status.ok())
        status = inner->transfer(note);
    });
    check(status);
    noteStorages();
  }
  failOn("transfer", checkMoved(tensors));
}

std::string LiveSwitch::commit() {
  // A second call asks how it has ended.
  if (inner->outcome() == Switch::Outcome::Open)
    failOn("commit", checkArrived(tensors));
  Result<std::string> note = std::string();
  interruptibly([&] { note = inner->commit(); });
  calls.end();
  return take(std::move(note));
}

const char *LiveSwitch::abort(const std::string &why) {
  {
    py::gil_scoped_release release;
    inner->abort(makeError(ErrorCode::Cancelled, why));
  }
  return outcome();
}

const char *LiveSwitch::outcome() const {
  constexpr const char *names[] = {"open", "committed", "aborted", "undecided"};
  return names[size_t(inner->outcome())];
}

c10::intrusive_ptr<c10d::Store> LiveSwitch::store() const {
  return makeAttemptStore(inner->ranks());
}

std::vector<LiveSwitch::TimedStep> LiveSwitch::steps() const {
  std::vector<TimedStep> out;
  for (const StepTime &step : inner->stats().steps)
    out.emplace_back(opcodeName(step.op), step.wave, step.bytes, step.begin,
                     step.end);
  return out;
}

py::dict LiveSwitch::stats() const {
  const ExecutionStats &stats = inner->stats();
  py::dict out;
  out["seconds"] = inner->seconds();
  out["group_seconds"] = stats.groupSeconds;
  out["bytes_sent"] = stats.bytesSent;
  out["bytes_received"] = stats.bytesReceived;
  out["bytes_read_by_peers"] = stats.bytesReadByPeers;
  out["bytes_copied"] = stats.bytesCopied;
  out["bytes_zeroed"] = stats.bytesZeroed;
  out["messages"] = stats.messages;
  out["staging_peak"] = stats.stagingPeak;
  out["compressed"] = compressedStates();
  return out;
}

/// Where the plan asks for it: messages to other hosts in fewer bytes.
std::unique_ptr<Transport>
LiveSwitch::compressing(std::unique_ptr<Transport> wire, CodecMemory memory) {
  const PlanCommon &common = plan->common();
  if (!common.compression.isOn())
    return wire;
  return makeCompressedTransport(
      std::move(wire), common.cluster, common.compression,
      [this](const CompressionReport &report) { compressed = report; },
      std::move(memory));
}

/// {state: (bytes, bytes that were sent for them)}
py::dict LiveSwitch::compressedStates() const {
  py::dict out;
  for (const auto &[name, state] : compressed.states)
    out[py::str(name)] = py::make_tuple(state.rawBytes, state.sentBytes);
  return out;
}

void LiveSwitch::interruptibly(const std::function<void()> &work) {
  calls.run(work, [&](const Status &why) { inner->cancel(why); });
}

/// Ends the switch, on all ranks, when there is a fault.
void LiveSwitch::failOn(const char *phase, const Status &fault) {
  if (fault.ok())
    return;
  py::gil_scoped_release release;
  check(inner->fail(phase, fault));
}

/// By tensor all memory comes and goes, by page that which has pages.
bool LiveSwitch::takesOver(const LiveMemory &memory) const {
  const PlanSummary &summary = plan->common().summary;
  return summary.mode == MemoryMode::Flat &&
         (summary.granularity == Granularity::Tensor || memory.hasPages());
}

/// The memory of a tensor; of those on GPUs only what is in a pool of pages, or
/// will be.
Status LiveSwitch::findMemory(LiveTensor &tensor) {
  auto storage = tensor.storage.lock();
  const PlanSummary &summary = plan->common().summary;
  if (!storage || (tensor.gpu && summary.mode != MemoryMode::Flat))
    return {};
  auto &memory = memories[storage.get()];
  if (!memory) {
    auto made = memoryOf(tensor.storage, tensor.gpu);
    DTRT_RETURN_IF_ERROR(made);
    memory = std::move(*made);
  }
  memory->add(tensor.binding.offset, tensor.binding.bytes);
  if (!tensor.gpu || memory->hasPages())
    tensor.binding.memory = memory.get();
  else if (summary.granularity == Granularity::Tensor)
    return makeError("tensor '", tensor.binding.tensor, "' state '",
                     tensor.binding.state, "' is not in the pool of pages of ",
                     "GPU ", *tensor.gpu, ", of which a plan by tensor takes ",
                     "all memory");
  return {};
}

/// A destination is of memory that peers can read where its source is.
void LiveSwitch::makeAsShared() {
  bool isShared =
      std::any_of(memories.begin(), memories.end(),
                  [](const auto &entry) { return entry.second->isShared(); });
  if (isShared)
    for (const auto &[storage, memory] : memories)
      memory->makeShared();
}

/// What comes and goes has to be able to.
Status LiveSwitch::findMemories() {
  for (LiveTensor &tensor : tensors)
    DTRT_RETURN_IF_ERROR(findMemory(tensor));
  makeAsShared();
  for (const auto &[storage, memory] : memories)
    DTRT_RETURN_IF_ERROR(memory->prepare());
  for (const LiveTensor &tensor : tensors) {
    const TensorBinding &binding = tensor.binding;
    bool isSource = binding.side == Side::Source;
    if (isSource && tensor.bytes == 0 && binding.bytes > 0)
      return makeError("source tensor '", binding.tensor, "' state '",
                       binding.state, "' has no memory");
    if (!binding.memory || binding.bytes == 0 || !takesOver(*binding.memory))
      continue;
    std::string why = static_cast<TorchMemory *>(binding.memory)->whyItStays();
    if (!why.empty())
      return makeError("the storage of ", isSource ? "source" : "destination",
                       " tensor '", binding.tensor, "' state '", binding.state,
                       "' ", why);
  }
  return {};
}

/// The switch itself makes and frees storages: those are no changes.
void LiveSwitch::noteStorages() {
  for (LiveTensor &tensor : tensors) {
    auto *memory = static_cast<TorchMemory *>(tensor.binding.memory);
    if (!memory || !memory->remade())
      continue;
    auto [start, bytes] = *memory->remade();
    tensor.start = start;
    tensor.bytes = bytes;
    tensor.binding.data = start ? start + tensor.binding.offset : nullptr;
  }
}

#ifdef DT_HAS_CUDA
/// Tensors on a GPU over a wire that only sees the host's memory.
Status LiveSwitch::connectGpu(std::unique_ptr<Transport> transport,
                              bool compresses) {
  int gpu = *gpuOf(tensors);
  transport = makeHostStagedTransport(std::move(transport), gpuCopies(gpu),
                                      pinnedMemory());
  if (compresses && plan->common().compression.isOn())
    transport = compressing(std::move(transport), gpuCodecMemory(gpu));
  return inner->connect(std::move(transport), runOnGpu(*plan, gpu, gpuRunner));
}

Status LiveSwitch::startAfter(uintptr_t stream) {
  if (!gpuRunner)
    return {};
  Status status = gpuRunner->runAfter(reinterpret_cast<GpuStream>(stream));
  return status.ok() ? status : inner->fail("transfer", status);
}
#else
Status LiveSwitch::connectGpu(std::unique_ptr<Transport>, bool) {
  return inner->fail("prepare", makeError("built without CUDA"));
}
Status LiveSwitch::startAfter(uintptr_t) { return {}; }
#endif

#ifdef DT_HAS_NCCL
/// A rank that holds nothing uses the GPU of the trainer's thread.
Status LiveSwitch::connectNcclOf(bool digests, bool oneSided) {
  std::optional<int> gpu = gpuOf(tensors);
  if (!gpu && !trainerGpu.ok())
    return inner->fail("prepare", trainerGpu.status());
  if (!gpu)
    gpu = *trainerGpu;
  // Where the communicator will be.
  if (Status used = useGpu(*gpu); !used.ok())
    return inner->fail("prepare", used);
  NcclOptions options;
  options.device = inner->devices()[world.rank];
  options.devices = inner->devices();
  options.ranks = inner->ranks();
  options.timeout = inner->patience();
  options.oneSided = oneSided;
  auto transport = NcclTransport::create(options);
  if (!transport.ok())
    return inner->fail("prepare", transport.status());
  std::unique_ptr<StreamTransport> streams = std::move(*transport);
  if (digests)
    streams = makeGpuDigestTransport(std::move(streams));
  return inner->connect(std::move(streams), runOnGpu(*plan, *gpu, gpuRunner));
}
#else
Status LiveSwitch::connectNcclOf(bool, bool) {
  return inner->fail("prepare", makeError("built without NCCL"));
}
#endif

} // namespace dtrt
