//===- GpuPlans.h - Plans as the compiler makes them ------------*- C++ -*-===//
//
// Small plans with what PlanBuilder's have not: slots that waves use in turns,
// messages that go straight from or to a tensor, at one end or both, and memory
// that comes and goes piece by piece.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TEST_GPUPLANS_H
#define DTRT_TEST_GPUPLANS_H

#include "PlanBuilder.h"

namespace dtrt::test {

/// A message that is one run of bytes in a shard goes without staging there.
void makeDirect(TestPlan &plan);
/// Four areas per device, {send, receive} x {even, odd group}, each used again
/// by every other group.
void reuseSlots(TestPlan &plan);

/// The plan in mode flat: storage comes in pieces of so many bytes, each when
/// it is first written, and goes when it has last been read.
void makeFlat(TestPlan &plan, int64_t bytes);

/// One bf16 weight, cut by rows and then by columns, on two devices: each sends
/// out of staging into the other's tensor.
TestPlan rowsToColumnsPlan(int64_t rows = 256, int64_t columns = 192);
/// One bf16 weight that device 0 has; device 1 gets half of its columns, out of
/// staging into its tensor.
TestPlan columnsFromOnePlan();
/// Every device to every other in four waves, two states, f32 made bf16 on the
/// way; slots used again by every other wave.
TestPlan wavesPlan(int64_t rows = 60, int64_t columns = 85);
/// Four devices whose messages are staged at both ends, at one, or at none.
TestPlan mixedPlan();

} // namespace dtrt::test

#endif // DTRT_TEST_GPUPLANS_H
