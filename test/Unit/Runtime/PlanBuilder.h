//===- PlanBuilder.h - Small plans for tests --------------------*- C++ -*-===//
//
// A brute-force router: finds a holder for every box of every destination
// shard (itself first) and lets all devices exchange in n - 1 shifted waves.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TEST_PLANBUILDER_H
#define DTRT_TEST_PLANBUILDER_H

#include "dtrt/PlanFile.h"
#include "dtrt/ShardView.h"

namespace dtrt::test {

struct TestPlan {
  PlanCommon common;
  std::vector<RankProgram> programs;

  /// The file; the test ends where the writer refuses the plan.
  std::string bytes() const;
  PlanReader reader() const;
  /// The file, or why the writer refuses the plan.
  Result<std::string> encoded() const;
  /// What a file holds, or why its programs cannot be read.
  static Result<TestPlan> from(const PlanReader &reader);
  std::vector<uint32_t> devices() const;
};

/// What each device holds on one side; index: device.
using Holdings = std::vector<std::vector<ShardRecord>>;

/// Routes, fills the summary and takes device d as rank d of both worlds.
TestPlan makePlan(std::vector<Family> families, const Holdings &source,
                  const Holdings &destination,
                  MemoryMode mode = MemoryMode::Rollback);
/// Recomputes the byte counts of the summary from the programs.
void summarize(TestPlan &plan);
/// Bytes that the hungriest device holds above the larger of both sides.
uint64_t mostAbove(const TestPlan &plan);

Family makeFamily(std::string name, std::vector<LeadingDim> leading,
                  std::vector<int64_t> shape,
                  std::vector<StateInfo> states = {
                      {"param", DType::BF16, DType::BF16}});
/// A shard of all states whose dims are single intervals.
ShardRecord box(uint32_t family, const std::vector<Range> &dims,
                uint64_t states = 1);

/// TP 4 -> 2 of a GLU-packed weight with two states, four layers, a padded
/// embedding, a ZeRO-ranged state and a replicated scalar.
TestPlan reshapePlan(MemoryMode mode = MemoryMode::Rollback);
/// Device 0 sends to 1, which keeps a copy and passes it on to 2.
TestPlan forwardingPlan();

} // namespace dtrt::test

#endif // DTRT_TEST_PLANBUILDER_H
