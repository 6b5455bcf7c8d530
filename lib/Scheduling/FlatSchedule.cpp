//===- FlatSchedule.cpp - Waves and copies of flat memory -----------------===//
//
//   1. Half of the limit is for slots, the other half is *room*: what may be on
//      both sides at once.
//   2. All moves and copies are cut into jobs and put in one order in which
//      devices free and create alike (FlatOrder.h). Jobs are made smaller until
//      they fit the room one by one; if they never do, the limit is too small.
//   3. Neighbouring jobs make a phase while every device has room for all that
//      it brings.
//   4. A phase begins with its copies. A copy frees what it reads, so that
//      others may have to wait for it: each step of these is a wave.
//   5. What moves in a phase may do so in any order: it is scheduled by itself,
//      and its waves follow.
//
// test/Problems/flat-swap.json: two devices swap 16 elements of 128 bytes and
// copy 8 others, with a limit of 2 KiB. 1 KiB is room for 8 elements, so that
// 24 elements take three phases; slots of two waves each way share the other
// KiB, two elements each.
//
//   phase   waves   copied   sent
//   0       0       [0:3)
//           1 - 3            [0:5)     by two, two and one
//   1       4       [3:5)
//           5 - 7            [5:11)    by two
//   2       8       [5:8)
//           9 - 11           [11:16)   by two, two and one
//
//===----------------------------------------------------------------------===//

#include "dt/Scheduling/FlatSchedule.h"

#include "dt/Geometry/Limits.h"
#include "dt/Geometry/Painted.h"
#include "dt/Scheduling/BestSchedule.h"
#include "dt/Scheduling/FlatOrder.h"

#include <algorithm>
#include <cmath>

using namespace dt;

namespace {

/// Each limit that is tried may have one block of so many that may be.
constexpr int64_t kOfSearch = 4;

class FlatScheduler {
public:
  FlatScheduler(const WaveProblem &problem, const WaveOptions &options,
                WaveSchedule &schedule)
      : problem(problem), storage(*problem.storage), options(options),
        schedule(schedule) {
    for (uint32_t i = 0; i < storage.flows.size(); ++i) {
      source.add(i, storage.source[i]);
      destination.add(i, storage.destination[i]);
    }
  }

  std::optional<std::string> run();

private:
  /// Half of the limit is for slots, half for tensors on both sides at once;
  /// of large limits, which whole storages may need, slots get no more than
  /// makes them fast.
  int64_t slots(int64_t limit) const {
    constexpr int64_t kFastSlots = int64_t(512) << 20;
    int64_t half = limit - limit / 2;
    return isWhole() ? std::min(half, kFastSlots) : half;
  }
  int64_t room(int64_t limit) const { return limit - slots(limit); }
  bool isWhole() const { return storage.pageBytes >= kWholeBuffers; }
  std::optional<FlatOrder> orderFor(int64_t limit, int64_t effects) const;
  /// Blocks that may be put in order.
  int64_t mostEffects() const {
    return mostFlatEffects(
        int64_t(problem.moves.size() + problem.copies.size()));
  }
  int64_t slotsNeeded() const;
  WaveProblem phaseOf(std::vector<Move> moves, int64_t limit) const;
  bool hasSlots(int64_t limit) const;
  bool fits(int64_t limit) const;
  int64_t smallestLimit() const;
  std::string refuseLimit() const;
  void addCopies(const FlatPhase &phase);
  std::optional<std::string> addMoves(std::vector<Move> moves, int64_t effort);

  const WaveProblem &problem;
  const Storage &storage;
  const WaveOptions &options;
  WaveSchedule &schedule;
  ShardIndex source, destination;
  ChunkBytes lastBest; // of the phase before
  int32_t wave = 0;    // the next one
};

std::optional<FlatOrder> FlatScheduler::orderFor(int64_t limit,
                                                 int64_t effects) const {
  int64_t page = limit == storage.limitBytes || isWhole() ? storage.pageBytes
                                                          : pageBytesFor(limit);
  return orderWithin({problem.moves, problem.copies, storage.flows, source,
                      destination, page, problem.cluster, effects},
                     room(limit));
}

/// Slots for one element of each level, at least.
int64_t FlatScheduler::slotsNeeded() const {
  int64_t widest = 0;
  for (const Move &move : problem.moves)
    widest = std::max(widest, problem.elementBytes[move.flow]);
  return 2 * kSlotsPerLevel * alignSlot(widest);
}

/// The moves of a phase, as a problem of their own.
WaveProblem FlatScheduler::phaseOf(std::vector<Move> moves,
                                   int64_t limit) const {
  WaveProblem phase;
  phase.moves = std::move(moves);
  phase.elementBytes = problem.elementBytes;
  phase.cluster = problem.cluster;
  phase.stagingBytes = slots(limit);
  return phase;
}

/// Whether all elements have slots, and all that travels has no more messages
/// than the limit. That is quickly said, and phases have no fewer.
bool FlatScheduler::hasSlots(int64_t limit) const {
  return slots(limit) >= slotsNeeded() &&
         (problem.moves.empty() ||
          !candidateChunks(phaseOf(problem.moves, limit)).empty());
}

bool FlatScheduler::fits(int64_t limit) const {
  if (!hasSlots(limit))
    return false;
  std::optional<FlatOrder> order = orderFor(limit, mostEffects() / kOfSearch);
  if (!order)
    return false;
  std::vector<FlatPhase> phases = order->phases(room(limit));
  return std::all_of(phases.begin(), phases.end(), [&](FlatPhase &phase) {
    return phase.moves.empty() ||
           !candidateChunks(phaseOf(std::move(phase.moves), limit)).empty();
  });
}

std::string FlatScheduler::refuseLimit() const {
  std::string text =
      "cannot hold to the larger of source and destination plus " +
      std::to_string(storage.limitBytes) + " bytes (memory.staging)" +
      (isWhole() ? " by tensor, " : ", ");
  if (int64_t smallest = smallestLimit())
    return text + "the smallest limit that works is " +
           std::to_string(smallest);
  return text + "nor to any other limit within " +
         std::to_string(mostEffects()) + " blocks and " +
         std::to_string(kMaxMessages) + " messages";
}

/// To one part in sixteen, among those that need few of the blocks that may be:
/// many are tried. 0 when there is none.
int64_t FlatScheduler::smallestLimit() const {
  int64_t works = 2 * std::max<int64_t>(storage.limitBytes, 256);
  while (works <= kMaxBytes && !fits(works))
    works *= 2;
  if (works > kMaxBytes)
    return 0;
  int64_t fails = works / 2;
  while (works - fails > works / 16) {
    int64_t middle = fails + (works - fails) / 2;
    (fits(middle) ? works : fails) = middle;
  }
  return works;
}

/// Each step of a phase's copies is a wave of its own.
void FlatScheduler::addCopies(const FlatPhase &phase) {
  std::vector<uint32_t> steps = phase.steps;
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  std::vector<std::vector<ScheduledCopy>> waves(steps.size());
  for (size_t i = 0; i < phase.locals.size(); ++i) {
    auto number = std::lower_bound(steps.begin(), steps.end(), phase.steps[i]) -
                  steps.begin();
    waves[number].push_back({phase.locals[i], wave + int32_t(number)});
  }
  for (const std::vector<ScheduledCopy> &copies : waves)
    schedule.copies.insert(schedule.copies.end(), copies.begin(), copies.end());
  wave += int32_t(steps.size());
}

/// How unlike two sizes are; one that cuts no message is like no other.
double distance(const ChunkBytes &a, const ChunkBytes &b) {
  constexpr double kOtherKind = 64;
  auto apart = [](int64_t x, int64_t y) {
    return std::abs(std::log2(double(x + 1) / double(y + 1)));
  };
  return apart(a.inter, b.inter) + apart(a.intra, b.intra) +
         (a.isWhole == b.isWhole ? 0 : kOtherKind);
}

/// With the chunk size that is predicted to be fastest of those that are tried:
/// first those that are most like what suited the phase before.
std::optional<std::string> FlatScheduler::addMoves(std::vector<Move> moves,
                                                   int64_t effort) {
  WaveProblem phase = phaseOf(std::move(moves), storage.limitBytes);
  phase.stagingBytes = std::min(problem.stagingBytes, phase.stagingBytes);
  std::vector<ChunkBytes> candidates = candidateChunks(phase);
  if (candidates.empty())
    return refuseLimit();
  if (!schedule.moves.empty())
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](const ChunkBytes &a, const ChunkBytes &b) {
                       return distance(a, lastBest) < distance(b, lastBest);
                     });
  ChunkChoice best = fastestOf(phase, candidates, effort, /*enough=*/0);
  if (best.moves.empty() ||
      int64_t(schedule.moves.size() + best.moves.size()) > kMaxPieces)
    return refuseMessages();
  lastBest = candidates[best.candidate];
  for (ScheduledMove &entry : best.moves) {
    entry.wave += wave;
    schedule.moves.push_back(std::move(entry));
  }
  wave = schedule.moves.back().wave + 1;
  return std::nullopt;
}

std::optional<std::string> FlatScheduler::run() {
  int64_t limit = storage.limitBytes;
  std::optional<FlatOrder> order;
  if (hasSlots(limit))
    order = orderFor(limit, mostEffects());
  if (!order)
    return refuseLimit();
  std::vector<FlatPhase> phases = order->phases(room(limit));
  // Phases are much alike: all sizes are tried in the first, and in a few
  // others those like the last that was best.
  constexpr size_t kSearched = 32, kLeastTries = 4;
  size_t stride = std::max<size_t>(1, phases.size() / kSearched), number = 0;
  auto effortOf = [&](const FlatPhase &phase) {
    if (number == 0)
      return options.effort;
    return number % stride ? 0 : int64_t(kLeastTries * phase.moves.size());
  };
  // Invariant: waves [0, wave) have all copies and moves of the phases before,
  // and what they have freed is what the phase has room in.
  for (FlatPhase &phase : phases) {
    addCopies(phase);
    if (phase.moves.empty())
      continue;
    int64_t effort = effortOf(phase);
    if (auto error = addMoves(std::move(phase.moves), effort))
      return error;
    ++number;
  }
  return std::nullopt;
}

} // namespace

std::optional<std::string> dt::scheduleFlat(const WaveProblem &problem,
                                            const WaveOptions &options,
                                            WaveSchedule &schedule) {
  if (!problem.storage)
    return "has no storage part, which the solver 'flat' is for";
  schedule = {};
  return FlatScheduler(problem, options, schedule).run();
}
