//===- DType.h - Element types as trainers name them ------------*- C++ -*-===//

#ifndef DT_GEOMETRY_DTYPE_H
#define DT_GEOMETRY_DTYPE_H

#include "dtrt/types/Types.h"

#include <optional>
#include <string_view>

namespace dt {

using dtrt::byteWidth;
using dtrt::canConvert;
using dtrt::DType;
using dtrt::dtypeName;
using dtrt::Granularity;
using dtrt::MemoryMode;
using dtrt::memoryModeName;
using dtrt::Side;
using dtrt::sideName;
using dtrt::wireDType;

/// A state `derived` that may be sent or made from state `from` where both have
/// arrived: whether both ways round alike, for all values that `derived` has
/// because it was made from `from` at the source.
bool roundAlike(DType fromSource, DType fromDestination, DType derivedSource,
                DType derivedDestination);
/// Accepts safetensors' and PyTorch's spellings in any case: "BF16",
/// "bfloat16", "torch.float32", "f8_e4m3fn", "F8_E4M3", "long", "uint8".
std::optional<DType> parseDType(std::string_view text);

} // namespace dt

#endif // DT_GEOMETRY_DTYPE_H
