//===- JobModel.h - Every order in which a job can go -----------*- C++ -*-===//
//
// A few processes (`JobMember`, the code that runs in a job), their store, and
// all that can happen to them, as a graph of states that is explored to its
// end. A process may take its next step at any time or never: so pauses of any
// length are among the orders. Of each state the rules of a job are checked,
// and of the whole graph that it has no circle and that it ends well.
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_JOBMODEL_H
#define DT_TEST_JOBMODEL_H

#include "dtrt/manager/JobMember.h"

#include <map>

namespace dtrt::test {

/// What may be wrong with a protocol; each is found by the model.
enum class JobMutation {
  None,
  NoCompareAndSet,     // the record is set, whatever is there
  TornDownEarly,       // the old world goes when a process is done
  NumberReused,        // votes for an attempt count for the next one
  VoteCountedTwice,    // a vote whose answer is lost is sent again
  TimeoutDecides,      // who has waited too long takes it for aborted
  StaleWork,           // what an attempt has moved counts for the next one
  LeaversNotAwaited,   // the new world's members decide alone
  BoundaryNotCompared, // a boundary is set whatever was promised meanwhile
  PromiseBroken,       // a trainer goes beyond the horizon without asking
  CommitForgotten,     // the record does not say what made the world
  SourceGoneEarly,     // flat: bytes move before all have begun
  ReturnedGoesOn,      // who was given up goes on when it comes back
  TimeoutIgnored,      // nobody looks at the clock
  AnySilenceCommits,   // who finds the counter not full commits all the same
  StepsBeforeAdopting, // a trainer goes on before it has heard of its new world
  LateVoteStays,       // who has voted late does not take its vote back
  GoneForgotten,       // the next attempt does not know that a world is gone
  BareStepsOn,         // who holds nothing any more takes steps
};

struct JobModelSetup {
  /// By rank; the first `members` of the processes.
  std::vector<ProcessName> processes;
  size_t members = 0;
  /// What a process may ask for, once, at any time.
  std::map<ProcessName, JobRequest> asks;
  /// How many of these may happen, of any process at any time.
  unsigned crashes = 0;
  unsigned storeLosses = 0; // before or after the call was carried out
  unsigned failures = 0;    // of a process's work
  /// How many processes may be taken for late although others could still go
  /// on; where nothing else can happen any more, time passes all the same.
  unsigned timeouts = ~0u;
  /// Steps that trainers take, and more where a boundary asks for it.
  uint64_t steps = 1;
  /// After a loss all go back, to before the first step; where a world is gone
  /// they do so anyway.
  bool goesBack = false;
  /// Answers of the store are on their way for any time.
  bool slowAnswers = true;
  /// Trainers hear of their new world after any time.
  bool slowTrainers = false;
  JobMutation mutation = JobMutation::None;
  /// Only a violation whose text has this in it ends the exploration.
  std::string seeks;
};

struct JobModelReport {
  size_t states = 0;
  size_t transitions = 0;
  size_t ends = 0; // states in which nothing more can happen
  /// Of the ends: with the last attempt committed, aborted, under way (nobody
  /// is left to end it), and such in which the old world is gone, as stated.
  size_t committed = 0, aborted = 0, open = 0, gone = 0;
  /// Of those that are committed: after a world was gone.
  size_t recalled = 0;
  std::string violation;          // empty: none
  std::vector<std::string> trace; // what led to it, the shortest
};

JobModelReport explore(const JobModelSetup &setup);

} // namespace dtrt::test

#endif // DT_TEST_JOBMODEL_H
