//===- PlanBuilder.h - Small plans for tests --------------------*- C++ -*-===//
//
// A brute-force router: finds a holder for every box of every destination
// shard (itself first) and lets all devices exchange in n - 1 shifted waves.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TEST_PLANBUILDER_H
#define DTRT_TEST_PLANBUILDER_H

#include "dtrt/format/PlanReader.h"
#include "dtrt/format/ShardView.h"

#include <random>

namespace dtrt::test {

struct TestPlan {
  PlanCommon common;
  std::vector<RankProgram> programs;

  /// The file, whatever it says; the test ends where it cannot be written down.
  std::string bytes() const;
  PlanReader reader() const;
  /// The file, or why it cannot be written down.
  Result<std::string> encoded() const;
  /// What a file holds, or why its programs cannot be read.
  static Result<TestPlan> from(const PlanReader &reader);
  std::vector<uint32_t> devices() const;
  /// What is wrong with it, as who writes, reads or verifies it first says;
  /// empty: nothing.
  std::string verdict() const;
};

/// What each device holds on one side; index: device.
using Holdings = std::vector<std::vector<ShardRecord>>;

/// Routes, fills the summary and takes device d as rank d of both worlds.
TestPlan makePlan(std::vector<Family> families, const Holdings &source,
                  const Holdings &destination,
                  MemoryMode mode = MemoryMode::Rollback);
/// Recomputes the byte counts of the summary from the programs; its times and
/// bounds are what the verifier says that they are, where the plan is right.
void summarize(TestPlan &plan);
/// Makes the whole summary what the verifier says that it is, where the plan is
/// right but for the summary.
void makeSummaryTrue(TestPlan &plan);
/// Bytes that the hungriest device holds above the larger of both sides.
uint64_t mostAbove(const TestPlan &plan);

Family makeFamily(std::string name, std::vector<LeadingDim> leading,
                  std::vector<int64_t> shape,
                  std::vector<StateInfo> states = {
                      {"param", DType::BF16, DType::BF16}});
/// A shard of all states whose dims are single intervals.
ShardRecord box(uint32_t family, const std::vector<Interval> &dims,
                uint64_t states = 1);

/// TP 4 -> 2 of a GLU-packed weight with two states, four layers, a padded
/// embedding, a ZeRO-ranged state and a replicated scalar.
TestPlan reshapePlan(MemoryMode mode = MemoryMode::Rollback);
/// Device 0 sends to 1, which keeps a copy and passes it on to 2.
TestPlan forwardingPlan();
/// Device 0 has a weight of 4 x 4 in two states, and device 2 wants it: it goes
/// over device 1, the upper half a wave before the lower one. All three keep a
/// vector.
TestPlan relayPlan();
/// In mode rollback, over a library: devices 0 to 2 have a third of a weight of
/// 6 x 4 each, and all of a vector's 5 elements is on device 1; all three want
/// both. The weight is gathered in wave 0, the vector broadcast in wave 1, and
/// in wave 2 a table of 3 x 3 goes from rows to columns.
TestPlan collectivePlan();
/// A master whose device makes its param, or sends it as one; a moment that
/// changes its dtype, gradients that are dropped, and all that a common part
/// may say.
TestPlan derivedPlan();
/// A weight cut by other numbers in other dims before and after.
TestPlan randomPlan(std::mt19937_64 &rng);
/// One of these.
TestPlan anyPlan(std::mt19937_64 &rng);
/// Lets all stay in a flat plan that does not change: it is neither created nor
/// released.
void letStay(TestPlan &plan);
/// Has the copies of a flat plan run beside the groups that follow them.
void copyBeside(TestPlan &plan);
/// Device 0 keeps a square in two states, 4 x 4 elements, with one copy, and
/// gets a vector of 8; device 1 has the vector. In flat memory: the square
/// stays.
TestPlan keptSquare();
/// In mode flat: of six layers in two states, devices 0 and 1 have four and
/// two, and then two and four, half of them cut otherwise. So device 0 keeps
/// two layers of what is not cut, and device 1 two.
TestPlan movedStages();
/// [12, 4], two groups of 4 rows of q, 1 of k and 1 of v, from halves to
/// tensors of their own: q and k on both devices by rows, v, the last group
/// first, on device 1.
TestPlan viewedPlan();
/// The same, with numbers in the names that have no one step, 0 and 5, of its
/// own tensors downwards, 3 and 1, and listed.
TestPlan listedPlan();
/// `viewedPlan`, its own tensors transposed.
TestPlan permutedPlan();
/// And then of one dim.
TestPlan flattenedPlan();
/// `reshapePlan`, its embedding padded with minus infinity.
TestPlan filledPlan(MemoryMode mode = MemoryMode::Rollback);
constexpr uint64_t kTestFill = 0xff80; // in bf16
/// `reshapePlan` in flat memory by tensor; `shared`: all tensors of a state are
/// one storage.
TestPlan planByTensor(bool shared);

/// Instructions of one segment without elements.
Instruction workOf(Opcode op, Side side, uint64_t slot = 0, uint64_t bytes = 0);
Instruction packOf(uint64_t slot, uint64_t bytes, Side side = Side::Source);
Instruction unpackOf(uint64_t slot, uint64_t bytes);
Instruction groupOf(std::vector<Message> messages);
/// The same in another wave.
Instruction inWave(int32_t wave, Instruction instruction);

} // namespace dtrt::test

#endif // DTRT_TEST_PLANBUILDER_H
