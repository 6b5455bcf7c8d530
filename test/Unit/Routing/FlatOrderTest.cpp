//===- FlatOrderTest.cpp - Flat mode keeps to its bound -------------------===//
//
// Runs schedules of random transitions and counts, element by element, what
// every device holds.
//
//===----------------------------------------------------------------------===//

#include "RandomFlows.h"
#include "dt/Routing/MemoryWindow.h"
#include "dt/Routing/Schedule.h"

#include "gtest/gtest.h"

#include <algorithm>
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
      : transition(randomTransition(random)) {
    RouterOptions options;
    options.minPieceBytes = 64;
    Hole hole;
    EXPECT_TRUE(
        route(transition.flows, transition.cluster, options, routing, hole));
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
  FlatInput input(int64_t pageBytes) const {
    return {routing.moves, routing.locals, flows,
            source,        destination,    pageBytes};
  }
};

/// One thing that a device does: what it writes and what it reads.
struct Step {
  int64_t wave;
  size_t order;
  int64_t device;
  std::vector<std::pair<uint32_t, Box>> writes, reads; // flow, box
};

/// Bytes that each device holds, as its steps go by. Storage exists from the
/// first write to it, or until the last read, of any box that spans it.
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

std::vector<Step> stepsOf(const std::vector<ScheduledMove> &scheduled,
                          const FlatOrder &order, const MemoryWindow &window) {
  std::vector<Step> out;
  for (size_t i = 0; i < window.copies().size(); ++i) {
    const MemoryWindow::Done &copy = window.copies()[i];
    const LocalMove &local = order.locals[copy.local];
    out.push_back({copy.before,
                   i,
                   local.device,
                   {{local.flow, local.box}},
                   {{local.flow, local.box}}});
  }
  // After the copies; all of a wave at once, writes first.
  std::map<std::pair<int64_t, int64_t>, Step> waves;
  for (const ScheduledMove &entry : scheduled)
    for (bool receive : {false, true}) {
      int64_t device = receive ? entry.move.destination : entry.move.source;
      Step &step = waves[{entry.wave, device}];
      step.wave = entry.wave;
      step.order = SIZE_MAX;
      step.device = device;
      (receive ? step.writes : step.reads)
          .push_back({entry.move.flow, entry.move.box});
    }
  for (auto &[key, step] : waves)
    out.push_back(std::move(step));
  return out;
}

using Element = std::tuple<uint32_t, int64_t, int64_t, int64_t, int64_t>;
void addElements(uint32_t flow, int64_t from, int64_t to, const Box &box,
                 std::multiset<Element> &out) {
  for (int64_t r = box[0].lo; r < box[0].hi; ++r)
    for (int64_t c = box[1].lo; c < box[1].hi; ++c)
      out.insert({flow, from, to, r, c});
}

} // namespace

TEST(FlatOrder, CutsEveryPieceIntoJobsWithoutLossOrRepeat) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int trial = 0; trial < 100; ++trial) {
    FlatCase flat(random);
    FlatOrder order = orderForFlat(flat.input(1 + random() % 64),
                                   1 + int64_t(random() % 400));
    std::multiset<Element> before, after;
    for (const Move &move : flat.routing.moves)
      addElements(move.flow, move.source, move.destination, move.box, before);
    for (const LocalMove &local : flat.routing.locals)
      addElements(local.flow, local.device, local.device, local.box, before);
    for (const Move &move : order.moves)
      addElements(move.flow, move.source, move.destination, move.box, after);
    for (const LocalMove &local : order.locals)
      addElements(local.flow, local.device, local.device, local.box, after);
    ASSERT_EQ(before, after);
    ASSERT_TRUE(std::is_sorted(order.moveJobs.begin(), order.moveJobs.end()));
    ASSERT_TRUE(std::is_sorted(order.localJobs.begin(), order.localJobs.end()));
  }
}

TEST(FlatOrder, DevicesHoldNoMoreThanTheLargerSideAndTheRoom) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int tight = 0;
  for (int trial = 0; trial < 200; ++trial) {
    FlatCase flat(random);
    FlatInput input = flat.input(/*pageBytes=*/1);
    // The room that jobs one after the other need, and somewhat more.
    FlatOrder order = orderForFlat(input, 1 + int64_t(random() % 200));
    int64_t room = order.neededBytes() + int64_t(random() % 64);
    MemoryWindow window(order, flat.source, room);
    std::vector<ChunkBytes> candidates = candidateChunks(
        order.moves, flat.transition.flows, flat.transition.cluster, 4096);
    std::vector<ScheduledMove> scheduled;
    int64_t needed = 0;
    ASSERT_TRUE(schedule(
        order.moves, flat.transition.flows, flat.transition.cluster,
        candidates[random() % candidates.size()], scheduled, needed, &window));
    int64_t moved = 0, all = 0;
    for (const Move &move : order.moves)
      all += move.box.volume();
    for (const ScheduledMove &entry : scheduled)
      moved += entry.move.box.volume();
    ASSERT_EQ(moved, all) << "not all was scheduled";
    ASSERT_EQ(window.copies().size(), order.locals.size());
    int64_t peak = Accountant(flat, stepsOf(scheduled, order, window)).peak();
    ASSERT_LE(peak, room) << "trial " << trial;
    tight += 2 * peak > room;
  }
  EXPECT_GT(tight, 20) << "the bound was hardly ever put to the test";
}

/// With as much room as the state itself, any order would do; with little, the
/// order has to find it.
TEST(FlatOrder, FindsJobsForLittleRoom) {
  std::mt19937 random(7);
  // 16 devices trade rows for columns of a square.
  FlatCase flat(random);
  flat.routing = {};
  RandomTransition &t = flat.transition;
  t = {};
  t.cluster.devicesPerNode = 4;
  std::vector<int64_t> shape = {256, 256};
  t.sources = {gridHoldings(shape, 16, 1, 1, 0)};
  t.destinations = {gridHoldings(shape, 1, 16, 1, 0)};
  Flow flow;
  flow.bytesPerElement = 4;
  flow.source = overlay(t.sources[0], shape);
  flow.destination = overlay(t.destinations[0], shape);
  t.flows = {flow};
  Hole hole;
  ASSERT_TRUE(route(t.flows, t.cluster, {}, flat.routing, hole));
  flat.flows = {{0, {{4, 1}}, {{4, 1}}, 0}};
  flat.source = flat.destination = {};
  flat.source.add(0, t.sources[0]);
  flat.destination.add(0, t.destinations[0]);
  // Every device holds 16 KiB; a row of all of them is 1 KiB each.
  EXPECT_TRUE(orderWithin(flat.input(64), 4096).has_value());
  EXPECT_FALSE(orderWithin(flat.input(64), 256).has_value());
}
