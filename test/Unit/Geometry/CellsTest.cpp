// Overlays, joins and holes against a map from element to holders.

#include "dt/Geometry/Cells.h"

#include "RandomGeometry.h"

#include <algorithm>
#include <map>

using namespace dt;
using namespace dt::test;

namespace {

using Owners = std::map<Point, std::set<int64_t>>;

Holding holdingOf(const Box &box, std::vector<int64_t> devices) {
  Shard shard;
  for (unsigned dim = 0; dim < box.rank(); ++dim)
    shard.dims.push_back({box[dim]});
  return {shard, devices};
}

Owners ownersOf(const CellSet &set) {
  Owners owners;
  for (const Cell &cell : set.cells) {
    const std::vector<int64_t> &devices = set.ownerSets[cell.owners];
    EXPECT_TRUE(std::is_sorted(devices.begin(), devices.end()));
    forEachPoint(cell.box, [&](const Point &point) {
      auto [entry, isNew] = owners.emplace(
          point, std::set<int64_t>(devices.begin(), devices.end()));
      EXPECT_TRUE(isNew) << "cells overlap at " << toString(cell.box);
    });
  }
  return owners;
}

Owners ownersOf(const std::vector<Holding> &holdings, const Shape &shape) {
  Owners owners;
  for (const Holding &holding : holdings)
    for (const Box &box : regions(holding.shard, shape))
      forEachPoint(box, [&](const Point &point) {
        owners[point].insert(holding.devices.begin(), holding.devices.end());
      });
  return owners;
}

bool areSorted(const std::vector<Cell> &cells) {
  return std::is_sorted(
      cells.begin(), cells.end(),
      [](const Cell &a, const Cell &b) { return a.box < b.box; });
}

/// Random disjoint cells: a random part of a random overlay.
std::vector<Cell> randomCells(Random &random, const Shape &shape, int count) {
  std::vector<Holding> holdings;
  for (int i = 0; i < count; ++i)
    holdings.push_back(holdingOf(random.box(shape), {i}));
  std::vector<Cell> cells;
  for (const Cell &cell : overlay(holdings, shape).cells)
    if (random.chance(90))
      cells.push_back(cell);
  return cells;
}

TEST(CellsTest, replicasShareACell) {
  CellSet set = overlay({holdingOf(Box::whole({4, 4}), {0}),
                         holdingOf(Box::whole({4, 4}), {3, 5})},
                        {4, 4});
  ASSERT_EQ(set.cells.size(), 1u);
  EXPECT_EQ(set.ownerSets, (std::vector<std::vector<int64_t>>{{0, 3, 5}}));
}

TEST(CellsTest, disjointHoldingsAreNotCut) {
  std::vector<Holding> holdings;
  for (int64_t i = 0; i < 100; ++i) {
    Holding holding = holdingOf(Box::whole({100, 7}), {i});
    holding.shard.range = Interval{7 * i + i % 5, 7 * i + 7 + (i + 1) % 5};
    holding.shard.range->hi = std::min<int64_t>(700, holding.shard.range->hi);
    holdings.push_back(holding);
  }
  size_t numRegions = 0;
  for (const Holding &holding : holdings)
    numRegions += regions(holding.shard, {100, 7}).size();
  EXPECT_EQ(overlay(holdings, {100, 7}).cells.size(), numRegions);
}

TEST(CellsTest, aBoxInsideAnotherIsCutOut) {
  CellSet set = overlay({holdingOf(Box::whole({9, 9}), {0}),
                         holdingOf(Box::fromOffsetSize({3, 3}, {3, 3}), {1})},
                        {9, 9});
  EXPECT_EQ(set.cells.size(), 5u);
  EXPECT_EQ(set.ownerSets.size(), 2u);
}

TEST(CellsTest, paddingIsNoCell) {
  CellSet set = overlay({holdingOf(Box::whole({6}), {0})}, {4});
  ASSERT_EQ(set.cells.size(), 1u);
  EXPECT_EQ(set.cells[0].box, Box::whole({4}));
}

TEST(CellsTest, overlaysAsSetsDo) {
  Random random;
  for (int round = 0; round < 100; ++round) {
    Shape shape = random.shape(random.number(1, 3), 8);
    std::vector<Holding> holdings;
    for (int64_t i = 0, n = random.number(1, 12); i < n; ++i) {
      Holding holding = holdingOf(random.box(shape), {i});
      if (random.chance(30)) {
        int64_t size = holding.shard.elementsPerMember();
        int64_t lo = random.number(0, size - 1);
        holding.shard.range = Interval{lo, random.number(lo, size)};
      }
      holdings.push_back(holding);
      if (random.chance(20))
        holdings.push_back({holding.shard, {100 + i}});
    }
    CellSet set = overlay(holdings, shape);
    EXPECT_TRUE(areSorted(set.cells));
    EXPECT_EQ(ownersOf(set), ownersOf(holdings, shape));
    std::set<std::vector<int64_t>> distinct(set.ownerSets.begin(),
                                            set.ownerSets.end());
    EXPECT_EQ(distinct.size(), set.ownerSets.size());
  }
}

TEST(CellsTest, overlaysManySmallBoxes) {
  Random random;
  Shape shape = {3, 60, 60};
  std::vector<Holding> holdings;
  for (int64_t i = 0; i < 3000; ++i) {
    Box box = random.box(shape);
    for (unsigned dim = 1; dim < 3; ++dim)
      box[dim].hi = std::min(box[dim].hi, box[dim].lo + 4);
    holdings.push_back(holdingOf(box, {i % 7}));
  }
  EXPECT_EQ(ownersOf(overlay(holdings, shape)), ownersOf(holdings, shape));
}

void expectJoined(const std::vector<Cell> &a, const std::vector<Cell> &b) {
  std::vector<CellPair> pairs = join(a, b);
  std::set<std::pair<uint32_t, uint32_t>> found, expected;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const CellPair &pair = pairs[i];
    EXPECT_EQ(pair.box, intersect(a[pair.left].box, b[pair.right].box));
    EXPECT_TRUE(found.emplace(pair.left, pair.right).second);
    EXPECT_TRUE(i == 0 || pairs[i - 1].box < pair.box);
  }
  for (uint32_t i = 0; i < a.size(); ++i)
    for (uint32_t j = 0; j < b.size(); ++j)
      if (overlaps(a[i].box, b[j].box))
        expected.emplace(i, j);
  EXPECT_EQ(found, expected);
}

TEST(CellsTest, joinsAllThatMeet) {
  Random random;
  for (int round = 0; round < 50; ++round) {
    Shape shape = random.shape(random.number(1, 3), 60);
    expectJoined(randomCells(random, shape, random.number(1, 20)),
                 randomCells(random, shape, random.number(1, 20)));
  }
}

TEST(CellsTest, joinsRowsWithColumns) {
  std::vector<Cell> rows, columns;
  for (int64_t i = 0; i < 200; ++i) {
    rows.push_back({Box::fromOffsetSize({i, 0}, {1, 200}), 0});
    columns.push_back({Box::fromOffsetSize({0, i}, {200, 1}), 0});
  }
  expectJoined(rows, columns);
  expectJoined(rows, rows);
  expectJoined({{Box::whole({200, 200}), 0}}, columns);
  expectJoined({}, columns);
}

TEST(CellsTest, findsEveryHole) {
  Random random;
  for (int round = 0; round < 100; ++round) {
    Shape shape = random.shape(random.number(1, 3), 8);
    std::vector<Cell> cells = randomCells(random, shape, random.number(0, 10));
    Box box = random.box(shape);
    std::set<Point> expected = pointsOf(box);
    for (const Cell &cell : cells)
      for (const Point &point : pointsOf(cell.box))
        expected.erase(point);
    EXPECT_EQ(pointsOf(uncovered(box, cells)), expected);
  }
}

// What cells that meet leave out is not promised, but it is no more than there
// is, and the search for it ends.
TEST(CellsTest, findsHolesBesideCellsThatMeet) {
  Random random;
  for (int round = 0; round < 200; ++round) {
    Shape shape = random.shape(random.number(1, 3), 8);
    std::vector<Cell> cells;
    for (int64_t i = random.number(2, 8); i > 0; --i)
      cells.push_back({random.box(shape), 0});
    cells.push_back(cells.front());
    Box box = random.box(shape);
    std::set<Point> expected = pointsOf(box);
    for (const Cell &cell : cells)
      for (const Point &point : pointsOf(cell.box))
        expected.erase(point);
    for (const Point &point : pointsOf(uncovered(box, cells)))
      EXPECT_TRUE(expected.count(point));
  }
  Box whole = Box::whole({4});
  EXPECT_TRUE(uncovered(whole, {{whole, 0}, {whole, 0}}).empty());
  EXPECT_FALSE(firstUncovered({{whole, 0}}, {{whole, 0}, {whole, 0}}));
}

TEST(CellsTest, scalarsAreCellsToo) {
  CellSet set = overlay({holdingOf(Box(), {2}), holdingOf(Box(), {1})}, {});
  ASSERT_EQ(set.cells.size(), 1u);
  EXPECT_EQ(set.ownerSets[0], (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(join(set.cells, set.cells).size(), 1u);
  EXPECT_TRUE(uncovered(Box(), set.cells).empty());
  EXPECT_EQ(uncovered(Box(), {}).size(), 1u);
}

TEST(CellsTest, aCellLiesInOneShardOfEachOwner) {
  // Device 0 holds rows [0:4) and [4:8) as two shards, device 1 all of them:
  // owners are the same everywhere, yet there are two cells.
  std::vector<HeldBox> rows = {
      {0, Box::fromOffsetSize({0}, {4}), std::nullopt},
      {0, Box::fromOffsetSize({4}, {4}), std::nullopt},
      {1, Box::fromOffsetSize({0}, {8}), std::nullopt}};
  CellSet set = overlay(holdingsOf(rows), {8});
  ASSERT_EQ(set.cells.size(), 2u);
  EXPECT_EQ(toString(set.cells[0].box), "[0:4)");
  EXPECT_EQ(set.ownerSets.size(), 1u);
}

} // namespace
