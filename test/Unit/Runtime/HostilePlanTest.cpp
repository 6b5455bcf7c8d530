//===- HostilePlanTest.cpp - Every error of the reader by its name --------===//
//
// Files that are sound and say what no plan may say: each is refused, in words
// that name the culprit.
//
//===----------------------------------------------------------------------===//

#include "ExpectContains.h"
#include "FirstOf.h"
#include "PlanBuilder.h"
#include "PlanBytes.h"

#include "SectionEncoder.h"
#include "plan_generated.h"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <limits>

using namespace dtrt;
using namespace dtrt::test;

namespace {

using Change = std::function<void(TestPlan &)>;
struct Case {
  Change change;
  const char *error;
};

void expectErrors(const TestPlan &plan, const std::vector<Case> &cases) {
  ASSERT_EQ(readAll(plan.bytes()), "");
  for (const Case &wrong : cases) {
    TestPlan changed = plan;
    wrong.change(changed);
    expectContains(readAll(changed.bytes()), wrong.error);
  }
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kHuge = int64_t(1) << 60;

StateInfo &state(TestPlan &plan, size_t index) {
  return plan.common.families[0].states[index];
}

} // namespace

TEST(HostileCommon, WorldsAreChecked) {
  expectErrors(
      reshapePlan(),
      {{[](TestPlan &p) { p.common.sourceWorld = 5; },
        "source world has 5 ranks but 4 devices"},
       {[](TestPlan &p) { p.common.destinationWorld = -1; },
        "destination world has -1 ranks but 4 devices"},
       {[](TestPlan &p) { p.common.destinationDevices = {0, 2, 2, 3}; },
        "destination world lists device 2 twice"}});
}

TEST(HostileCommon, ClusterNumbersAreFiniteAndInRange) {
  using Number = double Cluster::*;
  auto set = [](Number number, double value) {
    return [=](TestPlan &p) { p.common.cluster.*number = value; };
  };
  for (double wrong : {kNan, kInfinity, -kInfinity, -1.0, 1e300})
    expectErrors(
        reshapePlan(),
        {{set(&Cluster::intraNodeGBps, wrong), "rate inside a node is "},
         {set(&Cluster::interNodeGBps, wrong), "rate between nodes is "},
         {set(&Cluster::packGBps, wrong), "rate of packs is "},
         {set(&Cluster::latencyUs, wrong), "latency is "},
         {set(&Cluster::packLaunchUs, wrong), "start of a pack is "}});
  for (double wrong : {0.0, -0.0, 5e-324})
    expectErrors(
        reshapePlan(),
        {{set(&Cluster::intraNodeGBps, wrong), "expected 1e-09 to 1e+12"},
         {set(&Cluster::interNodeGBps, wrong), "expected 1e-09 to 1e+12"},
         {set(&Cluster::packGBps, wrong), "expected 1e-09 to 1e+12"}});
}

TEST(HostileCommon, ClusterCountsAreInRange) {
  auto link = [](Link link) {
    return [=](TestPlan &p) { p.common.cluster.links = {link}; };
  };
  expectErrors(
      reshapePlan(),
      {{[](TestPlan &p) { p.common.cluster.devicesPerNode = 0; },
        "cluster has 0 devices per node"},
       {[](TestPlan &p) { p.common.cluster.devicesPerNode = kHuge; },
        "devices per node, expected 1 to 4294967296"},
       {[](TestPlan &p) { p.common.cluster.devicesPerNic = 0; },
        "cluster has 0 devices per NIC, expected a divisor of 2"},
       {[](TestPlan &p) { p.common.cluster.devicesPerNic = 3; },
        "cluster has 3 devices per NIC, expected a divisor of 2"},
       {link({{false, -1}, {false, 0}, 1}), "a link of the cluster has end -1"},
       {link({{false, 0}, {true, kHuge}, 1}),
        "a link of the cluster has end 1152"},
       {link({{false, 0}, {false, 1}, kNan}),
        "rate of a link of the cluster is "},
       {link({{false, 0}, {false, 1}, 0}),
        "rate of a link of the cluster is 0"}});
}

TEST(HostileCommon, SummariesAreChecked) {
  auto time = [](double value) {
    return [=](TestPlan &p) { p.common.summary.timePredicted = value; };
  };
  auto bound = [](double value) {
    return [=](TestPlan &p) { p.common.summary.timeLowerBound = value; };
  };
  expectErrors(
      reshapePlan(),
      {{time(kNan), "predicted time is "},
       {time(-1), "predicted time is -1, expected 0 to 1e+300"},
       {time(kInfinity), "predicted time is inf"},
       {bound(kNan), "lower bound of the time is "},
       {[](TestPlan &p) { p.common.summary.stagingLimit = ~uint64_t(0); },
        "staging limit of 18446744073709551615 bytes"},
       {[](TestPlan &p) { p.common.summary.deviceLimit = ~uint64_t(0); },
        "device limit of 18446744073709551615 bytes"},
       {[](TestPlan &p) { p.common.summary.devicePeak = ~uint64_t(0); },
        "device peak of 18446744073709551615 bytes"},
       {[](TestPlan &p) { p.common.summary.mode = MemoryMode(7); },
        "unknown memory mode 7"},
       {[](TestPlan &p) { p.common.summary.coverage = "maybe"; },
        "a proof is neither empty nor 'proved'"},
       {[](TestPlan &p) { p.common.summary.memorySafe = "\xff"; },
        "a proof is neither empty nor 'proved'"},
       {[](TestPlan &p) {
          p.common.summary.solver.clear();
          p.common.summary.solverSteps = 7;
        },
        "7 steps of a solver without a name"}});
}

TEST(HostileCommon, TextIsText) {
  expectErrors(
      reshapePlan(),
      {{[](TestPlan &p) { p.common.compilerVersion = "\xc3"; },
        "name of the compiler is not UTF-8"},
       {[](TestPlan &p) { p.common.compilerVersion = "\x1b[2J"; },
        "name of the compiler has a control character"},
       {[](TestPlan &p) { p.common.summary.solver = "\xff"; },
        "name of the solver is not UTF-8"},
       {[](TestPlan &p) { p.common.families[1].name = "w\xff"; },
        "family 1: name is not UTF-8"},
       {[](TestPlan &p) { p.common.families[1].name = "a\nerror: b"; },
        "family 1: name has a control character"},
       {[](TestPlan &p) { p.common.families[1].name.assign(2000, 'w'); },
        "family 1: name has 2000 bytes, expected at most 1024"},
       {[](TestPlan &p) { state(p, 0).name = "\x80"; },
        "family 0 'layers.{}.mlp.fc1.weight': name of a state is not UTF-8"},
       {[](TestPlan &p) { p.common.sourceLayout = "\xff"; },
        "source layout is not UTF-8"},
       {[](TestPlan &p) { p.common.destinationLayout.assign(1, '\0'); },
        "destination layout has a control character"},
       {[](TestPlan &p) { p.common.requestHash = "12"; },
        "request hash is not 32 lower-case hex digits"},
       {[](TestPlan &p) { p.common.sourceFingerprint[3] = 'G'; },
        "source fingerprint is not 32"},
       {[](TestPlan &p) { p.common.destinationFingerprint += "0"; },
        "destination fingerprint is not 32"}});
}

TEST(HostileCommon, FamiliesAreChecked) {
  expectErrors(
      reshapePlan(),
      {{[](TestPlan &p) { p.common.families[0].name = "w{}{}"; },
        "name has 2 '{}' for 1 leading dims"},
       {[](TestPlan &p) { p.common.families[0].states.clear(); },
        "found 0 states, expected 1 to 64"},
       {[](TestPlan &p) {
          Family &family = p.common.families[0];
          for (int i = 0; i < 65; ++i)
            family.states.push_back(family.states[0]);
        },
        "found 67 states, expected 1 to 64"},
       {[](TestPlan &p) { state(p, 1).name = "param"; },
        "has state 'param' twice"},
       {[](TestPlan &p) { state(p, 1).name = ""; }, "a state has no name"},
       {[](TestPlan &p) { p.common.families[0].leading[0].count = 0; },
        "leading dim from 0 step 1 has count 0"},
       {[](TestPlan &p) { p.common.families[0].leading[0].step = 0; },
        "leading dim from 0 step 0 has count 4"},
       {[](TestPlan &p) { p.common.families[0].leading[0].step = kHuge * 4; },
        "leading dim from 0 step 4611686018427387904 has count 4"},
       {[](TestPlan &p) { p.common.families[0].leading[0].first = INT64_MAX; },
        "leading dim from 9223372036854775807 step 1 has count 4"},
       {[](TestPlan &p) {
          p.common.families[0].leading = {{0, 0, 4, {0, 1, 5}}};
        },
        "leading dim lists 4 numbers of 3"},
       {[](TestPlan &p) {
          p.common.families[0].leading = {{0, 0, 4, {0, 1, 5, 6, 7}}};
        },
        "has 1 numbers that no leading dim lists"},
       {[](TestPlan &p) {
          p.common.families[0].leading = {{1, 0, 4, {0, 1, 5, 6}}};
        },
        "leading dim from 1 step 0 of count 4 lists 4 numbers from 0"},
       {[](TestPlan &p) {
          p.common.families[0].leading = {{0, 0, 4, {0, 5, 1, 5}}};
        },
        "leading dim lists number 5 twice"},
       {[](TestPlan &p) { p.common.families[1].shape = {0, kHuge, kHuge}; },
        "size 1152921504606846976 makes the byte count overflow"},
       {[](TestPlan &p) { p.common.families[1].shape.assign(33, 1); },
        "family 1 has 33 dims, limit 32"},
       {[](TestPlan &p) { p.common.families[2].leading[0].count = 1 << 30; },
        "names of tensors make a section of "}});
}

TEST(HostileCommon, StatesAreChecked) {
  expectErrors(
      derivedPlan(),
      {{[](TestPlan &p) { state(p, 0).destinationDType = DType::I32; },
        "state 'master' cannot change from f32 to i32"},
       {[](TestPlan &p) { state(p, 0).destinationDType = DType(99); },
        "has unknown dtype 99"},
       {[](TestPlan &p) { state(p, 1).derivedFrom = -1; },
        "state 'param' is not in the source and made from no other state"},
       {[](TestPlan &p) { state(p, 1).derivedFrom = 4; },
        "state 'param' is made from state 4 of 4"},
       {[](TestPlan &p) { state(p, 1).derivedFrom = -2; },
        "state 'param' is made from state -2 of 4"},
       {[](TestPlan &p) { state(p, 1).derivedFrom = 1; },
        "state 'param' is made from state 1 of 4"},
       {[](TestPlan &p) { state(p, 1).inDestination = false; },
        "state 'param' is on neither side"},
       {[](TestPlan &p) { state(p, 2).derivedFrom = 1; },
        "state 'exp_avg' is made from 'param', which the source lacks"},
       {[](TestPlan &p) { state(p, 0).derivedFrom = 2; },
        "state 'param' is made from 'master', which is itself made from"},
       {[](TestPlan &p) { state(p, 1).sourceDType = DType::F16; },
        "state 'param' is read as f16, but 'master' is f32"},
       {[](TestPlan &p) {
          state(p, 2).sourceDType = state(p, 2).destinationDType = DType::I32;
          state(p, 2).derivedFrom = 3;
        },
        "state 'exp_avg' cannot be made from f32"},
       {[](TestPlan &p) { p.programs[0].source[0].states = 14; },
        "has state 'param', but not 'master', which it is made from"},
       {[](TestPlan &p) { p.programs[1].destination[0].states |= 8; },
        "has state 'grad', which the destination lacks"}});
}

TEST(HostileProgram, ShardsAreChecked) {
  auto shard = [](TestPlan &p) -> ShardRecord & {
    return p.programs[0].source[0];
  };
  expectErrors(
      reshapePlan(),
      {{[=](TestPlan &p) { shard(p).states = 0; },
        "source shard 0 of 'layers.{}.mlp.fc1.weight': state mask 0 is not "
        "within 3"},
       {[=](TestPlan &p) { shard(p).states = 4; },
        "state mask 4 is not within 3"},
       {[=](TestPlan &p) { shard(p).dims[1] = {{0, 2}, {1, 3}}; },
        "intervals [0, 2) and [1, 3) overlap"},
       {[=](TestPlan &p) { shard(p).dims[1] = {{0, 2}, {5, 5}}; },
        "interval [5, 5) is empty, expected elements in each of several"},
       {[=](TestPlan &p) { shard(p).dims[0] = {{0, 5}}; },
        "interval [0, 5) is outside [0, 4)"},
       {[=](TestPlan &p) { shard(p).dims[2] = {{5, 4}}; },
        "interval [5, 4) is outside"},
       {[=](TestPlan &p) {
          shard(p).dims[1] = {{0, 0}};
          shard(p).dims[2] = {{0, kHuge}};
        },
        "makes the byte count overflow"},
       {[](TestPlan &p) { p.programs[0].destination[2].range = {5, 4}; },
        "flat range [5, 4) is outside [0, 40)"},
       {[](TestPlan &p) { p.programs[0].sourceRank = 7; },
        "source rank 7 with 4 shards does not fit the source world of 4"},
       {[](TestPlan &p) { p.programs[0].sourceRank = -1; },
        "source rank -1 with 4 shards does not fit"},
       {[](TestPlan &p) { p.programs[0].stagingBytes = uint64_t(1) << 62; },
        "staging of 4611686018427387904 bytes"}});
}

/// Eight shards of a family that says little and has very many members.
TestPlan manyMembers(int64_t members, int64_t elements) {
  TestPlan plan = reshapePlan();
  uint32_t family = uint32_t(plan.common.families.size());
  plan.common.families.push_back(
      makeFamily("z{}", {{0, 1, members}}, {elements}));
  for (int i = 0; i < 8; ++i)
    plan.programs[0].source.push_back(
        box(family, {{0, members}, {0, elements}}));
  return plan;
}

TEST(HostileProgram, MembersAreBounded) {
  EXPECT_EQ(readAll(manyMembers(1000, 4).bytes()), "");
  for (int64_t elements : {0, 1}) {
    std::string text = readAll(manyMembers(1 << 20, elements).bytes());
    EXPECT_NE(text.find("1048576 names of tensors make a section of "),
              std::string::npos)
        << text;
  }
  // Where only shards say so: members that no dim beside them has.
  TestPlan plan = manyMembers(60000, 0);
  plan.common.families.back().leading = {{0, 1, 60000}, {0, 1, 2}};
  plan.common.families.back().name = "z{}{}";
  for (ShardRecord &shard : plan.programs[0].source)
    if (shard.family == 4)
      shard.dims = {{{0, 60000}}, {{0, 0}}, {{0, 0}}};
  EXPECT_EQ(readAll(plan.bytes()), "");
  for (int i = 0; i < 20; ++i)
    plan.programs[0].source.push_back(plan.programs[0].source.back());
  std::string text = readAll(plan.bytes());
  EXPECT_NE(text.find("program of device 0: source shard "), std::string::npos)
      << text;
  EXPECT_NE(text.find(": 60000 members make a section of "), std::string::npos)
      << text;
}

TEST(HostileProgram, RowsOfSegmentsAreBounded) {
  TestPlan plan = manyMembers(40000, 1);
  plan.programs[0].source.resize(5);
  plan.programs[0].destination.push_back(box(4, {{0, 40000}, {0, 1}}));
  Segment from = {4, 1, Side::Source, 4, {0, 0}, {40000, 1}};
  Segment to = {4, 1, Side::Destination, 4, {0, 0}, {40000, 1}};
  Instruction copy;
  copy.segments = {from, to};
  plan.programs[0].instructions.push_back(copy);
  EXPECT_EQ(readAll(plan.bytes()), "");
  for (int i = 0; i < 100; ++i)
    plan.programs[0].instructions.push_back(copy);
  std::string text = readAll(plan.bytes());
  EXPECT_NE(text.find("(copy): 40000 rows of segments make a section of "),
            std::string::npos)
      << text;
}

TEST(HostileProgram, SegmentsAreChecked) {
  auto packed = [](TestPlan &p) -> Segment & {
    return firstOf(p, 1, Opcode::Pack).segments[0];
  };
  expectErrors(
      reshapePlan(),
      {{[=](TestPlan &p) { packed(p).states = 4; },
        "(pack): segment of 'layers.{}.mlp.fc1.weight' has state mask 4, its "
        "shard 3"},
       {[=](TestPlan &p) { packed(p).offset[0] = -1; },
        "has offset -1 and size 4 in dim 0 of 4"},
       {[=](TestPlan &p) { packed(p).size[1] = 0; },
        "and size 0 in dim 1 of 16"},
       {[=](TestPlan &p) { packed(p).size[1] = INT64_MAX; },
        "and size 9223372036854775807 in dim 1"},
       {[=](TestPlan &p) { packed(p).offset[1] = 8; },
        "box of tensor 'layers.0.mlp.fc1.weight' is not inside one interval "
        "of its shard: dim 1 spans [8, 10)"},
       {[](TestPlan &p) { firstOf(p, 1, Opcode::Copy).segments.pop_back(); },
        "segments, expected pairs"},
       {[](TestPlan &p) {
          auto &segments = firstOf(p, 0, Opcode::Copy).segments;
          segments[0] = segments[segments.size() - 2];
        },
        "pair 0 copies a box to another box"},
       {[](TestPlan &p) {
          auto &segments = firstOf(p, 0, Opcode::Copy).segments;
          segments[0].states = 1;
          segments[1].states = 2;
        },
        "pair 0 copies a box to another box"},
       {[](TestPlan &p) {
          auto &segments = firstOf(p, 1, Opcode::Copy).segments;
          segments[1] = segments[0];
        },
        "(copy): writes the source side"},
       {[](TestPlan &p) {
          Segment &zeroed = firstOf(p, 1, Opcode::Zero).segments[0];
          zeroed.side = Side::Source;
          zeroed.offset[0] = 4;
          zeroed.size[0] = 1;
        },
        "(zero): writes the source side"}});
}

TEST(HostileProgram, MessagesAreChecked) {
  auto sent = [](TestPlan &p) -> Message & {
    return p.programs[0].instructions[1].messages[0];
  };
  expectErrors(
      forwardingPlan(),
      {{[=](TestPlan &p) { sent(p).bytes = 0; },
        "message 0: message without bytes"},
       {[=](TestPlan &p) { sent(p).direct = false; },
        "staging range [0, +32) is outside the arena of 0 bytes"},
       {[=](TestPlan &p) { sent(p).bytes = 16; },
        "segment holds 32 bytes, expected 16"},
       {[=](TestPlan &p) {
          sent(p).segment.size = {4, 2};
          sent(p).bytes = 16;
        },
        "direct message of 'w' is not contiguous in its shard"},
       {[=](TestPlan &p) { sent(p).receive = true; },
        "receives to the source side"},
       {[=](TestPlan &p) { p.programs[1].instructions[1].wave = 0; },
        "(group): wave 0 after wave 0"},
       {[=](TestPlan &p) { p.programs[1].instructions[0].wave = -1; },
        "(group): wave -1 after wave -1"},
       {[=](TestPlan &p) { p.programs[0].instructions[0].wave = -2; },
        "(copy): wave -2"},
       {[](TestPlan &p) { p.programs[0].instructions[0].op = Opcode(9); },
        "instruction 0: unknown opcode 9"}});
  // A direct message is of one state of one tensor, in the dtype that travels.
  Segment two = {0, 3, Side::Source, 0, {0, 0, 0}, {1, 4, 4}};
  std::vector<StateInfo> states = {{"a", DType::F32, DType::BF16},
                                   {"b", DType::F32, DType::F32}};
  ShardRecord whole = box(0, {{0, 2}, {0, 4}, {0, 4}}, 3);
  TestPlan plan = makePlan({makeFamily("w{}", {{0, 1, 2}}, {4, 4}, states)},
                           {{whole}, {}}, {{}, {whole}});
  auto direct = [&](uint64_t mask, int64_t members, uint64_t bytes) {
    return [=](TestPlan &p) mutable {
      Message &message = firstOf(p, 0, Opcode::Group).messages[0];
      message.direct = true;
      message.bytes = bytes;
      message.segment = two;
      message.segment.states = mask;
      message.segment.size[0] = members;
    };
  };
  expectErrors(plan,
               {{direct(3, 1, 96), "covers more than one state or tensor"},
                {direct(2, 2, 128), "covers more than one state or tensor"},
                {direct(1, 1, 32),
                 "direct message of 'w0' stores f32, but bf16 travels"}});
}

TEST(HostileProgram, StorageIsChecked) {
  auto created = [](TestPlan &p) -> Segment & {
    return firstOf(p, 0, Opcode::Create).segments[0];
  };
  expectErrors(
      reshapePlan(MemoryMode::Flat),
      {{[=](TestPlan &p) { created(p).offset[0] = 3; },
        "members [3, +4) in dim 0 of 'layers.{}.mlp.fc1.weight' are not inside "
        "one interval of the shard"},
       {[=](TestPlan &p) { created(p).offset[1] = -1; },
        "storage [-1, +48) of 'layers.{}.mlp.fc1.weight' is outside its 48 "
        "elements"},
       {[=](TestPlan &p) { created(p).size[2] = 2; },
        "storage [0, +2) of 'layers.{}.mlp.fc1.weight' is outside its 1"},
       {[=](TestPlan &p) { created(p).side = Side::Source; },
        "(create): creates on the source side"},
       {[](TestPlan &p) {
          Segment &gone = firstOf(p, 0, Opcode::Release).segments[0];
          gone.side = Side::Destination;
        },
        "(release): releases the destination side"}});
}

//===----------------------------------------------------------------------===//
// What PlanWriter has no words for
//===----------------------------------------------------------------------===//

namespace {

/// A section with one program of these tables.
std::string programSection(const std::vector<int64_t> &pool,
                           const std::vector<fb::Shard> &source,
                           const std::vector<fb::Segment> &segments,
                           const std::vector<fb::Message> &messages,
                           const std::vector<fb::Instruction> &instructions) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(
      fb::CreateProgram(builder, 0, 0, 0, 0, builder.CreateVector(pool),
                        builder.CreateVectorOfStructs(source),
                        builder.CreateVectorOfStructs(std::vector<fb::Shard>()),
                        builder.CreateVectorOfStructs(segments),
                        builder.CreateVectorOfStructs(messages),
                        builder.CreateVectorOfStructs(instructions)));
  return {reinterpret_cast<const char *>(builder.GetBufferPointer()),
          builder.GetSize()};
}

/// What reading a plan with that program of device 0 gives.
std::string readWith(const std::string &section) {
  auto plan = PlanSections::split(reshapePlan().bytes());
  plan->programs[0].bytes = section;
  return readAll(plan->join());
}

constexpr auto kCopy = uint8_t(Opcode::Copy);
constexpr auto kGroup = uint8_t(Opcode::Group);

} // namespace

TEST(HostileTables, PlacesInListsAreChecked) {
  fb::Shard shard(1, 0, 0, 1, 0, 2, false, 0);
  std::vector<int64_t> pool = {1, 0, 4, 1, 0, 4};
  expectContains(readWith(programSection({1, 0}, {shard}, {}, {}, {})),
                 "coordinates [1, 3) are outside the pool of 2");
  expectContains(readWith(programSection({-1, 0, 4}, {shard}, {}, {}, {})),
                 "shard has -1 intervals in dim 0");
  expectContains(readWith(programSection({kHuge, 0, 4}, {shard}, {}, {}, {})),
                 "shard has 1152921504606846976 intervals in dim 0");
  expectContains(readWith(programSection(
                     {}, {fb::Shard(1, 0, 0, 1, 0, 99, false, 0)}, {}, {}, {})),
                 "shard has 99 dims, limit 32");
  expectContains(
      readWith(programSection(pool, {shard}, {}, {},
                              {fb::Instruction(0, 0, -1, 0, 1, kCopy)})),
      "instruction 0: segment 0 of 0");
  expectContains(
      readWith(programSection(pool, {shard}, {fb::Segment(4, 0, 1, 1)}, {},
                              {fb::Instruction(0, 0, -1, 0, 1, kCopy)})),
      "instruction 0: shard 2 of 1");
  expectContains(
      readWith(programSection(pool, {shard}, {fb::Segment(0, 99, 0, 0)}, {},
                              {fb::Instruction(0, 0, -1, 0, 1, kCopy)})),
      "coordinates [99, 100) are outside the pool of 6");
  expectContains(
      readWith(programSection(pool, {shard}, {}, {},
                              {fb::Instruction(0, 0, 0, 0, 1, kGroup)})),
      "instruction 0: message 0 of 0");
  expectContains(
      readWith(programSection(pool, {shard}, {}, {},
                              {fb::Instruction(0, 0, 0, 1, 1, kGroup)})),
      "messages start at 1, expected 0");
  fb::Segment row(0, 0, 1, 0);
  expectContains(
      readWith(programSection(pool, {shard}, {row, row}, {},
                              {fb::Instruction(0, 0, -1, 0, 2, kCopy),
                               fb::Instruction(0, 0, -1, 1, 1, kCopy)})),
      "segments start at 1, expected at least 2");
}

TEST(HostileTables, SharedListsAreChargedEachTime) {
  // A thousand shards share one list of intervals.
  std::vector<int64_t> pool = {3000};
  for (int64_t i = 0; i < 3000; ++i)
    pool.insert(pool.end(), {i, i + 1});
  pool.insert(pool.end(), {1, 0, 4});
  std::vector<fb::Shard> shards(3000, fb::Shard(1, 0, 0, 1, 0, 2, false, 0));
  expectContains(readWith(programSection(pool, shards, {}, {}, {})),
                 "3000 intervals of shards make a section of ");
}

TEST(HostileTables, SharedNamesAreChargedEachTime) {
  flatbuffers::FlatBufferBuilder builder;
  auto name = builder.CreateString(std::string(1000, 'w'));
  auto state = fb::CreateState(builder, name, 0, 0);
  std::vector<flatbuffers::Offset<fb::State>> shared(1 << 19, state);
  auto states = builder.CreateVector(shared);
  std::vector<flatbuffers::Offset<fb::Family>> families = {
      fb::CreateFamily(builder, name, 0, 0, states)};
  fb::Cluster cluster(1, 1, 1, 1, 1, 1);
  auto list = builder.CreateVector(families);
  auto summary = fb::CreateSummary(builder);
  builder.Finish(fb::CreateCommon(builder, 0, 0, 0, 0, 0, 0, 0, 0, list,
                                  &cluster, summary));
  PlanSections plan;
  plan.common.assign(reinterpret_cast<const char *>(builder.GetBufferPointer()),
                     builder.GetSize());
  expectContains(readAll(plan.join()),
                 "1000 bytes of names of states make a section of ");
}

TEST(HostileTables, ACommonSectionHasClusterAndSummary) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fb::CreateCommon(builder));
  PlanSections plan;
  plan.common.assign(reinterpret_cast<const char *>(builder.GetBufferPointer()),
                     builder.GetSize());
  EXPECT_EQ(readAll(plan.join()),
            "common section lacks its cluster or its summary");
}
