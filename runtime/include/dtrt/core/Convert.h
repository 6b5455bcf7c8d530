//===- Convert.h - Values of one dtype as another ---------------*- C++ -*-===//
//
// f64, f32, f16 and bf16 convert to each other with round-to-nearest-even, as
// IEEE 754 and PyTorch do: too large becomes infinite, what is too small
// becomes subnormal or zero, and a NaN stays a (quiet) NaN with the upper bits
// of its payload. All of it is integer arithmetic on the bits, so that every
// machine gives the same bytes.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_CORE_CONVERT_H
#define DTRT_CORE_CONVERT_H

#include "dtrt/format/PlanModel.h"

#include <cstddef>

namespace dtrt {

/// Converts `count` contiguous elements; the buffers do not overlap.
using ConvertRun = void (*)(std::byte *to, const std::byte *from,
                            int64_t count);

/// Null for equal types, and for a pair that `canConvert` refuses.
ConvertRun converterFor(DType from, DType to);

/// One element, in the low bits.
uint64_t convertBits(uint64_t bits, DType from, DType to);

} // namespace dtrt

#endif // DTRT_CORE_CONVERT_H
