//===- LaterWaves.cpp - Long messages beside later ones -------------------===//

#include "LaterWaves.h"

#include "dt/Cost/SameSeconds.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

using namespace dt;

namespace {

/// Each try predicts a whole schedule.
constexpr size_t kMostMessages = 64;

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

/// The first later wave of a message that saves seconds and breaks no rule.
bool delayOne(const WaveProblem &problem, WaveSchedule &schedule,
              double &seconds) {
  int32_t last = schedule.moves.back().wave;
  for (const Message &message : messagesOf(schedule.moves))
    for (int32_t wave = std::get<int32_t>(message) + 1; wave <= last; ++wave) {
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

} // namespace

double dt::delayMessages(const WaveProblem &problem, WaveSchedule &schedule,
                         double seconds) {
  if (problem.cluster.links.empty() || schedule.moves.empty() ||
      messagesOf(schedule.moves).size() > kMostMessages)
    return seconds;
  // Every round saves seconds, and there are finitely many schedules.
  while (delayOne(problem, schedule, seconds))
    continue;
  return seconds;
}
