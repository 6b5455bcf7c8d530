//===- SlotLifetimes.h - Slots in use while groups overlap ------*- C++ -*-===//
//
// An executor may pack what it sends next, and unpack what it received last,
// while a group runs. So a slot is in use longer than program order says:
//
//   packed   from the group before its pack to the last group that sends it
//   received from its group to the group after which its last unpack stands,
//            and during the next one
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_PLAN_SLOTLIFETIMES_H
#define DTRT_LIB_PLAN_SLOTLIFETIMES_H

#include "dtrt/PlanModel.h"
#include "dtrt/Status.h"

namespace dtrt {

/// Whether slots that are in use at once share no byte. The text of the error
/// starts with the later instruction.
Status checkSlotLifetimes(const RankProgram &program);

} // namespace dtrt

#endif // DTRT_LIB_PLAN_SLOTLIFETIMES_H
