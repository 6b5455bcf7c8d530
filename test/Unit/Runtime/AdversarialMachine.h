//===- AdversarialMachine.h - Whole plans under the worst order -*- C++ -*-===//
//
// Runs all programs of a plan with real bytes, without threads, in an order
// that the rules allow and that hurts most: packs a group early, unpacks a
// group late, groups taken apart as NCCL does it and cut at random places
// (KernelPlans.h), ranks delayed at random, nothing buffered. Every byte of
// staging and of the shards has a state, so that what would be a race is an
// error and not a matter of luck.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TEST_ADVERSARIALMACHINE_H
#define DTRT_TEST_ADVERSARIALMACHINE_H

#include "dtrt/cost/KernelPlans.h"
#include "dtrt/format/PlanReader.h"

namespace dtrt::test {

/// One run. An error starts with "stuck:" when ranks wait for ever, or with
/// "corrupt:" when staging in flight is overwritten, a source is read after its
/// release, or a destination byte does not arrive once and right.
/// `perNode`: ranks of a node; ranks are the devices in ascending order.
Status runOnMachine(const PlanReader &plan, uint32_t perNode,
                    const Adversary &adversary, uint64_t seed);

/// A random adversary: how often it cuts, how many works go together, and
/// which order follows a cut.
Adversary randomAdversary(std::mt19937_64 &rng);

} // namespace dtrt::test

#endif // DTRT_TEST_ADVERSARIALMACHINE_H
