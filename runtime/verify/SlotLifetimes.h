//===- SlotLifetimes.h - Slots in use while groups overlap ------*- C++ -*-===//
//
// An executor may pack what it sends next, and unpack what it received last,
// while a group runs. So a slot is in use longer than program order says:
//
//   packed   from the group before its pack to the last group that sends it
//   received from its group to the group after which its last unpack stands,
//            and during the next one
//   relayed  from the group that receives it to the last one that sends it
//
// but for what is forwarded: what was brought to the destination is unpacked
// before it is read there, so a pack that reads it comes after the unpack and
// not beside the group that brought it, and the unpack not beside a group that
// sends it.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_VERIFY_SLOTLIFETIMES_H
#define DTRT_LIB_VERIFY_SLOTLIFETIMES_H

#include "Steps.h"
#include "dtrt/format/PlanModel.h"

namespace dtrt {

/// Whether slots that are in use at once share no byte. The text of the error
/// starts with the later instruction. Right if the steps are not used up.
Status checkSlotLifetimes(const PlanCommon &common, const RankProgram &program,
                          Steps &steps);

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_SLOTLIFETIMES_H
