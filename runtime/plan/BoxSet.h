//===- BoxSet.h - Which boxes of a shard are written ------------*- C++ -*-===//

#ifndef DTRT_LIB_PLAN_BOXSET_H
#define DTRT_LIB_PLAN_BOXSET_H

#include "BoxForest.h"
#include "BoxStarts.h"

#include "dtrt/PlanModel.h"

#include <utility>

namespace dtrt {

/// Boxes of one rank, each with the index of the instruction that wrote it.
class BoxSet {
public:
  void add(const std::vector<int64_t> &offset, const std::vector<int64_t> &size,
           uint32_t instruction);

  /// Sum of the boxes' volumes; that of their union when they are disjoint.
  int64_t volume() const { return total; }
  size_t count() const { return instructions.size(); }
  uint32_t instruction(size_t box) const { return instructions[box]; }
  const int64_t *offset(size_t box) const { return boxes.low(box); }

  /// Two boxes that overlap, if any do.
  std::optional<std::pair<size_t, size_t>> findOverlap() const;

  /// Whether the union holds the box; right only if the set is disjoint.
  bool covers(const std::vector<int64_t> &offset,
              const std::vector<int64_t> &size) const;

private:
  using Items = std::vector<uint32_t>;
  std::optional<std::pair<size_t, size_t>> sweep(Items items,
                                                 unsigned dim) const;
  std::optional<std::pair<size_t, size_t>> sweepPairs(const Items &items,
                                                      unsigned dim) const;

  BoxList boxes;
  BoxStarts starts;         // most reads are of exactly one box
  mutable BoxForest forest; // of `boxes`, as far as it was needed
  int64_t total = 0;
  std::vector<uint32_t> instructions;
};

} // namespace dtrt

#endif // DTRT_LIB_PLAN_BOXSET_H
