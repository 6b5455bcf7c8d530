//===- Schedule.cpp - Moves into contention-free waves --------------------===//

#include "dt/Routing/Schedule.h"

#include "BoxPrefix.h"
#include "dt/Routing/MemoryWindow.h"

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>

using namespace dt;

namespace {

/// Space in a message below this fraction of a chunk is left empty rather than
/// filled by cutting a slice of a box in two.
constexpr int64_t kFillFraction = 16;

/// All traffic of one ordered pair of devices.
struct Edge {
  uint32_t source, destination;               // dense device indices
  std::deque<std::pair<uint32_t, Box>> ready; // move, box still to send
  int64_t readyBytes = 0;
  int64_t leftBytes = 0; // ready or still to arrive at the sender
  double slowness = 1;   // rate of the level over that of the pair

  /// Port time, in bytes at the level's rate, rounded down.
  int64_t load(int64_t bytes) const { return int64_t(bytes * slowness); }
  /// The largest message: a slow pair sends less, so that the messages of a
  /// wave last alike.
  int64_t limit(int64_t chunk) const {
    constexpr int64_t kLeast = 4096; // no element is wider
    return slowness <= 1
               ? chunk
               : std::min(chunk, std::max(kLeast, int64_t(chunk / slowness)));
  }

  /// The messages of a pair are alike: what is left, over the fewest messages
  /// that hold it.
  int64_t evenMessage(int64_t chunk) const {
    chunk = limit(chunk);
    return leftBytes / ((leftBytes + chunk - 1) / chunk);
  }
  int64_t nextMessage(int64_t chunk) const {
    return std::min(readyBytes, evenMessage(chunk));
  }

  /// Worth a message: a good part of a chunk, or all that there will be. A
  /// forward that trickles in would fill waves with small messages.
  bool isReady(int64_t chunk) const {
    return readyBytes > 0 &&
           (2 * readyBytes >= limit(chunk) || readyBytes == leftBytes);
  }
};

/// One of the two levels: its edges and what its ports still have to carry.
struct Level {
  int64_t chunk = 0;
  /// Set when nothing is worth a message though bytes are left: a ring of
  /// forwards, each behind the next.
  bool takesTrickles = false;
  bool isReady(const Edge &edge) const {
    return edge.isReady(chunk) || (takesTrickles && edge.readyBytes > 0);
  }
  std::vector<Edge> edges;
  std::vector<std::vector<uint32_t>> edgesOf; // per port
  std::vector<int64_t> remaining;             // per port, bytes
  std::vector<int32_t> matched;               // per port: edge or -1
  std::vector<int64_t> largest;               // per port: longest ready message
  std::vector<uint32_t> visited;              // per port: search stamp
  uint32_t stamp = 0;
  int64_t busiest = 0; // most bytes that a port has left
};

/// Ports of dense device d: 2 d sends, 2 d + 1 receives.
class Scheduler {
public:
  Scheduler(const std::vector<Move> &moves, const std::vector<Flow> &flows,
            const Cluster &cluster, ChunkBytes chunks, MemoryWindow *window,
            std::vector<ScheduledMove> &scheduled)
      : moves(moves), flows(flows), cluster(cluster), window(window),
        scheduled(scheduled) {
    levels[0].chunk = chunks.intra;
    levels[1].chunk = chunks.inter;
  }

  bool check(int64_t &needed) const;
  void run();

private:
  int64_t width(uint32_t move) const {
    return flows[moves[move].flow].bytesPerElement;
  }
  void index();
  void findFeeders();
  void makeReady(uint32_t move, const Box &box);
  void admit(uint32_t move, const Box &box);
  void openWindow(int32_t next);
  void matchWave(Level &level);
  bool isEligible(const Level &level, const Edge &edge, uint32_t port) const;
  bool cover(Level &level, uint32_t port);
  bool augment(Level &level, uint32_t port);
  bool displace(Level &level, uint32_t port);
  void match(Level &level, uint32_t edge);
  void sendWave(Level &level, int32_t wave);
  int64_t fill(Level &level, Edge &edge, int32_t wave);
  void emit(uint32_t move, const Box &box, int32_t wave);
  void releaseForwards(size_t firstOfWave);

  const std::vector<Move> &moves;
  const std::vector<Flow> &flows;
  const Cluster &cluster;
  MemoryWindow *window;     // null: memory is no concern
  std::vector<bool> isOpen; // per move: whether the window admits it
  std::unordered_map<uint32_t, std::vector<Box>> held; // per move, until then
  std::vector<ScheduledMove> &scheduled;
  std::vector<uint32_t> moveOf; // per scheduled move

  Level levels[2];
  std::vector<uint32_t> edgeOf; // per move: edge in its level
  std::vector<uint8_t> levelOf; // per move
  /// Per move: forwards of its box (or of a part of it) and, per forward, how
  /// many of its elements have arrived. A forward goes out when all have.
  std::vector<std::vector<uint32_t>> feeds;
  std::vector<int64_t> missing; // elements not yet at the sender
  int64_t left = 0;             // bytes not yet sent
};

bool Scheduler::check(int64_t &needed) const {
  for (const Move &move : moves) {
    const Level &level =
        levels[!cluster.sameNode(move.source, move.destination)];
    int64_t bytes = flows[move.flow].bytesPerElement;
    if (bytes <= level.chunk)
      continue;
    needed = 2 * kSlotsPerLevel * alignSlot(bytes);
    return false;
  }
  return true;
}

void Scheduler::index() {
  std::map<int64_t, uint32_t> dense;
  for (const Move &move : moves)
    dense[move.source] = dense[move.destination] = 0;
  uint32_t count = 0;
  for (auto &[device, number] : dense)
    number = count++;
  for (Level &level : levels) {
    level.edgesOf.resize(2 * count);
    level.remaining.assign(2 * count, 0);
    level.visited.assign(2 * count, 0);
  }
  std::unordered_map<uint64_t, uint32_t> known[2];
  edgeOf.resize(moves.size());
  levelOf.resize(moves.size());
  for (uint32_t i = 0; i < moves.size(); ++i) {
    const Move &move = moves[i];
    bool inter = !cluster.sameNode(move.source, move.destination);
    Level &level = levels[inter];
    uint32_t s = dense[move.source], d = dense[move.destination];
    auto [it, isNew] =
        known[inter].try_emplace(uint64_t(s) << 32 | d, level.edges.size());
    if (isNew) {
      level.edgesOf[2 * s].push_back(it->second);
      level.edgesOf[2 * d + 1].push_back(it->second);
      double rate = cluster.bytesPerSecond(move.source, move.destination);
      level.edges.push_back(
          {s, d, {}, 0, 0, cluster.bytesPerSecond(inter) / rate});
    }
    edgeOf[i] = it->second;
    levelOf[i] = inter;
    int64_t bytes = move.box.volume() * width(i);
    level.edges[it->second].leftBytes += bytes;
    // Rounded up: a port is left with nothing only when all has gone.
    int64_t load = level.edges[it->second].load(bytes);
    load += level.edges[it->second].slowness != 1;
    level.remaining[2 * s] += load;
    level.remaining[2 * d + 1] += load;
    left += bytes;
  }
}

/// Links every forward to the moves that bring its box to its sender.
void Scheduler::findFeeders() {
  feeds.resize(moves.size());
  missing.assign(moves.size(), 0);
  // Arrivals per (flow, device), only where something is forwarded from.
  std::map<std::pair<uint32_t, int64_t>, std::vector<uint32_t>> arrivals;
  for (const Move &move : moves)
    if (move.hop > 0)
      arrivals[{move.flow, move.source}];
  if (arrivals.empty())
    return;
  std::map<std::pair<uint32_t, int64_t>, std::map<Box, uint32_t>> exact;
  for (uint32_t i = 0; i < moves.size(); ++i) {
    const Move &move = moves[i];
    if (move.hop > 0) {
      missing[i] = move.box.volume();
      auto key = std::make_pair(move.flow, move.source);
      auto same = exact[key].find(move.box);
      if (same != exact[key].end())
        feeds[same->second].push_back(i);
      else
        for (uint32_t other : arrivals[key])
          if (overlaps(moves[other].box, move.box))
            feeds[other].push_back(i);
    }
    auto it = arrivals.find({move.flow, move.destination});
    if (it == arrivals.end())
      continue;
    it->second.push_back(i);
    exact[it->first].emplace(move.box, i);
  }
}

void Scheduler::makeReady(uint32_t move, const Box &box) {
  Edge &edge = levels[levelOf[move]].edges[edgeOf[move]];
  edge.ready.push_back({move, box});
  edge.readyBytes += box.volume() * width(move);
}

/// What is at its sender waits until its receiver has room.
void Scheduler::admit(uint32_t move, const Box &box) {
  if (window && !isOpen[move])
    held[move].push_back(box);
  else
    makeReady(move, box);
}

void Scheduler::openWindow(int32_t next) {
  std::vector<uint32_t> opened;
  window->advance(next, opened);
  for (uint32_t move : opened) {
    isOpen[move] = true;
    auto boxes = held.find(move);
    if (boxes == held.end())
      continue;
    for (const Box &box : boxes->second)
      makeReady(move, box);
    held.erase(boxes);
  }
}

void Scheduler::match(Level &level, uint32_t edge) {
  level.matched[2 * level.edges[edge].source] = edge;
  level.matched[2 * level.edges[edge].destination + 1] = edge;
}

/// A port looks at its long messages first. Short ones are left for waves in
/// which both ends have nothing better, so that the messages of a wave last
/// about as long and nobody waits.
bool Scheduler::isEligible(const Level &level, const Edge &edge,
                           uint32_t port) const {
  return level.isReady(edge) &&
         2 * edge.load(edge.nextMessage(level.chunk)) >= level.largest[port];
}

/// Matches a port directly: to the free partner with the most left to carry;
/// among equals to the one whose next move comes first, so that all pairs of
/// a port advance together.
bool Scheduler::cover(Level &level, uint32_t port) {
  std::pair<int64_t, int64_t> best;
  int64_t bestEdge = -1;
  for (uint32_t e : level.edgesOf[port]) {
    const Edge &edge = level.edges[e];
    uint32_t partner = port % 2 ? 2 * edge.source : 2 * edge.destination + 1;
    if (level.matched[partner] >= 0 || !isEligible(level, edge, port))
      continue;
    std::pair<int64_t, int64_t> rating = {level.remaining[partner],
                                          -int64_t(edge.ready.front().first)};
    if (bestEdge >= 0 && rating <= best)
      continue;
    best = rating;
    bestEdge = e;
  }
  if (bestEdge < 0)
    return false;
  match(level, bestEdge);
  return true;
}

/// Alternating path from an unmatched port: takes a partner whose own mate can
/// be matched elsewhere. Every port that was matched stays matched.
bool Scheduler::augment(Level &level, uint32_t port) {
  if (cover(level, port))
    return true;
  level.visited[port] = level.stamp;
  for (uint32_t e : level.edgesOf[port]) {
    const Edge &edge = level.edges[e];
    if (!isEligible(level, edge, port))
      continue;
    uint32_t partner = port % 2 ? 2 * edge.source : 2 * edge.destination + 1;
    const Edge &taken = level.edges[level.matched[partner]];
    uint32_t mate = port % 2 ? 2 * taken.destination + 1 : 2 * taken.source;
    if (level.visited[mate] == level.stamp)
      continue;
    level.matched[mate] = -1;
    if (augment(level, mate)) {
      match(level, e);
      return true;
    }
    level.matched[mate] = level.matched[partner];
  }
  return false;
}

/// Takes the partner of a mate that has less left to carry: the mate, not the
/// partner, goes without.
bool Scheduler::displace(Level &level, uint32_t port) {
  for (uint32_t e : level.edgesOf[port]) {
    const Edge &edge = level.edges[e];
    if (!isEligible(level, edge, port))
      continue;
    uint32_t partner = port % 2 ? 2 * edge.source : 2 * edge.destination + 1;
    const Edge &taken = level.edges[level.matched[partner]];
    uint32_t mate = port % 2 ? 2 * taken.destination + 1 : 2 * taken.source;
    if (level.remaining[mate] >= level.remaining[port])
      continue;
    level.matched[mate] = -1;
    match(level, e);
    return true;
  }
  return false;
}

/// Builds the wave's matching, ports with the most left to carry first.
void Scheduler::matchWave(Level &level) {
  level.matched.assign(level.remaining.size(), -1);
  level.largest.assign(level.remaining.size(), 0);
  for (const Edge &edge : level.edges) {
    if (!level.isReady(edge))
      continue;
    int64_t bytes = edge.load(edge.nextMessage(level.chunk));
    for (uint32_t port : {2 * edge.source, 2 * edge.destination + 1})
      level.largest[port] = std::max(level.largest[port], bytes);
  }
  std::vector<uint32_t> ports;
  for (uint32_t port = 0; port < level.remaining.size(); ++port)
    if (level.remaining[port] > 0)
      ports.push_back(port);
  std::stable_sort(ports.begin(), ports.end(), [&](uint32_t a, uint32_t b) {
    return level.remaining[a] > level.remaining[b];
  });
  // Only ports that could become the bottleneck are worth a search: those that
  // have at most one message less to carry than the busiest one.
  level.busiest = ports.empty() ? 0 : level.remaining[ports.front()];
  ++level.stamp;
  for (uint32_t port : ports) {
    if (level.matched[port] >= 0 || cover(level, port))
      continue;
    if (level.remaining[port] + level.chunk < level.busiest)
      continue;
    // What a failed search has visited leads nowhere until a match changes.
    if (augment(level, port) || displace(level, port))
      ++level.stamp;
  }
}

void Scheduler::emit(uint32_t index, const Box &box, int32_t wave) {
  ScheduledMove out;
  out.move = moves[index];
  out.move.box = box;
  out.wave = wave;
  scheduled.push_back(out);
  moveOf.push_back(index);
}

/// Fills one message of an edge, up to a chunk; returns its bytes.
int64_t Scheduler::fill(Level &level, Edge &edge, int32_t wave) {
  // A little more than even, since boxes do not cut anywhere.
  int64_t even = edge.evenMessage(level.chunk);
  int64_t room =
      std::min(edge.limit(level.chunk),
               even + even / kFillFraction + width(edge.ready.front().first));
  int64_t sent = 0;
  while (!edge.ready.empty()) {
    auto [index, box] = edge.ready.front();
    int64_t bytes = box.volume() * width(index);
    if (bytes <= room) {
      edge.ready.pop_front();
      emit(index, box, wave);
    } else {
      Box prefix;
      std::vector<Box> between;
      bool cutSlices = sent == 0 || room >= level.chunk / kFillFraction;
      if (!takePrefix(box, room / width(index), cutSlices, prefix, between))
        break;
      edge.ready.pop_front();
      if (!box.empty())
        edge.ready.push_front({index, box});
      for (auto it = between.rbegin(); it != between.rend(); ++it)
        edge.ready.push_front({index, *it});
      bytes = prefix.volume() * width(index);
      emit(index, prefix, wave);
    }
    sent += bytes;
    room -= bytes;
    if (room < level.chunk / kFillFraction)
      break;
  }
  return sent;
}

void Scheduler::sendWave(Level &level, int32_t wave) {
  for (uint32_t port = 0; port < level.matched.size(); port += 2) {
    if (level.matched[port] < 0)
      continue;
    Edge &edge = level.edges[level.matched[port]];
    int64_t sent = fill(level, edge, wave);
    edge.readyBytes -= sent;
    edge.leftBytes -= sent;
    level.remaining[port] -= edge.load(sent);
    level.remaining[2 * edge.destination + 1] -= edge.load(sent);
    left -= sent;
  }
}

/// What arrived in this wave may be forwarded from the next one on. Parts of a
/// move are forwarded as they come when the forward's box is the same.
void Scheduler::releaseForwards(size_t firstOfWave) {
  for (size_t i = firstOfWave; i < scheduled.size(); ++i) {
    const Box arrived = scheduled[i].move.box;
    for (uint32_t forward : feeds[moveOf[i]]) {
      if (moves[forward].box == moves[moveOf[i]].box) {
        admit(forward, arrived);
        continue;
      }
      missing[forward] -= intersect(moves[forward].box, arrived).volume();
      if (missing[forward] == 0)
        admit(forward, moves[forward].box);
    }
  }
}

void Scheduler::run() {
  index();
  findFeeders();
  isOpen.assign(moves.size(), !window);
  for (uint32_t i = 0; i < moves.size(); ++i)
    if (missing[i] == 0)
      admit(i, moves[i].box);
  if (window)
    openWindow(/*next=*/0);
  for (int32_t wave = 0; left > 0; ++wave) {
    size_t first = scheduled.size();
    for (bool trickles : {false, true}) {
      if (scheduled.size() > first)
        break;
      for (Level &level : levels) {
        level.takesTrickles = trickles;
        matchWave(level);
        sendWave(level, wave);
      }
    }
    if (scheduled.size() == first)
      break; // a forward without a feeder: the caller's coverage check names it
    releaseForwards(first);
    if (!window)
      continue;
    for (size_t i = first; i < scheduled.size(); ++i)
      window->sent(moveOf[i], scheduled[i].move.box.volume());
    openWindow(wave + 1);
  }
  std::stable_sort(
      scheduled.begin(), scheduled.end(),
      [](const ScheduledMove &a, const ScheduledMove &b) {
        return std::make_tuple(a.wave, a.move.source, a.move.destination) <
               std::make_tuple(b.wave, b.move.source, b.move.destination);
      });
}

} // namespace

bool dt::schedule(const std::vector<Move> &moves,
                  const std::vector<Flow> &flows, const Cluster &cluster,
                  ChunkBytes chunks, std::vector<ScheduledMove> &scheduled,
                  int64_t &needed, MemoryWindow *window) {
  Scheduler scheduler(moves, flows, cluster, chunks, window, scheduled);
  if (!scheduler.check(needed))
    return false;
  scheduler.run();
  return true;
}
