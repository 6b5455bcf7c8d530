//===- CoverTest.cpp - Every element once, against counting them ----------===//

#include "Cover.h"
#include "PlanBuilder.h"
#include "RandomBoxes.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

using namespace dtrt;
using namespace dtrt::test;

namespace {

/// A shard, with its elements in the order of its local tensor, and boxes that
/// hold each of them once.
struct Case {
  Family family;
  ShardRecord shard;
  std::vector<std::vector<int64_t>> elements;
  std::vector<TestBox> boxes;
};

/// Intervals of a dim, in any order, `extent` elements in all.
std::vector<Interval> randomIntervals(Random &random, int64_t extent) {
  std::vector<Interval> out;
  int64_t at = 0;
  while (extent > 0) {
    at += random.number(0, 2);
    int64_t size = random.number(1, extent);
    out.push_back({at, at + size});
    at += size;
    extent -= size;
  }
  for (size_t i = out.size(); i > 1; --i)
    std::swap(out[i - 1], out[size_t(random.number(0, int64_t(i) - 1))]);
  return out;
}

/// Calls fn(coordinates) for the elements of a product of intervals.
void forEachElement(const std::vector<std::vector<Interval>> &dims,
                    std::vector<int64_t> &at, const std::function<void()> &fn) {
  if (at.size() == dims.size())
    return fn();
  for (const Interval &interval : dims[at.size()])
    for (int64_t i = interval.lo; i < interval.hi; ++i) {
      at.push_back(i);
      forEachElement(dims, at, fn);
      at.pop_back();
    }
}

/// What of the elements is left is cut into boxes: each starts at the first and
/// grows, dim by dim, as far as its elements are there.
std::vector<TestBox> cutGreedily(Random &random, const Case &of) {
  std::vector<std::vector<int64_t>> left = of.elements;
  std::sort(left.begin(), left.end());
  std::map<std::vector<int64_t>, bool> free;
  for (const auto &element : left)
    free[element] = true;
  std::vector<TestBox> boxes;
  for (const auto &first : left) {
    if (!free[first])
      continue;
    TestBox box = {first, std::vector<int64_t>(first.size(), 1)};
    auto isFree = [&](const TestBox &part) {
      std::vector<std::vector<Interval>> dims;
      for (size_t d = 0; d < part.size.size(); ++d)
        dims.push_back({{part.offset[d], part.offset[d] + part.size[d]}});
      bool all = true;
      std::vector<int64_t> at;
      forEachElement(dims, at, [&] {
        auto found = free.find(at);
        all = all && found != free.end() && found->second;
      });
      return all;
    };
    auto inOneInterval = [&](const TestBox &part) {
      for (size_t d = 0; d < part.size.size(); ++d)
        if (std::none_of(of.shard.dims[d].begin(), of.shard.dims[d].end(),
                         [&](const Interval &interval) {
                           return interval.lo <= part.offset[d] &&
                                  part.offset[d] + part.size[d] <= interval.hi;
                         }))
          return false;
      return true;
    };
    for (size_t tries = 0; tries < 6 && !first.empty(); ++tries) {
      TestBox larger = box;
      ++larger.size[size_t(random.number(0, int64_t(first.size()) - 1))];
      if (inOneInterval(larger) && isFree(larger))
        box = larger;
    }
    std::vector<std::vector<Interval>> dims;
    for (size_t d = 0; d < box.size.size(); ++d)
      dims.push_back({{box.offset[d], box.offset[d] + box.size[d]}});
    std::vector<int64_t> at;
    forEachElement(dims, at, [&] { free[at] = false; });
    boxes.push_back(box);
  }
  return boxes;
}

Case randomCase(Random &random) {
  Case out;
  auto rank = size_t(random.number(0, 4));
  auto leading = size_t(random.number(0, int64_t(std::min<size_t>(rank, 2))));
  for (size_t d = 0; d < rank; ++d)
    out.shard.dims.push_back(randomIntervals(random, random.number(1, 5)));
  out.family.leading.resize(leading);
  out.family.shape.resize(rank - leading);
  std::vector<int64_t> at;
  forEachElement(out.shard.dims, at, [&] { out.elements.push_back(at); });
  int64_t members = 1, inner = int64_t(out.elements.size());
  for (size_t d = 0; d < leading; ++d)
    members *= localShape(out.shard)[d];
  inner /= members;
  if (random.number(0, 1)) {
    out.shard.flat = true;
    int64_t lo = random.number(0, inner - 1);
    out.shard.range = {lo, random.number(lo + 1, inner)};
    std::vector<std::vector<int64_t>> kept;
    for (int64_t i = 0; i < members * inner; ++i)
      if (i % inner >= lo && i % inner < out.shard.range.hi)
        kept.push_back(out.elements[size_t(i)]);
    out.elements = kept;
  }
  out.boxes = cutGreedily(random, out);
  return out;
}

/// The first element that is not held once, with how often it is.
std::optional<CoverFault> counted(const Case &of) {
  for (const auto &element : of.elements) {
    int64_t times = 0;
    for (const TestBox &box : of.boxes) {
      bool holds = true;
      for (size_t d = 0; d < element.size(); ++d)
        holds = holds && box.offset[d] <= element[d] &&
                element[d] < box.offset[d] + box.size[d];
      times += holds;
    }
    if (times != 1)
      return CoverFault{element, times};
  }
  return std::nullopt;
}

std::optional<CoverFault> found(const Case &of, Steps &steps) {
  BoxList list;
  for (const TestBox &box : of.boxes)
    list.add(box.offset, box.size);
  return findCoverFault(of.family, of.shard, list, steps);
}

void expectAsCounted(const Case &of) {
  Steps steps(UINT64_MAX);
  auto fault = found(of, steps), expected = counted(of);
  ASSERT_EQ(fault.has_value(), expected.has_value());
  if (!fault)
    return;
  EXPECT_EQ(fault->element, expected->element);
  EXPECT_EQ(fault->times, expected->times);
}

/// A case of two dims that is covered by these boxes, [row, column, rows,
/// columns] each.
Case flatCase(int64_t rows, int64_t columns,
              const std::vector<std::array<int64_t, 4>> &boxes) {
  Case out;
  out.family.shape = {rows, columns};
  out.shard.dims = {{{0, rows}}, {{0, columns}}};
  for (const auto &[row, column, high, wide] : boxes)
    out.boxes.push_back({{row, column}, {high, wide}});
  return out;
}

} // namespace

TEST(Cover, IsRightOnRandomShards) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  size_t faults = 0;
  for (int round = 0; round < 400; ++round) {
    Case whole = randomCase(random);
    expectAsCounted(whole);
    for (int change = 0; change < 4; ++change) {
      Case wrong = whole;
      auto pick = [&] {
        return size_t(random.number(0, int64_t(wrong.boxes.size()) - 1));
      };
      size_t at = pick();
      if (change == 0)
        wrong.boxes.push_back(wrong.boxes[at]);
      else if (change == 1)
        wrong.boxes.erase(wrong.boxes.begin() + int64_t(at));
      else if (change == 2)
        wrong.boxes[at] = wrong.boxes[pick()];
      else
        wrong.boxes.insert(wrong.boxes.end(), 3, wrong.boxes[at]);
      expectAsCounted(wrong);
      faults += counted(wrong).has_value();
    }
    if (HasFailure())
      return;
  }
  EXPECT_GT(faults, 1000u);
}

TEST(Cover, NothingIsCoveredByNothing) {
  Case none = flatCase(0, 4, {});
  Steps steps(UINT64_MAX);
  EXPECT_FALSE(found(none, steps));
  Case scalar;
  EXPECT_TRUE(found(scalar, steps));
  scalar.boxes = {{{}, {}}};
  EXPECT_FALSE(found(scalar, steps));
  scalar.boxes.push_back({{}, {}});
  auto twice = found(scalar, steps);
  ASSERT_TRUE(twice);
  EXPECT_EQ(twice->times, 2);
}

/// Four arms around one element, each cut along its length: no line parts the
/// boxes, and every sweep crosses one arm's strips while it takes another's.
TEST(Cover, TakesNoSearchWhereStripsCross) {
  constexpr int64_t n = 5000;
  std::vector<std::array<int64_t, 4>> boxes = {{n, n, 1, 1}};
  for (int64_t i = 0; i < n; ++i) {
    boxes.push_back({i, 0, 1, n + 1});         // above, to the right
    boxes.push_back({0, n + 1 + i, n + 1, 1}); // right, downwards
    boxes.push_back({n + 1 + i, n, 1, n + 1}); // below
    boxes.push_back({n, i, n + 1, 1});         // left
  }
  Case pinwheel = flatCase(2 * n + 1, 2 * n + 1, boxes);
  Steps steps(16 * boxes.size());
  EXPECT_FALSE(found(pinwheel, steps));
  EXPECT_FALSE(steps.spent());
  // One strip shifted by one: a hole beside it, or twice at its other end.
  pinwheel.boxes[1 + 4 * 17].offset[1] = 1;
  Steps again(16 * boxes.size());
  auto fault = found(pinwheel, again);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->element, (std::vector<int64_t>{17, 0}));
  EXPECT_EQ(fault->times, 0);
}

TEST(Cover, EndsWhenItsStepsAreUsedUp) {
  std::vector<std::array<int64_t, 4>> boxes;
  for (int64_t i = 0; i < 100; ++i)
    boxes.push_back({i, 0, 1, 7});
  Case rows = flatCase(100, 7, boxes);
  Steps few(50);
  EXPECT_FALSE(found(rows, few));
  EXPECT_TRUE(few.spent());
}
