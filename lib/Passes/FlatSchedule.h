//===- FlatSchedule.h - Waves and copies of a flat transition ---*- C++ -*-===//

#ifndef DT_PASSES_FLATSCHEDULE_H
#define DT_PASSES_FLATSCHEDULE_H

#include "TransportReading.h"

namespace dt {

/// Copies in the order in which they are done: each before wave
/// `copies[i].before`, and those of one step in any order.
struct FlatCopies {
  std::vector<LocalMove> copies;
  std::vector<uint32_t> steps; // ascending
};

/// Schedules the transfers of a transition in flat mode so that no device holds
/// more than the staging limit above the larger of its source and destination
/// (FlatOrder.h), with its keeps and copies among them. Emits a diagnostic with
/// the smallest limit that works.
mlir::LogicalResult scheduleFlat(const TransitionReading &reading,
                                 const std::vector<Move> &moves,
                                 const std::vector<Flow> &flows, int64_t effort,
                                 std::vector<ScheduledMove> &best,
                                 FlatCopies &copies);

/// Writes the copies from `first` on that are done before `wave`, one op per
/// step and flow. Returns the first that is not.
size_t writeCopies(const TransitionInfo &info, const FlatCopies &copies,
                   size_t first, int32_t wave, mlir::OpBuilder &builder);

} // namespace dt

#endif // DT_PASSES_FLATSCHEDULE_H
