//===- Verifier.h - Is a plan right? ----------------------------*- C++ -*-===//
//
// Checks a plan as written, knowing nothing of how it was made:
//
//   coverage   every destination element of every state is written exactly
//              once, from a region that its device holds at that moment;
//              destination padding is zeroed
//   pairing    every send meets one receive of equal content in the same wave,
//              at most one message per ordered pair and wave, waves ascending
//   ports      in a wave a device sends one message and receives one at most
//              over its NIC, and likewise inside its node; devices that share
//              a NIC share this
//   memory     staging ranges in use never overlap, arenas and device peaks
//              stay within their limits, no use before creation or after
//              release; in flat mode no device holds more than the staging
//              limit above the larger of its source and destination
//   layouts    the destination has all of every tensor whose state it has, the
//              source all that it should have; no two tensors have one name,
//              every rank of a world has its program
//   summary    the plan's numbers are those of its instructions, its times and
//              lower bounds those that follow from its waves, its layouts and
//              its cluster; what is passed on is looked up in a second look
//
// Time grows as the plan does, but for sorting. What a hostile plan could make
// longer is counted, and refused beyond thousands of steps per instruction.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_VERIFY_VERIFIER_H
#define DTRT_VERIFY_VERIFIER_H

#include "dtrt/format/PlanReader.h"
#include "dtrt/verify/VerifiedPrograms.h"

#include <functional>

namespace dtrt {

/// Of what is checked below: one more whenever that changes.
constexpr const char *kVerifierVersion = "3";

/// What a right plan was found to do.
struct VerifiedPlan {
  /// Most bytes that a device holds above the larger of its source and its
  /// destination. In flat mode no more than the staging limit.
  uint64_t mostAbove = 0;
};

/// Looks at a program that is right by itself, and may refuse it. Several
/// threads may look at once.
using ProgramVisitor = std::function<Status(const RankProgram &)>;

struct MeasureOptions {
  /// Sees the ranks and shards of every program.
  ProgramVisitor visit = nullptr;
  /// Programs that this process has found right before, as they are stored, for
  /// plans like this one; null: none. What was found is taken from there.
  VerifiedPrograms *known = nullptr;
  /// Whether what is found now is added there, in the place of what was known
  /// of the same devices.
  bool replacesKnown = true;
  /// What the programs need, once all are right; null: nobody asks.
  FeatureSet *features = nullptr;
  /// The highest wave that something is sent in, once all are right; -1: in
  /// none. Null: nobody asks.
  int32_t *lastWave = nullptr;
};

/// The summary that a plan should have: checks all but the one it has, and what
/// the options say. Mode, limits and what is said to be proved are taken from
/// there.
Result<PlanSummary> measurePlan(const PlanReader &plan,
                                const MeasureOptions &options = {});

/// The first fault, with device, instruction and cause. Programs are read one
/// at a time. Fills `facts` when there is none, and adds the programs to
/// `known`.
Status verifyPlan(const PlanReader &plan, VerifiedPlan *facts = nullptr,
                  VerifiedPrograms *known = nullptr);

/// What is wrong with one program, and the instruction where it shows;
/// UINT32_MAX where none does.
struct ProgramFault {
  Status status;
  uint32_t instruction = UINT32_MAX;
};

/// All that `verifyPlan` checks of a program by itself: bounds, coverage,
/// memory, staging. The program need not be of a file; `common` must have the
/// families, worlds and cluster of its plan.
ProgramFault verifyProgram(const PlanCommon &common,
                           const RankProgram &program);

} // namespace dtrt

#endif // DTRT_VERIFY_VERIFIER_H
