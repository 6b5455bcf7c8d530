//===- ReadBudgetTest.cpp - What a section may grow to --------------------===//

#include "ReadBudget.h"

#include <gtest/gtest.h>

using namespace dtrt;

namespace {
constexpr uint64_t kMiB = 1 << 20;
} // namespace

TEST(ReadBudget, GrowsWithTheSection) {
  // A small section gets thousands of times its size, and its share of 64 MiB.
  EXPECT_EQ(ReadBudget(1000, 1000, 1000000000).limit(),
            (16 + 4096) * 1000u + 67);
  EXPECT_EQ(ReadBudget(1000, 1000, 2000).limit(),
            (16 + 4096) * 1000u + 32 * kMiB);
  // No section gets more than 64 MiB beside 16 times its size.
  EXPECT_EQ(ReadBudget(kMiB, kMiB, kMiB).limit(), (16 + 64) * kMiB);
  EXPECT_EQ(ReadBudget(1024 * kMiB, 1024 * kMiB, 1024 * kMiB).limit(),
            (16 * 1024 + 64) * kMiB);
  EXPECT_EQ(ReadBudget(UINT64_MAX, UINT64_MAX, UINT64_MAX).limit(), UINT64_MAX);
}

TEST(ReadBudget, OfTheFileCountsWhatIsStored) {
  // Sections that decompress to more than the file have no larger a share.
  EXPECT_EQ(ReadBudget(1600, 100, 1000).limit(),
            (16 + 4096) * 1600u + uint64_t(0.1 * 64 * kMiB));
}

TEST(ReadBudget, AllSectionsTogetherGrowWithTheFile) {
  for (uint64_t sections : {1u, 10u, 1000u}) {
    uint64_t file = sections * 1000, sum = 0;
    for (uint64_t i = 0; i < sections; ++i)
      sum += ReadBudget(1000, 1000, file).limit();
    EXPECT_LE(sum, (16 + 4096) * file + 64 * kMiB);
  }
}

TEST(ReadBudget, NamesWhatIsTooMuch) {
  ReadBudget budget(100, 100, 1 << 30);
  uint64_t limit = budget.limit();
  EXPECT_TRUE(budget.charge("members", limit - 8, 1).ok());
  EXPECT_TRUE(budget.charge("rows", 1, 8).ok());
  EXPECT_EQ(budget.used(), limit);
  EXPECT_EQ(budget.charge("rows", 3, 1).message(),
            "3 rows make a section of 100 bytes unpack to more than " +
                std::to_string(limit) + " bytes, the limit");
}

TEST(ReadBudget, ProductsThatOverflowAreTooMuch) {
  ReadBudget budget(100, 100, 100);
  EXPECT_FALSE(budget.charge("members", uint64_t(1) << 61, 8).ok());
  EXPECT_FALSE(budget.charge("members", UINT64_MAX, UINT64_MAX).ok());
  EXPECT_EQ(budget.used(), 0u);
}
