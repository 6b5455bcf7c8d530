//===- Convert.cpp - Values of one dtype as another -----------------------===//

#include "dtrt/Convert.h"

#include <algorithm>
#include <cstring>

namespace dtrt {

namespace {

/// An IEEE 754 format: a sign, exponent bits, mantissa bits.
template <typename Word, int Exponent, int Mantissa> struct Format {
  using Bits = Word;
  static constexpr int kExponent = Exponent, kMantissa = Mantissa;
  static constexpr int kBias = (1 << (Exponent - 1)) - 1;
  static constexpr uint64_t kExponentMask = (uint64_t(1) << Exponent) - 1;
  static constexpr uint64_t kMantissaMask = (uint64_t(1) << Mantissa) - 1;
};
using F64 = Format<uint64_t, 11, 52>;
using F32 = Format<uint32_t, 8, 23>;
using F16 = Format<uint16_t, 5, 10>;
using BF16 = Format<uint16_t, 8, 7>;

/// Any value of the four formats, exactly: as the bits of an f64.
template <typename From> uint64_t widen(uint64_t bits) {
  uint64_t sign = bits >> (From::kExponent + From::kMantissa) << 63;
  uint64_t exponent = bits >> From::kMantissa & From::kExponentMask;
  uint64_t mantissa = bits & From::kMantissaMask;
  constexpr int shift = F64::kMantissa - From::kMantissa;
  if (exponent == From::kExponentMask)
    return sign | F64::kExponentMask << F64::kMantissa | mantissa << shift;
  if (exponent == 0 && mantissa == 0)
    return sign;
  int64_t power = int64_t(exponent) - From::kBias;
  if (exponent == 0) { // subnormal: shift until the hidden bit stands
    power = 1 - From::kBias;
    while (!(mantissa >> From::kMantissa)) {
      mantissa <<= 1;
      --power;
    }
    mantissa &= From::kMantissaMask;
  }
  return sign | uint64_t(power + F64::kBias) << F64::kMantissa |
         mantissa << shift;
}

template <> uint64_t widen<F64>(uint64_t bits) { return bits; }

/// The nearest value of a narrower format; of two equally near, the even one.
template <typename To> uint64_t narrow(uint64_t bits) {
  uint64_t sign = bits >> 63 << (To::kExponent + To::kMantissa);
  uint64_t exponent = bits >> F64::kMantissa & F64::kExponentMask;
  uint64_t mantissa = bits & F64::kMantissaMask;
  constexpr uint64_t infinite = To::kExponentMask << To::kMantissa;
  int shift = F64::kMantissa - To::kMantissa;
  if (exponent == F64::kExponentMask) {
    if (mantissa == 0)
      return sign | infinite;
    uint64_t quiet = uint64_t(1) << (To::kMantissa - 1);
    return sign | infinite | quiet | mantissa >> shift;
  }
  int64_t power = int64_t(exponent) - F64::kBias;
  constexpr int64_t least = 1 - To::kBias; // of normal numbers
  if (power < least)
    shift = int(std::min<int64_t>(63, shift + (least - power)));
  uint64_t whole = mantissa | uint64_t(exponent != 0) << F64::kMantissa;
  uint64_t result = whole >> shift;
  uint64_t rest = whole & ((uint64_t(1) << shift) - 1);
  uint64_t half = uint64_t(1) << (shift - 1);
  result += rest > half || (rest == half && (result & 1));
  // The hidden bit of a normal number, and a carry out of the mantissa, count
  // the exponent up by one.
  if (power >= least)
    result += uint64_t(power - least) << To::kMantissa;
  return sign | std::min(result, infinite);
}

template <> uint64_t narrow<F64>(uint64_t bits) { return bits; }

template <typename From, typename To> uint64_t convert(uint64_t bits) {
  return narrow<To>(widen<From>(bits));
}

/// The pair that trainers use all the time: the low half rounds away.
template <> uint64_t convert<F32, BF16>(uint64_t bits) {
  if ((bits & 0x7fffffff) > 0x7f800000) // NaN
    return (bits >> 16) | 0x40;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
template <> uint64_t convert<BF16, F32>(uint64_t bits) { return bits << 16; }

template <typename From, typename To>
void convertRun(std::byte *to, const std::byte *from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    typename From::Bits in;
    memcpy(&in, from + i * int64_t(sizeof(in)), sizeof(in));
    auto out = typename To::Bits(convert<From, To>(in));
    memcpy(to + i * int64_t(sizeof(out)), &out, sizeof(out));
  }
}

template <typename From> ConvertRun converterFrom(DType to) {
  switch (to) {
  case DType::F64:
    return convertRun<From, F64>;
  case DType::F32:
    return convertRun<From, F32>;
  case DType::F16:
    return convertRun<From, F16>;
  case DType::BF16:
    return convertRun<From, BF16>;
  default:
    return nullptr;
  }
}

} // namespace

ConvertRun converterFor(DType from, DType to) {
  if (from == to || !canConvert(from, to))
    return nullptr;
  switch (from) {
  case DType::F64:
    return converterFrom<F64>(to);
  case DType::F32:
    return converterFrom<F32>(to);
  case DType::F16:
    return converterFrom<F16>(to);
  default:
    return converterFrom<BF16>(to);
  }
}

uint64_t convertBits(uint64_t bits, DType from, DType to) {
  ConvertRun convert = converterFor(from, to);
  if (!convert)
    return bits;
  // Little-endian, as the plan file: the low bytes are the element.
  std::byte in[8], out[8] = {};
  memcpy(in, &bits, sizeof(bits));
  convert(out, in, 1);
  memcpy(&bits, out, sizeof(bits));
  return bits;
}

} // namespace dtrt
