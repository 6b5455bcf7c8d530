//===- FlatSchedule.h - Waves and copies of a flat transition ---*- C++ -*-===//

#ifndef DT_PASSES_FLATSCHEDULE_H
#define DT_PASSES_FLATSCHEDULE_H

#include "TransitionInfo.h"

namespace dt {

/// Schedules the transfers of a transition in flat mode so that no device holds
/// more than the staging limit above the larger of its source and destination
/// (FlatOrder.h), and replaces its keeps and copies by copies that say when
/// they are done. Emits a diagnostic with the smallest limit that works.
mlir::LogicalResult scheduleFlat(TransitionInfo &info,
                                 const std::vector<Move> &moves,
                                 const std::vector<Flow> &flows, int64_t effort,
                                 std::vector<ScheduledMove> &best);

/// Says that a transition has more messages than the limit.
mlir::LogicalResult refuseMessages(TransitionOp op);

} // namespace dt

#endif // DT_PASSES_FLATSCHEDULE_H
