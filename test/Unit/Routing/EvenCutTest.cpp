//===- EvenCutTest.cpp - Parts of one size --------------------------------===//

#include "EvenCut.h"

#include "gtest/gtest.h"

#include <random>

using namespace dt;

namespace {

int64_t bytesOf(const FlowBoxes &boxes, const std::vector<int64_t> &widths) {
  int64_t bytes = 0;
  for (const FlowBox &item : boxes)
    bytes += item.box.volume() * widths[item.flow];
  return bytes;
}

FlowBox itemOf(uint32_t flow, Box box, uint32_t source = 0,
               uint32_t destination = 0) {
  return {flow, source, destination, std::move(box)};
}

} // namespace

TEST(EvenCut, ATensorOfOneDimIsCutToTheElement) {
  EvenCut cut({itemOf(0, Box::whole({100}))}, {2}, 8);
  int64_t at = 0;
  for (int64_t part = 0; part < 8; ++part) {
    FlowBoxes own = cut.run(part, part + 1);
    ASSERT_EQ(own.size(), 1u);
    EXPECT_EQ(own[0].box[0].lo, at);
    at = own[0].box[0].hi;
    EXPECT_NEAR(double(own[0].box.volume()), 12.5, 1);
  }
  EXPECT_EQ(at, 100);
  EXPECT_EQ(cut.run(0, 8).size(), 1u);
}

// Rows are too long for parts: they are cut too.
TEST(EvenCut, LongRowsAreCut) {
  EvenCut cut({itemOf(0, Box::whole({3, 1000}))}, {1}, 5);
  for (int64_t part = 0; part < 5; ++part)
    EXPECT_NEAR(double(bytesOf(cut.run(part, part + 1), {1})), 600, 2);
}

// Rows 0 and 1 lie in one shard of those who hold them, row 2 in another.
TEST(EvenCut, WhatLiesInTwoShardsIsNotOneBox) {
  Box first = Box::whole({3, 8}), second = first;
  first[0] = {0, 2};
  second[0] = {2, 3};
  EvenCut held({itemOf(0, first, 0), itemOf(0, second, 1)}, {1}, 3);
  EXPECT_EQ(held.run(0, 2).size(), 1u);
  EXPECT_EQ(held.run(0, 3).size(), 2u);
  EXPECT_EQ(joinedArrived(held.run(0, 3)).size(), 1u);
  EvenCut wanted({itemOf(0, first, 0, 0), itemOf(0, second, 0, 1)}, {1}, 3);
  EXPECT_EQ(joinedArrived(wanted.run(0, 3)).size(), 2u);
}

TEST(EvenCut, RandomBoxesAreCutOnceAndEvenly) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  auto number = [&](int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(random);
  };
  for (int trial = 0; trial < 300; ++trial) {
    FlowBoxes boxes;
    std::vector<int64_t> widths;
    for (int64_t i = number(1, 4); i > 0; --i) {
      boxes.push_back(itemOf(uint32_t(widths.size()),
                             Box::whole({number(1, 30), number(1, 30)})));
      widths.push_back(number(1, 6));
    }
    int64_t parts = number(1, 40), total = bytesOf(boxes, widths);
    EvenCut cut(boxes, widths, parts);
    std::vector<std::vector<Box>> seen(widths.size());
    for (int64_t part = 0; part < parts; ++part) {
      FlowBoxes own = cut.run(part, part + 1);
      int64_t bytes = bytesOf(own, widths);
      EXPECT_LE(double(bytes), 1.25 * double(total) / double(parts) + 12);
      for (const FlowBox &item : own) {
        for (const Box &other : seen[item.flow])
          EXPECT_FALSE(overlaps(item.box, other));
        seen[item.flow].push_back(item.box);
      }
    }
    FlowBoxes all = cut.run(0, parts);
    EXPECT_EQ(bytesOf(all, widths), total);
    EXPECT_EQ(all.size(), boxes.size());
  }
}
