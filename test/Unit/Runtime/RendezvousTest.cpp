//===- RendezvousTest.cpp - One decision, whatever happens ----------------===//
//
// Ranks are threads, on a store in memory that can be slow, stuck or lost.
//
//===----------------------------------------------------------------------===//

#include "ExpectContains.h"

#include "dtrt/store/MemoryStore.h"
#include "dtrt/store/Rendezvous.h"

#include <condition_variable>
#include <gtest/gtest.h>
#include <random>
#include <thread>

using namespace dtrt;
using namespace dtrt::test;

namespace {

/// Longer than any rank needs on a loaded machine.
const Seconds kAmple(60);

/// One rank's way to a store that all have: it may be slow, not answer, or be
/// gone.
class Way : public Store {
public:
  explicit Way(std::shared_ptr<MemoryStore> store) : store(std::move(store)) {}
  ~Way() override { answer(); }

  /// Until `heal`, once this rank has changed a key, or exchanged a value, that
  /// has this in it.
  void loseAfter(const std::string &part) { losesAfter = part; }
  void lose() { lost = true; }
  /// One call, once this rank has changed a key that has this in it.
  void loseOneAfter(const std::string &part) { losesOneAfter = part; }
  /// As many times as this rank removes a key that has this in it.
  void loseAtRemove(const std::string &part, int times) {
    losesAtRemove = part;
    removesToLose = times;
  }
  void heal() { lost = false; }
  /// Calls wait until `answer`.
  void stick() { stuck = true; }
  /// The same, once this rank has changed a key that has this in it.
  void stickAfter(const std::string &part) { sticksAfter = part; }
  void answer() {
    std::lock_guard<std::mutex> lock(mutex);
    stuck = false;
    wake.notify_all();
  }
  /// Every call takes a while, up to this.
  void delay(std::chrono::microseconds longest) { slowness = longest; }

  Status set(const std::string &key, const std::string &value) override {
    DTRT_RETURN_IF_ERROR(go());
    Status status = store->set(key, value);
    afterChange(key);
    return status;
  }
  Result<std::optional<std::string>> get(const std::string &key) override {
    DTRT_RETURN_IF_ERROR(go());
    return store->get(key);
  }
  Result<std::string> compareAndSet(const std::string &key,
                                    const std::string &expected,
                                    const std::string &desired) override {
    DTRT_RETURN_IF_ERROR(go());
    auto now = store->compareAndSet(key, expected, desired);
    afterChange(desired);
    DTRT_RETURN_IF_ERROR(go()); // the answer may be what is lost
    return now;
  }
  Result<int64_t> add(const std::string &key, int64_t amount) override {
    DTRT_RETURN_IF_ERROR(go());
    auto sum = store->add(key, amount);
    afterChange(key);
    return sum;
  }
  Status remove(const std::string &key) override {
    DTRT_RETURN_IF_ERROR(go());
    if (key.find(losesAtRemove) != std::string::npos && removesToLose > 0) {
      --removesToLose;
      return makeError(ErrorCode::StoreLost, "connection reset");
    }
    return store->remove(key);
  }

private:
  Status go() {
    if (slowness.count() > 0)
      std::this_thread::sleep_for(std::chrono::microseconds(
          std::uniform_int_distribution<int64_t>(0, slowness.count())(random)));
    std::unique_lock<std::mutex> lock(mutex);
    wake.wait(lock, [this] { return !stuck; });
    if (lost || losesNext.exchange(false))
      return makeError(ErrorCode::StoreLost, "connection reset");
    return {};
  }
  void afterChange(const std::string &what) {
    if (!sticksAfter.empty() && what.find(sticksAfter) != std::string::npos) {
      std::lock_guard<std::mutex> lock(mutex);
      sticksAfter.clear();
      stuck = true;
    }
    if (!losesOneAfter.empty() &&
        what.find(losesOneAfter) != std::string::npos) {
      losesOneAfter.clear();
      losesNext = true;
    }
    if (!losesAfter.empty() && what.find(losesAfter) != std::string::npos) {
      losesAfter.clear();
      lost = true;
    }
  }

  std::shared_ptr<MemoryStore> store;
  std::string losesAfter, losesOneAfter, sticksAfter, losesAtRemove;
  int removesToLose = 0;
  std::atomic<bool> lost{false}, losesNext{false};
  std::chrono::microseconds slowness{0};
  std::minstd_rand random{std::random_device()()};
  std::mutex mutex;
  std::condition_variable wake;
  bool stuck = false;
};

Arrival arrivalAt(const std::string &tag, const std::string &plan = "aa") {
  return {"switch", 0, tag, {{"plan", plan}}};
}

Result<std::string> joined(const std::vector<std::string> &records) {
  std::string all;
  for (const std::string &record : records)
    all += (all.empty() ? "" : ",") + record;
  return all;
}

/// The ranks of one world, and their store.
class Ranks {
public:
  explicit Ranks(uint32_t size, Seconds timeout = kAmple)
      : timeouts(size, timeout), store(std::make_shared<MemoryStore>()) {
    for (uint32_t rank = 0; rank < size; ++rank)
      ways.push_back(std::make_shared<Way>(store));
  }

  std::unique_ptr<Rendezvous> make(uint32_t rank) {
    return std::make_unique<Rendezvous>(ways[rank], rank, size(),
                                        timeouts[rank]);
  }
  uint32_t size() const { return uint32_t(ways.size()); }

  /// Runs the body as every rank; the error of each, empty where there is none.
  template <typename Body> std::vector<std::string> run(Body body) {
    std::vector<std::string> errors(size());
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < size(); ++rank)
      threads.emplace_back([&, rank] {
        auto ranks = make(rank);
        errors[rank] = statusOf(body(*ranks)).message();
      });
    for (std::thread &thread : threads)
      thread.join();
    return errors;
  }

  /// But for the one record that stays.
  std::vector<std::string> keysLeft() const {
    std::vector<std::string> left;
    for (const std::string &key : store->keys())
      if (key != "dynatrain/attempt")
        left.push_back(key);
    return left;
  }
  void expectClean() const {
    for (const std::string &key : keysLeft())
      ADD_FAILURE() << "the store still has " << key;
  }
  /// Until this many keys have this in their names.
  void await(const std::string &part, size_t count) const {
    size_t found = 0;
    while (found < count) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      found = 0;
      for (const std::string &key : store->keys())
        found += key.find(part) != std::string::npos;
    }
  }

  std::vector<Seconds> timeouts;
  std::shared_ptr<MemoryStore> store;
  std::vector<std::shared_ptr<Way>> ways;
};

/// A whole attempt; an error of any kind ends it for all.
Status attempt(Rendezvous &ranks, const std::string &tag,
               std::string *note = nullptr) {
  auto gathered = ranks.gather(arrivalAt(tag), "r", joined);
  Status status = statusOf(gathered);
  if (status.ok()) {
    auto ended = ranks.commit(std::to_string(ranks.rank()), joined);
    status = ended.ok() ? ended->why : ended.status();
    if (status.ok() && note)
      *note = ended->note;
  }
  if (!status.ok())
    (void)ranks.abort(status);
  return status;
}

//===----------------------------------------------------------------------===//
// Pairing
//===----------------------------------------------------------------------===//

TEST(Rendezvous, CommitsAgainAndAgainAndLeavesOneKey) {
  Ranks world(3);
  auto errors = world.run([&](Rendezvous &first) -> Status {
    for (int i = 0; i < 20; ++i) {
      auto ranks = world.make(first.rank());
      std::string note;
      DTRT_RETURN_IF_ERROR(attempt(*ranks, std::to_string(i), &note));
      EXPECT_EQ(note, "0,1,2");
    }
    return {};
  });
  EXPECT_EQ(errors, std::vector<std::string>(3));
  world.expectClean();
}

TEST(Rendezvous, AnotherTagIsAnErrorAtOnce) {
  Ranks world(2); // whose timeouts never pass
  auto errors = world.run([](Rendezvous &ranks) {
    return attempt(ranks, ranks.rank() == 0 ? "1" : "\"1\"");
  });
  for (const std::string &error : errors) {
    expectContains(error, "the ranks do not have the same tag: ");
    expectContains(error, "rank 0 has 1");
    expectContains(error, "rank 1 has \"1\"");
  }
  world.expectClean();
}

TEST(Rendezvous, ARankThatIsLateReadsWhyTheOthersGaveUp) {
  Ranks world(3);
  for (uint32_t rank : {1, 2}) {
    auto ranks = world.make(rank);
    ranks->refuse(arrivalAt("5"), makeError("no file"));
  }
  // Rank 2 was told by its own call.
  auto late = world.make(0);
  Status status = attempt(*late, "5");
  EXPECT_EQ(status.message(), "rank 1 stopped: no file");
  world.expectClean();
  EXPECT_EQ(world.run([](Rendezvous &ranks) { return attempt(ranks, "5"); }),
            std::vector<std::string>(3));
}

TEST(Rendezvous, AnAbortBeforeARankHasComeIsTold) {
  Ranks world(2);
  auto ranks = world.make(1);
  auto decision = ranks->abort(makeError(ErrorCode::Cancelled, "preempted"));
  ASSERT_TRUE(decision.ok());
  EXPECT_EQ(decision->state, Attempt::State::Aborted);
  EXPECT_EQ(attempt(*ranks, "5").message(), "preempted");
  auto other = world.make(0);
  EXPECT_EQ(attempt(*other, "5").message(), "rank 1 stopped: preempted");
  world.expectClean();
}

TEST(Rendezvous, AWaitingRankHearsOfAnAbort) {
  Ranks world(3);
  auto errors = world.run([&](Rendezvous &ranks) {
    if (ranks.rank() == 2) {
      world.await("/here/", 2);
      ranks.refuse(arrivalAt("5"), makeError("no file"));
      return Status();
    }
    return attempt(ranks, "5");
  });
  for (uint32_t rank : {0, 1})
    EXPECT_EQ(errors[rank], "rank 2 stopped: no file");
  world.expectClean();
}

TEST(Rendezvous, RanksOfADeadJobAreNotWaitedFor) {
  Ranks world(3);
  {
    // All have come, and are gone without a word.
    std::vector<std::unique_ptr<Rendezvous>> dead;
    for (uint32_t rank : {0, 1, 2}) {
      world.ways[rank]->loseAfter("/here/" + std::to_string(rank));
      dead.push_back(world.make(rank));
      EXPECT_FALSE(dead.back()->gather(arrivalAt("null"), "old", joined).ok());
    }
    EXPECT_EQ(world.keysLeft().size(), 3u);
  }
  for (auto &way : world.ways)
    way->heal();
  EXPECT_EQ(world.run([](Rendezvous &ranks) { return attempt(ranks, "null"); }),
            std::vector<std::string>(3));
  world.expectClean();
}

TEST(Rendezvous, ASecondProcessOfARankEndsTheFirst) {
  Ranks world(2);
  auto first = world.make(1);
  std::string error;
  std::thread waits([&] { error = attempt(*first, "5").message(); });
  world.await("/here/1", 1);
  auto second = world.make(1);
  std::thread waitsToo([&] { EXPECT_EQ(attempt(*second, "5").message(), ""); });
  waits.join();
  EXPECT_EQ(error, "it has begun another switch before this one ended, or has "
                   "been restarted");
  auto other = world.make(0);
  EXPECT_EQ(attempt(*other, "5").message(), "");
  waitsToo.join();
  world.expectClean();
}

/// The later one is not ended in turn by the one that it has ended.
TEST(Rendezvous, ASecondProcessComesWhileTheFirstDoes) {
  Ranks world(2);
  auto first = world.make(1);
  world.ways[1]->stickAfter("/here/1");
  std::string error;
  std::thread waits([&] { error = attempt(*first, "5").message(); });
  world.await("/here/1", 1);
  Rendezvous second(std::make_shared<Way>(world.store), 1, 2, kAmple);
  std::thread waitsToo([&] { EXPECT_EQ(attempt(second, "5").message(), ""); });
  auto isOpened = [&] {
    auto record = world.store->get("dynatrain/attempt");
    return record.ok() && *record &&
           (*record)->find("restarted") != std::string::npos;
  };
  while (!isOpened())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  world.ways[1]->answer();
  waits.join();
  EXPECT_EQ(error, "it has begun another switch before this one ended, or has "
                   "been restarted");
  auto other = world.make(0);
  EXPECT_EQ(attempt(*other, "5").message(), "");
  waitsToo.join();
  world.expectClean();
}

//===----------------------------------------------------------------------===//
// Who is missing
//===----------------------------------------------------------------------===//

/// Only rank 0 has a short timeout, which starts when the others have come: no
/// load makes one of them late.
TEST(Rendezvous, NamesTheRankThatIsNotThere) {
  Ranks world(4);
  world.timeouts[0] = Seconds(0.2);
  auto errors = world.run([&](Rendezvous &ranks) {
    if (ranks.rank() == 2)
      return Status();
    if (ranks.rank() == 0)
      world.await("/here/", 2);
    return attempt(ranks, "5");
  });
  for (uint32_t rank : {0, 1, 3})
    EXPECT_EQ(errors[rank], "timeout of 0.2 s waiting for rank 2 (ranks 0, 1 "
                            "and 3 came)");
  world.expectClean();
}

/// Rank 3 waits for rank 2 as rank 0 does: it answers, and is not named.
TEST(Rendezvous, NamesTheRankThatIsSilentAndNotThoseWhoWaitForIt) {
  Ranks world(4, Seconds(20));
  world.timeouts[0] = Seconds(5);
  auto errors = world.run([&](Rendezvous &ranks) -> Status {
    auto gathered = ranks.gather(arrivalAt("5"), "r", joined);
    DTRT_RETURN_IF_ERROR(gathered);
    if (ranks.rank() == 2)
      return {};
    if (ranks.rank() == 3) {
      Status status;
      for (; status.ok(); status = ranks.checkStopped())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return status;
    }
    auto ended = ranks.commit("", joined);
    return ended.ok() ? ended->why : ended.status();
  });
  for (uint32_t rank : {0, 1, 3})
    expectContains(errors[rank], "timeout of 5 s waiting for rank 2 (ranks 0, "
                                 "1 and 3 came or answered)");
}

//===----------------------------------------------------------------------===//
// The decision
//===----------------------------------------------------------------------===//

TEST(Rendezvous, ACommitAndAnAbortAreOneDecision) {
  int commits = 0, aborts = 0;
  for (int round = 0; round < 150; ++round) {
    Ranks world(3);
    for (auto &way : world.ways)
      way->delay(std::chrono::microseconds(200));
    std::vector<Attempt::State> states(3);
    auto errors = world.run([&](Rendezvous &ranks) -> Status {
      auto gathered = ranks.gather(arrivalAt("5"), "r", joined);
      std::thread stops;
      if (gathered.ok() && ranks.rank() == uint32_t(round % 3))
        stops = std::thread([&] {
          std::this_thread::sleep_for(std::chrono::microseconds(40 * round));
          auto decision = ranks.abort(makeError("no patience"));
          EXPECT_TRUE(decision.ok());
        });
      // The abort may come while another rank has yet to hear of all.
      auto ended = gathered.ok() ? ranks.commit("", joined)
                                 : Result<Decision>(gathered.status());
      if (stops.joinable())
        stops.join();
      // Cancelled before it could say that it is done: its own abort stands.
      auto decision = ranks.abort(makeError("after all"));
      DTRT_RETURN_IF_ERROR(decision);
      states[ranks.rank()] = decision->state;
      EXPECT_EQ(ended.ok() ? ended->state : decision->state, decision->state);
      ranks.cleanUp();
      return {};
    });
    EXPECT_EQ(errors, std::vector<std::string>(3));
    EXPECT_NE(states[0], Attempt::State::Open);
    EXPECT_EQ(states, std::vector<Attempt::State>(3, states[0]));
    ++(states[0] == Attempt::State::Committed ? commits : aborts);
    world.expectClean();
  }
  RecordProperty("commits", commits);
  RecordProperty("aborts", aborts);
}

/// The store is lost to one rank at one of its steps.
TEST(Rendezvous, ALostStoreSplitsNoDecision) {
  for (uint32_t loser : {0u, 1u})
    for (const char *step : {"/here/", "/done/", "/read", "\"committed\""}) {
      Ranks world(3, Seconds(1.5));
      world.ways[loser]->loseAfter(step + (std::string(step).back() == '/'
                                               ? std::to_string(loser)
                                               : std::string()));
      std::vector<std::optional<Attempt::State>> states(3);
      auto errors = world.run([&](Rendezvous &ranks) -> Status {
        DTRT_RETURN_IF_ERROR(ranks.gather(arrivalAt("5"), "r", joined));
        auto ended = ranks.commit("", joined);
        DTRT_RETURN_IF_ERROR(ended);
        states[ranks.rank()] = ended->state;
        return ended->why;
      });
      std::set<Attempt::State> known;
      for (uint32_t rank = 0; rank < 3; ++rank) {
        if (states[rank])
          known.insert(*states[rank]);
        else
          expectContains(errors[rank], rank == loser ? "lost the store" : "");
      }
      EXPECT_LE(known.size(), 1u) << step << " of rank " << loser;
    }
}

TEST(Rendezvous, WhoCannotLearnTheDecisionSaysSoAndMayAskAgain) {
  Ranks world(2);
  world.ways[1]->loseAfter("/done/1");
  auto late = world.make(1);
  std::vector<std::string> errors = world.run([&](Rendezvous &own) -> Status {
    Rendezvous &ranks = own.rank() == 1 ? *late : own;
    DTRT_RETURN_IF_ERROR(ranks.gather(arrivalAt("5"), "r", joined));
    auto ended = ranks.commit("note", joined);
    if (own.rank() == 0) {
      EXPECT_TRUE(ended.ok());
      EXPECT_EQ(ended->state, Attempt::State::Committed);
      return {};
    }
    EXPECT_FALSE(ended.ok());
    EXPECT_EQ(ended.status().code(), ErrorCode::Undecided);
    // Rank 0 waits for it to read until then.
    world.ways[1]->heal();
    auto asked = ranks.commit("note", joined);
    EXPECT_TRUE(asked.ok());
    EXPECT_EQ(asked->state, Attempt::State::Committed);
    EXPECT_EQ(asked->note, "note,note");
    return ended.status();
  });
  EXPECT_EQ(errors[0], "");
  expectContains(errors[1],
                 "cannot learn whether this was committed or aborted: lost the "
                 "store (the process that hosts it, often rank 0, may have "
                 "ended): connection reset; keep what both sides hold");
  world.expectClean();
}

/// A process that was stopped while the others committed, gave up waiting for
/// it, and went on with another one in its place.
TEST(Rendezvous, ACommitIsKeptForThoseWhoHaveNotReadIt) {
  Ranks world(2, Seconds(1.5));
  auto stopped = world.make(1);
  world.ways[1]->loseAfter("/done/1");
  world.run([&](Rendezvous &own) -> Status {
    Rendezvous &ranks = own.rank() == 1 ? *stopped : own;
    DTRT_RETURN_IF_ERROR(ranks.gather(arrivalAt("5"), "r", joined));
    return statusOf(ranks.commit("old", joined));
  });
  for (const std::string &key : world.keysLeft()) // not what rank 1 has said
    expectContains(key, "/read");
  world.ways[1]->heal();
  EXPECT_EQ(world.run([](Rendezvous &ranks) { return attempt(ranks, "6"); }),
            std::vector<std::string>(2));
  auto decision = stopped->commit("old", joined);
  ASSERT_TRUE(decision.ok()) << decision.status().message();
  EXPECT_EQ(decision->state, Attempt::State::Committed);
  EXPECT_EQ(decision->note, "old,old");
  world.expectClean();
}

/// The same after an abort.
TEST(Rendezvous, AnAbortIsKeptForThoseWhoHaveNotReadIt) {
  Ranks world(3);
  auto stopped = world.make(2);
  auto errors = world.run([&](Rendezvous &own) -> Status {
    Rendezvous &ranks = own.rank() == 2 ? *stopped : own;
    DTRT_RETURN_IF_ERROR(ranks.gather(arrivalAt("5"), "r", joined));
    if (own.rank() == 2)
      return {};
    if (own.rank() == 0)
      return statusOf(ranks.abort(makeError("loss is not finite")));
    auto ended = ranks.commit("", joined);
    return ended.ok() ? ended->why : ended.status();
  });
  EXPECT_EQ(errors[1], "rank 0 stopped: loss is not finite");
  auto again = world.make(0);
  again->refuse(arrivalAt("6"), makeError("not now"));
  EXPECT_EQ(stopped->checkStopped().message(),
            "rank 0 stopped: loss is not finite");
  (void)stopped->abort(makeError("as it was"));
  world.expectClean();
}

TEST(Rendezvous, ADeadRanksKeysAreRemoved) {
  Ranks world(2);
  world.timeouts[0] = Seconds(3);
  auto dead = world.make(1);
  auto survivor = world.make(0);
  std::string error;
  std::thread waits([&] { error = attempt(*survivor, "5").message(); });
  world.ways[1]->loseAfter("/connected/1");
  ASSERT_TRUE(dead->gather(arrivalAt("5"), "r", joined).ok());
  ASSERT_TRUE(dead->share("a key", "of something else").ok());
  EXPECT_FALSE(dead->agree(Step::Connected, "", joined).ok());
  waits.join();
  expectContains(error, "waiting for rank 1");
  EXPECT_FALSE(world.keysLeft().empty());
  EXPECT_FALSE(survivor->allHaveLeft());
  survivor->cleanUp();
  world.expectClean();
  EXPECT_TRUE(survivor->allHaveLeft());
}

/// Of an attempt in which rank 1 shares a key.
Status attemptThatShares(Rendezvous &ranks) {
  DTRT_RETURN_IF_ERROR(ranks.gather(arrivalAt("5"), "r", joined));
  if (ranks.rank() == 1)
    DTRT_RETURN_IF_ERROR(ranks.share("a key", "of something else"));
  return statusOf(ranks.commit("", joined));
}

/// As where a process is stopped while it removes them.
TEST(Rendezvous, ARankWhoseRemovalFailsOnceRemovesItsKeys) {
  for (const char *key : {"/done/1", "/shared/", "/keys/1", "/here/1"}) {
    SCOPED_TRACE(key);
    Ranks world(2);
    world.ways[1]->loseAtRemove(key, 1);
    EXPECT_EQ(world.run(attemptThatShares), std::vector<std::string>(2));
    world.expectClean();
  }
}

/// As where its process is stopped before it commits: the others abort, and it
/// has no time left when it goes on.
TEST(Rendezvous, WhoCannotCommitLeavesNoCount) {
  Ranks world(2);
  world.ways[0]->loseOneAfter("/read");
  for (const std::string &error :
       world.run([](Rendezvous &ranks) { return attempt(ranks, "5"); }))
    EXPECT_FALSE(error.empty());
  world.expectClean();
}

TEST(Rendezvous, WhatARankCannotRemoveIsKnownToTheOthers) {
  Ranks world(2, Seconds(1.5));
  world.ways[1]->loseAtRemove("/shared/", 1000);
  world.run(attemptThatShares);
  for (const std::string &key : world.keysLeft()) // as of a dead rank
    expectContains(key, "/read");
}

TEST(Rendezvous, AStoreThatDoesNotAnswerIsNotWaitedForWithoutLimit) {
  Ranks world(2, Seconds(1));
  world.ways[0]->stick();
  auto ranks = world.make(0);
  Status status = attempt(*ranks, "5");
  EXPECT_EQ(status.code(), ErrorCode::StoreLost);
  expectContains(status.message(), "the store does not answer");
}

/// A peer that has lost the store leaves; that it is gone is not the cause.
TEST(Rendezvous, APeerLostWithTheStoreIsToldWithTheStore) {
  Ranks world(1);
  auto ranks = world.make(0);
  ASSERT_TRUE(ranks->gather(arrivalAt("5"), "r", joined).ok());
  Status failure = makeError(ErrorCode::PeerLost, "lost rank 3");
  EXPECT_EQ(ranks->causeOf(failure).message(), "lost rank 3");
  world.ways[0]->lose();
  for (bool callsRoll : {false, true}) {
    Status cause = ranks->causeOf(failure, callsRoll);
    EXPECT_EQ(cause.code(), ErrorCode::PeerLost);
    expectContains(cause.message(), "lost rank 3; the other ranks cannot be "
                                    "asked why: lost the store");
  }
  Status lost = makeError(ErrorCode::StoreLost, "no store");
  EXPECT_EQ(ranks->causeOf(lost).message(), "no store");
}

TEST(Rendezvous, CancelEndsAWaitForAStoreThatDoesNotAnswer) {
  Ranks world(1);
  auto ranks = world.make(0);
  ASSERT_TRUE(ranks->gather(arrivalAt("5"), "r", joined).ok());
  world.ways[0]->stick();
  std::thread stops([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ranks->cancel(makeError(ErrorCode::Cancelled, "interrupted"));
  });
  EXPECT_EQ(ranks->checkStopped().message(), "interrupted");
  stops.join();
}

TEST(Rendezvous, NamesRanksInWords) {
  EXPECT_EQ(rankNames({4}), "rank 4");
  EXPECT_EQ(rankNames({0, 1, 2, 5}), "ranks 0-2 and 5");
  EXPECT_EQ(rankNames({1, 3, 5}), "ranks 1, 3 and 5");
}

} // namespace
