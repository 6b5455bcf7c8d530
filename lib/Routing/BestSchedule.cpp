//===- BestSchedule.cpp - The best of several schedules -------------------===//

#include "dt/Routing/Best.h"
#include "dt/Routing/CostModel.h"

#include <algorithm>
#include <map>

using namespace dt;

namespace {

/// A schedule this close to what its busiest port carries is not improved.
constexpr double kGoodEnough = 1.005;

/// Tries all waves for few messages, one per ordered pair. A wave orders the
/// groups of a device, so that waves may also differ where ports do not meet.
class WholeMessages {
public:
  WholeMessages(const std::vector<Move> &moves, const std::vector<Flow> &flows,
                const Cluster &cluster, int64_t stagingBytes)
      : moves(moves), flows(flows), cluster(cluster) {
    isSmall = collect(stagingBytes);
  }

  /// Replaces `best` by what is faster than `seconds`.
  void improve(std::vector<ScheduledMove> &best, double seconds) {
    if (!isSmall)
      return;
    bestSeconds = seconds * (1 - 1e-12);
    place(0);
    if (bestWaves.empty())
      return;
    best.clear();
    for (uint32_t i = 0; i < moves.size(); ++i)
      best.push_back({moves[i], bestWaves[pairOf[i]]});
    sortByMessage(best);
  }

private:
  struct Whole {
    Message message;
    bool inter = false;
    unsigned before = 0; // mask of those that bring what this one passes on
  };

  bool collect(int64_t stagingBytes);
  void findFeeders();
  bool canFollow(size_t next) const;
  void place(size_t next);
  void judge();

  const std::vector<Move> &moves;
  const std::vector<Flow> &flows;
  const Cluster &cluster;
  bool isSmall = false;
  std::vector<Whole> wholes;
  std::vector<uint32_t> pairOf; // per move
  double bestSeconds = 0;
  std::vector<int32_t> bestWaves;
};

bool WholeMessages::collect(int64_t stagingBytes) {
  constexpr size_t kMostMoves = 64;
  if (moves.empty() || moves.size() > kMostMoves)
    return false;
  std::map<std::pair<int64_t, int64_t>, uint32_t> known;
  int64_t largest[2] = {0, 0};
  for (const Move &move : moves) {
    auto [it, isNew] =
        known.try_emplace({move.source, move.destination}, wholes.size());
    if (isNew) {
      Whole whole;
      whole.message.source = move.source;
      whole.message.destination = move.destination;
      whole.inter = !cluster.sameNode(move.source, move.destination);
      wholes.push_back(whole);
    }
    pairOf.push_back(it->second);
    Whole &whole = wholes[it->second];
    whole.message.bytes += move.box.volume() * flows[move.flow].bytesPerElement;
    largest[whole.inter] = std::max(largest[whole.inter], whole.message.bytes);
  }
  findFeeders();
  return wholes.size() <= kExactPairs &&
         alignSlot(largest[0]) + alignSlot(largest[1]) <=
             stagingBytes / kSlotsPerLevel;
}

void WholeMessages::findFeeders() {
  for (size_t i = 0; i < moves.size(); ++i)
    for (size_t j = 0; moves[i].hop > 0 && j < moves.size(); ++j)
      if (moves[j].flow == moves[i].flow &&
          moves[j].destination == moves[i].source &&
          overlaps(moves[j].box, moves[i].box))
        wholes[pairOf[i]].before |= 1u << std::min<uint32_t>(pairOf[j], 31);
}

/// Whether message `next` may be in its wave, beside those before it.
bool WholeMessages::canFollow(size_t next) const {
  const Whole &b = wholes[next];
  if (b.before >> next & 1)
    return false;
  for (size_t i = 0; i < next; ++i) {
    const Whole &a = wholes[i];
    int32_t lead = a.message.wave - b.message.wave;
    auto samePort = [&](int64_t x, int64_t y) {
      return cluster.port(x, a.inter) == cluster.port(y, a.inter);
    };
    bool meet = a.inter == b.inter &&
                (samePort(a.message.source, b.message.source) ||
                 samePort(a.message.destination, b.message.destination));
    if ((lead == 0 && meet) || (lead >= 0 && (b.before >> i & 1)) ||
        (lead <= 0 && (a.before >> next & 1)))
      return false;
  }
  return true;
}

void WholeMessages::place(size_t next) {
  if (next == wholes.size())
    return judge();
  for (int32_t wave = 0; wave < int32_t(wholes.size()); ++wave) {
    wholes[next].message.wave = wave;
    if (canFollow(next))
      place(next + 1);
  }
}

void WholeMessages::judge() {
  std::vector<Message> sorted;
  unsigned used = 0;
  for (const Whole &whole : wholes) {
    sorted.push_back(whole.message);
    used |= 1u << whole.message.wave;
  }
  if (used & (used + 1))
    return; // an empty wave: looked at without it
  std::stable_sort(
      sorted.begin(), sorted.end(),
      [](const Message &a, const Message &b) { return a.wave < b.wave; });
  double seconds = predictSeconds(sorted, cluster);
  if (seconds >= bestSeconds)
    return;
  bestSeconds = seconds;
  bestWaves.clear();
  for (const Whole &whole : wholes)
    bestWaves.push_back(whole.message.wave);
}

} // namespace

bool dt::scheduleBest(const std::vector<Move> &moves,
                      const std::vector<Flow> &flows, const Cluster &cluster,
                      int64_t stagingBytes, int64_t effort,
                      std::vector<ScheduledMove> &best, int64_t &needed) {
  double bestSeconds = 0;
  size_t scheduledMoves = 0;
  needed = 0;
  size_t tried = 0;
  best.clear();
  for (ChunkBytes chunks :
       candidateChunks(moves, flows, cluster, stagingBytes)) {
    ++tried;
    chunks.hasShortEnds = !chunks.isWhole;
    std::vector<ScheduledMove> scheduled;
    if (!schedule(moves, flows, cluster, chunks, scheduled, needed))
      continue;
    double seconds = predictSeconds(scheduled, flows, cluster);
    scheduledMoves += scheduled.size();
    if (best.empty() || seconds < bestSeconds) {
      best = std::move(scheduled);
      bestSeconds = seconds;
    }
    PortSeconds busiest = busiestPorts(best, flows, cluster);
    bool isGood =
        bestSeconds < kGoodEnough * std::max(busiest.nic, busiest.island);
    if (isGood || scheduledMoves > size_t(effort))
      break;
  }
  if (best.empty()) {
    if (needed == 0 && tried == 0 && !moves.empty())
      needed = smallestStaging(moves, flows, cluster, stagingBytes);
    if (tried == 0 && needed == 0)
      needed = kTooManyMessages;
    return moves.empty();
  }
  WholeMessages(moves, flows, cluster, stagingBytes).improve(best, bestSeconds);
  return true;
}
