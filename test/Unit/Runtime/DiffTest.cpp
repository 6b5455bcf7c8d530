//===- DiffTest.cpp - Diff tells every difference that means something ----===//

#include "FirstOf.h"
#include "PlanFields.h"

#include "dtrt/report/Diff.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

using namespace dtrt;
using namespace dtrt::test;

namespace {

std::pair<bool, std::string> difference(const PlanReader &a,
                                        const PlanReader &b) {
  std::ostringstream out;
  auto same = writeDifferences(a, b, out);
  EXPECT_TRUE(same.ok()) << same.status().message();
  EXPECT_EQ(*same, out.str().empty()) << out.str();
  return {*same, out.str()};
}

/// What diff prints of a plan before and after a change; empty: the same.
std::string changed(const TestPlan &plan,
                    const std::function<void(TestPlan &)> &change) {
  TestPlan other = plan;
  change(other);
  return difference(plan.reader(), other.reader()).second;
}

/// Fields that no reader takes another value of while all else stays; below are
/// plans in which they differ together with what belongs to them.
const std::set<std::string> kBound = {"collective.getSlot",
                                      "collective.giveSlot",
                                      "collective.kind",
                                      "collective.members",
                                      "collective.root",
                                      "common.memberSets.devices",
                                      "common.memberSets.devices[]",
                                      "common.memberSets[]",
                                      "common.destinationDevices",
                                      "common.destinationDevices[]",
                                      "common.destinationWorld",
                                      "common.sourceDevices",
                                      "common.sourceDevices[]",
                                      "common.sourceWorld",
                                      "compression.belowGBps",
                                      "compression.blockBytes",
                                      "family.leading[]",
                                      "family.shape[]",
                                      "instruction.bytes",
                                      "leading.list[]",
                                      "message.direct",
                                      "program.device",
                                      "program.destinationRank",
                                      "program.sourceRank",
                                      "programs[]",
                                      "segment.family",
                                      "segment.offset[]",
                                      "segment.shard",
                                      "segment.size[]",
                                      "shard.dims[]",
                                      "shard.family",
                                      "shard.view",
                                      "view.dims[]",
                                      "view.family",
                                      "view.isIndex",
                                      "view.leading[]",
                                      "view.side"};

std::vector<std::string> namesOf(TestPlan plan) {
  std::set<std::string> names;
  for (const Field &field : fieldsOf(plan))
    names.insert(field.name);
  return {names.begin(), names.end()};
}

std::vector<Field> fieldsNamed(TestPlan &plan, const std::string &name) {
  std::vector<Field> alike;
  for (Field &field : fieldsOf(plan))
    if (field.name == name)
      alike.push_back(std::move(field));
  return alike;
}

/// The plan with another value of one of the fields of that name, if a reader
/// takes it. All of them have their turn, `turn` by `turn`.
std::optional<PlanReader> withOther(const TestPlan &plan,
                                    const std::string &name, size_t turn,
                                    Rng &rng) {
  TestPlan other = plan;
  std::vector<Field> alike = fieldsNamed(other, name);
  if (!alike[turn % alike.size()].change(rng))
    return std::nullopt;
  auto bytes = other.encoded();
  if (!bytes.ok() || *bytes == plan.bytes())
    return std::nullopt; // swapped elements may be alike
  auto reader = PlanReader::fromBytes(std::move(*bytes));
  if (!reader.ok() || !TestPlan::from(*reader).ok())
    return std::nullopt;
  return std::move(*reader);
}

} // namespace

// Every field of every struct, each of several values that a reader takes.
TEST(Diff, SeesEveryField) {
  constexpr size_t kTries = 200;
  constexpr int kValues = 4;
  std::map<std::string, int> seen;
  for (const TestPlan &plan :
       {reshapePlan(), reshapePlan(MemoryMode::Flat), derivedPlan(),
        forwardingPlan(), viewedPlan(), listedPlan(), filledPlan(), relayPlan(),
        collectivePlan()}) {
    const PlanReader before = plan.reader();
    for (const std::string &name : namesOf(plan)) {
      Rng rng(1); // always the same, whatever other fields there are
      // Few of some fields can change alone: each has its turn, thrice.
      TestPlan copy = plan;
      size_t turns = std::max(kTries, 3 * fieldsNamed(copy, name).size());
      int values = 0;
      for (size_t turn = 0; turn < turns && values < kValues; ++turn) {
        auto after = withOther(plan, name, turn, rng);
        if (!after)
          continue;
        ++values;
        auto [same, text] = difference(before, *after);
        ASSERT_EQ(same, isProvenance(name)) << name << "\n" << text;
      }
      seen[name] += values;
    }
  }
  for (const auto &[name, values] : seen)
    EXPECT_TRUE(values > 0 || kBound.count(name)) << name;
}

// Milliseconds of some neighbours are one number.
TEST(Diff, SeesTheLastBitOfATime) {
  for (int i = 1; i <= 100; ++i) {
    TestPlan plan = reshapePlan();
    double &seconds = plan.common.summary.timePredicted;
    seconds = 0.0137 * i;
    EXPECT_NE(changed(plan,
                      [](TestPlan &other) {
                        double &after = other.common.summary.timePredicted;
                        after = std::nextafter(after, 1);
                      }),
              "")
        << seconds;
  }
}

TEST(Diff, SeesRanksAndDevices) {
  std::string text = changed(reshapePlan(), [](TestPlan &plan) {
    std::swap(plan.common.sourceDevices[0], plan.common.sourceDevices[1]);
    std::swap(plan.programs[0].sourceRank, plan.programs[1].sourceRank);
  });
  EXPECT_EQ(text, "source devices: 0-3 -> 1, 0, 2-3\n"
                  "program of device 0, source rank: 0 -> 1\n"
                  "program of device 1, source rank: 1 -> 0\n");
  text = changed(derivedPlan(), [](TestPlan &plan) {
    RankProgram idle;
    idle.device = 3;
    idle.destinationRank = 3;
    plan.programs.push_back(idle);
    plan.common.destinationDevices.push_back(3);
    plan.common.destinationWorld = 4;
  });
  EXPECT_EQ(text, "destination world: 3 -> 4\n"
                  "destination devices: 0-2 -> 0-3\n"
                  "program of device 3: absent -> present\n");
}

TEST(Diff, SeesCompression) {
  EXPECT_NE(changed(reshapePlan(),
                    [](TestPlan &plan) {
                      plan.common.compression = {0.25,
                                                 Compression::kLeastBlock};
                    })
                .find("compress"),
            std::string::npos);
}

TEST(Diff, SeesWhichShardIsMeant) {
  Family family = makeFamily("w", {}, {4, 4});
  ShardRecord whole = box(0, {{0, 4}, {0, 4}});
  TestPlan plan = makePlan({family}, {{whole, whole}}, {{whole}});
  EXPECT_EQ(changed(plan,
                    [](TestPlan &other) {
                      firstOf(other, 0, Opcode::Copy).segments[0].shard = 1;
                    }),
            "program of device 0, instruction 0, segment 0, shard: 0 -> 1\n");
}

TEST(Diff, SeesWhetherAMessageIsDirect) {
  TestPlan plan = forwardingPlan();
  plan.programs[2].stagingBytes = 32;
  EXPECT_EQ(changed(plan,
                    [](TestPlan &other) {
                      other.programs[2].instructions[0].messages[0].direct =
                          false;
                    }),
            "program of device 2, instruction 0, message 0, is direct: yes -> "
            "no\n");
}

TEST(Diff, SaysWhichInstructionDiffers) {
  EXPECT_EQ(changed(reshapePlan(),
                    [](TestPlan &plan) {
                      auto &segments = firstOf(plan, 1, Opcode::Copy).segments;
                      std::swap(segments[0], segments[2]);
                      std::swap(segments[1], segments[3]);
                    })
                .find("program of device 1, instruction "),
            0u);
  EXPECT_EQ(changed(forwardingPlan(),
                    [](TestPlan &plan) {
                      plan.programs[2].instructions[0].wave = 7;
                      plan.programs[1].instructions[1].wave = 7;
                    }),
            "bytes in wave 1: 32 B -> 0 B\n"
            "bytes in wave 7: 0 B -> 32 B\n"
            "program of device 1, instruction 1, wave: 1 -> 7\n"
            "program of device 2, instruction 0, wave: 1 -> 7\n");
}

TEST(Diff, SaysWhatStatesAreMadeFrom) {
  std::string text = changed(derivedPlan(), [](TestPlan &plan) {
    plan.common.families[0].states[3].inDestination = true;
  });
  EXPECT_EQ(text.find("tensors layers.{}.w{} [0+1*2, 3+2*2] [8, 6] "
                      "[master:f32->f32, "),
            0u)
      << text;
}

TEST(Diff, SeesThatAPlanHasViews) {
  std::string text = changed(viewedPlan(), [](TestPlan &plan) {
    plan.common.views.clear();
    for (RankProgram &program : plan.programs)
      for (ShardRecord &shard : program.destination)
        shard.view = kNoView;
  });
  EXPECT_NE(text.find("number of views: 3 -> 0\n"), std::string::npos) << text;
}

// Families in another order, with all that names them.
TEST(Diff, FamiliesHaveNoOrder) {
  EXPECT_EQ(
      changed(reshapePlan(),
              [](TestPlan &plan) {
                std::swap(plan.common.families[0], plan.common.families[2]);
                auto turn = [](uint32_t &family) {
                  family = family == 0 ? 2 : family == 2 ? 0 : family;
                };
                for (RankProgram &program : plan.programs) {
                  for (auto *shards : {&program.source, &program.destination})
                    for (ShardRecord &shard : *shards)
                      turn(shard.family);
                  for (Instruction &instruction : program.instructions)
                    for (Segment &segment : instruction.segments)
                      turn(segment.family);
                }
              }),
      "");
}

TEST(Diff, NumbersAreExact) {
  EXPECT_EQ(changed(derivedPlan(),
                    [](TestPlan &plan) {
                      plan.common.cluster.latencyUs =
                          std::nextafter(plan.common.cluster.latencyUs, 1e300);
                    }),
            "latency in us: 10 -> 10.000000000000002\n");
}

TEST(Diff, LinesOfLayoutsAreTold) {
  EXPECT_EQ(changed(derivedPlan(),
                    [](TestPlan &plan) {
                      plan.common.sourceLayout = "rows\n  of v\n";
                      plan.common.destinationLayout = "columns";
                    }),
            "source of: w -> v\n"
            "destination layout in words, line 1: columns -> columns (the "
            "end)\n");
}

// One line for what is the same of several, and a place for every section.
TEST(Diff, FitsAScreenAndCountsTheRest) {
  auto change = [](TestPlan &plan) {
    for (int i = 0; i < 3; ++i)
      plan.common.cluster.links[i % 2].GBps += 1;
    std::string words;
    for (int i = 0; i < 100; ++i)
      words += "dt.place @w" + std::to_string(i) + " of " +
               std::string(200, 'x') + "\n";
    plan.common.sourceLayout = plan.common.destinationLayout = words;
    for (uint32_t device = 3; device < 20; ++device) {
      RankProgram idle;
      idle.device = device;
      plan.programs.push_back(idle);
    }
  };
  std::string text = changed(derivedPlan(), change);
  for (const char *line :
       {"link 0: device 0 to node 0: 50 GBps -> device 0 to node 0: 52 GBps\n",
        "source layout: 92 more lines differ (--all lists them)\n",
        "programs of devices 3-19: absent -> present\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "in\n" << text;
  std::istringstream lines(text);
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    EXPECT_LT(line.size(), 120u) << line;
  EXPECT_LT(count, 60u) << text;
  TestPlan other = derivedPlan();
  change(other);
  std::ostringstream all;
  auto same = writeDifferences(derivedPlan().reader(), other.reader(), all,
                               DiffLength::All);
  ASSERT_TRUE(same.ok());
  EXPECT_NE(all.str().find("source place @w99: absent -> of " +
                           std::string(200, 'x') + "\n"),
            std::string::npos);
  EXPECT_EQ(all.str().find("--all"), std::string::npos);
}

// Rounded to a unit these are alike, and long texts are where they begin.
TEST(Diff, WhatIsShortenedStaysDifferent) {
  EXPECT_EQ(changed(derivedPlan(),
                    [](TestPlan &plan) {
                      plan.common.summary.stagingLimit = (1 << 20) + 1;
                    }),
            "staging limit: 1048576 B -> 1048577 B\n");
  TestPlan first = derivedPlan(), second = first;
  first.common.sourceLayout = "dt.place @w " + std::string(300, 'y') + "a";
  second.common.sourceLayout = "dt.place @w " + std::string(300, 'y') + "b";
  EXPECT_EQ(difference(first.reader(), second.reader()).second,
            "source place @w: ...yyyyyyyyyyyya -> ...yyyyyyyyyyyyb\n");
}

TEST(Diff, LayoutsByWhatDiffers) {
  auto between = [](const char *a, const char *b) {
    TestPlan first = derivedPlan(), second = first;
    first.common.sourceLayout = a;
    second.common.sourceLayout = b;
    return difference(first.reader(), second.reader()).second;
  };
  EXPECT_EQ(between("dt.mesh @m <[\"dp\"=2, \"tp\"=8]>\n",
                    "dt.mesh @m <[\"pp\"=2, \"tp\"=4]>\n"),
            "source mesh @m, dp: 2 -> 1\n"
            "source mesh @m, tp: 8 -> 4\n"
            "source mesh @m, pp: 1 -> 2\n");
  EXPECT_EQ(between("dt.mesh @m <[\"dp\"=2, \"tp\"=8]>\n",
                    "dt.mesh @m <[\"tp\"=8, \"dp\"=2]>\n"),
            "source mesh @m, order of axes: dp, tp -> tp, dp\n");
  EXPECT_EQ(between("dt.mesh @m <[\"tp\"=2]>\n",
                    "dt.mesh @m <[\"tp\"=2], devices=[1, 0]>\n"),
            "source mesh @m, devices: > -> , devices=[1, 0]>\n");
  EXPECT_EQ(between("dt.mesh @m <[\"tp\"=1]>\n", "dt.mesh @m <[]>\n"),
            "source mesh @m: <[\"tp\"=1]> -> <[]>\n");
  EXPECT_EQ(between("dt.layout @s of @t on [@m] world 8 {\n",
                    "dt.layout @s of @t on [@m] world 4 {\n"),
            "source layout @s, world: 8 -> 4\n");
  EXPECT_EQ(between("dt.place @a x\ndt.place @b y\n",
                    "dt.place @b y\ndt.place @a x\n"),
            "source layout in words, line 1: dt.place @a x -> dt.place @b y\n");
  EXPECT_EQ(between("dt.place @a absent\n", ""),
            "source layout in words, line 1: dt.place @a absent ->  (the "
            "end)\n");
}
