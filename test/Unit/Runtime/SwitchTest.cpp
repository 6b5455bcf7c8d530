//===- SwitchTest.cpp - All ranks commit, or all learn why not ------------===//
//
// Ranks are threads here: the store is in memory and the transport loopback.
//
//===----------------------------------------------------------------------===//

#include "BorrowedTransport.h"
#include "ExpectContains.h"
#include "PlanBuilder.h"

#include "dtrt/core/ArenaStorage.h"
#include "dtrt/core/CheckPattern.h"
#include "dtrt/store/MemoryStore.h"
#include "dtrt/transport/DigestTransport.h"
#include "dtrt/transport/LoopbackTransport.h"
#include "dtrt/world/Switch.h"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

using namespace dtrt;
using namespace dtrt::test;

namespace {

/// Spoils a byte of what it receives.
class Spoiling : public Borrowed {
public:
  using Borrowed::Borrowed;
  Status group(const std::vector<TransportMessage> &messages) override {
    Status status = Borrowed::group(messages);
    for (const TransportMessage &message : messages)
      if (message.receive && message.bytes > 16)
        message.data[message.bytes / 2] ^= std::byte(1);
    return status;
  }
};

/// Longer than any rank needs on a loaded machine.
const Seconds kAmple(60);

/// The buffers of one rank, as a trainer's tensors.
struct Tensors {
  Tensors(const PlanReader &plan, uint32_t device)
      : program(*plan.program(device)),
        storage(std::move(*ArenaStorage::allocate(plan.common(), program))) {
    for (uint32_t i = 0; i < program.source.size(); ++i)
      fillSource(*storage, i);
    for (Side side : {Side::Source, Side::Destination})
      addBindings(side);
  }
  void addBindings(Side side) {
    std::map<std::pair<std::string, std::string>, uint32_t> ordinals;
    for (uint32_t i = 0; i < storage->shards(side).size(); ++i) {
      const ShardRecord &shard = storage->shards(side)[i];
      const Family &family = storage->common().families[shard.family];
      for (int64_t m = 0; m < storage->members(side, i); ++m)
        for (unsigned state : statesOf(shard.states)) {
          std::string tensor = family.tensorName(memberIndex(family, shard, m));
          const std::string &name = family.states[state].name;
          bindings.push_back({tensor, name, side, ordinals[{tensor, name}]++,
                              storage->data(side, i, state, m),
                              storage->memberBytes(side, i, state)});
        }
    }
  }
  CheckReport check() const {
    CheckReport report;
    for (uint32_t i = 0; i < program.destination.size(); ++i)
      checkDestination(*storage, i, report);
    return report;
  }

  RankProgram program;
  std::unique_ptr<ArenaStorage> storage;
  std::vector<TensorBinding> bindings;
};

using Body = std::function<Status(const PlanReader &plan, const World &world,
                                  Transport &transport)>;

/// Runs the body as every rank; the error of each, empty where there is none.
std::vector<std::string> runRanks(const TestPlan &test, const Body &body) {
  PlanReader plan = test.reader();
  std::vector<uint32_t> devices = plan.devices();
  LoopbackWorld loopback(devices);
  auto store = std::make_shared<MemoryStore>();
  std::vector<std::string> errors(devices.size());
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < devices.size(); ++rank)
    threads.emplace_back([&, rank] {
      World world;
      world.rank = rank;
      world.size = uint32_t(devices.size());
      world.timeout = kAmple;
      world.store = store;
      Transport &transport = loopback.endpoint(devices[rank]);
      errors[rank] = body(plan, world, transport).message();
      transport.leave();
    });
  for (std::thread &thread : threads)
    thread.join();
  return errors;
}

Status runAll(Switch &change, const Tensors &tensors,
              std::unique_ptr<Transport> transport, bool digests) {
  DTRT_RETURN_IF_ERROR(change.compare(tensors.bindings, ""));
  if (digests)
    transport = makeDigestTransport(std::move(transport));
  DTRT_RETURN_IF_ERROR(change.connect(std::move(transport)));
  DTRT_RETURN_IF_ERROR(change.transfer());
  return statusOf(change.commit());
}

TEST(Switch, CommitsWithEveryByteInPlace) {
  for (bool digests : {false, true})
    for (const std::string &error :
         runRanks(reshapePlan(),
                  [&](const PlanReader &plan, const World &world,
                      Transport &transport) -> Status {
                    auto change = Switch::create(plan, world);
                    DTRT_RETURN_IF_ERROR(change);
                    Tensors tensors(plan, plan.devices()[world.rank]);
                    DTRT_RETURN_IF_ERROR(
                        runAll(**change, tensors,
                               std::make_unique<Borrowed>(transport), digests));
                    EXPECT_EQ(tensors.check().mismatches, 0u);
                    return {};
                  }))
      EXPECT_EQ(error, "");
}

TEST(Switch, DigestsShowASpoiledMessage) {
  auto errors = runRanks(
      forwardingPlan(),
      [](const PlanReader &plan, const World &world,
         Transport &transport) -> Status {
        auto change = Switch::create(plan, world);
        DTRT_RETURN_IF_ERROR(change);
        Tensors tensors(plan, plan.devices()[world.rank]);
        std::unique_ptr<Transport> mine = std::make_unique<Borrowed>(transport);
        if (world.rank == 1)
          mine = std::make_unique<Spoiling>(transport);
        return runAll(**change, tensors, std::move(mine), /*digests=*/true);
      });
  for (const std::string &error : errors)
    expectContains(error, "are not those that it sent");
}

/// Until this many ranks have handed in what they compare.
void awaitRecords(Store &store, size_t count) {
  auto &memory = static_cast<MemoryStore &>(store);
  size_t found = 0;
  while (found < count) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    found = 0;
    for (const std::string &key : memory.keys())
      found += key.find("/here/") != std::string::npos;
  }
}

/// Only rank 0 has a short timeout, which starts when the others have come: no
/// load makes one of them late.
TEST(Switch, NamesTheRankThatDoesNotCome) {
  auto errors =
      runRanks(reshapePlan(),
               [](const PlanReader &plan, World world, Transport &) -> Status {
                 if (world.rank == 2)
                   return {};
                 if (world.rank == 0) {
                   awaitRecords(*world.store, 2);
                   world.timeout = Seconds(0.1);
                 }
                 auto change = Switch::create(plan, world);
                 DTRT_RETURN_IF_ERROR(change);
                 Tensors tensors(plan, plan.devices()[world.rank]);
                 return statusOf((*change)->compare(tensors.bindings, ""));
               });
  for (uint32_t rank : {0, 1, 3})
    expectContains(errors[rank], "rank " + std::to_string(rank) +
                                     ", prepare: timeout of 0.1 s waiting for "
                                     "rank 2 (ranks 0, 1 and 3 came)");
}

TEST(Switch, AWrongTensorIsAnErrorOfAllRanks) {
  auto errors = runRanks(
      reshapePlan(),
      [](const PlanReader &plan, const World &world, Transport &) -> Status {
        auto change = Switch::create(plan, world);
        DTRT_RETURN_IF_ERROR(change);
        Tensors tensors(plan, plan.devices()[world.rank]);
        if (world.rank == 1)
          tensors.bindings.front().bytes += 4;
        return statusOf((*change)->compare(tensors.bindings, ""));
      });
  for (size_t rank = 0; rank < errors.size(); ++rank) {
    expectContains(errors[rank], rank == 1
                                     ? "rank 1, prepare: tensor '"
                                     : "prepare: rank 1 stopped: tensor '");
    expectContains(errors[rank], "the plan expects");
  }
}

TEST(Switch, AWrongPlanIsAnErrorOfAllRanks) {
  TestPlan wrong = reshapePlan();
  ++wrong.common.summary.bytesWire;
  auto errors = runRanks(
      wrong,
      [](const PlanReader &plan, const World &world, Transport &) -> Status {
        auto change = Switch::create(plan, world);
        DTRT_RETURN_IF_ERROR(change);
        Tensors tensors(plan, plan.devices()[world.rank]);
        return statusOf((*change)->compare(tensors.bindings, ""));
      });
  for (const std::string &error : errors)
    expectContains(error, "the plan is wrong, and nothing was moved: summary "
                          "says");
}

/// What the ranks of the attempt under way must have alike.
Arrival arrivalOfOthers(Store &store) {
  awaitRecords(store, 1);
  auto found = Attempt::parse(**store.get("dynatrain/attempt"));
  found->terms.erase(found->terms.begin()); // the world's size
  return {found->kind, 0, found->tag, found->terms};
}

/// Rank 1 hands in a record as another version of this library might make it.
TEST(Switch, AnotherInventoryIsAnErrorOfAllRanks) {
  auto errors = runRanks(
      reshapePlan(),
      [](const PlanReader &plan, const World &world, Transport &) -> Status {
        if (world.rank == 1) {
          Rendezvous ranks(world.store, 1, world.size, world.timeout);
          return statusOf(
              ranks.gather(arrivalOfOthers(*world.store),
                           R"({"inventory": "7 tensors, digest abc"})",
                           [](const auto &) { return std::string(); }));
        }
        auto change = Switch::create(plan, world);
        DTRT_RETURN_IF_ERROR(change);
        Tensors tensors(plan, plan.devices()[world.rank]);
        return statusOf((*change)->compare(tensors.bindings, ""));
      });
  for (uint32_t rank : {0, 2, 3})
    expectContains(errors[rank],
                   "prepare: rank 1 has 7 tensors, digest abc, the plan "
                   "expects ");
}

/// Rank 1 holds nothing of the tensor at first, and says so or does not.
TEST(Switch, TensorsOfNoBytesNeedNotBeGiven) {
  Family family = makeFamily("w", {}, {4, 4});
  TestPlan plan = makePlan(
      {family}, {{box(0, {{0, 4}, {0, 4}})}, {box(0, {{4, 4}, {0, 4}})}},
      {{box(0, {{0, 2}, {0, 4}})}, {box(0, {{2, 4}, {0, 4}})}});
  for (bool given : {false, true}) {
    auto errors = runRanks(
        plan,
        [&](const PlanReader &plan, const World &world,
            Transport &transport) -> Status {
          auto change = Switch::create(plan, world);
          DTRT_RETURN_IF_ERROR(change);
          Tensors tensors(plan, plan.devices()[world.rank]);
          if (!given)
            tensors.bindings.erase(
                std::remove_if(tensors.bindings.begin(), tensors.bindings.end(),
                               [](auto &tensor) { return tensor.bytes == 0; }),
                tensors.bindings.end());
          DTRT_RETURN_IF_ERROR(runAll(
              **change, tensors, std::make_unique<Borrowed>(transport), false));
          return tensors.check().mismatches == 0 ? Status()
                                                 : makeError("wrong bytes");
        });
    EXPECT_EQ(errors, std::vector<std::string>(2)) << given;
  }
}

TEST(Switch, AnAbortReachesAllRanks) {
  auto errors =
      runRanks(reshapePlan(),
               [](const PlanReader &plan, const World &world,
                  Transport &transport) -> Status {
                 auto change = Switch::create(plan, world);
                 DTRT_RETURN_IF_ERROR(change);
                 Tensors tensors(plan, plan.devices()[world.rank]);
                 if (world.rank != 3)
                   return runAll(**change, tensors,
                                 std::make_unique<Borrowed>(transport), false);
                 DTRT_RETURN_IF_ERROR((*change)->compare(tensors.bindings, ""));
                 (*change)->abort(makeError("rank 3: out of patience"));
                 return {};
               });
  for (uint32_t rank : {0, 1, 2})
    expectContains(errors[rank], "out of patience");
}

/// A pool that has no page more, and a memory in it that nobody may change.
class Exhausted : public PagePool, public LiveMemory {
public:
  Status hold(std::byte *, uint64_t) override { return {}; }
  Status letGo(std::byte *, uint64_t) override { return {}; }
  std::unique_ptr<PageRehearsal> rehearse() const override {
    struct Nothing : PageRehearsal {
      Status hold(std::byte *, uint64_t) override { return {}; }
      Status letGo(std::byte *, uint64_t) override { return {}; }
      uint64_t mostMore() const override { return 7; }
    };
    return std::make_unique<Nothing>();
  }
  Status makeSure(uint64_t pages) override {
    return makeError(ErrorCode::OutOfMemory, "no ", pages, " pages more");
  }
  bool hasPages() const override { return true; }
  Result<std::byte *> create(uint64_t, uint64_t) override {
    return makeError("a page was created");
  }
  Status release(uint64_t, uint64_t) override {
    ADD_FAILURE() << "a page was released";
    return {};
  }
  bool canTake(const LiveMemory &) const override { return false; }
  void take(LiveMemory &) override {}
  PagePool *pool() const override { return const_cast<Exhausted *>(this); }
};

// A rank without the pages that it will need says so when nothing has gone yet.
TEST(Switch, WithoutPagesForAFlatPlanNoRankBegins) {
  auto body = [](const PlanReader &plan, const World &world,
                 Transport &transport) -> Status {
    auto change = Switch::create(plan, world);
    DTRT_RETURN_IF_ERROR(change);
    Tensors tensors(plan, plan.devices()[world.rank]);
    Exhausted exhausted;
    if (world.rank == 2)
      for (TensorBinding &tensor : tensors.bindings)
        if (tensor.side == Side::Source)
          tensor.memory = &exhausted;
    return runAll(**change, tensors, std::make_unique<Borrowed>(transport),
                  false);
  };
  for (const std::string &error :
       runRanks(reshapePlan(MemoryMode::Flat), body)) {
    expectContains(error, "no 7 pages more");
    EXPECT_EQ(error.find("the old state is gone"), std::string::npos) << error;
  }
}

TEST(Switch, AWorldOfAnotherSizeIsRefused) {
  PlanReader plan = reshapePlan().reader();
  World world;
  world.size = 3;
  auto change = Switch::create(plan, world);
  ASSERT_FALSE(change.ok());
  EXPECT_EQ(change.status().message(),
            "the plan has 4 devices, the world has 3 ranks");
}

} // namespace
