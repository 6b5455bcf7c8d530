//===- CommonSection.cpp - What is not per device of a plan ---------------===//

#include "CommonSection.h"

#include "dt/Passes/Version.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace mlir;

namespace dt {

namespace {

std::string hashText(llvm::StringRef text) {
  XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return llvm::formatv("{0:x-16}{1:x-16}", hash.high64, hash.low64).str();
}

/// Of IR that a pass has been given, so MLIR has verified it.
std::string printOp(Operation *op) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  OpPrintingFlags flags;
  op->print(stream, flags.useLocalScope().assumeVerified());
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

std::vector<dtrt::LeadingDim> leadingDims(std::vector<Sequence> numbers,
                                          ParamOp param) {
  std::vector<dtrt::LeadingDim> out;
  for (auto [dim, sequence] : llvm::enumerate(numbers))
    out.push_back({sequence.first, sequence.step, param.getShape()[dim],
                   std::move(sequence.list)});
  return out;
}

dtrt::Family familyOf(ParamOp param) {
  dtrt::Family out;
  out.name = param.nameTemplate().str();
  unsigned leading = param.numLeading();
  out.leading = leadingDims(param.numbers(), param);
  out.shape.assign(param.getShape().begin() + leading, param.getShape().end());
  StatesAttr states = param.getStates();
  for (auto [i, state] : llvm::enumerate(states.getEntries())) {
    dtrt::StateInfo info;
    info.name = state.name.str();
    info.inSource = state.source.has_value();
    info.inDestination = state.destination.has_value();
    info.sourceDType = states.readDType(i);
    info.destinationDType = state.destination.value_or(states.readDType(i));
    if (state.from)
      info.derivedFrom = states.indexOf(state.from);
    out.states.push_back(std::move(info));
  }
  out.partial = param.getPartial();
  out.storage = param.getStorage().value_or("").str();
  return out;
}

dtrt::NamedView viewOf(const SideTensor &own, uint32_t family) {
  dtrt::NamedView out;
  out.side = own.side;
  out.family = family;
  out.name = own.tensor.getName().str();
  out.leading = leadingDims(own.tensor.numbers(), own.param);
  TensorView view = own.tensor.toGeometry();
  out.dims = std::move(view.dims);
  out.order = view.order;
  out.parts = std::move(view.parts);
  out.fill = std::move(view.fill);
  return out;
}

} // namespace

dtrt::PlanCommon commonSection(const TransitionInfo &info) {
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
  if (CompressionAttr compression = op.getCompressionAttr())
    llvm::raw_string_ostream(limits) << compression;
  out.requestHash =
      hashText(space + out.sourceLayout + out.destinationLayout + limits);
  out.sourceWorld = info.sourceLayout().getWorld();
  out.destinationWorld = info.destinationLayout().getWorld();
  out.sourceDevices = narrow(devicesOf(info.sourceLayout(), tables));
  out.destinationDevices = narrow(devicesOf(info.destinationLayout(), tables));
  llvm::DenseMap<Operation *, uint32_t> families;
  for (ParamOp param : info.params) {
    families[param] = uint32_t(out.families.size());
    out.families.push_back(familyOf(param));
  }
  for (const SideTensor &own : info.tensors)
    out.views.push_back(viewOf(own, families.lookup(own.param)));
  out.cluster = info.cluster;
  out.summary.mode = info.mode;
  out.summary.granularity = info.granularity;
  out.summary.overNccl = info.overNccl;
  out.compression = info.compression;
  int64_t frames = info.compressionBytes();
  out.summary.stagingLimit = info.stagingLimit + frames;
  out.summary.deviceLimit =
      info.deviceLimit > 0 ? info.deviceLimit + frames : 0;
  return out;
}

} // namespace dt
