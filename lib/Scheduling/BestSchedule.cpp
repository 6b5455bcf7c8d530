//===- BestSchedule.cpp - The best of several schedules -------------------===//
//
//   1. Chunk sizes are scheduled one after the other, the most promising first
//      (ChunkSizes.h), and timed: where data is forwarded with forwards held,
//      and then once more without, those first that were fast with.
//      Where ports carry several messages at once, waves are also joined
//      (JoinWaves.h). On threads, two sizes are scheduled beside each other and
//      steps 3 to 5 beside all of them: the answer is the same.
//   2. That ends with one that takes less than 0.5 % more than its busiest port
//      carries, or when `effort` pieces have been scheduled, or one has more
//      pieces than it may. Where there are many, two sizes in a row that gain
//      nothing end a round. With `isThorough`, none is good enough, and more
//      are tried.
//   3. What is forwarded is also tried in the rounds that its route names
//      (RoundSchedule.h), and those joined.
//   4. Where there are few latencies, pairs are tried as one message each that
//      need larger slots than step 1 has, if devices send or receive only.
//   5. Where there are few messages, all their waves are tried.
//   6. Over unequal links messages are put beside later ones (LaterWaves.h).
//   7. Of those that are equally fast the one of the fewest waves is kept, and
//      of these the first. Where messages stand for many like them, the one of
//      the fewest pieces is, of those within 0.5 %.
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

/// Where messages stand for many like them, fewer pieces are worth so much.
constexpr double kAboutSame = 0.005;

/// Chunk sizes, and which candidate they are.
using Candidate = std::pair<ChunkBytes, size_t>;

/// A schedule with its messages and what they take.
struct TimedSchedule {
  std::vector<ScheduledMove> moves;
  std::vector<TimedMessage> messages;
  double seconds = 0;
};

/// What messages take between others like them: the first packs and the last
/// unpacks are beside what comes before and after.
double repeatedSeconds(std::vector<TimedMessage> messages,
                       const Cluster &cluster) {
  if (messages.empty())
    return 0;
  double once = predictSeconds(messages, cluster);
  int32_t waves = messages.back().wave + 1;
  for (size_t i = 0, count = messages.size(); i < count; ++i) {
    messages.push_back(messages[i]);
    messages.back().wave += waves;
  }
  return predictSeconds(messages, cluster) - once;
}

/// What one chunk size gives.
struct Trial {
  int64_t pieces = 0;                   // that were scheduled
  std::vector<TimedSchedule> schedules; // as it is, and joined; or none
};

/// Schedules and times, until there is no more to gain or no effort left.
class Trials {
public:
  Trials(const WaveProblem &problem, const WaveOptions &options, double enough)
      : problem(problem), options(options), enough(enough) {}

  /// Invariant: `best` is the fastest of the trials so far. Returns seconds and
  /// number of those that have been scheduled.
  std::vector<std::pair<double, size_t>>
  add(const std::vector<Candidate> &candidates);
  /// Of the sizes that come after those of another kind.
  void beginRound() { misses = 0; }
  ChunkChoice best;

private:
  bool isDone() const;
  Trial make(const ChunkBytes &chunks) const;
  std::optional<double> take(Trial trial, size_t candidate);
  void take(TimedSchedule schedule, size_t candidate);

  const WaveProblem &problem;
  const WaveOptions &options;
  const double enough;
  double busiest = 0; // of the best
  int64_t tried = 0;  // pieces
  int misses = 0;     // trials in a row that gained nothing
};

bool Trials::isDone() const {
  const int mostMisses = options.isThorough ? 4 : 2;
  const int64_t manyPieces = options.isThorough ? 125000 : 20000;
  return tried > options.effort || best.seconds < enough * busiest ||
         (tried > manyPieces && misses >= mostMisses);
}

/// The first is often all that it takes; then come two at a time, the second of
/// which is in vain where the first ends the search.
std::vector<std::pair<double, size_t>>
Trials::add(const std::vector<Candidate> &candidates) {
  std::vector<std::pair<double, size_t>> out;
  for (size_t next = 0; next < candidates.size() && !isDone();) {
    size_t atOnce = options.parallel && tried > 0 ? 2 : 1;
    std::vector<Trial> trials(std::min(atOnce, candidates.size() - next));
    options.forEach(trials.size(), [&](size_t i) {
      trials[i] = make(candidates[next + i].first);
    });
    for (Trial &trial : trials) {
      size_t number = candidates[next++].second;
      if (isDone())
        break;
      if (auto seconds = take(std::move(trial), number))
        out.emplace_back(*seconds, number);
    }
  }
  return out;
}

Trial Trials::make(const ChunkBytes &chunks) const {
  std::vector<ScheduledMove> scheduled =
      schedule(problem, chunks, options.mostPieces, options.threads());
  if (scheduled.empty() && !problem.moves.empty())
    return {options.mostPieces, {}};
  Trial out{int64_t(scheduled.size()), {}};
  auto add = [&](std::vector<ScheduledMove> moves) {
    std::vector<TimedMessage> messages =
        problem.messages(moves, options.threads());
    double seconds = options.repeats
                         ? repeatedSeconds(messages, problem.cluster)
                         : predictSeconds(messages, problem.cluster);
    out.schedules.push_back({std::move(moves), std::move(messages), seconds});
  };
  auto joined = joinWaves(problem, scheduled);
  add(std::move(scheduled));
  if (joined)
    add(std::move(*joined));
  return out;
}

/// Returns the seconds of the faster of its schedules, if it has one.
std::optional<double> Trials::take(Trial trial, size_t candidate) {
  tried += trial.pieces;
  misses += !trial.schedules.empty();
  std::optional<double> seconds;
  for (TimedSchedule &schedule : trial.schedules) {
    seconds = seconds ? std::min(*seconds, schedule.seconds) : schedule.seconds;
    take(std::move(schedule), candidate);
  }
  return seconds;
}

/// Keeps the schedule if it is the best.
void Trials::take(TimedSchedule schedule, size_t candidate) {
  auto &[moves, messages, seconds] = schedule;
  auto isBetter = [&, seconds = seconds, &moves = moves] {
    if (options.repeats &&
        std::abs(seconds - best.seconds) < kAboutSame * best.seconds)
      return moves.size() < best.moves.size();
    if (std::abs(seconds - best.seconds) > kSameSeconds * best.seconds)
      return seconds < best.seconds;
    return moves.back().wave < best.moves.back().wave;
  };
  if (!best.moves.empty() && !isBetter())
    return;
  misses = 0;
  PortSeconds ports = busiestPorts(messages, problem.cluster);
  busiest = std::max(ports.nic, ports.island);
  best = {std::move(moves), seconds, candidate};
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

/// A schedule, and what it takes.
struct Answer {
  WaveSchedule schedule;
  double seconds = 0;
};

/// The fastest of several chunk sizes; without moves where none gives any.
Answer scheduleByChunks(const WaveProblem &problem,
                        const std::vector<ChunkBytes> &candidates,
                        const WaveOptions &options) {
  double enough = options.isThorough ? 0 : kGoodEnough;
  ChunkChoice best = fastestOf(problem, candidates, options, enough);
  Answer out{{std::move(best.moves), {}}, best.seconds};
  bool isNone = out.schedule.moves.empty() && !problem.moves.empty();
  putCopiesFirst(problem, out.schedule);
  out.seconds = isNone ? std::numeric_limits<double>::infinity()
                       : delayMessages(problem, out.schedule, out.seconds);
  return out;
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

std::optional<Answer> scheduleBy(WaveSolver solver, const WaveProblem &problem,
                                 const WaveOptions &options) {
  Answer out;
  if (solver(problem, options, out.schedule))
    return std::nullopt;
  joinIfFaster(problem, out.schedule);
  out.seconds =
      delayMessages(problem, out.schedule, problem.seconds(out.schedule.moves));
  return out;
}

} // namespace

ChunkChoice dt::fastestOf(const WaveProblem &problem,
                          const std::vector<ChunkBytes> &candidates,
                          const WaveOptions &options, double enough) {
  Trials trials(problem, options, enough);
  // What holding forwards gains depends on the size: a chain of few chunks
  // waits for one more of them per hop, one of many hides its copies.
  bool forwards = !problem.moves.empty() && problem.moves.back().hop > 0;
  std::vector<Candidate> first, second;
  for (size_t i = 0; i < candidates.size(); ++i) {
    first.emplace_back(candidates[i], i);
    first.back().first.holdsForwards = forwards && !candidates[i].isWhole;
  }
  auto timed = trials.add(first);
  std::sort(timed.begin(), timed.end());
  for (auto [seconds, i] : timed)
    if (first[i].first.holdsForwards) {
      second.emplace_back(candidates[i], i);
      second.back().first.holdsForwards = false;
    }
  trials.beginRound();
  trials.add(second);
  return std::move(trials.best);
}

std::optional<std::string> dt::scheduleBest(const WaveProblem &problem,
                                            const WaveOptions &options,
                                            WaveSchedule &schedule) {
  if (auto error = refuseStorage(problem))
    return error;
  std::vector<ChunkBytes> candidates = candidateChunks(problem);
  if (options.isThorough)
    for (const ChunkBytes &chunks :
         candidateChunks(problem, problem.stagingBytes / 2))
      if (std::find(candidates.begin(), candidates.end(), chunks) ==
          candidates.end())
        candidates.push_back(chunks);
  for (ChunkBytes &chunks : candidates)
    chunks.hasShortEnds = !chunks.isWhole;
  if (candidates.empty())
    return refuseChunks(problem);
  std::vector<WaveSolver> others = {scheduleWhole, scheduleExactly};
  if (!problem.moves.empty() && problem.moves.back().hop > 0)
    others.insert(others.begin(), {scheduleRounds, scheduleRoundsApart});
  std::vector<std::optional<Answer>> answers(1 + others.size());
  options.forEach(answers.size(), [&](size_t i) {
    answers[i] = i == 0 ? scheduleByChunks(problem, candidates, options)
                        : scheduleBy(others[i - 1], problem, options);
  });
  Answer &best = *answers.front();
  for (size_t i = 1; i < answers.size(); ++i)
    if (answers[i] && isFaster(answers[i]->seconds, best.seconds))
      best = std::move(*answers[i]);
  schedule = std::move(best.schedule);
  if (schedule.moves.empty() && !problem.moves.empty())
    return refuseMessages();
  return std::nullopt;
}
