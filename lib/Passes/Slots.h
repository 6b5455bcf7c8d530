//===- Slots.h - Slot tables of waves as messages ---------------*- C++ -*-===//

#ifndef DT_PASSES_SLOTS_H
#define DT_PASSES_SLOTS_H

#include "TransitionInfo.h"
#include "dt/Scheduling/Staging.h"

namespace dt {

/// The messages of a transition whose waves carry slot tables, with the arena
/// bytes of each device. Emits a diagnostic when a message has no slot row.
struct StagedMessages {
  std::vector<Message> messages;
  std::map<int64_t, int64_t> arenaBytes;
};
mlir::FailureOr<StagedMessages>
readSlots(const TransitionInfo &info,
          const std::vector<ScheduledMove> &scheduled);

} // namespace dt

#endif // DT_PASSES_SLOTS_H
