//===- FamilyTensors.h - A side's tensors of a family, as one ---*- C++ -*-===//

#ifndef DT_LIB_PASSES_FAMILYTENSORS_H
#define DT_LIB_PASSES_FAMILYTENSORS_H

#include "dt/Dialect/Ops.h"

namespace dt {

/// The one tensor that stands for a side's tensors of all members of a family,
/// row-major over dims of `counts`. They are views alike, and their names have
/// the same text between numbers. Null where a number, or the place in the
/// order, is no affine function of the member, where two numbers follow one
/// dim, and where numbers follow the dims in another order.
TensorAttr familyTensor(llvm::ArrayRef<TensorAttr> members,
                        const std::vector<int64_t> &counts);

} // namespace dt

#endif // DT_LIB_PASSES_FAMILYTENSORS_H
