//===- JobMember.cpp - What a process does about a switch -----------------===//

#include "dtrt/manager/JobMember.h"

#include <utility>

namespace dtrt {

const char *jobVoteName(JobVote vote) {
  constexpr const char *names[] = {"ready", "begun", "done", "read"};
  return names[size_t(vote)];
}

const char *jobStateName(JobMember::State state) {
  constexpr const char *names[] = {"idle",      "preparing",    "ready",
                                   "beginning", "transferring", "verifying",
                                   "voted",     "decided",      "stopped"};
  return names[size_t(state)];
}

//===----------------------------------------------------------------------===//
// What others may ask
//===----------------------------------------------------------------------===//

/// Whether it holds a part of the world that the attempt leaves.
bool JobMember::isSource() const {
  return ownEpoch != 0 && ownEpoch == fromEpoch;
}

/// Whether what it held is gone.
bool JobMember::isBare() const {
  return known.gone && ownEpoch != 0 && ownEpoch == known.epoch;
}

/// The others go on as if this process were not there; it may come about.
bool JobMember::isGivenUp() const {
  return ownAttempt == 0 && known.isOpen() && ownEpoch != 0 &&
         ownEpoch == known.epoch && known.isLost(self);
}

bool JobMember::hasVote() const {
  return now == State::Ready || now == State::Beginning ||
         now == State::Voted || now == State::Decided;
}

JobVote JobMember::voteOf() const {
  return now == State::Ready       ? JobVote::Ready
         : now == State::Beginning ? JobVote::Begun
         : now == State::Voted     ? JobVote::Done
                                   : JobVote::Read;
}

/// What a trainer that has yet to hear of its new world does is done in the one
/// that the others have left.
bool JobMember::mayStep() const {
  if (adopting != 0 || isGivenUp() || isBare())
    return false;
  bool stands = now > State::Ready && now != State::Decided;
  return !stands && ownEpoch != 0 && (!isPromised || ownStep < promise);
}

/// Whether the record still waits for what this process has voted for.
bool JobMember::mayAdvance() const {
  if (now == State::Ready)
    return known.phase == JobPhase::Preparing;
  if (now == State::Decided)
    return known.attempt == ownAttempt && known.phase == JobPhase::Committed;
  return true;
}

/// A member of the new world waits for nobody once that is decided.
bool JobMember::waits() const {
  if (now == State::Stopped || isLate)
    return false;
  if (now == State::Decided)
    return !stays;
  return ownAttempt != 0 || isGivenUp() || (asks && known.isOpen());
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

std::vector<JobAction> JobMember::on(const JobEvent &event) {
  using What = JobEvent::What;
  if (now == State::Stopped)
    return {};
  switch (event.what) {
  case What::Ask:
    wish = asks || call == Call::Open ? wish.followedBy(event.request)
                                      : event.request;
    asks = true;
    wantsLook = true;
    break;
  case What::Look:
    wantsLook = true;
    break;
  case What::Boundary:
    ownStep = event.step;
    break;
  case What::TimedOut:
    isLate = waits();
    // Who leaves learns what has become of its vote.
    wantsLook = wantsLook || (isLate && now == State::Decided);
    break;
  case What::Lost:
    stop(JobEnd::Stranded, event.why);
    break;
  case What::Read:
  case What::Replaced:
  case What::Counted:
    answered(event);
    break;
  case What::Adopted:
    if (event.attempt == adopting)
      adopting = 0;
    break;
  default:
    worked(event);
  }
  next();
  // Who begins to wait for others has all its time, however long it was idle.
  if (waits() && !waited)
    ++waitNumber;
  waited = waits();
  return std::exchange(actions, {});
}

/// What an attempt that has ended still brings says nothing about this one.
void JobMember::worked(const JobEvent &event) {
  using What = JobEvent::What;
  if (event.attempt != ownAttempt || ownAttempt == 0)
    return;
  if (event.what == What::Failed && now <= State::Voted) {
    fault = event.why;
    isFaultOfTime = false;
  } else if (event.what == What::Prepared && now == State::Preparing) {
    backTo = event.backTo;
    enter(State::Ready);
  } else if (event.what == What::Transferred && now == State::Transferring) {
    enter(State::Verifying);
    startWork(JobAction::What::Verify);
  } else if (event.what == What::Verified && now == State::Verifying)
    enter(State::Voted);
}

void JobMember::answered(const JobEvent &event) {
  Call was = call;
  call = Call::None;
  if (event.what == JobEvent::What::Counted)
    return countIs(event.count);
  if (event.what == JobEvent::What::Read)
    wantsLook = false;
  bool isDone = was != Call::Read && event.record == sent;
  if (isDone)
    sweepAfter(event.record);
  else if (was == Call::Open)
    asks = true; // still
  sent = {};
  bool isNews = !(event.record == known);
  learn(event.record);
  if (!isNews)
    return;
  // Whatever took so long has happened meanwhile.
  isLate = false;
  if (isFaultOfTime)
    fault = {};
  isFaultOfTime = false;
}

void JobMember::countIs(uint64_t count) {
  bool wasVote = counted;
  counted = false;
  hasVoted = hasVoted || wasVote;
  if (wasVote && now == State::Decided)
    unread = ownAttempt;
  isFull = count >= known.parties;
  if (!wasVote && !isFull)
    takeTooLong(makeError(ErrorCode::Timeout, "timeout waiting for processes ",
                          "to be ", jobVoteName(voteOf()), ": ", count, " of ",
                          known.parties, " are"));
}

void JobMember::takeTooLong(const Status &why) {
  if (!fault.ok())
    return;
  fault = why;
  isFaultOfTime = true;
}

/// The attempt before has ended, and so has the world that was left.
void JobMember::sweepAfter(const JobRecord &record) {
  bool opens = record.attempt != known.attempt;
  bool isSwept = known.attempt == 0 || known.phase == JobPhase::Released;
  if (!isSwept && (opens || record.phase == JobPhase::Released))
    sweep(known.attempt,
          known.leaving.empty() ? known.target->name : known.leaving);
}

void JobMember::learn(const JobRecord &record) {
  if (record.attempt != known.attempt)
    ++waitNumber; // for another one
  known = record;
  learnOfUnread();
  if (ownAttempt != 0)
    learnOfOwn();
  if (now != State::Stopped && (ownAttempt == 0 || now == State::Decided))
    learnOfOthers();
}

/// Who opens the next attempt removes the counters of the one before, whether
/// all have read its end or not: what is counted later would stay.
void JobMember::learnOfUnread() {
  if (unread == 0)
    return;
  bool isOver = known.attempt != unread;
  if (isOver)
    forget(JobVote::Read, unread);
  if (isOver || known.phase == JobPhase::Released)
    unread = 0;
}

/// How the attempt stands that this process takes part in.
void JobMember::learnOfOwn() {
  if (now == State::Decided) {
    if (known.attempt != ownAttempt || known.phase == JobPhase::Released)
      hasVoted = true; // others have gone on: nobody waits for it
    return;
  }
  if (known.bornOf == ownAttempt)
    return conclude(true, {});
  // Two worlds later the record does not say any more how it has ended.
  if (known.epoch > fromEpoch + 1)
    return stop(JobEnd::Overtaken,
                makeError(ErrorCode::Cancelled, "the job has gone on to world ",
                          known.epoch, " without this process, which was ",
                          "about to leave world ", fromEpoch));
  if (known.attempt > ownAttempt)
    return conclude(false, makeError(ErrorCode::Cancelled,
                                     "superseded by attempt ", known.attempt));
  if (known.phase == JobPhase::Aborted)
    return conclude(false, makeError(known.code, known.by,
                                     " has ended the attempt: ", known.why));
  arriveAtBoundary();
}

/// An attempt to take part in, or a world that has none of this process.
void JobMember::learnOfOthers() {
  bool hasLeftIt = now == State::Decided && !stays;
  if (ownEpoch != 0 && !hasLeftIt && ownEpoch < known.epoch)
    return stop(JobEnd::Overtaken,
                makeError(ErrorCode::Cancelled, "the job has gone on to world ",
                          known.epoch, " without this process, which is in ",
                          "world ", ownEpoch));
  if (known.phase == JobPhase::Aborted && isBare() && !known.recalls)
    return stop(JobEnd::Gone, makeError(known.code, "the old world is gone: ",
                                        known.by, ": ", known.why));
  if (now == State::Idle && known.isOpen() && known.isParty(self))
    begin();
}

void JobMember::begin() {
  ownAttempt = known.attempt;
  fromEpoch = known.epoch;
  stays = known.target->has(self);
  fault = {};
  isFaultOfTime = false;
  backTo.reset();
  if (asks && known.target->has(self) && ownEpoch == 0)
    asks = false; // to join: it is under way
  enter(State::Preparing);
  startWork(JobAction::What::Prepare);
}

void JobMember::conclude(bool committed, const Status &why) {
  JobAction action;
  action.what = committed ? JobAction::What::Adopt : JobAction::What::Discard;
  action.attempt = ownAttempt;
  action.desired = known;
  action.why = why;
  actions.push_back(action);
  bool overtaken = known.attempt > ownAttempt;
  adopting = committed ? ownAttempt : adopting;
  fault = {};
  isPromised = false;
  if (overtaken)
    sweep(ownAttempt, "");
  if (!committed) {
    ownAttempt = 0;
    return enter(State::Idle);
  }
  ownEpoch = stays ? fromEpoch + 1 : 0;
  if (stays)
    ownStep = known.firstStep;
  enter(State::Decided);
  hasVoted = overtaken || known.phase == JobPhase::Released;
}

void JobMember::stop(JobEnd end, const Status &why) {
  bool isUndecided = end == JobEnd::Stranded && now == State::Voted;
  enter(State::Stopped);
  JobAction action;
  action.what = JobAction::What::Stop;
  action.end = end;
  action.why = isUndecided ? makeError(ErrorCode::Undecided,
                                       "cannot learn whether this was ",
                                       "committed or aborted: ", why.message(),
                                       "; keep what both worlds hold")
                           : why;
  actions.push_back(action);
}

//===----------------------------------------------------------------------===//
// What to do next
//===----------------------------------------------------------------------===//

void JobMember::enter(State state) {
  now = state;
  hasVoted = false;
  isFull = false;
  isLate = false;
  ++waitNumber;
}

void JobMember::startWork(JobAction::What what) {
  JobAction action;
  action.what = what;
  action.attempt = ownAttempt;
  action.desired = known;
  actions.push_back(action);
}

/// Where all are ready, and this process has come to the boundary.
void JobMember::arriveAtBoundary() {
  if (known.phase == JobPhase::Preparing)
    return;
  promise = known.horizon;
  bool isThere = !isSource() || backTo || ownStep == promise;
  bool isNext = now == State::Ready && isThere;
  if (isNext && known.passes())
    return enter(State::Beginning);
  bool begins = now == State::Beginning && known.phase == JobPhase::Passed;
  if (!isNext && !begins)
    return;
  enter(State::Transferring);
  startWork(JobAction::What::Transfer);
}

void JobMember::next() {
  if (now == State::Stopped || call != Call::None)
    return;
  if (now == State::Ready)
    arriveAtBoundary();
  if (now == State::Decided ? nextOfDecided()
                            : ownAttempt != 0 && nextOfAttempt())
    return;
  if (now == State::Stopped)
    return;
  if (wantsLook)
    return read();
  (void)nextOfRequest();
}

/// Whether it has called the store.
bool JobMember::nextOfAttempt() {
  if (!fault.ok()) {
    replace(known.aborted(self, fault));
    return true;
  }
  if (isFull && mayAdvance()) {
    replace(known.advanced());
    return true;
  }
  if (isLate)
    return nextOfLate();
  if (now == State::Ready && known.phase == JobPhase::Preparing)
    return nextOfReady();
  if (!hasVote() || hasVoted)
    return false;
  count(1);
  return true;
}

/// The time has passed: all have voted, and who should have said so has not;
/// or some have not.
bool JobMember::nextOfLate() {
  if (hasVote() && hasVoted && mayAdvance()) {
    isLate = false;
    count(0);
    return true;
  }
  takeTooLong(makeError(ErrorCode::Timeout, "timeout of this process while it ",
                        "is ", jobStateName(now)));
  replace(known.aborted(self, fault));
  return true;
}

/// Promises not to go beyond the horizon, which is put off where this process
/// is there already. A world that goes back has its first step for a horizon,
/// and nobody has a step to take before.
bool JobMember::nextOfReady() {
  if (backTo && known.horizon != *backTo) {
    replace(known.withHorizon(*backTo));
    return true;
  }
  if (!backTo && isSource() && ownStep >= known.horizon) {
    // Meanwhile its trainer stands: steps that take less than a call of the
    // store would be at the next horizon before that is there, for ever.
    promise = ownStep;
    isPromised = true;
    replace(known.withHorizon(ownStep + lead));
    return true;
  }
  promise = known.horizon;
  isPromised = true;
  if (hasVoted)
    return false;
  count(1);
  return true;
}

bool JobMember::nextOfDecided() {
  if (isFull && mayAdvance()) {
    replace(known.advanced());
    return true;
  }
  if (!hasVoted) {
    count(1);
    return true;
  }
  bool allKnow =
      known.attempt != ownAttempt || known.phase == JobPhase::Released;
  if (!stays && isLate && wantsLook) {
    read();
    return true;
  }
  if (!stays && (allKnow || isLate)) {
    stop(JobEnd::Left, {});
    return false;
  }
  if (!stays)
    return false;
  ownAttempt = 0;
  enter(State::Idle);
  learnOfOthers();
  return false;
}

/// Whether this process's request may take the place of the attempt under way:
/// of one that only prepares; a loss, of any that can still be undone, or else
/// of which snapshots have what is gone.
bool JobMember::canSupersede() const {
  if (known.phase == JobPhase::Preparing)
    return true;
  return !wish.lost.empty() &&
         (known.phase == JobPhase::Transferring ||
          (known.phase == JobPhase::Passed && known.recalls));
}

/// A request is a next attempt.
bool JobMember::nextOfRequest() {
  if (isGivenUp() && isLate) {
    replace(known.aborted(
        self, makeError(ErrorCode::Timeout, "timeout waiting to hear whether ",
                        "the job goes on without this process")));
    return true;
  }
  if (!asks || now == State::Decided)
    return false;
  if (known.isOpen() && !canSupersede()) {
    if (!isLate)
      return false;
    replace(known.aborted(self, makeError(ErrorCode::Timeout,
                                          "timeout waiting for the attempt ",
                                          "before to end")));
    return true;
  }
  JobRecord opened = known.opened(wish, self);
  // A member knows how far training is.
  if (ownEpoch != 0 && opened.horizon < ownStep + lead)
    opened.horizon = ownStep + lead;
  const JobWorld &base = known.isOpen() ? *known.target : *known.world;
  bool changes =
      opened.target->members != base.members ||
      opened.target->layout != base.layout ||
      opened.lost.size() != (known.isOpen() ? known.lost.size() : 0) ||
      (known.gone && !known.isOpen()); // all go back
  asks = false;
  if (!changes)
    return false;
  bool isOver = known.gone && !known.recalls;
  if (opened.target->members.empty() || isOver) {
    JobAction refusal;
    refusal.what = JobAction::What::Refuse;
    refusal.why = makeError(isOver ? "the job has no world any more"
                                   : "the world would have no member");
    actions.push_back(std::move(refusal));
    return false;
  }
  replace(opened);
  call = Call::Open;
  return true;
}

//===----------------------------------------------------------------------===//
// Calls of the store
//===----------------------------------------------------------------------===//

void JobMember::read() {
  call = Call::Read;
  actions.emplace_back();
}

void JobMember::replace(const JobRecord &desired) {
  JobAction action;
  action.what = JobAction::What::Replace;
  action.expected = known;
  action.desired = desired;
  call = Call::Replace;
  sent = desired;
  actions.push_back(std::move(action));
}

void JobMember::count(uint64_t amount) {
  JobAction action;
  action.what = JobAction::What::Count;
  action.attempt = ownAttempt;
  action.vote = voteOf();
  action.amount = amount;
  counted = amount != 0;
  call = Call::Count;
  actions.push_back(std::move(action));
}

void JobMember::forget(JobVote vote, uint64_t attempt) {
  JobAction action;
  action.what = JobAction::What::Forget;
  action.vote = vote;
  action.attempt = attempt;
  actions.push_back(std::move(action));
}

void JobMember::sweep(uint64_t attempt, const std::string &world) {
  JobAction action;
  action.what = JobAction::What::Sweep;
  action.attempt = attempt;
  action.world = world;
  actions.push_back(std::move(action));
}

} // namespace dtrt
