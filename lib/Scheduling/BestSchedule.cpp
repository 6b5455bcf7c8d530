//===- BestSchedule.cpp - The best of several schedules -------------------===//
//
//   1. Chunk sizes are scheduled one after the other, the most promising first
//      (ChunkSizes.h), and timed: where data is forwarded with forwards held,
//      and then once more without, those first that were fast with. On threads
//      several are scheduled at a time, and judged one after the other.
//      Where ports carry several messages at once, waves are also joined
//      (JoinWaves.h).
//   2. That ends with one that takes less than 0.5 % more than its busiest port
//      carries, or when `effort` pieces have been scheduled, or one has more
//      pieces than it may. Where there are many, two sizes in a row that gain
//      nothing end a round.
//   3. What is forwarded is also tried in the rounds that its route names
//      (RoundSchedule.h), and those joined.
//   4. Where there are few latencies, pairs are tried as one message each that
//      need larger slots than step 1 has, if devices send or receive only.
//   5. Where there are few messages, all their waves are tried.
//   6. Over unequal links messages are put beside later ones (LaterWaves.h).
//   7. Of those that are equally fast the one of the fewest waves is kept, and
//      of these the first.
//
// test/Problems/waves-unequal.json, where port 0 sends 5 MB:
//
//   chunk    waves  messages  us
//   1 MB     5      7         217
//   2 MB     3      4         216, kept
//   5 MB     5      7         217
//   uncut    2      3         217
//   exact    2      3         217
//
//===----------------------------------------------------------------------===//

#include "dt/Scheduling/BestSchedule.h"

#include "LaterWaves.h"

#include "dt/Cost/SameSeconds.h"
#include "dt/Scheduling/ExactSchedule.h"
#include "dt/Scheduling/JoinWaves.h"
#include "dt/Scheduling/RoundSchedule.h"
#include "dt/Scheduling/Schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace dt;

namespace {

/// A schedule this close to what its busiest port carries is not improved.
constexpr double kGoodEnough = 1.005;

/// A schedule with its seconds, and those of its busiest port.
struct TimedSchedule {
  TimedSchedule(const WaveProblem &problem,
                std::vector<ScheduledMove> scheduled)
      : moves(std::move(scheduled)) {
    std::vector<TimedMessage> messages = problem.messages(moves);
    seconds = predictSeconds(messages, problem.cluster);
    PortSeconds ports = busiestPorts(messages, problem.cluster);
    busiest = std::max(ports.nic, ports.island);
  }

  std::vector<ScheduledMove> moves;
  double seconds = 0, busiest = 0;
};

struct Candidate {
  ChunkBytes chunks;
  size_t number = 0;
};

/// What came of a candidate: its schedule and that with joined waves, or none.
using Trial = std::vector<TimedSchedule>;

/// Schedules and times, until there is no more to gain or no effort left.
class Trials {
public:
  Trials(const WaveProblem &problem, const WaveOptions &options, double enough)
      : problem(problem), options(options), enough(enough) {}

  /// Adds candidates of one kind in their order; returns the seconds of those
  /// that have been scheduled, with their numbers. Invariant: `best` is the
  /// fastest of the trials so far.
  std::vector<std::pair<double, size_t>>
  addAll(const std::vector<Candidate> &candidates);
  ChunkChoice best;

private:
  bool isDone() const;
  Trial schedule(const ChunkBytes &chunks) const;
  std::optional<double> judge(Trial trial, size_t candidate);
  void take(TimedSchedule scheduled, size_t candidate);

  const WaveProblem &problem;
  const WaveOptions &options;
  const double enough;
  double busiest = 0; // of the best
  int64_t tried = 0;  // pieces
  int misses = 0;     // trials in a row that gained nothing
};

bool Trials::isDone() const {
  constexpr int kMostMisses = 2;
  constexpr int64_t kManyPieces = 20000;
  return tried > options.effort || best.seconds < enough * busiest ||
         (tried > kManyPieces && misses >= kMostMisses);
}

/// Several at a time: those that come after the last one are for nothing.
std::vector<std::pair<double, size_t>>
Trials::addAll(const std::vector<Candidate> &candidates) {
  misses = 0;
  std::vector<std::pair<double, size_t>> out;
  for (size_t first = 0; first < candidates.size() && !isDone();) {
    // The first of a kind is often good enough.
    size_t most = first == 0 ? 1 : options.trialsAtOnce;
    std::vector<Trial> trials(std::min(most, candidates.size() - first));
    options.parallel(trials.size(), [&](size_t i) {
      trials[i] = schedule(candidates[first + i].chunks);
    });
    for (Trial &trial : trials) {
      if (isDone())
        break;
      size_t number = candidates[first++].number;
      if (auto seconds = judge(std::move(trial), number))
        out.emplace_back(*seconds, number);
    }
  }
  return out;
}

Trial Trials::schedule(const ChunkBytes &chunks) const {
  std::vector<ScheduledMove> scheduled =
      dt::schedule(problem, chunks, options.mostPieces);
  if (scheduled.empty() && !problem.moves.empty())
    return {};
  Trial out;
  auto joined = joinWaves(problem, scheduled);
  out.emplace_back(problem, std::move(scheduled));
  if (joined)
    out.emplace_back(problem, std::move(*joined));
  return out;
}

/// Its seconds, if it has been scheduled.
std::optional<double> Trials::judge(Trial trial, size_t candidate) {
  if (trial.empty()) {
    tried += options.mostPieces;
    return std::nullopt;
  }
  tried += int64_t(trial.front().moves.size());
  ++misses;
  double seconds = trial.front().seconds;
  for (TimedSchedule &scheduled : trial) {
    seconds = std::min(seconds, scheduled.seconds);
    take(std::move(scheduled), candidate);
  }
  return seconds;
}

/// Keeps the schedule if it is the best.
void Trials::take(TimedSchedule scheduled, size_t candidate) {
  auto isBetter = [&] {
    if (std::abs(scheduled.seconds - best.seconds) >
        kSameSeconds * best.seconds)
      return scheduled.seconds < best.seconds;
    return scheduled.moves.back().wave < best.moves.back().wave;
  };
  if (!best.moves.empty() && !isBetter())
    return;
  misses = 0;
  best = {std::move(scheduled.moves), scheduled.seconds, candidate};
  busiest = scheduled.busiest;
}

/// All that a pair has in one message, where slots of that size fit.
std::optional<std::string> scheduleWhole(const WaveProblem &problem,
                                         const WaveOptions &,
                                         WaveSchedule &out) {
  std::optional<ChunkBytes> chunks = wholeMessages(problem);
  if (!chunks)
    return "has too many bytes for whole messages";
  out.moves = schedule(problem, *chunks);
  if (out.moves.empty())
    return refuseMessages();
  int64_t needed = 0;
  for (auto [device, bytes] : arenaBytes(problem.messages(out.moves)))
    needed = std::max(needed, bytes);
  if (needed > problem.stagingBytes)
    return refuseStaging(problem, needed);
  putCopiesFirst(problem, out);
  return std::nullopt;
}

/// Joins its waves where that is faster.
void joinIfFaster(const WaveProblem &problem, WaveSchedule &schedule) {
  auto joined = joinWaves(problem, schedule.moves);
  if (!joined ||
      !isFaster(problem.seconds(*joined), problem.seconds(schedule.moves)))
    return;
  schedule.moves = std::move(*joined);
  putCopiesFirst(problem, schedule);
}

} // namespace

ChunkChoice dt::fastestOf(const WaveProblem &problem,
                          const std::vector<ChunkBytes> &candidates,
                          const WaveOptions &options, double enough) {
  Trials trials(problem, options, enough);
  // What holding forwards gains depends on the size: a chain of few chunks
  // waits for one more of them per hop, one of many hides its copies.
  bool forwards = !problem.moves.empty() && problem.moves.back().hop > 0;
  std::vector<Candidate> all;
  for (size_t i = 0; i < candidates.size(); ++i) {
    all.push_back({candidates[i], i});
    all.back().chunks.holdsForwards = forwards && !candidates[i].isWhole;
  }
  std::vector<std::pair<double, size_t>> held = trials.addAll(all);
  std::sort(held.begin(), held.end());
  std::vector<Candidate> again;
  for (auto [seconds, i] : held)
    if (all[i].chunks.holdsForwards) {
      again.push_back(all[i]);
      again.back().chunks.holdsForwards = false;
    }
  trials.addAll(again);
  return std::move(trials.best);
}

std::optional<std::string> dt::scheduleBest(const WaveProblem &problem,
                                            const WaveOptions &options,
                                            WaveSchedule &schedule) {
  if (auto error = refuseStorage(problem))
    return error;
  std::vector<ChunkBytes> candidates = candidateChunks(problem);
  for (ChunkBytes &chunks : candidates)
    chunks.hasShortEnds = !chunks.isWhole;
  if (candidates.empty())
    return refuseChunks(problem);
  ChunkChoice best = fastestOf(problem, candidates, options, kGoodEnough);
  bool isNone = best.moves.empty() && !problem.moves.empty();
  schedule.moves = std::move(best.moves);
  putCopiesFirst(problem, schedule);
  best.seconds = isNone ? std::numeric_limits<double>::infinity()
                        : delayMessages(problem, schedule, best.seconds);
  bool forwards = !problem.moves.empty() && problem.moves.back().hop > 0;
  for (WaveSolver solver :
       {forwards ? scheduleRounds : nullptr, scheduleWhole, scheduleExactly}) {
    WaveSchedule other;
    if (!solver || solver(problem, options, other))
      continue;
    joinIfFaster(problem, other);
    double seconds =
        delayMessages(problem, other, problem.seconds(other.moves));
    if (!isFaster(seconds, best.seconds))
      continue;
    best.seconds = seconds;
    schedule = std::move(other);
  }
  if (schedule.moves.empty() && !problem.moves.empty())
    return refuseMessages();
  return std::nullopt;
}
