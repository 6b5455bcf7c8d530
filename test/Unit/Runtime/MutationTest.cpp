//===- MutationTest.cpp - The verifier refuses what is wrong --------------===//
//
// Right plans get one random fault each. Whatever the verifier lets pass must
// be no fault: the plan is run as written, and with its packs as early and its
// unpacks as late as an executor that overlaps may have them, and every byte is
// compared.
//
//===----------------------------------------------------------------------===//

#include "Mutations.h"

#include "dtrt/LoopbackRun.h"
#include "dtrt/Verifier.h"

#include <gtest/gtest.h>

using namespace dtrt;
using namespace dtrt::test;

namespace {

constexpr int kTrialsPerKind = 60;

/// The file of a plan, or why the writer refuses it.
Result<PlanReader> write(const TestPlan &plan) {
  auto bytes = plan.encoded();
  DTRT_RETURN_IF_ERROR(bytes);
  return PlanReader::fromBytes(std::move(*bytes));
}

Status verify(const TestPlan &plan) {
  auto reader = write(plan);
  DTRT_RETURN_IF_ERROR(reader);
  return verifyPlan(*reader);
}

/// Whether all bytes arrive.
bool runsRight(const TestPlan &plan) {
  auto reader = write(plan);
  if (!reader.ok())
    return false;
  LoopbackOptions options;
  options.check = options.staged = true;
  auto report = runLoopback(*reader, options);
  return report.ok() && report->check.mismatches == 0;
}

bool readsDestination(const Instruction &instruction) {
  for (const Segment &segment : instruction.segments)
    if (segment.side == Side::Destination)
      return true;
  return false;
}

/// Packs of source shards go before the group before them, unpacks behind the
/// group after them, unless that sends from the destination.
TestPlan overlapped(TestPlan plan) {
  for (RankProgram &program : plan.programs) {
    auto &list = program.instructions;
    for (size_t i = 1; i < list.size(); ++i)
      if (list[i].op == Opcode::Pack && !readsDestination(list[i]))
        for (size_t at = i; at > 0; --at) {
          Opcode before = list[at - 1].op;
          if (before == Opcode::Create || before == Opcode::Release)
            break;
          std::swap(list[at], list[at - 1]);
          if (before == Opcode::Group)
            break;
        }
    for (size_t i = list.size(); i-- > 0;)
      if (list[i].op == Opcode::Unpack)
        for (size_t at = i; at + 1 < list.size(); ++at) {
          const Instruction &next = list[at + 1];
          bool forwards = next.op == Opcode::Pack && readsDestination(next);
          for (const Message &message : next.messages)
            forwards |= !message.receive && message.direct &&
                        message.segment.side == Side::Destination;
          if (forwards)
            break;
          bool group = next.op == Opcode::Group;
          std::swap(list[at], list[at + 1]);
          if (group)
            break;
        }
  }
  return plan;
}

/// A weight cut by other numbers in other dims before and after.
TestPlan randomPlan(Rng &rng) {
  int64_t devices = 2 + int64_t(rng() % 4);
  std::vector<StateInfo> states = {{"param", DType::BF16, DType::BF16},
                                   {"master", DType::F32, DType::F32}};
  auto holdings = [&] {
    Holdings out;
    int64_t cuts = 1 + int64_t(rng() % uint64_t(devices));
    unsigned dim = 1 + unsigned(rng() % 2);
    for (int64_t d = 0; d < devices; ++d) {
      std::vector<Range> dims = {{0, 2}, {0, 60}, {0, 4}};
      if (dim == 2)
        cuts = std::min<int64_t>(cuts, 4);
      int64_t extent = dims[dim].hi, part = d % cuts;
      dims[dim] = {extent * part / cuts, extent * (part + 1) / cuts};
      out.push_back({box(0, dims, 3)});
    }
    return out;
  };
  Holdings source = holdings(), destination = holdings();
  return makePlan({makeFamily("layers.{}.w", {{0, 1, 2}}, {60, 4}, states)},
                  source, destination,
                  rng() % 2 ? MemoryMode::Flat : MemoryMode::Rollback);
}

TestPlan anyPlan(Rng &rng) {
  switch (rng() % 5) {
  case 0:
    return reshapePlan();
  case 1:
    return reshapePlan(MemoryMode::Flat);
  case 2:
    return forwardingPlan();
  default:
    return randomPlan(rng);
  }
}

struct Tally {
  int applied = 0, refused = 0, equivalent = 0, missed = 0;
};

/// Applies one kind at random to random plans.
Tally tryKind(const Mutation &mutation, Rng &rng, bool mayBeEquivalent) {
  Tally tally;
  for (int trial = 0; trial < kTrialsPerKind; ++trial) {
    TestPlan plan = anyPlan(rng);
    if (!mutation.apply(plan, rng))
      continue;
    ++tally.applied;
    if (!verify(plan).ok())
      ++tally.refused;
    else if (mayBeEquivalent && runsRight(plan) && runsRight(overlapped(plan)))
      ++tally.equivalent;
    else
      ++tally.missed;
  }
  return tally;
}

/// Returns how many kinds applied at all.
size_t tryKinds(const std::vector<Mutation> &kinds, bool mayBeEquivalent,
                uint64_t seed) {
  size_t applied = 0;
  for (const Mutation &kind : kinds) {
    Rng rng(seed);
    Tally tally = tryKind(kind, rng, mayBeEquivalent);
    std::printf("%-48s %3d applied, %3d refused, %3d equivalent\n", kind.name,
                tally.applied, tally.refused, tally.equivalent);
    EXPECT_EQ(tally.missed, 0) << kind.name << ", seed " << seed;
    applied += tally.applied > 0;
  }
  return applied;
}

} // namespace

TEST(Mutation, RightPlansAreRightHoweverTheyOverlap) {
  uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  for (int trial = 0; trial < 20; ++trial) {
    TestPlan plan = anyPlan(rng);
    Status status = verify(plan);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(runsRight(plan));
    EXPECT_TRUE(runsRight(overlapped(plan)));
  }
}

TEST(Mutation, AllFaultsAreRefused) {
  uint64_t seed = std::random_device()();
  std::printf("seed %llu\n", (unsigned long long)seed);
  size_t kinds = tryKinds(instructionMutations(), true, seed) +
                 tryKinds(segmentMutations(), true, seed) +
                 tryKinds(messageMutations(), true, seed) +
                 tryKinds(statementMutations(), false, seed);
  EXPECT_GE(kinds, 30u);
}
