//===- JobModel.cpp - Every order in which a job can go -------------------===//

#include "JobModel.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <unordered_map>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace dtrt::test {

namespace {

using Event = JobEvent::What;
using Act = JobAction::What;

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

/// Work that a process does beside its member.
struct Task {
  Event ends = Event::Prepared;
  uint64_t attempt = 0;
};

struct Process {
  explicit Process(const ProcessName &name) : member(name) {}

  JobMember member;
  bool isAlive = true;
  bool hasAsked = false;
  bool hasRecalled = false;       // asked for what is gone, from snapshots
  bool goesBack = false;          // has begun to
  bool isDeaf = false;            // a mutation: does not look any more
  std::optional<JobAction> call;  // on its way to the store
  std::optional<JobEvent> answer; // on its way back
  std::vector<Task> tasks;
  /// The world whose state it holds, and the attempt of which it holds the
  /// new one; 0: none.
  uint64_t holds = 0, made = 0;
  uint64_t verified = 0; // attempts, a bit each
};

struct State {
  JobRecord record;
  std::map<std::pair<uint64_t, JobVote>, uint64_t> counters;
  std::vector<Process> processes;
  unsigned crashes = 0, storeLosses = 0, failures = 0, timeouts = 0;
  /// Attempts that the record has had committed; that a process has taken for
  /// aborted.
  uint64_t committed = 0, discarded = 0;
  /// The attempt that has made the world, whatever the record says.
  uint64_t bornOf = 0;
  std::string violation;
};

class Encoder {
public:
  void operator()(uint64_t number) {
    // Numbers are small here.
    if (number < 255) {
      text += char(number);
      return;
    }
    text += char(255);
    text.append(reinterpret_cast<const char *>(&number), sizeof number);
  }
  void operator()(const std::string &word) {
    (*this)(word.size());
    text += word;
  }
  void operator()(const std::vector<std::string> &words) {
    (*this)(words.size());
    for (const std::string &word : words)
      (*this)(word);
  }
  /// But for the reason of an abort, on which nothing depends; worlds do not
  /// change under their name.
  void operator()(const JobRecord &record) {
    for (uint64_t number :
         {record.epoch, record.firstStep, record.bornOf, record.attempt,
          uint64_t(record.phase), record.parties, uint64_t(record.flat),
          uint64_t(record.recalls), record.horizon, uint64_t(record.gone)})
      (*this)(number);
    (*this)(record.world->name), (*this)(record.target->name);
    (*this)(record.lost), (*this)(record.leaving);
  }
  void operator()(const JobRequest &request) {
    (*this)(request.join), (*this)(request.leave), (*this)(request.lost);
    (*this)(request.layout), (*this)(uint64_t(request.flat));
    (*this)(uint64_t(request.recalls));
  }
  void operator()(const Process &process) {
    (*this)(uint64_t(process.isAlive));
    if (!process.isAlive)
      return;
    process.member.visit([this](const auto &value) { (*this)(value); });
    (*this)(uint64_t(process.hasAsked)), (*this)(uint64_t(process.isDeaf));
    (*this)(uint64_t(process.hasRecalled)), (*this)(uint64_t(process.goesBack));
    (*this)(uint64_t(process.call.has_value()));
    if (process.call) {
      (*this)(uint64_t(process.call->what)), (*this)(process.call->attempt);
      (*this)(uint64_t(process.call->vote)), (*this)(process.call->amount);
      (*this)(process.call->expected), (*this)(process.call->desired);
    }
    (*this)(uint64_t(process.answer.has_value()));
    if (process.answer) {
      (*this)(uint64_t(process.answer->what));
      (*this)(process.answer->record), (*this)(process.answer->count);
    }
    (*this)(process.tasks.size());
    for (const Task &task : process.tasks)
      (*this)(uint64_t(task.ends)), (*this)(task.attempt);
    (*this)(process.holds), (*this)(process.made), (*this)(process.verified);
  }

  std::string text;
};

using Key = std::pair<uint64_t, uint64_t>;
struct HashOfKey {
  size_t operator()(const Key &key) const { return key.first; }
};

Key keyOf(const State &state) {
  Encoder encode;
  encode(state.record);
  for (const auto &[counter, count] : state.counters)
    encode(counter.first), encode(uint64_t(counter.second)), encode(count);
  for (const Process &process : state.processes)
    encode(process);
  for (uint64_t number : {uint64_t(state.crashes), uint64_t(state.storeLosses),
                          uint64_t(state.failures), uint64_t(state.timeouts),
                          state.committed, state.discarded, state.bornOf})
    encode(number);
  XXH128_hash_t hash = XXH3_128bits(encode.text.data(), encode.text.size());
  return {hash.low64, hash.high64};
}

//===----------------------------------------------------------------------===//
// What can happen
//===----------------------------------------------------------------------===//

/// One thing that may happen next.
struct Move {
  enum class What {
    Call, // the store carries the call out
    CallTwice,
    Answer,  // comes back
    Work,    // a task ends
    Failure, // of a task
    Step,
    Look,
    TimeOut,
    Ask,
    Recall,
    Crash,
    LoseBefore, // the store, before it carries the call out
    LoseAfter,
  };
  What what = What::Call;
  size_t process = 0;
  size_t task = 0;
};

const char *const kMoves[] = {"the store carries out",
                              "the store carries out twice",
                              "gets the answer",
                              "has finished",
                              "fails in",
                              "takes a step",
                              "looks at the record",
                              "has waited too long",
                              "asks for another world",
                              "asks for what is gone",
                              "crashes",
                              "loses the store before",
                              "loses the store after"};

uint64_t bit(uint64_t number) { return uint64_t(1) << number; }

class Model {
public:
  explicit Model(const JobModelSetup &setup) : setup(setup) {}

  State start() const;
  std::vector<Move> moves(const State &state) const;
  void apply(State &state, const Move &move) const;
  std::string textOf(const State &state, const Move &move) const;
  /// Of a state in which nothing but faults can happen.
  std::string faultOfEnd(const State &state) const;
  std::string counterLeft(const State &state) const;
  static bool isFault(const Move &move) {
    return move.what == Move::What::Crash || move.what == Move::What::Failure ||
           move.what == Move::What::LoseBefore ||
           move.what == Move::What::LoseAfter ||
           move.what == Move::What::CallTwice;
  }

private:
  bool mutates(JobMutation mutation) const {
    return setup.mutation == mutation;
  }
  void addMoves(const State &state, size_t index,
                std::vector<Move> &found) const;
  void addFaults(const State &state, size_t index,
                 std::vector<Move> &found) const;
  bool goesBack(const JobRecord &record) const {
    return (setup.goesBack && !record.lost.empty()) || record.gone;
  }
  bool mayStep(const State &state, const Process &process) const;
  bool isDue(const Process &process) const;
  static bool mayRecall(const Process &process);
  void give(State &state, size_t index, const JobEvent &event) const;
  void carryOut(State &state, Process &process, const JobAction &action) const;
  void transfer(State &state, Process &process, const JobAction &action) const;
  void adopt(State &state, Process &process, const JobAction &action) const;
  void enter(Process &process, uint64_t attempt) const;
  void hear(State &state, size_t index) const;
  void stop(State &state, Process &process, const JobAction &action) const;
  JobEvent callStore(State &state, Process &process) const;
  void replace(State &state, const JobAction &call) const;
  uint64_t count(State &state, const JobAction &call) const;
  void endTask(State &state, const Move &move) const;
  void timeOut(State &state, size_t index) const;
  void check(State &state) const;
  void blame(State &state, const std::string &what) const {
    if (state.violation.empty())
      state.violation = what;
  }

  const JobModelSetup &setup;
};

//===----------------------------------------------------------------------===//
// The beginning
//===----------------------------------------------------------------------===//

JobEvent eventOf(Event what, uint64_t attempt) {
  JobEvent event;
  event.what = what;
  event.attempt = attempt;
  return event;
}

JobEvent seen(const JobRecord &record) {
  JobEvent event = eventOf(Event::Read, 0);
  event.record = record;
  return event;
}

/// Takes part in the first attempt of all, of which others write the record.
void found(JobMember &member, const JobRecord &opened) {
  JobRecord moving = opened.advanced(), committed = moving.advanced();
  for (const JobEvent &event :
       {eventOf(Event::Look, 0), seen(opened), eventOf(Event::Prepared, 1),
        eventOf(Event::Counted, 1), eventOf(Event::Look, 0), seen(moving),
        eventOf(Event::Transferred, 1), eventOf(Event::Verified, 1),
        eventOf(Event::Counted, 1), eventOf(Event::Look, 0), seen(committed),
        eventOf(Event::Adopted, 1), eventOf(Event::Counted, 1),
        eventOf(Event::Look, 0), seen(committed.advanced())})
    (void)member.on(event);
}

State Model::start() const {
  State state;
  state.crashes = setup.crashes;
  state.storeLosses = setup.storeLosses;
  state.failures = setup.failures;
  state.timeouts = setup.timeouts;
  for (const ProcessName &name : setup.processes)
    state.processes.emplace_back(name);
  if (setup.members == 0)
    return state;
  JobRequest first;
  first.join.assign(setup.processes.begin(),
                    setup.processes.begin() + setup.members);
  JobRecord opened = JobRecord().opened(first, "launcher");
  for (size_t i = 0; i < setup.members; ++i) {
    found(state.processes[i].member, opened);
    state.processes[i].holds = 1;
    state.processes[i].verified = bit(1);
  }
  state.record = opened.advanced().advanced().advanced();
  state.committed = bit(1);
  state.bornOf = 1;
  return state;
}

//===----------------------------------------------------------------------===//
// What may happen next
//===----------------------------------------------------------------------===//

/// Trainers stop by themselves in the end, unless a boundary lies ahead.
bool Model::mayStep(const State &state, const Process &process) const {
  const JobMember &member = process.member;
  if (member.state() == JobMember::State::Stopped || member.epoch() == 0)
    return false;
  bool breaksOff = (mutates(JobMutation::PromiseBroken) &&
                    member.state() == JobMember::State::Ready) ||
                   (mutates(JobMutation::BareStepsOn) && member.record().gone &&
                    member.state() == JobMember::State::Idle);
  if (!member.mayStep() && !breaksOff)
    return false;
  const JobRecord &record = member.record();
  bool isAhead = record.phase == JobPhase::Transferring &&
                 member.attempt() == record.attempt &&
                 member.step() < record.horizon;
  return isAhead || member.step() < state.record.firstStep + setup.steps;
}

void Model::addMoves(const State &state, size_t index,
                     std::vector<Move> &found) const {
  const Process &process = state.processes[index];
  const JobMember &member = process.member;
  if (process.call)
    found.push_back({Move::What::Call, index});
  if (process.answer)
    found.push_back({Move::What::Answer, index});
  for (size_t task = 0; task < process.tasks.size(); ++task) {
    found.push_back({Move::What::Work, index, task});
    // A trainer hears of things in their order.
    if (process.tasks[task].ends == Event::Adopted)
      break;
  }
  if (mayStep(state, process))
    found.push_back({Move::What::Step, index});
  if (member.state() == JobMember::State::Stopped)
    return;
  if (!member.calls() && !process.isDeaf && !(member.record() == state.record))
    found.push_back({Move::What::Look, index});
  if (!process.hasAsked && setup.asks.count(member.name()))
    found.push_back({Move::What::Ask, index});
  if (mayRecall(process))
    found.push_back({Move::What::Recall, index});
}

/// Trainers try it as often as they like: here once.
bool Model::mayRecall(const Process &process) {
  const JobRecord &record = process.member.record();
  return record.gone && record.recalls && !record.isOpen() &&
         !process.hasRecalled && process.member.epoch() == record.epoch &&
         process.member.state() == JobMember::State::Idle;
}

/// While a call is under way a process would only note that it is late.
bool Model::isDue(const Process &process) const {
  const JobMember &member = process.member;
  return process.isAlive && member.waits() &&
         (setup.slowAnswers || !member.calls());
}

void Model::addFaults(const State &state, size_t index,
                      std::vector<Move> &found) const {
  const Process &process = state.processes[index];
  if (state.crashes > 0)
    found.push_back({Move::What::Crash, index});
  if (state.failures > 0)
    for (size_t task = 0; task < process.tasks.size(); ++task)
      if (process.tasks[task].ends != Event::Adopted)
        found.push_back({Move::What::Failure, index, task});
  if (state.storeLosses > 0 && process.call) {
    found.push_back({Move::What::LoseBefore, index});
    found.push_back({Move::What::LoseAfter, index});
  }
  if (mutates(JobMutation::VoteCountedTwice) && process.call &&
      process.call->what == Act::Count && process.call->amount != 0)
    found.push_back({Move::What::CallTwice, index});
}

std::vector<Move> Model::moves(const State &state) const {
  std::vector<Move> found;
  for (size_t i = 0; i < state.processes.size(); ++i)
    if (state.processes[i].isAlive)
      addMoves(state, i, found);
  if (state.timeouts > 0 || found.empty())
    for (size_t i = 0; i < state.processes.size(); ++i)
      if (isDue(state.processes[i]))
        found.push_back({Move::What::TimeOut, i});
  for (size_t i = 0; i < state.processes.size(); ++i)
    if (state.processes[i].isAlive &&
        state.processes[i].member.state() != JobMember::State::Stopped)
      addFaults(state, i, found);
  return found;
}

std::string Model::textOf(const State &state, const Move &move) const {
  const Process &process = state.processes[move.process];
  std::string text = process.member.name() + " ";
  if (move.what == Move::What::Call || move.what == Move::What::CallTwice)
    text = "";
  text += kMoves[size_t(move.what)];
  if (move.what == Move::What::Work || move.what == Move::What::Failure) {
    const Task &task = process.tasks[move.task];
    text += task.ends == Event::Prepared      ? " preparing"
            : task.ends == Event::Transferred ? " the transfer"
            : task.ends == Event::Verified    ? " the comparison"
                                              : " adopting the world";
    text += " of attempt " + std::to_string(task.attempt);
  }
  if (move.what == Move::What::Step)
    text += " to " + std::to_string(process.member.step() + 1);
  bool isCall =
      move.what == Move::What::Call || move.what == Move::What::CallTwice ||
      move.what == Move::What::LoseBefore || move.what == Move::What::LoseAfter;
  if (!isCall)
    return text;
  const JobAction &call = *process.call;
  text += " " + process.member.name() + "'s ";
  if (call.what == Act::Read)
    return text + "look at the record";
  if (call.what == Act::Count)
    return text + (call.amount == 0 ? "question" : "vote") + " '" +
           jobVoteName(call.vote) + "' of attempt " +
           std::to_string(call.attempt);
  return text + "change of attempt " + std::to_string(call.expected.attempt) +
         ", " + jobPhaseName(call.expected.phase) + ", to attempt " +
         std::to_string(call.desired.attempt) + ", " +
         jobPhaseName(call.desired.phase) +
         (state.record == call.expected ? "" : ": refused");
}

//===----------------------------------------------------------------------===//
// The store
//===----------------------------------------------------------------------===//

void Model::replace(State &state, const JobAction &call) const {
  JobRecord desired = call.desired;
  bool fits = state.record == call.expected;
  bool decides = desired.phase == JobPhase::Committed ||
                 desired.phase == JobPhase::Aborted;
  if (mutates(JobMutation::NoCompareAndSet) && decides)
    fits = true;
  if (mutates(JobMutation::BoundaryNotCompared) &&
      desired.phase == JobPhase::Transferring &&
      state.record.phase == JobPhase::Preparing &&
      state.record.attempt == desired.attempt)
    fits = true;
  if (!fits)
    return;
  if (mutates(JobMutation::LeaversNotAwaited) &&
      desired.phase == JobPhase::Preparing)
    desired.parties = desired.target->members.size();
  if (mutates(JobMutation::GoneForgotten) &&
      desired.phase == JobPhase::Preparing)
    desired.gone = false;
  if (mutates(JobMutation::CommitForgotten) &&
      desired.attempt != desired.bornOf)
    desired.bornOf = 0;
  if (desired.bornOf != state.record.bornOf && desired.bornOf != 0) {
    state.committed |= bit(desired.bornOf);
    state.bornOf = desired.bornOf;
    if (state.discarded & bit(desired.bornOf))
      blame(state, "split: attempt " + std::to_string(desired.bornOf) +
                       " is committed, and a process has taken it for aborted");
    for (const Process &other : state.processes)
      if (state.record.isParty(other.member.name()) &&
          !(other.verified & bit(desired.bornOf)))
        blame(state, "attempt " + std::to_string(desired.bornOf) +
                         " is committed before " + other.member.name() +
                         " is done");
  }
  state.record = desired;
}

uint64_t Model::count(State &state, const JobAction &call) const {
  uint64_t attempt =
      mutates(JobMutation::NumberReused) && call.vote == JobVote::Done
          ? 0
          : call.attempt;
  auto key = std::make_pair(attempt, call.vote);
  if (call.amount == 0 && !state.counters.count(key))
    return 0;
  return state.counters[key] += call.amount;
}

JobEvent Model::callStore(State &state, Process &process) const {
  JobEvent answer;
  JobAction call = *process.call;
  if (call.what == Act::Read) {
    answer.what = Event::Read;
  } else if (call.what == Act::Count) {
    answer.what = Event::Counted;
    answer.count = count(state, call);
    if (mutates(JobMutation::AnySilenceCommits) && call.amount == 0)
      answer.count = 100;
  } else {
    answer.what = Event::Replaced;
    replace(state, call);
  }
  answer.record = state.record;
  process.call.reset();
  return answer;
}

//===----------------------------------------------------------------------===//
// What a process does
//===----------------------------------------------------------------------===//

void Model::transfer(State &state, Process &process,
                     const JobAction &action) const {
  const JobRecord &record = action.desired;
  const JobMember &member = process.member;
  bool isSource = process.holds != 0 && process.holds == record.epoch;
  if (!isSource && !goesBack(record) && record.epoch != 0 &&
      member.epoch() == record.epoch)
    blame(state, member.name() + " moves bytes that are gone");
  if (goesBack(record) && record.horizon != 0)
    blame(state, member.name() + " goes back to step " +
                     std::to_string(record.horizon) + ", expected 0");
  if (isSource && !goesBack(record) && member.step() != record.horizon)
    blame(state, member.name() + " moves bytes of step " +
                     std::to_string(member.step()) + ", the boundary is " +
                     std::to_string(record.horizon));
  process.goesBack = record.gone;
  if (record.passes()) {
    if (state.record.attempt == action.attempt &&
        state.record.phase < JobPhase::Passed)
      blame(state,
            member.name() + " gives the old world back before all have begun");
    process.holds = 0;
  }
}

void Model::adopt(State &state, Process &process,
                  const JobAction &action) const {
  if (!(state.committed & bit(action.attempt)))
    blame(state,
          process.member.name() + " releases the old world without a decision");
  process.tasks.push_back({Event::Adopted, action.attempt});
  if (mutates(JobMutation::StepsBeforeAdopting))
    (void)process.member.on(eventOf(Event::Adopted, action.attempt));
}

/// The trainer has heard of it.
void Model::enter(Process &process, uint64_t attempt) const {
  process.holds = process.member.epoch();
  process.made = process.made == attempt ? 0 : process.made;
}

void Model::stop(State &state, Process &process,
                 const JobAction &action) const {
  const std::string &name = process.member.name();
  if (action.end == JobEnd::Overtaken && state.record.world->has(name))
    blame(state, name + " leaves a world that it is in");
  if (action.end == JobEnd::Left && state.record.world->has(name))
    blame(state, name + " has left a world that it is in");
}

void Model::carryOut(State &state, Process &process,
                     const JobAction &action) const {
  uint64_t attempt = bit(action.attempt);
  switch (action.what) {
  case Act::Read:
  case Act::Replace:
    process.call = action;
    return;
  case Act::Count:
    if (action.vote == JobVote::Done && action.amount != 0) {
      if (!(process.verified & attempt))
        blame(state, process.member.name() + " says that it is done, with " +
                         "bytes of another attempt");
      if (mutates(JobMutation::TornDownEarly))
        process.holds = 0;
    }
    if (mutates(JobMutation::SourceGoneEarly) &&
        action.vote == JobVote::Begun && process.holds != 0)
      process.holds = 0;
    process.call = action;
    return;
  case Act::Prepare:
    process.tasks.push_back({Event::Prepared, action.attempt});
    return;
  case Act::Transfer:
    transfer(state, process, action);
    process.tasks.push_back({Event::Transferred, action.attempt});
    return;
  case Act::Verify:
    process.tasks.push_back({Event::Verified, action.attempt});
    return;
  case Act::Adopt:
    return adopt(state, process, action);
  case Act::Discard:
    process.made = process.made == action.attempt ? 0 : process.made;
    state.discarded |= attempt;
    if (state.committed & attempt)
      blame(state, "split: attempt " + std::to_string(action.attempt) +
                       " is committed, and " + process.member.name() +
                       " takes it for aborted");
    return;
  case Act::Sweep:
    state.counters.erase(state.counters.lower_bound({action.attempt, {}}),
                         state.counters.lower_bound({action.attempt + 1, {}}));
    return;
  case Act::Forget:
    if (!mutates(JobMutation::LateVoteStays))
      state.counters.erase({action.attempt, action.vote});
    return;
  case Act::Refuse:
    return;
  case Act::Stop:
    return stop(state, process, action);
  }
}

void Model::give(State &state, size_t index, const JobEvent &event) const {
  Process &process = state.processes[index];
  JobMember before = process.member;
  for (const JobAction &action : process.member.on(event)) {
    if (mutates(JobMutation::ReturnedGoesOn) && action.what == Act::Stop &&
        action.end == JobEnd::Overtaken) {
      // As if it had not looked, once and for all.
      process.member = std::move(before);
      process.isDeaf = true;
      return;
    }
    carryOut(state, process, action);
  }
  if (!setup.slowTrainers)
    hear(state, index);
}

/// What its trainer has yet to hear of.
void Model::hear(State &state, size_t index) const {
  Process &process = state.processes[index];
  for (size_t task = 0; task < process.tasks.size(); ++task)
    if (process.tasks[task].ends == Event::Adopted)
      return endTask(state, {Move::What::Work, index, task});
}

/// Work ends with what it was begun for, even if nobody wants it any more.
void Model::endTask(State &state, const Move &move) const {
  Process &process = state.processes[move.process];
  Task task = process.tasks[move.task];
  process.tasks.erase(process.tasks.begin() + long(move.task));
  JobEvent event = eventOf(task.ends, task.attempt);
  if (move.what == Move::What::Failure) {
    --state.failures;
    event.what = Event::Failed;
    event.why = makeError(ErrorCode::PeerLost, "fault");
  } else if (task.ends == Event::Verified &&
             process.member.attempt() == task.attempt) {
    process.made = task.attempt;
    process.verified |= bit(task.attempt);
  }
  if (task.ends == Event::Adopted)
    enter(process, task.attempt);
  if (event.what == Event::Prepared && goesBack(process.member.record()))
    event.backTo = 0;
  if (mutates(JobMutation::StaleWork))
    event.attempt = process.member.attempt();
  give(state, move.process, event);
}

void Model::timeOut(State &state, size_t index) const {
  Process &process = state.processes[index];
  if (mutates(JobMutation::TimeoutIgnored))
    return;
  if (mutates(JobMutation::TimeoutDecides) && process.member.attempt() != 0) {
    JobEvent event = seen(process.member.record());
    event.record.phase = JobPhase::Aborted;
    process.call.reset();
    process.answer.reset();
    process.isDeaf = true;
    return give(state, index, event);
  }
  give(state, index, eventOf(Event::TimedOut, 0));
}

void Model::apply(State &state, const Move &move) const {
  Process &process = state.processes[move.process];
  JobEvent event;
  switch (move.what) {
  case Move::What::LoseBefore:
  case Move::What::LoseAfter:
    --state.storeLosses;
    if (move.what == Move::What::LoseAfter)
      (void)callStore(state, process);
    process.call.reset();
    event.what = Event::Lost;
    event.why = makeError(ErrorCode::StoreLost, "fault");
    give(state, move.process, event);
    break;
  case Move::What::CallTwice:
    (void)count(state, *process.call);
    [[fallthrough]];
  case Move::What::Call:
    process.answer = callStore(state, process);
    if (setup.slowAnswers)
      break;
    [[fallthrough]];
  case Move::What::Answer:
    event = std::move(*process.answer);
    process.answer.reset();
    give(state, move.process, event);
    break;
  case Move::What::Work:
  case Move::What::Failure:
    endTask(state, move);
    break;
  case Move::What::Step:
    if (process.holds != process.member.epoch())
      blame(state, process.member.name() + " takes a step in world " +
                       std::to_string(process.holds) + ", which it has left");
    event.what = Event::Boundary;
    event.step = process.member.step() + 1;
    give(state, move.process, event);
    break;
  case Move::What::Look:
    give(state, move.process, eventOf(Event::Look, 0));
    if (setup.slowAnswers || !process.call || process.call->what != Act::Read)
      break;
    give(state, move.process, callStore(state, process));
    break;
  case Move::What::TimeOut:
    if (state.timeouts != ~0u && state.timeouts > 0)
      --state.timeouts;
    timeOut(state, move.process);
    break;
  case Move::What::Ask:
    process.hasAsked = true;
    event.what = Event::Ask;
    event.request = setup.asks.at(process.member.name());
    give(state, move.process, event);
    break;
  case Move::What::Recall:
    process.hasRecalled = true;
    give(state, move.process, eventOf(Event::Ask, 0));
    break;
  case Move::What::Crash:
    --state.crashes;
    process.isAlive = false;
    break;
  }
  check(state);
}

//===----------------------------------------------------------------------===//
// What must hold
//===----------------------------------------------------------------------===//

void Model::check(State &state) const {
  const JobRecord &record = state.record;
  bool isStated = record.phase == JobPhase::Passed || record.gone;
  bool isFixed = record.phase == JobPhase::Transferring ||
                 record.phase == JobPhase::Passed;
  for (const Process &process : state.processes) {
    const JobMember &member = process.member;
    const std::string &name = member.name();
    if (!process.isAlive || !record.world->has(name))
      continue;
    bool holds = process.holds == record.epoch ||
                 (state.bornOf != 0 && process.made == state.bornOf);
    if (!holds && !isStated && record.epoch != 0)
      blame(state, "a world is lost: " + name + " holds nothing of world " +
                       std::to_string(record.epoch));
    if (isFixed && !goesBack(record) && record.isParty(name) &&
        member.epoch() == record.epoch && member.step() > record.horizon)
      blame(state, name + " is at step " + std::to_string(member.step()) +
                       ", beyond the boundary " +
                       std::to_string(record.horizon));
  }
}

std::string Model::faultOfEnd(const State &state) const {
  for (const Process &process : state.processes) {
    const JobMember &member = process.member;
    if (!process.isAlive || member.state() == JobMember::State::Stopped)
      continue;
    const std::string &name = member.name();
    const char *now = jobStateName(member.state());
    if (member.state() != JobMember::State::Idle)
      return name + " waits for ever: it is " + now;
    if (state.record.isOpen() && state.record.world->has(name))
      return name + " waits for ever for the end of an attempt";
    if (state.record.gone && member.epoch() != 0 && !process.hasRecalled)
      return name + " does not know that its world is gone";
    uint64_t expected = state.record.world->has(name) ? state.record.epoch : 0;
    if (member.epoch() != expected)
      return name + " is in world " + std::to_string(member.epoch()) +
             ", expected " + std::to_string(expected);
  }
  return counterLeft(state);
}

/// Of an attempt that is over, where all have lived to remove theirs.
std::string Model::counterLeft(const State &state) const {
  if (state.crashes < setup.crashes || state.storeLosses < setup.storeLosses)
    return "";
  const JobRecord &record = state.record;
  for (const auto &[counter, count] : state.counters)
    if (counter.first < record.attempt || record.phase == JobPhase::Released)
      return "the counter '" + std::string(jobVoteName(counter.second)) +
             "' of attempt " + std::to_string(counter.first) + " stays";
  return "";
}

//===----------------------------------------------------------------------===//
// The exploration
//===----------------------------------------------------------------------===//

/// Breadth first, so that what is found first has the shortest trace.
class Exploration {
public:
  explicit Exploration(const JobModelSetup &setup)
      : model(setup), seeks(setup.seeks) {}

  JobModelReport run();

private:
  struct Node {
    uint32_t before = 0;
    uint16_t move = 0; // of the moves of the state before
  };

  void expand(const State &state, uint32_t index);
  uint32_t visit(State state, uint32_t before, size_t move);
  void atEnd(const State &state, uint32_t index);
  void fail(uint32_t index, const std::string &what);
  bool hasCircle() const;

  Model model;
  const std::string seeks;
  std::unordered_map<Key, uint32_t, HashOfKey> known;
  std::vector<Node> nodes;
  std::vector<std::pair<uint32_t, uint32_t>> edges;
  std::deque<std::pair<State, uint32_t>> open;
  JobModelReport report;
};

uint32_t Exploration::visit(State state, uint32_t before, size_t move) {
  auto [found, isNew] = known.emplace(keyOf(state), uint32_t(nodes.size()));
  if (!isNew)
    return found->second;
  nodes.push_back({before, uint16_t(move)});
  uint32_t index = found->second;
  if (!state.violation.empty())
    fail(index, state.violation);
  state.violation.clear();
  open.emplace_back(std::move(state), index);
  return index;
}

/// Replays what has led there.
void Exploration::fail(uint32_t index, const std::string &what) {
  if (!report.violation.empty() || what.find(seeks) == std::string::npos)
    return;
  report.violation = what;
  std::vector<uint16_t> path;
  for (uint32_t at = index; at != 0; at = nodes[at].before)
    path.push_back(nodes[at].move);
  State state = model.start();
  for (auto move = path.rbegin(); move != path.rend(); ++move) {
    Move next = model.moves(state)[*move];
    report.trace.push_back(model.textOf(state, next));
    model.apply(state, next);
  }
}

void Exploration::atEnd(const State &state, uint32_t index) {
  std::string fault = model.faultOfEnd(state);
  if (!fault.empty())
    fail(index, fault);
  ++report.ends;
  const JobRecord &record = state.record;
  report.gone += record.gone;
  report.open += record.isOpen();
  report.aborted += record.phase == JobPhase::Aborted && !record.gone;
  bool isCommitted =
      record.phase == JobPhase::Committed || record.phase == JobPhase::Released;
  report.committed += isCommitted;
  report.recalled +=
      isCommitted &&
      std::any_of(state.processes.begin(), state.processes.end(),
                  [](const Process &process) { return process.goesBack; });
}

void Exploration::expand(const State &state, uint32_t index) {
  std::vector<Move> moves = model.moves(state);
  bool isEnd = true;
  for (size_t i = 0; i < moves.size() && report.violation.empty(); ++i) {
    State next = state;
    model.apply(next, moves[i]);
    uint32_t reached = visit(std::move(next), index, i);
    if (reached == index)
      fail(index, "for ever: " + model.textOf(state, moves[i]));
    edges.emplace_back(index, reached);
    isEnd = isEnd && Model::isFault(moves[i]);
  }
  if (isEnd)
    atEnd(state, index);
}

/// Takes away states that nothing leads to, until none is left.
bool Exploration::hasCircle() const {
  std::vector<uint32_t> into(nodes.size()), first(nodes.size() + 1);
  for (const auto &[from, to] : edges)
    ++into[to], ++first[from + 1];
  for (size_t i = 1; i < first.size(); ++i)
    first[i] += first[i - 1];
  std::vector<uint32_t> free;
  for (uint32_t i = 0; i < nodes.size(); ++i)
    if (into[i] == 0)
      free.push_back(i);
  size_t taken = 0;
  while (!free.empty()) {
    uint32_t node = free.back();
    free.pop_back();
    ++taken;
    for (uint32_t edge = first[node]; edge < first[node + 1]; ++edge)
      if (--into[edges[edge].second] == 0)
        free.push_back(edges[edge].second);
  }
  return taken != nodes.size();
}

JobModelReport Exploration::run() {
  visit(model.start(), 0, 0);
  while (!open.empty() && report.violation.empty()) {
    auto [state, index] = std::move(open.front());
    open.pop_front();
    expand(state, index);
  }
  report.states = nodes.size();
  report.transitions = edges.size();
  if (report.violation.empty() && seeks.empty() && hasCircle())
    report.violation = "processes may go round for ever";
  return std::move(report);
}

} // namespace

JobModelReport explore(const JobModelSetup &setup) {
  return Exploration(setup).run();
}

} // namespace dtrt::test
