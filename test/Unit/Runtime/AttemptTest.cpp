//===- AttemptTest.cpp - What a rank that comes does ----------------------===//

#include "dtrt/store/Attempt.h"

#include <gtest/gtest.h>

using namespace dtrt;

namespace {

using What = ArrivalStep::What;

Arrival rankWith(uint32_t rank, const std::string &tag,
                 const std::string &plan = "aa",
                 const std::string &kind = "switch") {
  return {kind, rank, tag, {{"world size", "4"}, {"plan", plan}}};
}

/// As `opener` has opened it.
Attempt openedBy(const Arrival &opener) {
  Attempt attempt = *arrive(std::nullopt, opener, false).record;
  attempt.id = "1";
  return attempt;
}

TEST(Attempt, TheFirstRankOpensAndTheOthersJoin) {
  ArrivalStep first = arrive(std::nullopt, rankWith(2, "7"), false);
  ASSERT_EQ(first.what, What::Open);
  EXPECT_EQ(first.record->opener, 2u);
  EXPECT_EQ(first.record->state, Attempt::State::Open);
  EXPECT_FALSE(first.record->before);
  EXPECT_EQ(arrive(openedBy(rankWith(2, "7")), rankWith(0, "7"), false).what,
            What::Join);
}

struct Difference {
  const char *name;
  Arrival other;
  const char *text;
};

TEST(Attempt, ADifferenceEndsItAndNamesBothRanksAndBothValues) {
  Attempt open = openedBy(rankWith(2, "7"));
  for (const Difference &difference :
       {Difference{"tag", rankWith(0, "8"), "tag: rank 2 has 7, rank 0 has 8"},
        Difference{"plan", rankWith(0, "7", "bb"),
                   "plan: rank 2 has aa, rank 0 has bb"},
        Difference{"size",
                   {"switch", 3, "7", {{"world size", "5"}, {"plan", "aa"}}},
                   "world size: rank 2 has 4, rank 3 has 5"}}) {
    ArrivalStep step = arrive(open, difference.other, false);
    ASSERT_EQ(step.what, What::Leave) << difference.name;
    std::string text =
        "the ranks do not have the same " + std::string(difference.text);
    EXPECT_EQ(step.why.message(), text);
    EXPECT_EQ(step.why.code(), ErrorCode::Mismatch);
    ASSERT_TRUE(step.record) << difference.name;
    EXPECT_EQ(step.record->state, Attempt::State::Aborted);
    // The other rank reads the same words.
    EXPECT_EQ(step.record->stop.toldTo(2).message(), text);
  }
}

TEST(Attempt, ARankThatIsLateLearnsTheReasonOnce) {
  Attempt aborted =
      openedBy(rankWith(1, "7"))
          .aborted({1, ErrorCode::Cancelled, "preempted"}, {0, 3});
  ArrivalStep late = arrive(aborted, rankWith(0, "7"), false);
  ASSERT_EQ(late.what, What::Leave);
  EXPECT_EQ(late.why.message(), "rank 1 stopped: preempted");
  EXPECT_EQ(late.why.code(), ErrorCode::Cancelled);
  ASSERT_TRUE(late.record);
  EXPECT_EQ(late.record->missing, std::vector<uint32_t>{3});
  EXPECT_EQ(arrive(*late.record, rankWith(0, "7"), false).what, What::Open);
  // Who took part, or comes for something else, begins anew.
  for (const Arrival &other : {rankWith(1, "7"), rankWith(3, "8"),
                               rankWith(3, "7", "aa", "meeting")}) {
    ArrivalStep step = arrive(aborted, other, false);
    ASSERT_EQ(step.what, What::Open);
    ASSERT_TRUE(step.record->before);
    EXPECT_EQ(step.record->beforeId, "1");
    EXPECT_EQ(step.record->before->why, "preempted");
  }
}

TEST(Attempt, ARankThatCameBeforeBeginsAnew) {
  ArrivalStep step =
      arrive(openedBy(rankWith(1, "7")), rankWith(0, "7"), /*cameBefore=*/true);
  ASSERT_EQ(step.what, What::Open);
  EXPECT_EQ(step.record->beforeId, "1");
  EXPECT_EQ(step.record->before->toldTo(1).message(),
            "rank 0 stopped: it has begun another switch before this one "
            "ended, or has been restarted");
}

TEST(Attempt, AMeetingGoesBeforeASwitch) {
  Arrival meeting = rankWith(3, "", "", "meeting");
  ArrivalStep step = arrive(openedBy(rankWith(1, "7")), meeting, false);
  ASSERT_EQ(step.what, What::Open);
  EXPECT_EQ(step.record->kind, "meeting");
  EXPECT_EQ(step.record->before->toldTo(1).message(),
            "rank 3 stopped: it waits in a meeting, to find the other ranks");
  step = arrive(openedBy(meeting), rankWith(1, "7"), false);
  ASSERT_EQ(step.what, What::Leave);
  EXPECT_FALSE(step.record); // goes on
  EXPECT_EQ(step.why.message(),
            "rank 3 waits in a meeting, this rank wants a switch: after an "
            "error all ranks meet first");
}

TEST(Attempt, ACommitMakesRoomForTheNext) {
  Attempt committed = openedBy(rankWith(1, "7")).committed("note");
  ArrivalStep step = arrive(committed, rankWith(1, "8"), /*cameBefore=*/true);
  ASSERT_EQ(step.what, What::Open);
  EXPECT_FALSE(step.record->before);
  EXPECT_EQ(step.record->tag, "8");
}

TEST(Attempt, OnlyOwnDoingNamesTheRankThatToldIt) {
  for (ErrorCode code : {ErrorCode::Timeout, ErrorCode::Mismatch})
    EXPECT_EQ((Stop{2, code, "x"}).toldTo(0).message(), "x");
  for (ErrorCode code : {ErrorCode::Cancelled, ErrorCode::Invalid,
                         ErrorCode::PeerLost, ErrorCode::OutOfMemory}) {
    EXPECT_EQ((Stop{2, code, "x"}).toldTo(0).message(), "rank 2 stopped: x");
    EXPECT_EQ((Stop{2, code, "x"}).toldTo(2).message(), "x");
    EXPECT_EQ((Stop{2, code, "x"}).toldTo(0).code(), code);
  }
}

TEST(Attempt, IsReadAsItWasWritten) {
  Attempt attempt = openedBy(rankWith(1, "\"a\\n\""));
  attempt.callsRoll = true;
  attempt.beforeId = "0";
  attempt.before = Stop{3, ErrorCode::OutOfMemory, "line\nother \xff"};
  for (const Attempt &one :
       {attempt, attempt.committed("{\"a\": 1}"),
        attempt.aborted({0, ErrorCode::PeerLost, "gone", {{1, 2}}}, {2, 3})}) {
    auto read = Attempt::parse(one.text());
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->text(), one.text());
    EXPECT_EQ(read->state, one.state);
    EXPECT_EQ(read->note, one.note);
    EXPECT_EQ(read->missing, one.missing);
    EXPECT_EQ(read->stop.gone.ranks, one.stop.gone.ranks);
    EXPECT_EQ(read->stop.toldTo(3).goneRanks().ranks, one.stop.gone.ranks);
    EXPECT_EQ(read->before->code, ErrorCode::OutOfMemory);
  }
}

TEST(Attempt, AnotherVersionOrDamageIsSaid) {
  auto other = Attempt::parse(R"({"form": 9})");
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.status().code(), ErrorCode::Mismatch);
  EXPECT_EQ(other.status().message(),
            "the store's record of the attempt under way has form 9, expected "
            "1: the ranks run different versions");
  for (const char *text :
       {"", "[", "[]", "{}", R"({"form": "1"})", R"({"form": 1, "id": 3})"})
    EXPECT_NE(Attempt::parse(text).status().message().find("is damaged"),
              std::string::npos)
        << text;
}

TEST(Status, AnErrorNamesTheRanksThatItsCauseNames) {
  Status cause = makeError(GoneRanks{{3, 4}}, "lost two");
  EXPECT_EQ(cause.message(), "lost two");
  Status error = makeError("rank 0: ", cause, GoneRanks{{7}});
  EXPECT_EQ(error.message(), "rank 0: lost two");
  EXPECT_EQ(error.goneRanks().ranks, (std::vector<uint32_t>{3, 4}));
  EXPECT_TRUE(makeError("rank ", 0).goneRanks().ranks.empty());
}

TEST(Status, AnErrorHasTheCodeOfItsCause) {
  Status cause = makeError(ErrorCode::PeerLost, "lost rank ", 3);
  EXPECT_EQ(cause.message(), "lost rank 3");
  EXPECT_EQ(cause.code(), ErrorCode::PeerLost);
  Status named = makeError("rank ", 1, ": ", cause);
  EXPECT_EQ(named.message(), "rank 1: lost rank 3");
  EXPECT_EQ(named.code(), ErrorCode::PeerLost);
  EXPECT_EQ(makeError(ErrorCode::Timeout, cause).code(), ErrorCode::Timeout);
  EXPECT_EQ(makeError("no plan").code(), ErrorCode::Invalid);
}

} // namespace
