//===- Pipelines.cpp - The order of passes --------------------------------===//

#include "dt/Passes/Pipelines.h"

#include "SplicePlan.h"
#include "dt/Passes/Passes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace {

struct CompileOptions : PassPipelineOptions<CompileOptions> {
  Option<std::string> output{
      *this, "output", llvm::cl::desc("path of the plan file; - is stdout"),
      llvm::cl::init("-")};
  Option<std::string> emitSmtlib{
      *this, "emit-smtlib",
      llvm::cl::desc("also write what is proved to this file, as SMT-LIB"),
      llvm::cl::init("")};
};

} // namespace

static void addReading(OpPassManager &passes) {
  passes.addPass(dt::createGroupFamilies());
  passes.addPass(dt::createVerifyLayout());
}

/// `from`: the old plan to start from, or null.
static void addLowering(OpPassManager &passes,
                        const std::shared_ptr<dt::Replan> &from = nullptr) {
  passes.addPass(dt::createRouteTransfers(from));
  passes.addPass(dt::createVerifyRouting());
  dt::FuseCollectivesOptions fuse;
  fuse.forLibrary = true;
  passes.addPass(dt::createFuseCollectives(fuse));
  passes.addPass(dt::createLowerCollectives());
  passes.addPass(dt::createScheduleWaves(from));
  passes.addPass(dt::createAllocateStaging());
  passes.addPass(dt::createPlaceStorage());
}

void dt::buildLoweringPipeline(OpPassManager &passes) {
  addReading(passes);
  addLowering(passes);
  passes.addPass(createVerifyTransport());
}

/// The proof closes the transport level: it checks all that the verify pass
/// does, and more.
void dt::buildCompilePipeline(OpPassManager &passes, const std::string &output,
                              const std::string &emitSmtlib) {
  addReading(passes);
  addLowering(passes);
  ProvePlanOptions prove;
  prove.emitSmtlib = emitSmtlib;
  passes.addPass(createProvePlan(prove));
  EmitPlanOptions emit;
  emit.output = output;
  passes.addPass(createEmitPlan(emit));
}

void dt::buildReplanPipeline(OpPassManager &passes,
                             std::shared_ptr<Replan> from,
                             const std::string &output, bool hasFamilies) {
  // The verifier sees whether what is spliced is complete.
  VerifyLayoutOptions verify;
  verify.complete = false;
  if (!hasFamilies)
    passes.addPass(createGroupFamilies());
  passes.addPass(createVerifyLayout(verify));
  OpPassManager whole(ModuleOp::getOperationName());
  whole.addPass(createVerifyLayout());
  std::shared_ptr<Replan> around = from->copiesOnly ? nullptr : from;
  addLowering(whole, around);
  whole.addPass(createProvePlan());
  EmitPlanOptions emit;
  emit.output = output;
  whole.addPass(createEmitPlan(emit, around));
  passes.addPass(createSplicePlan(std::move(from), output, whole));
}

void dt::registerPipelines() {
  PassPipelineRegistration<> lower(
      "dt-lower", "lowers transitions to staged waves, without a plan file",
      buildLoweringPipeline);
  PassPipelineRegistration<CompileOptions> compile(
      "dt-compile", "compiles the transition of the module to a plan file",
      [](OpPassManager &passes, const CompileOptions &options) {
        buildCompilePipeline(passes, options.output, options.emitSmtlib);
      });
}
