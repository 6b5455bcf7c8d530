//===- DType.cpp - Element types as trainers name them --------------------===//

#include "dt/Geometry/DType.h"

#include <cctype>
#include <string>
#include <vector>

namespace dt {

namespace {

struct Alias {
  const char *spelling;
  DType type;
};

/// PyTorch's names and those in common use, lower case.
constexpr Alias kAliases[] = {
    {"float64", DType::F64},
    {"double", DType::F64},
    {"fp64", DType::F64},
    {"float32", DType::F32},
    {"float", DType::F32},
    {"fp32", DType::F32},
    {"float16", DType::F16},
    {"half", DType::F16},
    {"fp16", DType::F16},
    {"bfloat16", DType::BF16},
    {"f8_e4m3fn", DType::F8E4M3},
    {"float8_e4m3fn", DType::F8E4M3},
    {"float8_e4m3", DType::F8E4M3},
    {"float8_e5m2", DType::F8E5M2},
    {"f8_e8m0fnu", DType::F8E8M0},
    {"float8_e8m0fnu", DType::F8E8M0},
    {"float8_e8m0", DType::F8E8M0},
    {"float8_e4m3fnuz", DType::F8E4M3FNUZ},
    {"float8_e5m2fnuz", DType::F8E5M2FNUZ},
    {"int64", DType::I64},
    {"long", DType::I64},
    {"int32", DType::I32},
    {"int", DType::I32},
    {"int16", DType::I16},
    {"short", DType::I16},
    {"int8", DType::I8},
    {"char", DType::I8},
    {"uint64", DType::U64},
    {"uint32", DType::U32},
    {"uint16", DType::U16},
    {"uint8", DType::U8},
    {"byte", DType::U8},
};

} // namespace

/// Whether all values of a type are values of the other.
static bool holdsAll(DType type, DType of) {
  return type == of || type == DType::F64 ||
         (type == DType::F32 && of != DType::F64);
}

/// The types that a value of the first is rounded to on its way.
static std::vector<DType> roundings(std::initializer_list<DType> way) {
  DType at = *way.begin();
  std::vector<DType> out;
  for (DType type : way)
    if (!holdsAll(type, at))
      out.push_back(at = type);
  return out;
}

bool roundAlike(DType fromSource, DType fromDestination, DType derivedSource,
                DType derivedDestination) {
  return roundings({fromSource, derivedSource, derivedDestination}) ==
         roundings({fromSource, fromDestination, derivedDestination});
}

std::optional<DType> parseDType(std::string_view text) {
  std::string lower;
  for (char c : text)
    lower += char(std::tolower(static_cast<unsigned char>(c)));
  const std::string prefix = "torch.";
  if (lower.compare(0, prefix.size(), prefix) == 0)
    lower.erase(0, prefix.size());
  for (size_t i = 0; i < dtrt::kNumDTypes; ++i)
    if (lower == dtypeName(DType(i)))
      return DType(i);
  for (const Alias &alias : kAliases)
    if (lower == alias.spelling)
      return alias.type;
  return std::nullopt;
}

} // namespace dt
