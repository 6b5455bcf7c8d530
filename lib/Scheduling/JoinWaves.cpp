//===- JoinWaves.cpp - Fewer waves of more messages -----------------------===//

#include "dt/Scheduling/JoinWaves.h"

#include "WavePorts.h"
#include "dt/Geometry/Overlaps.h"
#include "dt/Scheduling/ChunkSizes.h"

#include <algorithm>

using namespace dt;

namespace {

/// Counts what ports have in each wave.
class Room {
public:
  /// The first wave in which the port has fewer than it may: none before it
  /// ever has again.
  int32_t first(const WavePort &port) {
    Use &use = uses[port];
    while (countIn(use, use.open) >= port.most)
      ++use.open;
    return use.open;
  }
  bool has(const WavePort &port, int32_t wave) {
    return countIn(uses[port], wave) < port.most;
  }
  void take(const WavePort &port, int32_t wave) {
    std::vector<int64_t> &counts = uses[port].counts;
    if (counts.size() <= size_t(wave))
      counts.resize(size_t(wave) + 1, 0);
    ++counts[size_t(wave)];
  }

private:
  struct Use {
    std::vector<int64_t> counts; // by wave
    int32_t open = 0;
  };
  static int64_t countIn(const Use &use, int32_t wave) {
    return size_t(wave) < use.counts.size() ? use.counts[size_t(wave)] : 0;
  }
  std::map<WavePort, Use> uses;
};

/// Pairs of pieces, a forward and what brings a part of it to its sender; in
/// order.
std::vector<IndexPair> feedsOf(const std::vector<ScheduledMove> &pieces) {
  struct Place {
    std::vector<uint32_t> sent, come;
  };
  std::map<std::pair<uint32_t, int64_t>, Place> places; // flow, device
  for (uint32_t i = 0; i < pieces.size(); ++i)
    if (const Move &move = pieces[i].move; move.hop > 0)
      places[{move.flow, move.source}].sent.push_back(i);
  if (places.empty())
    return {};
  for (uint32_t i = 0; i < pieces.size(); ++i) {
    const Move &move = pieces[i].move;
    if (auto at = places.find({move.flow, move.destination});
        at != places.end())
      at->second.come.push_back(i);
  }
  auto boxesOf = [&](const std::vector<uint32_t> &indices) {
    std::vector<Box> boxes;
    for (uint32_t i : indices)
      boxes.push_back(pieces[i].move.box);
    return boxes;
  };
  std::vector<IndexPair> feeds;
  for (const auto &[at, place] : places)
    for (auto [sent, come] :
         overlappingPairs(boxesOf(place.sent), boxesOf(place.come)))
      feeds.emplace_back(place.sent[sent], place.come[come]);
  std::sort(feeds.begin(), feeds.end());
  return feeds;
}

/// Puts message after message into waves. Invariant: what it has put there
/// keeps the rules of WaveProblem, whatever comes later.
class Joiner {
public:
  Joiner(const Cluster &cluster, const std::vector<ScheduledMove> &pieces)
      : cluster(cluster), pieces(pieces), joined(pieces),
        feeds(feedsOf(pieces)) {}

  /// The next message: pieces [first, last).
  void place(size_t first, size_t last);
  std::vector<ScheduledMove> take() { return std::move(joined); }

private:
  int32_t afterFeeders(size_t last);

  const Cluster &cluster;
  const std::vector<ScheduledMove> &pieces;
  std::vector<ScheduledMove> joined; // pieces in their new waves
  std::vector<IndexPair> feeds;
  size_t nextFeed = 0; // of what is not placed yet
  Room ports;
  std::map<std::pair<int64_t, int64_t>, int32_t> lastOf; // pair
};

/// The first wave in which all of the message that ends at `last` is at its
/// sender.
int32_t Joiner::afterFeeders(size_t last) {
  int32_t wave = 0;
  for (; nextFeed < feeds.size() && feeds[nextFeed].first < last; ++nextFeed)
    if (auto [sent, come] = feeds[nextFeed]; come < sent)
      wave = std::max(wave, joined[come].wave + 1);
  return wave;
}

void Joiner::place(size_t first, size_t last) {
  const int64_t from = pieces[first].move.source;
  const int64_t to = pieces[first].move.destination;
  const auto used = portsOf(cluster, from, to);
  int32_t &next = lastOf[{from, to}];
  int32_t wave = std::max(next, afterFeeders(last));
  for (const WavePort &port : used)
    wave = std::max(wave, ports.first(port));
  auto isFull = [&](const WavePort &port) { return !ports.has(port, wave); };
  while (std::any_of(used.begin(), used.end(), isFull))
    ++wave;
  for (const WavePort &port : used)
    ports.take(port, wave);
  next = wave + 1;
  for (size_t i = first; i < last; ++i)
    joined[i].wave = wave;
}

/// Whether a group fills no area of an arena that is divided evenly, whatever
/// groups come before and after these waves. `joined` is sorted.
bool fitStaging(const WaveProblem &problem,
                const std::vector<ScheduledMove> &joined) {
  std::map<std::pair<int64_t, bool>, int64_t> groups; // device, receives
  int32_t wave = 0;
  for (const TimedMessage &m : problem.messages(joined)) {
    if (m.wave != wave)
      groups.clear();
    wave = m.wave;
    for (bool receives : {false, true}) {
      int64_t &bytes = groups[{receives ? m.destination : m.source, receives}];
      bytes += alignSlot(m.bytes);
      if (bytes > problem.stagingBytes / kSlotsPerLevel)
        return false;
    }
  }
  return true;
}

} // namespace

std::optional<std::vector<ScheduledMove>>
dt::joinWaves(const WaveProblem &problem,
              const std::vector<ScheduledMove> &scheduled) {
  const Cluster &cluster = problem.cluster;
  if (cluster.messagesPerPort(false) == 1 && cluster.messagesPerPort(true) == 1)
    return std::nullopt;
  Joiner joiner(cluster, scheduled);
  forEachMessage(scheduled,
                 [&](size_t first, size_t last) { joiner.place(first, last); });
  std::vector<ScheduledMove> joined = joiner.take();
  sortByMessage(joined);
  if (!fitStaging(problem, joined))
    return std::nullopt;
  return joined;
}
