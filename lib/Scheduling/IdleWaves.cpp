//===- IdleWaves.cpp - What goes beside messages that stay ----------------===//

#include "IdleWaves.h"

#include <algorithm>
#include <map>

using namespace dt;

namespace {

constexpr int32_t kUnmatched = -1;
/// A message that is shorter than its wave by this factor is as good.
constexpr double kFull = 63.0 / 64;

/// One way of a port.
struct IdlePort {
  WaveRoom::Users::Need need = {};
  double work = 0;              // seconds that its pairs have left
  double idle = 0;              // that it has, from this wave on
  std::vector<uint32_t> able;   // pairs that can meet in this wave
  int32_t matched = kUnmatched; // one of these
  bool isServed = false;        // has come first, and stays matched
  uint32_t visited = 0;

  double lacks() const { return work - idle; }
};

/// A pair, and its ports.
struct IdleEdge {
  WaveRoom::Users users;
  uint32_t ends[2] = {0, 0}; // sends, receives
  double bytesPerSecond = 1;
  int64_t left = 0, most = 0; // bytes, and of a message
  int64_t ready = 0;          // in this wave
  bool fills = false;         // what is ready fills the wave
};

class IdleFiller {
public:
  IdleFiller(const IdleWaves &waves, const Cluster &cluster,
             const std::vector<WaitingPair> &waiting, IdlePairs &pairs,
             WaveRoom &taken);

  void run();

private:
  uint32_t numberOf(const WaveRoom::Users::Need &need);
  void beginWave(int32_t wave);
  int64_t roomOf(const IdleEdge &edge, int32_t wave) const;
  void findAble(int32_t wave);
  uint32_t otherEnd(uint32_t edge, uint32_t port) const {
    return edges[edge].ends[edges[edge].ends[0] == port];
  }
  void match(uint32_t edge);
  bool cover(uint32_t port);
  void coverInPart(uint32_t port);
  void matchAll();
  bool sendMatched(int32_t wave);

  const std::vector<double> &seconds;
  const double waveSeconds; // that a wave costs beside its bytes
  IdlePairs &pairs;
  WaveRoom &taken;
  std::vector<IdleEdge> edges;
  std::vector<IdlePort> ports;
  std::map<const std::vector<uint8_t> *, uint32_t> numbers;
  bool takesSeveral = false; // messages of a port and wave
  uint32_t stamp = 0;
};

IdleFiller::IdleFiller(const IdleWaves &waves, const Cluster &cluster,
                       const std::vector<WaitingPair> &waiting,
                       IdlePairs &pairs, WaveRoom &taken)
    : seconds(waves.seconds), waveSeconds(cluster.waveSeconds()), pairs(pairs),
      taken(taken) {
  for (const WaitingPair &each : waiting) {
    auto [from, to] = each.pair;
    IdleEdge edge = {taken.usersOf(each.pair)};
    edge.bytesPerSecond = cluster.bytesPerSecond(from, to);
    edge.left = each.bytes;
    edge.most = waves.largest[!cluster.sameNode(from, to)];
    for (size_t end : {0, 1}) { // the first two of what it needs
      edge.ends[end] = numberOf(edge.users.needs[end]);
      ports[edge.ends[end]].work += double(edge.left) / edge.bytesPerSecond;
    }
    edges.push_back(std::move(edge));
  }
  for (IdlePort &port : ports)
    for (size_t wave = 0; wave < seconds.size(); ++wave)
      if (WaveRoom::hasRoom(port.need, int32_t(wave)))
        port.idle += seconds[wave];
}

uint32_t IdleFiller::numberOf(const WaveRoom::Users::Need &need) {
  auto [number, isNew] = numbers.try_emplace(need.counts, ports.size());
  if (isNew) {
    ports.emplace_back();
    ports.back().need = need;
    takesSeveral |= need.most > 1;
  }
  return number->second;
}

/// `idle` of a port is what the waves behind this one have for it.
void IdleFiller::beginWave(int32_t wave) {
  for (IdlePort &port : ports)
    if (WaveRoom::hasRoom(port.need, wave))
      port.idle -= seconds[size_t(wave)];
}

/// To the nearest byte: seconds are rounded.
int64_t IdleFiller::roomOf(const IdleEdge &edge, int32_t wave) const {
  double bytes = seconds[size_t(wave)] * edge.bytesPerSecond;
  return std::min(edge.most, int64_t(bytes + 0.5));
}

/// A message costs a latency: not for a few bytes of many.
void IdleFiller::findAble(int32_t wave) {
  for (IdlePort &port : ports) {
    port.able.clear();
    port.matched = kUnmatched;
    port.isServed = false;
  }
  for (uint32_t i = 0; i < edges.size(); ++i) {
    IdleEdge &edge = edges[i];
    if (edge.left <= 0 || !taken.hasRoom(edge.users, wave))
      continue;
    int64_t room = roomOf(edge, wave);
    auto least = int64_t(waveSeconds * edge.bytesPerSecond);
    edge.ready = pairs.ready(i, wave);
    if (edge.ready <= 0 || room < std::min(edge.ready, least))
      continue;
    edge.fills = double(edge.ready) >= kFull * double(room);
    for (uint32_t end : edge.ends)
      ports[end].able.push_back(i);
  }
}

void IdleFiller::match(uint32_t edge) {
  for (uint32_t end : edges[edge].ends)
    ports[end].matched = int32_t(edge);
}

/// Finds a partner for a port that has none: a free one, or one whose mate
/// finds another or has not come first.
bool IdleFiller::cover(uint32_t port) {
  ports[port].visited = stamp;
  for (uint32_t edge : ports[port].able)
    if (edges[edge].fills &&
        ports[otherEnd(edge, port)].matched == kUnmatched) {
      match(edge);
      return true;
    }
  for (uint32_t edge : ports[port].able) {
    if (!edges[edge].fills)
      continue;
    uint32_t other = otherEnd(edge, port);
    if (ports[other].visited == stamp)
      continue;
    ports[other].visited = stamp;
    uint32_t mate = otherEnd(uint32_t(ports[other].matched), other);
    if (ports[mate].visited == stamp)
      continue;
    if (ports[mate].isServed && !cover(mate))
      continue;
    if (!ports[mate].isServed)
      ports[mate].matched = kUnmatched;
    match(edge);
    return true;
  }
  return false;
}

/// What is left of a pair does not fill the wave: better than nothing.
void IdleFiller::coverInPart(uint32_t port) {
  const IdleEdge *best = nullptr;
  uint32_t most = 0;
  for (uint32_t edge : ports[port].able) {
    if (ports[otherEnd(edge, port)].matched != kUnmatched ||
        (best && edges[edge].ready <= best->ready))
      continue;
    best = &edges[edge];
    most = edge;
  }
  if (best)
    match(most);
}

/// Who lacks most comes first, and chooses who lacks most.
void IdleFiller::matchAll() {
  std::vector<uint32_t> order;
  for (uint32_t port = 0; port < ports.size(); ++port)
    if (!ports[port].able.empty())
      order.push_back(port);
  auto lacksMore = [&](uint32_t a, uint32_t b) {
    return std::make_pair(-ports[a].lacks(), a) <
           std::make_pair(-ports[b].lacks(), b);
  };
  std::sort(order.begin(), order.end(), lacksMore);
  for (uint32_t port : order)
    std::stable_sort(ports[port].able.begin(), ports[port].able.end(),
                     [&](uint32_t a, uint32_t b) {
                       return ports[otherEnd(a, port)].lacks() >
                              ports[otherEnd(b, port)].lacks();
                     });
  for (uint32_t port : order) {
    ++stamp;
    if (ports[port].matched != kUnmatched || cover(port))
      ports[port].isServed = true;
  }
  for (uint32_t port : order)
    if (ports[port].matched == kUnmatched)
      coverInPart(port);
}

bool IdleFiller::sendMatched(int32_t wave) {
  bool hasSent = false;
  for (uint32_t i = 0; i < edges.size(); ++i) {
    IdleEdge &edge = edges[i];
    if (ports[edge.ends[0]].matched != int32_t(i) ||
        !taken.hasRoom(edge.users, wave))
      continue;
    int64_t sent = pairs.send(i, roomOf(edge, wave), wave);
    if (sent <= 0)
      continue;
    hasSent = true;
    taken.take(edge.users, wave);
    edge.left -= sent;
    for (uint32_t end : edge.ends)
      ports[end].work -= double(sent) / edge.bytesPerSecond;
  }
  return hasSent;
}

void IdleFiller::run() {
  for (int32_t wave = 0; size_t(wave) < seconds.size(); ++wave) {
    beginWave(wave);
    do {
      findAble(wave);
      matchAll();
    } while (sendMatched(wave) && takesSeveral);
  }
}

} // namespace

void dt::fillIdleWaves(const IdleWaves &waves, const Cluster &cluster,
                       const std::vector<WaitingPair> &waiting,
                       IdlePairs &pairs, WaveRoom &taken) {
  IdleFiller(waves, cluster, waiting, pairs, taken).run();
}
