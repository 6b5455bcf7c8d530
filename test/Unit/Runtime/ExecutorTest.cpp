//===- ExecutorTest.cpp - Plans that move bytes ---------------------------===//
//
// Every plan runs on the loopback transport and every byte of the destination
// is compared; a plan that cannot complete gives an error, never a hang.
//
//===----------------------------------------------------------------------===//

#include "ExpectContains.h"
#include "FirstOf.h"
#include "PlanBuilder.h"

#include "dtrt/core/ArenaStorage.h"
#include "dtrt/core/TensorBinding.h"
#include "dtrt/transport/LoopbackTransport.h"
#include "dtrt/verify/Verifier.h"
#include "dtrt/world/LoopbackRun.h"

#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <thread>

#include <sys/mman.h>
#include <unistd.h>

using namespace dtrt;
using namespace dtrt::test;

namespace {

LoopbackReport runChecked(const TestPlan &plan) {
  LoopbackOptions options;
  options.check = true;
  PlanReader reader = plan.reader();
  Status verified = verifyPlan(reader);
  EXPECT_TRUE(verified.ok()) << verified.message();
  auto direct = runLoopback(reader, options);
  EXPECT_TRUE(direct.ok()) << direct.status().message();
  for (const std::string &line : direct->check.first)
    ADD_FAILURE() << "without staging: " << line;
  options.staged = true;
  auto report = runLoopback(reader, options);
  EXPECT_TRUE(report.ok()) << report.status().message();
  if (!report.ok())
    return {};
  for (const std::string &line : report->check.first)
    ADD_FAILURE() << line;
  return *report;
}

std::string runError(const TestPlan &plan) {
  PlanReader reader = plan.reader();
  auto report = runLoopback(reader, {});
  return report.ok() ? "" : report.status().message();
}

/// Swaps two boxes that differ in nothing but where they are.
bool swapTwoBoxes(std::vector<Segment> &segments) {
  for (Segment &a : segments)
    for (Segment &b : segments)
      if (a.shard == b.shard && a.states == b.states && a.size == b.size &&
          a.offset != b.offset) {
        std::swap(a.offset, b.offset);
        return true;
      }
  return false;
}

/// Cuts [0, extent) at random places into `parts` pieces.
std::vector<Interval> randomCuts(std::mt19937_64 &random, int64_t extent,
                                 size_t parts) {
  std::vector<int64_t> cuts = {0, extent};
  while (cuts.size() < parts + 1)
    cuts.push_back(int64_t(random() % uint64_t(extent + 1)));
  std::sort(cuts.begin(), cuts.end());
  std::vector<Interval> out;
  for (size_t i = 0; i < parts; ++i)
    out.push_back({cuts[i], cuts[i + 1]});
  return out;
}

/// Every device holds one piece along a random dim, or a flat range.
Holdings randomHoldings(std::mt19937_64 &random, const Family &family,
                        size_t devices) {
  Holdings out(devices);
  std::vector<Interval> whole;
  for (const LeadingDim &dim : family.leading)
    whole.push_back({0, dim.count});
  int64_t elements = 1;
  for (int64_t size : family.shape) {
    whole.push_back({0, size});
    elements *= size;
  }
  bool flat = random() % 3 == 0;
  size_t dim = random() % whole.size();
  int64_t padded = whole[dim].hi;
  if (dim >= family.numLeading())
    padded += int64_t(random() % 3);
  auto cuts = randomCuts(random, flat ? elements : padded, devices);
  for (size_t d = 0; d < devices; ++d) {
    ShardRecord shard = box(0, whole, 3);
    shard.flat = flat;
    if (flat)
      shard.range = cuts[d];
    else
      shard.dims[dim] = {cuts[d]};
    out[d] = {shard};
  }
  return out;
}

} // namespace

TEST(Executor, ReshapesWithBlocksRangesAndPadding) {
  TestPlan plan = reshapePlan();
  LoopbackReport report = runChecked(plan);
  uint64_t bytes = 0;
  for (const RankProgram &program : plan.programs)
    for (const ShardRecord &shard : program.destination)
      bytes += shardBytes(plan.common.families[shard.family], shard,
                          Side::Destination);
  EXPECT_EQ(report.check.bytesChecked, bytes);
  EXPECT_EQ(report.stagingPeak, plan.common.summary.stagingPeak);
}

TEST(Executor, RunsInFlatMode) {
  TestPlan plan = reshapePlan(MemoryMode::Flat);
  EXPECT_EQ(runChecked(plan).devicePeak, plan.common.summary.devicePeak);
}

/// One instruction per member, so that members go one after the other.
void releaseOneByOne(RankProgram &program) {
  Instruction release = program.instructions.back();
  ASSERT_EQ(release.op, Opcode::Release);
  program.instructions.pop_back();
  for (const Segment &segment : release.segments)
    for (int64_t member = 0; member < segment.size[0]; ++member) {
      Instruction single;
      single.op = Opcode::Release;
      single.segments = {segment};
      single.segments[0].offset[0] += member;
      single.segments[0].size[0] = 1;
      program.instructions.push_back(single);
    }
}

/// A device without a destination never holds more than its source, and one
/// without a source no more than its destination.
TEST(Executor, HoldsNoMoreThanLiveMembers) {
  Family family = makeFamily("layers.{}.w", {{0, 1, 4}}, {8});
  // Device 0 gives all four members away, device 1 takes them.
  TestPlan plan = makePlan({family}, {{box(0, {{0, 4}, {0, 8}})}, {}},
                           {{}, {box(0, {{0, 4}, {0, 8}})}}, MemoryMode::Flat);
  releaseOneByOne(plan.programs[0]);
  // Device 1 creates its members one by one as well.
  auto &instructions = plan.programs[1].instructions;
  ASSERT_EQ(instructions.front().op, Opcode::Create);
  Instruction create = instructions.front();
  instructions.erase(instructions.begin());
  for (int64_t member = 0; member < 4; ++member) {
    create.segments[0].offset[0] = member;
    create.segments[0].size[0] = 1;
    instructions.insert(instructions.begin() + member, create);
  }
  summarize(plan);
  Status verified = verifyPlan(plan.reader());
  EXPECT_TRUE(verified.ok()) << verified.message();
  // 4 members of 8 bf16 elements, and 64 bytes of staging.
  EXPECT_EQ(runChecked(plan).devicePeak, 4u * 16 + 64);
}

/// Each instruction's time, where asked for: one after another, but for what
/// runs while a group is under way.
TEST(Executor, NotesWhenInstructionsRan) {
  Family family = makeFamily("w", {}, {8, 8});
  TestPlan plan =
      makePlan({family}, {{box(0, {{0, 8}, {0, 8}})}, {}},
               {{box(0, {{0, 8}, {0, 4}})}, {box(0, {{0, 8}, {4, 8}})}});
  LoopbackWorld world({0, 1});
  std::vector<ExecutionStats> found(2);
  std::vector<std::thread> ranks;
  for (uint32_t device : {0u, 1u})
    ranks.emplace_back([&, device] {
      auto storage = ArenaStorage::allocate(plan.common, plan.programs[device]);
      ASSERT_TRUE(storage.ok());
      Transport &transport = world.endpoint(device);
      auto executor = Executor::prepare(**storage, transport);
      ASSERT_TRUE(executor.ok());
      ASSERT_TRUE(transport.connect({}, {1 - device}).ok());
      executor->timeSteps();
      EXPECT_TRUE(executor->run().ok());
      transport.leave();
      found[device] = executor->stats();
    });
  for (std::thread &rank : ranks)
    rank.join();
  for (const ExecutionStats &stats : found) {
    auto group = std::find_if(
        stats.steps.begin(), stats.steps.end(),
        [](const StepTime &step) { return step.op == Opcode::Group; });
    ASSERT_NE(group, stats.steps.end());
    EXPECT_EQ(group->wave, 0);
    EXPECT_EQ(group->bytes, stats.bytesSent + stats.bytesReceived);
    EXPECT_EQ(group->bytes, 64u);
    for (const StepTime &step : stats.steps) {
      EXPECT_LE(step.begin, step.end);
      bool within = group->begin <= step.begin && step.end <= group->end;
      EXPECT_TRUE(within || step.end <= group->begin ||
                  group->end <= step.begin);
    }
  }
}

/// Pages that a range of memory has in the machine.
size_t residentPages(const std::byte *data, uint64_t bytes) {
  auto page = uint64_t(sysconf(_SC_PAGESIZE));
  auto first = reinterpret_cast<uintptr_t>(data) / page * page;
  uint64_t length = reinterpret_cast<uintptr_t>(data) + bytes - first;
  std::vector<unsigned char> present((length + page - 1) / page);
  EXPECT_EQ(mincore(reinterpret_cast<void *>(first), length, present.data()),
            0);
  return size_t(std::count_if(present.begin(), present.end(),
                              [](unsigned char c) { return c & 1; }));
}

/// What a flat program releases goes back to the machine, page by page.
TEST(Executor, GivesPagesBack) {
  auto page = int64_t(sysconf(_SC_PAGESIZE));
  Family family = makeFamily("w", {}, {8, page / 2}); // a row is a page of bf16
  TestPlan plan =
      makePlan({family}, {{box(0, {{0, 8}, {0, page / 2}})}, {}},
               {{}, {box(0, {{0, 8}, {0, page / 2}})}}, MemoryMode::Flat);
  const RankProgram &program = plan.programs[0];
  auto storage = ArenaStorage::allocate(plan.common, program);
  ASSERT_TRUE(storage.ok());
  fillSource(**storage, 0);
  const std::byte *data = (*storage)->data(Side::Source, 0, 0, 0);
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(residentPages(data, uint64_t(8 * page)), 8u);
  Segment whole = program.instructions.back().segments[0];
  Segment rows = storageSegment(family, whole, {page / 2, page + 7});
  ASSERT_TRUE((*storage)->release(rows).ok());
  // Row 1 and seven elements of row 2, which keep their page.
  EXPECT_EQ(residentPages(data, uint64_t(8 * page)), 7u);
  EXPECT_EQ((*storage)->liveBytes(), uint64_t(7 * page - 14));
  ASSERT_TRUE((*storage)
                  ->release(storageSegment(family, whole, {page + 7, 4 * page}))
                  .ok());
  EXPECT_EQ(residentPages(data, uint64_t(8 * page)), 1u);
  EXPECT_EQ((*storage)->peakPageBytes(), uint64_t(8 * page));
  ASSERT_TRUE(
      (*storage)->release(storageSegment(family, whole, {0, page / 2})).ok());
  EXPECT_EQ((*storage)->data(Side::Source, 0, 0, 0), nullptr);
  EXPECT_EQ((*storage)->liveBytes(), 0u);
}

/// A destination that nothing was written to has no pages.
TEST(Executor, CreatesByPages) {
  auto page = int64_t(sysconf(_SC_PAGESIZE));
  Family family = makeFamily("w", {}, {8, page / 2});
  TestPlan plan =
      makePlan({family}, {{box(0, {{0, 8}, {0, page / 2}})}, {}},
               {{}, {box(0, {{0, 8}, {0, page / 2}})}}, MemoryMode::Flat);
  const RankProgram &program = plan.programs[1];
  auto storage = ArenaStorage::allocate(plan.common, program);
  ASSERT_TRUE(storage.ok());
  EXPECT_EQ((*storage)->liveBytes(), 0u);
  EXPECT_EQ((*storage)->data(Side::Destination, 0, 0, 0), nullptr);
  Segment whole = program.instructions.front().segments[0];
  ASSERT_TRUE(
      (*storage)->create(storageSegment(family, whole, {0, page / 2})).ok());
  EXPECT_EQ((*storage)->liveBytes(), uint64_t(page));
  EXPECT_EQ((*storage)->peakPageBytes(), uint64_t(page));
  std::byte *data = (*storage)->data(Side::Destination, 0, 0, 0);
  ASSERT_NE(data, nullptr);
  memset(data, 1, size_t(page));
  EXPECT_EQ(residentPages(data, uint64_t(8 * page)), 1u);
}

TEST(Executor, ForwardsWhatItReceived) { runChecked(forwardingPlan()); }

TEST(Executor, RandomLayouts) {
  uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 60; ++i) {
    Family family = makeFamily(
        "layers.{}.w", {{3, 2, 1 + int64_t(random() % 4)}},
        {1 + int64_t(random() % 9), 1 + int64_t(random() % 9),
         1 + int64_t(random() % 9)},
        {{"param", DType::BF16, DType::BF16}, {"scale", DType::U8, DType::U8}});
    size_t devices = 2 + random() % 4;
    runChecked(makePlan({family}, randomHoldings(random, family, devices),
                        randomHoldings(random, family, devices)));
    if (HasFailure())
      return;
  }
}

/// What a checked run of a plan says whose programs write no padding.
static CheckReport checkedWithoutZeros(TestPlan plan) {
  auto isZero = [](const Instruction &i) { return i.op == Opcode::Zero; };
  for (RankProgram &program : plan.programs)
    program.instructions.erase(std::remove_if(program.instructions.begin(),
                                              program.instructions.end(),
                                              isZero),
                               program.instructions.end());
  LoopbackOptions options;
  options.check = true;
  PlanReader reader = plan.reader();
  auto report = runLoopback(reader, options);
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? report->check : CheckReport();
}

TEST(Executor, SeesAByteInTheWrongPlace) {
  TestPlan plan = reshapePlan();
  for (Instruction &instruction : plan.programs[3].instructions)
    if (instruction.op == Opcode::Unpack && swapTwoBoxes(instruction.segments))
      break;
  LoopbackOptions options;
  options.check = true;
  PlanReader reader = plan.reader();
  auto report = runLoopback(reader, options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_GT(report->check.mismatches, 0u);
  ASSERT_FALSE(report->check.first.empty());
  expectContains(report->check.first[0], "device 3: tensor 'layers.");
}

/// What padding is, or that of which fresh buffers are made.
TEST(Executor, SeesMissingPadding) {
  for (uint64_t fill : {uint64_t(0), kTestFill, uint64_t(0xa5a5)}) {
    TestPlan plan = fill ? filledPlan() : reshapePlan();
    if (fill)
      plan.common.views[0].fill = {fill};
    CheckReport report = checkedWithoutZeros(std::move(plan));
    EXPECT_EQ(report.mismatches, 16u) << "8 elements of devices 1 and 3";
    ASSERT_FALSE(report.first.empty());
    expectContains(report.first[0], "padding");
  }
}

TEST(Executor, WritesWhatAViewsPaddingIs) {
  for (MemoryMode mode : {MemoryMode::Rollback, MemoryMode::Flat})
    runChecked(filledPlan(mode));
}

/// What is written is not what a view says: device 1 has padding.
TEST(Executor, SeesPaddingOfAnotherValue) {
  TestPlan plan = filledPlan();
  auto storage = ArenaStorage::allocate(plan.common, plan.programs[1]);
  ASSERT_TRUE(storage.ok());
  auto wrong = [&] {
    fillShards(**storage);
    auto zero = prepareSegment(plan.common, plan.programs[1],
                               firstOf(plan, 1, Opcode::Zero).segments[0]);
    EXPECT_TRUE(zero.ok() && fillPadding(*zero, **storage).ok());
    CheckReport report;
    checkDestination(**storage, 1, report);
    return report;
  };
  uint64_t unbrought = wrong().mismatches;
  EXPECT_EQ(unbrought, 16u) << "rows of data alone";
  plan.common.views[0].fill = {0xff81};
  CheckReport report;
  checkDestination(**storage, 1, report);
  EXPECT_EQ(report.mismatches, unbrought + 8);
  plan.common.views[0].fill = {};
  EXPECT_EQ(wrong().mismatches, unbrought);
}

TEST(Executor, RefusesDTypesThatDoNotConvert) {
  TestPlan plan = forwardingPlan();
  plan.common.families[0].states[0].destinationDType = DType::I16;
  auto reader = PlanReader::fromBytes(plan.bytes());
  ASSERT_FALSE(reader.ok());
  expectContains(reader.status().message(), "cannot change from bf16 to i16");
}

TEST(Executor, MissingSendIsAnErrorNotAHang) {
  TestPlan plan = forwardingPlan();
  plan.programs[0].instructions.pop_back();
  std::string error = runError(plan);
  expectContains(error, "can never complete");
  expectContains(error, "device 1 in its group 0 waits for a message from "
                        "device 0");
}

TEST(Executor, CrossedGroupsAreAnErrorNotAHang) {
  TestPlan plan = reshapePlan();
  auto &instructions = plan.programs[1].instructions;
  instructions.erase(std::remove_if(instructions.begin(), instructions.end(),
                                    [](const Instruction &i) {
                                      return i.op == Opcode::Group;
                                    }),
                     instructions.end());
  expectContains(runError(plan), "can never complete");
}

TEST(Loopback, UnequalBytesAreAnError) {
  LoopbackWorld world({0, 1});
  std::byte a[8] = {}, b[8] = {};
  Status sent, received;
  std::thread sender([&] {
    sent = world.endpoint(0).group({{false, 1, a, 8}});
    world.endpoint(0).leave();
  });
  received = world.endpoint(1).group({{true, 0, b, 4}});
  world.endpoint(1).leave();
  sender.join();
  EXPECT_FALSE(sent.ok());
  expectContains(received.message(),
                 "sends 8 bytes to device 1, which expects 4");
}

TEST(Loopback, UnequalDigestsAreRefused) {
  LoopbackWorld world({0, 1});
  Status first, second;
  std::thread other([&] {
    first = world.endpoint(0).connect({1, 2}, {1});
    world.endpoint(0).leave();
  });
  second = world.endpoint(1).connect({3, 4}, {0});
  world.endpoint(1).leave();
  other.join();
  EXPECT_FALSE(first.ok());
  EXPECT_FALSE(second.ok());
}

TEST(Loopback, AllToAllOf128Ranks) {
  constexpr uint32_t kRanks = 128;
  std::vector<uint32_t> devices;
  for (uint32_t i = 0; i < kRanks; ++i)
    devices.push_back(i);
  LoopbackWorld world(devices);
  std::vector<std::vector<uint32_t>> out(kRanks), in(kRanks);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      out[rank].assign(kRanks, rank);
      in[rank].assign(kRanks, ~0u);
      std::vector<TransportMessage> group;
      for (uint32_t peer = 0; peer < kRanks; ++peer)
        if (peer != rank) {
          group.push_back({false, peer,
                           reinterpret_cast<std::byte *>(&out[rank][peer]), 4});
          group.push_back(
              {true, peer, reinterpret_cast<std::byte *>(&in[rank][peer]), 4});
        }
      Status status = world.endpoint(rank).group(group);
      EXPECT_TRUE(status.ok()) << status.message();
      world.endpoint(rank).leave();
    });
  for (std::thread &thread : threads)
    thread.join();
  for (uint32_t rank = 0; rank < kRanks; ++rank)
    for (uint32_t peer = 0; peer < kRanks; ++peer)
      EXPECT_EQ(in[rank][peer], peer == rank ? ~0u : peer);
}

TEST(Storage, RefusesInPlaceWhatThePlanMoves) {
  // Each way to fill the shard but a copy of itself, and shards of other bytes.
  auto refused = [](const TestPlan &plan) {
    LocalStorage storage(plan.common, plan.programs[0]);
    std::byte memory[32];
    Status bound =
        bindTensors({{"w", "param", Side::Source, 0, memory, 32},
                     {"w", "param", Side::Destination, 0, memory, 32}},
                    storage);
    return !expectedTensors(storage)[0].inPlace &&
           !expectedTensors(storage)[1].inPlace &&
           bound.message() ==
               "destination tensor 'w' state 'param' shares memory with its "
               "source, and the plan does not leave it as it is";
  };
  TestPlan plan = forwardingPlan();
  EXPECT_FALSE(refused(plan));
  Instruction &copy = plan.programs[0].instructions[0];
  const Segment wanted = copy.segments[1];
  copy.op = Opcode::Unpack;
  copy.segments = {wanted};
  EXPECT_TRUE(refused(plan));
  copy.op = Opcode::Zero;
  EXPECT_TRUE(refused(plan));
  copy.op = Opcode::Group;
  copy.segments = {};
  copy.messages = {{true, 1, 32, true, 0, wanted}};
  EXPECT_TRUE(refused(plan));
  plan = forwardingPlan();
  plan.programs[0].source[0].dims[0] = {{2, 4}, {0, 2}};
  EXPECT_TRUE(refused(plan));
}

TEST(Storage, BindsATrainersTensors) {
  TestPlan plan = forwardingPlan();
  LocalStorage storage(plan.common, plan.programs[0]);
  std::byte before[32], after[32];
  std::vector<TensorBinding> tensors = {
      {"w", "param", Side::Source, 0, before, 32},
      {"w", "param", Side::Destination, 0, after, 32}};
  Status bound = bindTensors(tensors, storage);
  EXPECT_TRUE(bound.ok()) << bound.message();
  EXPECT_EQ(storage.data(Side::Destination, 0, 0, 0), after);
  for (const ExpectedTensor &tensor : expectedTensors(storage))
    EXPECT_TRUE(tensor.inPlace) << tensor.tensor;
  tensors[1].data = before; // the plan copies all of it onto itself
  EXPECT_TRUE(bindTensors(tensors, storage).ok());
  tensors[1].data = before + 31;
  EXPECT_EQ(bindTensors(tensors, storage).message(),
            "destination tensor 'w' state 'param' shares memory with source "
            "tensor 'w' state 'param'");
  tensors[1].data = after;
  tensors[1].bytes = 16;
  expectContains(bindTensors(tensors, storage).message(),
                 "has 16 bytes, the plan expects 32");
  tensors[1] = tensors[0];
  expectContains(bindTensors(tensors, storage).message(), "bound twice");
  tensors.pop_back();
  expectContains(bindTensors(tensors, storage).message(),
                 "no tensor is bound to the destination shard of 'w'");
  tensors[0].tensor = "v";
  expectContains(bindTensors(tensors, storage).message(), "has no source");
}
