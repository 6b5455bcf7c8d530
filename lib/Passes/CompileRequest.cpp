//===- CompileRequest.cpp - One transition to a plan file -----------------===//

#include "CompileRequest.h"

#include "dt/Passes/DiagnosticText.h"
#include "dt/Passes/ImportRequest.h"
#include "dt/Passes/Pipelines.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace dt {

LogicalResult compileRequest(const Request &request, const RequestCall &call,
                             std::vector<std::string> &lines) {
  MLIRContext context(call.threading);
  context.printOpOnDiagnostic(false); // nobody wrote the op of a request
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    lines.push_back(lineOf(diagnostic, call.subject));
    return success();
  });
  OwningOpRef<ModuleOp> module = importRequest(request, call.file, &context);
  PassManager passes(&context);
  if (call.from)
    buildReplanPipeline(passes, call.from, call.output);
  else
    buildCompilePipeline(passes, call.output);
  return passes.run(*module);
}

LogicalResult compileExpected(const RequestSet &request,
                              const ExpectedRequest &expected,
                              const RequestCall &call) {
  MLIRContext context(call.threading);
  bool isSilent = true;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &) {
    isSilent = false;
    return success();
  });
  OwningOpRef<ModuleOp> module = expected.moduleOf(request, &context);
  if (!module)
    return failure();
  PassManager passes(&context);
  if (expected.layouts())
    passes.addPass(createKnowLayouts(expected.layouts()));
  buildReplanPipeline(passes, call.from, call.output, /*hasFamilies=*/true);
  return success(succeeded(passes.run(*module)) && isSilent);
}

} // namespace dt
