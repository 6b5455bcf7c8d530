//===- DType.h - Element types as trainers name them ------------*- C++ -*-===//

#ifndef DT_GEOMETRY_DTYPE_H
#define DT_GEOMETRY_DTYPE_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dt {

/// Element types, named as safetensors names them (lower case). The numbers
/// are those of the plan file's DType.
enum class DType : uint8_t {
  F64,
  F32,
  F16,
  BF16,
  F8E4M3,
  F8E5M2,
  F8E8M0,
  F8E4M3FNUZ,
  F8E5M2FNUZ,
  I64,
  I32,
  I16,
  I8,
  U64,
  U32,
  U16,
  U8,
  Bool,
};

/// Bytes of one element: 1, 2, 4 or 8.
int64_t byteWidth(DType type);
/// Canonical lower-case name: "bf16", "f8_e4m3", "i64", "bool".
const char *name(DType type);
/// Whether values of one type can become values of the other in flight: equal
/// types, or both of f64, f32, f16 and bf16.
bool canConvert(DType from, DType to);
/// The type that travels: the narrower of the two; the destination's where
/// both are equally wide.
DType wireDType(DType source, DType destination);
/// A state `made` that may be sent or made from state `from` where both have
/// arrived: whether both ways round alike, for all values that `made` has
/// because it was made from `from` at the source.
bool roundAlike(DType fromSource, DType fromDestination, DType madeSource,
                DType madeDestination);
/// Accepts safetensors' and PyTorch's spellings in any case: "BF16",
/// "bfloat16", "torch.float32", "f8_e4m3fn", "F8_E4M3", "long", "uint8".
std::optional<DType> parseDType(std::string_view text);

} // namespace dt

#endif // DT_GEOMETRY_DTYPE_H
