//===- FlatSchedule.cpp - Waves and copies of flat memory -----------------===//
//
//   1. Half of the limit is for slots, the other half is *room*: what may be on
//      both sides at once.
//   2. All moves and copies are cut into jobs and put in one order in which
//      devices free and create alike (FlatOrder.h). Jobs are made smaller until
//      they fit the room one by one; if they never do, the limit is too small.
//   3. Neighbouring jobs make a phase while every device has room for all that
//      it brings.
//   4. What moves in a phase may do so in any order: it is scheduled by itself.
//   5. What a device copies in a phase goes beside its messages, cohort by
//      cohort, beside as few of them as leave its copy lane time. Devices
//      without messages copy in a wave before them.
//
// Where nothing is copied, and all that devices give and take may be there at
// once, there is no order to find: all is one phase, slots have the rest of the
// limit, and the schedule is one of memory that nobody frees.
//
// test/Problems/flat-swap.json: two devices swap 16 elements of 128 bytes and
// copy 8 others, with a limit of 2 KiB. 1 KiB is room for 8 elements, so that
// 24 elements take three phases; slots of two waves each way share the other
// KiB, two elements each.
//
//   phase   waves   copied           sent
//   0       0 - 2   [0:3), one each  [0:5)     by two, two and one
//   1       3 - 5   [3:5)            [5:11)    by two
//   2       6 - 8   [5:8), one each  [11:16)   by two, two and one
//
//===----------------------------------------------------------------------===//

#include "dt/Scheduling/FlatSchedule.h"

#include "FlatJobs.h"

#include "dt/Geometry/Limits.h"
#include "dt/Geometry/Painted.h"
#include "dt/Scheduling/BestSchedule.h"
#include "dt/Scheduling/FlatOrder.h"
#include "dt/Scheduling/Schedule.h"
#include "dtrt/types/DeviceIndex.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

using namespace dt;

namespace {

/// Of so many phases, the first packs and the last unpacks are few.
constexpr size_t kManyPhases = 16;

/// What copies take of the time that a group leaves them: it is predicted.
constexpr double kMostOfFree = 0.8;

class FlatScheduler {
public:
  FlatScheduler(const WaveProblem &problem, const WaveOptions &options,
                WaveSchedule &schedule)
      : problem(problem), storage(*problem.storage), options(options),
        schedule(schedule) {
    for (uint32_t i = 0; i < storage.flows.size(); ++i) {
      source.add(i, storage.source[i]);
      destination.add(i, storage.destination[i]);
    }
    onBothSides = findBothSides();
    numPieces = countPieces();
  }

  std::optional<std::string> run();

private:
  /// Half of the limit is for slots, half for tensors on both sides at once;
  /// of large limits, which whole storages may need, slots get no more than
  /// makes them fast. All on both sides at once may need less than half.
  int64_t slots(int64_t limit) const {
    constexpr int64_t kFastSlots = int64_t(512) << 20;
    if (isOnePhase(limit))
      return limit - onBothSides;
    int64_t half = limit - limit / 2;
    return isWhole() ? std::min(half, kFastSlots) : half;
  }
  /// Of more moves too few chunk sizes can be tried by the whole; the order's
  /// are fewer.
  bool isOnePhase(int64_t limit) const {
    constexpr size_t kMostMoves = 131072;
    return problem.copies.empty() && problem.moves.size() <= kMostMoves &&
           onBothSides <= limit / 2;
  }
  int64_t findBothSides() const;
  int64_t room(int64_t limit) const { return limit - slots(limit); }
  bool isWhole() const { return storage.pageBytes >= kWholeBuffers; }
  std::optional<FlatOrder> orderFor(int64_t limit) const;
  int64_t countPieces() const;
  int64_t slotsNeeded() const;
  WaveProblem phaseOf(std::vector<Move> moves, int64_t limit) const;
  bool hasSlots(int64_t limit) const;
  bool fits(int64_t limit) const;
  int64_t smallestLimit() const;
  std::string refuseLimit() const;
  struct Group;
  std::map<int64_t, std::vector<Group>>
  groupsOf(const std::vector<ScheduledMove> &moves) const;
  std::vector<uint32_t> partsOf(const FlatPhase &phase,
                                const std::vector<FlatCopy> &copies,
                                const std::vector<Group> &groups) const;
  void addCopies(const FlatOrder &order, const FlatPhase &phase,
                 const std::vector<ScheduledMove> &moves);
  void sortCandidates(std::vector<ChunkBytes> &candidates) const;
  bool scheduleLike(const WaveProblem &phase, ChunkBytes chunks,
                    std::vector<ScheduledMove> &out);
  std::optional<std::string> scheduleMoves(std::vector<Move> moves,
                                           int64_t effort,
                                           std::vector<ScheduledMove> &out);
  std::optional<std::string> addPhase(const FlatOrder &order, FlatPhase phase,
                                      int64_t effort);
  std::vector<FlatPhase> findPhases(const FlatOrder &order);
  std::optional<std::string> addPhases();

  const WaveProblem &problem;
  const Storage &storage;
  const WaveOptions &options;
  WaveSchedule &schedule;
  ShardIndex source, destination;
  int64_t onBothSides = 0; // above the larger side, where nothing has gone
  int64_t numPieces = 0;   // of single tensors
  int64_t numMoves = 0;    // of the phases before
  int64_t slotBytes = 0;   // for slots of a phase
  ChunkBytes lastBest;     // of the phase before
  int32_t wave = 0;        // the next one
  bool repeats = false;    // there are many phases
};

/// One box is of many tensors where they move alike; each is one that moves.
int64_t FlatScheduler::countPieces() const {
  int64_t count = 0;
  auto add = [&](uint32_t flow, const Box &box) {
    int64_t members = 1;
    for (unsigned d = 0; d < storage.flows[flow].numLeading; ++d)
      members *= box[d].size();
    count += std::min(members, kMaxFlatEffects);
  };
  for (const Move &move : problem.moves)
    add(move.flow, move.box);
  for (const LocalMove &copy : problem.copies)
    add(copy.flow, copy.box);
  return std::min(count, kMaxFlatEffects);
}

/// What a device holds above the larger of its sides when nothing of either has
/// gone, but for what stays.
int64_t FlatScheduler::findBothSides() const {
  std::map<int64_t, std::array<int64_t, 2>> held; // source, destination
  for (uint32_t i = 0; i < storage.flows.size(); ++i) {
    const FlatFlow &flow = storage.flows[i];
    for (int side : {0, 1}) {
      int64_t width = bytesOf(side == 0 ? flow.source : flow.destination);
      for (const Holding &holding :
           side == 0 ? storage.source[i] : storage.destination[i])
        for (int64_t device : holding.devices)
          if (!flow.stays(device))
            held[device][side] += holding.shard.numMembers() *
                                  holding.shard.elementsPerMember() * width;
    }
  }
  int64_t most = 0;
  for (const auto &[device, bytes] : held)
    most = std::max(most, std::min(bytes[0], bytes[1]));
  return most;
}

std::optional<FlatOrder> FlatScheduler::orderFor(int64_t limit) const {
  // Larger than the limit of the problem wants: asked for.
  const bool isAsked = storage.pageBytes > pageBytesFor(storage.limitBytes);
  int64_t page = limit == storage.limitBytes || isWhole() ? storage.pageBytes
                 : isAsked ? std::max(storage.pageBytes, pageBytesFor(limit))
                           : pageBytesFor(limit);
  return orderWithin({problem.moves, problem.copies, storage.flows, source,
                      destination, page, problem.cluster,
                      mostFlatEffects(numPieces)},
                     room(limit));
}

/// Slots for one element of each level, at least.
int64_t FlatScheduler::slotsNeeded() const {
  int64_t widest = 0;
  for (const Move &move : problem.moves)
    widest = std::max(widest, problem.elementBytes[move.flow]);
  return 2 * kSlotsPerLevel * alignSlot(widest);
}

/// The moves of a phase, as a problem of their own.
WaveProblem FlatScheduler::phaseOf(std::vector<Move> moves,
                                   int64_t limit) const {
  WaveProblem phase;
  phase.moves = std::move(moves);
  phase.elementBytes = problem.elementBytes;
  phase.cluster = problem.cluster;
  phase.stagingBytes = slots(limit);
  return phase;
}

/// Whether all elements have slots, and all that travels has no more messages
/// than the limit. That is quickly said, and phases have no fewer.
bool FlatScheduler::hasSlots(int64_t limit) const {
  return slots(limit) >= slotsNeeded() &&
         (problem.moves.empty() ||
          !candidateChunks(phaseOf(problem.moves, limit)).empty());
}

bool FlatScheduler::fits(int64_t limit) const {
  if (!hasSlots(limit))
    return false;
  if (isOnePhase(limit))
    return true;
  std::optional<FlatOrder> order = orderFor(limit);
  if (!order)
    return false;
  std::vector<FlatPhase> phases = order->phases(room(limit));
  return std::all_of(phases.begin(), phases.end(), [&](FlatPhase &phase) {
    return phase.moves.empty() ||
           !candidateChunks(phaseOf(std::move(phase.moves), limit)).empty();
  });
}

std::string FlatScheduler::refuseLimit() const {
  std::string text =
      "cannot hold to the larger of source and destination plus " +
      std::to_string(storage.limitBytes) + " bytes (memory.staging)" +
      (isWhole() ? " by tensor, " : ", ");
  if (int64_t smallest = smallestLimit())
    return text + "the smallest limit that works is " +
           std::to_string(smallest);
  return text + "and no larger limit was found that works within " +
         std::to_string(mostFlatEffects(numPieces)) + " blocks and " +
         std::to_string(kMaxMessages) + " messages";
}

/// To one part in sixteen. 0 when there is none.
int64_t FlatScheduler::smallestLimit() const {
  int64_t works = 2 * std::max<int64_t>(storage.limitBytes, 256);
  while (works <= kMaxBytes && !fits(works))
    works *= 2;
  if (works > kMaxBytes)
    return 0;
  int64_t fails = works / 2;
  while (works - fails > works / 16) {
    int64_t middle = fails + (works - fails) / 2;
    (fits(middle) ? works : fails) = middle;
  }
  return works;
}

/// A device's part in a wave.
struct FlatScheduler::Group {
  int32_t wave = 0;
  double seconds = 0; // of its longest message
  int64_t bytes = 0;  // packed and unpacked
};

std::map<int64_t, std::vector<FlatScheduler::Group>>
FlatScheduler::groupsOf(const std::vector<ScheduledMove> &moves) const {
  dtrt::DeviceIndex devices;
  std::vector<std::vector<Group>> groups; // by device
  // Copies leave packs their time, whatever turns out to be one run.
  WaveProblem packed = phaseOf({}, storage.limitBytes);
  for (const TimedMessage &message : packed.messages(moves)) {
    double seconds = problem.cluster.portSeconds(
        message.source, message.destination, message.bytes);
    for (int64_t device : {message.source, message.destination}) {
      uint32_t number = devices(device);
      if (number == groups.size())
        groups.emplace_back();
      std::vector<Group> &own = groups[number];
      if (own.empty() || own.back().wave != message.wave)
        own.push_back({message.wave, 0, 0});
      own.back().seconds = std::max(own.back().seconds, seconds);
      own.back().bytes += message.bytes;
    }
  }
  std::map<int64_t, std::vector<Group>> out;
  for (uint32_t number = 0; number < groups.size(); ++number)
    out[devices.all()[number]] = std::move(groups[number]);
  return out;
}

/// The first job of what goes beside each group: cohort by cohort, groups with
/// most of what their messages leave the copy lane time for, until all is done.
/// Few groups have few pieces.
std::vector<uint32_t>
FlatScheduler::partsOf(const FlatPhase &phase,
                       const std::vector<FlatCopy> &copies,
                       const std::vector<Group> &groups) const {
  std::vector<double> free;
  for (const Group &group : groups)
    free.push_back(std::max(0.0, group.seconds -
                                     problem.cluster.packSeconds(group.bytes)));
  int64_t bytes = 0;
  for (const FlatCopy &copy : copies)
    bytes += copy.bytes;
  double allFree = std::accumulate(free.begin(), free.end(), 0.0);
  double needed = problem.cluster.packSeconds(bytes) / kMostOfFree;
  if (allFree == 0) {
    free.assign(free.size(), 1);
    needed = double(free.size());
  } else {
    needed = std::min(allFree, needed);
  }
  double copied = 0, reached = free.front() / needed;
  std::vector<uint32_t> starts = {phase.firstJob};
  for (const FlatCopy &copy : copies) {
    double middle = (copied + double(copy.bytes) / 2) / double(bytes);
    for (; middle > reached && starts.size() < groups.size();
         reached += free[starts.size() - 1] / needed)
      starts.push_back(copy.job);
    copied += double(copy.bytes);
  }
  return starts;
}

/// Copies of a phase, beside the moves that have been scheduled of it: their
/// waves count from `wave`, once the copies have been added.
void FlatScheduler::addCopies(const FlatOrder &order, const FlatPhase &phase,
                              const std::vector<ScheduledMove> &moves) {
  auto copies = order.copiesOf(phase);
  if (copies.empty())
    return;
  auto groups = groupsOf(moves);
  FlatOrder::Parts parts;
  bool areAlone = false; // any
  for (const auto &[device, own] : copies) {
    auto found = groups.find(device);
    areAlone |= found == groups.end();
    parts[device] = found == groups.end()
                        ? std::vector<uint32_t>{phase.firstJob}
                        : partsOf(phase, own, found->second);
  }
  int32_t begin = wave + areAlone;
  std::vector<ScheduledCopy> own;
  size_t count = 0; // about as many: jobs that follow one another are one copy
  for (const auto &[device, ofDevice] : copies)
    count += ofDevice.size();
  own.reserve(count);
  order.forEachCopy(phase, parts, [&](const LocalMove &copy, size_t part) {
    auto found = groups.find(copy.device);
    own.push_back({copy, found == groups.end()
                             ? wave
                             : begin + found->second[part].wave});
  });
  // Short keys are sorted, and the long records moved once.
  std::vector<std::pair<int32_t, uint32_t>> byWave;
  for (uint32_t i = 0; i < own.size(); ++i)
    byWave.emplace_back(own[i].wave, i);
  std::sort(byWave.begin(), byWave.end());
  for (auto [wave, number] : byWave)
    schedule.copies.push_back(own[number]);
  wave = begin;
}

/// How unlike two sizes are; one that cuts no message is like no other.
double distance(const ChunkBytes &a, const ChunkBytes &b) {
  constexpr double kOtherKind = 64;
  auto apart = [](int64_t x, int64_t y) {
    return std::abs(std::log2(double(x + 1) / double(y + 1)));
  };
  return apart(a.inter, b.inter) + apart(a.intra, b.intra) +
         (a.isWhole == b.isWhole ? 0 : kOtherKind);
}

/// Where one chunk size is all that is tried, nothing is compared, so that what
/// it takes need not be predicted. False where waves are joined, or there is no
/// schedule.
bool FlatScheduler::scheduleLike(const WaveProblem &phase, ChunkBytes chunks,
                                 std::vector<ScheduledMove> &out) {
  if (phase.cluster.messagesPerPort(/*interNode=*/false) > 1 ||
      phase.cluster.messagesPerPort(/*interNode=*/true) > 1)
    return false;
  ChunkBytes held = chunks;
  held.holdsForwards = phase.moves.back().hop > 0 && !chunks.isWhole;
  out = dt::schedule(phase, held, options.mostPieces);
  if (out.empty() || numMoves + int64_t(out.size()) > kMaxPieces)
    return false;
  lastBest = chunks;
  return true;
}

/// In the order in which they are tried: first those that are most like what
/// suited the phase before. Of many phases, the first tries large ones first,
/// which mostly suit it and have few pieces.
void FlatScheduler::sortCandidates(std::vector<ChunkBytes> &candidates) const {
  if (numMoves > 0)
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](const ChunkBytes &a, const ChunkBytes &b) {
                       return distance(a, lastBest) < distance(b, lastBest);
                     });
  else if (repeats)
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const ChunkBytes &a, const ChunkBytes &b) {
                       return a.isWhole != b.isWhole
                                  ? b.isWhole
                                  : a.inter + a.intra > b.inter + b.intra;
                     });
}

/// With the chunk size that is predicted to be fastest of those that are tried.
std::optional<std::string>
FlatScheduler::scheduleMoves(std::vector<Move> moves, int64_t effort,
                             std::vector<ScheduledMove> &out) {
  WaveProblem phase = phaseOf(std::move(moves), storage.limitBytes);
  phase.stagingBytes = std::min(problem.stagingBytes, slotBytes);
  std::vector<ChunkBytes> candidates = candidateChunks(phase);
  if (candidates.empty())
    return refuseLimit();
  for (ChunkBytes &chunks : candidates)
    chunks.endsSoon = repeats && !chunks.isWhole;
  sortCandidates(candidates);
  if (effort == 0 && scheduleLike(phase, candidates.front(), out))
    return std::nullopt;
  WaveOptions own = options;
  own.effort = effort;
  own.repeats = repeats;
  ChunkChoice best = fastestOf(phase, candidates, own, /*enough=*/0);
  if (best.moves.empty() || numMoves + int64_t(best.moves.size()) > kMaxPieces)
    return refuseMessages();
  lastBest = candidates[best.candidate];
  out = std::move(best.moves);
  return std::nullopt;
}

/// Invariant: waves [0, wave) have all copies and moves of the phases before,
/// and what they have freed is what the phase has room in.
std::optional<std::string> FlatScheduler::addPhase(const FlatOrder &order,
                                                   FlatPhase phase,
                                                   int64_t effort) {
  std::vector<ScheduledMove> moves;
  if (!phase.moves.empty())
    if (auto error = scheduleMoves(std::move(phase.moves), effort, moves))
      return error;
  addCopies(order, phase, moves);
  int32_t begin = wave;
  for (ScheduledMove &entry : moves) {
    entry.wave += begin;
    wave = entry.wave + 1;
  }
  numMoves += int64_t(moves.size());
  schedule.moves.insert(schedule.moves.end(), moves.begin(), moves.end());
  return std::nullopt;
}

std::optional<std::string> FlatScheduler::run() {
  int64_t limit = storage.limitBytes;
  if (!hasSlots(limit))
    return refuseLimit();
  if (!isOnePhase(limit))
    return addPhases();
  WaveProblem all = phaseOf(problem.moves, limit);
  all.stagingBytes = std::min(problem.stagingBytes, all.stagingBytes);
  all.stored = problem.stored;
  // One phase leaves time for it: no order has been looked for.
  constexpr int64_t kMoreEffort = 3;
  WaveOptions own = options;
  own.effort = kMoreEffort * std::min(options.effort, kMaxPieces);
  own.isThorough = true;
  return scheduleBest(all, own, schedule);
}

/// Few phases may be as few with half of the room: then three quarters of the
/// limit are for slots, and messages are larger.
std::vector<FlatPhase> FlatScheduler::findPhases(const FlatOrder &order) {
  constexpr size_t kFewPhases = 8;
  int64_t limit = storage.limitBytes, quarter = limit / 4;
  slotBytes = slots(limit);
  std::vector<FlatPhase> phases = order.phases(room(limit));
  if (isWhole() || phases.size() > kFewPhases || order.neededBytes() > quarter)
    return phases;
  std::vector<FlatPhase> others = order.phases(quarter);
  if (others.size() > phases.size())
    return phases;
  slotBytes = limit - quarter;
  return others;
}

std::optional<std::string> FlatScheduler::addPhases() {
  int64_t limit = storage.limitBytes;
  std::optional<FlatOrder> order = orderFor(limit);
  if (!order)
    return refuseLimit();
  std::vector<FlatPhase> phases = findPhases(*order);
  // Phases are much alike: all sizes are tried in the first, as far as an
  // eighth of the effort goes, and in a few others those like the last that
  // was best, one where moves are many.
  constexpr size_t kSearched = 8;
  constexpr int64_t kOfFirst = 8;
  constexpr int64_t kLeastEffort = 4000; // pieces: soon scheduled
  repeats = phases.size() >= kManyPhases;
  size_t stride = std::max<size_t>(1, phases.size() / kSearched), number = 0;
  auto effortOf = [&](const FlatPhase &phase) {
    if (number == 0)
      return options.effort / kOfFirst;
    return number % stride
               ? 0
               : std::max(kLeastEffort, int64_t(phase.moves.size()));
  };
  // Room that is not needed is not touched: what is cut is not cut often.
  constexpr size_t kCuts = 4;
  size_t count = 0;
  for (const FlatPhase &phase : phases)
    count += kCuts * phase.moves.size();
  schedule.moves.reserve(count);
  for (FlatPhase &phase : phases) {
    int64_t effort = effortOf(phase);
    number += !phase.moves.empty();
    if (auto error = addPhase(*order, std::move(phase), effort))
      return error;
  }
  return std::nullopt;
}

} // namespace

std::optional<std::string> dt::scheduleFlat(const WaveProblem &problem,
                                            const WaveOptions &options,
                                            WaveSchedule &schedule) {
  if (!problem.storage)
    return "has no storage part, which the solver 'flat' is for";
  schedule = {};
  return FlatScheduler(problem, options, schedule).run();
}
