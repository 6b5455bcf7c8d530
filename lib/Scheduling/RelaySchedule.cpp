//===- RelaySchedule.cpp - Which messages go over a third device ----------===//

#include "dt/Scheduling/RelaySchedule.h"

#include "CutPrefix.h"
#include "Feeds.h"
#include "WaveRoom.h"
#include "dt/Geometry/Limits.h"
#include "dt/Scheduling/BestSchedule.h"
#include "dt/Scheduling/Relays.h"

#include <algorithm>
#include <set>

using namespace dt;

namespace {

/// Relays have to save this part of the time, and to leave ports busy for this
/// part less: predictions are no measurements, and the bytes are paid twice.
constexpr double kMargin = 0.05;

/// Pairs that are relayed at most, of those whose ports are busiest.
constexpr size_t kMostPairs = 256;

/// Messages that all of a pair is cut into, or more of them, each as large as
/// this part of the staging. A relay has up to two at a time, as many again
/// wait to be packed or unpacked; so another part is kept free of all else.
constexpr int64_t kCuts[] = {1, 2, 4, 8, 16, 32};
constexpr int64_t kStagingPerUnit = 16, kStagingForRelays = 4;

/// What is tried has no more units, and all trials together ask no more often
/// whether a message fits into a wave: these are the limits of hostile cases.
constexpr int64_t kMostUnits = int64_t(1) << 17;
constexpr int64_t kMostLooks = int64_t(1) << 23;

/// All that one device has for another, and may be relayed.
struct Traffic {
  DevicePair pair;
  int64_t bytes = 0;
  std::vector<Move> moves;
  int64_t relay = -1;
};

/// Pieces that travel as one message, on both hops.
using Unit = CutMoves;

//===----------------------------------------------------------------------===//
// Which pairs, over whom
//===----------------------------------------------------------------------===//

/// Per move, whether it may be relayed: it is held at the source, and its
/// receiver does not pass it on.
std::vector<bool> findRelayable(const std::vector<Move> &moves) {
  std::vector<std::vector<uint32_t>> feeds = findFeeds(moves);
  std::vector<bool> out(moves.size());
  for (size_t i = 0; i < moves.size(); ++i)
    out[i] = moves[i].hop == 0 && feeds[i].empty();
  return out;
}

class RelayChooser {
public:
  RelayChooser(const WaveProblem &problem, const std::vector<int64_t> &devices)
      : problem(problem), cluster(problem.cluster), devices(devices) {}

  /// Those that had better be relayed, the busiest first.
  std::vector<Traffic> run();

private:
  std::vector<Traffic> collect();
  double secondsOf(DevicePair pair, int64_t bytes) const {
    return double(bytes) / cluster.bytesPerSecond(pair.first, pair.second);
  }
  void load(DevicePair pair, double seconds) {
    for (const WavePort &port : portsOf(cluster, pair.first, pair.second))
      if (port.kind != WavePort::Device)
        busy[port] += seconds / double(port.most);
  }
  /// For how long the busiest port of a pair is busy, with `seconds` more.
  double busiest(DevicePair pair, double seconds) const {
    double most = 0;
    for (const WavePort &port : portsOf(cluster, pair.first, pair.second)) {
      auto known = busy.find(port);
      if (port.kind != WavePort::Device)
        most = std::max(most, (known == busy.end() ? 0 : known->second) +
                                  seconds / double(port.most));
    }
    return most;
  }
  bool choose(Traffic &traffic);

  const WaveProblem &problem;
  const Cluster &cluster;
  const std::vector<int64_t> &devices;
  std::map<WavePort, double> busy; // seconds
};

/// What may be relayed, by pair.
std::vector<Traffic> RelayChooser::collect() {
  std::map<DevicePair, Traffic> byPair;
  std::vector<bool> relayable = findRelayable(problem.moves);
  for (size_t i = 0; i < problem.moves.size(); ++i) {
    const Move &move = problem.moves[i];
    DevicePair pair = {move.source, move.destination};
    int64_t bytes = move.box.volume() * problem.elementBytes[move.flow];
    load(pair, secondsOf(pair, bytes));
    if (!relayable[i])
      continue;
    Traffic &traffic = byPair[pair];
    traffic.pair = pair;
    traffic.bytes += bytes;
    traffic.moves.push_back(move);
  }
  std::vector<Traffic> out;
  for (auto &[pair, traffic] : byPair)
    out.push_back(std::move(traffic));
  return out;
}

/// The relay that leaves the ports of both hops busy for the shortest time.
bool RelayChooser::choose(Traffic &traffic) {
  auto [source, destination] = traffic.pair;
  double direct = secondsOf(traffic.pair, traffic.bytes);
  double least = busiest(traffic.pair, 0) * (1 - kMargin);
  load(traffic.pair, -direct);
  for (int64_t relay : devices) {
    if (relay == source || relay == destination)
      continue;
    DevicePair in = {source, relay}, out = {relay, destination};
    double first = secondsOf(in, traffic.bytes);
    double second = secondsOf(out, traffic.bytes);
    if (std::max(first, second) >= direct)
      continue;
    double seconds = std::max(busiest(in, first), busiest(out, second));
    if (seconds >= least)
      continue;
    least = seconds;
    traffic.relay = relay;
  }
  if (traffic.relay < 0) {
    load(traffic.pair, direct);
    return false;
  }
  load({source, traffic.relay},
       secondsOf({source, traffic.relay}, traffic.bytes));
  load({traffic.relay, destination},
       secondsOf({traffic.relay, destination}, traffic.bytes));
  return true;
}

std::vector<Traffic> RelayChooser::run() {
  std::vector<Traffic> all = collect();
  std::stable_sort(
      all.begin(), all.end(), [&](const Traffic &a, const Traffic &b) {
        return secondsOf(a.pair, a.bytes) > secondsOf(b.pair, b.bytes);
      });
  std::vector<Traffic> out;
  for (Traffic &traffic : all)
    if (out.size() < kMostPairs && choose(traffic))
      out.push_back(std::move(traffic));
  return out;
}

//===----------------------------------------------------------------------===//
// When
//===----------------------------------------------------------------------===//

/// Puts both hops of units into the waves of a schedule.
class RelayInserter {
public:
  RelayInserter(const WaveProblem &problem, std::vector<ScheduledMove> moves,
                WorkLimit &looks)
      : cluster(problem.cluster), room(cluster), looks(looks),
        out(std::move(moves)) {
    for (const TimedMessage &message : problem.messages(out)) {
      DevicePair pair = {message.source, message.destination};
      book(room.usersOf(pair), message.wave, secondsOf(pair, message.bytes));
    }
    numScheduled = out.empty() ? 0 : out.back().wave + 1;
  }

  /// False where that takes too many looks.
  bool add(const std::vector<Traffic> &relayed,
           const std::vector<std::vector<Unit>> &units);
  std::vector<ScheduledMove> take() {
    sortByMessage(out);
    return std::move(out);
  }

private:
  double secondsOf(DevicePair pair, int64_t bytes) const {
    return double(bytes) / cluster.bytesPerSecond(pair.first, pair.second);
  }
  void book(const WaveRoom::Users &users, int32_t wave, double seconds) {
    room.take(users, wave);
    for (int64_t device : {users.pair.first, users.pair.second}) {
      double &longest = groups[{wave, device}];
      longest = std::max(longest, seconds);
    }
  }
  bool prolongs(DevicePair pair, int32_t wave, double seconds) const;
  bool fits(DevicePair pair, int32_t wave, int64_t bytes);
  void place(DevicePair pair, int32_t wave, const Unit &unit, RelayHop relay);
  int32_t add(const Traffic &traffic, const Unit &unit, int32_t wave);

  const Cluster &cluster;
  WaveRoom room;
  WorkLimit &looks;
  std::map<std::pair<int32_t, int64_t>, double> groups; // wave, device: seconds
  std::vector<ScheduledMove> out;
  int32_t numScheduled = 0; // waves that others are in
};

/// Whether a group of another wave than its own would last longer.
bool RelayInserter::prolongs(DevicePair pair, int32_t wave,
                             double seconds) const {
  if (wave >= numScheduled)
    return false;
  for (int64_t device : {pair.first, pair.second}) {
    auto group = groups.find({wave, device});
    if (group != groups.end() && seconds > group->second)
      return true;
  }
  return false;
}

bool RelayInserter::fits(DevicePair pair, int32_t wave, int64_t bytes) {
  looks.take();
  return room.hasRoom(room.usersOf(pair), wave) &&
         !prolongs(pair, wave, secondsOf(pair, bytes));
}

void RelayInserter::place(DevicePair pair, int32_t wave, const Unit &unit,
                          RelayHop relay) {
  book(room.usersOf(pair), wave, secondsOf(pair, unit.bytes));
  for (const Move &piece : unit.pieces) {
    ScheduledMove hop = {piece, wave, relay};
    hop.move.source = pair.first;
    hop.move.destination = pair.second;
    out.push_back(hop);
  }
}

/// Sends a unit on in the first wave, from `wave` on, before which it can come,
/// and has it come as late as can be: it takes staging until it has gone.
int32_t RelayInserter::add(const Traffic &traffic, const Unit &unit,
                           int32_t wave) {
  DevicePair in = {traffic.pair.first, traffic.relay};
  DevicePair on = {traffic.relay, traffic.pair.second};
  for (; !looks.isExceeded(); ++wave) {
    if (!fits(on, wave, unit.bytes))
      continue;
    int32_t before = wave - 1;
    while (before >= 0 && !looks.isExceeded() && !fits(in, before, unit.bytes))
      --before;
    if (before < 0)
      continue;
    place(in, before, unit, RelayHop::In);
    place(on, wave, unit, RelayHop::Out);
    return wave;
  }
  return wave;
}

/// One unit of each pair after the other.
bool RelayInserter::add(const std::vector<Traffic> &relayed,
                        const std::vector<std::vector<Unit>> &units) {
  std::vector<int32_t> next(relayed.size(), 1); // in which a unit may go on
  size_t most = 0;
  for (const std::vector<Unit> &own : units)
    most = std::max(most, own.size());
  for (size_t u = 0; u < most; ++u)
    for (size_t i = 0; i < relayed.size(); ++i)
      if (u < units[i].size())
        next[i] = add(relayed[i], units[i][u], next[i]) + 1;
  return !looks.isExceeded();
}

//===----------------------------------------------------------------------===//
// The best of several
//===----------------------------------------------------------------------===//

/// What is left without the moves of some pairs that can be relayed.
WaveProblem problemOfRest(const WaveProblem &problem,
                          const std::vector<Traffic> &relayed) {
  WaveProblem rest = problem;
  rest.stagingBytes -= rest.stagingBytes / kStagingForRelays;
  std::set<DevicePair> pairs;
  for (const Traffic &traffic : relayed)
    pairs.insert(traffic.pair);
  std::vector<bool> relayable = findRelayable(problem.moves);
  rest.moves.clear();
  for (size_t i = 0; i < problem.moves.size(); ++i) {
    const Move &move = problem.moves[i];
    if (!relayable[i] || !pairs.count({move.source, move.destination}))
      rest.moves.push_back(move);
  }
  return rest;
}

class RelayTrials {
public:
  RelayTrials(const WaveProblem &problem, const WaveOptions &options,
              double seconds)
      : seconds(seconds), problem(problem), options(options) {}

  /// With all sizes of units.
  void add(const std::vector<Traffic> &relayed);

  std::optional<WaveSchedule> best;
  int64_t bytes = 0; // of the best that are relayed
  double seconds = 0;

private:
  void add(const std::vector<Traffic> &relayed,
           const std::vector<ScheduledMove> &others, int64_t cuts);

  const WaveProblem &problem;
  const WaveOptions &options;
  WorkLimit looks{kMostLooks};
};

void RelayTrials::add(const std::vector<Traffic> &relayed,
                      const std::vector<ScheduledMove> &others, int64_t cuts) {
  int64_t widest = *std::max_element(problem.elementBytes.begin(),
                                     problem.elementBytes.end());
  int64_t cap = problem.stagingBytes / kStagingPerUnit;
  auto largest = [&](const Traffic &traffic) {
    int64_t most = std::min(alignSlot((traffic.bytes + cuts - 1) / cuts), cap);
    return std::max(most, widest);
  };
  int64_t sum = 0, numUnits = 0;
  for (const Traffic &traffic : relayed) {
    sum += traffic.bytes;
    numUnits += traffic.bytes / largest(traffic) + 1;
  }
  if (numUnits > kMostUnits)
    return;
  std::vector<std::vector<Unit>> units;
  for (const Traffic &traffic : relayed)
    units.push_back(
        cutMoves(traffic.moves, problem.elementBytes, largest(traffic)));
  RelayInserter inserter(problem, others, looks);
  if (!inserter.add(relayed, units))
    return;
  WaveSchedule schedule;
  schedule.moves = inserter.take();
  double found = problem.seconds(schedule.moves);
  // Staging may have no room for the slots.
  if (found >= seconds || problem.verify(schedule))
    return;
  best = std::move(schedule);
  bytes = sum;
  seconds = found;
}

void RelayTrials::add(const std::vector<Traffic> &relayed) {
  WaveProblem rest = problemOfRest(problem, relayed);
  WaveSchedule others;
  if (!rest.moves.empty() && scheduleBest(rest, options, others))
    return;
  for (int64_t cuts : kCuts)
    if (!looks.isExceeded())
      add(relayed, others.moves, cuts);
}

} // namespace

std::optional<RelayGain> dt::relayMessages(const WaveProblem &problem,
                                           const WaveOptions &options,
                                           const std::vector<int64_t> &devices,
                                           WaveSchedule &schedule) {
  std::vector<Traffic> relayed = RelayChooser(problem, devices).run();
  RelayGain gain;
  gain.secondsWithout = problem.seconds(schedule.moves);
  RelayTrials trials(problem, options, gain.secondsWithout);
  for (size_t count = relayed.size(); count > 0; count /= 2)
    trials.add({relayed.begin(), relayed.begin() + ptrdiff_t(count)});
  if (!trials.best || trials.seconds > gain.secondsWithout * (1 - kMargin))
    return std::nullopt;
  gain.bytes = trials.bytes;
  gain.secondsWith = trials.seconds;
  schedule.moves = std::move(trials.best->moves);
  return gain;
}
