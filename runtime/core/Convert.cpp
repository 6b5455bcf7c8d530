//===- Convert.cpp - Values of one dtype as another -----------------------===//

#include "dtrt/core/Convert.h"

#include "dtrt/core/ConvertBits.h"

#include <cstring>

namespace dtrt {

namespace {

using namespace floats;

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
