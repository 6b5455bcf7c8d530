// What is searched in many boxes, and what stops searches and names.

#include "dt/Geometry/BoxTree.h"
#include "dt/Geometry/Cells.h"
#include "dt/Geometry/Names.h"
#include "dt/Geometry/Overlaps.h"
#include "dt/Geometry/ShardIndex.h"

#include "RandomGeometry.h"

#include <algorithm>

using namespace dt;
using namespace dt::test;

namespace {

std::vector<Box> randomBoxes(Random &random, const Shape &shape, int count) {
  std::vector<Box> boxes;
  for (int i = 0; i < count; ++i)
    boxes.push_back(random.box(shape));
  return boxes;
}

/// Disjoint boxes that fill a grid of cells.
std::vector<Box> grid(int64_t rows, int64_t columns) {
  std::vector<Box> boxes;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      boxes.push_back(Box::fromOffsetSize({2 * row, 3 * column}, {2, 3}));
  return boxes;
}

/// One or two intervals per dim, at times in another order, and a range of it.
Shard randomShard(Random &random) {
  Shard shard;
  shard.numLeading = 1;
  for (int dim = 0; dim < 3; ++dim) {
    int64_t lo = random.number(0, 3), hi = lo + random.number(1, 4);
    shard.dims.push_back({{lo, hi}});
    if (random.number(0, 3) == 0)
      shard.dims.back().push_back({hi + 1, hi + random.number(2, 4)});
  }
  if (random.number(0, 2) == 0)
    shard.order = *dtrt::Permutation::of({1, 0});
  if (random.number(0, 1) == 0) {
    int64_t all = shard.elementsPerMember(), lo = random.number(0, all - 1);
    shard.range = Interval{lo, random.number(lo + 1, all)};
  }
  return shard;
}

} // namespace

TEST(WorkLimit, CountsDownToItsEnd) {
  WorkLimit limit(3);
  EXPECT_TRUE(limit.take());
  EXPECT_TRUE(limit.take(2));
  EXPECT_FALSE(limit.isExceeded());
  EXPECT_FALSE(limit.take());
  EXPECT_FALSE(limit.take(0));
  EXPECT_TRUE(limit.isExceeded());
  WorkLimit large(3);
  EXPECT_FALSE(large.take(INT64_MAX));
  EXPECT_TRUE(large.isExceeded());
}

TEST(FirstOverlap, FindsOneExactlyIfThereIsOne) {
  Random random;
  for (int trial = 0; trial < 300; ++trial) {
    Shape shape = random.shape(unsigned(random.number(1, 3)), 12);
    std::vector<Box> boxes =
        randomBoxes(random, shape, int(random.number(0, 9)));
    bool meets = false;
    for (size_t i = 0; i < boxes.size(); ++i)
      for (size_t j = i + 1; j < boxes.size(); ++j)
        meets |= overlaps(boxes[i], boxes[j]);
    auto found = firstOverlap(boxes);
    ASSERT_EQ(found.has_value(), meets);
    if (found) {
      EXPECT_LT(found->first, found->second);
      EXPECT_TRUE(overlaps(boxes[found->first], boxes[found->second]));
    }
  }
}

TEST(FirstOverlap, OfScalars) {
  EXPECT_FALSE(firstOverlap(std::vector<Box>{Box(0)}));
  EXPECT_TRUE(firstOverlap(std::vector<Box>{Box(0), Box(0)}));
}

TEST(FirstOverlap, IsFoundAmongMany) {
  std::vector<Box> boxes = grid(200, 200);
  EXPECT_FALSE(firstOverlap(boxes));
  boxes.push_back(Box::fromOffsetSize({201, 300}, {1, 1}));
  auto found = firstOverlap(boxes);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->second, boxes.size() - 1);
  EXPECT_EQ(found->first, 100u * 200 + 100);
}

TEST(OverlappingPairs, StopAtTheirLimit) {
  std::vector<Box> same(100, Box::whole({4, 4}));
  WorkLimit enough(10000), tooFew(9999);
  EXPECT_EQ(overlappingPairs(same, same, &enough).size(), 10000u);
  EXPECT_FALSE(enough.isExceeded());
  EXPECT_LE(overlappingPairs(same, same, &tooFew).size(), 9999u);
  EXPECT_TRUE(tooFew.isExceeded());
}

TEST(Uncovered, TheFirstHoleIsOne) {
  Random random;
  for (int trial = 0; trial < 300; ++trial) {
    // Disjoint cells, of which some are taken away.
    std::vector<Cell> wanted, cells;
    for (const Box &box : grid(3, 2)) {
      wanted.push_back({box, 0});
      if (random.chance(80))
        cells.push_back({box, 0});
    }
    auto hole = firstUncovered(wanted, cells);
    ASSERT_EQ(hole.has_value(), cells.size() < wanted.size());
    for (const Cell &cell : cells)
      EXPECT_FALSE(hole && overlaps(*hole, cell.box));
  }
}

TEST(BoxTree, FindsWhatContainsABox) {
  Random random;
  for (int trial = 0; trial < 100; ++trial) {
    Shape shape = random.shape(unsigned(random.number(1, 3)), 20);
    std::vector<Box> boxes =
        randomBoxes(random, shape, int(random.number(0, 200)));
    BoxTree tree(boxes);
    for (int query = 0; query < 20; ++query) {
      Box box = random.box(shape);
      std::vector<uint32_t> found, expected;
      tree.forEachContaining(box, [&](uint32_t i) { found.push_back(i); });
      for (uint32_t i = 0; i < boxes.size(); ++i)
        if (boxes[i].contains(box))
          expected.push_back(i);
      std::sort(found.begin(), found.end());
      ASSERT_EQ(found, expected);
    }
  }
}

TEST(ShardIndex, KnowsDevicesOfAnyNumberAndNoOther) {
  constexpr int64_t kFar = int64_t(1) << 40;
  Box box = Box::fromOffsetSize({0, 0}, {2, 3});
  std::vector<Holding> holdings =
      holdingsOf({{kFar, box, std::nullopt}, {5, box, std::nullopt}});
  ShardIndex index;
  index.add(0, holdings);
  EXPECT_EQ(index.devices(), (std::vector<int64_t>{5, kFar}));
  for (int64_t device : index.devices())
    EXPECT_TRUE(index.findNumber(0, device, box));
  for (int64_t device : {int64_t(-1), int64_t(4), int64_t(6), kFar + 1}) {
    EXPECT_TRUE(index.shardsOf(device).empty());
    EXPECT_FALSE(index.findNumber(0, device, box));
  }
}

// Many shards of a device are found by a tree, few one after the other.
TEST(ShardIndex, FindsTheSameAmongFewAndMany) {
  for (int64_t rows : {2, 40}) {
    std::vector<HeldBox> held;
    for (const Box &box : grid(rows, 3))
      held.push_back({7, box, std::nullopt});
    std::vector<Holding> holdings = holdingsOf(held);
    ShardIndex index;
    index.add(0, holdings);
    ASSERT_EQ(index.numbersOf(0, 7).size(), held.size());
    EXPECT_TRUE(index.numbersOf(1, 7).empty());
    EXPECT_TRUE(index.numbersOf(0, 8).empty());
    for (uint32_t i = 0; i < held.size(); ++i) {
      Box part = held[i].box;
      part[1].hi -= 1;
      auto found = index.find(0, 7, part);
      ASSERT_TRUE(found);
      EXPECT_EQ(found->shard, *index.findNumber(0, 7, part));
      EXPECT_EQ(found->view.sizes, (std::vector<int64_t>{2, 2}));
      auto span = localSpan(*index.shardsOf(7)[found->shard].shard, part);
      ASSERT_TRUE(span);
      EXPECT_EQ(span->lo, found->view.offset);
      EXPECT_EQ(span->size(), found->view.strides[0] + 2);
      EXPECT_EQ(index.shardsOf(7)[found->shard].shard->dims[0].front(),
                held[i].box[0]);
    }
    EXPECT_FALSE(index.find(0, 7, Box::fromOffsetSize({1, 0}, {2, 1})));
    EXPECT_FALSE(index.find(0, 8, held[0].box));
    EXPECT_FALSE(index.findNumber(0, 7, Box::fromOffsetSize({1, 0}, {2, 1})));
  }
}

TEST(ShardIndex, HoldsWhatItsShardsHold) {
  Random random;
  int numHeld = 0;
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<Holding> holdings;
    for (int64_t count = random.number(1, 20); count > 0; --count)
      holdings.push_back({randomShard(random), {7}});
    ShardIndex index;
    index.add(0, holdings);
    for (int query = 0; query < 30; ++query) {
      Box box(3);
      for (unsigned dim = 0; dim < 3; ++dim) {
        box[dim].lo = random.number(0, 8);
        box[dim].hi = box[dim].lo + random.number(0, 3);
      }
      std::optional<uint32_t> expected;
      for (uint32_t i = 0; i < holdings.size() && !expected; ++i)
        if (holds(holdings[i].shard, box))
          expected = i;
      numHeld += expected.has_value();
      ASSERT_EQ(index.findNumber(0, 7, box), expected) << toString(box);
    }
  }
  EXPECT_GT(numHeld, 100);
}

TEST(Names, OfTensorsAndFamilies) {
  for (const char *name : {"w", "layers.0 w", "poids_\u00e9", "{", "a}{b"})
    EXPECT_EQ(problemOfName(name), "") << name;
  EXPECT_EQ(problemOfName("l.{}.w{}", 2), "");
  EXPECT_EQ(problemOfName(""), "is empty");
  EXPECT_EQ(problemOfName(std::string(1025, 'x')),
            "has 1025 bytes, more than the limit of 1024");
  EXPECT_EQ(problemOfName("w\n"), "has a control character at byte 1");
  EXPECT_EQ(problemOfName(std::string_view("w\0", 2)),
            "has a control character at byte 1");
  EXPECT_EQ(problemOfName("w{}"),
            "has \"{}\", which stands for a number in the names of a plan");
  EXPECT_EQ(problemOfName("l.{}.w", 2),
            "has 1 \"{}\", expected one for each of 2 numbers");
}

// Longer than they need be, cut short, surrogates, beyond U+10FFFF.
TEST(Names, AreUtf8) {
  for (const char *name :
       {"w\xff", "w\xc0\xaf", "w\xe0\x80\xaf", "w\xc3", "w\xed\xa0\x80",
        "w\xf4\x90\x80\x80", "w\x80", "w\xf5\x80\x80\x80"})
    EXPECT_EQ(problemOfName(name), "is no UTF-8 at byte 1") << name;
  for (const char *name : {"\xc2\x80", "\xe0\xa0\x80", "\xed\x9f\xbf",
                           "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_EQ(problemOfName(name), "") << name;
}

TEST(Names, AreShortenedBetweenCharacters) {
  EXPECT_EQ(shorten("abc", 3), "abc");
  EXPECT_EQ(shorten("abcd", 3), "abc...");
  EXPECT_EQ(shorten("ab\u00e9d", 3), "ab...");
}
