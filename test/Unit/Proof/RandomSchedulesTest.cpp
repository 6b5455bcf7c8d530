//===- RandomSchedulesTest.cpp - Our plans never get stuck ----------------===//
//
// Random transitions, routed and scheduled as the compiler does it, run on the
// adversarial simulation with many different cuts and delays.
//
//===----------------------------------------------------------------------===//

#include "SolvedWaves.h"
#include "dt/Proof/Certificate.h"
#include "dt/Scheduling/Staging.h"
#include "dtrt/transport/AdversarialSimulation.h"
#include "dtrt/transport/AdversarialTransport.h"

#include "gtest/gtest.h"

using namespace dt;
using namespace dt::testing;

namespace {

constexpr int kPlans = 400;
constexpr int kCutsPerPlan = 30; // 12,000 runs
/// A device sends and receives one message per level in a wave.
constexpr size_t kMostScheduled = 4;

std::vector<PlanMessage> randomPlan(const RandomTransition &t,
                                    std::mt19937 &random) {
  WaveProblem problem = randomWaves(t, 2048 + random() % 8192);
  std::vector<ChunkBytes> candidates = candidateChunks(problem);
  ChunkBytes chunks = candidates[random() % candidates.size()];
  return formMessages(scheduledWith(problem, chunks), t.flows);
}

/// Messages come by wave; ranks are the devices.
std::vector<dtrt::RankGroups>
groupsOf(const std::vector<PlanMessage> &messages) {
  int64_t devices = 0;
  for (const PlanMessage &m : messages)
    devices = std::max({devices, m.source + 1, m.destination + 1});
  std::vector<dtrt::RankGroups> out(devices);
  std::vector<int32_t> wave(devices, -1);
  auto add = [&](const PlanMessage &m, int64_t rank, int64_t peer,
                 bool receive) {
    if (wave[rank] != m.wave)
      out[rank].emplace_back();
    wave[rank] = m.wave;
    out[rank].back().push_back({receive, uint32_t(peer)});
  };
  for (const PlanMessage &m : messages) {
    add(m, m.source, m.destination, /*receive=*/false);
    add(m, m.destination, m.source, /*receive=*/true);
  }
  return out;
}

} // namespace

// The compiler and the runtime share no header, but one limit.
static_assert(kMaxGroupMessages == dtrt::kMaxGroupMessages &&
              kMaxChannels == dtrt::kMaxChannels &&
              kKernelPlanBatches == dtrt::kKernelPlanBatches);

TEST(RandomSchedules, NeverGetStuck) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  size_t runs = 0, operations = 0;
  for (int plan = 0; plan < kPlans; ++plan) {
    RandomTransition t = randomTransition(random);
    auto groups = groupsOf(randomPlan(t, random));
    for (const dtrt::RankGroups &rank : groups)
      for (const auto &group : rank) {
        EXPECT_LE(group.size(), kMostScheduled);
        operations += group.size() * kCutsPerPlan;
      }
    for (int cut = 0; cut < kCutsPerPlan; ++cut) {
      dtrt::Adversary adversary;
      adversary.cutProbability = double(random() % 100) / 100;
      adversary.maxBatch = 1 + random() % 8;
      adversary.restartRounds = random() % 2;
      dtrt::Status status = dtrt::simulateGroups(
          groups, uint32_t(t.cluster.devicesPerNode), adversary, random());
      ASSERT_TRUE(status.ok()) << status.message();
      ++runs;
    }
  }
  EXPECT_GE(runs, 10000u);
  std::printf("%zu runs of %d plans, %zu operations\n", runs, kPlans,
              operations);
}
