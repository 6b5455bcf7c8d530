//===- ConvertTest.cpp - Rounding, borders and what is no number ----------===//

#include "dtrt/core/Convert.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace dtrt;

namespace {

uint64_t bitsOf(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

uint64_t bitsOf(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

uint64_t toBF16(float value) {
  return convertBits(bitsOf(value), DType::F32, DType::BF16);
}

uint64_t toF16(float value) {
  return convertBits(bitsOf(value), DType::F32, DType::F16);
}

} // namespace

TEST(Convert, TiesGoToTheEvenNeighbour) {
  EXPECT_EQ(toBF16(1.0f), 0x3f80u);
  EXPECT_EQ(toBF16(1.0f + 0x1p-8f), 0x3f80u);            // half way, down
  EXPECT_EQ(toBF16(1.0f + 0x3p-8f), 0x3f82u);            // half way, up
  EXPECT_EQ(toBF16(1.0f + 0x1p-8f + 0x1p-20f), 0x3f81u); // just above
  EXPECT_EQ(toF16(1.0f + 0x1p-11f), 0x3c00u);
  EXPECT_EQ(toF16(1.0f + 0x3p-11f), 0x3c02u);
  EXPECT_EQ(toF16(-1.0f - 0x1.8p-11f), 0xbc01u);
}

TEST(Convert, TooLargeIsInfiniteTooSmallIsSubnormalOrZero) {
  EXPECT_EQ(toF16(65504.0f), 0x7bffu);
  EXPECT_EQ(toF16(65519.0f), 0x7bffu);
  EXPECT_EQ(toF16(65520.0f), 0x7c00u);
  EXPECT_EQ(toF16(-1e30f), 0xfc00u);
  EXPECT_EQ(toF16(0x1p-24f), 0x0001u);
  EXPECT_EQ(toF16(0x1p-25f), 0x0000u); // half way to zero: even
  EXPECT_EQ(toF16(0x1.01p-25f), 0x0001u);
  EXPECT_EQ(toF16(-0x1p-26f), 0x8000u);
  EXPECT_EQ(toF16(0x1.ffcp-15f), 0x0400u); // rounds up to a normal number
  EXPECT_EQ(toBF16(3.4e38f), 0x7f80u);
  EXPECT_EQ(toBF16(0x1p-149f), 0x0000u);
}

TEST(Convert, NoNumberStaysNoNumber) {
  for (DType to : {DType::F64, DType::F16, DType::BF16}) {
    uint64_t quiet = convertBits(0x7fc00000, DType::F32, to);
    uint64_t lowPayload = convertBits(0x7f800001, DType::F32, to);
    for (uint64_t bits : {quiet, lowPayload}) {
      uint64_t wide = convertBits(bits, to, DType::F64);
      double value;
      memcpy(&value, &wide, sizeof(value));
      EXPECT_TRUE(std::isnan(value)) << dtypeName(to) << " " << bits;
    }
  }
}

TEST(Convert, WideningIsExactForEveryValue) {
  for (DType narrow : {DType::F16, DType::BF16})
    for (DType wide : {DType::F32, DType::F64})
      for (uint64_t bits = 0; bits < 0x10000; ++bits) {
        uint64_t there = convertBits(bits, narrow, wide);
        uint64_t infinite = narrow == DType::F16 ? 0x7c00 : 0x7f80;
        if ((bits & 0x7fff) > infinite)
          continue; // a NaN becomes quiet
        ASSERT_EQ(convertBits(there, wide, narrow), bits) << dtypeName(narrow);
      }
}

TEST(Convert, F64ToF32IsWhatTheMachineDoes) {
  uint64_t seed = 20240611;
  std::mt19937_64 random(seed);
  for (int i = 0; i < 200000; ++i) {
    uint64_t bits = random();
    if (i % 2) // near the range of f32
      bits = (bits & 0x800fffffffffffff) | (850 + bits % 350) << 52;
    double value;
    memcpy(&value, &bits, sizeof(value));
    if (std::isnan(value))
      continue;
    ASSERT_EQ(convertBits(bits, DType::F64, DType::F32), bitsOf(float(value)))
        << "seed " << seed << ", value " << value;
    ASSERT_EQ(convertBits(bitsOf(float(value)), DType::F32, DType::F64),
              bitsOf(double(float(value))));
  }
}

TEST(Convert, OtherTypesDoNotConvert) {
  EXPECT_EQ(converterFor(DType::I32, DType::F32), nullptr);
  EXPECT_EQ(converterFor(DType::F8E4M3, DType::BF16), nullptr);
  EXPECT_EQ(converterFor(DType::F32, DType::F32), nullptr);
}
