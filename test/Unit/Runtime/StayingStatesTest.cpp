//===- StayingStatesTest.cpp - Storage that is the same before and after --===//

#include "FirstOf.h"
#include "PlanBuilder.h"

#include "dtrt/core/ArenaStorage.h"
#include "dtrt/format/Features.h"
#include "dtrt/format/StayingStates.h"
#include "dtrt/verify/Verifier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

using namespace dtrt;
using namespace dtrt::test;

namespace {

constexpr uint64_t kParam = 16 * 2, kMaster = 16 * 4; // bytes

/// What stays on device 0 when something is changed.
uint64_t bytesAfter(const std::function<void(TestPlan &)> &change) {
  TestPlan plan = keptSquare();
  change(plan);
  return stayingBytes(plan.common, plan.programs[0]);
}

Instruction &copyOf(TestPlan &plan) { return firstOf(plan, 0, Opcode::Copy); }

/// An instruction that names all storage of the square in some states.
void addLifetime(TestPlan &plan, Opcode op, uint64_t states) {
  Instruction instruction;
  instruction.op = op;
  Side side = op == Opcode::Create ? Side::Destination : Side::Source;
  instruction.segments =
      wholeStorage(plan.common.families[0],
                   side == Side::Source ? plan.programs[0].source[0]
                                        : plan.programs[0].destination[0],
                   side, 0);
  instruction.segments[0].states = states;
  plan.programs[0].instructions.push_back(instruction);
}

} // namespace

TEST(StayingStates, AreNoViews) {
  // One number is two views: each side has its own.
  EXPECT_EQ(bytesAfter([](TestPlan &plan) {
              plan.programs[0].source[0].view = 0;
              plan.programs[0].destination[0].view = 0;
            }),
            0u);
}

TEST(StayingStates, ExistOnce) {
  TestPlan plan = keptSquare();
  std::vector<StayingState> stay = stayingStates(plan.common, plan.programs[0]);
  ASSERT_EQ(stay.size(), 2u);
  for (unsigned state : {0u, 1u}) {
    EXPECT_EQ(stay[state].source, 0u);
    EXPECT_EQ(stay[state].destination, 0u);
    EXPECT_EQ(stay[state].state, state);
  }
  EXPECT_EQ(bytesAfter([](TestPlan &) {}), kParam + kMaster);
  EXPECT_EQ(plan.common.summary.bytesInPlace, kParam + kMaster);
  // The vector comes beside it, and is staged nowhere.
  EXPECT_EQ(peakBytes(plan.common, plan.programs[0]) -
                plan.programs[0].stagingBytes,
            kParam + kMaster + 16);
  auto verified = verifyPlan(plan.reader());
  EXPECT_TRUE(verified.ok()) << verified.message();
}

TEST(StayingStates, OnlyWhereMemoryComesAndGoes) {
  EXPECT_EQ(bytesAfter([](TestPlan &plan) {
              plan.common.summary.mode = MemoryMode::Rollback;
            }),
            0u);
}

TEST(StayingStates, NotWhatIsCreatedOrReleased) {
  for (Opcode op : {Opcode::Create, Opcode::Release}) {
    EXPECT_EQ(bytesAfter([&](TestPlan &plan) { addLifetime(plan, op, 1); }),
              kMaster);
    EXPECT_EQ(bytesAfter([&](TestPlan &plan) { addLifetime(plan, op, 3); }),
              0u);
  }
}

TEST(StayingStates, NotWhatIsWrittenOtherwise) {
  auto changedCopy = [](const std::function<void(Segment &, Segment &)> &by) {
    return bytesAfter([&](TestPlan &plan) {
      auto &segments = copyOf(plan).segments;
      by(segments[0], segments[1]);
    });
  };
  EXPECT_EQ(changedCopy([](Segment &from, Segment &) { ++from.offset[0]; }),
            0u);
  EXPECT_EQ(changedCopy([](Segment &from, Segment &) { --from.size[0]; }), 0u);
  EXPECT_EQ(changedCopy([](Segment &from, Segment &) { from.shard = 1; }), 0u);
  EXPECT_EQ(changedCopy([](Segment &from, Segment &) {
              from.side = Side::Destination;
            }),
            0u);
  EXPECT_EQ(changedCopy([](Segment &from, Segment &to) {
              from.states = 1; // a state that is made of another
              to.states = 2;
            }),
            0u);
  auto withMore = [](Opcode op) {
    return bytesAfter([&](TestPlan &plan) {
      Instruction other;
      other.op = op;
      other.segments = {copyOf(plan).segments[1]};
      other.segments[0].states = 2;
      plan.programs[0].instructions.push_back(other);
    });
  };
  EXPECT_EQ(withMore(Opcode::Unpack), kParam);
  EXPECT_EQ(withMore(Opcode::Zero), kParam + kMaster) << "padding is nobody's";
  EXPECT_EQ(bytesAfter([](TestPlan &plan) { copyOf(plan).segments.clear(); }),
            0u);
  EXPECT_EQ(bytesAfter([](TestPlan &plan) {
              Instruction group;
              group.op = Opcode::Group;
              Message message;
              message.receive = message.direct = true;
              message.segment = copyOf(plan).segments[1];
              group.messages = {message};
              plan.programs[0].instructions.push_back(group);
            }),
            0u);
}

TEST(StayingStates, NotWhatChanges) {
  EXPECT_EQ(bytesAfter([](TestPlan &plan) {
              plan.common.families[0].states[0].sourceDType = DType::F16;
            }),
            kMaster);
  EXPECT_EQ(bytesAfter([](TestPlan &plan) {
              plan.common.families[0].states[1].inSource = false;
            }),
            kParam);
  EXPECT_EQ(bytesAfter([](TestPlan &plan) {
              plan.programs[0].source[0].dims[0][0].hi = 3;
            }),
            0u);
  EXPECT_EQ(bytesAfter(
                [](TestPlan &plan) { plan.programs[0].source[0].flat = true; }),
            0u);
}

TEST(StayingStates, NotWhatTwoShardsHave) {
  for (bool source : {true, false})
    EXPECT_EQ(bytesAfter([&](TestPlan &plan) {
                RankProgram &program = plan.programs[0];
                auto &shards = source ? program.source : program.destination;
                shards.push_back(shards[0]);
                shards.back().states = 1;
              }),
              kMaster);
}

TEST(StayingStates, WhatAlikeShardsHaveOfDifferentStates) {
  auto split = [](uint32_t masterFrom) {
    return bytesAfter([&](TestPlan &plan) {
      std::vector<ShardRecord> &source = plan.programs[0].source;
      source.push_back(source[0]);
      source[0].states = 1;
      source.back().states = 2;
      std::vector<Segment> &copied = copyOf(plan).segments;
      copied.insert(copied.end(), {copied[0], copied[1]});
      copied[0].states = copied[1].states = 1;
      copied[2].states = copied[3].states = 2;
      copied[2].shard = masterFrom;
    });
  };
  EXPECT_EQ(split(1), kParam + kMaster);
  EXPECT_EQ(split(0), kParam); // no copy of its own place
}

TEST(StayingStates, NotWhatSharesAStorageByTensor) {
  auto shared = [](Granularity granularity, const char *storage) {
    return bytesAfter([&](TestPlan &plan) {
      plan.common.summary.granularity = granularity;
      plan.common.families[0].storage = storage;
    });
  };
  EXPECT_EQ(shared(Granularity::Tensor, "all"), 0u);
  EXPECT_EQ(shared(Granularity::Tensor, ""), kParam + kMaster);
  EXPECT_EQ(shared(Granularity::Page, "all"), kParam + kMaster);
}

/// Why the verifier refuses what was said to stay when something is changed.
static std::string refusal(const std::function<void(TestPlan &)> &change) {
  TestPlan plan = keptSquare();
  change(plan);
  auto verified = verifyPlan(plan.reader());
  return verified.ok() ? "" : verified.message();
}

static void expectSays(const std::string &found, const std::string &part) {
  EXPECT_NE(found.find(part), std::string::npos)
      << "found '" << found << "', expected '" << part << "' in it";
}

// Files that say that it stays, and do something else.
TEST(StayingStates, MustStayWhereTheFileSaysSo) {
  expectSays(
      refusal([](TestPlan &plan) { addLifetime(plan, Opcode::Create, 3); }),
      "before it is created");
  expectSays(refusal([](TestPlan &plan) {
               addLifetime(plan, Opcode::Create, 3);
               auto &all = plan.programs[0].instructions;
               std::rotate(all.begin(), all.end() - 1, all.end());
             }),
             "summary says 0 local bytes");
  expectSays(
      refusal([](TestPlan &plan) { addLifetime(plan, Opcode::Release, 1); }),
      "summary says 0 local bytes");
  // A part of it is zeroed, or comes twice.
  expectSays(refusal([](TestPlan &plan) {
               Instruction zero;
               zero.op = Opcode::Zero;
               zero.segments = {copyOf(plan).segments[1]};
               plan.programs[0].instructions.push_back(zero);
             }),
             "not padding");
  expectSays(refusal([](TestPlan &plan) {
               auto &all = plan.programs[0].instructions;
               all.push_back(copyOf(plan));
             }),
             "write the same elements");
}

TEST(StayingStates, AreAFeatureOfThePlan) {
  TestPlan plan = keptSquare();
  FeatureSet stated = featuresOf(plan.common);
  EXPECT_EQ(featureNames(stated), std::vector<std::string>{"in-place"});
  for (uint64_t bytes : {uint64_t(0), uint64_t(1), kParam}) {
    plan.common.summary.bytesInPlace = bytes;
    auto verified = verifyPlan(plan.reader());
    ASSERT_FALSE(verified.ok());
    EXPECT_NE(verified.message().find("bytes in place"), std::string::npos)
        << verified.message();
  }
}

// One place in memory, which the program does not touch.
TEST(StayingStates, HaveOneBufferInAnArena) {
  TestPlan plan = keptSquare();
  auto storage = ArenaStorage::allocate(plan.common, plan.programs[0], {});
  ASSERT_TRUE(storage.ok()) << storage.status().message();
  for (unsigned state : {0u, 1u})
    EXPECT_EQ((*storage)->data(Side::Source, 0, state, 0),
              (*storage)->data(Side::Destination, 0, state, 0));
  EXPECT_EQ((*storage)->peakLiveBytes(), kParam + kMaster);
}
