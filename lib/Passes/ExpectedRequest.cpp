//===- ExpectedRequest.cpp - What requests to come are like ---------------===//
//
// Kept as text, without locations: each request has a context of its own, and
// what is wrong with one is said by who reads it as if it were not expected.
//
//===----------------------------------------------------------------------===//

#include "ExpectedRequest.h"

#include "dt/Dialect/Ops.h"
#include "dt/Passes/ImportRequest.h"
#include "dt/Passes/Passes.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace dt {

namespace {

void setDevices(LayoutOp layout, ArrayRef<int64_t> devices,
                SymbolTableCollection &tables) {
  layout.setDevices(devices);
  auto names = layout.getMeshes()->getAsRange<FlatSymbolRefAttr>();
  for (FlatSymbolRefAttr name : names) {
    MeshOp mesh = layout.lookupMesh(tables, name);
    mesh.setMeshAttr(
        MeshAttr::get(mesh.getContext(), mesh.getMesh().getAxes(), devices));
  }
}

} // namespace

std::optional<ExpectedRequest>
ExpectedRequest::of(const RequestSet &request,
                    MLIRContext::Threading threading) {
  auto byRank = request.withoutDevices();
  if (!byRank)
    return std::nullopt;
  std::string error;
  auto read = byRank->request(0, error);
  if (!read)
    return std::nullopt;
  MLIRContext context(threading);
  bool isSilent = true;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &) {
    isSilent = false;
    return success();
  });
  OwningOpRef<ModuleOp> module = importRequest(*read, "", &context);
  PassManager passes(&context);
  passes.addPass(createGroupFamilies());
  if (failed(passes.run(*module)) || !isSilent)
    return std::nullopt;
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  std::shared_ptr<const LayoutsByRank> held;
  auto take = [&](const TransitionInfo &info) {
    held = layoutsByRank(info);
    return success();
  };
  if (failed(TransitionAnalysis(*module).forEach(take)) || !isSilent)
    return std::nullopt;
  return ExpectedRequest(std::move(*byRank), std::move(text), std::move(held));
}

OwningOpRef<ModuleOp> ExpectedRequest::moduleOf(const RequestSet &request,
                                                MLIRContext *context) const {
  if (!request.isButForDevices(byRank))
    return nullptr;
  auto source = request.devices(Side::Source);
  auto destination = request.devices(Side::Destination);
  if (!source || !destination)
    return nullptr;
  context->loadDialect<DTDialect>();
  auto module = parseSourceString<ModuleOp>(families, context);
  if (!module)
    return nullptr;
  SymbolTableCollection tables;
  for (auto layout : module->getOps<LayoutOp>())
    setDevices(layout,
               layout.getSymName() == sideName(Side::Source) ? *source
                                                             : *destination,
               tables);
  return module;
}

} // namespace dt
