//===- FlatOrderTest.cpp - Flat mode keeps to its bound -------------------===//
//
// Runs schedules of random transitions and counts, element by element, what
// every device holds.
//
//===----------------------------------------------------------------------===//

#include "dt/Scheduling/FlatOrder.h"
#include "SolvedWaves.h"
#include "dt/Geometry/Painted.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

using namespace dt;
using namespace dt::testing;

namespace {

struct FlatCase {
  RandomTransition transition;
  Routing routing;
  std::vector<FlatFlow> flows;
  ShardIndex source, destination;

  explicit FlatCase(std::mt19937 &random)
      : FlatCase(randomTransition(random)) {}
  explicit FlatCase(RandomTransition given) : transition(std::move(given)) {
    RouterOptions options;
    options.minPieceBytes = 64;
    routing = solved(
        RoutingProblem(transition.flows, transition.cluster, 1 << 20), options);
    std::stable_sort(
        routing.moves.begin(), routing.moves.end(),
        [](const Move &a, const Move &b) { return a.hop < b.hop; });
    for (uint32_t i = 0; i < transition.flows.size(); ++i) {
      int64_t bytes = transition.flows[i].bytesPerElement;
      flows.push_back({0, {{bytes, 1}}, {{bytes, 1}}, i});
      source.add(i, transition.sources[i]);
      destination.add(i, transition.destinations[i]);
    }
  }
  /// Storage comes and goes whole; some flows share storages.
  void goWhole(std::mt19937 &random) {
    isWhole = true;
    for (FlatFlow &flow : flows)
      flow.source[0].storage = flow.destination[0].storage =
          int64_t(random() % 3) - 1;
  }
  bool isWhole = false;
  /// What devices hold alike on both sides stays there.
  void letStay() {
    for (uint32_t i = 0; i < flows.size(); ++i)
      for (int64_t device : destination.devices())
        if (shardsOf(source, i, device) == shardsOf(destination, i, device) &&
            !shardsOf(source, i, device).empty())
          flows[i].staying.push_back(device);
    auto &locals = routing.locals;
    locals.erase(std::remove_if(locals.begin(), locals.end(),
                                [&](const LocalMove &local) {
                                  return flows[local.flow].stays(local.device);
                                }),
                 locals.end());
  }
  static std::set<Shard> shardsOf(const ShardIndex &index, uint32_t flow,
                                  int64_t device) {
    std::set<Shard> out;
    for (uint32_t number : index.numbersOf(flow, device))
      out.insert(*index.shardsOf(device)[number].shard);
    return out;
  }
  FlatInput input(int64_t pageBytes) const {
    return {routing.moves, routing.locals, flows,
            source,        destination,    pageBytes};
  }
};

/// 16 devices have rows of a square, and 16 from `firstDestination` on, maybe
/// the same, get columns.
RandomTransition rowsToColumns(int64_t firstDestination) {
  RandomTransition out;
  out.cluster.devicesPerNode = 4;
  std::vector<int64_t> shape = {256, 256};
  out.sources = {gridHoldings(shape, 16, 1, 1, 0)};
  out.destinations = {gridHoldings(shape, 1, 16, 1, firstDestination)};
  Flow flow;
  flow.bytesPerElement = 4;
  flow.source = overlay(out.sources[0], shape);
  flow.destination = overlay(out.destinations[0], shape);
  out.flows = {flow};
  return out;
}

/// Two devices swap `count` tensors of 16 rows of 16 bytes: each gives every
/// other one.
RandomTransition swapOfMany(int64_t count) {
  RandomTransition out;
  std::vector<int64_t> shape = {16, 4};
  for (int64_t i = 0; i < count; ++i) {
    out.sources.push_back(gridHoldings(shape, 1, 1, 1, i % 2));
    out.destinations.push_back(gridHoldings(shape, 1, 1, 1, 1 - i % 2));
    Flow flow;
    flow.bytesPerElement = 4;
    flow.source = overlay(out.sources.back(), shape);
    flow.destination = overlay(out.destinations.back(), shape);
    out.flows.push_back(flow);
  }
  return out;
}

/// Each of 12 devices gives each other one `count` tensors of 16 rows of 16
/// bytes.
RandomTransition allToAll(int64_t count) {
  constexpr int64_t kDevices = 12;
  RandomTransition out;
  std::vector<int64_t> shape = {16, 4};
  for (int64_t i = 0; i < kDevices * (kDevices - 1) * count; ++i) {
    int64_t from = i % kDevices, by = 1 + i / kDevices % (kDevices - 1);
    int64_t to = (from + by) % kDevices;
    out.sources.push_back(gridHoldings(shape, 1, 1, 1, from));
    out.destinations.push_back(gridHoldings(shape, 1, 1, 1, to));
    Flow flow;
    flow.bytesPerElement = 4;
    flow.source = overlay(out.sources.back(), shape);
    flow.destination = overlay(out.destinations.back(), shape);
    out.flows.push_back(flow);
  }
  return out;
}

/// One thing that a device does: what it writes and what it reads.
struct Step {
  int64_t wave;
  size_t order;
  int64_t device;
  std::vector<std::pair<uint32_t, Box>> writes, reads; // flow, box
};

/// Bytes that each device holds, as its steps go by. Storage exists from the
/// first write to it, or until the last read, of any box that spans it; where
/// it comes and goes whole, of any box in it.
class Accountant {
public:
  Accountant(const FlatCase &flat, std::vector<Step> steps)
      : flat(flat), steps(std::move(steps)) {
    std::stable_sort(this->steps.begin(), this->steps.end(),
                     [](const Step &a, const Step &b) {
                       return std::tie(a.wave, a.order) <
                              std::tie(b.wave, b.order);
                     });
  }

  /// Most bytes above the larger of both sides, of any device.
  int64_t peak() {
    noteUses();
    if (flat.isWhole) {
      useWhole(flat.destination, firstWrite, /*first=*/true);
      useWhole(flat.source, lastRead, /*first=*/false);
    }
    noteChanges();
    for (int64_t device : flat.source.devices())
      for (const ShardIndex::Entry &entry : flat.source.shardsOf(device))
        if (flat.flows[entry.flow].stays(device))
          live[device] += entry.shard->elementsPerMember() *
                          flat.transition.flows[entry.flow].bytesPerElement;
    for (const auto &[key, uses] : lastRead)
      live[std::get<0>(key)] +=
          widthOf(key) * std::count_if(uses.begin(), uses.end(),
                                       [](int64_t use) { return use >= 0; });
    int64_t most = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      int64_t device = steps[i].device;
      live[device] += created[{device, i}];
      int64_t larger =
          std::max(held(flat.source, device), held(flat.destination, device));
      most = std::max(most, live[device] - larger);
      live[device] -= freed[{device, i}];
    }
    return most;
  }

private:
  using Key = std::tuple<int64_t, uint32_t, uint32_t>; // device, flow, shard

  int64_t widthOf(const Key &key) const {
    return flat.transition.flows[std::get<1>(key)].bytesPerElement;
  }
  int64_t held(const ShardIndex &index, int64_t device) const {
    int64_t bytes = 0;
    for (const ShardIndex::Entry &entry : index.shardsOf(device))
      bytes += entry.shard->elementsPerMember() *
               flat.transition.flows[entry.flow].bytesPerElement;
    return bytes;
  }
  void span(const ShardIndex &index, size_t step, uint32_t flow, const Box &box,
            std::map<Key, std::vector<int64_t>> &uses, bool first) {
    int64_t device = steps[step].device;
    if (flat.flows[flow].stays(device))
      return;
    auto found = index.find(flow, device, box);
    if (!found)
      return; // a forward, read from the destination
    int64_t last = found->view.offset;
    for (size_t d = 0; d < found->view.sizes.size(); ++d)
      last += (found->view.sizes[d] - 1) * found->view.strides[d];
    auto &own = uses[{device, flow, found->shard}];
    own.resize(index.shardsOf(device)[found->shard].shard->elementsPerMember(),
               -1);
    for (int64_t i = found->view.offset; i <= last; ++i)
      if (!first || own[i] < 0)
        own[i] = int64_t(step);
  }
  void noteUses() {
    for (size_t i = 0; i < steps.size(); ++i) {
      for (const auto &[flow, box] : steps[i].writes)
        span(flat.destination, i, flow, box, firstWrite, /*first=*/true);
      for (const auto &[flow, box] : steps[i].reads)
        span(flat.source, i, flow, box, lastRead, /*first=*/false);
    }
  }
  /// (device, storage that is shared, flow and shard where it is not)
  using Unit = std::tuple<int64_t, int64_t, uint32_t, uint32_t>;
  Unit unitOf(const Key &key) const {
    auto [device, flow, shard] = key;
    int64_t storage = flat.flows[flow].source[0].storage;
    return storage < 0 ? Unit(device, -1, flow, shard)
                       : Unit(device, storage, 0, 0);
  }
  /// All of a storage has the first, or the last, use of any of it.
  void useWhole(const ShardIndex &index,
                std::map<Key, std::vector<int64_t>> &uses, bool first) const {
    std::map<Unit, int64_t> times;
    for (const auto &[key, own] : uses)
      for (int64_t use : own) {
        if (use < 0)
          continue;
        int64_t &time = times.try_emplace(unitOf(key), use).first->second;
        time = first ? std::min(time, use) : std::max(time, use);
      }
    for (int64_t device : index.devices()) {
      const auto &shards = index.shardsOf(device);
      for (uint32_t i = 0; i < shards.size(); ++i) {
        Key key = {device, shards[i].flow, i};
        if (auto found = times.find(unitOf(key)); found != times.end())
          uses[key].assign(size_t(shards[i].shard->elementsPerMember()),
                           found->second);
      }
    }
  }
  void noteChanges() {
    for (const auto &[key, uses] : firstWrite)
      for (int64_t use : uses)
        if (use >= 0)
          created[{std::get<0>(key), size_t(use)}] += widthOf(key);
    for (const auto &[key, uses] : lastRead)
      for (int64_t use : uses)
        if (use >= 0)
          freed[{std::get<0>(key), size_t(use)}] += widthOf(key);
  }

  const FlatCase &flat;
  std::vector<Step> steps;
  std::map<Key, std::vector<int64_t>> firstWrite, lastRead;
  std::map<std::pair<int64_t, size_t>, int64_t> created, freed;
  std::map<int64_t, int64_t> live;
};

/// Copies of a phase, each with the part of its device that it belongs to:
/// parts begin at jobs that are drawn.
std::vector<std::pair<LocalMove, size_t>> cutCopies(const FlatOrder &order,
                                                    const FlatPhase &phase,
                                                    std::mt19937 &random) {
  FlatOrder::Parts parts;
  for (const auto &[device, copies] : order.copiesOf(phase)) {
    std::vector<uint32_t> &starts = parts[device];
    starts.push_back(phase.firstJob);
    for (const FlatCopy &copy : copies)
      if (random() % 2)
        starts.push_back(copy.job);
  }
  std::vector<std::pair<LocalMove, size_t>> out;
  order.forEachCopy(phase, parts, [&](const LocalMove &copy, size_t part) {
    EXPECT_LT(part, parts.at(copy.device).size());
    out.push_back({copy, part});
  });
  return out;
}

/// Runs phase after phase, each scheduled by itself, with its copies in any of
/// its waves. Returns the elements that waves carry.
int64_t addSteps(const FlatCase &flat, const FlatOrder &order,
                 const FlatPhase &phase, int64_t &wave, std::mt19937 &random,
                 std::vector<Step> &out) {
  WaveProblem problem;
  problem.moves = phase.moves;
  problem.elementBytes = elementBytes(flat.transition.flows);
  problem.cluster = flat.transition.cluster;
  problem.stagingBytes = 4096;
  std::vector<ChunkBytes> candidates = candidateChunks(problem);
  std::vector<ScheduledMove> scheduled =
      scheduledWith(problem, candidates[random() % candidates.size()]);
  // All of a wave at once, writes first.
  std::map<std::pair<int64_t, int64_t>, Step> waves;
  auto stepOf = [&](int64_t number, int64_t device) -> Step & {
    Step &step = waves[{number, device}];
    step.wave = wave + number;
    step.order = SIZE_MAX;
    step.device = device;
    return step;
  };
  int64_t moved = 0, last = 0;
  for (const ScheduledMove &entry : scheduled) {
    moved += entry.move.box.volume();
    last = std::max<int64_t>(last, entry.wave);
    for (bool receive : {false, true}) {
      int64_t device = receive ? entry.move.destination : entry.move.source;
      Step &step = stepOf(entry.wave, device);
      (receive ? step.writes : step.reads)
          .push_back({entry.move.flow, entry.move.box});
    }
  }
  for (const auto &[copy, part] : cutCopies(order, phase, random)) {
    Step &step = stepOf(int64_t(random() % uint64_t(last + 1)), copy.device);
    step.writes.push_back({copy.flow, copy.box});
    step.reads.push_back({copy.flow, copy.box});
  }
  for (auto &[key, step] : waves)
    out.push_back(std::move(step));
  wave += last + 1;
  return moved;
}

using Element = std::tuple<uint32_t, int64_t, int64_t, int64_t, int64_t>;
void addElements(uint32_t flow, int64_t from, int64_t to, const Box &box,
                 std::multiset<Element> &out) {
  for (int64_t r = box[0].lo; r < box[0].hi; ++r)
    for (int64_t c = box[1].lo; c < box[1].hi; ++c)
      out.insert({flow, from, to, r, c});
}

/// Cuts a random case into phases, which have all of its pieces, and gives
/// their number.
size_t countRightPhases(std::mt19937 &random) {
  FlatCase flat(random);
  FlatInput input = flat.input(1 + random() % 8);
  FlatOrder order(input, 1 + int64_t(random() % 400));
  std::multiset<Element> before, after;
  for (const Move &move : flat.routing.moves)
    addElements(move.flow, move.source, move.destination, move.box, before);
  for (const LocalMove &local : flat.routing.locals)
    addElements(local.flow, local.device, local.device, local.box, before);
  std::vector<FlatPhase> phases =
      order.phases(order.neededBytes() + int64_t(random() % 64));
  for (const FlatPhase &phase : phases) {
    for (const Move &move : phase.moves)
      addElements(move.flow, move.source, move.destination, move.box, after);
    int64_t named = 0, copied = 0;
    for (const auto &[device, copies] : order.copiesOf(phase))
      for (const FlatCopy &copy : copies)
        named += copy.bytes;
    for (const auto &[local, part] : cutCopies(order, phase, random)) {
      addElements(local.flow, local.device, local.device, local.box, after);
      copied += local.box.volume() *
                flat.transition.flows[local.flow].bytesPerElement;
    }
    EXPECT_EQ(named, copied);
    EXPECT_TRUE(std::is_sorted(
        phase.moves.begin(), phase.moves.end(),
        [](const Move &a, const Move &b) { return a.hop < b.hop; }));
  }
  EXPECT_EQ(before, after);
  return phases.size();
}

/// What a device holds at most above the larger of its sides, when all of both
/// is there.
int64_t smallerSide(const FlatCase &flat) {
  std::map<int64_t, std::array<int64_t, 2>> held; // source, destination
  for (int side : {0, 1}) {
    const ShardIndex &index = side == 0 ? flat.source : flat.destination;
    for (int64_t device : index.devices())
      for (const ShardIndex::Entry &entry : index.shardsOf(device)) {
        const FlatFlow &flow = flat.flows[entry.flow];
        held[device][side] +=
            entry.shard->numMembers() * entry.shard->elementsPerMember() *
            (side == 0 ? flow.source : flow.destination).front().width;
      }
  }
  int64_t most = 0;
  for (const auto &[device, bytes] : held)
    most = std::max(most, std::min(bytes[0], bytes[1]));
  return most;
}

/// Schedules the case in little room, at random. The most that a device holds
/// is at most that room; `tight` counts cases that take more than half of it.
void keepsToRoom(const FlatCase &flat, const FlatInput &input,
                 std::mt19937 &random, int &tight) {
  // The room that jobs one after the other need, and somewhat more.
  FlatOrder order(input, 1 + int64_t(random() % 200));
  int64_t room = order.neededBytes() + int64_t(random() % 64);
  int64_t moved = 0, all = 0, wave = 0;
  for (const Move &move : flat.routing.moves)
    all += move.box.volume();
  std::vector<Step> steps;
  for (const FlatPhase &phase : order.phases(room))
    moved += addSteps(flat, order, phase, wave, random, steps);
  ASSERT_EQ(moved, all) << "not all was scheduled";
  int64_t peak = Accountant(flat, std::move(steps)).peak();
  ASSERT_LE(peak, room);
  tight += 2 * peak > room;
}

} // namespace

TEST(FlatOrder, PhasesHaveEveryPieceWithoutLossOrRepeat) {
  // A seed of cases that are cut often, and one that nobody has tried.
  size_t most = 0;
  for (unsigned seed : {7u, unsigned(std::random_device()())}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    for (int trial = 0; trial < 100 && !HasFailure(); ++trial)
      most = std::max(most, countRightPhases(random));
  }
  EXPECT_GT(most, 4u) << "hardly anything was cut";
}

TEST(FlatOrder, DevicesHoldNoMoreThanTheLargerSideAndTheRoom) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int tight = 0;
  for (int trial = 0; trial < 200; ++trial) {
    FlatCase flat(random);
    FlatInput input = flat.input(/*pageBytes=*/1);
    SCOPED_TRACE("trial " + std::to_string(trial));
    ASSERT_NO_FATAL_FAILURE(keepsToRoom(flat, input, random, tight));
  }
  EXPECT_GT(tight, 20) << "the bound was hardly ever put to the test";
}

TEST(FlatOrder, WhatStaysTakesNoRoom) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  size_t stayed = 0;
  // Of one case, another order may need a little more.
  int64_t before = 0, after = 0;
  for (int trial = 0; trial < 600; ++trial) {
    FlatCase flat(random);
    before += FlatOrder(flat.input(/*pageBytes=*/1), 100).neededBytes();
    flat.letStay();
    FlatInput input = flat.input(/*pageBytes=*/1);
    FlatOrder order(input, 100);
    after += order.neededBytes();
    int64_t wave = 0;
    std::vector<Step> steps;
    for (const FlatPhase &phase : order.phases(order.neededBytes()))
      addSteps(flat, order, phase, wave, random, steps);
    ASSERT_LE(Accountant(flat, std::move(steps)).peak(), order.neededBytes())
        << "trial " << trial;
    for (const FlatFlow &flow : flat.flows)
      stayed += flow.staying.size();
  }
  EXPECT_GT(stayed, 50u) << "hardly anything stayed";
  EXPECT_LT(after, before);
}

TEST(FlatOrder, WholeStoragesKeepToTheRoomToo) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int tight = 0, shared = 0;
  for (int trial = 0; trial < 200; ++trial) {
    FlatCase flat(random);
    flat.goWhole(random);
    FlatInput input = flat.input(kWholeBuffers);
    SCOPED_TRACE("trial " + std::to_string(trial));
    ASSERT_NO_FATAL_FAILURE(keepsToRoom(flat, input, random, tight));
    // Nothing counts twice, in whatever order its users come.
    ASSERT_LE(FlatOrder(input, /*jobBytes=*/100).neededBytes(),
              smallerSide(flat));
    for (const FlatFlow &flow : flat.flows)
      shared += flow.source[0].storage >= 0;
  }
  EXPECT_GT(tight, 20) << "the bound was hardly ever put to the test";
  EXPECT_GT(shared, 50) << "hardly anything was shared";
}

/// Where one side gives and the other takes, nothing has to wait.
TEST(FlatOrder, DevicesThatOnlyGiveOrTakeNeedOnePhase) {
  FlatCase apart(rowsToColumns(/*firstDestination=*/16));
  EXPECT_EQ(FlatOrder(apart.input(64), 128).phases(0).size(), 1u);
  FlatCase same(rowsToColumns(/*firstDestination=*/0));
  FlatOrder order(same.input(64), 128);
  EXPECT_GT(order.phases(order.neededBytes()).size(), 4u);
}

/// With as much room as the state itself, any order would do; with little, the
/// order has to find it.
TEST(FlatOrder, OfManyTensorsFewAreInTwoPhases) {
  constexpr int64_t kTensors = 300, kTensorBytes = 256;
  FlatCase flat(swapOfMany(kTensors));
  FlatInput input = flat.input(/*pageBytes=*/16);
  FlatOrder order(input, kTensorBytes / 4);
  std::vector<FlatPhase> phases = order.phases(8 * kTensorBytes);
  EXPECT_GE(phases.size(), 8u);
  size_t parts = 0; // of tensors, that are in one phase
  for (const FlatPhase &phase : phases) {
    std::set<uint32_t> flows;
    for (const Move &move : phase.moves)
      flows.insert(move.flow);
    EXPECT_EQ(flows.size(), phase.moves.size());
    parts += flows.size();
  }
  EXPECT_GE(parts, size_t(kTensors));
  // Each device gives the next of its own to the end before another.
  EXPECT_LE(parts, size_t(kTensors) + 2 * phases.size());
}

/// What two devices exchange is not spread over all phases.
TEST(FlatOrder, OfManyPairsAPhaseHasFew) {
  constexpr int64_t kTensorBytes = 256;
  constexpr size_t kPairs = 132, kOfPair = 6;
  FlatCase flat(allToAll(kOfPair));
  FlatInput input = flat.input(/*pageBytes=*/16);
  FlatOrder order(input, kTensorBytes / 4);
  std::vector<FlatPhase> phases = order.phases(8 * kTensorBytes);
  EXPECT_GE(phases.size(), 7u);
  size_t parts = 0; // of pairs, that are in one phase
  for (const FlatPhase &phase : phases) {
    std::set<std::pair<int64_t, int64_t>> pairs;
    for (const Move &move : phase.moves)
      pairs.insert({move.source, move.destination});
    parts += pairs.size();
  }
  // Where series are taken up at every chance, it is in more than four.
  EXPECT_LE(parts, 7 * kPairs / 2);
}

TEST(FlatOrder, TensorsFarApartAreFoundWhereTheyAre) {
  constexpr int64_t kFar = int64_t(1) << 40;
  auto box = [](int64_t first, int64_t last) {
    Box out(3);
    out[0] = {2, 3};
    out[1] = {first, last};
    out[2] = {0, 16};
    return out;
  };
  // Device 0 gives tensors 5 and 6 of two leading dims, and a far one, which
  // goes to another device.
  const std::vector<Move> moves = {{0, 0, 0, 1, box(5, 7)},
                                   {0, 0, 0, 2, box(kFar, kFar + 1)}};
  ShardIndex source, destination;
  auto shard = [](std::vector<Interval> tensors) {
    Shard out;
    out.dims = {{{2, 3}}, std::move(tensors), {{0, 16}}};
    out.numLeading = 2;
    return out;
  };
  const std::vector<Holding> before = {
      {shard({{5, 7}, {kFar, kFar + 1}}), {0}}};
  const std::vector<Holding> after = {{shard({{5, 7}}), {1}},
                                      {shard({{kFar, kFar + 1}}), {2}}};
  source.add(0, before);
  destination.add(0, after);
  const std::vector<FlatFlow> flows = {{2, {{4, 1}}, {{4, 1}}, 0}};
  FlatOrder order({moves, {}, flows, source, destination, /*pageBytes=*/1},
                  /*jobBytes=*/64);
  std::vector<std::pair<int64_t, Box>> found; // destination, of
  for (const FlatPhase &phase : order.phases(order.neededBytes()))
    for (const Move &move : phase.moves)
      found.push_back({move.destination, move.box});
  int64_t elements[3] = {};
  for (const auto &[device, moved] : found) {
    elements[device] += moved.volume();
    EXPECT_TRUE(moves[size_t(device) - 1].box.contains(moved)) << device;
  }
  EXPECT_EQ(elements[1], 32);
  EXPECT_EQ(elements[2], 16);
}

TEST(FlatOrder, FindsJobsForLittleRoom) {
  FlatCase flat(rowsToColumns(/*firstDestination=*/0));
  // Every device holds 16 KiB; a row of all of them is 1 KiB each.
  EXPECT_TRUE(orderWithin(flat.input(64), 4096).has_value());
  EXPECT_FALSE(orderWithin(flat.input(64), 256).has_value());
}
