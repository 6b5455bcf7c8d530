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

/// Whose steps take less than a call of the store would never catch up with its
/// trainer, and the attempt would end by its timeout.
TEST(JobMember, PutsABoundaryOffByMoreForATrainerThatIsThereAgain) {
  JobMember member("a");
  JobRecord record = JobRecord().opened(joined("a"), "a");
  auto give = [&](JobEvent::What what, uint64_t attempt = 0) {
    JobEvent event = eventOf(what);
    event.attempt = attempt;
    event.count = 1;
    event.record = record;
    return member.on(event);
  };
  auto step = [&](uint64_t number) {
    JobEvent event = eventOf(JobEvent::What::Boundary);
    event.step = number;
    return member.on(event);
  };
  (void)give(JobEvent::What::Look);
  (void)give(JobEvent::What::Read);
  (void)give(JobEvent::What::Prepared, 1);
  for (int done = 0; done < 3; ++done) {
    auto actions = give(JobEvent::What::Counted);
    ASSERT_FALSE(actions.empty());
    record = actions.back().desired;
    actions = give(JobEvent::What::Replaced);
    if (record.phase == JobPhase::Transferring) {
      (void)give(JobEvent::What::Transferred, 1);
      (void)give(JobEvent::What::Verified, 1);
    }
  }
  ASSERT_EQ(record.phase, JobPhase::Released);
  (void)give(JobEvent::What::Adopted, 1);
  JobRequest request;
  request.layout = "x";
  record = record.opened(request, "b");
  record.parties = 2; // another one is not ready
  (void)give(JobEvent::What::Look);
  (void)give(JobEvent::What::Read);
  uint64_t own = 5;
  (void)step(own);
  auto actions = give(JobEvent::What::Prepared, 2);
  for (uint64_t more : {1, 2, 4, 8}) {
    ASSERT_EQ(actions.size(), 1u);
    ASSERT_EQ(actions[0].what, What::Replace);
    record = actions[0].desired;
    EXPECT_EQ(record.horizon, own + more);
    if (more < 8)
      (void)step(own = record.horizon); // before the answer
    actions = give(JobEvent::What::Replaced);
  }
  // It has promised, and comes there in its own time.
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(actions[0].what, What::Count);
  (void)give(JobEvent::What::Counted);
  actions = step(own = record.horizon);
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(actions[0].desired.horizon, own + 1);
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
