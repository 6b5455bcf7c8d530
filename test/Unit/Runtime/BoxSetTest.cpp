//===- BoxSetTest.cpp - Boxes that are written, against brute force -------===//

#include "BoxSet.h"
#include "RandomBoxes.h"

#include "gtest/gtest.h"

using namespace dtrt;
using namespace dtrt::test;

namespace {

Steps endless() { return Steps(UINT64_MAX); }

int64_t common(const TestBox &a, const TestBox &b) {
  int64_t volume = 1;
  for (size_t dim = 0; dim < a.size.size(); ++dim)
    volume *= std::max<int64_t>(
        0, std::min(a.offset[dim] + a.size[dim], b.offset[dim] + b.size[dim]) -
               std::max(a.offset[dim], b.offset[dim]));
  return volume;
}

/// How many elements of the box are in boxes [0, count).
int64_t heldBy(const std::vector<TestBox> &boxes, size_t count,
               const TestBox &box) {
  int64_t held = 0;
  for (size_t i = 0; i < count; ++i)
    held += common(boxes[i], box);
  return held;
}

bool holdsAll(const std::vector<TestBox> &boxes, size_t count,
              const TestBox &box) {
  return heldBy(boxes, count, box) == common(box, box);
}

const std::vector<int64_t> kShapes[] = {
    {500}, {40, 30}, {9, 17, 21}, {5, 1, 9, 8}};

} // namespace

TEST(BoxSet, CoversWhatItsBoxesHold) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  size_t yes = 0, no = 0;
  for (int round = 0; round < 20; ++round)
    for (const auto &shape : kShapes) {
      std::vector<TestBox> boxes = random.cutUp(shape, 300);
      BoxSet set;
      Steps steps = endless();
      for (size_t i = 0; i < boxes.size(); ++i) {
        set.add(boxes[i].offset, boxes[i].size, uint32_t(i));
        if (random.number(0, 2) == 0)
          continue; // some are asked for later, many new ones at once
        TestBox part = random.box(boxes[i].size);
        for (size_t dim = 0; dim < shape.size(); ++dim)
          part.offset[dim] += boxes[i].offset[dim];
        for (const TestBox &asked : {random.box(shape), boxes[i], part}) {
          bool held = holdsAll(boxes, i + 1, asked);
          ASSERT_EQ(set.covers(asked.offset, asked.size, steps), held);
          ++(held ? yes : no);
        }
      }
      TestBox whole = {std::vector<int64_t>(shape.size(), 0), shape};
      EXPECT_TRUE(set.covers(whole.offset, whole.size, steps));
      EXPECT_EQ(set.volume(), common(whole, whole));
    }
  EXPECT_GT(yes, 1000u);
  EXPECT_GT(no, 1000u);
}

// Of one element, whichever way it is asked for.
TEST(BoxSet, ScalarsAreCovered) {
  BoxSet set;
  Steps steps = endless();
  EXPECT_FALSE(set.covers({}, {}, steps));
  set.add({}, {}, 0);
  EXPECT_TRUE(set.covers({}, {}, steps));
}

// Rows are written, columns are read: each read touches every row. What is
// inside what is read counts as a whole.
TEST(BoxSet, CountsItsSteps) {
  constexpr int64_t kRows = 2000;
  BoxSet set;
  for (int64_t row = 0; row < kRows; ++row)
    set.add({row, 0}, {1, kRows}, uint32_t(row));
  Steps wide = endless();
  EXPECT_TRUE(set.covers({0, 0}, {kRows, kRows}, wide));
  Steps few(4 * kRows), none(kRows / 4);
  EXPECT_TRUE(set.covers({0, 7}, {kRows, 1}, few));
  EXPECT_FALSE(few.spent());
  EXPECT_FALSE(set.covers({0, 7}, {kRows, 1}, none));
  EXPECT_TRUE(none.spent());
  EXPECT_NE(none.status().message().find("takes more than 500 steps"),
            std::string::npos);
  Steps inside(100);
  EXPECT_TRUE(set.covers({0, 0}, {kRows, kRows}, inside));
  EXPECT_FALSE(inside.spent());
}

TEST(BoxStarts, FindsAllThatStartThere) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  const std::vector<int64_t> shape = {30, 40};
  BoxList list;
  BoxStarts starts;
  const int64_t nowhere[] = {0, 0};
  EXPECT_EQ(starts.first(nowhere, 2), BoxStarts::kNone);
  size_t others = 0;
  for (uint32_t count = 1; count <= 2000; ++count) {
    TestBox box = random.box(shape);
    list.add(box.offset, box.size);
    if (random.number(0, 2) > 0)
      continue; // several at once
    starts.grow(list);
    const int64_t *place = list.low(random.number(0, count - 1));
    std::vector<uint32_t> found, expected;
    for (uint32_t at = starts.first(place, 2); at != BoxStarts::kNone;
         at = starts.next(at))
      if (std::equal(place, place + 2, list.low(at)))
        found.insert(found.begin(), at);
      else
        ++others;
    for (uint32_t at = 0; at < count; ++at)
      if (std::equal(place, place + 2, list.low(at)))
        expected.push_back(at);
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_TRUE(
        std::is_permutation(found.begin(), found.end(), expected.begin()));
  }
  EXPECT_LT(others, 10000u); // of two million
}

// A damaged plan may write the same box any number of times.
TEST(BoxForest, CountsBoxesThatAreTheSame) {
  BoxList list;
  BoxForest forest;
  const int64_t lo[] = {2, 3}, hi[] = {4, 5}, outside[] = {9, 9};
  Steps steps = endless();
  for (int64_t count = 1; count <= 200; ++count) {
    list.add({2, 2}, {2, 2});
    forest.grow(list);
    ASSERT_EQ(forest.commonVolume(list, lo, hi, INT64_MAX, steps), 2 * count);
    ASSERT_EQ(forest.commonVolume(list, hi, outside, INT64_MAX, steps), 0);
  }
}

TEST(BoxForest, CountsWhatOverlaps) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  for (const auto &shape : kShapes) {
    std::vector<TestBox> boxes;
    BoxList list;
    BoxForest forest;
    Steps steps = endless();
    for (int i = 0; i < 1000; ++i) {
      boxes.push_back(random.box(shape));
      list.add(boxes.back().offset, boxes.back().size);
      if (random.number(0, 3) > 0)
        continue;
      TestBox asked = random.box(shape);
      std::vector<int64_t> end = asked.offset;
      for (size_t dim = 0; dim < end.size(); ++dim)
        end[dim] += asked.size[dim];
      forest.grow(list);
      ASSERT_EQ(forest.commonVolume(list, asked.offset.data(), end.data(),
                                    INT64_MAX, steps),
                heldBy(boxes, boxes.size(), asked));
    }
  }
}

TEST(BoxForest, SumsThatOverflowStayLarge) {
  BoxList list;
  BoxForest forest;
  const int64_t lo[] = {0}, hi[] = {int64_t(1) << 61};
  for (int count = 0; count < 64; ++count)
    list.add({0}, {int64_t(1) << 61});
  forest.grow(list);
  Steps steps = endless();
  EXPECT_EQ(forest.commonVolume(list, lo, hi, INT64_MAX, steps), INT64_MAX);
}
