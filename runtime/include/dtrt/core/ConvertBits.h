//===- ConvertBits.h - One float as another, on CPUs and GPUs ---*- C++ -*-===//
//
// The arithmetic behind Convert.h, on the bits of one element; compiled for
// both sides, so that both give the same bytes.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_CORE_CONVERTBITS_H
#define DTRT_CORE_CONVERTBITS_H

#include "dtrt/format/PlanModel.h"

#ifdef __CUDACC__
#define DTRT_HOST_DEVICE __host__ __device__
#else
#define DTRT_HOST_DEVICE
#endif

namespace dtrt::floats {

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
template <typename From> DTRT_HOST_DEVICE uint64_t widen(uint64_t bits) {
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

template <> DTRT_HOST_DEVICE inline uint64_t widen<F64>(uint64_t bits) {
  return bits;
}

/// The nearest value of a narrower format; of two equally near, the even one.
template <typename To> DTRT_HOST_DEVICE uint64_t narrow(uint64_t bits) {
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
    shift = shift + (least - power) < 63 ? int(shift + (least - power)) : 63;
  uint64_t whole = mantissa | uint64_t(exponent != 0) << F64::kMantissa;
  uint64_t result = whole >> shift;
  uint64_t rest = whole & ((uint64_t(1) << shift) - 1);
  uint64_t half = uint64_t(1) << (shift - 1);
  result += rest > half || (rest == half && (result & 1));
  // The hidden bit of a normal number, and a carry out of the mantissa, count
  // the exponent up by one.
  if (power >= least)
    result += uint64_t(power - least) << To::kMantissa;
  return sign | (result < infinite ? result : infinite);
}

template <> DTRT_HOST_DEVICE inline uint64_t narrow<F64>(uint64_t bits) {
  return bits;
}

template <typename From, typename To>
DTRT_HOST_DEVICE uint64_t convert(uint64_t bits) {
  return narrow<To>(widen<From>(bits));
}

/// The pair that trainers use all the time: the low half rounds away.
template <> DTRT_HOST_DEVICE inline uint64_t convert<F32, BF16>(uint64_t bits) {
  if ((bits & 0x7fffffff) > 0x7f800000) // NaN
    return (bits >> 16) | 0x40;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
template <> DTRT_HOST_DEVICE inline uint64_t convert<BF16, F32>(uint64_t bits) {
  return bits << 16;
}

DTRT_HOST_DEVICE inline uint64_t widenFrom(DType from, uint64_t bits) {
  switch (from) {
  case DType::F32:
    return widen<F32>(bits);
  case DType::F16:
    return widen<F16>(bits);
  case DType::BF16:
    return widen<BF16>(bits);
  default:
    return bits;
  }
}

/// One element of any two of f64, f32, f16 and bf16, in the low bits.
DTRT_HOST_DEVICE inline uint64_t convertElement(uint64_t bits, DType from,
                                                DType to) {
  if (from == DType::F32 && to == DType::BF16)
    return convert<F32, BF16>(bits);
  if (from == DType::BF16 && to == DType::F32)
    return convert<BF16, F32>(bits);
  uint64_t wide = widenFrom(from, bits);
  switch (to) {
  case DType::F32:
    return narrow<F32>(wide);
  case DType::F16:
    return narrow<F16>(wide);
  case DType::BF16:
    return narrow<BF16>(wide);
  default:
    return wide;
  }
}

} // namespace dtrt::floats

#endif // DTRT_CORE_CONVERTBITS_H
