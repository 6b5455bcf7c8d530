//===- BoxStarts.h - Boxes by where they start ------------------*- C++ -*-===//

#ifndef DTRT_LIB_VERIFY_BOXSTARTS_H
#define DTRT_LIB_VERIFY_BOXSTARTS_H

#include "BoxList.h"

namespace dtrt {

/// A hash table of the boxes of a list, without an allocation each.
class BoxStarts {
public:
  static constexpr uint32_t kNone = UINT32_MAX;

  /// Takes in what the list, which only grows, has got since the last time.
  void grow(const BoxList &list);

  /// Boxes that may start at `place`: all that do, and few others; kNone ends.
  uint32_t first(const int64_t *place, size_t rank) const {
    return heads.empty() ? kNone : heads[bucketOf(place, rank)];
  }
  uint32_t next(uint32_t box) const { return nexts[box]; }

private:
  size_t bucketOf(const int64_t *place, size_t rank) const;
  void link(const BoxList &list, uint32_t box);

  std::vector<uint32_t> heads; // a power of two, at least as many as boxes
  std::vector<uint32_t> nexts; // by box
};

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_BOXSTARTS_H
