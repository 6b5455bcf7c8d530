//===- VerifyTensors.h - What a side's own tensors must be ------*- C++ -*-===//

#ifndef DT_LIB_PASSES_VERIFYTENSORS_H
#define DT_LIB_PASSES_VERIFYTENSORS_H

#include "dt/Dialect/Ops.h"

namespace dt {

/// Fails, with a diagnostic, where two tensors of a layout have one name, and
/// where those that are views of one param have an element twice or lack one.
mlir::LogicalResult verifyTensors(LayoutOp layout,
                                  mlir::SymbolTableCollection &tables);

} // namespace dt

#endif // DT_LIB_PASSES_VERIFYTENSORS_H
