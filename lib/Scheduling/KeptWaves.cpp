//===- KeptWaves.cpp - Messages that stay in their waves ------------------===//

#include "KeptWaves.h"

#include "CutPrefix.h"
#include "Feeds.h"
#include "IdleWaves.h"
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

/// Free moves of a pair, those that are passed on first.
struct Queue {
  Pair pair;
  int64_t bytes = 0;             // of all
  std::vector<uint32_t> waiting; // for what feeds them, or for a wave
  std::vector<uint32_t> ready;
  int64_t readyBytes = 0;
};

/// Pieces that keep their wave and pair: [first, last) in `order`.
struct KeptMessage {
  int32_t wave = 0;
  Pair pair;
  size_t first = 0, last = 0;
};

class KeptScheduler : public IdlePairs {
public:
  KeptScheduler(const WaveProblem &problem, const WaveOptions &options)
      : problem(problem), options(options), ports(problem.cluster) {}

  std::optional<std::string> run(KeptSchedule &kept);
  int64_t ready(size_t pair, int32_t wave) override;
  int64_t send(size_t pair, int64_t room, int32_t wave) override;

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
  int64_t bytesOf(const KeptMessage &message) const;
  bool isFree(const KeptMessage &message) const;
  void freeAll(const KeptMessage &message);
  void measureWaves(int32_t numWaves);
  void takeKept(KeptSchedule &kept);
  void freeLastHops();
  void expectFeeders();
  void formQueues(size_t first);
  void fillIdle(size_t first);
  bool splitArrived(uint32_t forward);
  void sendOnArrived();
  int64_t sendPart(uint32_t move, int64_t room, bool cutSlices, int32_t wave);
  void addRest(uint32_t move, WaveProblem &left) const;
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
  int64_t largest[2] = {0, 0}; // bytes of a message, per level
  std::vector<ScheduledMove> out;
  std::vector<Queue> queues;
  /// Of a free move, the wave from which on it may go; what free ones feed may
  /// once all of these have come.
  std::vector<int32_t> readyFrom;
  std::vector<size_t> missing; // free feeders that have not come
  /// Of free moves: what has gone, and in which wave.
  std::vector<std::vector<std::pair<Box, int32_t>>> sent;
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

bool KeptScheduler::isFree(const KeptMessage &message) const {
  return std::all_of(order.begin() + long(message.first),
                     order.begin() + long(message.last),
                     [&](uint32_t piece) { return waves[piece] == kFree; });
}

/// Frees messages that meet others at a port: devices have changed places.
void KeptScheduler::freeConflicts() {
  for (const KeptMessage &message : messages) {
    if (isFree(message))
      continue;
    WaveRoom::Users users = ports.usersOf(message.pair);
    if (ports.hasRoom(users, message.wave)) {
      ports.take(users, message.wave);
      continue;
    }
    freeAll(message);
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

/// What nobody passes on goes anywhere, where all else around stays.
void KeptScheduler::freeLastHops() {
  if (!options.around || !options.around->isLoose)
    return;
  for (uint32_t i = 0; i < pieces.size(); ++i)
    if (feeds[i].empty() && !options.around->isPassedOn(pieces[i]))
      waves[i] = kFree;
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

int64_t KeptScheduler::bytesOf(const KeptMessage &message) const {
  int64_t bytes = 0;
  for (size_t at = message.first; at < message.last; ++at)
    bytes += bytesOf(order[at]);
  return bytes;
}

void KeptScheduler::freeAll(const KeptMessage &message) {
  for (size_t at = message.first; at < message.last; ++at)
    waves[order[at]] = kFree;
}

/// How long waves last, and how large messages are. What has gone inside a node
/// and does not any more may be longer than all that stays around: then it is
/// free, and is cut anew.
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
  if (options.around)
    for (const TimedMessage &message : options.around->messages)
      add(message.wave, {message.source, message.destination}, message.bytes);
  const int64_t most[2] = {largest[0], largest[1]};
  for (const KeptMessage &message : messages) {
    auto [from, to] = message.pair;
    int64_t longest = most[!problem.cluster.sameNode(from, to)];
    if (longest > 0 && bytesOf(message) > longest)
      freeAll(message);
    else
      add(message.wave, message.pair, bytesOf(message));
  }
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

/// What free moves wait for.
void KeptScheduler::expectFeeders() {
  readyFrom = firstWaves;
  missing.assign(pieces.size(), 0);
  sent.resize(pieces.size());
  for (uint32_t i = 0; i < pieces.size(); ++i)
    for (uint32_t feeder : feeders[i]) {
      missing[i] += waves[feeder] == kFree;
      readyFrom[i] = std::max(readyFrom[i], waves[feeder] + 1);
    }
}

/// Free moves from `first` on, by pair, what is passed on first.
void KeptScheduler::formQueues(size_t first) {
  std::map<Pair, Queue> byPair;
  for (bool isPassedOn : {true, false})
    for (auto i = uint32_t(first); i < pieces.size(); ++i) {
      if (waves[i] != kFree || feeds[i].empty() == isPassedOn)
        continue;
      Queue &queue = byPair[pairOf(i)];
      queue.pair = pairOf(i);
      queue.bytes += bytesOf(i);
      queue.waiting.push_back(i);
    }
  queues.clear();
  for (auto &[pair, queue] : byPair)
    queues.push_back(std::move(queue));
}

int64_t KeptScheduler::ready(size_t pair, int32_t wave) {
  Queue &queue = queues[pair];
  auto isReady = [&](uint32_t move) {
    return missing[move] == 0 && readyFrom[move] <= wave;
  };
  auto rest =
      std::stable_partition(queue.waiting.begin(), queue.waiting.end(),
                            [&](uint32_t move) { return !isReady(move); });
  for (auto move = rest; move != queue.waiting.end(); ++move) {
    queue.ready.push_back(*move);
    queue.readyBytes += bytesOf(*move);
  }
  queue.waiting.erase(rest, queue.waiting.end());
  return queue.readyBytes;
}

/// Sends a prefix of what is left of a move; returns its bytes, 0 where nothing
/// fits.
int64_t KeptScheduler::sendPart(uint32_t move, int64_t room, bool cutSlices,
                                int32_t wave) {
  Box box = rest[move].back(), prefix = box;
  std::vector<Box> between;
  bool isWhole = box.volume() * width(move) <= room;
  if (!isWhole &&
      !takePrefix(box, room / width(move), cutSlices, prefix, between))
    return 0;
  rest[move].pop_back();
  if (!isWhole && !box.empty())
    rest[move].push_back(box);
  rest[move].insert(rest[move].end(), between.rbegin(), between.rend());
  Move piece = pieces[move];
  piece.box = prefix;
  out.push_back({piece, wave});
  sent[move].push_back({prefix, wave});
  return prefix.volume() * width(move);
}

int64_t KeptScheduler::send(size_t pair, int64_t room, int32_t wave) {
  Queue &queue = queues[pair];
  int64_t bytes = 0;
  size_t done = 0; // moves
  for (; done < queue.ready.size(); ++done) {
    uint32_t move = queue.ready[done];
    int64_t part = 1;
    while (part > 0 && !rest[move].empty()) {
      bool cutSlices = bytes == 0 || room - bytes > room / kEmptyFraction;
      part = sendPart(move, room - bytes, cutSlices, wave);
      bytes += part;
    }
    if (!rest[move].empty())
      break;
    for (uint32_t forward : feeds[move])
      if (waves[forward] == kFree) {
        --missing[forward];
        readyFrom[forward] = std::max(readyFrom[forward], wave + 1);
      }
  }
  queue.ready.erase(queue.ready.begin(), queue.ready.begin() + long(done));
  queue.readyBytes -= bytes;
  return bytes;
}

void KeptScheduler::fillIdle(size_t first) {
  formQueues(first);
  std::vector<WaitingPair> waiting;
  for (const Queue &queue : queues)
    waiting.push_back({queue.pair, queue.bytes});
  fillIdleWaves({seconds, {largest[0], largest[1]}}, problem.cluster, waiting,
                *this, ports);
}

/// Makes moves of their own of what a forward may send, though not all of it
/// has come. Whether there is any.
bool KeptScheduler::splitArrived(uint32_t forward) {
  std::vector<Box> left;
  size_t before = pieces.size();
  for (uint32_t feeder : feeders[forward]) {
    for (const Box &box : rest[feeder])
      if (overlaps(box, pieces[forward].box))
        left.push_back(intersect(box, pieces[forward].box));
    for (const auto &[box, wave] : sent[feeder]) {
      Move part = pieces[forward];
      part.box = intersect(box, part.box);
      if (part.box.volume() == 0)
        continue;
      pieces.push_back(part);
      rest.push_back({part.box});
      readyFrom.push_back(std::max(firstWaves[forward], wave + 1));
    }
  }
  if (pieces.size() == before)
    return false;
  rest[forward] = std::move(left);
  waves.resize(pieces.size(), kFree);
  missing.resize(pieces.size(), 0);
  feeds.resize(pieces.size());
  feeders.resize(pieces.size());
  sent.resize(pieces.size());
  return true;
}

/// Goes through the waves again with the parts that have come of forwards that
/// wait for others still. Forwards that others wait for stay whole, since who
/// they feed knows no parts.
void KeptScheduler::sendOnArrived() {
  size_t first = pieces.size();
  bool isSplit = false;
  for (uint32_t i = 0; i < first; ++i)
    if (waves[i] == kFree && missing[i] > 0 && feeds[i].empty())
      isSplit |= splitArrived(i);
  if (isSplit)
    fillIdle(first);
}

/// What is left of a move. Of a forward, what has come is no forward any more.
void KeptScheduler::addRest(uint32_t move, WaveProblem &left) const {
  auto add = [&](const Box &box, bool hasCome) {
    Move part = pieces[move];
    part.box = box;
    if (hasCome)
      part.hop = 0;
    if (box.volume() > 0)
      left.moves.push_back(part);
  };
  for (const Box &box : rest[move]) {
    if (missing[move] == 0) {
      add(box, /*hasCome=*/true);
      continue;
    }
    for (uint32_t feeder : feeders[move])
      if (waves[feeder] != kFree)
        add(intersect(box, pieces[feeder].box), /*hasCome=*/true);
      else {
        for (const auto &[part, wave] : sent[feeder])
          add(intersect(box, part), /*hasCome=*/true);
        for (const Box &part : rest[feeder])
          add(intersect(box, part), /*hasCome=*/false);
      }
  }
}

/// What has no place yet, as a problem of its own.
WaveProblem KeptScheduler::problemOfRest() const {
  WaveProblem left;
  left.elementBytes = problem.elementBytes;
  left.cluster = problem.cluster;
  left.stagingBytes = problem.stagingBytes;
  left.stored = problem.stored;
  for (uint32_t i = 0; i < pieces.size(); ++i)
    addRest(i, left);
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
  measureWaves(numWaves);
  findFeeders();
  freeLastHops();
  freeConflicts();
  freeUnfed();
  takeKept(kept);
  expectFeeders();
  fillIdle(0);
  sendOnArrived();
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
