//===- MemberOverlaps.cpp - Which ranges of storage meet ------------------===//

#include "MemberOverlaps.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace dt {

namespace {

/// Boxes name so many members on average at most: of more, a box is less than
/// its members.
constexpr int64_t kFewMembers = 2;
/// Lookups pass so many parts for each box and pair at most: behind a long
/// part, one passes all that the long one spans.
constexpr size_t kPassedPerBox = 64;

/// The part of a box that one member has.
struct Part {
  int64_t member = 0;
  Interval elements;
  uint32_t box = 0;
  int64_t reach = 0; // the largest end of those before it, and its own
};

/// The members of boxes, numbered row-major.
class Members {
public:
  Members(BoxList a, BoxList b) : extents(a[0].rank() - 1, 0) {
    for (BoxList boxes : {a, b})
      for (size_t i = 0; i < boxes.size(); ++i)
        note(boxes[i]);
    isFew &= total <= kFewMembers * int64_t(a.size() + b.size());
  }
  bool areFew() const { return isFew; }

  /// Calls fn(member) for all of a box.
  template <typename Fn>
  void forEach(const Box &box, Fn fn, size_t dim = 0, int64_t first = 0) const {
    if (dim == extents.size())
      return fn(first);
    for (int64_t i = box[dim].lo; i < box[dim].hi; ++i)
      forEach(box, fn, dim + 1, first * extents[dim] + i);
  }

private:
  void note(const Box &box) {
    int64_t count = 1, all = 1;
    for (size_t dim = 0; dim < extents.size(); ++dim) {
      extents[dim] = std::max(extents[dim], box[dim].hi);
      isFew &= box[dim].lo >= 0 && !box[dim].empty() &&
               !__builtin_mul_overflow(count, box[dim].size(), &count) &&
               !__builtin_mul_overflow(all, extents[dim], &all);
    }
    isFew &= !__builtin_add_overflow(total, count, &total);
  }

  std::vector<int64_t> extents; // of the leading dims
  int64_t total = 0;            // over all boxes
  bool isFew = true;            // and none is too large to be numbered
};

/// By member, then as they begin.
std::vector<Part> partsOf(BoxList boxes, const Members &members) {
  std::vector<Part> parts;
  for (uint32_t i = 0; i < boxes.size(); ++i) {
    Interval elements = boxes[i][boxes[i].rank() - 1];
    members.forEach(boxes[i], [&](int64_t member) {
      parts.push_back({member, elements, i, elements.hi});
    });
  }
  std::sort(parts.begin(), parts.end(), [](const Part &x, const Part &y) {
    return std::tie(x.member, x.elements.lo, x.box) <
           std::tie(y.member, y.elements.lo, y.box);
  });
  for (size_t i = 1; i < parts.size(); ++i)
    if (parts[i].member == parts[i - 1].member)
      parts[i].reach = std::max(parts[i].reach, parts[i - 1].reach);
  return parts;
}

/// None where too many parts are passed.
std::optional<std::vector<IndexPair>>
lookUp(BoxList a, BoxList b, const Members &members, WorkLimit &limit) {
  const std::vector<Part> parts = partsOf(a, members);
  std::vector<IndexPair> out;
  size_t passed = 0;
  auto isTooMuch = [&] {
    return passed > kPassedPerBox * (a.size() + b.size() + out.size());
  };
  for (uint32_t i = 0; i < b.size() && !limit.isExceeded(); ++i) {
    Interval elements = b[i][b[i].rank() - 1];
    members.forEach(b[i], [&](int64_t member) {
      auto part = std::partition_point(
          parts.begin(), parts.end(), [&](const Part &before) {
            return before.member < member ||
                   (before.member == member && before.reach <= elements.lo);
          });
      for (; part != parts.end() && part->member == member &&
             part->elements.lo < elements.hi && !isTooMuch();
           ++part, ++passed)
        if (!intersect(part->elements, elements).empty() && limit.take())
          out.push_back({part->box, i});
    });
    if (isTooMuch())
      return std::nullopt;
  }
  return out;
}

} // namespace

std::vector<IndexPair> memberOverlaps(BoxList a, BoxList b, WorkLimit &limit) {
  if (a.size() == 0 || b.size() == 0)
    return {};
  Members members(a, b);
  if (members.areFew()) {
    WorkLimit own = limit;
    if (auto found = lookUp(a, b, members, own)) {
      limit = own;
      return std::move(*found);
    }
  }
  return overlappingPairs(a, b, &limit);
}

bool areApart(BoxList boxes) {
  if (boxes.size() == 0)
    return true;
  Members members(boxes, boxes);
  if (!members.areFew())
    return false;
  const std::vector<Part> parts = partsOf(boxes, members);
  for (size_t i = 1; i < parts.size(); ++i)
    if (parts[i].member == parts[i - 1].member &&
        parts[i].elements.lo < parts[i - 1].elements.hi)
      return false;
  return true;
}

} // namespace dt
