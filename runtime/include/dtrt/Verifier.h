//===- Verifier.h - Is a plan right? ----------------------------*- C++ -*-===//
//
// Checks a plan as written, knowing nothing of how it was made:
//
//   coverage   every destination element of every state is written exactly
//              once, from a region that its device holds at that moment;
//              destination padding is zeroed
//   pairing    every send meets one receive of equal content in the same wave,
//              at most one message per ordered pair and wave, waves ascending
//   memory     staging ranges in use never overlap, arenas and device peaks
//              stay within their limits, no use before creation or after
//              release
//   summary    the plan's numbers are those of its instructions
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_VERIFIER_H
#define DTRT_VERIFIER_H

#include "dtrt/PlanFile.h"

namespace dtrt {

/// The first fault, with device, instruction and cause. Programs are read one
/// at a time.
Status verifyPlan(const PlanReader &plan);

} // namespace dtrt

#endif // DTRT_VERIFIER_H
