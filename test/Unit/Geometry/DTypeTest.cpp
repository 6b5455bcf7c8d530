// Spellings of element types.

#include "dt/Geometry/DType.h"

#include <gtest/gtest.h>

using namespace dt;

namespace {

TEST(DTypeTest, everyNameIsRead) {
  for (int i = 0; i <= int(DType::Bool); ++i) {
    DType type = DType(i);
    EXPECT_EQ(parseDType(dtypeName(type)), type) << dtypeName(type);
  }
}

TEST(DTypeTest, readsOtherSpellings) {
  EXPECT_EQ(parseDType("BF16"), DType::BF16);
  EXPECT_EQ(parseDType("bfloat16"), DType::BF16);
  EXPECT_EQ(parseDType("torch.float32"), DType::F32);
  EXPECT_EQ(parseDType("f8_e4m3fn"), DType::F8E4M3);
  EXPECT_EQ(parseDType("F8_E4M3"), DType::F8E4M3);
  EXPECT_EQ(parseDType("torch.float8_e8m0fnu"), DType::F8E8M0);
  EXPECT_EQ(parseDType("long"), DType::I64);
  EXPECT_EQ(parseDType("uint8"), DType::U8);
  EXPECT_EQ(parseDType("BOOL"), DType::Bool);
}

TEST(DTypeTest, roundsAlikeWhereTheSameTypesDropBits) {
  DType f64 = DType::F64, f32 = DType::F32, f16 = DType::F16,
        bf16 = DType::BF16;
  EXPECT_TRUE(roundAlike(f32, f32, bf16, bf16));
  EXPECT_TRUE(roundAlike(f32, f64, bf16, bf16)); // widened on the way
  EXPECT_TRUE(roundAlike(f32, bf16, bf16, bf16));
  EXPECT_TRUE(roundAlike(f32, f32, f32, bf16));
  EXPECT_TRUE(roundAlike(f32, bf16, bf16, f32));
  EXPECT_FALSE(roundAlike(f32, f32, bf16, f32)); // what bf16 lost is back
  EXPECT_FALSE(roundAlike(f32, f16, bf16, bf16));
  EXPECT_FALSE(roundAlike(f64, f32, bf16, bf16)); // rounded twice
  EXPECT_FALSE(roundAlike(f32, f32, bf16, f16));
}

TEST(DTypeTest, refusesWhatItDoesNotKnow) {
  EXPECT_EQ(parseDType(""), std::nullopt);
  EXPECT_EQ(parseDType("torch."), std::nullopt);
  EXPECT_EQ(parseDType("f4"), std::nullopt);
}

TEST(DTypeTest, hasByteWidths) {
  EXPECT_EQ(byteWidth(DType::F64), 8);
  EXPECT_EQ(byteWidth(DType::F32), 4);
  EXPECT_EQ(byteWidth(DType::BF16), 2);
  EXPECT_EQ(byteWidth(DType::F8E5M2FNUZ), 1);
  EXPECT_EQ(byteWidth(DType::Bool), 1);
}

} // namespace
