//===- VerifierTest.cpp - Wrong plans are refused with their cause --------===//
//
// Each test breaks one thing in a right plan and names what the verifier must
// say about it.
//
//===----------------------------------------------------------------------===//

#include "ExpectContains.h"
#include "FirstOf.h"
#include "PlanBuilder.h"

#include "dtrt/format/ShardView.h"
#include "dtrt/verify/Verifier.h"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>

using namespace dtrt;
using namespace dtrt::test;

namespace {

std::string verdict(const TestPlan &plan) {
  Status status = verifyPlan(plan.reader());
  return status.ok() ? "" : status.message();
}

std::string broken(TestPlan plan, const std::function<void(TestPlan &)> &how) {
  how(plan);
  return verdict(plan);
}

void erase(TestPlan &plan, uint32_t device, Opcode op) {
  auto &list = plan.programs[device].instructions;
  list.erase(std::remove_if(list.begin(), list.end(),
                            [&](const Instruction &i) { return i.op == op; }),
             list.end());
}

/// Moves the first instruction of an opcode to the front or the back.
void move(TestPlan &plan, uint32_t device, Opcode op, bool toFront) {
  auto &list = plan.programs[device].instructions;
  Instruction moved = firstOf(plan, device, op);
  list.erase(std::find_if(list.begin(), list.end(),
                          [&](const Instruction &i) { return i.op == op; }));
  list.insert(toFront ? list.begin() : list.end(), moved);
}

} // namespace

TEST(Verifier, AcceptsRightPlans) {
  EXPECT_EQ(verdict(reshapePlan()), "");
  EXPECT_EQ(verdict(reshapePlan(MemoryMode::Flat)), "");
  EXPECT_EQ(verdict(forwardingPlan()), "");
}

TEST(Verifier, SeesAMissingDelivery) {
  std::string text = broken(reshapePlan(), [](TestPlan &plan) {
    auto &segments = firstOf(plan, 0, Opcode::Copy).segments;
    segments.resize(segments.size() - 2);
  });
  expectContains(text, "device 0: ");
  expectContains(text, "elements are written");
}

TEST(Verifier, SeesARegionDeliveredTwice) {
  std::string text = broken(reshapePlan(), [](TestPlan &plan) {
    auto &list = plan.programs[1].instructions;
    list.push_back(firstOf(plan, 1, Opcode::Copy));
  });
  expectContains(text, "device 1: tensor '");
  expectContains(text, "write the same elements");
}

TEST(Verifier, SeesPaddingThatIsNotZeroed) {
  expectContains(broken(reshapePlan(),
                        [](TestPlan &plan) { erase(plan, 1, Opcode::Zero); }),
                 "padding elements are zeroed");
}

TEST(Verifier, SeesDataThatIsZeroed) {
  expectContains(broken(reshapePlan(),
                        [](TestPlan &plan) {
                          Instruction zero;
                          zero.op = Opcode::Zero;
                          zero.segments = {
                              firstOf(plan, 0, Opcode::Copy).segments[1]};
                          plan.programs[0].instructions.push_back(zero);
                        }),
                 "not padding");
}

TEST(Verifier, SeesForwardingBeforeArrival) {
  expectContains(broken(forwardingPlan(),
                        [](TestPlan &plan) {
                          auto &list = plan.programs[1].instructions;
                          std::swap(list[0], list[1]);
                          list[0].wave = 0;
                          list[1].wave = 1;
                        }),
                 "device 1, instruction 0 (group): reads tensor 'w' state "
                 "'param' from the destination before it is written");
}

TEST(Verifier, SeesAMessageWithoutPartner) {
  expectContains(
      broken(forwardingPlan(),
             [](TestPlan &plan) { erase(plan, 0, Opcode::Group); }),
      "receives from device 0 in wave 0, but device 0 does not send");
  expectContains(
      broken(forwardingPlan(),
             [](TestPlan &plan) { plan.programs[2].instructions[0].wave = 2; }),
      "sends to device 2 in wave 1, but device 2 does not receive");
}

TEST(Verifier, SeesUnequalContent) {
  TestPlan plan =
      makePlan({makeFamily("w", {}, {4, 4})}, {{box(0, {{0, 4}, {0, 4}})}, {}},
               {{}, {box(0, {{0, 4}, {0, 4}})}});
  auto halves = [](std::vector<Segment> &segments, bool swapped) {
    Segment low = segments[0];
    low.size[0] = 2;
    Segment high = low;
    high.offset[0] = 2;
    segments = {swapped ? high : low, swapped ? low : high};
  };
  // Cut in two in the same order: the same bytes.
  halves(firstOf(plan, 0, Opcode::Pack).segments, false);
  EXPECT_EQ(verdict(plan), "");
  halves(firstOf(plan, 1, Opcode::Unpack).segments, true);
  expectContains(verdict(plan), "sends other regions");
}

TEST(Verifier, SeesWhatIsUnpackedTwiceInAnyOrder) {
  TestPlan plan =
      makePlan({makeFamily("w", {}, {4, 4})}, {{box(0, {{0, 4}, {0, 4}})}, {}},
               {{}, {box(0, {{0, 4}, {0, 4}})}});
  Instruction low = firstOf(plan, 1, Opcode::Unpack);
  low.bytes /= 2;
  low.segments[0].size[0] = 2;
  Instruction high = low;
  high.slot += low.bytes;
  high.segments[0].offset[0] = 2;
  firstOf(plan, 1, Opcode::Unpack) = high;
  plan.programs[1].instructions.push_back(low);
  EXPECT_EQ(verdict(plan), "");
  for (const Instruction &again : {low, high}) {
    std::string text = broken(plan, [&](TestPlan &copy) {
      copy.programs[1].instructions.push_back(again);
    });
    expectContains(text, "(unpack): unpacks staging bytes [");
    expectContains(text, ") twice");
  }
}

TEST(Verifier, SeesUnequalBytes) {
  TestPlan plan = forwardingPlan();
  Message &message = plan.programs[2].instructions[0].messages[0];
  message.segment.size[0] = 2;
  message.bytes = 16;
  expectContains(verdict(plan), "of 16 elements are written");
  Instruction copy = plan.programs[2].instructions[0];
  copy.wave = 2;
  copy.messages[0].segment.offset[0] = 2;
  plan.programs[2].instructions.push_back(copy);
  expectContains(verdict(plan), "sends 32 bytes, expected 16");
}

TEST(Verifier, SeesTwoMessagesOfAPairInAGroup) {
  expectContains(broken(forwardingPlan(),
                        [](TestPlan &plan) {
                          auto &m = plan.programs[0].instructions[1].messages;
                          m.push_back(m[0]);
                        }),
                 "device 0, instruction 1 (group): sends to device 1 twice");
}

TEST(Verifier, SeesWrongOrderOfStaging) {
  expectContains(broken(reshapePlan(),
                        [](TestPlan &plan) {
                          move(plan, 1, Opcode::Unpack, /*toFront=*/true);
                        }),
                 "(unpack): unpacks staging bytes");
  expectContains(broken(reshapePlan(),
                        [](TestPlan &plan) {
                          move(plan, 1, Opcode::Pack, /*toFront=*/false);
                        }),
                 "(group): sends staging bytes");
}

/// Device 0 brings its own shard to its place through staging, not by a copy.
TEST(Verifier, SeesAnUnpackOfWhatNoMessageBrought) {
  TestPlan plan = forwardingPlan();
  RankProgram &program = plan.programs[0];
  program.stagingBytes = 32;
  Instruction pack = program.instructions[0], unpack = pack;
  pack.op = Opcode::Pack;
  pack.segments.resize(1);
  unpack.op = Opcode::Unpack;
  unpack.segments.erase(unpack.segments.begin());
  pack.bytes = unpack.bytes = 32;
  program.instructions[0] = pack;
  program.instructions.insert(program.instructions.begin() + 1, unpack);
  expectContains(verdict(plan),
                 "device 0, instruction 1 (unpack): unpacks staging bytes [0, "
                 "32) that instruction 0 packed");
}

TEST(Verifier, SeesASlotReusedInFlight) {
  expectContains(broken(reshapePlan(),
                        [](TestPlan &plan) {
                          auto &list = plan.programs[0].instructions;
                          for (size_t i = 0; i < list.size(); ++i)
                            if (list[i].op == Opcode::Pack) {
                              list.insert(list.begin() + i + 1, list[i]);
                              return;
                            }
                        }),
                 "packed, before they are sent");
  expectContains(broken(reshapePlan(),
                        [](TestPlan &plan) {
                          for (uint32_t d = 0; d < 4; ++d)
                            for (auto &i : plan.programs[d].instructions)
                              for (Message &m : i.messages)
                                if (m.receive && i.messages.size() == 2)
                                  m.slot = i.messages[0].slot;
                        }),
                 "is being sent");
}

/// A pack may run while the group before its own does, which sends the slot.
TEST(Verifier, SeesASlotPackedAgainWhileItIsSent) {
  auto third = [](int64_t i) { return box(0, {{0, 4}, {2 * i, 2 * i + 2}}); };
  TestPlan plan = makePlan({makeFamily("w", {}, {4, 6})},
                           {{box(0, {{0, 4}, {0, 6}})}, {}, {}},
                           {{third(0)}, {third(1)}, {third(2)}});
  ASSERT_EQ(verdict(plan), "");
  expectContains(broken(plan,
                        [](TestPlan &plan) {
                          auto &list = plan.programs[0].instructions;
                          int packs = 0, groups = 0;
                          for (Instruction &i : list) {
                            packs += i.op == Opcode::Pack;
                            groups += i.op == Opcode::Group;
                            i.slot = 0;
                            for (Message &m : i.messages)
                              m.slot = 0;
                          }
                          EXPECT_EQ(packs, 2);
                          EXPECT_EQ(groups, 2);
                        }),
                 "is still in flight");
}

TEST(Verifier, SeesUseAfterReleaseAndBeforeCreation) {
  expectContains(broken(reshapePlan(MemoryMode::Flat),
                        [](TestPlan &plan) {
                          move(plan, 2, Opcode::Release, /*toFront=*/true);
                        }),
                 "after its release");
  expectContains(broken(reshapePlan(MemoryMode::Flat),
                        [](TestPlan &plan) {
                          move(plan, 2, Opcode::Create, /*toFront=*/false);
                        }),
                 "before it is created");
}

TestPlan besidePlan() {
  TestPlan plan = reshapePlan(MemoryMode::Flat);
  copyBeside(plan);
  return plan;
}

TEST(Verifier, SeesACopyBesideAGroupThatNeedsItBefore) {
  EXPECT_EQ(verdict(besidePlan()), "");
  auto besideOf = [](TestPlan &plan) -> Instruction & {
    Instruction &copy = firstOf(plan, 2, Opcode::Copy);
    EXPECT_GE(copy.wave, 0);
    return copy;
  };
  // What it reads goes between it and its group.
  auto releaseBetween = [&](TestPlan &plan) {
    auto &all = plan.programs[2].instructions;
    Instruction release = firstOf(plan, 2, Opcode::Release);
    ASSERT_EQ(all.back().op, Opcode::Release);
    all.pop_back();
    auto group = std::find_if(all.begin(), all.end(), [](const auto &i) {
      return i.op == Opcode::Group;
    });
    all.insert(group, release);
  };
  std::string text = broken(besidePlan(), releaseBetween);
  expectContains(text, "(copy): reads tensor");
  expectContains(text, "after its release");
  // Or what its group sends is packed from what it writes.
  expectContains(
      broken(besidePlan(),
             [&](TestPlan &plan) {
               std::vector<Segment> copied = besideOf(plan).segments;
               Instruction &pack = firstOf(plan, 2, Opcode::Pack);
               pack.segments = {copied[1]};
               pack.bytes = segmentBytes(plan.common.families[copied[1].family],
                                         copied[1]);
               pack.slot = 0;
               plan.programs[2].stagingBytes =
                   std::max(plan.programs[2].stagingBytes, pack.bytes);
             }),
      "from the destination before it is written there");
  expectContains(
      broken(besidePlan(), [&](TestPlan &plan) { besideOf(plan).wave += 100; }),
      "beside wave");
  expectContains(
      broken(reshapePlan(),
             [&](TestPlan &plan) { firstOf(plan, 2, Opcode::Copy).wave = 0; }),
      "copies beside a wave in a plan of mode rollback");
}

/// Adds a Release of the first member alone, and takes it out of the last one.
void releaseFirstMember(TestPlan &plan, bool atStart, bool twice) {
  auto &instructions = plan.programs[2].instructions;
  Instruction &last = instructions.back();
  ASSERT_EQ(last.op, Opcode::Release);
  Instruction early = last;
  early.segments.resize(1);
  ASSERT_GT(early.segments[0].size[0], 1);
  if (!twice) {
    ++last.segments[0].offset[0];
    --last.segments[0].size[0];
  }
  early.segments[0].size[0] = 1;
  instructions.insert(atStart ? instructions.begin() : instructions.end(),
                      early);
}

TEST(Verifier, SeesSingleMembersComeAndGo) {
  TestPlan fine = reshapePlan(MemoryMode::Flat);
  releaseFirstMember(fine, /*atStart=*/false, /*twice=*/false);
  Status status = verifyPlan(fine.reader());
  EXPECT_TRUE(status.ok()) << status.message();
  expectContains(
      broken(reshapePlan(MemoryMode::Flat),
             [](TestPlan &plan) { releaseFirstMember(plan, true, false); }),
      "after its release by instruction 0");
  expectContains(
      broken(reshapePlan(MemoryMode::Flat),
             [](TestPlan &plan) { releaseFirstMember(plan, false, true); }),
      "is released twice");
}

TEST(Verifier, TellsMembersOfSeveralLeadingDimsApart) {
  ShardRecord all = box(0, {{0, 2}, {0, 3}, {0, 4}});
  TestPlan plan = makePlan(
      {makeFamily("layers.{}.experts.{}", {{0, 1, 2}, {0, 1, 3}}, {4})},
      {{all}, {}}, {{}, {all}}, MemoryMode::Flat);
  Status status = verifyPlan(plan.reader());
  EXPECT_TRUE(status.ok()) << status.message();
  auto &instructions = plan.programs[0].instructions;
  ASSERT_EQ(instructions.back().op, Opcode::Release);
  Instruction again = instructions.back();
  again.segments.resize(1);
  again.segments[0].offset = {1, 2, 0};
  again.segments[0].size = {1, 1, 4};
  instructions.push_back(again);
  status = verifyPlan(plan.reader());
  ASSERT_FALSE(status.ok());
  expectContains(status.message(), "'layers.1.experts.2'");
  expectContains(status.message(), "is released twice");
}

TEST(Verifier, SeesStorageThatIsNotThere) {
  expectContains(broken(reshapePlan(MemoryMode::Flat),
                        [](TestPlan &plan) {
                          Instruction &release =
                              plan.programs[2].instructions.back();
                          release.segments[0].size[1] += 1;
                        }),
                 "is outside its");
}

/// The second half of the storage of one member comes late, or goes early.
void moveHalf(TestPlan &plan, Opcode op, bool toFront) {
  auto &instructions = plan.programs[2].instructions;
  for (Instruction &instruction : instructions) {
    if (instruction.op != op)
      continue;
    Instruction half = instruction;
    half.segments.resize(1);
    Segment &kept = instruction.segments[0], &moved = half.segments[0];
    size_t dim = plan.common.families[kept.family].numLeading();
    ASSERT_GT(kept.size[dim], 1);
    kept.size[dim] /= 2;
    moved.offset[dim] += kept.size[dim];
    moved.size[dim] -= kept.size[dim];
    instructions.insert(toFront ? instructions.begin() : instructions.end(),
                        half);
    return;
  }
  ADD_FAILURE() << "no " << opcodeName(op);
}

TEST(Verifier, SeesPartsOfStorageComeLateOrGoEarly) {
  expectContains(broken(reshapePlan(MemoryMode::Flat),
                        [](TestPlan &plan) {
                          moveHalf(plan, Opcode::Release, /*toFront=*/true);
                        }),
                 "after its release by instruction 0");
  expectContains(broken(reshapePlan(MemoryMode::Flat),
                        [](TestPlan &plan) {
                          moveHalf(plan, Opcode::Create, /*toFront=*/false);
                        }),
                 "before it is created");
}

TEST(Verifier, SeesPartsOfStorageByTensor) {
  EXPECT_EQ(verdict(planByTensor(/*shared=*/false)), "");
  expectContains(broken(planByTensor(/*shared=*/false),
                        [](TestPlan &plan) {
                          moveHalf(plan, Opcode::Release, /*toFront=*/false);
                        }),
                 "in a plan by tensor");
}

TEST(Verifier, SeesSharedStorageComeOrGoInParts) {
  EXPECT_EQ(verdict(planByTensor(/*shared=*/true)), "");
  // The first member is released alone, with something else in between.
  expectContains(broken(planByTensor(/*shared=*/true),
                        [](TestPlan &plan) {
                          releaseFirstMember(plan, false, false);
                          auto &own = plan.programs[2].instructions;
                          Instruction create;
                          create.op = Opcode::Create;
                          own.insert(own.end() - 1, create);
                        }),
                 "expected nothing else between them");
  expectContains(broken(planByTensor(/*shared=*/true),
                        [](TestPlan &plan) {
                          auto &last = plan.programs[2].instructions.back();
                          ASSERT_EQ(last.op, Opcode::Release);
                          ASSERT_GT(last.segments[0].size[0], 1);
                          --last.segments[0].size[0];
                        }),
                 "is released in part");
}

TEST(Verifier, SeesMoreHeldThanFlatModeAllows) {
  // Everything is created at the start, so source and destination are held.
  expectContains(broken(reshapePlan(MemoryMode::Flat),
                        [](TestPlan &plan) {
                          PlanSummary &summary = plan.common.summary;
                          summary.stagingLimit = summary.stagingPeak;
                        }),
                 "bytes above the larger of source and destination, more than "
                 "the limit of");
}

TEST(Verifier, SeesBrokenLimits) {
  expectContains(
      broken(reshapePlan(),
             [](TestPlan &plan) { plan.common.summary.stagingLimit = 16; }),
      "of staging, more than the limit of 16");
  expectContains(
      broken(reshapePlan(),
             [](TestPlan &plan) { plan.common.summary.deviceLimit = 100; }),
      "of memory, more than the limit of 100");
  expectContains(
      broken(reshapePlan(),
             [](TestPlan &plan) { plan.programs[1].stagingBytes += 1 << 16; }),
      "staging arena has");
}

/// Device 0 holds 32 bytes before and after.
TEST(Verifier, SeesAPeakAboveTheLimitAndAPeakThatIsNone) {
  TestPlan plan = forwardingPlan();
  plan.common.summary.devicePeak = plan.common.summary.deviceLimit = 64;
  EXPECT_EQ(verdict(plan), "");
  plan.common.summary.deviceLimit = 63;
  expectContains(verdict(plan),
                 "needs 64 bytes of memory, more than the limit of 63");
  plan.common.summary.deviceLimit = 0;
  for (uint64_t stated : {63, 65}) {
    plan.common.summary.devicePeak = stated;
    EXPECT_EQ(verdict(plan), "summary says " + std::to_string(stated) +
                                 " device peak, the programs have 64");
  }
}

TEST(Verifier, SeesAFalseSummary) {
  expectContains(
      broken(reshapePlan(),
             [](TestPlan &plan) { ++plan.common.summary.bytesWire; }),
      "wire bytes, the programs have");
  expectContains(broken(reshapePlan(),
                        [](TestPlan &plan) { ++plan.common.summary.waves; }),
                 "waves, the programs have");
}

TEST(Verifier, CountsMulticasts) {
  auto claim = [](uint64_t multicasts) {
    return [=](TestPlan &plan) { plan.common.summary.multicasts = multicasts; };
  };
  expectContains(broken(forwardingPlan(), claim(0)),
                 "summary says 0 multicasts, the programs have 1");
  expectContains(broken(forwardingPlan(), claim(2)),
                 "summary says 2 multicasts, the programs have 1");
  expectContains(broken(reshapePlan(), claim(1)),
                 "summary says 1 multicasts, the programs have 0");
}

TEST(Verifier, CountsAMulticastBySharedDevices) {
  // The lower half goes on as before, the upper half from 0 to both: no
  // receiver passes that on.
  TestPlan plan = forwardingPlan();
  Message &onward = plan.programs[1].instructions[1].messages.front();
  onward.segment.size[0] = 2;
  onward.bytes = 16;
  Message &arriving = plan.programs[2].instructions[0].messages.front();
  arriving.segment.size[0] = 2;
  arriving.bytes = 16;
  Message rest = plan.programs[0].instructions[1].messages.front();
  rest.peer = 2;
  rest.bytes = 16;
  rest.segment.offset[0] = rest.segment.size[0] = 2;
  plan.programs[0].instructions[1].messages.push_back(rest);
  rest.receive = true;
  rest.peer = 0;
  rest.segment.side = Side::Destination;
  Instruction group = plan.programs[2].instructions[0];
  group.wave = 0;
  group.messages = {rest};
  auto &program = plan.programs[2].instructions;
  program.insert(program.begin(), group);
  summarize(plan);
  plan.common.summary.multicasts = 1;
  EXPECT_EQ(verdict(plan), "");
}

TEST(Verifier, SeesAMissingProgram) {
  expectContains(broken(forwardingPlan(),
                        [](TestPlan &plan) {
                          plan.common.sourceDevices.push_back(9);
                          plan.common.sourceWorld = 4;
                        }),
                 "device 9 is in a world of the plan but has no program");
}
