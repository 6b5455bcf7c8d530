//===- TensorViewTest.cpp - Views against element numbers -----------------===//

#include "dt/Geometry/TensorView.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <numeric>
#include <random>

using namespace dt;

namespace {

using Ints = std::vector<int64_t>;

/// Positions that intervals name, one after the other.
Ints positionsOf(const std::vector<Interval> &intervals) {
  Ints out;
  for (Interval interval : intervals)
    for (int64_t i = interval.lo; i < interval.hi; ++i)
      out.push_back(i);
  return out;
}

TensorView rows(std::vector<Interval> intervals) {
  return {{{std::move(intervals), false}}};
}

Shard part(std::vector<Interval> intervals) {
  Shard shard;
  shard.dims = {std::move(intervals)};
  return shard;
}

std::vector<Interval> carried(const TensorView &view, int64_t size,
                              std::vector<Interval> own) {
  std::string error;
  auto out = throughView(view, {size}, {{part(std::move(own)), {0}}}, error);
  EXPECT_TRUE(out) << error;
  return out ? out->front().shard.dims.front() : std::vector<Interval>();
}

Permutation swapped() { return *Permutation::of({1, 0}); }

/// Positions, row-major in the param, of the elements of a box.
Ints elementsOf(const Box &box, const Ints &shape) {
  Ints out = {0};
  for (unsigned d = 0; d < box.rank(); ++d) {
    Ints next;
    for (int64_t before : out)
      for (int64_t i = box[d].lo; i < box[d].hi; ++i)
        next.push_back(before * shape[d] + i);
    out = std::move(next);
  }
  return out;
}

/// A random range of a permuted tensor: its regions, and where each lies in
/// memory, against element numbers that are moved by index.
void expectRangeOfPermuted(std::mt19937 &random) {
  Ints shape, places = {0, 1, 2};
  for (int d = 0; d < 3; ++d)
    shape.push_back(1 + int64_t(random() % 4));
  std::shuffle(places.begin(), places.end(), random);
  TensorView view;
  for (int64_t size : shape)
    view.dims.push_back({{{0, size}}, false});
  view.order = *Permutation::of(places);
  Ints own = view.shape(), numbers;
  for (int64_t i = 0; i < own[0]; ++i)
    for (int64_t j = 0; j < own[1]; ++j)
      for (int64_t k = 0; k < own[2]; ++k) {
        Ints at(3);
        at[places[0]] = i, at[places[1]] = j, at[places[2]] = k;
        numbers.push_back((at[0] * shape[1] + at[1]) * shape[2] + at[2]);
      }
  Shard shard;
  for (int64_t size : own)
    shard.dims.push_back({{0, size}});
  int64_t lo = int64_t(random() % numbers.size());
  int64_t hi = lo + int64_t(random() % (numbers.size() - lo + 1));
  shard.range = Interval{lo, hi};
  std::string error;
  auto out = throughView(view, shape, {{shard, {0}}}, error);
  ASSERT_TRUE(out) << error;
  Ints found, expected(numbers.begin() + lo, numbers.begin() + hi);
  for (const Box &box : regions(out->front().shard, shape)) {
    Ints elements = elementsOf(box, shape);
    found.insert(found.end(), elements.begin(), elements.end());
    auto local = localView(out->front().shard, box);
    ASSERT_TRUE(local);
    EXPECT_EQ(expected[local->offset], elements.front());
    EXPECT_EQ(localSpan(out->front().shard, box)->lo, local->offset);
  }
  std::sort(found.begin(), found.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(found, expected);
}

/// The elements of a dim that is others flattened, by those of each of these.
Ints flatElements(const std::vector<std::vector<Interval>> &parts,
                  const Ints &sizes) {
  Ints out = {0};
  for (size_t d = 0; d < sizes.size(); ++d) {
    Ints next;
    for (int64_t before : out)
      for (int64_t i : positionsOf(parts[d]))
        next.push_back(before * sizes[d] + i);
    out = std::move(next);
  }
  return out;
}

/// Whether elements, in their order, are a product of those of each dim.
bool areProduct(const Ints &elements, const Ints &sizes) {
  std::vector<Ints> seen(sizes.size());
  for (int64_t element : elements)
    for (size_t d = sizes.size(); d-- > 0; element /= sizes[d])
      if (int64_t at = element % sizes[d];
          std::find(seen[d].begin(), seen[d].end(), at) == seen[d].end())
        seen[d].push_back(at);
  Ints product = {0};
  for (size_t d = 0; d < sizes.size(); ++d) {
    Ints next;
    for (int64_t before : product)
      for (int64_t at : seen[d])
        next.push_back(before * sizes[d] + at);
    product = std::move(next);
  }
  return product == elements;
}

/// Random parts of [0, size) in a random order.
std::vector<Interval> randomIntervals(std::mt19937 &random, int64_t size) {
  std::vector<Interval> out;
  for (int64_t lo = 0; lo < size;) {
    int64_t hi = std::min<int64_t>(size, lo + 1 + int64_t(random() % 4));
    if (random() % 3)
      out.push_back({lo, hi});
    lo = hi;
  }
  std::shuffle(out.begin(), out.end(), random);
  return out;
}

} // namespace

TEST(TensorView, ShapeLeavesOutIndexDims) {
  TensorView view = {{{{{5, 6}}, true}, {{{0, 4}, {8, 10}}, false}}};
  EXPECT_EQ(view.shape(), (Ints{6}));
}

TEST(TensorView, AShardOfAViewIsAShardOfTheParam) {
  // Two groups of 4 rows of q, 1 of k and 1 of v; the second half of q.
  EXPECT_EQ(carried(rows({{0, 4}, {6, 10}}), 12, {{4, 8}}),
            (std::vector<Interval>{{6, 10}}));
  // Across the border of two groups.
  EXPECT_EQ(carried(rows({{0, 4}, {6, 10}}), 12, {{2, 6}}),
            (std::vector<Interval>{{2, 4}, {6, 8}}));
}

TEST(TensorView, IntervalsThatTouchInTheViewsOrderAreOne) {
  EXPECT_EQ(carried(rows({{4, 8}, {0, 4}}), 8, {{0, 8}}),
            (std::vector<Interval>{{4, 8}, {0, 4}}));
  EXPECT_EQ(carried(rows({{0, 4}, {4, 8}}), 8, {{2, 6}}),
            (std::vector<Interval>{{2, 6}}));
}

TEST(TensorView, ASeamOfTheViewStays) {
  // Rank 0 of two has the first group's q, k and v: rows that the view, which
  // has all of q first, has at three places.
  EXPECT_EQ(carried(rows({{0, 4}, {6, 10}, {4, 5}, {10, 11}, {5, 6}, {11, 12}}),
                    12, {{0, 4}, {8, 9}, {10, 11}}),
            (std::vector<Interval>{{0, 4}, {4, 5}, {5, 6}}));
}

TEST(TensorView, RandomPartsAreThoseOfElementNumbers) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int run = 0; run < 2000; ++run) {
    TensorView view = rows(randomIntervals(random, 24));
    Ints own = positionsOf(view.dims.front().intervals);
    std::vector<Interval> held = randomIntervals(random, int64_t(own.size()));
    Ints expected;
    for (int64_t position : positionsOf(held))
      expected.push_back(own[position]);
    EXPECT_EQ(positionsOf(carried(view, 24, held)), expected);
  }
}

TEST(TensorView, AnIndexDimIsPutBack) {
  TensorView view = {{{{{0, 4}}, false}, {{{5, 6}}, true}, {{{0, 3}}, false}}};
  Shard shard;
  shard.numLeading = 1;
  shard.dims = {{{2, 3}}, {{1, 2}}, {{0, 3}}};
  std::string error;
  auto out = throughView(view, {4, 8, 3}, {{shard, {0}}}, error);
  ASSERT_TRUE(out) << error;
  EXPECT_EQ(out->front().shard.dims,
            (std::vector<std::vector<Interval>>{
                {{2, 3}}, {{1, 2}}, {{5, 6}}, {{0, 3}}}));
}

TEST(TensorView, PaddingIsCarriedByWholeDimsOnly) {
  EXPECT_EQ(carried(rows({{0, 10}}), 10, {{8, 16}}),
            (std::vector<Interval>{{8, 16}}));
  std::string error;
  // Row 8 of the param is another tensor's: it cannot be padding.
  EXPECT_FALSE(
      throughView(rows({{0, 8}}), {10}, {{part({{6, 9}}), {0}}}, error));
  EXPECT_EQ(error, "pads dim 0 of a view that does not have all of the param's "
                   "in its order");
}

TEST(TensorView, ProblemsNameTheDimAndTheElements) {
  EXPECT_EQ(problemOf(rows({{0, 4}, {2, 6}}), {8}), "has [2:4) twice of dim 0");
  EXPECT_EQ(problemOf(rows({{0, 4}, {4, 4}}), {8}), "has [4:4) of dim 0");
  EXPECT_EQ(problemOf(rows({}), {8}), "has nothing of dim 0");
  EXPECT_EQ(problemOf(rows({{0, 8}}), {8, 2}), "has 1 dims, expected 2");
  EXPECT_EQ(problemOf({{{{{8, 9}}, true}}}, {8}), "has [8:9) of dim 0");
  EXPECT_EQ(problemOf(rows({{0, 8}, {8, 10}}), {8}), "");
}

TEST(TensorView, OnlyTheWholeParamInItsOrderIsWhole) {
  EXPECT_TRUE(rows({{0, 8}}).isWhole({8}));
  EXPECT_FALSE(rows({{0, 10}}).isWhole({8}));
  EXPECT_FALSE(rows({{4, 8}, {0, 4}}).isWhole({8}));
  EXPECT_FALSE((TensorView{{{{{0, 1}}, true}}}).isWhole({1}));
  EXPECT_FALSE(
      (TensorView{{{{{0, 3}}}, {{{0, 2}}}}, swapped()}).isWhole({3, 2}));
}

TEST(TensorView, AShardOfAPermutedViewIsStoredInItsOrder) {
  // Columns 1 and 2 of the [4, 3] that a [3, 4] is transposed.
  TensorView view = {{{{{0, 3}}}, {{{0, 4}}}}, swapped()};
  EXPECT_EQ(view.shape(), (Ints{4, 3}));
  Shard shard;
  shard.dims = {{{0, 4}}, {{1, 3}}};
  std::string error;
  auto out = throughView(view, {3, 4}, {{shard, {0}}}, error);
  ASSERT_TRUE(out) << error;
  const Shard &carried = out->front().shard;
  EXPECT_EQ(carried.dims,
            (std::vector<std::vector<Interval>>{{{1, 3}}, {{0, 4}}}));
  auto local = localView(carried, Box::fromOffsetSize({2, 1}, {1, 3}));
  ASSERT_TRUE(local);
  EXPECT_EQ(local->offset, 3);
  EXPECT_EQ(local->strides, (Ints{1, 2}));
}

TEST(TensorView, RandomRangesOfPermutedViewsAreThoseOfElementNumbers) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int run = 0; run < 500; ++run)
    expectRangeOfPermuted(random);
}

TEST(TensorView, AnIndexDimStaysAtItsPlace) {
  TensorView view = {{{{{1, 2}}, true}, {{{0, 4}}}}, swapped()};
  EXPECT_EQ(problemOf(view, {3, 4}),
            "has dim 0, of which it is one index, at another place");
}

TEST(TensorView, SeveralDimsMayBeOneOfTheTensor) {
  // Gate and up of 3 rows each: up under gate, and the rows of both in turns.
  TensorView under = {{{{{0, 2}}}, {{{0, 3}}}, {{{0, 4}}}}, {}, {2, 1}};
  EXPECT_EQ(under.shape(), (Ints{6, 4}));
  EXPECT_FALSE(under.isWhole({2, 3, 4}));
  TensorView inTurns = under;
  inTurns.order = *Permutation::of({1, 0, 2});
  EXPECT_EQ(inTurns.shape(), (Ints{6, 4}));

  // Row 1 of each, then row 1 of both.
  Shard shard;
  shard.dims = {{{1, 2}, {4, 5}}, {{0, 4}}};
  std::string error;
  auto out = throughView(under, {2, 3, 4}, {{shard, {0}}}, error);
  ASSERT_TRUE(out) << error;
  std::vector<std::vector<Interval>> rows = {{{0, 2}}, {{1, 2}}, {{0, 4}}};
  EXPECT_EQ(out->front().shard.dims, rows);
  shard.dims[0] = {{2, 4}};
  out = throughView(inTurns, {2, 3, 4}, {{shard, {0}}}, error);
  ASSERT_TRUE(out) << error;
  EXPECT_EQ(out->front().shard.dims, rows);
  EXPECT_EQ(out->front().shard.order, inTurns.order);
}

TEST(TensorView, APartOfAFlattenedDimThatIsNoProductIsNamed) {
  TensorView view = {{{{{0, 2}}}, {{{0, 3}}}}, {}, {2}};
  std::string error;
  EXPECT_FALSE(
      throughView(view, {2, 3}, {{part({{0, 2}, {3, 4}}), {0}}}, error));
  EXPECT_EQ(error, "has [0:2), [3:4) of dim 0, which is not the same part of "
                   "each row of its 2 x 3 elements");
  view.dims[0].intervals = {{1, 2}};
  EXPECT_FALSE(throughView(view, {2, 3}, {{part({{0, 6}}), {0}}}, error));
  EXPECT_EQ(error, "pads dim 0 of a view that does not have all of the param's "
                   "in its order");
}

TEST(TensorView, RowsOfPaddingOfAFlattenedDimAreThoseOfItsFirstPart) {
  TensorView view = {{{{{0, 2}}}, {{{0, 3}}}}, {}, {2}};
  std::string error;
  auto out = throughView(view, {2, 3}, {{part({{3, 9}}), {0}}}, error);
  ASSERT_TRUE(out) << error;
  EXPECT_EQ(out->front().shard.dims,
            (std::vector<std::vector<Interval>>{{{1, 3}}, {{0, 3}}}));
}

TEST(TensorView, PartsAreTheDimsThatTheViewHas) {
  TensorView view = {{{{{0, 2}}}, {{{1, 2}}, true}, {{{0, 3}}}}, {}, {2}};
  EXPECT_EQ(problemOf(view, {2, 2, 3}), "");
  EXPECT_EQ(view.shape(), (Ints{6}));
  for (dtrt::DimParts parts :
       {dtrt::DimParts{3}, {1}, {1, 1}, {0, 2}, {2, 1}}) {
    view.parts = parts;
    EXPECT_NE(problemOf(view, {2, 2, 3}).find("] of its 2 dims"),
              std::string::npos);
  }
}

TEST(TensorView, RandomIntervalsAreUnflattenedExactlyWhereTheyAreAProduct) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  int numProducts = 0;
  for (int run = 0; run < 3000; ++run) {
    Ints sizes;
    std::vector<std::vector<Interval>> parts;
    for (int d = 0; d < 3; ++d) {
      sizes.push_back(1 + int64_t(random() % 4));
      parts.push_back(randomIntervals(random, sizes.back()));
    }
    // A product, and any intervals, one by one and merged.
    Ints elements = flatElements(parts, sizes);
    if (run % 2)
      elements =
          positionsOf(randomIntervals(random, sizes[0] * sizes[1] * sizes[2]));
    std::vector<Interval> flat;
    for (int64_t element : elements)
      if (!flat.empty() && flat.back().hi == element && random() % 4)
        ++flat.back().hi;
      else
        flat.push_back({element, element + 1});
    auto found = unflattened(flat, sizes);
    ASSERT_EQ(found.has_value(), areProduct(elements, sizes)) << run;
    if (found) {
      EXPECT_EQ(flatElements(*found, sizes), elements) << run;
      ++numProducts;
    }
  }
  EXPECT_GT(numProducts, 1500);
}
