//===- Families.h - Tensor names into grids of numbers ----------*- C++ -*-===//
//
// Trainers name tensors by number: `layers.17.experts.weight3`. Tensors whose
// names differ only in numbers, and whose numbers fill a grid, form one family;
// its leading dims are the numbers that vary.
//
//   layers.{0,1,2}.w          -> layers.{}.w, one dim
//   layers.{1,3}.e{0,1,2}     -> layers.{}.e{}, two dims
//   layers.{0,1,2,4,5,6,8}.w  -> layers.{}.w, one dim
//   {0.a0, 0.a1, 1.a0}        -> two grids: 0.a{0,1} and 1.a0
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

/// The values of each number of the name, outermost number first: all their
/// combinations.
using Grid = std::vector<std::vector<int64_t>>;

/// How far a value of the members of a grid lies from the first's along each
/// dim of `counts`, if it is a sum of what each dim adds. valueOf(i) is that of
/// member i, row-major.
template <typename ValueOf>
std::optional<std::vector<std::vector<int64_t>>>
offsetsAlongDims(const std::vector<int64_t> &counts, ValueOf valueOf) {
  std::vector<size_t> strides(counts.size());
  size_t members = 1;
  for (size_t d = counts.size(); d-- > 0; members *= size_t(counts[d]))
    strides[d] = members;
  const int64_t first = valueOf(0);
  std::vector<std::vector<int64_t>> offsets(counts.size());
  for (size_t d = 0; d < counts.size(); ++d)
    for (size_t i = 0; i < size_t(counts[d]); ++i)
      offsets[d].push_back(valueOf(i * strides[d]) - first);
  for (size_t i = 0; i < members; ++i) {
    int64_t expected = first;
    for (size_t d = 0; d < counts.size(); ++d)
      expected += offsets[d][i / strides[d] % size_t(counts[d])];
    if (valueOf(i) != expected)
      return std::nullopt;
  }
  return offsets;
}

/// Layers that lie in turns come again after at most so many: 2 to 8 in the
/// models of today.
constexpr int64_t kMaxPeriod = 16;

/// The first `length` of some values in a row, dealt out in `period` turns. One
/// has all of them where they are alike.
struct Stretch {
  int64_t period = 1;
  int64_t length = 1;
  /// How many of the values are in turn `turn`.
  int64_t countOf(int64_t turn) const {
    return (length - turn + period - 1) / period;
  }
};

/// The stretch of up to `count` values with the most values per turn; of those
/// that are equal the one with the fewest. holds(stretch) says whether each
/// turn of one is a family: of the first `period` values it is true, and what
/// holds of a stretch holds of all that are shorter. Asks for stretches at most
/// twice as long as one that holds.
template <typename Holds> Stretch longestStretch(int64_t count, Holds holds) {
  Stretch best;
  for (int64_t period = 1; period <= std::min(kMaxPeriod, count); ++period) {
    if (best.length * period >= count * best.period)
      break; // all of them would be no more for each turn
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
  std::vector<size_t> index(grid.size(), 0);
  std::vector<int64_t> tuple(grid.size());
  while (true) {
    for (size_t d = 0; d < grid.size(); ++d)
      tuple[d] = grid[d][index[d]];
    visit(tuple);
    size_t d = grid.size();
    while (d > 0 && ++index[d - 1] == grid[d - 1].size())
      index[--d] = 0;
    if (d == 0)
      return;
  }
}

} // namespace dt

#endif // DT_PASSES_FAMILIES_H
