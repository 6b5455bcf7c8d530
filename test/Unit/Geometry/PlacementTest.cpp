// Placements against a simulation that moves single coordinates.

#include "dt/Geometry/Placement.h"

#include "RandomGeometry.h"

#include <algorithm>
#include <map>

using namespace dt;
using namespace dt::test;

namespace {

//===----------------------------------------------------------------------===//
// The simulation: lists of coordinates instead of intervals
//===----------------------------------------------------------------------===//

using Coords = std::vector<int64_t>;

/// What `coordinate` keeps of one part.
Coords simulatePart(const Split &split, const Coords &part, int64_t axisSize,
                    int64_t coordinate) {
  int64_t extent = part.size();
  Coords kept;
  for (int64_t i = 0; i < extent; ++i) {
    int64_t piece = 0;
    if (!split.cuts.empty())
      while (i >= split.cuts[piece + 1])
        ++piece;
    else
      piece = i / ((extent + axisSize - 1) / axisSize);
    int64_t owner = split.owners.empty() ? piece : split.owners[piece];
    if (owner == coordinate)
      kept.push_back(part[i]);
  }
  return kept;
}

Coords simulateSplit(const Split &split, const Coords &local, int64_t axisSize,
                     int64_t coordinate) {
  if (split.blocks.empty())
    return simulatePart(split, local, axisSize, coordinate);
  Coords kept;
  auto start = local.begin();
  for (size_t block = 0; block < split.blocks.size(); ++block) {
    int64_t size = split.blocks[block];
    int64_t times = split.replicas.empty() ? 1 : split.replicas[block];
    for (int64_t value : simulatePart(split, Coords(start, start + size),
                                      axisSize / times, coordinate / times))
      kept.push_back(value);
    start += size;
  }
  return kept;
}

/// The coordinates of every dim that a rank stores, in local order.
std::vector<Coords> simulateDims(const Placement &placement, const Mesh &mesh,
                                 const Shape &shape, int64_t rank) {
  std::vector<Coords> dims;
  for (size_t d = 0; d < shape.size(); ++d) {
    const DimPlacement &dim = placement.dims[d];
    Coords local(dim.extent ? dim.extent : shape[d]);
    for (size_t i = 0; i < local.size(); ++i)
      local[i] = i;
    for (const Split &split : dim.splits)
      local = simulateSplit(split, local, mesh.axisSize(split.axis),
                            mesh.coordinate(rank, split.axis));
    dims.push_back(local);
  }
  return dims;
}

/// Position in a member's storage of every point that a rank stores, padding
/// included.
std::map<Point, int64_t> simulate(const Placement &placement, const Mesh &mesh,
                                  const Shape &shape, unsigned numLeading,
                                  int64_t rank) {
  for (const AxisRestriction &at : placement.at)
    if (!std::count(at.coordinates.begin(), at.coordinates.end(),
                    mesh.coordinate(rank, at.axis)))
      return {};
  std::vector<Coords> dims = simulateDims(placement, mesh, shape, rank);
  Shape local, inner;
  for (size_t d = 0; d < dims.size(); ++d) {
    local.push_back(dims[d].size());
    if (d >= numLeading)
      inner.push_back(dims[d].size());
  }
  int64_t numElements = Box::whole(inner).volume();
  int64_t parts = 1, index = 0;
  for (const std::string &axis : placement.flatAxes) {
    parts *= mesh.axisSize(axis);
    index = index * mesh.axisSize(axis) + mesh.coordinate(rank, axis);
  }
  int64_t share = (numElements + parts - 1) / parts;

  std::map<Point, int64_t> stored;
  int64_t count = 0;
  forEachPoint(Box::whole(local), [&](const Point &position) {
    int64_t flat = count++ % numElements;
    if (flat / share != index)
      return;
    Point point;
    for (size_t d = 0; d < dims.size(); ++d)
      point.push_back(dims[d][position[d]]);
    stored[point] = flat - index * share;
  });
  return stored;
}

//===----------------------------------------------------------------------===//
// Random placements
//===----------------------------------------------------------------------===//

/// Sizes that add up to `total`, each a multiple of `multiple`.
Coords randomParts(Random &random, int64_t total, int64_t multiple) {
  Coords parts;
  while (total > 0) {
    parts.push_back(multiple * random.number(1, total / multiple));
    total -= parts.back();
  }
  return parts;
}

Split randomSplit(Random &random, const MeshAxis &axis, int64_t extent,
                  bool isFirst) {
  Split split;
  split.axis = axis.name;
  bool isEven = isFirst && extent % axis.size == 0;
  if (isEven && random.chance(50)) {
    if (random.chance(50))
      split.blocks = randomParts(random, extent, axis.size);
    if (random.chance(50))
      for (size_t i = 0; i < split.blocks.size(); ++i)
        split.replicas.push_back(random.chance(50) ? 1 : axis.size);
    return split;
  }
  if (!isFirst || random.chance(40)) {
    split.chunk = true;
    if (isFirst && random.chance(30))
      split.blocks = randomParts(random, extent, 1);
    return split;
  }
  bool isInterleaved = random.chance(50);
  int64_t pieces = isInterleaved ? random.number(1, 6) : axis.size;
  for (int64_t i = 1; i < pieces; ++i)
    split.cuts.push_back(random.number(0, extent));
  split.cuts.push_back(0);
  split.cuts.push_back(extent);
  std::sort(split.cuts.begin(), split.cuts.end());
  if (isInterleaved)
    for (int64_t i = 0; i < pieces; ++i)
      split.owners.push_back(random.number(0, axis.size - 1));
  return split;
}

struct Case {
  Mesh mesh;
  Shape shape;
  unsigned numLeading = 0;
  Placement placement;
};

Case randomCase(Random &random) {
  Case c;
  for (const char *name : {"a", "b", "c", "d"})
    if (random.chance(75))
      c.mesh.axes.push_back({name, random.number(1, 3)});
  if (random.chance(50)) {
    for (int64_t rank = 0; rank < c.mesh.numRanks(); ++rank)
      c.mesh.devices.push_back(10 + rank);
    random.shuffle(c.mesh.devices);
  }
  c.shape = random.shape(random.number(1, 3), 7);
  c.numLeading = random.number(0, c.shape.size() - 1);
  c.placement.dims.resize(c.shape.size());
  for (size_t d = 0; d < c.shape.size(); ++d)
    if (d >= c.numLeading && random.chance(25))
      c.placement.dims[d].extent = c.shape[d] + random.number(0, 4);
  for (const MeshAxis &axis : c.mesh.axes) {
    size_t d = random.number(0, c.shape.size() + 2);
    if (d < c.shape.size()) {
      DimPlacement &dim = c.placement.dims[d];
      int64_t extent = dim.extent ? dim.extent : c.shape[d];
      dim.splits.push_back(
          randomSplit(random, axis, extent, dim.splits.empty()));
    } else if (d == c.shape.size()) {
      c.placement.flatAxes.push_back(axis.name);
    } else if (d == c.shape.size() + 1) {
      c.placement.at.push_back({axis.name, {axis.size - 1}});
    }
  }
  random.shuffle(c.placement.flatAxes);
  return c;
}

/// Compares what a rank holds, and where, with the simulation.
void expectHeld(const Case &c, const std::vector<Holding> &holdings,
                int64_t rank) {
  std::map<Point, int64_t> stored =
      simulate(c.placement, c.mesh, c.shape, c.numLeading, rank);
  int64_t device = c.mesh.device(rank);
  const Holding *held = nullptr;
  for (const Holding &holding : holdings)
    if (std::count(holding.devices.begin(), holding.devices.end(), device)) {
      EXPECT_FALSE(held) << "device " << device << " has two holdings";
      held = &holding;
    }
  ASSERT_EQ(held != nullptr, !stored.empty());
  if (!held)
    return;
  const Shard &shard = held->shard;
  EXPECT_EQ(shard.numMembers() * shard.elementsPerMember(),
            int64_t(stored.size()));

  std::vector<Box> inside = regions(shard, c.shape);
  std::vector<Box> boxes = inside;
  for (const Box &box : padding(shard, c.shape))
    boxes.push_back(box);
  std::set<Point> expected, expectedInside;
  for (const auto &[point, position] : stored) {
    expected.insert(point);
    if (Box::whole(c.shape).contains(
            Box::fromOffsetSize(point, Shape(point.size(), 1))))
      expectedInside.insert(point);
  }
  EXPECT_EQ(pointsOf(boxes), expected);
  EXPECT_EQ(pointsOf(inside), expectedInside);

  for (const Box &box : boxes) {
    std::optional<LocalView> view = localView(shard, box);
    ASSERT_TRUE(view) << toString(box);
    forEachPoint(box, [&](const Point &point) {
      int64_t address = view->offset;
      for (size_t i = 0; i < view->strides.size(); ++i) {
        unsigned dim = c.numLeading + i;
        EXPECT_EQ(view->sizes[i], box[dim].size());
        address += (point[dim] - box[dim].lo) * view->strides[i];
      }
      EXPECT_EQ(address, stored.at(point));
    });
  }
}

TEST(PlacementTest, agreesWithTheSimulation) {
  Random random;
  for (int round = 0; round < 400; ++round) {
    Case c = randomCase(random);
    std::string error;
    std::optional<std::vector<Holding>> holdings =
        evaluate(c.placement, c.mesh, c.shape, c.numLeading, error);
    ASSERT_TRUE(holdings) << error;
    std::set<Point> held;
    for (int64_t rank = 0; rank < c.mesh.numRanks(); ++rank)
      expectHeld(c, *holdings, rank);
    for (size_t i = 0; i < holdings->size(); ++i) {
      const Holding &holding = (*holdings)[i];
      EXPECT_TRUE(
          std::is_sorted(holding.devices.begin(), holding.devices.end()));
      for (size_t j = 0; j < i; ++j)
        EXPECT_FALSE(holding.shard == (*holdings)[j].shard);
      for (const Box &box : regions(holding.shard, c.shape))
        for (const Point &point : pointsOf(box))
          held.insert(point);
    }
    EXPECT_EQ(held, pointsOf(Box::whole(c.shape)));
  }
}

//===----------------------------------------------------------------------===//
// The placements of trainers
//===----------------------------------------------------------------------===//

std::vector<Interval> held(const DimPlacement &dim, int64_t size, Coords sizes,
                           Coords coords) {
  std::string error;
  auto result = evaluateDim(dim, size, sizes, coords, error);
  EXPECT_TRUE(result) << error;
  return result.value_or(std::vector<Interval>());
}

using Intervals = std::vector<Interval>;

TEST(PlacementTest, gateAndUpAreCutOneByOne) {
  DimPlacement dim = {{{"tp", {}, {}, {8, 8}}}};
  EXPECT_EQ(held(dim, 16, {2}, {1}), (Intervals{{4, 8}, {12, 16}}));
  EXPECT_EQ(held(dim, 16, {1}, {0}), (Intervals{{0, 16}}));
}

TEST(PlacementTest, interleavedStagesHoldSeveralPieces) {
  DimPlacement dim = {{{"pp", {0, 2, 4, 6, 8}, {0, 1, 0, 1}}}};
  EXPECT_EQ(held(dim, 8, {2}, {1}), (Intervals{{2, 4}, {6, 8}}));
}

TEST(PlacementTest, fsdpCutsAfterTp) {
  DimPlacement dim = {{{"tp"}, {"fsdp", {}, {}, {}, /*chunk=*/true}}};
  EXPECT_EQ(held(dim, 10, {2, 3}, {1, 0}), (Intervals{{5, 7}}));
  EXPECT_EQ(held(dim, 10, {2, 3}, {1, 2}), (Intervals{{9, 10}}));
  // torch.chunk: ceil, so the tail is empty.
  EXPECT_TRUE(held(dim, 8, {2, 3}, {0, 2}).empty());
}

TEST(PlacementTest, fsdpCutsThePackedLocalTensor) {
  DimPlacement dim = {
      {{"tp", {}, {}, {8, 8}}, {"fsdp", {}, {}, {}, /*chunk=*/true}}};
  EXPECT_EQ(held(dim, 16, {2, 3}, {0, 1}), (Intervals{{3, 4}, {8, 10}}));
}

TEST(PlacementTest, ranksOfPaddingOnlyAreKept) {
  Placement placement;
  placement.dims = {{{{"tp"}}, 8}};
  std::string error;
  auto holdings = evaluate(placement, {{{"tp", 4}}, {}}, {5}, 0, error);
  ASSERT_TRUE(holdings);
  ASSERT_EQ(holdings->size(), 4u);
  EXPECT_TRUE(regions(holdings->back().shard, {5}).empty());
  EXPECT_EQ(holdings->back().shard.elementsPerMember(), 2);
}

TEST(PlacementTest, replicasShareAHolding) {
  Placement placement;
  placement.dims = {{{{"tp"}}}, {}};
  std::string error;
  Mesh mesh = {{{"dp", 2}, {"tp", 2}}, {9, 8, 7, 6}};
  auto holdings = evaluate(placement, mesh, {4, 4}, 0, error);
  ASSERT_TRUE(holdings);
  ASSERT_EQ(holdings->size(), 2u);
  EXPECT_EQ(holdings->at(0).devices, (Coords{7, 9}));
  EXPECT_EQ(holdings->at(1).devices, (Coords{6, 8}));
}

TEST(PlacementTest, explicitRowsShareAHoldingToo) {
  Box box = Box::fromOffsetSize({0, 2}, {3, 4});
  std::vector<Holding> holdings = holdingsOf({{4, box, Interval{0, 5}},
                                              {1, box, std::nullopt},
                                              {0, box, Interval{0, 12}},
                                              {3, box, Interval{0, 5}},
                                              {3, box, Interval{0, 5}},
                                              {2, box, Interval{5, 5}}});
  ASSERT_EQ(holdings.size(), 2u);
  EXPECT_EQ(holdings[0].devices, (Coords{3, 4}));
  EXPECT_EQ(holdings[0].shard.range, (Interval{0, 5}));
  EXPECT_EQ(holdings[1].devices, (Coords{0, 1}));
  EXPECT_EQ(holdings[1].shard.range, std::nullopt);
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

std::string errorOf(const Placement &placement, const Shape &shape = {8, 8}) {
  Mesh mesh = {{{"pp", 2}, {"tp", 3}}, {}};
  std::string error;
  EXPECT_FALSE(evaluate(placement, mesh, shape, 0, error));
  return error;
}

TEST(PlacementTest, saysWhatDoesNotFit) {
  EXPECT_EQ(errorOf({{{}, {{{"ep"}}}}}), "dim 1: the mesh has no axis \"ep\"");
  EXPECT_EQ(errorOf({{{{{"tp"}}}}}), "dim 0: extent 8 is not a multiple of "
                                     "the 3 pieces of axis \"tp\"");
  EXPECT_EQ(errorOf({{{{{"pp", {0, 4, 7}}}}}}),
            "dim 0: cuts over axis \"pp\" cover [0:7), expected [0:8)");
  EXPECT_EQ(errorOf({{{{{"pp", {0, 4, 6, 8}}}}}}),
            "dim 0: axis \"pp\" of size 2 is given 3 pieces, expected 2");
  EXPECT_EQ(errorOf({{{{{"pp", {0, 4, 8}, {0, -1}}}}}}),
            "dim 0: axis \"pp\" has no coordinate -1 to own a piece");
  EXPECT_EQ(errorOf({{{{{"pp", {}, {}, {4, 2}}}}}}),
            "dim 0: blocks over axis \"pp\" add up to 6, expected 8");
  EXPECT_EQ(
      errorOf({{{{{"pp", {}, {}, {4, 4}, false, {2}}}}}}),
      "dim 0: axis \"pp\" has 1 numbers of replicas, expected one for each "
      "of 2 blocks, in equal pieces");
  EXPECT_EQ(errorOf({{{{{"tp", {}, {}, {6, 2}, false, {1, 2}}}}}}),
            "dim 0: 2 replicas do not divide axis \"tp\" of size 3");
  EXPECT_EQ(errorOf({{{{{"pp"}}, 6}}}),
            "dim 0: padded extent 6 is less than the size 8");
}

TEST(PlacementTest, refusesHolesAndUnknownCoordinates) {
  EXPECT_EQ(errorOf({{{{{"pp"}}}, {{{"pp"}}}}}),
            "dim 1: axis \"pp\" already cuts dim 0");
  EXPECT_EQ(errorOf({{}, {{"pp", {-1}}}}),
            "restriction: axis \"pp\" has no coordinate -1");
  EXPECT_EQ(errorOf({{}, {{"pp", {}}}}),
            "restriction: no coordinate of axis \"pp\" is named");
  EXPECT_EQ(errorOf({{{}, {}, {}}}),
            "placement has 3 dims, expected at most 2");
}

TEST(PlacementTest, ownersCountOnBeyondTheAxis) {
  // 8 layers, PP 2, VPP 2: virtual stages 0 to 3.
  Mesh mesh{{{"pp", 2}}, {}};
  std::string error;
  auto holdings = evaluate({{{{{"pp", {0, 2, 4, 6, 8}, {0, 1, 2, 3}}}}}}, mesh,
                           {8}, 1, error);
  ASSERT_TRUE(holdings) << error;
  ASSERT_EQ(holdings->size(), 2u);
  EXPECT_EQ((*holdings)[0].shard.dims[0],
            (std::vector<Interval>{{0, 2}, {4, 6}}));
  auto restricted = evaluate({{}, {{"pp", {3}}}}, mesh, {8}, 0, error);
  ASSERT_TRUE(restricted) << error;
  EXPECT_EQ(restricted->front().devices, std::vector<int64_t>{1});
}

} // namespace
