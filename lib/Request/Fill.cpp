//===- Fill.cpp - What a tensor's padding holds ---------------------------===//

#include "Fill.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

namespace dt::request {

namespace {

/// A floating-point format narrower than f32.
struct Narrow {
  DType type;
  int exponentBits, mantissaBits, bias;
  double largest;
  bool hasInfinity;
  bool hasMinusZero;
};
constexpr Narrow kNarrow[] = {
    {DType::F16, 5, 10, 15, 65504, true, true},
    {DType::BF16, 8, 7, 127, 0x1.fep127, true, true},
    {DType::F8E4M3, 4, 3, 7, 448, false, true},
    {DType::F8E5M2, 5, 2, 15, 57344, true, true},
    {DType::F8E4M3FNUZ, 4, 3, 8, 240, false, false},
    {DType::F8E5M2FNUZ, 5, 2, 16, 57344, false, false},
};

template <typename Bits, typename Float> uint64_t rawBits(Float value) {
  Bits bits;
  static_assert(sizeof bits == sizeof value);
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// As a double, and, rounded once, as a float.
struct Number {
  double wide;
  float single;
};

Number numberOf(const Json &value) {
  if (value.kind == Json::Kind::Integer)
    return {double(value.integer), float(value.integer)};
  double wide = value.number;
  if (value.isString())
    wide = std::copysign(std::numeric_limits<double>::infinity(),
                         value.string == "inf" ? 1 : -1);
  return {wide, float(wide)};
}

std::optional<uint64_t> narrowBits(Number number, const Narrow &to) {
  auto [value, single] = number;
  uint64_t code = 0;
  if (std::isinf(value)) {
    if (!to.hasInfinity)
      return std::nullopt;
    code = ((uint64_t(1) << to.exponentBits) - 1) << to.mantissaBits;
  } else if (std::abs(value) > to.largest) {
    return std::nullopt;
  } else if (double size = std::abs(single); size > 0) {
    // Units in the last place; subnormals have those of the least normal.
    int power = std::max(std::ilogb(size), 1 - to.bias);
    double units = std::nearbyint(std::ldexp(size, to.mantissaBits - power));
    code = (uint64_t(power + to.bias - 1) << to.mantissaBits) + uint64_t(units);
  }
  bool isNegative = std::signbit(value) && (code != 0 || to.hasMinusZero);
  return code | uint64_t(isNegative) << (to.exponentBits + to.mantissaBits);
}

/// A scale: the exponent of a power of two.
std::optional<uint64_t> scaleBits(double value) {
  int exponent = 0;
  if (!std::isfinite(value) || std::frexp(value, &exponent) != 0.5 ||
      exponent < -126 || exponent > 128)
    return std::nullopt;
  return uint64_t(exponent + 126);
}

std::optional<uint64_t> floatBits(Number number, DType type) {
  double value = number.wide;
  if (type == DType::F64)
    return rawBits<uint64_t>(value);
  if (type == DType::F8E8M0)
    return scaleBits(value);
  if (type == DType::F32) {
    if (std::isfinite(value) &&
        std::abs(value) > std::numeric_limits<float>::max())
      return std::nullopt;
    return rawBits<uint32_t>(number.single);
  }
  for (const Narrow &narrow : kNarrow)
    if (narrow.type == type)
      return narrowBits(number, narrow);
  return std::nullopt;
}

template <typename Int> std::optional<uint64_t> integerBits(int64_t value) {
  if (value < 0 ? value < int64_t(std::numeric_limits<Int>::min())
                : uint64_t(value) > uint64_t(std::numeric_limits<Int>::max()))
    return std::nullopt;
  return uint64_t(std::make_unsigned_t<Int>(value));
}

std::optional<uint64_t> integerBits(int64_t value, DType type) {
  switch (type) {
  case DType::I64:
    return uint64_t(value);
  case DType::I32:
    return integerBits<int32_t>(value);
  case DType::I16:
    return integerBits<int16_t>(value);
  case DType::I8:
    return integerBits<int8_t>(value);
  case DType::U64:
    return integerBits<uint64_t>(value);
  case DType::U32:
    return integerBits<uint32_t>(value);
  case DType::U16:
    return integerBits<uint16_t>(value);
  case DType::U8:
    return integerBits<uint8_t>(value);
  default: // bool
    return value == 0 || value == 1 ? std::optional(uint64_t(value))
                                    : std::nullopt;
  }
}

bool isNumber(const Json &value) {
  return value.kind == Json::Kind::Integer || value.kind == Json::Kind::Float ||
         (value.isString() &&
          (value.string == "inf" || value.string == "-inf"));
}

std::string textOf(const Json &value) {
  std::ostringstream out;
  if (value.kind == Json::Kind::Integer)
    out << value.integer;
  else
    out << numberOf(value).wide;
  return out.str();
}

/// States that hold a parameter's values; moments and gradients are padded with
/// zeros.
bool hasValues(const std::string &state) {
  return state == "param" || state == "master";
}

/// The element that a number, "inf" or "-inf" is in a dtype: its bits. Floats
/// are rounded as PyTorch rounds: to f32, and from there to what is narrower,
/// to the nearest, of two to the even one. Nothing where the dtype has no such
/// element: beyond its largest, a part of an integer, or, of f8_e8m0, no power
/// of two.
std::optional<uint64_t> elementBits(const Json &value, DType type) {
  if (type <= DType::F8E5M2FNUZ)
    return floatBits(numberOf(value), type);
  if (value.kind != Json::Kind::Integer)
    return std::nullopt;
  return integerBits(value.integer, type);
}

void checkNumber(const Json &value, const std::string &path) {
  if (!isNumber(value))
    fail(path + " must be a number, \"inf\" or \"-inf\"");
}

} // namespace

Fill::Fill(const Json &json, const std::string &path) : json(json), path(path) {
  if (!json.isObject())
    checkNumber(json, path);
  else if (json.members.empty())
    fail(path + " is empty");
  for (const auto &[state, value] : json.members)
    checkNumber(value, pathOf(path, state));
}

/// Its states are of the tensor.
void Fill::checkStates(const TensorDecl &tensor) const {
  std::vector<std::string> names;
  for (const StateDecl &state : tensor.states)
    names.push_back(state.name);
  if (!json.isObject() && std::none_of(names.begin(), names.end(), hasValues))
    fail(path + " is of states \"param\" and \"master\", but tensor " +
         inQuotes(tensor.name) + " has neither: name a state");
  for (const auto &[state, value] : json.members)
    if (std::find(names.begin(), names.end(), state) == names.end())
      fail(pathOf(path, state) + " is of no state of tensor " +
           inQuotes(tensor.name));
}

/// The bits of a state that has a dtype.
uint64_t Fill::bitsOf(const TensorDecl &tensor, const std::string &state,
                      DType type) const {
  const Json *value = json.isObject()    ? json.find(state)
                      : hasValues(state) ? &json
                                         : nullptr;
  if (!value)
    return 0;
  auto bits = elementBits(*value, type);
  if (!bits)
    fail((json.isObject() ? pathOf(path, state) : path) + " is " +
         textOf(*value) + ", which is no " + dtypeName(type) + ", as state " +
         inQuotes(state) + " of tensor " + inQuotes(tensor.name) + " has");
  return *bits;
}

std::vector<uint64_t> Fill::bitsOf(const TensorDecl &tensor, Side side) const {
  checkStates(tensor);
  std::vector<uint64_t> out;
  for (const StateDecl &state : tensor.states) {
    std::optional<DType> type =
        side == Side::Source ? state.source : state.destination;
    out.push_back(type ? bitsOf(tensor, state.name, *type) : 0);
  }
  if (std::all_of(out.begin(), out.end(),
                  [](uint64_t bits) { return bits == 0; }))
    out.clear();
  return out;
}

} // namespace dt::request
