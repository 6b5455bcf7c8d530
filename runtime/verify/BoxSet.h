//===- BoxSet.h - Which boxes of a shard are written ------------*- C++ -*-===//

#ifndef DTRT_LIB_VERIFY_BOXSET_H
#define DTRT_LIB_VERIFY_BOXSET_H

#include "BoxForest.h"
#include "BoxStarts.h"

namespace dtrt {

/// Boxes of one rank, each with the index of the instruction that wrote it.
class BoxSet {
public:
  void add(const DimVector &offset, const DimVector &size,
           uint32_t instruction);

  /// Sum of the boxes' volumes; that of their union when they are disjoint.
  int64_t volume() const { return total; }
  const BoxList &list() const { return boxes; }
  uint32_t instruction(size_t box) const { return instructions[box]; }

  /// Whether the union holds the box; right only if the set is disjoint, and if
  /// the steps are not used up.
  bool covers(const DimVector &offset, const DimVector &size,
              Steps &steps) const;

private:
  BoxList boxes;
  // Of `boxes`, as far as they were needed: much is written and never read.
  mutable BoxStarts starts; // most reads are of exactly one box
  mutable BoxForest forest;
  int64_t total = 0;
  std::vector<uint32_t> instructions;
};

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_BOXSET_H
