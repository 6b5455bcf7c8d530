//===- JobRecordTest.cpp - What the record of a job says ------------------===//

#include "ExpectContains.h"

#include "dtrt/manager/JobRecord.h"

#include <gtest/gtest.h>
#include <map>

using namespace dtrt;
using namespace dtrt::test;

namespace {

using Names = std::vector<ProcessName>;

/// A job whose first world has these members.
JobRecord foundedBy(const Names &members) {
  JobRequest request;
  request.join = members;
  request.layout = "tp 2";
  return JobRecord().opened(request, "a").advanced().advanced().advanced();
}

/// Worlds by name, as a store has them.
struct Worlds {
  explicit Worlds(const JobRecord &record) {
    for (const JobWorldRef &world : {record.world, record.target})
      texts[world->name] = world->text();
  }
  Result<JobWorldRef> operator()(const std::string &name) const {
    auto world = JobWorld::parse(name, texts.at(name));
    DTRT_RETURN_IF_ERROR(world);
    return std::make_shared<const JobWorld>(*world);
  }
  std::map<std::string, std::string> texts;
};

} // namespace

TEST(JobRecord, RanksOfWhoStaysKeepTheirOrder) {
  JobRequest request;
  request.join = {"e", "b"};
  request.leave = {"c"};
  request.lost = {"a"};
  JobWorld next = request.appliedTo(*foundedBy({"a", "b", "c", "d"}).world);
  EXPECT_EQ(next.members, (Names{"b", "d", "e"}));
  EXPECT_EQ(next.layout, "tp 2");
}

TEST(JobRecord, PartiesAreBothWorldsButForTheLost) {
  JobRequest request;
  request.join = {"d"};
  request.leave = {"b"};
  request.lost = {"c"};
  JobRecord open = foundedBy({"a", "b", "c"}).opened(request, "a");
  EXPECT_EQ(open.parties, 3u);
  for (const char *party : {"a", "b", "d"})
    EXPECT_TRUE(open.isParty(party)) << party;
  for (const char *other : {"c", "e"})
    EXPECT_FALSE(open.isParty(other)) << other;
}

TEST(JobRecord, ANewerAttemptTakesOverWhatWasWanted) {
  JobRequest joins, lays;
  joins.join = {"c"};
  joins.flat = true;
  lays.layout = "tp 4";
  JobRecord first = foundedBy({"a", "b"}).opened(joins, "c");
  JobRecord second = first.opened(lays, "a");
  EXPECT_EQ(second.attempt, first.attempt + 1);
  EXPECT_EQ(second.target->members, (Names{"a", "b", "c"}));
  EXPECT_EQ(second.target->layout, "tp 4");
  EXPECT_TRUE(second.flat);
  // What has failed is not tried again by itself; the job's plans stay flat.
  JobRecord third = first.aborted("b", makeError("no")).opened(lays, "a");
  EXPECT_EQ(third.target->members, (Names{"a", "b"}));
  EXPECT_TRUE(third.flat);
}

TEST(JobRecord, GoesFromOneWorldToTheNext) {
  JobRequest request;
  request.layout = "tp 4";
  JobRecord record = foundedBy({"a", "b"}).opened(request, "a").withHorizon(7);
  std::string left = record.world->name, target = record.target->name;
  record = record.advanced();
  EXPECT_EQ(record.phase, JobPhase::Transferring);
  record = record.advanced();
  EXPECT_EQ(record.phase, JobPhase::Committed);
  EXPECT_EQ(record.epoch, 2u);
  EXPECT_EQ(record.world->name, target);
  EXPECT_EQ(record.firstStep, 7u);
  EXPECT_EQ(record.bornOf, record.attempt);
  EXPECT_EQ(record.leaving, left);
  record = record.advanced();
  EXPECT_EQ(record.phase, JobPhase::Released);
  EXPECT_EQ(record.leaving, "");
}

TEST(JobRecord, AnAbortLosesAWorldOnlyAfterThePointOfNoReturn) {
  JobRequest request;
  request.layout = "tp 4";
  request.flat = true;
  JobRecord moves = foundedBy({"a"}).opened(request, "a").advanced();
  Status why = makeError(ErrorCode::PeerLost, "gone");
  EXPECT_FALSE(moves.aborted("a", why).gone);
  EXPECT_EQ(moves.advanced().phase, JobPhase::Passed);
  EXPECT_TRUE(moves.advanced().aborted("a", why).gone);
}

TEST(JobRecord, WhatIsGoneIsGoneUntilThereIsAnotherWorld) {
  JobRequest request, loses;
  request.layout = "tp 4";
  request.flat = true;
  loses.lost = {"b"};
  JobRecord passed =
      foundedBy({"a", "b"}).opened(request, "a").advanced().advanced();
  ASSERT_EQ(passed.phase, JobPhase::Passed);
  Status why = makeError(ErrorCode::PeerLost, "gone");
  for (const JobRecord &next :
       {passed.opened(loses, "a"), passed.aborted("a", why).opened({}, "a")}) {
    EXPECT_TRUE(next.gone);
    EXPECT_FALSE(next.passes()); // its source are copies
    EXPECT_TRUE(next.aborted("a", why).gone);
    JobRecord made = next.advanced().advanced();
    EXPECT_EQ(made.phase, JobPhase::Committed);
    EXPECT_FALSE(made.gone);
    EXPECT_TRUE(made.opened(request, "a").passes());
  }
}

/// Nothing goes when a job is founded, nor when copies are the source.
TEST(JobRecord, NotEveryAttemptOfAFlatJobHasAPointOfNoReturn) {
  JobRequest request;
  request.join = {"a", "b"};
  request.flat = request.recalls = true;
  JobRecord founded = JobRecord().opened(request, "a");
  EXPECT_FALSE(founded.passes());
  founded = founded.advanced().advanced().advanced();
  EXPECT_TRUE(founded.opened({}, "a").passes());
  EXPECT_TRUE(founded.opened({}, "a").recalls);
  request = {};
  request.lost = {"b"};
  EXPECT_FALSE(founded.opened(request, "a").passes());
}

TEST(JobRecord, IsReadAsItWasWritten) {
  JobRequest request;
  request.join = {"c"};
  request.lost = {"b"};
  JobRequest flat;
  flat.layout = "tp 4";
  flat.flat = flat.recalls = true;
  JobRecord founded = foundedBy({"a", "b"});
  JobRecord open = founded.opened(request, "a");
  JobRecord passed = founded.opened(flat, "a").advanced().advanced();
  for (const JobRecord &record :
       {JobRecord(), open, open.advanced(),
        open.aborted("a", makeError(ErrorCode::Timeout, "\"late\"\n")),
        open.advanced().advanced(), passed, passed.opened(request, "a")}) {
    auto read = JobRecord::parse(record.text(), Worlds(record));
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(*read, record);
    EXPECT_EQ(read->target->members, record.target->members);
    EXPECT_EQ(read->text(), record.text());
  }
}

TEST(JobRecord, WhoKnowsTheWorldReadsWhatChanges) {
  Names many;
  for (int i = 0; i < 40; ++i)
    many.push_back("process " + std::to_string(i));
  JobRequest request;
  request.join = {"new"};
  request.leave = {many[3]};
  request.lost = {many[1], many[39]};
  request.layout = "tp 4";
  JobRecord open = foundedBy(many).opened(request, many[0]);
  size_t numRead = 0;
  auto load = [&](const std::string &name) -> Result<JobWorldRef> {
    ++numRead;
    EXPECT_EQ(name, open.world->name);
    return open.world;
  };
  auto read = JobRecord::parse(open.text(), load);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(numRead, 1u);
  EXPECT_EQ(read->target->name, open.target->name);
  EXPECT_EQ(read->target->members, open.target->members);
  EXPECT_EQ(read->target->layout, open.target->layout);
  EXPECT_EQ(read->text(), open.text());
  EXPECT_LT(open.text().size(), 1000u);
}

TEST(JobRecord, AChangeOfManyWordsIsReadFromTheWorldsOwnRecord) {
  JobRequest many, longs, returns, leaves;
  for (int i = 0; i < 17; ++i)
    many.join.push_back("process " + std::to_string(i));
  longs.layout = std::string(1025, 'x');
  JobRecord founded = foundedBy({"a", "b", "c"});
  EXPECT_FALSE(founded.opened(many, "a").change);
  EXPECT_FALSE(founded.opened(longs, "a").change);
  // A newer attempt takes "a" in again, as the last one.
  leaves.leave = {"a"};
  returns.join = {"a"};
  JobRecord again = founded.opened(leaves, "b").opened(returns, "a");
  EXPECT_EQ(again.target->members, (Names{"b", "c", "a"}));
  EXPECT_FALSE(again.change);
  for (const JobRequest &request : {many, longs}) {
    JobRecord open = founded.opened(request, "a");
    auto read = JobRecord::parse(open.text(), Worlds(open));
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->target->members, open.target->members);
    EXPECT_EQ(read->target->layout, open.target->layout);
  }
}

TEST(JobRecord, RefusesWhatIsDamaged) {
  JobRecord record = foundedBy({"a"});
  Worlds worlds(record);
  std::string text = record.text();
  auto changed = [&](const std::string &from, const std::string &to) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    return JobRecord::parse(other, worlds).status().message();
  };
  expectContains(JobRecord::parse("{", worlds).status().message(), "damaged");
  expectContains(
      changed("\"form\":3", "\"form\":4"),
      "has form 4, expected 3: the processes run different versions");
  expectContains(changed("released", "resting"), "no phase resting");
  expectContains(changed("\"epoch\":1", "\"epoch\":\"x\""), "damaged");
  EXPECT_FALSE(JobWorld::parse("w", "[]").ok());
}
