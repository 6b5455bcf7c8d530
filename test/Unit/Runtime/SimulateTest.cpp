//===- SimulateTest.cpp - Plan files, event by event ----------------------===//

#include "PlanBuilder.h"

#include "dtrt/format/LocalWork.h"
#include "dtrt/report/Simulate.h"
#include "dtrt/report/SimulatedPrograms.h"

#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include <sstream>

using namespace dtrt;
using namespace dtrt::test;

namespace {

using Kind = DeviceStep::Kind;

/// A copy, two packs, and a part that comes and is passed on.
TestPlan forwarder(MemoryMode mode) {
  TestPlan plan;
  plan.common.families = {
      makeFamily("w", {}, {4, 4}, {{"param", DType::F32, DType::F32}})};
  plan.common.summary.mode = mode;
  Segment all = {0, 1, Side::Source, 0, {0, 0}, {4, 4}};
  Instruction copy;
  copy.segments = {all, all};
  copy.segments[1].side = Side::Destination;
  plan.programs.emplace_back();
  plan.programs[0].source = {box(0, {{0, 4}, {0, 4}})};
  plan.programs[0].destination = {box(0, {{0, 4}, {0, 5}})};
  plan.programs[0].instructions = {
      copy,
      inWave(0, packOf(0, 10)),
      inWave(0, packOf(10, 6)),
      inWave(0, groupOf({{false, 1, 10, false, 0, {}},
                         {false, 2, 6, false, 10, {}}})),
      inWave(1, packOf(100, 20)),
      inWave(1, groupOf({{false, 1, 20, false, 100, {}},
                         {true, 2, 7, false, 200, {}}})),
      inWave(1, unpackOf(200, 7)),
      inWave(2, packOf(300, 7, Side::Destination)),
      inWave(2, groupOf({{false, 1, 7, false, 300, {}},
                         {true, 2, 9, false, 400, {}}})),
      inWave(2, unpackOf(400, 9)),
      inWave(3, groupOf({{false, 1, 5, true, 0, all}}))};
  return plan;
}

std::vector<DeviceStep> forwarderSteps(MemoryMode mode) {
  TestPlan plan = forwarder(mode);
  return stepsOf(plan.common, plan.programs[0]);
}

nlohmann::json simulated(const TestPlan &plan,
                         const SimulationRequest &request = {}) {
  std::ostringstream out;
  PlanReader reader = plan.reader();
  Status status = writeSimulation(reader, request, OutputFormat::Json, out);
  EXPECT_TRUE(status.ok()) << status.message();
  return nlohmann::json::parse(out.str());
}

/// The messages of forwardingPlan: in a node, and between nodes.
constexpr double kInside = 32 / 200e9, kBetween = 32 / 25e9, kLatency = 10e-6;

} // namespace

TEST(Simulate, StepsAreThoseOfTheExecutor) {
  std::vector<DeviceStep> steps = forwarderSteps(MemoryMode::Rollback);
  ASSERT_EQ(steps.size(), 8u);
  // The copy goes beside all; neighbouring packs are one launch.
  EXPECT_EQ(steps[0].kind, Kind::Local);
  EXPECT_EQ(steps[0].bytes, 64);
  EXPECT_EQ(steps[1].kind, Kind::Pack);
  EXPECT_EQ(steps[1].bytes, 16);
  EXPECT_FALSE(steps[1].afterLocal);
  // The next pack goes beside the first group.
  EXPECT_EQ(steps[2].kind, Kind::Group);
  EXPECT_EQ(steps[2].packBytes, 20);
  EXPECT_EQ(steps[2].unpackBytes, 0);
  ASSERT_EQ(steps[2].messages.size(), 2u);
  EXPECT_EQ(steps[2].messages[1].peer, 2);
  EXPECT_EQ(steps[2].messages[1].bytes, 6);
  EXPECT_EQ(steps[3].wave, 1);
  EXPECT_TRUE(steps[3].messages[1].receive);
  // What came is unpacked and packed again before it is passed on; what the
  // copy wrote might be passed on as well.
  EXPECT_EQ(steps[4].kind, Kind::Unpack);
  EXPECT_EQ(steps[4].bytes, 7);
  EXPECT_EQ(steps[5].kind, Kind::Pack);
  EXPECT_TRUE(steps[5].afterLocal);
  EXPECT_EQ(steps[6].packBytes, 0);
  // The last unpack goes beside the last group.
  EXPECT_EQ(steps[7].wave, 3);
  EXPECT_EQ(steps[7].unpackBytes, 9);
  EXPECT_FALSE(steps[7].afterLocal);
}

TEST(Simulate, InFlatMemoryLocalWorkStaysAtItsPlace) {
  std::vector<DeviceStep> steps = forwarderSteps(MemoryMode::Flat);
  ASSERT_EQ(steps.size(), 8u);
  EXPECT_TRUE(steps[1].afterLocal);
  EXPECT_FALSE(steps[5].afterLocal);
}

TEST(Simulate, TheFormulaKnowsLocalWorkOfFlatMemory) {
  TestPlan plan = forwarder(MemoryMode::Rollback);
  EXPECT_TRUE(localWork(plan.common, plan.programs[0]).empty());
  plan = forwarder(MemoryMode::Flat);
  plan.programs[0].instructions.push_back(plan.programs[0].instructions[0]);
  std::vector<TimedCopy> copies = localWork(plan.common, plan.programs[0]);
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_EQ(copies[0].wave, 0);
  EXPECT_EQ(copies[0].bytes, 64);
  EXPECT_EQ(copies[1].wave, INT32_MAX);
  EXPECT_EQ(copies[1].bytes, 64);
}

TEST(Simulate, InFlatMemoryCopiesOfAWaveGoBesideIt) {
  TestPlan plan = forwarder(MemoryMode::Flat);
  plan.programs[0].instructions[0].wave = 0;
  std::vector<DeviceStep> steps = stepsOf(plan.common, plan.programs[0]);
  ASSERT_EQ(steps.size(), 7u);
  EXPECT_EQ(steps[0].kind, Kind::Pack);
  EXPECT_FALSE(steps[0].afterLocal);
  EXPECT_EQ(steps[1].localBytes, 64);
  EXPECT_EQ(steps[1].packBytes, 20);
  plan.programs[0].instructions.insert(plan.programs[0].instructions.begin(),
                                       Instruction());
  plan.programs[0].instructions[0].segments =
      plan.programs[0].instructions[1].segments;
  std::vector<TimedCopy> copies = localWork(plan.common, plan.programs[0]);
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_FALSE(copies[0].isBeside);
  EXPECT_TRUE(copies[1].isBeside);
  EXPECT_EQ(copies[1].wave, 0);
  EXPECT_EQ(copies[1].bytes, 64);
}

TEST(Simulate, WhatStaysIsNoWork) {
  TestPlan plan = forwarder(MemoryMode::Flat);
  RankProgram &program = plan.programs[0];
  program.destination.push_back(program.source[0]);
  program.instructions[0].segments[1].shard = 1;
  EXPECT_TRUE(localWork(plan.common, program).empty());
  std::vector<DeviceStep> steps = stepsOf(plan.common, program);
  ASSERT_EQ(steps.size(), 7u);
  EXPECT_EQ(steps[0].kind, Kind::Pack);
  EXPECT_FALSE(steps[0].afterLocal);
}

TEST(Simulate, AForwardTakesTwoMessages) {
  TestPlan plan = forwardingPlan();
  nlohmann::json json = simulated(plan);
  EXPECT_NEAR(json["simulated_s"], 2 * kLatency + kInside + kBetween, 1e-15);
  EXPECT_EQ(json["undisturbed_s"], json["simulated_s"]);
  EXPECT_EQ(json["disturbances"].size(), 0u);
  ASSERT_EQ(json["path"].size(), 2u);
  EXPECT_EQ(json["path"][1]["device"], 1);
  EXPECT_EQ(json["path"][1]["peer"], 2);
  ASSERT_EQ(json["devices"].size(), 3u);
  EXPECT_EQ(json["devices"][2]["waited_for"], 1);
  double first = kLatency + kInside;
  EXPECT_NEAR(json["devices"][2]["waiting_s"], first, 1e-15);
  EXPECT_NEAR(json["devices"][1]["kept_waiting_s"], first, 1e-15);
  // The copy of device 0 goes beside.
  EXPECT_NEAR(json["devices"][0]["copying_s"], 5e-6 + 32e-12, 1e-15);
}

TEST(Simulate, SaysWhatEachDisturbanceCosts) {
  SimulationRequest request;
  request.slow = {"1=3", "0-1=2"};
  request.jitterPercent = 10;
  request.seed = 5;
  nlohmann::json json = simulated(forwardingPlan(), request);
  const nlohmann::json &alone = json["disturbances"];
  ASSERT_EQ(alone.size(), 3u);
  EXPECT_EQ(alone[0]["what"], "jitter of 10 %, seed 5");
  EXPECT_EQ(alone[1]["what"], "device 1 3 x slower");
  EXPECT_NEAR(alone[1]["lost_s"], 2 * (kInside + kBetween), 1e-15);
  EXPECT_EQ(alone[2]["what"], "link 0-1 2 x slower");
  EXPECT_NEAR(alone[2]["lost_s"], kInside, 1e-15);
  double slow = 2 * (kInside + kBetween);
  EXPECT_NEAR(json["spent_s"]["slow"], slow, 0.1 * slow + 1e-15);
  EXPECT_GT(json["simulated_s"], json["undisturbed_s"]);
}

TEST(Simulate, NoPlanIsFasterThanItsBound) {
  std::mt19937_64 rng(21);
  for (int round = 0; round < 60; ++round) {
    TestPlan plan = randomPlan(rng);
    makeSummaryTrue(plan);
    nlohmann::json json = simulated(plan);
    double seconds = json["simulated_s"];
    ASSERT_GE(seconds, double(json["lower_bound_s"]) * (1 - 1e-9)) << round;
    double parts = 0;
    for (const nlohmann::json &part : json["spent_s"])
      parts += part.get<double>();
    ASSERT_NEAR(parts, seconds, 1e-12) << round;
  }
}

TEST(Simulate, TellsAPlanWhoseMessagesHaveNoOtherEnd) {
  TestPlan plan = forwardingPlan();
  plan.programs[2].instructions.clear();
  std::ostringstream out;
  PlanReader reader = plan.reader();
  Status status = writeSimulation(reader, {}, OutputFormat::Text, out);
  EXPECT_EQ(status.message(),
            "device 1 sends 32 bytes in wave 1 to device 2, which has no such "
            "message in that wave");
  EXPECT_EQ(out.str(), "");
}
