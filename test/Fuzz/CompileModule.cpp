//===- CompileModule.cpp - What fuzz targets ask of the compiler ----------===//

#include "CompileModule.h"

#include "dt/Dialect/Dialect.h"
#include "dt/Dialect/Ops.h"
#include "dt/Passes/Passes.h"
#include "dt/Passes/Pipelines.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;

/// LLVM's allocator, in headers, tells AddressSanitizer what it has handed out;
/// the half of it in LLVM's library, which is built without, does not: memory
/// that it hands out would be taken for free.
extern "C" const char *__asan_default_options() {
  return "allow_user_poisoning=0";
}

namespace dt::fuzz {

namespace {

constexpr int64_t kMostRanks = 32, kMostParams = 16;
constexpr int64_t kMostElements = int64_t(1) << 16;

} // namespace

MLIRContext &context() {
  static MLIRContext *only = [] {
    auto *made = new MLIRContext(MLIRContext::Threading::DISABLED);
    made->loadDialect<DTDialect>();
    made->getDiagEngine().registerHandler(
        [](Diagnostic &) { return success(); });
    return made;
  }();
  return *only;
}

bool isSmall(ModuleOp module) {
  int64_t params = 0, elements = 0;
  WalkResult result = module.walk([&](Operation *op) {
    if (auto layout = dyn_cast<LayoutOp>(op))
      return layout.getWorld() > kMostRanks ? WalkResult::interrupt()
                                            : WalkResult::advance();
    auto param = dyn_cast<ParamOp>(op);
    if (!param)
      return WalkResult::advance();
    int64_t own = 1;
    for (int64_t size : param.getShape()) // verified: below 2^60
      own *= size;
    elements += own;
    return ++params > kMostParams || own > kMostElements ||
                   elements > kMostElements
               ? WalkResult::interrupt()
               : WalkResult::advance();
  });
  return !result.wasInterrupted();
}

void compile(ModuleOp module) {
  PassManager passes(module.getContext());
  bool isLowered = false;
  module.walk(
      [&](TransitionOp op) { isLowered |= !op.getBody().front().empty(); });
  if (isLowered) {
    passes.addPass(createProvePlan());
    EmitPlanOptions emit;
    emit.output = "/dev/null";
    passes.addPass(createEmitPlan(emit));
  } else {
    buildCompilePipeline(passes, "/dev/null");
  }
  (void)passes.run(module);
}

} // namespace dt::fuzz
