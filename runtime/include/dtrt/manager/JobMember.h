//===- JobMember.h - What a process does about a switch ---------*- C++ -*-===//
//
// One process's part in the switches of a job, as a state machine: events go
// in, calls of the store and work for the trainer come out. It makes no call
// itself, and knows no clock. `JobDriver` carries it out; the model checker of
// the tests runs many of these in every order.
//
//   Idle ----------> Preparing ---> Ready ---> [Beginning] ---> Transferring
//    ^   an attempt   work       vote 1   boundary   vote 2, flat      |
//    |                                                                 v
//    '--------------- Decided <------------ Voted <----------- Verifying
//                     vote 4   decision     vote 3
//
// and from all of these back to Idle when the record says that the attempt has
// failed. Where that was after the point of no return of a flat plan, whoever
// is Idle holds nothing, and takes no step until it has gone back to a
// snapshot. There is no coordinator: a vote is an addition to a counter, and
// the one whose addition makes it full changes the record. If that one dies or
// is slow, any other finds the counter full when its own time has passed, and
// does it instead; where the counter is not full it aborts.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_MANAGER_JOBMEMBER_H
#define DTRT_MANAGER_JOBMEMBER_H

#include "dtrt/manager/JobRecord.h"

#include <optional>

namespace dtrt {

/// What parties of an attempt count, each a counter of its own.
enum class JobVote { Ready, Begun, Done, Read };

const char *jobVoteName(JobVote vote);

struct JobEvent {
  enum class What {
    // From the trainer, or from who watches.
    Ask,      // `request`
    Look,     // at the record
    Boundary, // `step` steps of the job are over
    TimedOut, // what this process waits for has taken too long
    // Answers of the store to the one call that was made.
    Read,     // `record`
    Replaced, // `record`: as it is now
    Counted,  // `count`
    Lost,     // it does not answer, or is gone: `why`
    // From what does the work of `attempt`.
    Prepared,
    Transferred,
    Verified,
    Adopted, // the trainer has heard of its new world
    Failed,  // `why`
  };
  What what = What::Look;
  JobRequest request;
  uint64_t step = 0;
  JobRecord record;
  uint64_t count = 0;
  uint64_t attempt = 0;
  /// Prepared: the old world is given up, for what it was at this step. All
  /// parties say the same.
  std::optional<uint64_t> backTo;
  Status why;
};

/// Why a process has no part in the job any more.
enum class JobEnd {
  None,
  Left,      // as was asked
  Overtaken, // the others have gone on without it
  Gone,      // flat: failed after the point of no return, without snapshots
  Stranded,  // without the store nobody knows what was decided
};

struct JobAction {
  enum class What {
    // Of the store; one at a time.
    Read,
    Replace, // by `desired`, if the record is `expected`
    Count,   // adds `amount` to `vote` of `attempt`
    // Work on `attempt`, which ends with an event.
    Prepare,
    Transfer,
    Verify,
    // Work that is done at once.
    Adopt,   // the new world is the world: the old one may be released. Ends
             // with an event too: no step is taken before
    Discard, // what was made for the attempt; the old world goes on
    Refuse,  // what was asked for: `why`
    Sweep,   // keys that nobody needs: of `attempt`, and the world `world`
    Forget,  // its `vote` of `attempt`, which may have come after a sweep
    Stop,    // for good: `end`
  };
  What what = What::Read;
  uint64_t attempt = 0;
  JobRecord expected, desired;
  JobVote vote = JobVote::Ready;
  uint64_t amount = 0;
  std::string world;
  JobEnd end = JobEnd::None;
  Status why;
};

class JobMember {
public:
  enum class State {
    Idle,
    Preparing,
    Ready,
    Beginning,
    Transferring,
    Verifying,
    Voted,
    Decided,
    Stopped,
  };

  /// `lead`: by how many steps a boundary is put off when a process comes to it
  /// before all are ready; 1 or more.
  explicit JobMember(ProcessName self, uint64_t lead = 1)
      : self(std::move(self)), lead(lead) {}

  /// At most one of the actions is a call of the store. Its answer has to come
  /// before another one is made.
  std::vector<JobAction> on(const JobEvent &event);

  /// Whether the trainer may begin another step.
  bool mayStep() const;
  /// Whether something here waits for others: then a clock runs, anew for every
  /// `wait`, and ends with `TimedOut`.
  bool waits() const;
  /// Counts up with everything that this process waits for.
  uint64_t wait() const { return waitNumber; }
  /// Whether it waits for an answer of the store.
  bool calls() const { return call != Call::None; }

  const ProcessName &name() const { return self; }
  State state() const { return now; }
  /// Of the world that this process is in; 0: in none.
  uint64_t epoch() const { return ownEpoch; }
  /// That it takes part in; 0: none.
  uint64_t attempt() const { return ownAttempt; }
  /// As it was last seen.
  const JobRecord &record() const { return known; }
  uint64_t step() const { return ownStep; }
  /// What this process has asked for and has yet to open an attempt for; null:
  /// nothing.
  const JobRequest *queued() const {
    return asks || call == Call::Open ? &wish : nullptr;
  }

  /// All that what happens next depends on.
  template <typename Visit> void visit(Visit visit) const {
    visit(uint64_t(now)), visit(uint64_t(call)), visit(uint64_t(counted));
    visit(known), visit(sent), visit(ownEpoch), visit(ownAttempt),
        visit(fromEpoch);
    visit(ownStep), visit(promise), visit(uint64_t(hasVoted));
    visit(uint64_t(isFull)), visit(uint64_t(isLate)), visit(uint64_t(asks));
    visit(uint64_t(wantsLook)), visit(uint64_t(stays)), visit(wish);
    visit(uint64_t(fault.ok())), visit(uint64_t(isFaultOfTime));
    visit(uint64_t(isPromised)), visit(backTo ? *backTo + 1 : 0);
    visit(adopting), visit(unread);
  }

private:
  enum class Call { None, Read, Replace, Open, Count };

  // Events.
  void worked(const JobEvent &event);
  void answered(const JobEvent &event);
  void countIs(uint64_t count);
  void takeTooLong(const Status &why);
  void learn(const JobRecord &record);
  void learnOfUnread();
  void learnOfOwn();
  void learnOfOthers();
  void begin();
  void conclude(bool committed, const Status &why);
  void stop(JobEnd end, const Status &why);

  // What to do next.
  void next();
  bool nextOfAttempt();
  bool nextOfLate();
  bool nextOfDecided();
  bool nextOfRequest();
  bool canSupersede() const;
  bool nextOfReady();
  void enter(State state);
  void arriveAtBoundary();
  void startWork(JobAction::What what);

  // Calls of the store.
  void read();
  void replace(const JobRecord &desired);
  void count(uint64_t amount);
  void sweep(uint64_t attempt, const std::string &world);
  void sweepAfter(const JobRecord &record);
  void forget(JobVote vote, uint64_t attempt);

  bool isSource() const;
  bool isBare() const;
  bool isGivenUp() const;
  bool hasVote() const;
  bool mayAdvance() const;
  JobVote voteOf() const;

  ProcessName self;
  uint64_t lead;
  State now = State::Idle;
  Call call = Call::None;
  bool counted = false; // the call of Count was a vote
  JobRecord sent;       // the call of Replace or Open
  JobRecord known;
  uint64_t ownEpoch = 0;
  uint64_t ownAttempt = 0;
  uint64_t fromEpoch = 0; // the job's when the attempt began
  uint64_t ownStep = 0;
  bool isPromised = false; // not to go beyond `promise`
  uint64_t promise = 0;
  std::optional<uint64_t> backTo; // that the attempt's source is of
  bool hasVoted = false;          // in this state
  bool isFull = false;            // the counter of this state
  bool isLate = false;            // what is waited for
  bool asks = false;              // for `wish`
  bool wantsLook = false;
  bool stays = false; // is a member of the new world
  // The attempt that has made a world of which the trainer has yet to hear.
  uint64_t adopting = 0;
  // That it has said to have read the end of, where others may not have.
  uint64_t unread = 0;
  JobRequest wish;
  Status fault; // why this process cannot go on with the attempt
  bool isFaultOfTime = false;
  // For the clock; nothing here depends on them.
  uint64_t waitNumber = 0;
  bool waited = false;
  std::vector<JobAction> actions;
};

const char *jobStateName(JobMember::State state);

} // namespace dtrt

#endif // DTRT_MANAGER_JOBMEMBER_H
