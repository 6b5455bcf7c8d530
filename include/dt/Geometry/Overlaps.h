//===- Overlaps.h - Which boxes of two lists meet ---------------*- C++ -*-===//

#ifndef DT_GEOMETRY_OVERLAPS_H
#define DT_GEOMETRY_OVERLAPS_H

#include "dt/Geometry/Box.h"
#include "dt/Geometry/Limits.h"

#include <optional>
#include <utility>

namespace dt {

/// A read-only list of boxes that may lie inside larger structs.
class BoxList {
public:
  BoxList(const std::vector<Box> &boxes)
      : first(reinterpret_cast<const char *>(boxes.data())),
        stride(sizeof(Box)), count(boxes.size()) {}
  /// The boxes `member` of a list of structs.
  template <class T>
  BoxList(const std::vector<T> &items, Box T::*member)
      : first(items.empty()
                  ? nullptr
                  : reinterpret_cast<const char *>(&(items[0].*member))),
        stride(sizeof(T)), count(items.size()) {}

  const Box &operator[](size_t index) const {
    return *reinterpret_cast<const Box *>(first + index * stride);
  }
  size_t size() const { return count; }

private:
  const char *first;
  size_t stride;
  size_t count;
};

using IndexPair = std::pair<uint32_t, uint32_t>;

/// All (i, j) such that a[i] and b[j] meet, each once, in no given but a
/// deterministic order. No box may be empty. With a limit, as many pairs as it
/// allows, in time that it bounds.
std::vector<IndexPair> overlappingPairs(BoxList a, BoxList b,
                                        WorkLimit *limit = nullptr);

/// Two boxes of a list, i < j, that meet, in n log n for n boxes that do not;
/// nullopt when none do. No box may be empty.
std::optional<IndexPair> firstOverlap(BoxList boxes);

/// The order that sorts `boxes` (Box's operator<); equal boxes keep theirs.
std::vector<uint32_t> sortedOrder(BoxList boxes);

/// The order that sorts the intersections of pairs of boxes.
std::vector<uint32_t> sortedOrder(const std::vector<IndexPair> &pairs,
                                  BoxList a, BoxList b);

} // namespace dt

#endif // DT_GEOMETRY_OVERLAPS_H
