//===- EmitPlan.cpp - The plan file of a transition -----------------------===//
//
// Specializes the transition for a few devices at a time, on the threads that
// there are, and streams the programs to the plan file, so that memory does not
// grow with the world.
//
//===----------------------------------------------------------------------===//

#include "PlanCertificate.h"
#include "ProofResult.h"
#include "dt/Emit/Programs.h"
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
  TransitionOp op = info.op();
  out.compilerVersion = kVersion;
  std::string space = printOp(op.lookupSpace(tables));
  out.sourceLayout = layoutText(info.sourceLayout(), tables);
  out.destinationLayout = layoutText(info.destinationLayout(), tables);
  out.sourceFingerprint = hashText(space + out.sourceLayout);
  out.destinationFingerprint = hashText(space + out.destinationLayout);
  std::string limits;
  llvm::raw_string_ostream(limits) << op.getClusterAttr() << op.getMemoryAttr();
  out.requestHash =
      hashText(space + out.sourceLayout + out.destinationLayout + limits);
  out.sourceWorld = info.sourceLayout().getWorld();
  out.destinationWorld = info.destinationLayout().getWorld();
  out.sourceDevices = narrow(devicesOf(info.sourceLayout(), tables));
  out.destinationDevices = narrow(devicesOf(info.destinationLayout(), tables));
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

dtrt::PlanSummary summaryOf(const TransitionReading &reading) {
  const TransitionInfo &info = *reading.info;
  dtrt::PlanSummary out =
      summarize(reading.plan, info.flowCells(), info.cluster);
  out.mode = info.flat ? dtrt::MemoryMode::Flat : dtrt::MemoryMode::Rollback;
  out.stagingLimit = info.stagingLimit;
  out.deviceLimit = info.deviceLimit;
  return out;
}

/// So many programs are in memory at once.
constexpr size_t kBatch = 64;

struct EmitPlanPass : impl::EmitPlanBase<EmitPlanPass> {
  using EmitPlanBase::EmitPlanBase;

  void stamp(dtrt::PlanSummary &summary) {
    auto proof = getCachedAnalysis<ProofResult>();
    if (!proof || !proof->get().proved)
      return;
    summary.coverage = summary.deadlockFree = summary.memorySafe = "proved";
    summary.solver = proof->get().solver;
  }

  /// Builds, encodes and writes the programs of a few devices at a time.
  LogicalResult writePrograms(TransitionOp op, const ProgramBuilder &builder,
                              dtrt::PlanWriter &writer) {
    ArrayRef<int64_t> rest(builder.devices());
    while (!rest.empty()) {
      ArrayRef<int64_t> batch = rest.take_front(kBatch);
      rest = rest.drop_front(batch.size());
      std::vector<std::optional<dtrt::Result<dtrt::EncodedProgram>>> sections(
          batch.size());
      parallelFor(&getContext(), 0, batch.size(), [&](size_t i) {
        sections[i].emplace(dtrt::encodeSection(builder.build(batch[i])));
      });
      for (auto &section : sections) {
        dtrt::Status status =
            section->ok() ? writer.addProgram(**section) : section->status();
        if (!status.ok())
          return op.emitOpError() << status.message();
        ++numPrograms;
      }
    }
    return success();
  }

  LogicalResult emit(const TransitionReading &reading) {
    TransitionOp op = reading.info->op();
    dtrt::PlanCommon common = commonOf(*reading.info);
    common.summary = summaryOf(reading);
    stamp(common.summary);
    auto writer = dtrt::PlanWriter::create(output);
    if (!writer.ok())
      return op.emitOpError() << writer.status().message();
    Worlds worlds = worldsOf(*reading.info);
    ProgramBuilder builder(reading.plan, worlds);
    if (failed(writePrograms(op, builder, *writer)))
      return failure();
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
    // What is written is what the rules were checked of.
    if (!getAnalysis<PlanCertificate>().holds)
      return signalPassFailure();
    if (failed(getAnalysis<TransportReading>().forEach(
            [&](const TransitionReading &reading) { return emit(reading); })))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
} // namespace dt
