//===- StorageRulesTest.cpp - Storage that comes and goes -----------------===//
//
// Random storage, copies and shards on one device, judged element by element.
//
//===----------------------------------------------------------------------===//

#include "dt/Proof/StorageRules.h"

#include "gtest/gtest.h"

#include <random>
#include <set>

using namespace dt;

namespace {

/// One device copies all of @w, of 6 x 4 elements of 2 bytes, from its source
/// shard to its destination shard.
struct Transition {
  std::vector<Holding> source = holdingsOf({{0, Box::whole({6, 4})}});
  std::vector<Holding> destination = source;
  TransportPlan plan;

  Transition() {
    PlanFlow flow;
    flow.name = "@w";
    flow.shape = {6, 4};
    flow.states = flow.readStates = 1;
    flow.sourceBuffers = flow.destinationBuffers = {{1, 2}};
    flow.source = &source;
    flow.destination = &destination;
    plan.flows.push_back(flow);
  }
  Transition(const Transition &) = delete;

  /// By tensor, with @v beside @w, which share a storage; @u has its own.
  void goWhole() {
    plan.granularity = Granularity::Tensor;
    for (const char *name : {"@v", "@u"}) {
      plan.flows.push_back(plan.flows.front());
      plan.flows.back().name = name;
      plan.flows.back().readsFrom = uint32_t(plan.flows.size() - 1);
    }
    plan.flows[0].storages = plan.flows[1].storages = {7};
  }

  void addStorage(bool creates, Interval elements, uint32_t flow = 0) {
    PlanStorage row;
    row.op = row.step = uint32_t(plan.steps.size());
    row.flow = flow;
    row.states = 1;
    row.box = Box(1);
    row.box[0] = elements;
    PlanStep step;
    step.kind = creates ? PlanStep::Kind::Create : PlanStep::Kind::Release;
    step.first = plan.storage.size();
    plan.storage.push_back(row);
    step.last = plan.storage.size();
    plan.steps.push_back(step);
  }

  void addCopy(Box box) {
    PlanPiece piece;
    piece.op = piece.step = uint32_t(plan.steps.size());
    piece.box = box;
    piece.bytes = box.volume() * 2;
    piece.atSource = true;
    piece.fromShard = piece.toShard = 0;
    PlanStep step;
    step.first = plan.pieces.size();
    plan.pieces.push_back(piece);
    step.last = plan.pieces.size();
    plan.steps.push_back(step);
  }

  std::string check() const {
    MaybeFault fault = checkStorage(plan, StayingShards(plan));
    return fault ? fault->text : "";
  }
};

std::set<int64_t> elementsOf(const Box &box) {
  std::set<int64_t> out;
  for (int64_t r = box[0].lo; r < box[0].hi; ++r)
    for (int64_t c = box[1].lo; c < box[1].hi; ++c)
      out.insert(4 * r + c);
  return out;
}

/// Whether a plan keeps the rules, and its peak: element by element.
bool isRight(const TransportPlan &plan, int64_t &peak) {
  std::set<int64_t> created, willBe, released;
  for (const PlanStep &step : plan.steps)
    if (step.kind == PlanStep::Kind::Create)
      for (int64_t e = plan.storage[step.first].box[0].lo;
           e < plan.storage[step.first].box[0].hi; ++e)
        if (!willBe.insert(e).second)
          return false;
  int64_t live = 24 + 24 - int64_t(willBe.size());
  peak = live;
  for (const PlanStep &step : plan.steps) {
    if (step.kind == PlanStep::Kind::Copy) {
      for (int64_t e : elementsOf(plan.pieces[step.first].box))
        if ((willBe.count(e) && !created.count(e)) || released.count(e))
          return false;
      continue;
    }
    bool creates = step.kind == PlanStep::Kind::Create;
    Interval range = plan.storage[step.first].box[0];
    for (int64_t e = range.lo; e < range.hi; ++e)
      if (!(creates ? created : released).insert(e).second)
        return false;
    live += creates ? range.size() : -range.size();
    peak = std::max(peak, live);
  }
  return true;
}

} // namespace

TEST(StorageRules, ViewsTouchElementsBetweenTheirRuns) {
  // Columns 1 and 2 of rows 1 to 3 of a 6 x 4 tensor: 5 6 | 9 10 | 13 14.
  LocalView view = {5, {3, 2}, {4, 1}};
  EXPECT_EQ(hullOf(view), (Interval{5, 15}));
  EXPECT_TRUE(touches(view, {6, 9}));
  EXPECT_FALSE(touches(view, {7, 9}));
  EXPECT_TRUE(touches(view, {7, 10}));
  EXPECT_FALSE(touches(view, {15, 24}));
  EXPECT_FALSE(touches(view, {0, 5}));
  EXPECT_TRUE(touches(view, {0, 24}));
  LocalView scalar = {5, {}, {}};
  EXPECT_EQ(hullOf(scalar), (Interval{5, 6}));
  EXPECT_TRUE(touches(scalar, {5, 6}));
  EXPECT_FALSE(touches(scalar, {4, 5}));
  EXPECT_FALSE(touches(scalar, {6, 7}));
}

TEST(StorageRules, TheArenaEndsWithItsLastSlot) {
  auto staging = [](std::vector<std::pair<int64_t, int64_t>> slots) {
    Transition t;
    for (auto [offset, bytes] : slots) {
      PlanSlot slot;
      slot.offset = offset;
      slot.bytes = bytes;
      t.plan.slots.push_back(slot);
    }
    return measureMemory(t.plan, StayingShards(t.plan)).at(0).staging;
  };
  EXPECT_EQ(staging({{0, 8}}), 8);
  EXPECT_EQ(staging({{8, 4}, {0, 8}}), 12);
  EXPECT_EQ(staging({{-1, 8}}), 0); // not placed
}

TEST(StorageRules, FaultsAreNamed) {
  {
    Transition t;
    t.addCopy(Box::whole({6, 4}));
    t.addStorage(/*creates=*/true, {20, 24});
    EXPECT_EQ(t.check(), "writes @w[0:6)x[0:4) on device 0 before its storage "
                         "is created");
  }
  {
    Transition t;
    t.addStorage(/*creates=*/false, {0, 4});
    t.addCopy(Box::fromOffsetSize({0, 2}, {6, 2}));
    EXPECT_EQ(t.check(), "reads @w[0:6)x[2:4) on device 0 after its storage is "
                         "released");
  }
  {
    Transition t;
    t.addStorage(/*creates=*/false, {20, 25});
    EXPECT_EQ(t.check(), "releases storage @w[20:25) on device 0, whose shard "
                         "does not have it");
  }
}

TEST(StorageRules, OfSeveralFaultsTheFirstDevicesIsSaid) {
  Transition t;
  const Box all = Box::whole({6, 4});
  t.source = t.destination = holdingsOf({{0, all}, {1, all}});
  for (int64_t device : {1, 0}) {
    t.addStorage(/*creates=*/false, {0, 4});
    t.plan.storage.back().device = device;
  }
  for (int64_t device : {1, 0}) {
    t.addCopy(all);
    t.plan.pieces.back().from = t.plan.pieces.back().to = device;
  }
  EXPECT_EQ(t.check(), "reads @w[0:6)x[0:4) on device 0 after its storage is "
                       "released");
}

// Flows 0 and 1 share a storage, flow 2 has one of its own.
TEST(StorageRules, ByTensorStorageComesAndGoesWhole) {
  const Interval all = {0, 24};
  {
    Transition t;
    t.goWhole();
    for (bool creates : {true, false})
      for (uint32_t flow : {2, 0, 1})
        t.addStorage(creates, all, flow);
    EXPECT_EQ(t.check(), "");
  }
  {
    Transition t;
    t.goWhole();
    t.addStorage(/*creates=*/true, {0, 12}, 2);
    t.addStorage(/*creates=*/true, {12, 24}, 2);
    EXPECT_EQ(t.check(), "creates a part of storage @u[0:12) on device 0, "
                         "which comes and goes whole: 24 elements");
  }
  for (bool creates : {true, false}) {
    Transition t;
    t.goWhole();
    t.addStorage(creates, all, 0);
    EXPECT_EQ(t.check(), std::string(creates ? "creates" : "releases") +
                             " storage @w[0:24) on device 0 without all that "
                             "shares it: 48 of 96 bytes, expected all at once");
  }
  for (bool creates : {true, false}) {
    Transition t;
    t.goWhole();
    t.addStorage(creates, all, 0);
    t.addStorage(!creates, all, 2);
    t.addStorage(creates, all, 1);
    EXPECT_EQ(t.check(), std::string(creates ? "creates" : "releases") +
                             " storage @w[0:24) on device 0 without all that "
                             "shares it: 96 of 96 bytes, expected all at once");
  }
  { // By page, what shares a storage is of no account.
    Transition t;
    t.goWhole();
    t.plan.granularity = Granularity::Page;
    t.addStorage(/*creates=*/true, {0, 12}, 0);
    EXPECT_EQ(t.check(), "");
  }
}

// What does not change has one storage: where storage may come and go, and
// nothing is created, released or brought there.
TEST(StorageRules, WhatStaysExistsOnce) {
  auto peakOf = [](auto change) {
    Transition t;
    t.plan.isFlat = true;
    t.addCopy(Box::whole({6, 4}));
    change(t);
    return measureMemory(t.plan, StayingShards(t.plan)).at(0).peak;
  };
  constexpr int64_t kOnce = 48, kTwice = 96;
  EXPECT_EQ(peakOf([](Transition &) {}), kOnce);
  EXPECT_EQ(peakOf([](Transition &t) { t.plan.isFlat = false; }), kTwice);
  for (bool creates : {true, false})
    EXPECT_EQ(peakOf([&](Transition &t) { t.addStorage(creates, {20, 24}); }),
              kTwice);
  for (auto kind :
       {PlanStep::Kind::Wave, PlanStep::Kind::Derive, PlanStep::Kind::Zero})
    EXPECT_EQ(peakOf([&](Transition &t) { t.plan.steps[0].kind = kind; }),
              kTwice);
  EXPECT_EQ(peakOf([](Transition &t) { t.plan.pieces[0].from = 1; }), kTwice);
  EXPECT_EQ(peakOf([](Transition &t) { t.plan.pieces[0].atSource = false; }),
            kTwice);
  EXPECT_EQ(
      peakOf([](Transition &t) { t.plan.flows[0].destinationConverts = true; }),
      kTwice);
  EXPECT_EQ(peakOf([](Transition &t) {
              t.plan.flows[0].destinationBuffers = {{1, 4}};
              t.plan.flows[0].sourceConverts = true;
            }),
            kTwice / 2 + 96);
  EXPECT_EQ(peakOf([](Transition &t) {
              t.source = holdingsOf({{0, Box::whole({6, 5})}});
            }),
            48 + 60);
  // By tensor, in a storage that others have too.
  EXPECT_EQ(
      peakOf([](Transition &t) { t.plan.granularity = Granularity::Tensor; }),
      kOnce);
  EXPECT_EQ(peakOf([](Transition &t) {
              t.plan.granularity = Granularity::Tensor;
              t.plan.flows[0].storages = {7};
            }),
            kTwice);
}

TEST(StorageRules, WhatIsKeptMustStay) {
  auto faultOf = [](auto change) {
    Transition t;
    t.plan.isFlat = true;
    t.addCopy(Box::whole({6, 4}));
    t.plan.steps[0].keeps = true;
    change(t);
    return checkStorage(t.plan, StayingShards(t.plan));
  };
  EXPECT_FALSE(faultOf([](Transition &) {}));
  for (bool creates : {true, false}) {
    auto fault =
        faultOf([&](Transition &t) { t.addStorage(creates, {20, 24}); });
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->text, "keeps @w[0:6)x[0:4) on device 0, where not all of "
                           "its shard stays");
  }
  EXPECT_TRUE(faultOf([](Transition &t) {
    t.destination = holdingsOf({{0, Box::whole({6, 5})}});
  }));
  // In mode rollback it is a copy like others.
  EXPECT_FALSE(faultOf([](Transition &t) {
    t.plan.isFlat = false;
    t.destination = holdingsOf({{0, Box::whole({6, 5})}});
  }));
}

TEST(StorageRules, AgreeWithElementsOneByOne) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  auto number = [&](int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(random);
  };
  int right = 0, wrong = 0;
  for (int round = 0; round < 4000; ++round) {
    Transition t;
    for (int64_t i = number(1, 5); i > 0; --i) {
      int64_t lo = number(0, 23);
      int64_t r = number(0, 5), c = number(0, 3);
      if (number(0, 1))
        t.addCopy(
            Box::fromOffsetSize({r, c}, {number(1, 6 - r), number(1, 4 - c)}));
      else
        t.addStorage(number(0, 1), {lo, number(lo + 1, 24)});
    }
    int64_t peak = 0;
    bool expected = isRight(t.plan, peak);
    std::string text = t.check();
    ASSERT_EQ(text.empty(), expected) << text;
    ++(expected ? right : wrong);
    if (expected) {
      EXPECT_EQ(measureMemory(t.plan, StayingShards(t.plan)).at(0).peak,
                2 * peak);
    }
  }
  EXPECT_GT(right, 300);
  EXPECT_GT(wrong, 300);
}

TEST(StorageRules, LimitsCountWhatIsAboveTheLargerSide) {
  std::map<int64_t, DeviceMemory> memory = {{3, {100, 60, 8, 118}}};
  auto text = [&](MemoryLimits limits) {
    MaybeFault fault = checkMemory(memory, limits);
    return fault ? fault->text : "";
  };
  EXPECT_EQ(text({/*staging=*/18, /*device=*/0, MemoryMode::Flat}), "");
  EXPECT_EQ(text({/*staging=*/17, /*device=*/0, MemoryMode::Flat}),
            "holds 18 bytes above the larger of source and destination on "
            "device 3, more than the limit of 17 (memory.staging)");
  EXPECT_EQ(text({/*staging=*/17, /*device=*/118, MemoryMode::Rollback}), "");
  EXPECT_EQ(text({/*staging=*/17, /*device=*/117, MemoryMode::Rollback}),
            "needs 118 bytes on device 3 (100 source, 60 destination, 8 "
            "staging), more than the limit of 117 (memory.device)");
}
