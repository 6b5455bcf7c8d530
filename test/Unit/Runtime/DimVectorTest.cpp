//===- DimVectorTest.cpp - A number per dim, as a vector has them ---------===//
//
// Does to a DimVector and to a std::vector the same, few numbers and many, and
// compares them.
//
//===----------------------------------------------------------------------===//

#include "dtrt/types/DimVector.h"

#include <gtest/gtest.h>

#include <random>

using namespace dtrt;

namespace {

std::vector<int64_t> listOf(const DimVector &dims) {
  return {dims.begin(), dims.end()};
}

/// The numbers 1, 2, 3, ...
std::vector<int64_t> counting(size_t count) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < count; ++i)
    out.push_back(int64_t(i) + 1);
  return out;
}

TEST(DimVector, CopiesAndMovesWhatItHolds) {
  for (size_t count = 0; count <= 40; ++count)
    for (size_t other = 0; other <= 40; other += 3) {
      DimVector from = counting(count), copied = counting(other);
      copied = from;
      EXPECT_EQ(listOf(copied), counting(count));
      DimVector moved = counting(other);
      moved = std::move(from);
      EXPECT_EQ(listOf(moved), counting(count));
      DimVector taken = std::move(moved);
      EXPECT_EQ(listOf(taken), counting(count));
      from = copied;
      moved = DimVector(copied);
      EXPECT_EQ(from, moved);
    }
}

TEST(DimVector, IsWhatAVectorIs) {
  std::mt19937_64 rng(1);
  DimVector dims;
  std::vector<int64_t> list;
  for (int step = 0; step < 20000; ++step) {
    size_t count = rng() % 40;
    switch (rng() % 6) {
    case 0:
      dims.resize(count, step);
      list.resize(count, step);
      break;
    case 1:
      dims.clear();
      list.clear();
      break;
    case 2:
      list = counting(count);
      dims.assign(list.begin(), list.end());
      break;
    case 3:
      if (!list.empty())
        list[count % list.size()] = dims[count % list.size()] = step;
      break;
    default:
      dims.push_back(step);
      list.push_back(step);
      EXPECT_EQ(dims.back(), step);
    }
    ASSERT_EQ(listOf(dims), list);
    EXPECT_EQ(dims.size(), list.size());
    EXPECT_EQ(dims.empty(), list.empty());
  }
}

TEST(DimVector, ComparesAsAVectorDoes) {
  std::mt19937_64 rng(2);
  auto draw = [&] {
    std::vector<int64_t> out(rng() % 7);
    for (int64_t &number : out)
      number = int64_t(rng() % 2);
    return out;
  };
  for (int step = 0; step < 5000; ++step) {
    std::vector<int64_t> a = draw(), b = draw();
    EXPECT_EQ(DimVector(a) == DimVector(b), a == b);
    EXPECT_EQ(DimVector(a) != DimVector(b), a != b);
    EXPECT_EQ(DimVector(a) < DimVector(b), a < b);
  }
}

} // namespace
