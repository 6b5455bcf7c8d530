//===- JobMemberTest.cpp - What a process does about a switch -------------===//
//
// Single steps; JobModelTest.cpp has all orders of them.
//
//===----------------------------------------------------------------------===//

#include "dtrt/manager/JobMember.h"

#include <gtest/gtest.h>

using namespace dtrt;

namespace {

using What = JobAction::What;

JobEvent eventOf(JobEvent::What what) {
  JobEvent event;
  event.what = what;
  return event;
}

std::vector<JobAction> read(JobMember &member, const JobRecord &record) {
  JobEvent event = eventOf(JobEvent::What::Read);
  event.record = record;
  return member.on(event);
}

JobRequest joined(const ProcessName &name) {
  JobRequest request;
  request.join = {name};
  return request;
}

} // namespace

/// A clock that began before would end it at once, and the attempt with it.
TEST(JobMember, WhoBeginsToWaitForAnAttemptOfOthersHasAllItsTime) {
  JobMember member("c");
  JobRecord moves = JobRecord().opened(joined("a"), "a").advanced();
  (void)member.on(eventOf(JobEvent::What::Look));
  (void)read(member, moves);
  EXPECT_FALSE(member.waits());
  uint64_t before = member.wait();
  JobEvent ask = eventOf(JobEvent::What::Ask);
  ask.request = joined("c");
  ASSERT_EQ(member.on(ask).size(), 1u); // looks
  EXPECT_TRUE(read(member, moves).empty());
  EXPECT_TRUE(member.waits());
  EXPECT_GT(member.wait(), before);
  // Only when its time has passed does it end the other attempt.
  auto actions = member.on(eventOf(JobEvent::What::TimedOut));
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(actions[0].what, What::Replace);
  EXPECT_EQ(actions[0].desired.phase, JobPhase::Aborted);
}

/// A request waits for the attempt of others that cannot be put off any more.
TEST(JobMember, TellsWhatIsQueued) {
  JobMember member("c");
  JobRecord moves = JobRecord().opened(joined("a"), "a").advanced();
  (void)member.on(eventOf(JobEvent::What::Look));
  (void)read(member, moves);
  EXPECT_EQ(member.queued(), nullptr);
  JobEvent ask = eventOf(JobEvent::What::Ask);
  ask.request = joined("c");
  (void)member.on(ask);
  (void)read(member, moves);
  ASSERT_NE(member.queued(), nullptr);
  EXPECT_EQ(member.queued()->join, std::vector<ProcessName>{"c"});
  (void)member.on(eventOf(JobEvent::What::Look));
  auto actions = read(member, moves.advanced());
  ASSERT_EQ(actions.size(), 1u);
  // It opens an attempt: until the store has said so it is not under way.
  EXPECT_NE(member.queued(), nullptr);
  JobEvent opened = eventOf(JobEvent::What::Replaced);
  opened.record = actions[0].desired;
  (void)member.on(opened);
  EXPECT_EQ(member.queued(), nullptr);
}

/// Steps that take less than a call of the store would be at the next horizon
/// before that is there, until the attempt ends by its timeout.
TEST(JobMember, ATrainerStandsWhileItsBoundaryIsPutOff) {
  JobMember member("a");
  JobRecord record = JobRecord().opened(joined("a"), "a");
  auto give = [&](JobEvent::What what, uint64_t number = 0) {
    JobEvent event = eventOf(what);
    event.attempt = event.step = number;
    event.count = 1;
    event.record = record;
    return member.on(event);
  };
  (void)give(JobEvent::What::Look);
  (void)give(JobEvent::What::Read);
  (void)give(JobEvent::What::Prepared, 1);
  for (JobPhase phase :
       {JobPhase::Transferring, JobPhase::Committed, JobPhase::Released}) {
    auto actions = give(JobEvent::What::Counted);
    record = actions.back().desired;
    ASSERT_EQ(record.phase, phase);
    (void)give(JobEvent::What::Replaced);
    (void)give(JobEvent::What::Transferred, 1);
    (void)give(JobEvent::What::Verified, 1);
    (void)give(JobEvent::What::Adopted, 1);
  }
  JobRequest request;
  request.layout = "x";
  record = record.opened(request, "b");
  record.parties = 2; // another one is not ready
  (void)give(JobEvent::What::Look);
  (void)give(JobEvent::What::Read);
  (void)give(JobEvent::What::Boundary, 5);
  EXPECT_TRUE(member.mayStep());
  auto actions = give(JobEvent::What::Prepared, 2);
  ASSERT_EQ(actions.size(), 1u);
  record = actions[0].desired;
  EXPECT_EQ(record.horizon, 6u);
  EXPECT_FALSE(member.mayStep());
  (void)give(JobEvent::What::Replaced);
  EXPECT_TRUE(member.mayStep());
  (void)give(JobEvent::What::Boundary, 6);
  EXPECT_FALSE(member.mayStep());
}

/// A transport's timeout is a failure like any other: news do not mend it.
TEST(JobMember, AFailureStaysWhateverTheRecordSays) {
  JobMember member("a");
  JobRecord opened = JobRecord().opened(joined("a"), "a");
  (void)member.on(eventOf(JobEvent::What::Look));
  (void)read(member, opened);
  JobEvent failed = eventOf(JobEvent::What::Failed);
  failed.attempt = opened.attempt;
  failed.why = makeError(ErrorCode::Timeout, "a peer does not answer");
  auto actions = member.on(failed);
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(actions[0].desired.phase, JobPhase::Aborted);
  JobEvent refused = eventOf(JobEvent::What::Replaced);
  refused.record = opened.withHorizon(9);
  actions = member.on(refused);
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(actions[0].desired.phase, JobPhase::Aborted);
  EXPECT_EQ(actions[0].desired.why, "a peer does not answer");
}
