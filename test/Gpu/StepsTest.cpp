//===- StepsTest.cpp - What a step of a program waits for -----------------===//

#include "FirstOf.h"
#include "GpuSteps.h"

#include <gtest/gtest.h>

using namespace dtrt;
using namespace dtrt::test;

namespace {

/// The steps of a device's program, whatever it says.
std::vector<GpuStep> stepsOn(const TestPlan &plan, uint32_t device) {
  auto storage = ArenaStorage::allocate(plan.common, plan.programs[device]);
  EXPECT_TRUE(storage.ok()) << storage.status().message();
  std::vector<std::byte> arena(plan.programs[device].stagingBytes);
  auto steps = stepsOf(**storage, arena.data(), {});
  EXPECT_TRUE(steps.ok()) << steps.status().message();
  return std::move(steps->list);
}

/// A program's staging and its first message, unpacked behind its group.
void receiveByStaging(RankProgram &program) {
  Message &message = program.instructions.front().messages.front();
  Instruction unpack;
  unpack.op = Opcode::Unpack;
  unpack.bytes = message.bytes;
  unpack.segments = {message.segment};
  message.direct = false;
  program.stagingBytes = message.bytes;
  program.instructions.insert(program.instructions.begin() + 1, unpack);
}

} // namespace

TEST(GpuSteps, AGroupThatSendsFromATensorWaitsForWhatIsUnpackedThere) {
  TestPlan plan = forwardingPlan();
  receiveByStaging(plan.programs[1]);
  std::vector<GpuStep> steps = stepsOn(plan, 1);
  ASSERT_EQ(steps.size(), 3u); // receives, unpacks, passes on
  EXPECT_EQ(steps[1].after[size_t(Lane::Wire)], 0u);
  EXPECT_EQ(steps[2].after[size_t(Lane::Unpacking)], 1u);
}

TEST(GpuSteps, LaunchesJoinThatShareNoStagingByte) {
  TestPlan plan = reshapePlan();
  auto &list = plan.programs[0].instructions;
  Instruction pack = firstOf(plan, 0, Opcode::Pack);
  for (bool shares : {false, true}) {
    Instruction next = pack;
    next.slot = shares ? pack.slot + pack.bytes / 2 : pack.slot + pack.bytes;
    list = {pack, next};
    plan.programs[0].stagingBytes = pack.slot + 2 * pack.bytes;
    EXPECT_EQ(stepsOn(plan, 0).size(), shares ? 2u : 1u);
  }
}
