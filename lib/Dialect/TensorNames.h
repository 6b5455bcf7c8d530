//===- TensorNames.h - Names of the tensors of a space ----------*- C++ -*-===//

#ifndef DT_DIALECT_TENSORNAMES_H
#define DT_DIALECT_TENSORNAMES_H

#include "dt/Dialect/Ops.h"

namespace dt {

/// A name with one `{}` per leading dim, for one member of a family: each is
/// first + step * index, or what the dim's list has there (LeadingLists.h).
std::string withNumbers(llvm::StringRef name, llvm::ArrayRef<int64_t> first,
                        llvm::ArrayRef<int64_t> step,
                        llvm::ArrayRef<int64_t> lists,
                        llvm::ArrayRef<int64_t> member);

/// No two params name one tensor. Time and memory are of the number of tensors,
/// at most; families that differ by their numbers cost as much as params.
mlir::LogicalResult verifyTensorNames(SpaceOp space);

} // namespace dt

#endif // DT_DIALECT_TENSORNAMES_H
