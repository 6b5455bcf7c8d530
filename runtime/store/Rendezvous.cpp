//===- Rendezvous.cpp - All ranks agree, or all learn why not -------------===//

#include "dtrt/store/Rendezvous.h"

#include "dtrt/store/Pause.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sys/random.h>

namespace dtrt {

namespace {

using Clock = std::chrono::steady_clock;

/// Shares of the timeout: to wait for ranks that come from elsewhere, or that
/// are at work in the attempt and answer a roll call; for that call; and for
/// the store's answer to a call.
constexpr double kGatherShare = 0.8;
constexpr double kWaitShare = 0.6;
constexpr double kRollShare = 0.2;
constexpr double kAnswerShare = 0.2;

/// How long a rank that stops tries to tell the others.
constexpr Seconds kLastWord(5);
/// What the store and other ranks have at least to answer.
constexpr Seconds kLeastAnswer(1);

const Step kSteps[] = {Step::Here,  Step::Nccl,  Step::Arena, Step::Connected,
                       Step::Waves, Step::Begun, Step::Done,  Step::Report};

const char *nameOf(Step step) {
  constexpr const char *names[] = {"here",  "nccl",  "arena", "connected",
                                   "waves", "begun", "done",  "report"};
  return names[size_t(step)];
}

std::string recordOf(Step step, uint32_t rank) {
  return nameOf(step) + std::string("/") + std::to_string(rank);
}

std::string verdictOf(Step step) {
  return nameOf(step) + std::string("/verdict");
}

Result<std::string> makeId() {
  unsigned char random[16];
  if (getrandom(random, sizeof random, 0) != ssize_t(sizeof random))
    return makeError(ErrorCode::System, "the system gives no random numbers");
  std::string text;
  for (unsigned char byte : random)
    for (int digit : {byte >> 4, byte & 15})
      text += "0123456789abcdef"[digit];
  return text;
}

std::vector<uint32_t> without(std::vector<uint32_t> ranks, uint32_t rank) {
  ranks.erase(std::remove(ranks.begin(), ranks.end(), rank), ranks.end());
  return ranks;
}

} // namespace

std::string rankNames(const std::vector<uint32_t> &ranks) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1)
      ++last;
    parts.push_back(std::to_string(ranks[i]));
    if (last > i)
      parts.back() +=
          (last == i + 1 ? ", " : "-") + std::to_string(ranks[last]);
    i = last + 1;
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < parts.size(); ++i)
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

Rendezvous::Rendezvous(std::shared_ptr<Store> store, uint32_t rank,
                       uint32_t size, Seconds timeout, std::string root)
    : client(std::move(store)), self(rank), world(size), limit(timeout),
      root(std::move(root)) {}

Seconds Rendezvous::patience() const { return limit * kWaitShare; }

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

std::string Rendezvous::attemptKey(const std::string &of,
                                   const std::string &name) const {
  return root + "/" + of + "/" + name;
}

std::string Rendezvous::keyOf(const std::string &name) const {
  return attemptKey(idOf(), name);
}

std::string Rendezvous::idOf() const {
  std::lock_guard<std::mutex> lock(mutex);
  return id;
}

/// The key of the names that a rank has shared.
static std::string sharedList(uint32_t rank) {
  return "keys/" + std::to_string(rank);
}

/// Until the deadline, and as long after it as the store may take to answer.
Rendezvous::Wait Rendezvous::waitUntil(Deadline deadline) const {
  auto answer = std::chrono::duration_cast<Clock::duration>(
      std::max(limit * kAnswerShare, kLeastAnswer));
  return {std::max(deadline, Clock::now()) + answer, Heed::Cancel};
}

/// Of a rank that comes, cancelled or not: it may have to reach the store
/// first.
Rendezvous::Wait Rendezvous::coming() const {
  return {deadlineIn(std::max(limit * kGatherShare, kLeastAnswer)),
          Heed::Nothing};
}

/// Of a rank that goes.
Rendezvous::Wait Rendezvous::regardless(double share) const {
  return {deadlineIn(share * std::clamp(limit, kLeastAnswer, kLastWord)),
          Heed::Nothing};
}

Status Rendezvous::put(const std::string &name, const std::string &value,
                       Wait wait) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    own.insert(name);
  }
  return client.set(keyOf(name), value, wait);
}

/// A process that was stopped meanwhile has no time left when it goes on, so
/// that it asks once more.
Status Rendezvous::removeKey(const std::string &name) {
  constexpr int kTries = 2;
  Status removed;
  for (int i = 0; i < kTries; ++i) {
    removed = client.remove(keyOf(name), regardless(1.0 / kTries));
    if (removed.ok())
      break;
  }
  return removed;
}

/// False: some are left, for the others to remove.
bool Rendezvous::removeOwn() {
  std::set<std::string> names;
  {
    std::lock_guard<std::mutex> lock(mutex);
    names.swap(own);
    hasLeft = true;
  }
  // Last what others go by: the list from which they remove what this rank
  // leaves, and that it is here, until when they wait for it to read.
  std::vector<std::string> ordered;
  for (const std::string &last : {sharedList(self), recordOf(Step::Here, self)})
    if (names.erase(last) > 0)
      ordered.push_back(last);
  ordered.insert(ordered.begin(), names.begin(), names.end());
  return std::all_of(
      ordered.begin(), ordered.end(),
      [this](const std::string &name) { return removeKey(name).ok(); });
}

/// The names of what a rank has shared.
static std::vector<std::string>
sharedNames(const std::optional<std::string> &list) {
  std::vector<std::string> names;
  if (!list)
    return names;
  auto keys = nlohmann::json::parse(*list, nullptr, /*allow_exceptions=*/false);
  for (const auto &key : keys)
    if (key.is_string())
      names.push_back("shared/" + key.get<std::string>());
  return names;
}

/// Removes the keys of an attempt, whoever has set them, but for what says that
/// it is committed.
void Rendezvous::sweep(const std::string &ended) {
  Wait wait{deadlineIn(limit), Heed::Nothing};
  std::vector<std::string> names;
  for (Step step : kSteps)
    names.push_back(verdictOf(step));
  for (uint32_t rank = 0; rank < world; ++rank) {
    std::string number = std::to_string(rank);
    auto list = client.get(attemptKey(ended, sharedList(rank)), wait);
    if (!list.ok())
      return;
    for (std::string &name : sharedNames(*list))
      names.push_back(std::move(name));
    names.push_back(sharedList(rank));
    names.push_back("alive/" + number);
    for (Step step : kSteps)
      names.push_back(recordOf(step, rank));
  }
  for (const std::string &name : names)
    if (!client.remove(attemptKey(ended, name), wait).ok())
      return;
}

/// Of a rank that died before its commit, what says so may be left too.
void Rendezvous::sweepAborted(const std::string &ended) {
  sweep(ended);
  (void)client.remove(attemptKey(ended, "read"), regardless());
}

Status Rendezvous::share(const std::string &key, const std::string &value) {
  nlohmann::json keys = {key};
  bool isNew = true;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (hasLeft)
      return makeError(ErrorCode::Cancelled, "this rank has left the attempt");
    const std::string prefix = "shared/";
    isNew = own.count(prefix + key) == 0;
    for (const std::string &name : own)
      if (name.compare(0, prefix.size(), prefix) == 0)
        keys.push_back(name.substr(prefix.size()));
  }
  Wait wait = waitUntil(Clock::now());
  // For those who remove what this process leaves, if it dies.
  if (isNew)
    DTRT_RETURN_IF_ERROR(put(sharedList(self), keys.dump(), wait));
  return put("shared/" + key, value, wait);
}

Result<std::optional<std::string>> Rendezvous::await(const std::string &key,
                                                     Deadline deadline) {
  return awaitKey("shared/" + key, deadline);
}

Result<std::optional<std::string>> Rendezvous::find(const std::string &key) {
  return client.get(keyOf("shared/" + key), waitUntil(Clock::now()));
}

//===----------------------------------------------------------------------===//
// The record
//===----------------------------------------------------------------------===//

Result<Rendezvous::Record> Rendezvous::readRecord(Wait wait) {
  auto text = client.get(recordKey(), wait);
  DTRT_RETURN_IF_ERROR(text);
  Record record;
  record.text = text->value_or("");
  if (record.text.empty())
    return record;
  auto found = Attempt::parse(record.text);
  DTRT_RETURN_IF_ERROR(found);
  record.attempt = std::move(*found);
  return record;
}

/// Whether the record was still `old`, and now is `next`.
Result<bool> Rendezvous::replace(const Record &old, const Attempt &next,
                                 Wait wait) {
  std::string text = next.text();
  auto now = client.compareAndSet(recordKey(), old.text, text, wait);
  DTRT_RETURN_IF_ERROR(now);
  return *now == text;
}

Result<Decision> Rendezvous::look(Wait wait) {
  auto record = readRecord(wait);
  DTRT_RETURN_IF_ERROR(record);
  if (!record->isOf(idOf()))
    return lookPast(*record, wait);
  const Attempt &found = *record->attempt;
  if (found.callsRoll)
    answerRoll();
  Decision decision;
  decision.state = found.state;
  decision.note = found.note;
  if (found.state == Attempt::State::Aborted)
    decision.why = found.stop.toldTo(self);
  return decision;
}

/// Another attempt has taken the place of this one.
Result<Decision> Rendezvous::lookPast(const Record &record, Wait wait) {
  if (!record.attempt)
    return makeError(ErrorCode::StoreLost,
                     "the store has lost the record of the attempt");
  Decision decision;
  auto committed = client.get(keyOf("committed"), wait);
  DTRT_RETURN_IF_ERROR(committed);
  if (*committed) {
    decision.state = Attempt::State::Committed;
    decision.note = **committed;
    return decision;
  }
  const Attempt &next = *record.attempt;
  decision.state = Attempt::State::Aborted;
  if (next.before && next.beforeId == idOf())
    decision.why = next.before->toldTo(self);
  else
    decision.why =
        makeError(ErrorCode::Cancelled,
                  "the other ranks have given this attempt up; rank ",
                  next.opener, " has begun another one");
  overtaken = next.state == Attempt::State::Open && next.opener != self;
  return decision;
}

void Rendezvous::answerRoll() {
  if (!answered.exchange(true))
    (void)put("alive/" + std::to_string(self), "", waitUntil(Clock::now()));
}

Status Rendezvous::checkStopped() {
  auto decision = look(waitUntil(Clock::now()));
  DTRT_RETURN_IF_ERROR(decision);
  return decision->state == Attempt::State::Aborted ? decision->why : Status();
}

//===----------------------------------------------------------------------===//
// Coming
//===----------------------------------------------------------------------===//

/// Opens an attempt in the place of the one that is there. False: another rank
/// was first.
Result<bool> Rendezvous::open(const Record &old, Attempt next) {
  Wait wait = coming();
  auto made = makeId();
  DTRT_RETURN_IF_ERROR(made);
  next.id = *made;
  bool wasCommitted =
      old.attempt && old.attempt->state == Attempt::State::Committed;
  if (wasCommitted)
    DTRT_RETURN_IF_ERROR(keepUnread(*old.attempt, wait));
  auto replaced = replace(old, next, wait);
  DTRT_RETURN_IF_ERROR(replaced);
  if (wasCommitted)
    (void)dropRead(*old.attempt, wait);
  else if (old.attempt && *replaced)
    sweepAborted(old.attempt->id);
  if (*replaced)
    take(next.id);
  return *replaced;
}

void Rendezvous::take(const std::string &taken) {
  std::lock_guard<std::mutex> lock(mutex);
  id = taken;
  answered = false;
  hasLeft = false;
}

/// A commit that not all ranks have read stays where they look for it.
Status Rendezvous::keepUnread(const Attempt &committed, Wait wait) {
  auto read = client.get(attemptKey(committed.id, "read"), wait);
  DTRT_RETURN_IF_ERROR(read);
  if (!*read)
    return {};
  return client.set(attemptKey(committed.id, "committed"), committed.note,
                    wait);
}

Status Rendezvous::dropRead(const Attempt &committed, Wait wait) {
  auto read = client.get(attemptKey(committed.id, "read"), wait);
  DTRT_RETURN_IF_ERROR(read);
  if (*read)
    return {};
  return client.remove(attemptKey(committed.id, "committed"), wait);
}

/// One try to take part. False: the record has changed meanwhile.
Result<bool> Rendezvous::tryJoin(const Arrival &arrival,
                                 const std::optional<std::string> &said) {
  Wait wait = coming();
  auto old = readRecord(wait);
  DTRT_RETURN_IF_ERROR(old);
  bool cameBefore = false;
  if (old->attempt) {
    auto mine = client.get(
        attemptKey(old->attempt->id, recordOf(Step::Here, self)), wait);
    DTRT_RETURN_IF_ERROR(mine);
    cameBefore = mine->has_value();
  }
  ArrivalStep step = arrive(old->attempt, arrival, cameBefore);
  if (step.what == ArrivalStep::What::Leave)
    return turnBack(*old, step);
  if (step.what == ArrivalStep::What::Open) {
    auto opened = open(*old, std::move(*step.record));
    if (!opened.ok() || !*opened)
      return opened;
  } else {
    take(old->attempt->id);
  }
  return said ? enter(*said) : true;
}

/// Fails with what the step says, once the record does. False: it has changed.
Result<bool> Rendezvous::turnBack(const Record &old, ArrivalStep &step) {
  if (!step.record)
    return step.why;
  Wait wait = coming();
  if (old.attempt->state == Attempt::State::Open) {
    auto missing = absent(old.attempt->id, Step::Here, wait);
    DTRT_RETURN_IF_ERROR(missing);
    step.record->missing = without(*missing, self);
  }
  auto replaced = replace(old, *step.record, wait);
  DTRT_RETURN_IF_ERROR(replaced);
  if (*replaced)
    return step.why;
  return false;
}

/// Says that this rank is here. False: the attempt has ended meanwhile, and
/// another one has taken its place. Fails where a later process of this rank
/// has opened that: the two would end each other in turn.
Result<bool> Rendezvous::enter(const std::string &said) {
  Wait wait = coming();
  DTRT_RETURN_IF_ERROR(put(recordOf(Step::Here, self), said, wait));
  auto record = readRecord(wait);
  DTRT_RETURN_IF_ERROR(record);
  if (record->isOf(idOf()))
    return true;
  Status why;
  if (record->attempt && record->attempt->opener == self) {
    auto past = lookPast(*record, wait);
    DTRT_RETURN_IF_ERROR(past);
    why = past->why;
  }
  removeOwn();
  DTRT_RETURN_IF_ERROR(why);
  return false;
}

Status Rendezvous::join(const Arrival &given,
                        const std::optional<std::string> &said) {
  Arrival arrival = given;
  arrival.rank = self;
  arrival.terms.insert(arrival.terms.begin(),
                       {"world size", std::to_string(world)});
  while (true) {
    auto joined = tryJoin(arrival, said);
    DTRT_RETURN_IF_ERROR(joined);
    if (*joined)
      break;
  }
  // An abort that came before there was anything to abort.
  Status stopped = client.cancelled();
  if (!stopped.ok())
    (void)decideAbort(stopped);
  return stopped;
}

Result<std::string> Rendezvous::gather(const Arrival &arrival,
                                       const std::string &record,
                                       const Judge &judge) {
  Deadline deadline = deadlineIn(limit * kGatherShare);
  while (true) {
    overtaken = false;
    DTRT_RETURN_IF_ERROR(join(arrival, record));
    auto verdict = hearVerdict(Step::Here, judge, deadline);
    if (verdict.ok())
      gathered = true;
    // A rank that was started anew begins again, and so may this one.
    if (verdict.ok() || !overtaken || Clock::now() > deadline)
      return verdict;
    removeOwn();
  }
}

void Rendezvous::refuse(const Arrival &arrival, const Status &why) {
  if (join(arrival, std::nullopt).ok())
    (void)abort(why);
}

//===----------------------------------------------------------------------===//
// Waiting for the others
//===----------------------------------------------------------------------===//

/// The value of a key that another rank will set; nothing: it has not by the
/// deadline.
Result<std::optional<std::string>> Rendezvous::awaitKey(const std::string &name,
                                                        Deadline deadline) {
  Pause pause(world);
  while (true) {
    auto value = client.get(keyOf(name), waitUntil(deadline));
    if (!value.ok() || *value)
      return value;
    DTRT_RETURN_IF_ERROR(checkStopped());
    if (Clock::now() > deadline)
      return std::optional<std::string>();
    DTRT_RETURN_IF_ERROR(pause(client));
  }
}

/// Of all ranks; nothing: one has not come by the deadline.
Result<std::optional<std::vector<std::string>>>
Rendezvous::collect(Step step, Deadline deadline) {
  std::vector<std::string> records;
  for (uint32_t rank = 0; rank < world; ++rank) {
    auto record = awaitKey(recordOf(step, rank), deadline);
    DTRT_RETURN_IF_ERROR(record);
    if (!*record)
      return std::optional<std::vector<std::string>>();
    records.push_back(std::move(**record));
  }
  return std::optional<std::vector<std::string>>(std::move(records));
}

/// Rank 0's part of `hearVerdict`.
Result<std::string> Rendezvous::judgeAll(Step step, const Judge &judge,
                                         Deadline deadline) {
  auto records = collect(step, deadline);
  DTRT_RETURN_IF_ERROR(records);
  if (!*records)
    return late(step);
  auto verdict = judge(**records);
  DTRT_RETURN_IF_ERROR(verdict);
  DTRT_RETURN_IF_ERROR(put(verdictOf(step), *verdict, waitUntil(Clock::now())));
  return verdict;
}

Result<std::string> Rendezvous::hearVerdict(Step step, const Judge &judge,
                                            Deadline deadline) {
  if (self == 0)
    return judgeAll(step, judge, deadline);
  auto verdict = awaitKey(verdictOf(step), deadline);
  DTRT_RETURN_IF_ERROR(verdict);
  if (!*verdict)
    return late(step);
  return std::move(**verdict);
}

Result<std::string> Rendezvous::agree(Step step, const std::string &record,
                                      const Judge &judge) {
  Deadline deadline = deadlineIn(patience());
  DTRT_RETURN_IF_ERROR(
      put(recordOf(step, self), record, waitUntil(Clock::now())));
  return hearVerdict(step, judge, deadline);
}

Result<std::vector<uint32_t>> Rendezvous::absent(const std::string &of,
                                                 Step step, Wait wait) {
  std::vector<uint32_t> absent;
  for (uint32_t rank = 0; rank < world; ++rank) {
    auto record = client.get(attemptKey(of, recordOf(step, rank)), wait);
    DTRT_RETURN_IF_ERROR(record);
    if (!*record)
      absent.push_back(rank);
  }
  return absent;
}

Status Rendezvous::timeoutOf(const std::vector<uint32_t> &missing,
                             const char *others) const {
  std::vector<uint32_t> rest;
  for (uint32_t rank = 0; rank < world; ++rank)
    if (std::find(missing.begin(), missing.end(), rank) == missing.end())
      rest.push_back(rank);
  return makeError(ErrorCode::Timeout, "timeout of ", limit.count(),
                   " s waiting for ", rankNames(missing),
                   rest.empty() ? "" : " (" + rankNames(rest) + others + ")");
}

/// Names the ranks that have not handed in their record. Of those who are at
/// work in the attempt some may only wait for others.
Status Rendezvous::late(Step step) {
  auto missing = absent(idOf(), step, waitUntil(Clock::now()));
  DTRT_RETURN_IF_ERROR(missing);
  // Ranks leave, with their records, once the attempt has ended.
  DTRT_RETURN_IF_ERROR(checkStopped());
  if (missing->empty())
    return makeError(ErrorCode::Timeout, "timeout of ", limit.count(),
                     " s waiting for rank 0, which judges (all ranks came)");
  if (step != Step::Here) {
    auto quiet = silent(*missing);
    DTRT_RETURN_IF_ERROR(quiet);
    if (!quiet->empty())
      return makeError(GoneRanks{*quiet},
                       timeoutOf(*quiet, " came or answered"));
  }
  return timeoutOf(*missing, " came");
}

/// Whether it is this rank that calls the roll: one does, for all.
Result<bool> Rendezvous::callRoll() {
  Wait wait = waitUntil(Clock::now());
  while (true) {
    auto record = readRecord(wait);
    DTRT_RETURN_IF_ERROR(record);
    bool isOpen =
        record->isOf(idOf()) && record->attempt->state == Attempt::State::Open;
    if (!isOpen || record->attempt->callsRoll)
      return false;
    Attempt next = *record->attempt;
    next.callsRoll = true;
    auto replaced = replace(*record, next, wait);
    if (!replaced.ok() || *replaced)
      return replaced;
  }
}

/// Of the ranks, those that do not respond; none, where another rank has
/// asked and has not ended the attempt for it. Ranks answer while they are in a
/// call, or prepare.
Result<std::vector<uint32_t>>
Rendezvous::silent(std::vector<uint32_t> suspects) {
  auto asks = callRoll();
  DTRT_RETURN_IF_ERROR(asks);
  double share = *asks ? kRollShare : kRollShare + kAnswerShare;
  Deadline deadline = deadlineIn(std::max(limit * share, kLeastAnswer));
  Pause pause(world);
  while (true) {
    DTRT_RETURN_IF_ERROR(checkStopped());
    for (size_t i = 0; *asks && i < suspects.size();) {
      std::string name = "alive/" + std::to_string(suspects[i]);
      auto answer = client.get(keyOf(name), waitUntil(deadline));
      DTRT_RETURN_IF_ERROR(answer);
      if (*answer)
        suspects.erase(suspects.begin() + i);
      else
        ++i;
    }
    if (suspects.empty() || Clock::now() > deadline)
      break;
    DTRT_RETURN_IF_ERROR(pause(client));
  }
  return *asks ? suspects : std::vector<uint32_t>();
}

/// A failure whose cause may be the store's: a rank that loses it leaves, and
/// the others lose that rank.
static Status withoutStore(const Status &failure, const Status &lost) {
  if (failure.is(ErrorCode::StoreLost))
    return failure;
  return makeError(failure,
                   "; the other ranks cannot be asked why: ", lost.message());
}

Status Rendezvous::causeOf(const Status &failure, bool callsRoll) {
  auto decision = look(regardless());
  if (!decision.ok())
    return withoutStore(failure, decision.status());
  if (decision->state == Attempt::State::Aborted)
    return decision->why;
  if (!callsRoll && !failure.is(ErrorCode::Timeout))
    return failure;
  std::vector<uint32_t> others;
  for (uint32_t rank = 0; rank < world; ++rank)
    if (rank != self)
      others.push_back(rank);
  auto quiet = silent(others);
  if (!quiet.ok())
    return quiet.status().is(ErrorCode::StoreLost)
               ? withoutStore(failure, quiet.status())
               : quiet.status();
  if (quiet->empty())
    return failure;
  return makeError(GoneRanks{*quiet}, timeoutOf(*quiet, " answered"), ": ",
                   failure.message());
}

//===----------------------------------------------------------------------===//
// The decision
//===----------------------------------------------------------------------===//

/// Rank 0, once it has seen that all ranks are done; open: they are not, by the
/// deadline.
Result<Decision> Rendezvous::decide(const Judge &judge, Deadline deadline) {
  auto notes = collect(Step::Done, deadline);
  DTRT_RETURN_IF_ERROR(notes);
  if (!*notes)
    return Decision();
  auto note = judge(**notes);
  DTRT_RETURN_IF_ERROR(note);
  Wait wait = regardless();
  // There from before the commit until all have read that.
  DTRT_RETURN_IF_ERROR(client.add(keyOf("read"), 0, wait));
  auto record = readRecord(wait);
  while (record.ok() && record->isOf(idOf()) &&
         record->attempt->state == Attempt::State::Open) {
    auto replaced = replace(*record, record->attempt->committed(*note), wait);
    DTRT_RETURN_IF_ERROR(replaced); // it may be committed
    if (*replaced)
      return Decision{Attempt::State::Committed, *note, {}};
    record = readRecord(wait);
  }
  (void)removeKey("read");
  DTRT_RETURN_IF_ERROR(record);
  return look(wait);
}

/// Open: it has not come by the deadline.
Result<Decision> Rendezvous::awaitDecision(Deadline deadline) {
  Pause pause(world);
  while (true) {
    auto decision = look(waitUntil(deadline));
    if (!decision.ok() || decision->state != Attempt::State::Open ||
        Clock::now() > deadline)
      return decision;
    DTRT_RETURN_IF_ERROR(pause(client));
  }
}

Result<Decision> Rendezvous::sayDone(const std::string &note,
                                     const Judge &judge) {
  Deadline deadline = deadlineIn(patience());
  saidDone = true;
  Status told = put(recordOf(Step::Done, self), note, waitUntil(Clock::now()));
  auto decision = !told.ok()  ? Result<Decision>(told)
                  : self == 0 ? decide(judge, deadline)
                              : awaitDecision(deadline);
  if (decision.ok() && decision->state == Attempt::State::Open)
    return decideAbort(late(Step::Done));
  if (decision.ok() || decision.status().is(ErrorCode::StoreLost))
    return decision;
  return decideAbort(decision.status());
}

Result<Decision> Rendezvous::commit(const std::string &note,
                                    const Judge &judge) {
  Deadline end = deadlineIn(limit);
  auto decision = look(waitUntil(Clock::now()));
  if (decision.ok() && decision->state == Attempt::State::Open)
    decision = sayDone(note, judge);
  if (!decision.ok() && saidDone)
    return makeError(ErrorCode::Undecided,
                     "cannot learn whether this was committed or aborted: ",
                     decision.status().message(),
                     "; keep what both sides hold, and call commit again to "
                     "ask once more");
  DTRT_RETURN_IF_ERROR(decision);
  if (decision->state == Attempt::State::Committed)
    leaveCommitted(end);
  else
    leaveAborted();
  return decision;
}

/// The last rank that has read the commit removes what says so. The others
/// wait for it: one of them may host the store.
void Rendezvous::leaveCommitted(Deadline end) {
  if (!removeOwn())
    return;
  Wait wait = regardless();
  auto count = client.add(keyOf("read"), 1, wait);
  if (!count.ok())
    return;
  if (*count >= int64_t(world)) {
    (void)client.remove(keyOf("committed"), wait);
    (void)client.remove(keyOf("read"), wait);
    return;
  }
  Pause pause(world);
  while (Clock::now() < end && pause(client).ok()) {
    auto left = client.get(keyOf("read"), waitUntil(end));
    if (!left.ok() || !*left)
      return;
  }
  sweep(idOf()); // of a rank that has died, or is late
}

Result<Decision> Rendezvous::abort(const Status &why) {
  client.cancel(why);
  if (idOf().empty()) // `join` will
    return Decision{Attempt::State::Aborted, "", why};
  return decideAbort(why);
}

Result<Decision> Rendezvous::decideAbort(const Status &why) {
  Wait wait = regardless();
  while (true) {
    auto record = readRecord(wait);
    DTRT_RETURN_IF_ERROR(record);
    if (!record->isOf(idOf()) || record->attempt->state != Attempt::State::Open)
      break;
    std::vector<uint32_t> missing;
    if (!gathered) {
      auto found = absent(idOf(), Step::Here, wait);
      DTRT_RETURN_IF_ERROR(found);
      missing = without(*found, self);
    }
    Stop stop{self, why.code(), why.message(), why.goneRanks()};
    auto replaced =
        replace(*record, record->attempt->aborted(stop, missing), wait);
    DTRT_RETURN_IF_ERROR(replaced);
    if (*replaced)
      hasAborted = true;
  }
  auto decision = look(wait);
  if (decision.ok() && decision->state == Attempt::State::Aborted)
    leaveAborted();
  return decision;
}

/// This rank knows of it now, and need not be told when it comes again.
void Rendezvous::leaveAborted() {
  removeOwn();
  Wait wait = regardless();
  while (true) {
    auto record = readRecord(wait);
    if (!record.ok() || !record->isOf(idOf()))
      return;
    Attempt next = *record->attempt;
    next.missing = without(next.missing, self);
    if (next.missing.size() == record->attempt->missing.size())
      return;
    auto replaced = replace(*record, next, wait);
    if (!replaced.ok() || *replaced)
      return;
  }
}

bool Rendezvous::wasAborted(Wait wait) {
  auto record = readRecord(wait);
  return record.ok() && record->isOf(idOf()) &&
         record->attempt->state == Attempt::State::Aborted;
}

bool Rendezvous::allHaveLeft() {
  Wait wait = regardless();
  if (!wasAborted(wait))
    return true;
  auto gone = absent(idOf(), Step::Here, wait);
  return !gone.ok() || gone->size() == world;
}

void Rendezvous::cleanUp() {
  if (hasAborted && wasAborted(regardless()))
    sweepAborted(idOf());
}

} // namespace dtrt
