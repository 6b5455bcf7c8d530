//===- ChunkSizes.cpp - How large the messages of a wave may be -----------===//

#include "dt/Scheduling/ChunkSizes.h"

#include "dt/Geometry/Limits.h"
#include "dtrt/types/DeviceIndex.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <unordered_map>

using namespace dt;

namespace {

/// Where the busiest port has fewer latencies' worth of bytes, it may pay to
/// cut no message.
constexpr double kLatencyBound = 256;

/// What one level carries.
struct LevelTraffic {
  std::vector<std::pair<std::pair<int64_t, int64_t>, int64_t>> pairs; // bytes
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

/// What moves load ports with, and what chunks make of it.
class Traffic {
public:
  explicit Traffic(const WaveProblem &problem);

  /// Chunk sizes worth trying that keep to the limits on messages.
  std::vector<ChunkBytes> candidates(int64_t stagingBytes) const;
  /// All that a pair has as one message, where there are few latencies.
  std::optional<ChunkBytes> whole() const;

private:
  std::vector<ChunkBytes> allCandidates(int64_t stagingBytes) const;
  bool slowerLevel() const;
  bool keepsToLimits(ChunkBytes chunks) const;

  const Cluster &cluster;
  size_t numMoves;
  LevelTraffic levels[2]; // island, NIC
};

Traffic::Traffic(const WaveProblem &problem)
    : cluster(problem.cluster), numMoves(problem.moves.size()) {
  dtrt::DeviceIndex devices;
  std::vector<int64_t> ports[2]; // bytes, out of and into each device
  std::unordered_map<uint64_t, size_t> known[2];
  for (const Move &move : problem.moves) {
    bool inter = !cluster.sameNode(move.source, move.destination);
    LevelTraffic &level = levels[inter];
    int64_t width = problem.elementBytes[move.flow];
    int64_t bytes = move.box.volume() * width;
    uint32_t from = devices(move.source), to = devices(move.destination);
    auto [pair, isNew] =
        known[inter].try_emplace(uint64_t(from) << 32 | to, level.pairs.size());
    if (isNew)
      level.pairs.push_back({{move.source, move.destination}, 0});
    level.pairs[pair->second].second += bytes;
    ports[inter].resize(2 * devices.size());
    level.widest = std::max(level.widest, width);
    level.busiest = std::max({level.busiest, ports[inter][2 * from] += bytes,
                              ports[inter][2 * to + 1] += bytes});
  }
}

/// Counts messages of the largest size: one for each pair, and one for each
/// cut.
bool Traffic::keepsToLimits(ChunkBytes chunks) const {
  int64_t messages = 0;
  for (bool inter : {false, true}) {
    dtrt::DeviceIndex devices;
    std::vector<int64_t> ports; // cuts, out of and into each
    for (auto [pair, bytes] : levels[inter].pairs) {
      auto [from, to] = pair;
      int64_t most = largestMessage(from, to, bytes, chunks, cluster);
      int64_t cuts = most > 0 ? (bytes - 1) / most : kMaxMessages;
      size_t out = 2 * devices(cluster.port(from, inter));
      size_t in = 2 * devices(cluster.port(to, inter)) + 1;
      ports.resize(2 * devices.size());
      int64_t busiest = std::max(ports[out] += cuts, ports[in] += cuts);
      messages += 1 + cuts;
      if (busiest > kMaxPortCuts || messages > kMaxMessages)
        return false;
    }
  }
  return true;
}

std::vector<ChunkBytes> Traffic::candidates(int64_t stagingBytes) const {
  std::vector<ChunkBytes> all = allCandidates(stagingBytes), kept;
  std::copy_if(all.begin(), all.end(), std::back_inserter(kept),
               [&](ChunkBytes chunks) { return keepsToLimits(chunks); });
  return kept;
}

std::vector<ChunkBytes> Traffic::allCandidates(int64_t stagingBytes) const {
  int64_t room = roundDown(stagingBytes / kSlotsPerLevel);
  ChunkBytes least = {alignSlot(levels[0].widest), alignSlot(levels[1].widest)};
  if (least.intra + least.inter > room)
    return {};
  // Where waves are joined, groups have that many messages of a level.
  const int64_t joined[2] = {cluster.messagesPerPort(/*interNode=*/false),
                             cluster.messagesPerPort(/*interNode=*/true)};
  room = std::max(roundDown(room / std::max(joined[0], joined[1])),
                  least.intra + least.inter);
  // Where the island carries little, it still has to last several latencies.
  int64_t leastIsland = alignSlot(int64_t(
      std::min(double(std::min(levels[0].busiest, room / 8)),
               10 * cluster.waveSeconds() * cluster.bytesPerSecond(false))));
  std::vector<ChunkBytes> candidates;
  auto consider = [&](double waves) {
    constexpr double kMostWaves = 2048;
    if (waves > kMostWaves)
      return;
    ChunkBytes wanted = {levels[0].chunk(waves * double(joined[0])),
                         levels[1].chunk(waves * double(joined[1]))};
    wanted.intra = std::max(wanted.intra, leastIsland);
    ChunkBytes chunks = fitStaging(wanted, least, room);
    if (std::find(candidates.begin(), candidates.end(), chunks) ==
        candidates.end())
      candidates.push_back(chunks);
  };
  // Many moves are scheduled once or twice (`effort`): where ports have little
  // to send to each of many, twice the waves are no faster, but twice the plan.
  constexpr size_t kManyMoves = 300000;
  if (numMoves > kManyMoves)
    consider(64);
  consider(128);
  // Sizes that divide the typical pair evenly, on the slower level.
  bool slower = slowerLevel();
  if (levels[slower].busiest > 0)
    for (int parts = 1; parts <= 4; ++parts)
      consider(double(levels[slower].busiest) * parts /
               double(levels[slower].typicalPair() * joined[slower]));
  for (double waves : {256, 64, 512, 32, 1024, 16, 1})
    consider(waves);
  // Little data: whole messages, in few waves.
  if (auto chunks = whole(); chunks && chunks->intra + chunks->inter <= room)
    candidates.push_back(*chunks);
  return candidates;
}

bool Traffic::slowerLevel() const {
  return double(levels[1].busiest) / cluster.portBytesPerSecond(true) >
         double(levels[0].busiest) / cluster.portBytesPerSecond(false);
}

std::optional<ChunkBytes> Traffic::whole() const {
  int64_t widest[2] = {0, 0};
  for (int inter : {0, 1})
    for (auto [pair, bytes] : levels[inter].pairs)
      widest[inter] = std::max(widest[inter], alignSlot(bytes));
  bool slower = slowerLevel();
  double seconds = double(levels[slower].busiest) /
                   cluster.portBytesPerSecond(/*interNode=*/slower);
  if (seconds >= kLatencyBound * cluster.waveSeconds())
    return std::nullopt;
  return ChunkBytes{widest[0], widest[1], /*isWhole=*/true};
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
  return candidateChunks(problem, problem.stagingBytes);
}

std::vector<ChunkBytes> dt::candidateChunks(const WaveProblem &problem,
                                            int64_t stagingBytes) {
  return Traffic(problem).candidates(stagingBytes);
}

std::optional<ChunkBytes> dt::wholeMessages(const WaveProblem &problem) {
  return Traffic(problem).whole();
}

int64_t dt::smallestStaging(const WaveProblem &problem) {
  Traffic traffic(problem);
  int64_t works = std::max(2 * std::max<int64_t>(problem.stagingBytes, 256),
                           stagingNeeded(problem));
  while (works <= kMaxBytes && traffic.candidates(works).empty())
    works *= 2;
  if (works > kMaxBytes)
    return 0;
  int64_t fails = works / 2;
  while (works - fails > works / 16) {
    int64_t middle = fails + (works - fails) / 2;
    (traffic.candidates(middle).empty() ? fails : works) = middle;
  }
  return works;
}

int64_t dt::largestMessage(int64_t from, int64_t to, int64_t bytes,
                           ChunkBytes chunks, const Cluster &cluster) {
  // No element is wider, and no pair is cut into more for being slow.
  constexpr int64_t kLeast = 4096, kMostCuts = 1024;
  bool inter = !cluster.sameNode(from, to);
  int64_t chunk = inter ? chunks.inter : chunks.intra;
  double share =
      cluster.bytesPerSecond(from, to) / cluster.bytesPerSecond(inter);
  if (share >= 1 || chunks.isWhole)
    return chunk;
  return std::min(
      chunk, std::max({kLeast, bytes / kMostCuts, int64_t(chunk * share)}));
}
