//===- EmitPlan.cpp - The plan file of a transition -----------------------===//
//
// Specializes the transition for a few devices at a time, on the threads that
// there are, and streams the programs to the plan file, so that memory does not
// grow with the world. The file becomes visible when the runtime's verifier has
// read it back and found nothing; what it says to be proved is written then.
//
//===----------------------------------------------------------------------===//

#include "CommonSection.h"
#include "PlanCertificate.h"
#include "ProofResult.h"
#include "Threads.h"
#include "dt/Emit/Programs.h"
#include "dt/Emit/Summary.h"
#include "dt/Passes/Passes.h"
#include "dt/Passes/Replan.h"
#include "dtrt/format/PlanReader.h"
#include "dtrt/format/PlanWriter.h"
#include "dtrt/format/ShardView.h"
#include "dtrt/verify/GpuParts.h"
#include "dtrt/verify/Verifier.h"

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_EMITPLAN
#include "dt/Passes/Passes.h.inc"

namespace {

/// Bytes that a device holds, with what GPUs and NCCL have for its program.
dtrt::Result<uint64_t> peakOverNccl(const dtrt::PlanCommon &common,
                                    const dtrt::RankProgram &program) {
  auto parts = dtrt::gpuPartsOf(common, program);
  DTRT_RETURN_IF_ERROR(parts);
  return dtrt::peakBytes(common, program) + parts->sum();
}

/// So many programs are in memory at once.
constexpr size_t kBatch = 64;

struct EmitPlanPass : impl::EmitPlanBase<EmitPlanPass> {
  using EmitPlanBase::EmitPlanBase;
  EmitPlanPass(EmitPlanOptions options, std::shared_ptr<Replan> from)
      : EmitPlanBase(std::move(options)), from(std::move(from)) {}

  /// Whether the file as written is right and says what the transition does,
  /// `common`, and what it may say of itself then. Numbers of the summary are
  /// the verifier's to judge.
  dtrt::Result<dtrt::PlanCommon> verify(dtrt::PlanCommon common,
                                        const dtrt::PlanReader &plan) {
    DTRT_RETURN_IF_ERROR(dtrt::verifyPlan(plan));
    dtrt::PlanSummary meant = common.summary;
    dtrt::PlanSummary &summary = common.summary;
    summary = plan.common().summary;
    summary.mode = meant.mode;
    summary.granularity = meant.granularity;
    summary.stagingLimit = meant.stagingLimit;
    summary.deviceLimit = meant.deviceLimit;
    summary.overNccl = meant.overNccl;
    if (dtrt::encodeCommonSection(common) !=
        dtrt::encodeCommonSection(plan.common()))
      return dtrt::makeError("the file names other tensors, worlds, layouts, "
                             "limits or another cluster than the transition");
    summary.verifier = dtrt::kVerifierVersion;
    auto cached = getCachedAnalysis<ProofResult>();
    const ProofResult proof = cached ? cached->get() : ProofResult(nullptr);
    auto word = [](bool holds) { return holds ? "proved" : ""; };
    summary.coverage = word(proof.coverage);
    summary.deadlockFree = word(proof.deadlockFree);
    summary.memorySafe = word(proof.memorySafe);
    summary.solver = proof.solver;
    summary.solverSteps = proof.solverSteps;
    return common;
  }

  /// Builds, encodes and writes the programs of a few devices at a time. With
  /// `common`, `peak` becomes the most that a device holds with what GPUs and
  /// NCCL have.
  LogicalResult writePrograms(TransitionOp op, const ProgramBuilder &builder,
                              dtrt::PlanWriter &writer,
                              const dtrt::PlanCommon *common, uint64_t &peak) {
    ArrayRef<int64_t> rest(builder.devices());
    while (!rest.empty()) {
      ArrayRef<int64_t> batch = rest.take_front(kBatch);
      rest = rest.drop_front(batch.size());
      std::vector<std::optional<dtrt::Result<dtrt::EncodedProgram>>> sections(
          batch.size());
      std::vector<dtrt::Result<uint64_t>> peaks(batch.size(), uint64_t(0));
      forEachOnThreads(&getContext(), batch.size(), [&](size_t i) {
        dtrt::RankProgram program = builder.build(batch[i]);
        if (common)
          peaks[i] = peakOverNccl(*common, program);
        sections[i].emplace(dtrt::encodeSection(program));
      });
      for (size_t i = 0; i < batch.size(); ++i) {
        const auto &section = *sections[i];
        dtrt::Status status = !peaks[i].ok() ? peaks[i].status()
                              : section.ok() ? writer.addProgram(*section)
                                             : section.status();
        if (!status.ok())
          return op.emitOpError() << status.message();
        peak = std::max(peak, *peaks[i]);
        ++numPrograms;
      }
    }
    return success();
  }

  static dtrt::PlanCommon commonOf(const TransitionReading &reading,
                                   const std::vector<PlanMessage> &messages,
                                   const std::vector<Flow> &flows) {
    dtrt::PlanCommon common = commonSection(*reading.info);
    common.memberSets = memberSetsOf(reading.plan);
    summarize(reading.plan, messages, flows, reading.info->cluster,
              common.summary, threadsOf(reading.info->op().getContext()));
    if (auto seconds = reading.info->op().getSecondsWithoutRelays();
        seconds && common.summary.bytesRelayed > 0)
      common.summary.timeWithoutRelays = seconds->convertToDouble();
    return common;
  }

  LogicalResult emit(const TransitionReading &reading) {
    TransitionOp op = reading.info->op();
    auto flows = reading.info->flowCells();
    if (failed(flows))
      return failure();
    auto writer = dtrt::PlanWriter::create(output);
    if (!writer.ok())
      return op.emitOpError() << writer.status().message();
    Worlds worlds = worldsOf(*reading.info);
    ProgramBuilder builder(reading.plan, worlds, threadsOf(&getContext()));
    dtrt::PlanCommon common, counted;
    const bool overNccl = reading.info->overNccl;
    if (overNccl)
      counted = commonSection(*reading.info);
    uint64_t peak = 0;
    LogicalResult isWritten = success();
    // What is said of the plan is found out beside its programs.
    forEachOnThreads(&getContext(), 2, [&](size_t part) {
      if (part == 0)
        common = commonOf(reading, builder.messages(), **flows);
      else
        isWritten = writePrograms(op, builder, *writer,
                                  overNccl ? &counted : nullptr, peak);
    });
    if (failed(isWritten))
      return failure();
    if (overNccl)
      common.summary.devicePeak = peak;
    dtrt::Status status =
        writer->finish(common, [&](const dtrt::PlanReader &plan) {
          return verify(common, plan);
        });
    if (!status.ok())
      return op.emitOpError() << status.message();
    if (from)
      from->summary = common.summary;
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

private:
  std::shared_ptr<Replan> from; // null: from zero
};

} // namespace

std::unique_ptr<Pass> createEmitPlan(EmitPlanOptions options,
                                     std::shared_ptr<Replan> from) {
  return std::make_unique<EmitPlanPass>(std::move(options), std::move(from));
}

} // namespace dt
