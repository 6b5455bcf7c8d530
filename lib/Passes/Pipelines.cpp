//===- Pipelines.cpp - The order of passes --------------------------------===//

#include "dt/Passes/Pipelines.h"

#include "dt/Passes/Passes.h"
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

/// `from`: the old plan to start from, or null.
static void addLowering(OpPassManager &passes,
                        const std::shared_ptr<dt::Replan> &from = nullptr) {
  passes.addPass(dt::createGroupFamilies());
  passes.addPass(dt::createVerifyLayout());
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
  addLowering(passes);
  passes.addPass(createVerifyTransport());
}

/// The proof closes the transport level: it checks all that the verify pass
/// does, and more.
void dt::buildCompilePipeline(OpPassManager &passes, const std::string &output,
                              const std::string &emitSmtlib) {
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
                             const std::string &output) {
  addLowering(passes, from);
  passes.addPass(createProvePlan());
  EmitPlanOptions emit;
  emit.output = output;
  passes.addPass(createEmitPlan(emit, std::move(from)));
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
