//===- ChunkSizes.cpp - How large the messages of a wave may be -----------===//

#include "dt/Scheduling/ChunkSizes.h"

#include <algorithm>
#include <functional>
#include <map>
#include <unordered_map>

using namespace dt;

namespace {

/// Where the busiest port has fewer latencies' worth of bytes, it may pay to
/// cut no message.
constexpr double kLatencyBound = 256;

/// What one level carries.
struct LevelTraffic {
  std::map<std::pair<int64_t, int64_t>, int64_t> pairs; // bytes
  int64_t busiest = 0; // bytes of the busiest port
  int64_t widest = 0;  // bytes that cannot be cut

  /// A chunk that cuts the busiest port's traffic into `waves` messages, in
  /// whole slots.
  int64_t chunk(double waves) const {
    if (busiest == 0)
      return 0;
    return alignSlot(std::max<int64_t>(widest, int64_t(busiest / waves)));
  }
  /// Half of all bytes belong to pairs of at least this many.
  int64_t typicalPair() const;
};

int64_t LevelTraffic::typicalPair() const {
  std::vector<int64_t> sizes;
  int64_t total = 0;
  for (auto [pair, bytes] : pairs) {
    sizes.push_back(bytes);
    total += bytes;
  }
  std::sort(sizes.begin(), sizes.end(), std::greater<int64_t>());
  size_t i = 0;
  for (int64_t seen = sizes[0]; 2 * seen < total; seen += sizes[++i])
    continue;
  return sizes[i];
}

int64_t roundDown(int64_t bytes) {
  return bytes / kSlotAlignment * kSlotAlignment;
}

/// Fits the chunks of both levels into what staging allows them together, in
/// proportion, each at least as large as its widest element.
ChunkBytes fitStaging(ChunkBytes wanted, ChunkBytes least, int64_t room) {
  if (wanted.intra + wanted.inter <= room)
    return wanted;
  double share = double(wanted.intra) / (wanted.intra + wanted.inter);
  int64_t intra = roundDown(int64_t(room * share));
  intra = std::min(std::max(intra, least.intra), room - least.inter);
  return {intra, wanted.inter > 0 ? room - intra : 0};
}

} // namespace

int64_t dt::stagingNeeded(const WaveProblem &problem) {
  int64_t widest[2] = {0, 0};
  for (const Move &move : problem.moves) {
    bool inter = !problem.cluster.sameNode(move.source, move.destination);
    widest[inter] =
        std::max(widest[inter], alignSlot(problem.elementBytes[move.flow]));
  }
  return kSlotsPerLevel * (widest[0] + widest[1]);
}

std::vector<ChunkBytes> dt::candidateChunks(const WaveProblem &problem) {
  const std::vector<Move> &moves = problem.moves;
  const Cluster &cluster = problem.cluster;
  LevelTraffic levels[2]; // island, NIC
  std::unordered_map<int64_t, int64_t> out[2], in[2];
  for (const Move &move : moves) {
    bool inter = !cluster.sameNode(move.source, move.destination);
    LevelTraffic &level = levels[inter];
    int64_t width = problem.elementBytes[move.flow];
    int64_t bytes = move.box.volume() * width;
    level.pairs[{move.source, move.destination}] += bytes;
    level.widest = std::max(level.widest, width);
    level.busiest = std::max({level.busiest, out[inter][move.source] += bytes,
                              in[inter][move.destination] += bytes});
  }
  int64_t room = roundDown(problem.stagingBytes / kSlotsPerLevel);
  ChunkBytes least = {alignSlot(levels[0].widest), alignSlot(levels[1].widest)};
  if (least.intra + least.inter > room)
    return {};
  // Where the island carries little, it still has to last several latencies.
  int64_t leastIsland =
      alignSlot(std::min({levels[0].busiest, room / 8,
                          int64_t(10 * cluster.latencySeconds() *
                                  cluster.bytesPerSecond(false))}));
  std::vector<ChunkBytes> candidates;
  auto consider = [&](double waves) {
    constexpr double kMostWaves = 2048;
    if (waves > kMostWaves)
      return;
    ChunkBytes wanted = {levels[0].chunk(waves), levels[1].chunk(waves)};
    wanted.intra = std::max(wanted.intra, leastIsland);
    ChunkBytes chunks = fitStaging(wanted, least, room);
    if (std::find(candidates.begin(), candidates.end(), chunks) ==
        candidates.end())
      candidates.push_back(chunks);
  };
  // Many moves are scheduled once or twice (`effort`): where ports have little
  // to send to each of many, twice the waves are no faster, but twice the plan.
  constexpr size_t kManyMoves = 300000;
  if (moves.size() > kManyMoves)
    consider(64);
  consider(128);
  // Sizes that divide the typical pair evenly, on the slower level.
  bool slower = double(levels[1].busiest) / cluster.bytesPerSecond(true) >
                double(levels[0].busiest) / cluster.bytesPerSecond(false);
  if (levels[slower].busiest > 0)
    for (int parts = 1; parts <= 4; ++parts)
      consider(double(levels[slower].busiest) * parts /
               levels[slower].typicalPair());
  for (double waves : {256, 64, 512, 32, 1024, 16, 1})
    consider(waves);
  // Little data: whole messages, in few waves.
  int64_t widest[2] = {0, 0};
  for (int inter : {0, 1})
    for (auto [pair, bytes] : levels[inter].pairs)
      widest[inter] = std::max(widest[inter], alignSlot(bytes));
  double seconds = double(levels[slower].busiest) /
                   cluster.bytesPerSecond(/*interNode=*/slower);
  if (seconds < kLatencyBound * cluster.latencySeconds() &&
      widest[0] + widest[1] <= room)
    candidates.push_back({widest[0], widest[1], /*isWhole=*/true});
  return candidates;
}
