//===- LostRegionsTest.cpp - What is gone with a device -------------------===//

#include "ExpectContains.h"
#include "LossNote.h"
#include "LossOracle.h"
#include "WaveReach.h"

#include "dtrt/verify/LostRegions.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace dtrt;
using namespace dtrt::test;

namespace {

/// Devices whose groups are rendezvous of their ends, and that go on in any
/// order.
class Rendezvouses {
public:
  Rendezvouses(const std::vector<WaveEdge> &edges, size_t count)
      : groups(count), places(count) {
    for (const WaveEdge &edge : edges) {
      groups[edge.source][edge.wave].insert(edge.destination);
      groups[edge.destination][edge.wave].insert(edge.source);
    }
  }

  struct Place {
    Moment wave = kBeforeWaves; // of the last group that was begun
    bool isInGroup = false;
  };
  const Place &place(size_t device) const { return places[device]; }
  bool isDone(size_t device) const {
    return !places[device].isInGroup && !next(device);
  }

  /// False where it has to wait.
  bool step(size_t device) {
    Place &own = places[device];
    if (own.isInGroup) {
      for (uint32_t peer : groups[device].at(own.wave))
        if (places[peer].wave < own.wave)
          return false;
      own.isInGroup = false;
      return true;
    }
    if (auto wave = next(device)) {
      own = {*wave, true};
      return true;
    }
    return false;
  }

private:
  std::optional<Moment> next(size_t device) const {
    auto at = groups[device].upper_bound(places[device].wave);
    if (at == groups[device].end())
      return std::nullopt;
    return at->first;
  }
  std::vector<std::map<Moment, std::set<uint32_t>>> groups; // by wave: peers
  std::vector<Place> places;
};

std::vector<WaveEdge> someEdges(size_t count, std::mt19937_64 &rng) {
  std::vector<WaveEdge> edges;
  for (Moment wave = 0; wave < 12; ++wave)
    for (uint64_t more = rng() % 4; more > 0; --more) {
      uint32_t from = uint32_t(rng() % count), to = uint32_t(rng() % count);
      if (from != to)
        edges.push_back({wave, from, to});
    }
  return edges;
}

std::set<Element> elementsOf(const std::vector<LostRegion> &regions,
                             bool isSure) {
  std::set<Element> out;
  for (const LostRegion &region : regions) {
    if (region.isSure != isSure)
      continue;
    for (unsigned state : statesOf(region.states)) {
      std::vector<int64_t> place = region.offset;
      for (bool more = true; more;) {
        EXPECT_TRUE(out.insert({region.family, state, place}).second);
        more = false;
        for (size_t dim = place.size(); dim-- > 0 && !more;) {
          more = ++place[dim] < region.offset[dim] + region.size[dim];
          if (!more)
            place[dim] = region.offset[dim];
        }
      }
    }
  }
  return out;
}

} // namespace

TEST(LostRegions, ReachBoundsEveryRun) {
  for (unsigned seed = 1; seed <= 400; ++seed) {
    std::mt19937_64 rng(seed);
    size_t count = 2 + rng() % 5;
    std::vector<WaveEdge> edges = someEdges(count, rng);
    Rendezvouses world(edges, count);
    for (uint64_t steps = rng() % 120; steps > 0; --steps)
      world.step(rng() % count);
    for (uint32_t self = 0; self < count; ++self) {
      const auto &own = world.place(self);
      Moment wave = own.wave;
      std::vector<Reach> reach =
          findReach(edges, count, self, wave, own.isInGroup);
      for (uint32_t device = 0; device < count; ++device) {
        const auto &at = world.place(device);
        EXPECT_LE(reach[device].first, at.wave - 1) << "seed " << seed;
        EXPECT_GE(reach[device].last, at.isInGroup ? at.wave - 1 : at.wave)
            << "seed " << seed << " device " << device << " of " << self;
      }
    }
  }
}

TEST(LostRegions, ReachIsExactInAChain) {
  // 0 -> 1 -> 2 -> 3 in waves 0, 1, 2.
  std::vector<WaveEdge> edges = {{0, 0, 1}, {1, 1, 2}, {2, 2, 3}};
  std::vector<Reach> reach = findReach(edges, 4, 2, 1, true);
  EXPECT_EQ(reach[2].first, 0);
  EXPECT_EQ(reach[2].last, 0);
  // 1 may have sent and gone on, 3 waits for 2, 0 may be anywhere.
  EXPECT_EQ(reach[1].last, kForever);
  EXPECT_EQ(reach[3].last, 1);
  EXPECT_EQ(reach[0].first, kAtStart);
  // Whoever has ended all has seen the others begin.
  reach = findReach(edges, 4, 3, kForever, false);
  EXPECT_EQ(reach[2].first, 1);
  EXPECT_EQ(reach[1].first, 0);
  EXPECT_EQ(reach[0].first, -1);
}

/// Where all devices have done what comes before a wave, whoever is in that
/// wave's group must tell what that state has lost.
TEST(LostRegions, AreThoseOfEachElement) {
  size_t lost = 0, uncertain = 0, saved = 0;
  for (unsigned seed = 1; seed <= 120; ++seed) {
    std::mt19937_64 rng(seed);
    TestPlan plan = anyPlan(rng);
    if (rng() % 4)
      releaseAnything(plan, rng);
    LossOracle oracle(plan);
    const RankProgram &asking = plan.programs[rng() % plan.programs.size()];
    uint32_t gone = plan.programs[rng() % plan.programs.size()].device;
    for (const Instruction &group : asking.instructions) {
      if (group.op != Opcode::Group || gone == asking.device)
        continue;
      size_t moment = 0;
      for (const Loss &loss : oracle.losses().moments)
        moment += loss.moment < group.wave;
      auto found = findLostRegions(plan.reader(),
                                   {asking.device, group.wave, true, {gone}});
      ASSERT_TRUE(found.ok()) << found.status().message();
      ASSERT_EQ(found->numRegions, found->regions.size());
      std::set<Element> sure = elementsOf(found->regions, true);
      std::set<Element> perhaps = elementsOf(found->regions, false);
      lost += sure.size(), uncertain += perhaps.size();
      saved += found->savedBytes;
      for (const auto &[element, holders] : oracle.holders()) {
        std::set<uint32_t> others = holders[moment - 1];
        bool had = others.erase(gone) > 0;
        if (sure.count(element)) {
          EXPECT_TRUE(others.empty()) << "seed " << seed;
        } else if (had && others.empty()) {
          EXPECT_TRUE(perhaps.count(element)) << "seed " << seed;
        }
      }
    }
  }
  EXPECT_GT(lost, 0u);
  EXPECT_GT(uncertain, 0u);
  EXPECT_GT(saved, 0u);
}

TEST(LostRegions, FollowTwoHalves) {
  PlanReader plan = twoHalves().reader();
  // Device 1 waits for the second half when 0 is gone.
  auto lost = findLostRegions(plan, {1, 5, true, {0}});
  ASSERT_TRUE(lost.ok()) << lost.status().message();
  ASSERT_EQ(lost->regions.size(), 1u);
  EXPECT_EQ(lost->regions[0].offset, std::vector<int64_t>{4});
  EXPECT_EQ(lost->regions[0].size, std::vector<int64_t>{4});
  EXPECT_TRUE(lost->regions[0].isSure);
  EXPECT_EQ(lost->lostBytes, 8u);
  EXPECT_EQ(lost->uncertainBytes, 0u);
  // Once it has both nothing is.
  lost = findLostRegions(plan, {1, kForever, false, {0}});
  EXPECT_EQ(lost->lostBytes + lost->uncertainBytes, 0u);
  // Device 0 has sent all: 1 has it, and 0 has none.
  lost = findLostRegions(plan, {0, kForever, false, {1}});
  EXPECT_EQ(lost->lostBytes, 16u);
}

// Rows 0 to 3 go with device 0, whoever else cuts them.
TEST(LostRegions, AreAsLargeAsCanBe) {
  auto half = [](int64_t row, Interval columns) {
    return box(0, {{0, 2}, {row, row + 4}, columns});
  };
  TestPlan plan = makePlan({makeFamily("layers.{}.w", {{0, 1, 2}}, {8, 8})},
                           {{half(0, {0, 8})}, {half(4, {0, 8})}, {}},
                           {{},
                            {box(0, {{0, 2}, {0, 8}, {0, 5}})},
                            {box(0, {{0, 2}, {0, 8}, {5, 8}})}},
                           MemoryMode::Flat);
  auto lost = findLostRegions(plan.reader(), {2, -1, false, {0}});
  ASSERT_TRUE(lost.ok()) << lost.status().message();
  // Device 1 cannot end the first wave, as it has a message for device 2.
  ASSERT_EQ(lost->numRegions, 1u);
  EXPECT_TRUE(lost->regions[0].isSure);
  EXPECT_EQ(lost->regions[0].offset, (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(lost->regions[0].size, (std::vector<int64_t>{2, 4, 8}));
  EXPECT_EQ(lost->lostBytes, 128u);
  EXPECT_EQ(lost->uncertainBytes, 0u);
}

TEST(LostRegions, NameAllNumbersThatAreListed) {
  auto half = [](int64_t row) { return box(0, {{0, 2}, {row, row + 4}}); };
  TestPlan plan =
      makePlan({makeFamily("layers.{}.w", {{3, 0, 2, {3, 8}}}, {8})},
               {{half(0)}, {half(4)}}, {{}, {box(0, {{0, 2}, {0, 8}})}});
  expectContains(lossNote(plan.reader(), {1, -1, false, {0}}, {0, 1}),
                 "'layers.{3, 8}.w' {param} [0:4)");
}

TEST(LostRegions, AreSaidInWords) {
  PlanReader plan = twoHalves().reader();
  // What device 0 has sent may still be in its staging.
  EXPECT_EQ(lossNote(plan, {1, 5, true, {0}}, {1, 0}),
            "lost with rank 1: 8 bytes: 'w' {param} [4:8); the other 8 bytes "
            "that can have been there are on rank 0");
  EXPECT_EQ(lossNote(plan, {1, kForever, false, {0}}, {1, 0}),
            "lost with rank 1: nothing for sure; the other 8 bytes that can "
            "have been there are on rank 0");
  // Device 1 may have got the first half, and 0 still has it in staging.
  EXPECT_EQ(lossNote(plan, {0, 3, true, {1}}, {1, 0}),
            "lost with rank 0: nothing for sure; the other 8 bytes that can "
            "have been there are on rank 1");
  expectContains(lossNote(plan, {1, 5, true, {17}}, {1, 0}), "cannot be told");
}

// Device 0 has all and sends it to 2; 1 has a half, and keeps it.
TEST(LostRegions, NameWhoHasTheRest) {
  ShardRecord whole = box(0, {{0, 8}});
  TestPlan plan =
      makePlan({makeFamily("layers.{}.w", {{4, 1, 1}}, {8})},
               {{box(0, {{0, 1}, {0, 8}})}, {box(0, {{0, 1}, {0, 4}})}, {}},
               {{}, {}, {box(0, {{0, 1}, {0, 8}})}}, MemoryMode::Flat);
  for (RankProgram &program : plan.programs)
    if (program.device == 1)
      program.instructions.clear();
  PlanReader reader = plan.reader();
  std::string text = lossNote(reader, {2, 1, true, {0}}, {0, 1, 2});
  EXPECT_EQ(text, "lost with rank 0: 8 bytes: 'layers.4.w' {param} [4:8); the "
                  "other 8 bytes that can have been there are on rank 1");
}
