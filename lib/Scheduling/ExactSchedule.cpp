//===- ExactSchedule.cpp - The best waves of few messages -----------------===//
//
// All that one device sends another is one message. Messages get waves one
// after the other, every wave that there may be:
//
//   1. not that of a message with which it shares a port;
//   2. not before one that brings what it passes on, nor at the same time;
//   3. when all have one, and no wave between is empty, the cost model says how
//      long that takes, and the first of the fastest is kept.
//
// A wave orders the groups of a device and is no barrier, so waves differ even
// where messages meet no common port.
//
// test/Problems/waves-unequal.json: 0 sends 1 two elements (a) and 2 three (b),
// 1 sends 2 two (c); a and b share a port, b and c another.
//
//   a b c    us       a b c    us
//   0 1 0    217      0 1 2    297
//   1 0 1    217      0 2 1    298, and three more like these
//
//===----------------------------------------------------------------------===//

#include "dt/Scheduling/ExactSchedule.h"

#include "dt/Cost/SameSeconds.h"
#include "dt/Scheduling/ChunkSizes.h"

#include <algorithm>
#include <limits>
#include <map>

using namespace dt;

namespace {

/// Tries all waves for few messages, one per ordered pair. A wave orders the
/// groups of a device, so that waves may also differ where ports do not meet.
class WholeMessages {
public:
  explicit WholeMessages(const WaveProblem &problem)
      : problem(problem), moves(problem.moves), cluster(problem.cluster) {}

  /// Why not all orders of waves are tried.
  std::optional<std::string> collect();
  /// The fastest waves; empty when no order sends what is forwarded in time.
  std::vector<ScheduledMove> run() {
    place(0);
    std::vector<ScheduledMove> best;
    for (uint32_t i = 0; i < moves.size() && !bestWaves.empty(); ++i)
      best.push_back({moves[i], bestWaves[pairOf[i]]});
    sortByMessage(best);
    return best;
  }

private:
  struct Whole {
    TimedMessage message;
    bool inter = false;
    unsigned before = 0; // mask of those that bring what this one passes on
  };

  void findFeeders();
  bool canFollow(size_t next) const;
  void place(size_t next);
  void markForwards();
  void judge();

  const WaveProblem &problem;
  const std::vector<Move> &moves;
  const Cluster &cluster;
  std::vector<Whole> wholes;
  std::vector<uint32_t> pairOf; // per move
  double bestSeconds = std::numeric_limits<double>::infinity();
  std::vector<int32_t> bestWaves;
};

std::optional<std::string> WholeMessages::collect() {
  constexpr size_t kMostMoves = 64;
  if (moves.size() > kMostMoves)
    return "has " + std::to_string(moves.size()) +
           " moves, more than the limit of " + std::to_string(kMostMoves) +
           " for all orders of waves";
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
    whole.message.bytes += move.box.volume() * problem.elementBytes[move.flow];
    largest[whole.inter] = std::max(largest[whole.inter], whole.message.bytes);
  }
  if (wholes.size() > kExactPairs)
    return "has " + std::to_string(wholes.size()) +
           " pairs of devices, more than the limit of " +
           std::to_string(kExactPairs) + " for all orders of waves";
  int64_t needed =
      (alignSlot(largest[0]) + alignSlot(largest[1])) * kSlotsPerLevel;
  if (needed > problem.stagingBytes)
    return refuseStaging(problem, needed);
  findFeeders();
  return std::nullopt;
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

/// Invariant: messages [0, next) are in waves in which they may be together,
/// and `bestWaves` is the fastest of all choices before this one.
void WholeMessages::place(size_t next) {
  if (next == wholes.size())
    return judge();
  for (int32_t wave = 0; wave < int32_t(wholes.size()); ++wave) {
    wholes[next].message.wave = wave;
    if (canFollow(next))
      place(next + 1);
  }
}

/// Tells each message whether it passes on what its sender's group before
/// brought.
void WholeMessages::markForwards() {
  for (Whole &whole : wholes) {
    int32_t last = -1; // of the sender's waves before this one
    for (const Whole &other : wholes)
      if ((other.message.source == whole.message.source ||
           other.message.destination == whole.message.source) &&
          other.message.wave < whole.message.wave)
        last = std::max(last, other.message.wave);
    whole.message.isForward = false;
    for (size_t i = 0; i < wholes.size(); ++i)
      whole.message.isForward |=
          (whole.before >> i & 1) && wholes[i].message.wave == last;
  }
}

/// A choice that is no faster than one before by more than rounding is not
/// taken, so that what comes first stays.
void WholeMessages::judge() {
  std::vector<TimedMessage> sorted;
  unsigned used = 0;
  markForwards();
  for (const Whole &whole : wholes) {
    sorted.push_back(whole.message);
    used |= 1u << whole.message.wave;
  }
  if (used & (used + 1))
    return; // an empty wave: looked at without it
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const TimedMessage &a, const TimedMessage &b) {
                     return a.wave < b.wave;
                   });
  double seconds = predictSeconds(sorted, cluster);
  if (!isFaster(seconds, bestSeconds))
    return;
  bestSeconds = seconds;
  bestWaves.clear();
  for (const Whole &whole : wholes)
    bestWaves.push_back(whole.message.wave);
}

} // namespace

std::optional<std::string> dt::scheduleExactly(const WaveProblem &problem,
                                               const WaveOptions &,
                                               WaveSchedule &schedule) {
  if (auto error = refuseStorage(problem))
    return error;
  WholeMessages messages(problem);
  if (auto error = messages.collect())
    return error;
  schedule.moves = messages.run();
  if (schedule.moves.empty() && !problem.moves.empty())
    return "has pairs of devices that wait for parts of each other's messages, "
           "which whole messages do not give";
  putCopiesFirst(problem, schedule);
  return std::nullopt;
}
