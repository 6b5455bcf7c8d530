//===- CopyCells.h - Elements that have the same history --------*- C++ -*-===//

#ifndef DTRT_LIB_VERIFY_COPYCELLS_H
#define DTRT_LIB_VERIFY_COPYCELLS_H

#include "CopyHistory.h"

#include <functional>

namespace dtrt {

/// A device has the elements in [begin, end).
struct Presence {
  uint32_t device = 0;
  Moment begin = 0, end = 0;
};

/// Elements that programs bring to a destination and that all have been on the
/// same devices at the same times, in each of these states.
struct CopyCell {
  const int64_t *low = nullptr, *high = nullptr; // as in BoxList
  uint64_t states = 0;
  /// By device, then time; what touches is one.
  const std::vector<Presence> &presences;
};

/// Calls visit(cell) for all elements of a family, each once per state. Ends
/// when there are no steps left.
void forEachCell(const Family &family, const FamilyHistory &history,
                 Steps &steps,
                 const std::function<void(const CopyCell &)> &visit);

/// Its bytes at a destination, in all its states.
int64_t bytesOf(const Family &family, const CopyCell &cell);

/// Fails where the bytes of all tensors are more than can be counted.
Status checkCountable(const PlanCommon &common);

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_COPYCELLS_H
