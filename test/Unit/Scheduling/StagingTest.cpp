//===- StagingTest.cpp - Slots: lifetimes never meet ----------------------===//

#include "dt/Scheduling/Staging.h"
#include "SolvedWaves.h"

#include "gtest/gtest.h"

#include <map>

using namespace dt;
using namespace dt::testing;

namespace {

struct Live {
  int64_t first, last, begin, end;
};

TEST(Staging, LiveSlotsAreDisjointAndBelowTheLimit) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int staged = 0, direct = 0;
  for (int trial = 0; trial < 200; ++trial) {
    RandomTransition t = randomTransition(random);
    int64_t stagingBytes = 2048 + random() % 4096;
    RoutingProblem routes(t.flows, t.cluster, stagingBytes);
    WaveProblem problem = waveProblem(routes, solved(routes).moves);
    std::vector<ChunkBytes> candidates = candidateChunks(problem);
    ChunkBytes chunks = candidates[random() % candidates.size()];
    std::vector<ScheduledMove> scheduled = scheduledWith(problem, chunks);
    std::vector<PlanMessage> messages = formMessages(scheduled, t.flows);
    StoredFlows stored;
    for (uint32_t i = 0; i < t.flows.size(); ++i) {
      stored.source.add(i, t.sources[i]);
      stored.destination.add(i, t.destinations[i]);
      stored.flows.push_back({/*numStates=*/1 + i % 2});
    }
    auto arenas = assignSlots(runsOf(scheduled, stored), messages);
    std::map<int64_t, std::vector<int32_t>> groups;
    std::map<int64_t, std::vector<Live>> live;
    for (const PlanMessage &message : messages)
      for (bool receive : {false, true}) {
        int64_t device = receive ? message.destination : message.source;
        int64_t slot = receive ? message.receiveSlot : message.sendSlot;
        if (groups[device].empty() || groups[device].back() != message.wave)
          groups[device].push_back(message.wave);
        int64_t group = groups[device].size() - 1;
        if (slot == kInPlace) {
          ++direct;
          EXPECT_EQ(message.last - message.first, 1u);
          EXPECT_EQ(stored.flows[scheduled[message.first].move.flow].numStates,
                    1u);
          continue;
        }
        ++staged;
        Live own{receive ? group : group - 1, receive ? group + 1 : group, slot,
                 slot + message.bytes};
        EXPECT_LE(own.end, arenas[device]);
        for (const Live &other : live[device])
          EXPECT_FALSE(own.first <= other.last && other.first <= own.last &&
                       own.begin < other.end && other.begin < own.end);
        live[device].push_back(own);
      }
    for (auto [device, bytes] : arenas)
      EXPECT_LE(bytes, stagingBytes);
  }
  EXPECT_GT(staged, 0);
  EXPECT_GT(direct, 0);
}

} // namespace
