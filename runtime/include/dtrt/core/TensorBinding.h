//===- TensorBinding.h - Tensors that a rank is given -----------*- C++ -*-===//
//
// A plan names the local tensors that each rank has before and after: here they
// are listed, for all who ask, and bound to the trainer's own.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_CORE_TENSORBINDING_H
#define DTRT_CORE_TENSORBINDING_H

#include "dtrt/core/Storage.h"

namespace dtrt {

/// A tensor that the plan wants of a rank: one member of one of its shards, in
/// one state.
struct ExpectedTensor {
  std::string tensor; // its own name, not the family's
  std::string state;
  Side side = Side::Source;
  /// Counts the shards that the device holds of this tensor, state and side,
  /// in program order; 0 nearly always.
  uint32_t ordinal = 0;
  uint64_t bytes = 0;
  /// Where it stands in the program.
  uint32_t shard = 0;
  unsigned stateIndex = 0;
  int64_t member = 0;
  /// There is a tensor of this name, state and ordinal on either side, and one
  /// may be given for both: it is the same before and after, and filled only
  /// from itself.
  bool inPlace = false;
};

/// All of them, in program order, the source first.
std::vector<ExpectedTensor> expectedTensors(const LocalStorage &storage);

/// A tensor of a live trainer; see ExpectedTensor.
struct TensorBinding {
  std::string tensor;
  std::string state;
  Side side = Side::Source;
  uint32_t ordinal = 0;
  void *data = nullptr;
  uint64_t bytes = 0;
  /// What comes and goes with the plan (LiveStorage), and where the tensor lies
  /// in it; `data` of one that has yet to come is null.
  LiveMemory *memory = nullptr;
  uint64_t offset = 0;
};

/// Binds all tensors; fails when one is unknown, has the wrong size or comes
/// twice, when a destination shares memory with any other, and when one that is
/// expected is not among them, unless it has no bytes. One tensor may be given
/// for both sides where the program leaves it as it is, which is checked here;
/// no byte of it is copied then.
Status bindTensors(const std::vector<TensorBinding> &tensors,
                   LocalStorage &storage);

} // namespace dtrt

#endif // DTRT_CORE_TENSORBINDING_H
