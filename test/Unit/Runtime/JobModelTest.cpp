//===- JobModelTest.cpp - A job's protocol, in every order ----------------===//
//
// The model of JobModel.h is explored to its end: first the protocol as it is,
// then with one thing wrong in it, which must be found.
//
//===----------------------------------------------------------------------===//

#include "JobModel.h"

#include <gtest/gtest.h>

using namespace dtrt;
using namespace dtrt::test;

namespace {

JobModelSetup among(std::vector<ProcessName> processes, size_t members) {
  JobModelSetup setup;
  setup.processes = std::move(processes);
  setup.members = members;
  setup.slowAnswers = false;
  return setup;
}

JobRequest joined(std::vector<ProcessName> names) {
  JobRequest request;
  request.join = std::move(names);
  return request;
}

JobRequest left(std::vector<ProcessName> names) {
  JobRequest request;
  request.leave = std::move(names);
  return request;
}

JobRequest lost(std::vector<ProcessName> names) {
  JobRequest request;
  request.lost = std::move(names);
  return request;
}

JobRequest laidOut(const std::string &layout, bool flat = false,
                   bool recalls = false) {
  JobRequest request;
  request.layout = layout;
  request.flat = flat;
  request.recalls = recalls;
  return request;
}

/// A job that has snapshots goes to another layout by a flat plan.
JobModelSetup flatWithSnapshots() {
  auto setup = among({"a", "b"}, 2);
  setup.asks["a"] = laidOut("x", /*flat=*/true, /*recalls=*/true);
  setup.failures = setup.timeouts = 1;
  return setup;
}

/// "c" takes the place of "b".
JobModelSetup oneOfTwoReplaced(bool flat) {
  auto setup = among({"a", "b", "c"}, 2);
  setup.asks["c"] = laidOut("x", flat);
  setup.asks["c"].join = {"c"};
  setup.asks["c"].leave = {"b"};
  setup.crashes = setup.storeLosses = setup.failures = 1;
  setup.steps = 0;
  return setup;
}

JobModelSetup takenForLost() {
  auto setup = among({"a", "b", "c"}, 3);
  setup.asks["a"] = lost({"c"});
  setup.crashes = setup.storeLosses = 1;
  return setup;
}

JobModelSetup twoRequests() {
  auto setup = among({"a", "b"}, 2);
  setup.asks["a"] = laidOut("x");
  setup.asks["b"] = laidOut("y");
  setup.crashes = setup.failures = 1;
  setup.steps = 0;
  return setup;
}

JobModelSetup fourSteps() {
  auto setup = among({"a", "b"}, 2);
  setup.asks["a"] = laidOut("x");
  setup.crashes = 1;
  setup.steps = 4;
  return setup;
}

std::string textOf(const JobModelReport &report) {
  std::string text = report.violation;
  for (size_t i = 0; i < report.trace.size(); ++i)
    text += "\n  " + std::to_string(i + 1) + ". " + report.trace[i];
  return text;
}

/// Explores and prints what it has seen, for the tables of docs.
JobModelReport expectSound(const char *name, const JobModelSetup &setup) {
  JobModelReport report = explore(setup);
  EXPECT_EQ(report.violation, "") << textOf(report);
  EXPECT_GT(report.committed, 0u);
  EXPECT_EQ(report.ends,
            report.committed + report.aborted + report.open + report.gone);
  printf("%s: %zu states, %zu transitions, %zu ends: %zu committed, %zu of "
         "them gone back, %zu aborted, %zu under way, %zu gone\n",
         name, report.states, report.transitions, report.ends, report.committed,
         report.recalled, report.aborted, report.open, report.gone);
  return report;
}

} // namespace

//===----------------------------------------------------------------------===//
// The protocol
//===----------------------------------------------------------------------===//

TEST(JobModel, AJobBegins) {
  auto setup = among({"a", "b", "c"}, 0);
  setup.asks["a"] = joined({"a", "b", "c"});
  setup.crashes = setup.storeLosses = setup.failures = 1;
  expectSound("3 found a job", setup);
}

TEST(JobModel, AProcessJoins) {
  auto setup = among({"a", "b", "c"}, 2);
  setup.asks["c"] = joined({"c"});
  setup.crashes = 2;
  expectSound("1 joins 2", setup);
}

TEST(JobModel, AProcessLeavesAndAnotherJoins) {
  expectSound("1 of 2 is replaced", oneOfTwoReplaced(/*flat=*/false));
}

TEST(JobModel, AFlatPlanStatesItsPointOfNoReturn) {
  auto report =
      expectSound("1 of 2 is replaced, flat", oneOfTwoReplaced(/*flat=*/true));
  EXPECT_GT(report.gone, 0u);
}

/// Whatever fails after the point of no return.
TEST(JobModel, WhatIsGoneComesBackFromSnapshots) {
  auto report = expectSound("flat, with snapshots", flatWithSnapshots());
  EXPECT_GT(report.recalled, 0u);
  auto setup = flatWithSnapshots();
  setup.crashes = 1;
  setup.steps = 0;
  report = expectSound("flat, with snapshots, 1 crash", setup);
  EXPECT_GT(report.recalled, 0u);
  setup = oneOfTwoReplaced(/*flat=*/true);
  setup.asks["c"].recalls = true;
  setup.crashes = setup.storeLosses = setup.timeouts = 0;
  report = expectSound("1 of 2 is replaced, flat, with snapshots", setup);
  EXPECT_GT(report.recalled, 0u);
}

/// The others need not wait until the attempt has failed.
TEST(JobModel, ALossAfterThePointOfNoReturn) {
  auto setup = flatWithSnapshots();
  setup.processes = {"a", "b", "c"};
  setup.members = 3;
  setup.asks["b"] = lost({"c"});
  setup.crashes = 1;
  setup.failures = setup.timeouts = setup.steps = 0;
  auto report = expectSound("1 of 3 is lost, flat, with snapshots", setup);
  EXPECT_GT(report.recalled, 0u);
}

/// "c" may be dead, or only slow: then it finds that it was left behind, or
/// that it was not.
TEST(JobModel, AProcessIsLostOrOnlyTakenForIt) {
  expectSound("1 of 3 is taken for lost", takenForLost());
}

/// What the others go on with is of a step before those that they have taken.
TEST(JobModel, AfterALossTheOthersGoBack) {
  auto setup = takenForLost();
  setup.goesBack = true;
  expectSound("1 of 3 is taken for lost, the others go back", setup);
}

/// Also while that process wants something itself.
TEST(JobModel, ALossSupersedesAnotherSwitch) {
  auto setup = among({"a", "b"}, 2);
  setup.asks["a"] = lost({"b"});
  setup.asks["b"] = laidOut("x");
  setup.crashes = 1;
  expectSound("1 of 2 is taken for lost in a switch", setup);
}

TEST(JobModel, ANewerRequestSupersedesAnOlderOne) {
  expectSound("2 requests of 2", twoRequests());
}

TEST(JobModel, AJoinerAndALeaverAskAtOnce) {
  auto setup = among({"a", "b", "c"}, 2);
  setup.asks["b"] = left({"b"});
  setup.asks["c"] = joined({"c"});
  setup.steps = 0;
  setup.timeouts = 1;
  expectSound("1 joins and 1 leaves", setup);
}

TEST(JobModel, TrainersGoOnUntilTheBoundary) {
  expectSound("4 steps", fourSteps());
}

TEST(JobModel, FourProcesses) {
  auto setup = among({"a", "b", "c", "d"}, 3);
  setup.asks["d"] = joined({"d"});
  setup.asks["d"].leave = {"c"};
  setup.crashes = 1;
  setup.steps = 0;
  setup.timeouts = 1;
  expectSound("1 of 3 is replaced", setup);
}

TEST(JobModel, OneOfFourIsLost) {
  auto setup = among({"a", "b", "c", "d"}, 4);
  setup.asks["a"] = lost({"d"});
  setup.crashes = 1;
  setup.steps = 0;
  setup.timeouts = 1;
  expectSound("1 of 4 is taken for lost", setup);
}

/// Meanwhile nobody steps in a world that has been left.
TEST(JobModel, TrainersHearLateOfTheirNewWorld) {
  auto setup = fourSteps();
  setup.steps = 2;
  setup.slowTrainers = true;
  expectSound("late trainers", setup);
  setup = takenForLost();
  setup.slowTrainers = true;
  setup.storeLosses = 0;
  setup.goesBack = true;
  expectSound("late trainers, 1 of 3 is taken for lost", setup);
  setup = twoRequests();
  setup.slowTrainers = true;
  expectSound("late trainers, 2 requests of 2", setup);
}

/// Answers of the store are late by any time, in which the process sees its
/// work end and its time pass.
TEST(JobModel, AnswersAreLate) {
  auto setup = among({"a", "b"}, 2);
  setup.slowAnswers = true;
  setup.crashes = setup.storeLosses = setup.failures = 1;
  for (bool flat : {false, true}) {
    setup.asks["a"] = laidOut("x", flat);
    expectSound(flat ? "late answers, flat" : "late answers", setup);
  }
}

TEST(JobModel, AnswersToThreeAreLate) {
  auto setup = takenForLost();
  setup.slowAnswers = true;
  setup.storeLosses = 0;
  setup.steps = 0;
  expectSound("late answers, 1 of 3 is taken for lost", setup);
  for (bool flat : {false, true}) {
    setup = oneOfTwoReplaced(flat);
    setup.slowAnswers = true;
    setup.storeLosses = setup.failures = 0;
    setup.timeouts = 1;
    expectSound(flat ? "late answers, 1 of 2 is replaced, flat"
                     : "late answers, 1 of 2 is replaced",
                setup);
  }
}

//===----------------------------------------------------------------------===//
// Mistakes
//===----------------------------------------------------------------------===//

namespace {

struct Mistake {
  const char *name;
  JobMutation mutation;
  const char *violation; // in part
};

std::ostream &operator<<(std::ostream &out, const Mistake &mistake) {
  return out << mistake.name;
}

/// One of the worlds above, without what the mistake does not need.
JobModelSetup setupOf(JobMutation mutation) {
  JobModelSetup setup;
  switch (mutation) {
  case JobMutation::NumberReused:
  case JobMutation::StaleWork:
  case JobMutation::CommitForgotten:
  case JobMutation::LateVoteStays:
    setup = twoRequests();
    break;
  case JobMutation::ReturnedGoesOn:
    setup = takenForLost();
    break;
  case JobMutation::BoundaryNotCompared:
  case JobMutation::PromiseBroken:
    setup = fourSteps();
    break;
  case JobMutation::GoneForgotten:
  case JobMutation::BareStepsOn:
    setup = flatWithSnapshots();
    setup.steps = 2;
    break;
  case JobMutation::StepsBeforeAdopting:
    setup = fourSteps();
    setup.slowTrainers = true;
    break;
  default:
    setup = oneOfTwoReplaced(mutation == JobMutation::SourceGoneEarly);
    setup.crashes = setup.storeLosses = setup.failures = 0; // none is needed
    break;
  }
  setup.mutation = mutation;
  return setup;
}

class JobMistakes : public testing::TestWithParam<Mistake> {};

} // namespace

TEST_P(JobMistakes, AreFound) {
  JobModelSetup setup = setupOf(GetParam().mutation);
  setup.seeks = GetParam().violation;
  JobModelReport report = explore(setup);
  EXPECT_NE(report.violation.find(GetParam().violation), std::string::npos)
      << textOf(report);
  EXPECT_LE(report.trace.size(), 40u);
  printf("%s: %s\n", GetParam().name, textOf(report).c_str());
}

INSTANTIATE_TEST_SUITE_P(
    Runtime, JobMistakes,
    testing::Values(
        Mistake{"NoCompareAndSet", JobMutation::NoCompareAndSet, "split"},
        Mistake{"TornDownEarly", JobMutation::TornDownEarly, "a world is lost"},
        Mistake{"NumberReused", JobMutation::NumberReused,
                "is committed before"},
        Mistake{"VoteCountedTwice", JobMutation::VoteCountedTwice,
                "is committed before"},
        Mistake{"TimeoutDecides", JobMutation::TimeoutDecides, "split"},
        Mistake{"StaleWork", JobMutation::StaleWork,
                "bytes of another attempt"},
        Mistake{"LeaversNotAwaited", JobMutation::LeaversNotAwaited,
                "is committed before"},
        Mistake{"BoundaryNotCompared", JobMutation::BoundaryNotCompared,
                "beyond the boundary"},
        Mistake{"PromiseBroken", JobMutation::PromiseBroken,
                "beyond the boundary"},
        Mistake{"CommitForgotten", JobMutation::CommitForgotten, "split"},
        Mistake{"SourceGoneEarly", JobMutation::SourceGoneEarly,
                "a world is lost"},
        Mistake{"ReturnedGoesOn", JobMutation::ReturnedGoesOn, "is in world"},
        Mistake{"TimeoutIgnored", JobMutation::TimeoutIgnored, "for ever"},
        Mistake{"AnySilenceCommits", JobMutation::AnySilenceCommits,
                "is committed before"},
        Mistake{"StepsBeforeAdopting", JobMutation::StepsBeforeAdopting,
                "which it has left"},
        Mistake{"LateVoteStays", JobMutation::LateVoteStays, "stays"},
        Mistake{"GoneForgotten", JobMutation::GoneForgotten,
                "moves bytes that are gone"},
        Mistake{"BareStepsOn", JobMutation::BareStepsOn, "which it has left"}),
    [](const auto &info) { return info.param.name; });
