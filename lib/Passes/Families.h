//===- Families.h - Tensor names into grids of numbers ----------*- C++ -*-===//
//
// Trainers name tensors by number: `layers.17.experts.weight3`. Tensors whose
// names differ only in numbers, and whose numbers fill a grid of arithmetic
// progressions, form one family; its leading dims are the numbers that vary.
//
//   layers.{0,1,2}.w          -> layers.{}.w, one dim 0:3
//   layers.{1,3}.e{0,1,2}     -> layers.{}.e{}, dims 1:5 step 2, 0:3
//   {0.a0, 0.a1, 1.a0}        -> two grids: 0.a{0,1} and 1.a0
//   {0, 1, 2, 4, 5, 6, 8, 9}  -> 0:3 step 4, 1:3 step 4, 2:2 step 4
//
//===----------------------------------------------------------------------===//

#ifndef DT_PASSES_FAMILIES_H
#define DT_PASSES_FAMILIES_H

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dt {

/// A name with its numbers taken out: text[0] number[0] text[1] ... A run of
/// digits with a leading zero is text: it could not be printed back.
struct NumberedName {
  std::vector<std::string> text; // one more than numbers
  std::vector<int64_t> numbers;
  /// The same for names that differ only in numbers.
  std::string pattern() const;
};
NumberedName splitNumbers(const std::string &name);

/// first, first + step, ... (count values).
struct Progression {
  int64_t first = 0;
  int64_t step = 1;
  int64_t count = 1;
  friend bool operator==(const Progression &a, const Progression &b) {
    return a.first == b.first && a.step == b.step && a.count == b.count;
  }
};

/// A product of progressions, one per number of the name, outermost first.
using Grid = std::vector<Progression>;

/// What a value of each member of a grid changes by along each dim of `counts`,
/// if it is an affine function of the indices. valueOf(i) is that of member i,
/// row-major.
template <typename ValueOf>
std::optional<std::vector<int64_t>>
affineSteps(const std::vector<int64_t> &counts, ValueOf valueOf) {
  std::vector<size_t> strides(counts.size());
  size_t members = 1;
  for (size_t d = counts.size(); d-- > 0; members *= size_t(counts[d]))
    strides[d] = members;
  const int64_t first = valueOf(0);
  std::vector<int64_t> steps(counts.size(), 0);
  for (size_t d = 0; d < counts.size(); ++d)
    if (counts[d] > 1)
      steps[d] = valueOf(strides[d]) - first;
  for (size_t i = 0; i < members; ++i) {
    int64_t expected = first;
    for (size_t d = 0; d < counts.size(); ++d)
      expected += steps[d] * int64_t(i / strides[d] % size_t(counts[d]));
    if (valueOf(i) != expected)
      return std::nullopt;
  }
  return steps;
}

/// Layers of several kinds in turns come again after at most so many: 2 to 8 in
/// the models of today.
constexpr int64_t kMaxPeriod = 16;

/// The first `length` of some values in a row, dealt out in turns to `period`
/// progressions. One has all of them where they are alike.
struct Stretch {
  int64_t period = 1;
  int64_t length = 1;
  /// How many of the values are in progression `turn`.
  int64_t countOf(int64_t turn) const {
    return (length - turn + period - 1) / period;
  }
};

/// The stretch of up to `count` values with the most values per progression; of
/// those that are equal the one with the fewest. holds(stretch) says whether
/// each progression of one is one: of the first `period` values it is true, and
/// what holds of a stretch holds of all that are shorter. Asks for stretches at
/// most twice as long as one that holds.
template <typename Holds> Stretch longestStretch(int64_t count, Holds holds) {
  Stretch best;
  for (int64_t period = 1; period <= std::min(kMaxPeriod, count); ++period) {
    if (best.length * period >= count * best.period)
      break; // all of them would be no more for each progression
    int64_t known = period, limit = std::min(2 * period, count);
    while (known < limit && holds(Stretch{period, limit})) {
      known = limit;
      limit = std::min(2 * limit, count);
    }
    // Of `limit` it is false, or known.
    while (known + 1 < limit) {
      int64_t length = known + (limit - known) / 2;
      (holds(Stretch{period, length}) ? known : limit) = length;
    }
    if (known * best.period > best.length * period)
      best = {period, known};
  }
  return best;
}

/// Covers a set of distinct, equally long tuples with few disjoint grids.
std::vector<Grid> coverWithGrids(std::vector<std::vector<int64_t>> tuples);

/// Calls `visit(tuple)` for every tuple of the grid, last number fastest.
template <typename Fn> void forEachMember(const Grid &grid, Fn visit) {
  std::vector<int64_t> index(grid.size(), 0), tuple(grid.size());
  while (true) {
    for (size_t d = 0; d < grid.size(); ++d)
      tuple[d] = grid[d].first + grid[d].step * index[d];
    visit(tuple);
    size_t d = grid.size();
    while (d > 0 && ++index[d - 1] == grid[d - 1].count)
      index[--d] = 0;
    if (d == 0)
      return;
  }
}

} // namespace dt

#endif // DT_PASSES_FAMILIES_H
