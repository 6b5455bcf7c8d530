//===- RoundSchedule.cpp - Moves in the rounds that they name -------------===//

#include "dt/Scheduling/RoundSchedule.h"

#include "Feeds.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <tuple>

using namespace dt;

namespace {

/// Problems of more moves are not looked at.
constexpr size_t kMostMoves = 262144;

/// All that a device sends another in a round.
struct RoundMessage {
  int64_t round = 0;
  int64_t source = 0, destination = 0;
  std::vector<uint32_t> moves = {};
};

/// The waves in which a port is busy.
class BusyWaves {
public:
  bool isFree(int32_t wave) const {
    return wave >= int32_t(busy.size()) || !busy[wave];
  }
  void take(int32_t wave) {
    if (wave >= int32_t(busy.size()))
      busy.resize(wave + 1, false);
    busy[wave] = true;
  }

private:
  std::vector<bool> busy;
};

class RoundScheduler {
public:
  /// `isApart`: what a holder sends in several rounds is a message for each
  /// move, in the order of their boxes; else moves are joined as long as none
  /// is longer than the longest.
  RoundScheduler(const WaveProblem &problem, bool isApart)
      : moves(problem.moves), elementBytes(problem.elementBytes),
        cluster(problem.cluster), feeds(findFeeds(problem.moves)),
        isApart(isApart) {}

  /// By message.
  std::vector<ScheduledMove> run();
  /// Whether what holders send is cut only because it is apart; known after
  /// the run.
  bool cutsApart() const { return hasCutApart; }

private:
  bool isInter(const Move &move) const {
    return !cluster.sameNode(move.source, move.destination);
  }
  int64_t bytesOf(uint32_t move) const {
    return moves[move].box.volume() * elementBytes[moves[move].flow];
  }
  int64_t bytesOf(const RoundMessage &message) const;
  std::array<int64_t, 2>
  longest(const std::vector<RoundMessage> &messages) const;
  std::vector<RoundMessage> messages();
  std::vector<RoundMessage> spread(const std::vector<RoundMessage> &messages);
  int64_t roundOf(uint32_t move) const;
  int32_t waveOf(const RoundMessage &message);

  const std::vector<Move> &moves;
  const std::vector<int64_t> &elementBytes;
  const Cluster &cluster;
  const std::vector<std::vector<uint32_t>> feeds;
  const bool isApart;
  bool hasCutApart = false;
  std::vector<int32_t> earliest; // per move
  std::map<std::tuple<bool, bool, int64_t>, BusyWaves> ports;
};

int64_t RoundScheduler::bytesOf(const RoundMessage &message) const {
  int64_t bytes = 0;
  for (uint32_t move : message.moves)
    bytes += bytesOf(move);
  return bytes;
}

/// What nobody passes on comes last.
int64_t RoundScheduler::roundOf(uint32_t move) const {
  if (moves[move].hop > 0)
    return moves[move].hop;
  int64_t round = std::numeric_limits<int64_t>::max();
  for (uint32_t forward : feeds[move])
    round = std::min(round, int64_t(moves[forward].hop) - 1);
  return round;
}

/// By round. What holders send and nobody passes on is a message by itself: it
/// may go in any round.
std::vector<RoundMessage> RoundScheduler::messages() {
  using Key = std::tuple<int64_t, int64_t, int64_t, uint32_t>;
  std::map<Key, RoundMessage> byKey;
  for (uint32_t i = 0; i < moves.size(); ++i) {
    const Move &move = moves[i];
    int64_t round = roundOf(i);
    bool isLast = round == std::numeric_limits<int64_t>::max();
    // 1: what a holder sends, apart from what it passes on.
    uint32_t kind = isLast ? i + 2 : isApart && move.hop == 0;
    RoundMessage &message = byKey[{round, move.source, move.destination, kind}];
    Key other = {round, move.source, move.destination, 1 - kind};
    hasCutApart |= isApart && kind < 2 && byKey.count(other) > 0;
    message.round = round;
    message.source = move.source;
    message.destination = move.destination;
    message.moves.push_back(i);
  }
  std::vector<RoundMessage> out;
  for (auto &[key, message] : byKey)
    out.push_back(std::move(message));
  return spread(out);
}

/// By level, the bytes of the longest message whose round is named, or of the
/// longest move.
std::array<int64_t, 2>
RoundScheduler::longest(const std::vector<RoundMessage> &messages) const {
  std::array<int64_t, 2> out = {0, 0};
  for (const RoundMessage &message : messages) {
    int64_t &most = out[isInter(moves[message.moves.front()])];
    bool isNamed = moves[message.moves.front()].hop > 0;
    for (uint32_t move : message.moves)
      most = std::max(most, isNamed ? bytesOf(message) : bytesOf(move));
  }
  return out;
}

/// What a holder sends in several rounds, and is passed on in one, is longer
/// than all else: it is cut, and the last part keeps the round.
std::vector<RoundMessage>
RoundScheduler::spread(const std::vector<RoundMessage> &messages) {
  std::array<int64_t, 2> most = longest(messages);
  std::vector<RoundMessage> out;
  for (const RoundMessage &message : messages) {
    const Move &move = moves[message.moves.front()];
    bool isShort = !isApart && bytesOf(message) <= most[isInter(move)];
    if (move.hop > 0 || message.moves.size() == 1 || isShort) {
      out.push_back(message);
      continue;
    }
    size_t first = out.size();
    int64_t room = 0;
    std::vector<uint32_t> inOrder = message.moves;
    if (isApart)
      std::sort(inOrder.begin(), inOrder.end(), [&](uint32_t a, uint32_t b) {
        return std::tie(moves[a].flow, moves[a].box) <
               std::tie(moves[b].flow, moves[b].box);
      });
    for (uint32_t i : inOrder) {
      bool isNew = bytesOf(i) > room;
      hasCutApart |= isApart && !isNew;
      if (isNew || isApart) {
        out.push_back({0, message.source, message.destination});
        room = most[isInter(move)];
      }
      out.back().moves.push_back(i);
      room -= bytesOf(i);
    }
    for (size_t part = first; part < out.size(); ++part)
      out[part].round = message.round + int64_t(part + 1 - out.size());
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const RoundMessage &a, const RoundMessage &b) {
                     return a.round < b.round;
                   });
  return out;
}

int32_t RoundScheduler::waveOf(const RoundMessage &message) {
  bool inter = !cluster.sameNode(message.source, message.destination);
  BusyWaves &sender =
      ports[{inter, false, cluster.port(message.source, inter)}];
  BusyWaves &receiver =
      ports[{inter, true, cluster.port(message.destination, inter)}];
  int32_t wave = 0;
  for (uint32_t move : message.moves)
    wave = std::max(wave, earliest[move]);
  while (!sender.isFree(wave) || !receiver.isFree(wave))
    ++wave;
  sender.take(wave);
  receiver.take(wave);
  return wave;
}

std::vector<ScheduledMove> RoundScheduler::run() {
  earliest.assign(moves.size(), 0);
  std::vector<ScheduledMove> scheduled;
  // Invariant: messages of rounds before have waves, and `earliest` is the wave
  // after all that these bring of a move. Hops ascend along forwards, so what
  // feeds a message is of a round before its own.
  for (const RoundMessage &message : messages()) {
    int32_t wave = waveOf(message);
    for (uint32_t move : message.moves) {
      scheduled.push_back({moves[move], wave});
      for (uint32_t forward : feeds[move])
        earliest[forward] = std::max(earliest[forward], wave + 1);
    }
  }
  sortByMessage(scheduled);
  return scheduled;
}

std::optional<std::string> inRounds(const WaveProblem &problem, bool isApart,
                                    WaveSchedule &schedule) {
  if (auto error = refuseStorage(problem))
    return error;
  if (problem.moves.size() > kMostMoves)
    return "has " + std::to_string(problem.moves.size()) +
           " moves, more than the limit of " + std::to_string(kMostMoves) +
           " for rounds";
  RoundScheduler scheduler(problem, isApart);
  schedule.moves = scheduler.run();
  if (isApart && !scheduler.cutsApart())
    return "has no holder that sends several moves as one message";
  int64_t needed = 0;
  for (auto [device, bytes] : arenaBytes(problem.messages(schedule.moves)))
    needed = std::max(needed, bytes);
  if (needed > problem.stagingBytes)
    return refuseStaging(problem, needed);
  putCopiesFirst(problem, schedule);
  return std::nullopt;
}

} // namespace

std::optional<std::string> dt::scheduleRounds(const WaveProblem &problem,
                                              const WaveOptions &,
                                              WaveSchedule &out) {
  return inRounds(problem, /*isApart=*/false, out);
}

std::optional<std::string> dt::scheduleRoundsApart(const WaveProblem &problem,
                                                   const WaveOptions &,
                                                   WaveSchedule &out) {
  return inRounds(problem, /*isApart=*/true, out);
}
