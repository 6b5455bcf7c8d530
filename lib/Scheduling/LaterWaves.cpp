//===- LaterWaves.cpp - Long messages beside later ones -------------------===//

#include "LaterWaves.h"

#include "dt/Cost/SameSeconds.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

using namespace dt;

namespace {

/// Each try predicts a whole schedule: of so many messages, and of so many
/// pieces in all tries together.
constexpr size_t kMostMessages = 64, kMostTried = 4'000'000;

/// A message by its wave and ends.
using Message = std::tuple<int32_t, int64_t, int64_t>;

std::set<Message> messagesOf(const std::vector<ScheduledMove> &moves) {
  std::set<Message> out;
  for (const ScheduledMove &s : moves)
    out.insert({s.wave, s.move.source, s.move.destination});
  return out;
}

/// The same moves, one message in another wave, waves without gaps.
std::vector<ScheduledMove> moved(std::vector<ScheduledMove> moves,
                                 const Message &message, int32_t wave) {
  std::map<int32_t, int32_t> numbers;
  for (ScheduledMove &s : moves) {
    if (Message{s.wave, s.move.source, s.move.destination} == message)
      s.wave = wave;
    numbers[s.wave] = 0;
  }
  int32_t next = 0;
  for (auto &[old, number] : numbers)
    number = next++;
  for (ScheduledMove &s : moves)
    s.wave = numbers[s.wave];
  sortByMessage(moves);
  return moves;
}

bool fitsStaging(const WaveProblem &problem,
                 const std::vector<ScheduledMove> &moves) {
  for (auto [device, bytes] : arenaBytes(problem.messages(moves)))
    if (bytes > problem.stagingBytes)
      return false;
  return true;
}

/// Tries later waves of messages, one after the other.
class Delays {
public:
  Delays(const WaveProblem &problem, WaveSchedule &schedule, double seconds)
      : problem(problem), schedule(schedule), seconds(seconds) {}

  /// Every gain is by so much that there are finitely many schedules. Returns
  /// the seconds of the last.
  double run() {
    while (pass())
      continue;
    return seconds;
  }

private:
  /// Every message once, in order. True where one of them went to a later wave.
  bool pass() {
    bool hasGained = false;
    Message last{-1, 0, 0};
    std::set<Message> messages = messagesOf(schedule.moves);
    for (auto it = messages.begin(); it != messages.end();
         it = messages.upper_bound(last)) {
      if (pieces >= kMostTried)
        return false;
      last = *it;
      if (!delay(last))
        continue;
      hasGained = true;
      messages = messagesOf(schedule.moves);
    }
    return hasGained;
  }

  /// To the first later wave that saves seconds and breaks no rule.
  bool delay(const Message &message) {
    int32_t last = schedule.moves.back().wave;
    for (int32_t wave = std::get<int32_t>(message) + 1; wave <= last; ++wave) {
      pieces += schedule.moves.size();
      WaveSchedule other = schedule;
      other.moves = moved(schedule.moves, message, wave);
      double found = problem.seconds(other.moves);
      if (!isFaster(found, seconds) || problem.verify(other) ||
          !fitsStaging(problem, other.moves))
        continue;
      schedule = std::move(other);
      seconds = found;
      return true;
    }
    return false;
  }

  const WaveProblem &problem;
  WaveSchedule &schedule;
  double seconds;
  size_t pieces = 0; // of all schedules tried
};

} // namespace

double dt::delayMessages(const WaveProblem &problem, WaveSchedule &schedule,
                         double seconds) {
  if (problem.cluster.links.empty() || schedule.moves.empty() ||
      messagesOf(schedule.moves).size() > kMostMessages)
    return seconds;
  return Delays(problem, schedule, seconds).run();
}
