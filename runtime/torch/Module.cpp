//===- Module.cpp - The extension module dynatrain._C ---------------------===//
//
// Plans, switches and checked runs for Python. The package on top of it speaks
// in tensors by name; here a tensor comes with the shard that it is. The GIL is
// released while bytes move or other ranks are waited for; where that is the
// trainer's own thread, its signal handlers run meanwhile.
//
//===----------------------------------------------------------------------===//

#include "AbortableBackend.h"
#include "BytesDigest.h"
#include "C10dStore.h"
#include "Failure.h"
#include "GlooTransport.h"
#include "Interruptible.h"
#include "JobBinding.h"
#include "TorchMemory.h"
#ifdef DT_HAS_CUDA
#include "TorchGpuMemory.h"
#endif

#include "dtrt/format/PlanSet.h"
#include "dtrt/format/Views.h"
#include "dtrt/report/Deliveries.h"
#include "dtrt/report/Inspect.h"
#include "dtrt/report/OutputFormat.h"
#include "dtrt/transport/CompressedTransport.h"
#include "dtrt/transport/DigestTransport.h"
#include "dtrt/transport/SharedMemoryTransport.h"
#include "dtrt/verify/Verifier.h"
#include "dtrt/world/LoopbackRun.h"
#include "dtrt/world/Meeting.h"
#include "dtrt/world/Switch.h"

#ifdef DT_HAS_CUDA
#include "dtrt/cuda/GpuCompression.h"
#include "dtrt/cuda/GpuDigests.h"
#include "dtrt/cuda/GpuExecutor.h"
#include "dtrt/cuda/GpuLoopback.h"
#include "dtrt/cuda/GpuMemory.h"
#include "dtrt/cuda/GpuPoolEntries.h"
#endif
#ifdef DT_HAS_NCCL
#include "dtrt/nccl/NcclTransport.h"
#endif

#include <torch/csrc/utils/pybind.h>

namespace py = pybind11;

namespace dtrt {
namespace {

using Plan = std::shared_ptr<PlanReader>;

/// The exception of each code, for as long as the process lives. The base class
/// until the package has named others.
std::array<PyObject *, kNumErrorCodes> exceptions;

void nameExceptions(const std::map<std::string, py::object> &classes) {
  for (size_t i = 0; i < kNumErrorCodes; ++i)
    exceptions[i] =
        py::object(classes.at(errorCodeName(ErrorCode(i)))).release().ptr();
}

void raise(std::exception_ptr thrown) {
  try {
    if (thrown)
      std::rethrow_exception(thrown);
  } catch (const Failure &failure) {
    PyErr_SetString(exceptions[size_t(failure.code)], failure.what());
  }
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

Plan openPlan(const std::string &path) {
  py::gil_scoped_release release;
  return std::make_shared<PlanReader>(take(PlanReader::open(path)));
}

/// The text that `write(stream)` writes.
template <typename Write> std::string textOf(Write write) {
  py::gil_scoped_release release;
  std::ostringstream out;
  check(write(out));
  return out.str();
}

std::string inspect(const Plan &plan, std::optional<uint32_t> device) {
  return textOf([&](std::ostream &out) {
    return writeInspection(*plan, device, OutputFormat::Json, out,
                           TellLosses::No);
  });
}

std::string deliveries(const Plan &plan) {
  return textOf([&](std::ostream &out) { return writeDeliveries(*plan, out); });
}

void verify(const Plan &plan) {
  py::gil_scoped_release release;
  check(plan->checkSections());
  check(verifyPlan(*plan));
}

using Bounds = std::pair<int64_t, int64_t>; // [first, second)

/// One local tensor that the plan expects of a device.
struct Expected {
  std::string tensor, state;
  bool source = true;
  uint32_t ordinal = 0;
  std::vector<int64_t> shape;
  std::string dtype;
  bool inPlace = false;
  /// Of the full tensor, and per dim what of it the local box spans.
  std::vector<int64_t> fullShape;
  std::vector<std::vector<Bounds>> intervals;
  /// The elements of the box that are stored, when not all are.
  std::optional<Bounds> range;
  uint64_t fill = 0; // bits of an element of padding
};

/// The coordinates that a shard has of each of its tensors, and their local
/// shape.
void addCoordinates(const PlanCommon &common, const ShardRecord &shard,
                    Expected &expected) {
  OwnPart part = ownPart(common, shard);
  expected.fullShape = std::move(part.fullShape);
  for (const std::vector<Interval> &intervals : part.dims) {
    std::vector<Bounds> &spans = expected.intervals.emplace_back();
    int64_t size = 0;
    for (const Interval &range : intervals) {
      spans.push_back({range.lo, range.hi});
      size += range.size();
    }
    expected.shape.push_back(size);
  }
  if (shard.flat)
    expected.range = {shard.range.lo, shard.range.hi};
}

Expected describe(const PlanCommon &common, const ShardRecord &shard,
                  const ExpectedTensor &tensor) {
  const Family &family = common.families[shard.family];
  Expected entry;
  entry.tensor = tensor.tensor;
  entry.state = tensor.state;
  entry.source = tensor.side == Side::Source;
  entry.ordinal = tensor.ordinal;
  entry.inPlace = tensor.inPlace;
  entry.fill = fillOf(common, shard, tensor.stateIndex);
  entry.dtype = dtypeName(dtypeOf(family, tensor.stateIndex, tensor.side));
  addCoordinates(common, shard, entry);
  if (shard.flat)
    entry.shape = {shard.range.size()};
  return entry;
}

std::vector<Expected> inventory(const Plan &plan, uint32_t device) {
  RankProgram program = take(plan->program(device));
  LocalStorage storage(plan->common(), program);
  std::vector<Expected> expected;
  for (const ExpectedTensor &tensor : expectedTensors(storage))
    expected.push_back(describe(
        plan->common(), storage.shards(tensor.side)[tensor.shard], tensor));
  return expected;
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

using WeakTensor =
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

/// A tensor of the trainer, which stays its owner.
struct Tensor {
  TensorBinding binding;
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  /// What the trainer handed in. It may be a view that is gone at once, while
  /// the storage stays.
  WeakTensor handle;
  const void *start;      // of the storage
  size_t bytes;           // of the storage
  std::optional<int> gpu; // where it lies; none: the host
};

/// A destination may be given without memory, for the switch to make.
bool isHollow(const at::Tensor &tensor) {
  return tensor.numel() > 0 && tensor.storage().nbytes() == 0;
}

/// Where a tensor lies; none: on the host.
std::optional<int> gpuOf(const at::Tensor &tensor) {
  return tensor.is_cuda() ? std::optional<int>(tensor.get_device())
                          : std::nullopt;
}

Tensor makeTensor(const std::string &tensor, const std::string &state,
                  bool source, uint32_t ordinal, const at::Tensor &data) {
  auto storage = data.storage().getWeakStorageImpl();
  return {{tensor, state, source ? Side::Source : Side::Destination, ordinal,
           isHollow(data) ? nullptr : data.data_ptr(), data.nbytes(), nullptr,
           uint64_t(data.storage_offset()) * data.element_size()},
          std::move(storage),
          WeakTensor(data.getIntrusivePtr()),
          data.storage().data(),
          data.storage().nbytes(),
          gpuOf(data)};
}

std::vector<TensorBinding> bindingsOf(const std::vector<Tensor> &tensors) {
  std::vector<TensorBinding> bindings;
  for (const Tensor &tensor : tensors)
    bindings.push_back(tensor.binding);
  return bindings;
}

/// The GPU that holds all tensors, or none.
std::optional<int> gpuOf(const std::vector<Tensor> &tensors) {
  return tensors.empty() ? std::nullopt : tensors.front().gpu;
}

/// What became of a tensor since it was handed in; null: nothing.
const char *changeOf(const Tensor &tensor) {
  auto storage = tensor.storage.lock();
  if (!storage)
    return "freed";
  if (storage->data() != tensor.start || storage->nbytes() != tensor.bytes)
    return "resized or moved";
  auto handle = tensor.handle.lock();
  if (!handle)
    return nullptr;
  at::Tensor now(std::move(handle));
  const void *data = isHollow(now) ? nullptr : now.const_data_ptr();
  bool same =
      data == tensor.binding.data && now.nbytes() == tensor.binding.bytes;
  return same ? nullptr : "resized or moved";
}

Status changed(const Tensor &tensor, const char *change, const char *when) {
  bool source = tensor.binding.side == Side::Source;
  return makeError(source ? "source" : "destination", " tensor '",
                   tensor.binding.tensor, "' state '", tensor.binding.state,
                   "' was ", change, " ", when);
}

using Owned = std::vector<c10::intrusive_ptr<c10::StorageImpl>>;

/// Shares ownership of all tensors, unless one is no longer what it was.
Result<Owned> hold(const std::vector<Tensor> &tensors) {
  Owned owned;
  for (const Tensor &tensor : tensors) {
    owned.push_back(tensor.storage.lock());
    if (const char *change = changeOf(tensor))
      return changed(tensor, change, "after prepare");
  }
  return owned;
}

/// After bytes have moved, when nobody but the trainer owns the tensors: fails
/// when they are not where they were read and written.
Status checkMoved(const std::vector<Tensor> &tensors) {
  for (const Tensor &tensor : tensors)
    if (const char *change = changeOf(tensor))
      return changed(tensor, change, "during transfer");
  return {};
}

/// Before commit: the new state has to be there. An old one that is gone by now
/// is no reason to lose the new one too.
Status checkArrived(const std::vector<Tensor> &tensors) {
  for (const Tensor &tensor : tensors)
    if (tensor.binding.side == Side::Destination)
      if (const char *change = changeOf(tensor))
        return changed(tensor, change, "after transfer");
  return {};
}

//===----------------------------------------------------------------------===//
// Switches
//===----------------------------------------------------------------------===//

/// A storage on the host or a GPU.
Result<std::unique_ptr<TorchMemory>>
memoryOf(c10::weak_intrusive_ptr<c10::StorageImpl> storage,
         std::optional<int> gpu) {
  if (!gpu)
    return std::make_unique<TorchMemory>(std::move(storage));
#ifdef DT_HAS_CUDA
  auto pool = processPages(*gpu);
  DTRT_RETURN_IF_ERROR(pool);
  return std::unique_ptr<TorchMemory>(
      std::make_unique<TorchGpuMemory>(std::move(storage), *pool));
#else
  return makeError("built without CUDA");
#endif
}

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

class LiveSwitch {
public:
  /// On the trainer's thread; what prepares may have another, whose GPU says
  /// nothing.
  LiveSwitch(Plan plan, World world) : plan(std::move(plan)), world(world) {
#ifdef DT_HAS_CUDA
    trainerGpu = currentGpu();
#endif
    inner = take(Switch::create(*this->plan, world));
  }
  ~LiveSwitch() {
    // Closing connections takes no Python.
    py::gil_scoped_release release;
    inner.reset();
  }

  std::string compare(std::vector<Tensor> given, const std::string &note) {
    py::gil_scoped_release release;
    tensors = std::move(given);
    // A trainer may let go of them meanwhile; `transfer` is who says so.
    Owned owned;
    for (const Tensor &tensor : tensors)
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
  void connect(c10::intrusive_ptr<c10d::Backend> backend, py::function split,
               bool sharesMemory, bool digests) {
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
  void connectNccl(bool digests, bool oneSided) {
    py::gil_scoped_release release;
    check(connectNcclOf(digests, oneSided));
  }
  void cannotConnect(const std::string &why) {
    py::gil_scoped_release release;
    check(inner->cannotConnect(
        makeError(ErrorCode::PeerLost, "cannot connect: ", why)));
  }
  /// Where the tensors lie; none: on the host.
  std::optional<int> gpu() const { return gpuOf(tensors); }
  void warmUp() {
    Status status;
    interruptibly([&] { status = inner->warmUp(); });
    check(status);
  }
  /// `stream`: the trainer's on its GPU, as a number; its work so far comes
  /// before the transfer.
  void transfer(const std::string &note, std::optional<uintptr_t> stream) {
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
  std::string commit() {
    // A second call asks how it has ended.
    if (inner->outcome() == Switch::Outcome::Open)
      failOn("commit", checkArrived(tensors));
    Result<std::string> note = std::string();
    interruptibly([&] { note = inner->commit(); });
    return take(std::move(note));
  }
  const char *abort(const std::string &why) {
    {
      py::gil_scoped_release release;
      inner->abort(makeError(ErrorCode::Cancelled, why));
    }
    return outcome();
  }
  const char *outcome() const {
    constexpr const char *names[] = {"open", "committed", "aborted",
                                     "undecided"};
    return names[size_t(inner->outcome())];
  }
  c10::intrusive_ptr<c10d::Store> store() const {
    return makeAttemptStore(inner->ranks());
  }
  std::shared_ptr<Rendezvous> ranks() const { return inner->ranks(); }
  void timeSteps() { inner->timeSteps(); }
  /// (what, wave, bytes, from, to) of each instruction; seconds of the steady
  /// clock, which is Python's time.monotonic.
  using TimedStep = std::tuple<std::string, int32_t, uint64_t, double, double>;
  std::vector<TimedStep> steps() const {
    std::vector<TimedStep> out;
    for (const StepTime &step : inner->stats().steps)
      out.emplace_back(opcodeName(step.op), step.wave, step.bytes, step.begin,
                       step.end);
    return out;
  }
  double patience() const { return inner->patience().count(); }
  py::dict stats() const {
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

private:
  /// Where the plan asks for it: messages to other hosts in fewer bytes.
  std::unique_ptr<Transport> compressing(std::unique_ptr<Transport> wire,
                                         CodecMemory memory) {
    const PlanCommon &common = plan->common();
    if (!common.compression.isOn())
      return wire;
    return makeCompressedTransport(
        std::move(wire), common.cluster, common.compression,
        [this](const CompressionReport &report) { compressed = report; },
        std::move(memory));
  }
  /// {state: (bytes, bytes that were sent for them)}
  py::dict compressedStates() const {
    py::dict out;
    for (const auto &[name, state] : compressed.states)
      out[py::str(name)] = py::make_tuple(state.rawBytes, state.sentBytes);
    return out;
  }
  void interruptibly(const std::function<void()> &work) {
    runInterruptibly(work, [&](const Status &why) { inner->cancel(why); });
  }
  /// Ends the switch, on all ranks, when there is a fault.
  void failOn(const char *phase, const Status &fault) {
    if (fault.ok())
      return;
    py::gil_scoped_release release;
    check(inner->fail(phase, fault));
  }
  /// By tensor all memory comes and goes, by page that which has pages.
  bool takesOver(const LiveMemory &memory) const {
    const PlanSummary &summary = plan->common().summary;
    return summary.mode == MemoryMode::Flat &&
           (summary.granularity == Granularity::Tensor || memory.hasPages());
  }
  Status findMemories();
  Status findMemory(Tensor &tensor);
  void makeAsShared();
  void noteStorages();
  Status connectGpu(std::unique_ptr<Transport> transport, bool compresses);
  Status connectNcclOf(bool digests, bool oneSided);
  Status startAfter(uintptr_t stream);

  Plan plan;
  World world;
  std::vector<Tensor> tensors;
  /// Of tensors on the host or in a pool of pages, by storage.
  std::map<c10::StorageImpl *, std::unique_ptr<TorchMemory>> memories;
  CompressionReport compressed;
  std::unique_ptr<Switch> inner;
#ifdef DT_HAS_CUDA
  Result<int> trainerGpu = makeError("no GPU");
  GpuExecutor *gpuRunner = nullptr; // of the switch
#endif
};

/// The memory of a tensor; of those on GPUs only what is in a pool of pages, or
/// will be.
Status LiveSwitch::findMemory(Tensor &tensor) {
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
  for (Tensor &tensor : tensors)
    DTRT_RETURN_IF_ERROR(findMemory(tensor));
  makeAsShared();
  for (const auto &[storage, memory] : memories)
    DTRT_RETURN_IF_ERROR(memory->prepare());
  for (const Tensor &tensor : tensors) {
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
  for (Tensor &tensor : tensors) {
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

/// What this build has, beside the host's memory and gloo.
std::vector<std::string> features() {
  std::vector<std::string> found;
  if (canCompress())
    found.push_back("zstd");
#ifdef DT_HAS_CUDA
  found.push_back("cuda");
#endif
#ifdef DT_HAS_NCCL
  found.push_back("nccl");
#endif
  return found;
}

/// Why links of tensors on GPUs are not compressed there; empty: they are.
std::string whyNoGpuCodec() {
#ifdef DT_HAS_CUDA
  return whyNoNvcomp();
#else
  return "built without CUDA";
#endif
}

World makeWorld(c10::intrusive_ptr<c10d::Store> store, uint32_t rank,
                uint32_t size, std::vector<uint32_t> devices, double timeout,
                std::string tag) {
  return {rank,
          size,
          std::move(devices),
          Seconds(timeout),
          std::move(tag),
          makeC10dStore(std::move(store))};
}

/// Gives a tensor that has no memory one whose pages can go; `shared`: that
/// other processes of the host can read.
void allocatePages(const at::Tensor &tensor, bool shared) {
  if (!isHollow(tensor))
    return;
  uint64_t offset = uint64_t(tensor.storage_offset()) * tensor.element_size();
  auto memory =
      take(memoryOf(tensor.storage().getWeakStorageImpl(), gpuOf(tensor)));
  memory->add(offset, tensor.nbytes());
  if (shared)
    memory->makeShared();
  check(statusOf(memory->create(0, offset + tensor.nbytes())));
}

/// A tensor of this shape that has never had memory; `like` has no elements.
at::Tensor hollowLike(const at::Tensor &like,
                      const std::vector<int64_t> &shape) {
  at::Tensor made = like.new_empty({0});
  made.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  return made;
}

void refuse(const Plan &plan, const World &world, const std::string &why) {
  py::gil_scoped_release release;
  Switch::refuse(*plan, world, makeError(why));
}

/// Raises why the switch has been aborted, if it has.
void checkStopped(Rendezvous &ranks) {
  Status stopped;
  {
    py::gil_scoped_release release;
    stopped = ranks.checkStopped();
  }
  check(stopped);
}

std::vector<std::string> meet(const World &world, const std::string &said) {
  Meeting meeting(world);
  Result<std::vector<std::string>> all = std::vector<std::string>();
  runInterruptibly([&] { all = meeting.meet(said); },
                   [&](const Status &why) { meeting.cancel(why); });
  return take(std::move(all));
}

//===----------------------------------------------------------------------===//
// Checked runs
//===----------------------------------------------------------------------===//

/// Bound to where tensors lie now: a switch may have made their memory, or have
/// given it back.
std::vector<TensorBinding> bindingsNow(const std::vector<Tensor> &tensors) {
  std::vector<TensorBinding> bindings = bindingsOf(tensors);
  for (size_t i = 0; i < tensors.size(); ++i) {
    auto storage = tensors[i].storage.lock();
    TensorBinding &binding = bindings[i];
    binding.data =
        storage && storage->nbytes() > 0
            ? static_cast<std::byte *>(storage->mutable_data()) + binding.offset
            : nullptr;
  }
  return bindings;
}

/// Calls visit(storage, program) with the tensors bound.
template <typename Visit>
void withStorage(const Plan &plan, uint32_t device,
                 const std::vector<Tensor> &tensors, Visit visit) {
  py::gil_scoped_release release;
  RankProgram program = take(plan->program(device));
  LocalStorage storage(plan->common(), program);
  check(bindTensors(bindingsNow(tensors), storage));
  visit(storage, program);
}

void fillPattern(const Plan &plan, uint32_t device,
                 const std::vector<Tensor> &tensors) {
  withStorage(plan, device, tensors,
              [&](LocalStorage &storage, const RankProgram &) {
#ifdef DT_HAS_CUDA
                if (gpuOf(tensors))
                  return check(fillGpuShards(storage));
#endif
                fillShards(storage);
              });
}

py::dict asDict(const CheckReport &report) {
  py::dict out;
  out["bytes_checked"] = report.bytesChecked;
  out["mismatches"] = report.mismatches;
  out["first"] = report.first;
  return out;
}

py::dict checkPattern(const Plan &plan, uint32_t device,
                      const std::vector<Tensor> &tensors) {
  CheckReport report;
  withStorage(plan, device, tensors,
              [&](LocalStorage &storage, const RankProgram &program) {
#ifdef DT_HAS_CUDA
                if (gpuOf(tensors))
                  return check(checkGpuShards(storage, report));
#endif
                for (uint32_t i = 0; i < program.destination.size(); ++i)
                  checkDestination(storage, i, report);
              });
  return asDict(report);
}

py::dict loopback(const Plan &plan, bool checked, bool staged) {
  LoopbackOptions options;
  options.check = checked;
  options.staged = staged;
  LoopbackReport report;
  {
    py::gil_scoped_release release;
    report = take(runLoopback(*plan, options));
  }
  py::dict out = asDict(report.check);
  out["seconds"] = report.seconds;
  out["bytes_moved"] = report.bytesMoved;
  out["staging_peak"] = report.stagingPeak;
  return out;
}

//===----------------------------------------------------------------------===//
// Sets of plans
//===----------------------------------------------------------------------===//

struct PlanSet {
  std::string folder;
  std::vector<SetPlan> plans;
};

PlanSet openSet(const std::string &folder) {
  py::gil_scoped_release release;
  return {folder, take(readSetIndex(folder))};
}

py::dict setLayoutInfo(const SetLayout &layout) {
  py::dict sizes;
  for (const auto &[name, size] : layout.sizes)
    sizes[py::str(name)] = size;
  py::dict out;
  out["name"] = layout.name;
  out["world"] = layout.world;
  out["devices"] = layout.devices;
  out["sizes"] = sizes;
  out["order"] = layout.order;
  out["pp_layers"] = layout.ppLayers;
  out["fingerprint"] = layout.fingerprint;
  return out;
}

py::list setInfo(const PlanSet &set) {
  py::list out;
  for (const SetPlan &plan : set.plans) {
    py::dict row;
    row["name"] = plan.name;
    row["file"] = plan.file;
    row["digest"] = plan.digest;
    row["bytes"] = plan.bytes;
    row["predicted_s"] = plan.predictedSeconds;
    row["lost"] = plan.lost;
    row["source"] = setLayoutInfo(plan.source);
    row["destination"] = setLayoutInfo(plan.destination);
    out.append(row);
  }
  return out;
}

/// `index` counts as `setInfo` does.
Plan openOfSet(const PlanSet &set, size_t index) {
  py::gil_scoped_release release;
  if (index >= set.plans.size())
    check(
        makeError("the set has ", set.plans.size(), " plans, no plan ", index));
  return std::make_shared<PlanReader>(
      take(openSetPlan(set.folder, set.plans[index])));
}

py::dict planInfo(const Plan &plan) {
  const PlanCommon &common = plan->common();
  py::dict out;
  out["digest"] = digestText(plan->digest());
  out["request_hash"] = common.requestHash;
  out["source_fingerprint"] = common.sourceFingerprint;
  out["destination_fingerprint"] = common.destinationFingerprint;
  out["source_devices"] = common.sourceDevices;
  out["destination_devices"] = common.destinationDevices;
  out["devices"] = plan->devices();
  return out;
}

} // namespace
} // namespace dtrt

PYBIND11_MODULE(_C, module) {
  using namespace dtrt;
  py::call_guard<py::gil_scoped_release> release;
  py::exception<Failure> error(module, "Error", PyExc_RuntimeError);
  for (PyObject *&one : exceptions)
    one = error.inc_ref().ptr();
  py::register_exception_translator(&raise);
  py::class_<PlanReader, Plan>(module, "Plan")
      .def_static("open", &openPlan)
      .def("info", &planInfo)
      .def("inspect", &inspect)
      .def("deliveries", &deliveries)
      .def("verify", &verify)
      .def("inventory", &inventory);
  py::class_<PlanSet>(module, "PlanSet")
      .def(py::init(&openSet))
      .def("plans", &setInfo)
      .def("open", &openOfSet);
  py::class_<Expected>(module, "Expected")
      .def_readonly("tensor", &Expected::tensor)
      .def_readonly("state", &Expected::state)
      .def_readonly("source", &Expected::source)
      .def_readonly("ordinal", &Expected::ordinal)
      .def_readonly("shape", &Expected::shape)
      .def_readonly("dtype", &Expected::dtype)
      .def_readonly("in_place", &Expected::inPlace)
      .def_readonly("full_shape", &Expected::fullShape)
      .def_readonly("intervals", &Expected::intervals)
      .def_readonly("range", &Expected::range)
      .def_readonly("fill", &Expected::fill);
  py::class_<Tensor>(module, "Tensor").def(py::init(&makeTensor));
  py::class_<World>(module, "World").def(py::init(&makeWorld));
  py::class_<LiveSwitch>(module, "Switch")
      .def(py::init<Plan, World>())
      .def("compare", &LiveSwitch::compare)
      .def("connect", &LiveSwitch::connect)
      .def("connect_nccl", &LiveSwitch::connectNccl)
      .def("cannot_connect", &LiveSwitch::cannotConnect)
      .def("gpu", &LiveSwitch::gpu)
      .def("warm_up", &LiveSwitch::warmUp)
      .def("transfer", &LiveSwitch::transfer, py::arg("note"),
           py::arg("stream") = std::nullopt)
      .def("commit", &LiveSwitch::commit)
      .def("abort", &LiveSwitch::abort)
      .def("outcome", &LiveSwitch::outcome)
      .def("store", &LiveSwitch::store)
      .def("ranks", &LiveSwitch::ranks)
      .def("patience", &LiveSwitch::patience)
      .def("time_steps", &LiveSwitch::timeSteps)
      .def("steps", &LiveSwitch::steps)
      .def("stats", &LiveSwitch::stats);
  py::class_<Rendezvous, std::shared_ptr<Rendezvous>>(module, "Ranks")
      .def("check", &checkStopped)
      .def("all_have_left", &Rendezvous::allHaveLeft, release)
      .def("has_aborted", &Rendezvous::hasDecidedAbort)
      .def("clean_up", &Rendezvous::cleanUp, release);
  bindAbortable(module);
  bindJob(module);
  bindDigest(module);
  module.def("features", &features);
  module.def("why_no_gpu_codec", &whyNoGpuCodec);
  module.def("allocate_pages", &allocatePages);
  module.def("hollow_like", &hollowLike);
  module.def("name_exceptions", &nameExceptions);
  module.def("meet", &meet);
  module.def("refuse", &refuse);
  module.def("fill_pattern", &fillPattern);
  module.def("check_pattern", &checkPattern);
  module.def("loopback", &loopback);
}
