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
#include "CopyInto.h"
#include "Failure.h"
#include "GroupCalls.h"
#include "Interruptible.h"
#include "JobBinding.h"
#include "LiveSwitch.h"
#include "LiveTensor.h"
#include "OwnProcess.h"
#include "SnapshotGreeting.h"
#include "TensorLooks.h"

#include "dtrt/format/PlanSet.h"
#include "dtrt/format/Views.h"
#include "dtrt/report/Deliveries.h"
#include "dtrt/report/Inspect.h"
#include "dtrt/report/OutputFormat.h"
#include "dtrt/transport/CompressedTransport.h"
#include "dtrt/verify/Verifier.h"
#include "dtrt/world/LoopbackRun.h"
#include "dtrt/world/Meeting.h"

#ifdef DT_HAS_CUDA
#include "dtrt/cuda/GpuCompression.h"
#include "dtrt/cuda/GpuLoopback.h"
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
// Switches
//===----------------------------------------------------------------------===//

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
std::vector<TensorBinding> bindingsNow(const std::vector<LiveTensor> &tensors) {
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
                 const std::vector<LiveTensor> &tensors, Visit visit) {
  py::gil_scoped_release release;
  RankProgram program = take(plan->program(device));
  LocalStorage storage(plan->common(), program);
  check(bindTensors(bindingsNow(tensors), storage));
  visit(storage, program);
}

void fillPattern(const Plan &plan, uint32_t device,
                 const std::vector<LiveTensor> &tensors) {
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
                      const std::vector<LiveTensor> &tensors) {
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
  py::class_<LiveTensor>(module, "Tensor").def(py::init(&makeTensor));
  py::class_<World>(module, "World").def(py::init(&makeWorld));
  py::class_<LiveSwitch, OwnProcessPtr<LiveSwitch>>(module, "Switch")
      .def(py::init<Plan, World>())
      .def("compare", &LiveSwitch::compare)
      .def("connect", &LiveSwitch::connect)
      .def("connect_nccl", &LiveSwitch::connectNccl)
      .def("cannot_connect", &LiveSwitch::cannotConnect)
      .def("gpu", &LiveSwitch::gpu)
      .def("warm_up", &LiveSwitch::warmUp)
      .def("make_sure", &LiveSwitch::makeSure)
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
  bindCopyInto(module);
  bindTensorLooks(module);
  bindGroupCalls(module);
  bindSnapshotGreeting(module);
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
