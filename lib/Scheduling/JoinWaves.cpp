//===- JoinWaves.cpp - Fewer waves of more messages -----------------------===//

#include "dt/Scheduling/JoinWaves.h"

#include "WavePorts.h"
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

/// Puts message after message into waves. Invariant: what it has put there
/// keeps the rules of WaveProblem, whatever comes later.
class Joiner {
public:
  explicit Joiner(const WaveProblem &problem) : cluster(problem.cluster) {
    for (const Move &move : problem.moves)
      if (move.hop > 0)
        brought[{move.flow, move.source}];
  }

  int32_t place(const ScheduledMove *first, const ScheduledMove *last);

private:
  int32_t afterFeeders(const ScheduledMove *first,
                       const ScheduledMove *last) const;

  const Cluster &cluster;
  Room ports;
  std::map<std::pair<int64_t, int64_t>, int32_t> lastOf; // pair
  /// What comes to where it is forwarded from: box, and the wave after it.
  std::map<std::pair<uint32_t, int64_t>, std::vector<std::pair<Box, int32_t>>>
      brought;
};

/// The first wave in which all of a message is at its sender.
int32_t Joiner::afterFeeders(const ScheduledMove *first,
                             const ScheduledMove *last) const {
  int32_t wave = 0;
  for (const ScheduledMove *piece = first; piece != last; ++piece) {
    if (piece->move.hop == 0)
      continue;
    for (const auto &[box, after] :
         brought.at({piece->move.flow, piece->move.source}))
      if (after > wave && overlaps(box, piece->move.box))
        wave = after;
  }
  return wave;
}

int32_t Joiner::place(const ScheduledMove *first, const ScheduledMove *last) {
  const int64_t from = first->move.source, to = first->move.destination;
  const auto used = portsOf(cluster, from, to);
  int32_t &next = lastOf[{from, to}];
  int32_t wave = std::max(next, afterFeeders(first, last));
  for (const WavePort &port : used)
    wave = std::max(wave, ports.first(port));
  auto isFull = [&](const WavePort &port) { return !ports.has(port, wave); };
  while (std::any_of(used.begin(), used.end(), isFull))
    ++wave;
  for (const WavePort &port : used)
    ports.take(port, wave);
  next = wave + 1;
  for (const ScheduledMove *piece = first; piece != last; ++piece)
    if (auto at = brought.find({piece->move.flow, to}); at != brought.end())
      at->second.emplace_back(piece->move.box, wave + 1);
  return wave;
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
  std::vector<ScheduledMove> joined = scheduled;
  Joiner joiner(problem);
  forEachMessage(scheduled, [&](size_t first, size_t last) {
    int32_t wave =
        joiner.place(scheduled.data() + first, scheduled.data() + last);
    for (size_t i = first; i < last; ++i)
      joined[i].wave = wave;
  });
  sortByMessage(joined);
  if (!fitStaging(problem, joined))
    return std::nullopt;
  return joined;
}
