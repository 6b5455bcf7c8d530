//===- LossesTest.cpp - What a failure would lose, wave by wave -----------===//

#include "LossOracle.h"
#include "Mutants.h"
#include "PlanBuilder.h"

#include "dtrt/report/Inspect.h"
#include "dtrt/report/OutputFormat.h"
#include "dtrt/verify/Losses.h"

#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

using namespace dtrt;
using namespace dtrt::test;

namespace {

/// Numbers as one would read them where they differ.
std::string textOf(const PlanLosses &losses) {
  std::ostringstream out;
  for (const Loss &loss : losses.moments)
    out << loss.moment << ": " << loss.bytes << " of " << loss.device << ", "
        << loss.allBytes << "\n";
  if (losses.firstRelease)
    out << "released at " << *losses.firstRelease << " by "
        << losses.releasingDevice << "\n";
  return out.str();
}

std::string foundIn(const TestPlan &plan) {
  auto losses = findLosses(plan.reader());
  return losses.ok() ? textOf(*losses) : losses.status().message();
}

std::string inspected(const TestPlan &plan, OutputFormat format) {
  std::ostringstream out;
  Status status = writeInspection(plan.reader(), std::nullopt, format, out);
  EXPECT_TRUE(status.ok()) << status.message();
  return out.str();
}

} // namespace

TEST(Losses, FollowTheOnlyCopy) {
  TestPlan plan = twoHalves();
  EXPECT_EQ(foundIn(plan), "-2: 16 of 0, 16\n"
                           "-1: 16 of 0, 16\n" // one half in staging
                           "3: 8 of 0, 16\n"   // a half on each
                           "5: 16 of 1, 16\n"
                           "released at -1 by 0\n");
  // A replica that stays: only while it has gone is there one copy.
  plan.programs[1].source = plan.programs[0].source;
  Instruction release;
  release.op = Opcode::Release;
  release.segments = {{0, 1, Side::Source, 0, {2}, {4}}};
  auto &all = plan.programs[1].instructions;
  all.insert(all.begin(), release);
  EXPECT_EQ(foundIn(plan), "-2: 0 of 0, 0\n"
                           "-1: 8 of 0, 8\n"
                           "3: 8 of 1, 12\n"
                           "5: 16 of 1, 16\n"
                           "released at -1 by 0\n");
}

TEST(Losses, AreThoseOfEachElement) {
  for (unsigned seed = 1; seed <= 150; ++seed) {
    std::mt19937_64 rng(seed);
    TestPlan plan = anyPlan(rng);
    if (rng() % 2)
      plan = overlapped(plan);
    if (rng() % 8)
      releaseAnything(plan, rng);
    LossOracle oracle(plan);
    ASSERT_EQ(foundIn(plan), textOf(oracle.losses())) << "seed " << seed;
  }
}

TEST(Losses, AreToldOfWhatCanBeMadeFromAnother) {
  TestPlan plan = derivedPlan();
  plan.common.summary.mode = MemoryMode::Flat;
  // Device 1 makes its param from its master: a copy of one is one of both.
  EXPECT_EQ(foundIn(plan), textOf(LossOracle(plan).losses()));
}

// n rows and n columns cut each other to n * n pieces.
TEST(Losses, EndWhereThereAreTooManyPieces) {
  constexpr int64_t n = 1 << 13;
  Family family = makeFamily("w", {}, {n, n});
  ShardRecord whole = box(0, {{0, n}, {0, n}});
  TestPlan plan = makePlan({family}, {{whole}}, {{whole}}, MemoryMode::Flat);
  Instruction copy;
  for (int64_t i = 0; i < n; ++i)
    for (bool row : {true, false})
      for (Side side : {Side::Source, Side::Destination})
        copy.segments.push_back({0,
                                 1,
                                 side,
                                 0,
                                 {row ? i : 0, row ? 0 : i},
                                 {row ? 1 : n, row ? n : 1}});
  plan.programs[0].instructions = {copy};
  EXPECT_NE(foundIn(plan).find("steps"), std::string::npos) << foundIn(plan);
  std::string text = inspected(plan, OutputFormat::Text);
  EXPECT_NE(text.find("lost by a failure     unknown: takes more than"),
            std::string::npos)
      << text;
  auto json = nlohmann::json::parse(inspected(plan, OutputFormat::Json));
  EXPECT_EQ(json["losses"].size(), 1u);
  EXPECT_TRUE(json["losses"].contains("unknown"));
}

// A range of a shard of n x n rows and columns is as many boxes.
TEST(Losses, EndWhereThereAreTooManyBoxes) {
  constexpr int64_t n = 3000;
  Family family = makeFamily("w", {}, {2 * n, 2 * n});
  ShardRecord sieve = box(0, {});
  sieve.dims.resize(2);
  for (int64_t i = 0; i < n; ++i)
    for (auto &intervals : sieve.dims)
      intervals.push_back({2 * i, 2 * i + 1});
  TestPlan plan = makePlan({family}, {{box(0, {{0, 2 * n}, {0, 2 * n}})}}, {{}},
                           MemoryMode::Flat);
  plan.programs[0].source = {sieve};
  plan.programs[0].instructions.clear();
  EXPECT_NE(foundIn(plan).find("numbers to tell"), std::string::npos)
      << foundIn(plan);
}

TEST(Losses, OfAMessageThatDidNotComeAreUnknown) {
  TestPlan plan = twoHalves();
  auto &all = plan.programs[1].instructions;
  all.erase(all.begin());
  EXPECT_EQ(foundIn(plan),
            "device 1 unpacks bytes [0, 8) that no message brought");
}

TEST(Losses, AreInspected) {
  std::string text = inspected(twoHalves(), OutputFormat::Text);
  for (const char *line :
       {"point of no return    when all processes have begun the transfer; the "
        "first release is before the waves, on device 0\n",
        "  at the start        16 B with device 0, of 16 B\n",
        "  before the waves    16 B with device 0, of 16 B\n",
        "  after wave 3        8 B with device 0, of 16 B\n",
        "  after wave 5        16 B with device 1, of 16 B\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "in\n" << text;
  auto json = nlohmann::json::parse(
      inspected(twoHalves(), OutputFormat::Json))["losses"];
  EXPECT_EQ(json["first_release"],
            (nlohmann::json{{"after_wave", -1}, {"device", 0}}));
  ASSERT_EQ(json["waves"].size(), 4u);
  EXPECT_EQ(json["waves"][2], (nlohmann::json{{"first", 3},
                                              {"last", 3},
                                              {"device", 0},
                                              {"bytes", 8},
                                              {"all_bytes", 16}}));
}

TEST(Losses, AreNoneBeforeACommit) {
  TestPlan plan = reshapePlan();
  std::string text = inspected(plan, OutputFormat::Text);
  EXPECT_NE(text.find("point of no return    the commit: until then every "
                      "source is whole\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("lost by"), std::string::npos) << text;
  auto json = nlohmann::json::parse(inspected(plan, OutputFormat::Json));
  EXPECT_FALSE(json.contains("losses"));
}

// Two devices have all, before and after, and copy it for themselves.
TEST(Losses, AreNoneWhereAllIsThereTwice) {
  ShardRecord whole = box(0, {{0, 8}});
  TestPlan plan = makePlan({makeFamily("w", {}, {8})}, {{whole}, {whole}},
                           {{whole}, {whole}}, MemoryMode::Flat);
  std::string text = inspected(plan, OutputFormat::Text);
  EXPECT_NE(text.find("lost by a failure     nothing at any time: all is on "
                      "two devices at least\n"),
            std::string::npos)
      << text;
}

// A vector of 64 that goes in 64 waves: no more lines than a screen has.
TEST(Losses, OfManyWavesFitAScreen) {
  constexpr int64_t n = 64;
  TestPlan plan = makePlan({makeFamily("w", {}, {n})}, {{box(0, {{0, n}})}, {}},
                           {{}, {box(0, {{0, n}})}}, MemoryMode::Flat);
  for (RankProgram &program : plan.programs) {
    program.instructions.clear();
    bool receives = program.device == 1;
    for (int64_t i = 0; i < n; ++i) {
      Segment segment = {0, 1,   receives ? Side::Destination : Side::Source,
                         0, {i}, {1}};
      Instruction group = inWave(int32_t(i), groupOf({}));
      group.messages = {{receives, 1 - program.device, 2, true, 0, segment}};
      program.instructions.push_back(group);
      Instruction release;
      release.op = Opcode::Release;
      release.segments = {segment};
      if (!receives)
        program.instructions.push_back(release);
    }
  }
  std::string text = inspected(plan, OutputFormat::Text);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 32) << text;
  EXPECT_NE(text.find("  after wave 63       128 B with device 1, of 128 B\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  waves 0-6           up to 126 B with device 0 after "
                      "wave 0, of up to 128 B\n"),
            std::string::npos)
      << text;
  auto json = nlohmann::json::parse(inspected(plan, OutputFormat::Json));
  EXPECT_EQ(json["losses"]["waves"].size(), size_t(n) + 2);
}
