//===- Families.cpp - Tensor names into grids of numbers ------------------===//

#include "Families.h"

#include <algorithm>

using namespace dt;

std::string NumberedName::pattern() const {
  std::string out = text.front();
  for (size_t i = 1; i < text.size(); ++i)
    out += "{}" + text[i];
  return out;
}

NumberedName dt::splitNumbers(const std::string &name) {
  // Longer digit runs than this could overflow; they stay text.
  constexpr size_t kMaxDigits = 18;
  NumberedName out;
  std::string text;
  auto runEnd = [&](size_t i, bool digits) {
    while (i < name.size() && (name[i] >= '0' && name[i] <= '9') == digits)
      ++i;
    return i;
  };
  for (size_t i = 0; i < name.size();) {
    size_t first = runEnd(i, false), end = runEnd(first, true);
    text.append(name, i, first - i);
    i = end;
    if (first == end)
      break;
    std::string digits = name.substr(first, end - first);
    bool printsBack = digits.size() == 1 || digits[0] != '0';
    if (!printsBack || digits.size() > kMaxDigits) {
      text += digits;
      continue;
    }
    out.text.push_back(text);
    out.numbers.push_back(std::stoll(digits));
    text.clear();
  }
  out.text.push_back(text);
  return out;
}

namespace {

using Tuple = std::vector<int64_t>;
using Iterator = std::vector<Tuple>::const_iterator;

/// One value of the current number with the grids of the numbers behind it.
struct Slice {
  int64_t value;
  std::vector<Grid> grids;
};

/// Those of `slices` from `first` on that are a progression's, in turns.
Progression progressionOf(const Slice *first, Stretch stretch, int64_t turn) {
  Progression out{first[turn].value, 1, stretch.countOf(turn)};
  if (out.count > 1)
    out.step = first[turn + stretch.period].value - out.first;
  return out;
}

/// Whether the slices of each progression are alike, and their values are its.
bool areProgressions(const Slice *first, Stretch stretch) {
  for (int64_t i = stretch.period; i < stretch.length; ++i) {
    int64_t turn = i % stretch.period;
    Progression run = progressionOf(first, stretch, turn);
    if (first[i].value != run.first + run.step * (i / stretch.period) ||
        first[i].grids != first[turn].grids)
      return false;
  }
  return true;
}

/// Joins slices of equal grids whose values form progressions.
std::vector<Grid> joinSlices(const std::vector<Slice> &slices) {
  std::vector<Grid> out;
  for (size_t i = 0; i < slices.size();) {
    const Slice *first = &slices[i];
    Stretch stretch =
        longestStretch(int64_t(slices.size() - i), [&](Stretch longer) {
          return areProgressions(first, longer);
        });
    for (int64_t turn = 0; turn < stretch.period; ++turn)
      for (const Grid &inner : first[turn].grids) {
        Grid grid = {progressionOf(first, stretch, turn)};
        grid.insert(grid.end(), inner.begin(), inner.end());
        out.push_back(grid);
      }
    i += size_t(stretch.length);
  }
  return out;
}

/// Tuples in [begin, end) are sorted and agree before `position`.
std::vector<Grid> cover(Iterator begin, Iterator end, size_t position) {
  if (position == begin->size())
    return {Grid()};
  std::vector<Slice> slices;
  while (begin != end) {
    int64_t value = (*begin)[position];
    Iterator next = std::find_if(begin, end, [&](const Tuple &tuple) {
      return tuple[position] != value;
    });
    slices.push_back({value, cover(begin, next, position + 1)});
    begin = next;
  }
  return joinSlices(slices);
}

} // namespace

std::vector<Grid> dt::coverWithGrids(std::vector<std::vector<int64_t>> tuples) {
  if (tuples.empty())
    return {};
  std::sort(tuples.begin(), tuples.end());
  return cover(tuples.begin(), tuples.end(), 0);
}
