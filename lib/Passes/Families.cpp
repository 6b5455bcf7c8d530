//===- Families.cpp - Tensor names into grids of numbers ------------------===//

#include "Families.h"

#include <algorithm>
#include <map>

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

/// Joins slices of equal grids, whatever their values.
std::vector<Grid> joinSlices(const std::vector<Slice> &slices) {
  std::vector<std::vector<const Slice *>> alike;
  std::map<std::vector<Grid>, size_t> known;
  for (const Slice &slice : slices) {
    auto [at, isNew] = known.try_emplace(slice.grids, alike.size());
    if (isNew)
      alike.emplace_back();
    alike[at->second].push_back(&slice);
  }
  std::vector<Grid> out;
  for (const std::vector<const Slice *> &joined : alike) {
    std::vector<int64_t> values;
    for (const Slice *slice : joined)
      values.push_back(slice->value);
    for (const Grid &inner : joined.front()->grids) {
      Grid grid = {values};
      grid.insert(grid.end(), inner.begin(), inner.end());
      out.push_back(std::move(grid));
    }
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
