//===- Schedule.cpp - Moves into contention-free waves --------------------===//
//
// Each ordered pair of devices has a queue of boxes that are at its sender, and
// knows how many bytes are still to come there. Wave by wave:
//
//   1. the matching says which pairs meet and for how long (Matching.h): all
//      ports that have no time to lose, the busiest first;
//   2. each of these pairs fills one message with boxes of its queue, and cuts
//      the last one where the message is full;
//   3. what has arrived goes into the queues of those that forward it, by parts
//      where boxes are the same, else as a whole. Where forwards are held, that
//      is after the next wave, unless that would be empty.
//
// On threads, pairs fill their messages beside each other, and what a wave has
// is put into its order beside the next matching: the answer is the same.
//
// Queues have first what others wait for: the longest chain of forwards.
//
// test/Problems/waves-unequal.json, in messages of an element: 0 sends 1 two
// elements and 2 three, 1 sends 2 two. No wave leaves the busiest ports out, so
// that five waves do for five elements; had 0 and 1 begun with each other's
// receivers, port 2 would have been left with more than there were waves for.
//
//            sent             left
//   wave     0->1 0->2 1->2   0 out  1 in  1 out  2 in
//                             5      2     2      5
//   0        -    1    -      4      2     2      4
//   1        -    1    -      3      2     2      3
//   2        1    -    1      2      1     1      2
//   3        1    -    1      1      0     0      1
//   4        -    1    -      0      0     0      0
//
// test/Problems/waves-forward.json: 0 sends 1 the elements 0, 1 and 2, and 1
// sends 2 the elements 3 and 2, which comes to it first since it goes on. Held,
// it does so a wave later: then 1 has unpacked and packed it beside wave 1.
//
//   wave     0->1  1->2        1->2, held
//   0        2     3           3
//   1        0     2           -
//   2        1     -           2
//
//===----------------------------------------------------------------------===//

#include "dt/Scheduling/Schedule.h"

#include "CutPrefix.h"
#include "Feeds.h"
#include "Matching.h"
#include "dt/Geometry/Limits.h"
#include "dtrt/types/DeviceIndex.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>

using namespace dt;

namespace {

/// A move with what of its box is still to be sent.
struct Waiting {
  uint32_t move = 0;
  Box box;
};

/// A queue in one vector: edges are many, and most are short.
class WaitingQueue {
public:
  bool empty() const { return head == items.size(); }
  const Waiting &front() const { return items[head]; }
  void popFront() {
    if (++head < items.size())
      return;
    items.clear();
    head = 0;
  }
  void pushFront(const Waiting &item) {
    if (head > 0)
      items[--head] = item;
    else
      items.insert(items.begin(), item);
  }
  /// Behind the last item for which `isBefore` holds.
  template <typename Predicate>
  void insert(const Waiting &item, Predicate isBefore) {
    auto place = items.end();
    while (place != items.begin() + head && !isBefore(*std::prev(place)))
      --place;
    items.insert(place, item);
  }

private:
  std::vector<Waiting> items; // those before `head` are gone
  size_t head = 0;
};

/// Where all messages count as 1: what a wave costs beside them, and what a
/// message counts for while some of it has not come to its sender.
constexpr double kWholeLatency = 1.0 / 16, kPartOfWhole = 0.25;

/// All traffic of one ordered pair of devices.
struct Edge {
  int64_t source = 0, destination = 0;
  WaitingQueue ready;
  int64_t readyBytes = 0;
  int64_t leftBytes = 0; // ready or still to arrive at the sender
  int64_t largest = 0;   // bytes of a message, at most
  double bytesPerSecond = 1;
};

/// Messages, or pieces, that are worth another thread's wake.
constexpr size_t kAtOnce = 256;

/// What a message has of a move.
struct Sent {
  uint32_t move = 0;
  Box box;
};

/// The messages of some pairs that meet in one wave, one after the other.
using SentParts = std::vector<std::vector<Sent>>;

class Scheduler {
public:
  Scheduler(const WaveProblem &problem, ChunkBytes chunks,
            const ParallelFor &parallel, std::vector<ScheduledMove> &scheduled)
      : moves(problem.moves), elementBytes(problem.elementBytes),
        cluster(problem.cluster), chunks(chunks), isWhole(chunks.isWhole),
        hasShortEnds(chunks.hasShortEnds), holdsForwards(chunks.holdsForwards),
        parallel(parallel), scheduled(scheduled) {}

  /// False when there are more messages than the limit, or more pieces.
  bool run(int64_t mostPieces);

private:
  bool sendAll(int64_t mostPieces);
  int64_t width(uint32_t move) const { return elementBytes[moves[move].flow]; }
  void index();
  void shortenEnds();
  int64_t roomForPieces() const;
  void countForwards();
  void makeReady(uint32_t move, const Box &box);
  void update(uint32_t edge);
  int64_t fill(Edge &edge, int64_t room, std::vector<Sent> &out) const;
  int64_t send(const Meeting &meeting, std::vector<Sent> &out);
  SentParts sendWave(const std::vector<Meeting> &meetings);
  void putInOrder(const SentParts &wave, int32_t number);
  void releaseForwards(const SentParts &wave);

  const std::vector<Move> &moves;
  const std::vector<int64_t> &elementBytes;
  const Cluster &cluster;
  const ChunkBytes chunks;
  const bool isWhole; // every message counts alike, none is cut
  const bool hasShortEnds;
  const bool holdsForwards;
  const ParallelFor &parallel;
  std::vector<ScheduledMove> &scheduled; // but for the last wave's

  std::vector<Edge> edges;
  std::unique_ptr<Matching> matching; // a pair per edge
  std::vector<uint32_t> edgeOf;       // per move
  /// Per move: forwards of its box (or of a part of it) and, per forward, how
  /// many of its elements have arrived. A forward goes out when all have.
  std::vector<std::vector<uint32_t>> feeds;
  std::vector<int64_t> missing; // elements not yet at the sender
  /// Per move: the longest chain of forwards that wait for it.
  std::vector<uint32_t> chain;
  int64_t left = 0;     // bytes not yet sent
  int64_t messages = 0; // so far
  int64_t pieces = 0;   // of these
};

void Scheduler::index() {
  dtrt::DeviceIndex known, dense; // in order of appearance; ascending
  for (const Move &move : moves)
    for (bool inter : {false, true}) {
      known(cluster.port(move.source, inter));
      known(cluster.port(move.destination, inter));
    }
  std::vector<int64_t> devices = known.all();
  std::sort(devices.begin(), devices.end());
  for (int64_t device : devices)
    dense(device);
  matching = std::make_unique<Matching>(
      4 * dense.size(), isWhole ? kWholeLatency : cluster.waveSeconds());
  std::unordered_map<uint64_t, uint32_t> edgesOf;
  edgesOf.reserve(moves.size() / 4);
  edgeOf.resize(moves.size());
  for (uint32_t i = 0; i < moves.size(); ++i) {
    const Move &move = moves[i];
    uint32_t s = dense(move.source), d = dense(move.destination);
    auto [it, isNew] = edgesOf.try_emplace(uint64_t(s) << 32 | d, edges.size());
    if (isNew) {
      edges.emplace_back();
      edges.back().source = move.source;
      edges.back().destination = move.destination;
    }
    edgeOf[i] = it->second;
    int64_t bytes = move.box.volume() * width(i);
    edges[it->second].leftBytes += bytes;
    left += bytes;
  }
  for (Edge &edge : edges) {
    bool inter = !cluster.sameNode(edge.source, edge.destination);
    edge.largest = largestMessage(edge.source, edge.destination, edge.leftBytes,
                                  chunks, cluster);
    edge.bytesPerSecond = cluster.bytesPerSecond(edge.source, edge.destination);
    uint32_t from = dense(cluster.port(edge.source, inter));
    uint32_t to = dense(cluster.port(edge.destination, inter));
    matching->add(sendPort(from, inter), sendPort(to, inter) + 1,
                  isWhole ? 1 : edge.largest / edge.bytesPerSecond);
  }
}

/// What is packed first and unpacked last has nothing beside it. The short
/// waves there last as long as the copies of the waves next to them.
void Scheduler::shortenEnds() {
  constexpr double kLeastLatencies = 10; // two of them are what it costs
  double copy = cluster.packSeconds(chunks.intra + chunks.inter);
  if (copy > kLeastLatencies * cluster.waveSeconds())
    matching->shortenEnds(copy);
}

/// Tells the matching what an edge has now.
void Scheduler::update(uint32_t index) {
  const Edge &edge = edges[index];
  Pair pair = (*matching)[index];
  pair.ready = edge.readyBytes / edge.bytesPerSecond;
  pair.left = edge.leftBytes / edge.bytesPerSecond;
  if (isWhole) {
    pair.left = edge.leftBytes > 0;
    pair.ready = edge.readyBytes == edge.leftBytes ? pair.left
                 : edge.readyBytes > 0             ? kPartOfWhole
                                                   : 0;
  }
  pair.chain = 0;
  if (!edge.ready.empty()) {
    pair.order = edge.ready.front().move;
    pair.chain = chain[edge.ready.front().move];
  }
  matching->set(index, pair);
}

/// Every forward is linked to the moves that bring its box to its sender.
void Scheduler::countForwards() {
  missing.assign(moves.size(), 0);
  chain.assign(moves.size(), 0);
  for (uint32_t i = 0; i < moves.size(); ++i)
    if (moves[i].hop > 0)
      missing[i] = moves[i].box.volume();
  for (uint32_t i = moves.size(); i-- > 0;)
    for (uint32_t forward : feeds[i])
      chain[i] = std::max(chain[i], chain[forward] + 1);
}

void Scheduler::makeReady(uint32_t move, const Box &box) {
  Edge &edge = edges[edgeOf[move]];
  // What others wait for goes first.
  edge.ready.insert({move, box}, [&](const Waiting &other) {
    return chain[other.move] >= chain[move];
  });
  edge.readyBytes += box.volume() * width(move);
}

/// Fills one message of an edge, of at most `room` bytes (or one element);
/// returns its bytes.
int64_t Scheduler::fill(Edge &edge, int64_t room,
                        std::vector<Sent> &out) const {
  room = std::max(room, width(edge.ready.front().move));
  const int64_t small = room / kEmptyFraction;
  int64_t sent = 0;
  while (!edge.ready.empty()) {
    auto [index, box] = edge.ready.front();
    int64_t bytes = box.volume() * width(index);
    if (bytes <= room) {
      edge.ready.popFront();
      out.push_back({index, box});
    } else {
      Box prefix;
      std::vector<Box> between;
      bool cutSlices = sent == 0 || room > small;
      if (!takePrefix(box, room / width(index), cutSlices, prefix, between))
        break;
      edge.ready.popFront();
      if (!box.empty())
        edge.ready.pushFront({index, box});
      for (auto it = between.rbegin(); it != between.rend(); ++it)
        edge.ready.pushFront({index, *it});
      bytes = prefix.volume() * width(index);
      out.push_back({index, prefix});
    }
    sent += bytes;
    room -= bytes;
    if (room <= small)
      break;
  }
  return sent;
}

/// Touches nothing but the pair's own edge; returns the bytes of the message.
int64_t Scheduler::send(const Meeting &meeting, std::vector<Sent> &out) {
  Edge &edge = edges[meeting.pair];
  // To the nearest byte: seconds are rounded.
  int64_t room = edge.largest;
  if (!isWhole)
    room = std::min(room, int64_t(meeting.seconds * edge.bytesPerSecond + 0.5));
  int64_t sent = fill(edge, room, out);
  edge.readyBytes -= sent;
  edge.leftBytes -= sent;
  return sent;
}

/// A pair meets once in a wave.
SentParts Scheduler::sendWave(const std::vector<Meeting> &meetings) {
  SentParts parts((meetings.size() + kAtOnce - 1) / kAtOnce);
  std::vector<int64_t> sent(parts.size());
  parallel(parts.size(), [&](size_t i) {
    size_t last = std::min(meetings.size(), (i + 1) * kAtOnce);
    for (size_t m = i * kAtOnce; m < last; ++m)
      sent[i] += send(meetings[m], parts[i]);
  });
  for (const Meeting &meeting : meetings)
    update(meeting.pair);
  for (size_t i = 0; i < parts.size(); ++i) {
    left -= sent[i];
    pieces += parts[i].size();
  }
  messages += meetings.size();
  return parts;
}

/// By sender and receiver: a pair's pieces stand together.
void Scheduler::putInOrder(const SentParts &wave, int32_t number) {
  struct Message {
    int64_t source, destination;
    const Sent *first, *last;
    bool operator<(const Message &other) const {
      return std::tie(source, destination) <
             std::tie(other.source, other.destination);
    }
  };
  std::vector<Message> order;
  for (const std::vector<Sent> &part : wave) {
    const Sent *end = part.data() + part.size();
    for (const Sent *first = part.data(), *last = first; first != end;
         first = last) {
      uint32_t edge = edgeOf[first->move];
      while (last != end && edgeOf[last->move] == edge)
        ++last;
      order.push_back(
          {edges[edge].source, edges[edge].destination, first, last});
    }
  }
  std::sort(order.begin(), order.end());
  for (const Message &message : order)
    for (const Sent *each = message.first; each != message.last; ++each) {
      const Move &move = moves[each->move];
      scheduled.push_back(
          {{move.flow, move.hop, move.source, move.destination, each->box},
           number});
    }
}

/// What arrived with these pieces may be forwarded from the next wave on. Parts
/// of a move are forwarded as they come when the forward's box is the same.
void Scheduler::releaseForwards(const SentParts &wave) {
  for (const std::vector<Sent> &part : wave)
    for (const auto &[move, arrived] : part)
      for (uint32_t forward : feeds[move]) {
        if (moves[forward].box == moves[move].box) {
          makeReady(forward, arrived);
          update(edgeOf[forward]);
          continue;
        }
        int64_t came = intersect(moves[forward].box, arrived).volume();
        missing[forward] -= came;
        if (came == 0 || missing[forward] > 0)
          continue;
        makeReady(forward, moves[forward].box);
        update(edgeOf[forward]);
      }
}

/// A message cuts a box in some parts, mostly in fewer than this. Memory that
/// is never written costs nothing; to move pieces to a larger one does.
int64_t Scheduler::roomForPieces() const {
  constexpr int64_t kParts = 4;
  auto room = int64_t(moves.size());
  for (const Edge &edge : edges)
    room += kParts * (edge.leftBytes / std::max<int64_t>(edge.largest, 1));
  return room;
}

bool Scheduler::run(int64_t mostPieces) {
  parallel(
      2, [&](size_t i) { i == 0 ? index() : void(feeds = findFeeds(moves)); });
  scheduled.reserve(std::min(roomForPieces(), mostPieces));
  if (hasShortEnds)
    shortenEnds();
  if (chunks.endsSoon)
    matching->endSoon();
  countForwards();
  std::vector<uint32_t> first;
  for (uint32_t i = 0; i < moves.size(); ++i)
    if (missing[i] == 0)
      first.push_back(i);
  std::stable_sort(first.begin(), first.end(),
                   [&](uint32_t a, uint32_t b) { return chain[a] > chain[b]; });
  for (uint32_t move : first)
    makeReady(move, moves[move].box);
  for (uint32_t edge = 0; edge < edges.size(); ++edge)
    update(edge);
  return sendAll(mostPieces);
}

/// Invariant: what is left of each move is in the queue of its pair when its
/// sender has it; what the waves before the last brought to a sender is in its
/// queues, and what the last one did too, if forwards are not held.
bool Scheduler::sendAll(int64_t mostPieces) {
  SentParts last; // what wave - 1 sent
  int64_t lastPieces = 0;
  int32_t wave = 0;
  for (; left > 0; ++wave) {
    std::vector<Meeting> meetings;
    auto chooseOrPutInOrder = [&](size_t i) {
      if (i == 0)
        meetings = matching->choose();
      else
        putInOrder(last, wave - 1);
    };
    lastPieces < int64_t(kAtOnce) ? serialFor(2, chooseOrPutInOrder)
                                  : parallel(2, chooseOrPutInOrder);
    const int64_t before = pieces;
    SentParts sent = sendWave(meetings);
    bool isHeld = holdsForwards && !last.empty();
    if (pieces == before && isHeld) {
      releaseForwards(last);
      isHeld = false;
      sent = sendWave(matching->choose());
    }
    if (isHeld)
      releaseForwards(last);
    if (!holdsForwards)
      releaseForwards(sent);
    last = std::move(sent);
    lastPieces = pieces - before;
    if (lastPieces == 0)
      break; // a forward without a feeder: no sound problem has one
    if (messages > kMaxMessages || pieces > mostPieces)
      return false;
  }
  putInOrder(last, wave - 1);
  return true;
}

} // namespace

std::vector<ScheduledMove> dt::schedule(const WaveProblem &problem,
                                        ChunkBytes chunks, int64_t mostPieces,
                                        const ParallelFor &parallel) {
  std::vector<ScheduledMove> scheduled;
  if (!Scheduler(problem, chunks, parallel, scheduled).run(mostPieces))
    scheduled.clear();
  return scheduled;
}

std::optional<std::string> dt::scheduleGreedily(const WaveProblem &problem,
                                                const WaveOptions &,
                                                WaveSchedule &out) {
  if (auto error = refuseStorage(problem))
    return error;
  std::vector<ChunkBytes> candidates = candidateChunks(problem);
  if (candidates.empty())
    return refuseChunks(problem);
  ChunkBytes chunks = candidates.front();
  chunks.holdsForwards = !chunks.isWhole;
  out.moves = schedule(problem, chunks);
  if (out.moves.empty() && !problem.moves.empty())
    return refuseMessages();
  putCopiesFirst(problem, out);
  return std::nullopt;
}
