//===- BoxSet.cpp - Which boxes of a shard are written --------------------===//

#include "BoxSet.h"

namespace dtrt {

void BoxSet::add(const DimVector &offset, const DimVector &size,
                 uint32_t instruction) {
  boxes.add(offset, size);
  int64_t boxVolume = 1;
  for (int64_t extent : size)
    if (__builtin_mul_overflow(boxVolume, extent, &boxVolume))
      boxVolume = INT64_MAX;
  // A wrong plan may write the same region any number of times.
  if (__builtin_add_overflow(total, boxVolume, &total))
    total = INT64_MAX;
  instructions.push_back(instruction);
}

bool BoxSet::covers(const DimVector &offset, const DimVector &size,
                    Steps &steps) const {
  auto holds = [&](size_t box) {
    for (size_t dim = 0; dim < offset.size(); ++dim)
      if (boxes.low(box)[dim] > offset[dim] ||
          boxes.high(box)[dim] < offset[dim] + size[dim])
        return false;
    return true;
  };
  starts.grow(boxes);
  for (uint32_t box = starts.first(offset.data(), offset.size());
       box != BoxStarts::kNone && steps.take(); box = starts.next(box))
    if (holds(box))
      return true;
  int64_t wanted = 1;
  std::vector<int64_t> end;
  for (size_t dim = 0; dim < size.size(); ++dim) {
    wanted *= size[dim];
    end.push_back(offset[dim] + size[dim]);
  }
  forest.grow(boxes);
  return forest.commonVolume(boxes, offset.data(), end.data(), wanted, steps) >=
         wanted;
}

} // namespace dtrt
