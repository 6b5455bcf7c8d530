//===- TensorNames.h - Names of the tensors of a space ----------*- C++ -*-===//

#ifndef DT_DIALECT_TENSORNAMES_H
#define DT_DIALECT_TENSORNAMES_H

#include "dt/Dialect/Ops.h"

namespace dt {

/// No two params name one tensor. Time and memory are of the number of tensors,
/// at most; families that differ by their numbers cost as much as params.
mlir::LogicalResult verifyTensorNames(SpaceOp space);

} // namespace dt

#endif // DT_DIALECT_TENSORNAMES_H
