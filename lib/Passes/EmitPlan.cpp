//===- EmitPlan.cpp - The plan file of a transition -----------------------===//
//
// Specializes the transition for a few devices at a time, on the threads that
// there are, and streams the programs to the plan file, so that memory does not
// grow with the world.
//
//===----------------------------------------------------------------------===//

#include "ProofResult.h"
#include "Staged.h"
#include "dt/Emit/FlatMemory.h"
#include "dt/Emit/MadeStates.h"
#include "dt/Emit/Summary.h"
#include "dt/Passes/Passes.h"
#include "dt/Passes/Version.h"
#include "dtrt/PlanFile.h"

#include "mlir/IR/Threading.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_EMITPLAN
#include "dt/Passes/Passes.h.inc"

namespace {

std::string hashText(llvm::StringRef text) {
  XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return llvm::formatv("{0:x-16}{1:x-16}", hash.high64, hash.low64).str();
}

std::string printOp(Operation *op) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  OpPrintingFlags flags;
  op->print(stream, flags.useLocalScope());
  return text + "\n";
}

/// The space and a layout of it as IR text.
std::string layoutText(LayoutOp layout, SymbolTableCollection &tables) {
  std::string text;
  if (auto meshes = layout.getMeshes())
    for (Attribute mesh : *meshes)
      text += printOp(layout.lookupMesh(tables, cast<FlatSymbolRefAttr>(mesh)));
  return text + printOp(layout);
}

std::vector<uint32_t> narrow(const std::vector<int64_t> &values) {
  return {values.begin(), values.end()};
}

dtrt::Family familyOf(ParamOp param) {
  dtrt::Family out;
  out.name = param.nameTemplate().str();
  unsigned leading = param.numLeading();
  for (unsigned d = 0; d < leading; ++d)
    out.leading.push_back({param.getLeadingFirst()[d],
                           param.getLeadingStep()[d], param.getShape()[d]});
  out.shape.assign(param.getShape().begin() + leading, param.getShape().end());
  StatesAttr states = param.getStates();
  for (auto [i, state] : llvm::enumerate(states.getEntries())) {
    dtrt::StateInfo info;
    info.name = state.name.str();
    info.inSource = state.source.has_value();
    info.inDestination = state.destination.has_value();
    info.sourceDType = dtrt::DType(states.readDType(i));
    info.destinationDType =
        dtrt::DType(state.destination.value_or(states.readDType(i)));
    if (state.from)
      info.madeFrom = states.indexOf(state.from);
    out.states.push_back(std::move(info));
  }
  return out;
}

dtrt::PlanCommon commonOf(const TransitionInfo &info) {
  SymbolTableCollection tables;
  dtrt::PlanCommon out;
  TransitionOp op = info.op;
  out.compilerVersion = kVersion;
  std::string space = printOp(op.lookupSpace(tables));
  out.sourceLayout = layoutText(info.sourceLayout, tables);
  out.destinationLayout = layoutText(info.destinationLayout, tables);
  out.sourceFingerprint = hashText(space + out.sourceLayout);
  out.destinationFingerprint = hashText(space + out.destinationLayout);
  std::string limits;
  llvm::raw_string_ostream(limits) << op.getClusterAttr() << op.getMemoryAttr();
  out.requestHash =
      hashText(space + out.sourceLayout + out.destinationLayout + limits);
  out.sourceWorld = LayoutOp(info.sourceLayout).getWorld();
  out.destinationWorld = LayoutOp(info.destinationLayout).getWorld();
  out.sourceDevices = narrow(devicesOf(info.sourceLayout, tables));
  out.destinationDevices = narrow(devicesOf(info.destinationLayout, tables));
  for (ParamOp param : info.params)
    out.families.push_back(familyOf(param));
  out.cluster.devicesPerNode = info.cluster.devicesPerNode;
  out.cluster.intraNodeGBps = info.cluster.intraBytesPerSecond / 1e9;
  out.cluster.interNodeGBps = info.cluster.interBytesPerSecond / 1e9;
  out.cluster.latencyUs = info.cluster.latencySeconds * 1e6;
  out.cluster.devicesPerNic = info.cluster.devicesPerNic;
  out.cluster.packGBps = kPackBytesPerSecond / 1e9;
  out.cluster.packLaunchUs = kPackLaunchSeconds * 1e6;
  for (const ClusterLink &link : info.cluster.links)
    out.cluster.links.push_back({link.from.isNode, link.to.isNode,
                                 link.from.index, link.to.index,
                                 link.bytesPerSecond / 1e9});
  return out;
}

/// Refuses a device that needs more than there is.
LogicalResult checkDeviceMemory(const TransitionInfo &info, int64_t device,
                                const DeviceBytes &bytes, int64_t peak) {
  if (info.deviceLimit == 0 || peak <= info.deviceLimit)
    return success();
  return TransitionOp(info.op).emitOpError()
         << "needs " << peak << " bytes on device " << device << " ("
         << bytes.source << " source, " << bytes.destination << " destination, "
         << bytes.staging << " staging), more than the limit of "
         << info.deviceLimit;
}

/// Refuses a flat program that holds more than the limit above the larger of
/// both sides. Where waves come from `--dt-schedule` this cannot happen.
LogicalResult checkFlatMemory(const TransitionInfo &info, int64_t device,
                              const DeviceBytes &bytes, int64_t peak) {
  int64_t larger = std::max(bytes.source, bytes.destination);
  if (!info.flat || peak <= larger + info.stagingLimit)
    return success();
  return TransitionOp(info.op).emitOpError()
         << "holds " << peak - larger << " bytes above the larger of source "
         << "and destination on device " << device
         << ", more than the limit of " << info.stagingLimit;
}

/// So many programs are in memory at once.
constexpr size_t kBatch = 64;

/// The section of one device.
struct Emitted {
  int64_t peak = 0;
  dtrt::Status checked;
  std::optional<dtrt::Result<dtrt::EncodedProgram>> section;
};

void stamp(const ProofResult &proof, dtrt::PlanSummary &summary) {
  auto word = [](bool holds) { return holds ? "proved" : ""; };
  summary.coverage = word(proof.coverage);
  summary.deadlockFree = word(proof.deadlockFree);
  summary.memorySafe = word(proof.memorySafe);
  summary.solver = proof.solver;
}

struct EmitPlanPass : impl::EmitPlanBase<EmitPlanPass> {
  using EmitPlanBase::EmitPlanBase;

  LogicalResult write(const TransitionInfo &info, int64_t device,
                      const DeviceBytes &bytes, const Emitted &program,
                      dtrt::PlanWriter &writer) {
    if (failed(checkDeviceMemory(info, device, bytes, program.peak)) ||
        failed(checkFlatMemory(info, device, bytes, program.peak)))
      return failure();
    dtrt::Status status = program.checked;
    if (status.ok())
      status = program.section->ok() ? writer.addProgram(**program.section)
                                     : program.section->status();
    if (!status.ok())
      return TransitionOp(info.op).emitOpError() << status.message();
    ++numPrograms;
    return success();
  }

  LogicalResult emit(const TransitionInfo &info) {
    TransitionOp op = info.op;
    auto transition = readStaged(info, /*computeCells=*/true);
    if (failed(transition))
      return failure();
    dtrt::PlanCommon common = commonOf(info);
    common.summary = summarize(*transition, info.cluster);
    common.summary.mode =
        info.flat ? dtrt::MemoryMode::Flat : dtrt::MemoryMode::Rollback;
    common.summary.stagingLimit = info.stagingLimit;
    common.summary.deviceLimit = info.deviceLimit;
    if (auto proof = getCachedAnalysis<ProofResult>())
      stamp(proof->get(), common.summary);

    // Nothing is written that the runtime would not read.
    if (dtrt::Status status = dtrt::checkCommon(common); !status.ok())
      return op.emitOpError() << status.message();
    auto writer = dtrt::PlanWriter::create(output);
    if (!writer.ok())
      return op.emitOpError() << writer.status().message();
    Worlds worlds = worldsOf(info);
    ProgramBuilder builder(*transition, worlds);
    std::vector<uint32_t> devices = narrow(builder.devices());
    std::map<int64_t, DeviceBytes> bytes = deviceBytes(*transition);
    for (int64_t device : builder.devices())
      bytes[device]; // some hold nothing
    uint64_t devicePeak = 0;
    ArrayRef<int64_t> rest(builder.devices());
    while (!rest.empty()) {
      ArrayRef<int64_t> batch = rest.take_front(kBatch);
      rest = rest.drop_front(batch.size());
      std::vector<Emitted> programs(batch.size());
      parallelFor(&getContext(), 0, batch.size(), [&](size_t i) {
        dtrt::RankProgram program = builder.build(batch[i]);
        joinMadeStates(common.families, program);
        programs[i].peak = bytes.at(batch[i]).peak();
        if (info.flat)
          programs[i].peak =
              makeFlat(common.families, info.pageBytes(), program);
        programs[i].checked = dtrt::checkProgram(common, devices, program);
        programs[i].section.emplace(dtrt::encodeSection(program));
      });
      for (auto [device, program] : llvm::zip_equal(batch, programs)) {
        devicePeak = std::max<uint64_t>(devicePeak, program.peak);
        if (failed(write(info, device, bytes[device], program, *writer)))
          return failure();
      }
    }
    common.summary.devicePeak = devicePeak;
    dtrt::Status status = writer->finish(common);
    if (!status.ok())
      return op.emitOpError() << status.message();
    return success();
  }

  void runOnOperation() override {
    // Checked before anything is written.
    auto transitions = getOperation().getOps<TransitionOp>();
    if (transitions.empty()) {
      getOperation().emitError("module has no dt.transition to emit");
      return signalPassFailure();
    }
    if (auto second = std::next(transitions.begin());
        second != transitions.end()) {
      (*second).emitOpError("is the second transition: a plan file holds one");
      return signalPassFailure();
    }
    if (failed(forEachTransition(
            getOperation(), [&](TransitionInfo &info) { return emit(info); })))
      signalPassFailure();
  }
};

} // namespace
} // namespace dt
