//===- JoinWaves.cpp - Fewer waves of more messages -----------------------===//

#include "dt/Scheduling/JoinWaves.h"

#include "dt/Scheduling/ChunkSizes.h"
#include "dtrt/cost/KernelPlans.h"

#include <algorithm>
#include <tuple>

using namespace dt;

namespace {

/// Counts what users of one kind have in each wave.
template <typename User> class Room {
public:
  /// The first wave in which the user has fewer than `most`: none before it
  /// ever has again.
  int32_t first(User user, int64_t most) {
    Use &use = uses[user];
    while (countIn(use, use.open) >= most)
      ++use.open;
    return use.open;
  }
  bool has(User user, int32_t wave, int64_t most) {
    return countIn(uses[user], wave) < most;
  }
  void take(User user, int32_t wave) {
    std::vector<int64_t> &counts = uses[user].counts;
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
  std::map<User, Use> uses;
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
  enum class Way { Out, In, Rail };
  using Port = std::tuple<bool, Way, int64_t>; // between nodes, way, device
  int32_t afterFeeders(const ScheduledMove *first,
                       const ScheduledMove *last) const;

  const Cluster &cluster;
  Room<Port> ports;
  Room<int64_t> devices;
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
  bool inter = !cluster.sameNode(from, to);
  int64_t most = cluster.messagesPerPort(inter);
  constexpr int64_t kMost = dtrt::kMaxGroupMessages;
  // The last one is another than the sender's where the NIC by which a message
  // leaves depends on its receiver (Cluster::nicOut).
  const Port used[] = {
      {inter, Way::Out, cluster.sendPort(from, inter)},
      {inter, Way::In, cluster.port(to, inter)},
      {inter, Way::Rail, inter ? cluster.nicOut(from, to) : from}};
  int32_t &next = lastOf[{from, to}];
  int32_t wave =
      std::max({next, afterFeeders(first, last), devices.first(from, kMost),
                devices.first(to, kMost)});
  for (const Port &port : used)
    wave = std::max(wave, ports.first(port, most));
  auto hasRoom = [&] {
    return devices.has(from, wave, kMost) && devices.has(to, wave, kMost) &&
           std::all_of(std::begin(used), std::end(used), [&](const Port &port) {
             return ports.has(port, wave, most);
           });
  };
  while (!hasRoom())
    ++wave;
  for (const Port &port : used)
    ports.take(port, wave);
  devices.take(from, wave), devices.take(to, wave);
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
