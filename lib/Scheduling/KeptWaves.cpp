//===- KeptWaves.cpp - Messages that stay in their waves ------------------===//

#include "KeptWaves.h"

#include "CutPrefix.h"
#include "Feeds.h"
#include "WaveRoom.h"
#include "dt/Geometry/Overlaps.h"
#include "dt/Scheduling/BestSchedule.h"

#include <algorithm>
#include <map>
#include <set>

using namespace dt;

namespace {

constexpr int32_t kFree = -1;

using Pair = DevicePair;

/// Moves of a pair that wait for a place.
struct Queue {
  Pair pair;
  int64_t bytes = 0;
  int32_t notBefore = 0;
  std::vector<uint32_t> moves;
};

/// Pieces that keep their wave and pair: [first, last) in `order`.
struct KeptMessage {
  int32_t wave = 0;
  Pair pair;
  size_t first = 0, last = 0;
};

class KeptScheduler {
public:
  KeptScheduler(const WaveProblem &problem, const WaveOptions &options)
      : problem(problem), options(options), ports(problem.cluster) {}

  std::optional<std::string> run(KeptSchedule &kept);

private:
  int64_t width(uint32_t piece) const {
    return problem.elementBytes[pieces[piece].flow];
  }
  int64_t bytesOf(uint32_t piece) const {
    return pieces[piece].box.volume() * width(piece);
  }
  Pair pairOf(uint32_t piece) const {
    return {pieces[piece].source, pieces[piece].destination};
  }
  void cutByWaves();
  int32_t renumber();
  void takeAround();
  void formMessages();
  void freeConflicts();
  void findFeeders();
  bool isFed(uint32_t piece) const;
  void freeUnfed();
  void measureWaves(int32_t numWaves);
  void takeKept(KeptSchedule &kept);
  std::vector<Queue> queues() const;
  void fill(const Queue &queue);
  int64_t fillWave(const Queue &queue, size_t &next, int64_t room,
                   int32_t wave);
  WaveProblem problemOfRest() const;
  int64_t hopOf(const Move &part);
  std::optional<std::string> append();

  const WaveProblem &problem;
  const WaveOptions &options;
  /// The moves, those that the old plan has in parts as these, by hop; of each
  /// its wave or kFree, and of a free one what has no wave yet.
  std::vector<Move> pieces;
  std::vector<int32_t> waves;
  std::vector<std::vector<Box>> rest;
  std::vector<uint32_t> order; // of kept ones, by wave and pair
  std::vector<KeptMessage> messages;
  std::vector<std::vector<uint32_t>> feeds, feeders;
  std::vector<int32_t> firstWaves; // that what stays around allows
  WaveRoom ports;
  std::vector<double> seconds; // that a wave lasts
  int64_t largest[2] = {0, 0}; // bytes of a message that is kept, per level
  std::vector<ScheduledMove> out;
  /// Forwards that are left, by flow and pair.
  std::map<std::pair<uint32_t, Pair>, std::vector<uint32_t>> forwards;
};

/// Cuts moves into the parts that old ones carried, each with its wave, where
/// these are all of it.
void KeptScheduler::cutByWaves() {
  OldMoveIndex known(*options.old);
  for (const Move &move : problem.moves) {
    std::vector<OldMove> parts = known.partsOf(move);
    int64_t volume = 0;
    std::vector<Box> boxes;
    for (const OldMove &part : parts) {
      boxes.push_back(part.move.box);
      volume += boxes.back().volume();
    }
    if (volume != move.box.volume() || firstOverlap(boxes))
      parts = {{move, kFree}};
    for (const OldMove &part : parts) {
      pieces.push_back(part.move);
      waves.push_back(part.wave);
    }
  }
  rest.resize(pieces.size());
}

/// Waves without gaps; how many there are.
int32_t KeptScheduler::renumber() {
  std::map<int32_t, int32_t> numbers;
  for (int32_t wave : waves)
    if (wave != kFree)
      numbers[wave] = 0;
  int32_t next = 0;
  for (auto &[old, number] : numbers)
    number = next++;
  for (int32_t &wave : waves)
    if (wave != kFree)
      wave = numbers[wave];
  return next;
}

void KeptScheduler::formMessages() {
  for (uint32_t i = 0; i < pieces.size(); ++i)
    if (waves[i] != kFree)
      order.push_back(i);
  auto key = [&](uint32_t i) { return std::make_pair(waves[i], pairOf(i)); };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::make_pair(key(a), a) < std::make_pair(key(b), b);
  });
  for (size_t at = 0; at < order.size(); ++at) {
    auto [wave, pair] = key(order[at]);
    if (messages.empty() || messages.back().wave != wave ||
        messages.back().pair != pair)
      messages.push_back({wave, pair, at, at});
    messages.back().last = at + 1;
  }
}

/// Others have their ports first.
void KeptScheduler::takeAround() {
  if (!options.around)
    return;
  for (const TimedMessage &message : options.around->messages)
    ports.take(ports.usersOf({message.source, message.destination}),
               message.wave);
}

/// Frees messages that meet others at a port: devices have changed places.
void KeptScheduler::freeConflicts() {
  for (const KeptMessage &message : messages) {
    WaveRoom::Users users = ports.usersOf(message.pair);
    if (ports.hasRoom(users, message.wave)) {
      ports.take(users, message.wave);
      continue;
    }
    for (size_t at = message.first; at < message.last; ++at)
      waves[order[at]] = kFree;
  }
}

void KeptScheduler::findFeeders() {
  firstWaves.resize(pieces.size());
  if (options.around)
    for (uint32_t i = 0; i < pieces.size(); ++i)
      firstWaves[i] = options.around->firstWave(pieces[i]);
  feeds = findFeeds(pieces);
  feeders.resize(pieces.size());
  for (uint32_t i = 0; i < pieces.size(); ++i)
    for (uint32_t forward : feeds[i])
      feeders[forward].push_back(i);
}

bool KeptScheduler::isFed(uint32_t move) const {
  return waves[move] >= firstWaves[move] &&
         std::all_of(
             feeders[move].begin(), feeders[move].end(), [&](uint32_t feeder) {
               return waves[feeder] != kFree && waves[feeder] < waves[move];
             });
}

/// A forward keeps its wave only after all that feeds it. One that is free is
/// fed by kept moves alone or by free ones alone: who feeds it in part is freed
/// too, until that holds. The ports of what is freed stay taken.
void KeptScheduler::freeUnfed() {
  auto free = [&](uint32_t move, bool &changed) {
    changed |= waves[move] != kFree;
    waves[move] = kFree;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t i = 0; i < pieces.size(); ++i) { // by hop: feeders are known
      if (waves[i] != kFree && !isFed(i))
        free(i, changed);
      bool isPartly =
          waves[i] == kFree &&
          std::any_of(feeders[i].begin(), feeders[i].end(),
                      [&](uint32_t f) { return waves[f] == kFree; });
      if (isPartly)
        for (uint32_t feeder : feeders[i])
          free(feeder, changed);
    }
  }
}

/// How long waves last and how large their messages are.
void KeptScheduler::measureWaves(int32_t numWaves) {
  seconds.resize(size_t(numWaves));
  auto add = [&](int32_t wave, Pair pair, int64_t bytes) {
    auto [from, to] = pair;
    double &longest = seconds[size_t(wave)];
    longest = std::max(longest, double(bytes) /
                                    problem.cluster.bytesPerSecond(from, to));
    int64_t &most = largest[!problem.cluster.sameNode(from, to)];
    most = std::max(most, bytes);
  };
  for (const KeptMessage &message : messages) {
    int64_t bytes = 0;
    for (size_t at = message.first; at < message.last; ++at)
      if (waves[order[at]] != kFree)
        bytes += bytesOf(order[at]);
    add(message.wave, message.pair, bytes);
  }
  if (options.around)
    for (const TimedMessage &message : options.around->messages)
      add(message.wave, {message.source, message.destination}, message.bytes);
}

/// What has kept its wave, message by message; the rest is free.
void KeptScheduler::takeKept(KeptSchedule &kept) {
  for (uint32_t i : order)
    if (waves[i] != kFree) {
      out.push_back({pieces[i], waves[i]});
      kept.bytesInWave += bytesOf(i);
    }
  for (uint32_t i = 0; i < pieces.size(); ++i)
    if (waves[i] == kFree)
      rest[i].push_back(pieces[i].box);
}

/// Free moves that can go beside what is kept: they neither wait for a free
/// move nor does one wait for them. By pair, the longest first.
std::vector<Queue> KeptScheduler::queues() const {
  std::map<Pair, Queue> byPair;
  auto isFree = [&](uint32_t move) { return waves[move] == kFree; };
  for (uint32_t i = 0; i < pieces.size(); ++i) {
    if (!isFree(i) || std::any_of(feeds[i].begin(), feeds[i].end(), isFree) ||
        std::any_of(feeders[i].begin(), feeders[i].end(), isFree))
      continue;
    Queue &queue = byPair[pairOf(i)];
    queue.pair = pairOf(i);
    queue.bytes += bytesOf(i);
    queue.moves.push_back(i);
    queue.notBefore = std::max(queue.notBefore, firstWaves[i]);
    for (uint32_t feeder : feeders[i])
      queue.notBefore = std::max(queue.notBefore, waves[feeder] + 1);
  }
  std::vector<Queue> out;
  for (auto &[pair, queue] : byPair)
    out.push_back(std::move(queue));
  std::stable_sort(out.begin(), out.end(), [](const Queue &a, const Queue &b) {
    return a.bytes > b.bytes;
  });
  return out;
}

/// Puts what fits of a queue, from its move `next` on, into one message;
/// returns its bytes.
int64_t KeptScheduler::fillWave(const Queue &queue, size_t &next, int64_t room,
                                int32_t wave) {
  int64_t sent = 0;
  while (next < queue.moves.size()) {
    uint32_t i = queue.moves[next];
    if (rest[i].empty()) {
      ++next;
      continue;
    }
    Box box = rest[i].back(), prefix = box;
    std::vector<Box> between;
    bool isWhole = box.volume() * width(i) <= room - sent;
    if (!isWhole && !takePrefix(box, (room - sent) / width(i),
                                /*cutSlices=*/sent == 0, prefix, between))
      break;
    rest[i].pop_back();
    if (!isWhole && !box.empty())
      rest[i].push_back(box);
    rest[i].insert(rest[i].end(), between.rbegin(), between.rend());
    Move piece = pieces[i];
    piece.box = prefix;
    out.push_back({piece, wave});
    sent += prefix.volume() * width(i);
  }
  return sent;
}

void KeptScheduler::fill(const Queue &queue) {
  const Cluster &cluster = problem.cluster;
  auto [from, to] = queue.pair;
  double rate = cluster.bytesPerSecond(from, to);
  int64_t most = largest[!cluster.sameNode(from, to)], left = queue.bytes;
  WaveRoom::Users users = ports.usersOf(queue.pair);
  size_t next = 0;
  for (int32_t wave = queue.notBefore;
       left > 0 && size_t(wave) < seconds.size(); ++wave) {
    auto room = std::min(most, int64_t(seconds[size_t(wave)] * rate));
    // A message costs a latency: not for a few bytes of many.
    auto least = int64_t(cluster.waveSeconds() * rate);
    if (room < std::min(left, least) || !ports.hasRoom(users, wave))
      continue;
    int64_t sent = fillWave(queue, next, room, wave);
    if (sent > 0)
      ports.take(users, wave);
    left -= sent;
  }
}

/// What has no place yet, as a problem of its own. What kept waves feed is
/// there from its start: no forward any more.
WaveProblem KeptScheduler::problemOfRest() const {
  WaveProblem left;
  left.elementBytes = problem.elementBytes;
  left.cluster = problem.cluster;
  left.stagingBytes = problem.stagingBytes;
  left.stored = problem.stored;
  for (uint32_t i = 0; i < pieces.size(); ++i)
    for (const Box &box : rest[i]) {
      Move move = pieces[i];
      move.box = box;
      if (feeders[i].empty() || waves[feeders[i].front()] != kFree)
        move.hop = 0;
      left.moves.push_back(move);
    }
  std::stable_sort(left.moves.begin(), left.moves.end(),
                   [](const Move &a, const Move &b) { return a.hop < b.hop; });
  return left;
}

/// The hop of the piece that a part is cut from.
int64_t KeptScheduler::hopOf(const Move &part) {
  if (forwards.empty())
    for (uint32_t i = 0; i < pieces.size(); ++i)
      if (!rest[i].empty() && pieces[i].hop > 0)
        forwards[{pieces[i].flow, pairOf(i)}].push_back(i);
  auto found = forwards.find({part.flow, {part.source, part.destination}});
  if (found != forwards.end())
    for (uint32_t i : found->second)
      if (pieces[i].box.contains(part.box))
        return pieces[i].hop;
  return part.hop;
}

/// Schedules what is left behind all kept waves.
std::optional<std::string> KeptScheduler::append() {
  WaveProblem left = problemOfRest();
  if (left.moves.empty())
    return std::nullopt;
  WaveOptions plain = options;
  plain.old = nullptr;
  WaveSchedule found;
  if (auto error = scheduleBest(left, plain, found))
    return error;
  for (ScheduledMove &piece : found.moves) {
    piece.move.hop = uint32_t(hopOf(piece.move));
    piece.wave += int32_t(seconds.size());
    out.push_back(piece);
  }
  return std::nullopt;
}

std::optional<std::string> KeptScheduler::run(KeptSchedule &kept) {
  constexpr int32_t kMostWaves = 1 << 16;
  cutByWaves();
  int32_t numWaves = options.around ? options.around->numWaves : renumber();
  if ((numWaves == 0 && !options.around) || numWaves > kMostWaves)
    return "has nothing of the old plan, or too many of its waves";
  takeAround();
  formMessages();
  freeConflicts();
  findFeeders();
  freeUnfed();
  measureWaves(numWaves);
  takeKept(kept);
  for (const Queue &queue : queues())
    fill(queue);
  if (auto error = append())
    return error;
  sortByMessage(out);
  for (auto [device, bytes] : arenaBytes(problem.messages(out)))
    if (bytes > problem.stagingBytes)
      return refuseStaging(problem, bytes);
  kept.schedule.moves = std::move(out);
  putCopiesFirst(problem, kept.schedule);
  return std::nullopt;
}

} // namespace

std::optional<std::string> dt::scheduleKept(const WaveProblem &problem,
                                            const WaveOptions &options,
                                            KeptSchedule &kept) {
  if (auto error = refuseStorage(problem))
    return error;
  if (!options.old)
    return "has no old plan";
  return KeptScheduler(problem, options).run(kept);
}
