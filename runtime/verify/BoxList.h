//===- BoxList.h - Many boxes of one rank -----------------------*- C++ -*-===//

#ifndef DTRT_LIB_VERIFY_BOXLIST_H
#define DTRT_LIB_VERIFY_BOXLIST_H

#include "dtrt/types/DimVector.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtrt {

/// Boxes of one rank, by number: box b is [low(b)[d], high(b)[d]) in dim d.
class BoxList {
public:
  /// All boxes have as many dims as the first.
  void add(const DimVector &offset, const DimVector &size);

  size_t rank() const { return dims; }
  size_t count() const { return boxes; }
  const int64_t *low(size_t box) const { return lows.data() + box * dims; }
  const int64_t *high(size_t box) const { return highs.data() + box * dims; }

  int64_t volume(size_t box) const;
  /// Whether an element is in the box.
  bool holds(size_t box, const int64_t *element) const;
  /// How many elements the box has of [lo, hi).
  int64_t commonVolume(size_t box, const int64_t *lo, const int64_t *hi) const;
  /// The dim in which fewest pairs of the boxes [first, last) overlap, roughly.
  unsigned thinnestDim(const uint32_t *first, const uint32_t *last) const;

private:
  size_t dims = 0, boxes = 0;
  std::vector<int64_t> lows, highs; // `dims` numbers per box
};

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_BOXLIST_H
