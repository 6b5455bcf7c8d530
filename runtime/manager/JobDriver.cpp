//===- JobDriver.cpp - A process's part in a job, through a store ---------===//

#include "dtrt/manager/JobDriver.h"

#include <algorithm>

namespace dtrt {

namespace {

using Clock = std::chrono::steady_clock;

/// Shares of the timeout.
constexpr double kWaitShare = 0.6;
constexpr double kAnswerShare = 0.2;
constexpr double kBeatShare = 0.01;
constexpr Seconds kLeastTimeout(1);

/// How long a process that stops tries to remove its sign of life.
constexpr Seconds kLastWord(5);

/// How often a process looks whether anybody wants another world: less often
/// the longer nobody has.
constexpr Seconds kFirstIdleLook(0.25), kLastIdleLook(1);
constexpr double kIdleGrowth = 1.05; // of a look to the next

bool removesKeys(const JobAction &action) {
  return action.what == JobAction::What::Sweep ||
         action.what == JobAction::What::Forget;
}

bool hasRecord(const JobEvent &event) {
  return event.what == JobEvent::What::Read ||
         event.what == JobEvent::What::Replaced;
}

} // namespace

Result<JobTimes> JobTimes::from(Seconds timeout) {
  if (!(timeout >= kLeastTimeout))
    return makeError("the timeout of a job is ", timeout.count(),
                     " s, expected ", kLeastTimeout.count(), " s or more");
  JobTimes times;
  times.timeout = timeout;
  times.wait = timeout * kWaitShare;
  times.answer = timeout * kAnswerShare;
  times.beat = timeout * kBeatShare;
  Seconds suspicion = times.beat * double(times.silentBeats);
  if (times.beat < suspicion && suspicion < times.answer &&
      times.answer < times.wait && times.wait + times.answer < timeout)
    return times;
  return makeError("the times of a job do not enclose each other");
}

JobDriver::JobDriver(std::shared_ptr<Store> store, const ProcessName &self,
                     const JobTimes &times, JobWork &work, std::string root,
                     uint64_t lead)
    : client(std::move(store)), self(self), root(std::move(root)), times(times),
      trainer(work), member(self, lead) {}

//===----------------------------------------------------------------------===//
// Other threads
//===----------------------------------------------------------------------===//

/// A boundary between two steps seldom asks for anything: then it does not wake
/// the thread that turns.
void JobDriver::give(const JobEvent &event) {
  bool isIdle = false, isNews = false;
  {
    std::lock_guard<std::mutex> lock(mutex);
    JobMember::State before = member.state();
    isNews = hasRecord(event) && !(event.record == member.record());
    for (JobAction &action : member.on(event))
      actions.push_back(std::move(action));
    isNews = isNews || member.state() != before;
    isIdle = actions.empty();
  }
  if (!isIdle)
    changed.notify_all();
  if (isNews)
    trainer.noticed();
}

void JobDriver::ask(const JobRequest &request) {
  JobEvent event;
  event.what = JobEvent::What::Ask;
  event.request = request;
  give(event);
}

void JobDriver::atBoundary(uint64_t step) {
  JobEvent event;
  event.what = JobEvent::What::Boundary;
  event.step = step;
  give(event);
}

void JobDriver::ended(JobAction::What work, uint64_t attempt,
                      std::optional<uint64_t> backTo) {
  JobEvent event;
  event.what = work == JobAction::What::Prepare    ? JobEvent::What::Prepared
               : work == JobAction::What::Transfer ? JobEvent::What::Transferred
                                                   : JobEvent::What::Verified;
  event.attempt = attempt;
  event.backTo = backTo;
  give(event);
}

void JobDriver::failed(uint64_t attempt, const Status &why) {
  JobEvent event;
  event.what = JobEvent::What::Failed;
  event.attempt = attempt;
  event.why = why;
  give(event);
}

void JobDriver::cancel(const Status &why) {
  client.cancel(why);
  changed.notify_all();
}

bool JobDriver::mayStep() const {
  std::lock_guard<std::mutex> lock(mutex);
  return member.mayStep();
}

bool JobDriver::isQuiet() const {
  std::lock_guard<std::mutex> lock(mutex);
  return actions.empty() && !isActing;
}

bool JobDriver::sweeps() const {
  std::lock_guard<std::mutex> lock(mutex);
  return isSweeping || std::any_of(actions.begin(), actions.end(), removesKeys);
}

JobMember::State JobDriver::state() const {
  std::lock_guard<std::mutex> lock(mutex);
  return member.state();
}

JobRecord JobDriver::record() const {
  std::lock_guard<std::mutex> lock(mutex);
  return member.record();
}

std::optional<JobRequest> JobDriver::queued() const {
  std::lock_guard<std::mutex> lock(mutex);
  const JobRequest *request = member.queued();
  return request ? std::optional<JobRequest>(*request) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// The thread that turns
//===----------------------------------------------------------------------===//

void JobDriver::carryOut(const JobAction &action) {
  switch (action.what) {
  case JobAction::What::Read:
  case JobAction::What::Replace:
  case JobAction::What::Count:
    return callStore(action);
  case JobAction::What::Prepare:
    return trainer.prepare(action.desired);
  case JobAction::What::Transfer:
    return trainer.transfer(action.desired);
  case JobAction::What::Verify:
    return trainer.verify(action.desired);
  case JobAction::What::Adopt:
    return adopt(action);
  case JobAction::What::Discard:
    return trainer.discard(action.attempt, action.why);
  case JobAction::What::Refuse:
    return trainer.refused(action.why);
  case JobAction::What::Sweep:
    return sweep(action);
  case JobAction::What::Forget:
    (void)client.remove(voteKey(action.attempt, action.vote), answer());
    return;
  case JobAction::What::Stop:
    // A process that has been cancelled leaves none either.
    (void)client.remove(key("alive/" + self),
                        {deadlineIn(std::min(times.answer, kLastWord)),
                         StoreClient::Heed::Nothing});
    return trainer.stopped(action.end, action.why);
  }
}

/// The trainer hears of it before it may take a step again.
void JobDriver::adopt(const JobAction &action) {
  trainer.adopt(action.desired);
  JobEvent event;
  event.what = JobEvent::What::Adopted;
  event.attempt = action.attempt;
  give(event);
}

Deadline JobDriver::turn() {
  Status cancelled = client.cancelled();
  if (!cancelled.ok()) {
    JobEvent event;
    event.what = JobEvent::What::Lost;
    event.why = cancelled;
    give(event);
  }
  std::optional<JobAction> next;
  {
    std::lock_guard<std::mutex> lock(mutex);
    isActing = !actions.empty();
    if (isActing) {
      next = std::move(actions.front());
      actions.pop_front();
    }
    isSweeping = next && removesKeys(*next);
  }
  Deadline now = Clock::now();
  if (!next)
    return passTime(now);
  carryOut(*next);
  return now;
}

/// Nothing is under way: looks at the clock, at the record, and at the next
/// process, each when its time has come.
Deadline JobDriver::passTime(Deadline now) {
  auto wait = std::chrono::duration_cast<Clock::duration>(times.wait);
  bool waits = false;
  {
    std::lock_guard<std::mutex> lock(mutex);
    waits = member.waits();
    if (member.wait() != waiting) {
      waiting = member.wait();
      pause = Pause(member.record().parties);
      late = now + wait;
      idleLook = kFirstIdleLook;
      // What it has just read, or has voted for, is seldom over yet.
      nextLook = deadlineIn(untilNextLook(waits));
    }
  }
  JobEvent event;
  if (waits && now >= late) {
    event.what = JobEvent::What::TimedOut;
    late = now + wait;
    give(event);
  } else if (now >= nextLook) {
    nextLook = deadlineIn(untilNextLook(waits));
    give(event);
  } else if (now >= nextBeat) {
    nextBeat = deadlineIn(times.beat);
    // Without a store to tell, the next call of the member says so.
    (void)beat();
  } else {
    return std::min({nextLook, nextBeat, waits ? late : nextLook});
  }
  return now;
}

Seconds JobDriver::untilNextLook(bool waits) {
  if (waits)
    return pause.take();
  Seconds look = idleLook;
  idleLook = std::min(look * kIdleGrowth, kLastIdleLook);
  return look;
}

void JobDriver::run() {
  while (true) {
    Deadline next = turn();
    std::unique_lock<std::mutex> lock(mutex);
    bool isOver = member.state() == JobMember::State::Stopped;
    if (isOver && actions.empty())
      return;
    changed.wait_until(lock, next, [&] {
      return isOver || !actions.empty() || !client.cancelled().ok();
    });
  }
}

//===----------------------------------------------------------------------===//
// Calls of the store
//===----------------------------------------------------------------------===//

void JobDriver::callStore(const JobAction &action) {
  JobEvent event;
  Status status;
  if (action.what == JobAction::What::Count) {
    event.what = JobEvent::What::Counted;
    auto count = client.add(voteKey(action.attempt, action.vote),
                            int64_t(action.amount), answer());
    status = statusOf(count);
    if (count.ok())
      event.count = uint64_t(*count);
  } else {
    bool reads = action.what == JobAction::What::Read;
    event.what = reads ? JobEvent::What::Read : JobEvent::What::Replaced;
    auto record = reads ? load() : replace(action);
    status = statusOf(record);
    if (record.ok())
      event.record = std::move(*record);
  }
  if (!status.ok()) {
    event.what = JobEvent::What::Lost;
    event.why = status;
  }
  give(event);
  ++numAnswers;
}

Result<JobWorldRef> JobDriver::loadWorld(const std::string &name) {
  auto known = worlds.find(name);
  if (known != worlds.end())
    return known->second;
  auto text = client.get(key("world/" + name), answer());
  DTRT_RETURN_IF_ERROR(text);
  if (!*text)
    return makeError(ErrorCode::StoreLost, "the store has no world ", name);
  auto world = JobWorld::parse(name, **text);
  DTRT_RETURN_IF_ERROR(world);
  return worlds[name] = std::make_shared<const JobWorld>(std::move(*world));
}

Result<JobRecord> JobDriver::parse(const std::string &text) {
  if (text == lastText)
    return lastRecord;
  auto record = JobRecord::parse(
      text, [this](const std::string &name) { return loadWorld(name); });
  DTRT_RETURN_IF_ERROR(record);
  lastText = text;
  lastRecord = *record;
  worlds.clear();
  for (const JobWorldRef &world : {record->world, record->target})
    if (!world->name.empty())
      worlds[world->name] = world;
  return record;
}

/// A world that the record has just named may be gone, and then the record has
/// changed.
Result<JobRecord> JobDriver::load() {
  std::string before;
  while (true) {
    auto text = client.get(key("job"), answer());
    DTRT_RETURN_IF_ERROR(text);
    auto record = parse(text->value_or(""));
    if (record.ok() || text->value_or("") == before)
      return record;
    before = text->value_or("");
  }
}

Result<JobRecord> JobDriver::replace(const JobAction &action) {
  const JobRecord &desired = action.desired;
  if (desired.attempt != action.expected.attempt) {
    DTRT_RETURN_IF_ERROR(client.set(key("world/" + desired.target->name),
                                    desired.target->text(), answer()));
    worlds[desired.target->name] = desired.target;
  }
  std::string text = desired.text();
  auto now =
      client.compareAndSet(key("job"), action.expected.text(), text, answer());
  DTRT_RETURN_IF_ERROR(now);
  if (*now == text) {
    lastText = text;
    lastRecord = desired;
    return desired;
  }
  if (desired.attempt != action.expected.attempt)
    DTRT_RETURN_IF_ERROR(
        client.remove(key("world/" + desired.target->name), answer()));
  auto record = parse(*now);
  return record.ok() ? record : load();
}

void JobDriver::sweep(const JobAction &action) {
  for (JobVote vote :
       {JobVote::Ready, JobVote::Begun, JobVote::Done, JobVote::Read})
    if (!client.remove(voteKey(action.attempt, vote), answer()).ok())
      return;
  if (!action.world.empty())
    (void)client.remove(key("world/" + action.world), answer());
  trainer.swept(action.attempt);
}

//===----------------------------------------------------------------------===//
// Signs of life
//===----------------------------------------------------------------------===//

/// The one after this process in its world that is not known to be lost: who is
/// lost watches nobody.
const ProcessName &JobDriver::nextAlive(const JobRecord &record) const {
  const std::vector<ProcessName> &members = record.world->members;
  size_t own =
      std::find(members.begin(), members.end(), self) - members.begin();
  for (size_t i = 1; i < members.size(); ++i) {
    const ProcessName &other = members[(own + i) % members.size()];
    if (!record.isOpen() || !record.isLost(other))
      return other;
  }
  return self;
}

Status JobDriver::beat() {
  JobRecord record;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (member.epoch() == 0 || member.epoch() != member.record().epoch)
      return {};
    record = member.record();
  }
  auto beats = client.add(key("alive/" + self), 1, answer());
  DTRT_RETURN_IF_ERROR(beats);
  const ProcessName &next = nextAlive(record);
  if (next != watched) {
    watched = next;
    lastSign.clear();
    silence = 0;
  }
  if (watched == self)
    return {};
  auto sign = client.get(key("alive/" + watched), answer());
  DTRT_RETURN_IF_ERROR(sign);
  watch(*sign);
  return {};
}

void JobDriver::watch(const std::optional<std::string> &sign) {
  bool isAlive = sign.value_or("") != lastSign;
  lastSign = sign.value_or("");
  silence = isAlive ? 0 : silence + 1;
  // Again, where that has failed.
  if (silence == 0 || silence % times.silentBeats != 0)
    return;
  JobEvent event;
  event.what = JobEvent::What::Ask;
  event.request.lost = {watched};
  give(event);
}

} // namespace dtrt
