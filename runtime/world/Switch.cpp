//===- Switch.cpp - One transition of a live job --------------------------===//

#include "dtrt/world/Switch.h"

#include "LossNote.h"
#include "dtrt/transport/SharedShards.h"
#include "dtrt/verify/VerifyOnce.h"

#include <algorithm>
#include <condition_variable>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <tuple>

namespace dtrt {

using Json = nlohmann::json;

namespace {

/// How often a rank that moves bytes looks whether another has stopped.
constexpr Seconds kWatchInterval(0.05);

/// Empty where there is none.
std::string textIn(const Json &json, const char *key) {
  auto found = json.is_object() ? json.find(key) : json.end();
  return found != json.end() && found->is_string() ? found->get<std::string>()
                                                   : "";
}

/// A digest (FNV-1a) of which tensors there are, of how many bytes, in any
/// order. Tensors of no bytes need not be given and do not count.
template <typename Tensor>
std::string inventoryOf(std::vector<Tensor> tensors) {
  auto keyOf = [](const Tensor &tensor) {
    return std::tie(tensor.tensor, tensor.state, tensor.side, tensor.ordinal);
  };
  std::sort(tensors.begin(), tensors.end(),
            [&](const auto &a, const auto &b) { return keyOf(a) < keyOf(b); });
  uint64_t hash = 0xcbf29ce484222325;
  auto add = [&](const std::string &text) {
    for (unsigned char c : text + '\n')
      hash = (hash ^ c) * 0x100000001b3;
  };
  size_t count = 0;
  for (const Tensor &tensor : tensors) {
    if (tensor.bytes == 0)
      continue;
    ++count;
    for (const std::string &text : {tensor.tensor, tensor.state})
      add(text);
    for (uint64_t number :
         {uint64_t(tensor.side), uint64_t(tensor.ordinal), tensor.bytes})
      add(std::to_string(number));
  }
  std::ostringstream text;
  text << count << " tensors, digest " << std::hex << hash;
  return text.str();
}

/// What a rank hands in.
struct RankRecord {
  std::string inventory; // of its tensors
  std::string note;

  std::string text() const {
    return Json({{"inventory", inventory}, {"note", note}})
        .dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  /// What is damaged is no rank's tensors.
  static RankRecord parse(const std::string &text) {
    Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    return {textIn(json, "inventory"), textIn(json, "note")};
  }
};

/// Every rank's tensors against what rank 0's copy of the plan expects of it.
Status compareInventories(const std::vector<RankRecord> &records,
                          const PlanReader &plan,
                          const std::vector<uint32_t> &devices) {
  for (uint32_t rank = 0; rank < records.size(); ++rank) {
    auto program = plan.program(devices[rank]);
    DTRT_RETURN_IF_ERROR(program);
    LocalStorage storage(plan.common(), *program);
    std::string expected = inventoryOf(expectedTensors(storage));
    if (records[rank].inventory != expected)
      return makeError(ErrorCode::Mismatch, "rank ", rank, " has ",
                       records[rank].inventory, ", the plan expects ", expected,
                       " of it");
  }
  return {};
}

Result<std::string> firstNote(const std::vector<std::string> &notes) {
  for (const std::string &note : notes)
    if (!note.empty())
      return note;
  return std::string();
}

/// Rank 0's part: all ranks have the tensors that the plan names.
Result<std::string> judgeRecords(const std::vector<std::string> &texts,
                                 const PlanReader &plan,
                                 const std::vector<uint32_t> &devices) {
  std::vector<RankRecord> records;
  std::vector<std::string> notes;
  for (const std::string &text : texts) {
    records.push_back(RankRecord::parse(text));
    notes.push_back(records.back().note);
  }
  DTRT_RETURN_IF_ERROR(compareInventories(records, plan, devices));
  auto secret = Secret::make();
  DTRT_RETURN_IF_ERROR(secret);
  return Json({{"secret", secret->text()}, {"note", *firstNote(notes)}})
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<std::string> acceptAll(const std::vector<std::string> &) {
  return std::string();
}

std::string listOf(const std::vector<uint32_t> &numbers) {
  std::string list;
  for (uint32_t number : numbers)
    list += (list.empty() ? "" : ",") + std::to_string(number);
  return list;
}

/// What all ranks must have alike.
Arrival arrivalAt(const PlanReader &plan, const World &world) {
  const PlanCommon &common = plan.common();
  Arrival arrival;
  arrival.kind = "switch";
  arrival.rank = world.rank;
  arrival.tag = world.tag;
  arrival.terms = {{"source layout", common.sourceFingerprint},
                   {"destination layout", common.destinationFingerprint},
                   {"plan", digestText(plan.digest())},
                   {"devices", listOf(world.devices)}};
  return arrival;
}

std::shared_ptr<Rendezvous> rendezvousOf(const World &world) {
  return std::make_shared<Rendezvous>(world.store, world.rank, world.size,
                                      world.timeout);
}

} // namespace

/// A thread that looks whether a rank has stopped elsewhere, and then aborts
/// the transport here. It sleeps while nothing runs: to start a thread for each
/// transfer, and to wait for its end, takes longer than a transfer may.
class Switch::Watch {
public:
  /// Looks from now on. Fails where the system has no thread for it: a full
  /// process may not have the memory of one.
  static Result<std::unique_ptr<Watch>> start(Switch &watched) {
    std::unique_ptr<Watch> made(new Watch);
    try {
      made->thread =
          std::thread([own = made.get(), &watched] { own->run(watched); });
    } catch (const std::system_error &error) {
      return makeError("cannot start a thread: ", error.what());
    }
    return made;
  }
  ~Watch() {
    if (!thread.joinable())
      return;
    {
      std::lock_guard<std::mutex> lock(mutex);
      ended = true;
    }
    wake.notify_all();
    thread.join();
  }

  void resume() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      looks = true;
    }
    wake.notify_all();
  }
  /// Once this returns it aborts nothing. The thread finds out by itself.
  void pause() {
    std::unique_lock<std::mutex> lock(mutex);
    looks = false;
    looked.wait(lock, [this] { return !isLooking; });
  }

private:
  Watch() = default;
  void run(Switch &watched) {
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      wake.wait(lock, [this] { return ended || looks; });
      if (wake.wait_for(lock, kWatchInterval, [this] { return ended; }))
        return;
      if (!looks)
        continue;
      isLooking = true;
      lock.unlock();
      bool goesOn = look(watched);
      lock.lock();
      isLooking = false;
      looks &= goesOn;
      looked.notify_all();
    }
  }
  /// A store that does not answer stops nothing yet: the bytes do not need it.
  static bool look(Switch &watched) {
    Status stopped = watched.rendezvous->checkStopped();
    if (stopped.ok() || stopped.is(ErrorCode::StoreLost))
      return true;
    watched.cancel(stopped);
    return false;
  }

  std::mutex mutex;
  std::condition_variable wake, looked;
  bool ended = false;
  bool looks = true;      // or sleeps
  bool isLooking = false; // at this moment
  std::thread thread;
};

Result<std::vector<uint32_t>> devicesOf(const PlanReader &plan,
                                        const World &world) {
  std::vector<uint32_t> devices =
      world.devices.empty() ? plan.devices() : world.devices;
  if (devices.size() != world.size)
    return makeError(world.devices.empty() ? "the plan has " : "the list has ",
                     devices.size(), " devices, the world has ", world.size,
                     " ranks");
  std::vector<uint32_t> sorted = devices;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != plan.devices())
    return makeError("the devices of the world's ranks are not those of the "
                     "plan");
  return devices;
}

Switch::Switch(const PlanReader &plan, const World &world)
    : plan(&plan), arrival(arrivalAt(plan, world)),
      rendezvous(rendezvousOf(world)) {}

/// What the transport has registered lives in the runner.
Switch::~Switch() {
  watching.reset();
  bool isOpen = false;
  {
    std::lock_guard<std::mutex> lock(mutex);
    isOpen = phase != Phase::New && phase != Phase::Undecided &&
             phase != Phase::Committed && phase != Phase::Failed;
  }
  if (isOpen)
    abort(makeError(ErrorCode::Cancelled, "it has dropped the switch"));
  if (transport)
    transport->leave();
}

Result<std::unique_ptr<Switch>> Switch::create(const PlanReader &plan,
                                               const World &world) {
  auto devices = devicesOf(plan, world);
  DTRT_RETURN_IF_ERROR(devices);
  auto program = plan.program((*devices)[world.rank]);
  DTRT_RETURN_IF_ERROR(program);
  std::unique_ptr<Switch> made(new Switch(plan, world));
  made->rankDevices = std::move(*devices);
  made->program = std::move(*program);
  return made;
}

void Switch::refuse(const PlanReader &plan, const World &world,
                    const Status &why) {
  rendezvousOf(world)->refuse(arrivalAt(plan, world), why);
}

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

/// The error of a phase says what has gone with the ranks that are gone.
Status Switch::withLosses(const Status &why) const {
  if (!hasLost || !runner || why.goneRanks().ranks.empty())
    return why;
  SeenFailure failure;
  failure.device = program.device;
  failure.wave = runner->stats().wave;
  failure.isInGroup = runner->stats().isInGroup;
  if (hasArrived)
    failure.wave = kForever;
  for (uint32_t rank : why.goneRanks().ranks)
    if (rank < rankDevices.size())
      failure.gone.push_back(rankDevices[rank]);
  return makeError(why, "; ", lossNote(*plan, failure, rankDevices));
}

/// Every error of a phase says when the old state is no longer whole.
Status Switch::named(const char *name, const Status &why) const {
  return makeError("rank ", rendezvous->rank(), ", ", name, ": ", why,
                   hasLost ? " (the old state is gone: in mode flat there is "
                             "no way back once all have begun the transfer)"
                           : "");
}

Status Switch::enter(const char *name, Phase expected) {
  std::lock_guard<std::mutex> lock(mutex);
  if (phase == expected)
    return {};
  if (phase == Phase::Failed)
    return named(name, makeError("the switch has ended: ", stopped));
  return named(name, makeError("the phases are prepare, transfer, commit, each "
                               "once and in this order"));
}

/// A failure here is made known to all ranks, unless one of them has failed
/// before: then that is the error of this rank too.
Status Switch::leave(const char *name, Phase reached, const Status &status) {
  if (!status.ok())
    return named(name, withLosses(end(status)));
  std::lock_guard<std::mutex> lock(mutex);
  if (phase == Phase::Failed)
    return named(name, stopped);
  phase = reached;
  return {};
}

/// Ends the switch for all ranks; the reason that it has ended for.
Status Switch::end(const Status &why) {
  auto decision = rendezvous->abort(why);
  Transport *open = nullptr;
  Status reason = why;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!decision.ok() && rendezvous->mayBeCommitted()) {
      phase = Phase::Undecided;
    } else if (decision.ok() && decision->state == Attempt::State::Committed) {
      phase = Phase::Committed;
    } else {
      phase = Phase::Failed;
      if (decision.ok())
        reason = decision->why;
      stopped = reason;
    }
    open = transport.get();
  }
  if (open)
    open->abort(reason);
  return reason;
}

Status Switch::fail(const char *name, const Status &why) {
  return leave(name, Phase::Failed, why);
}

Switch::Outcome Switch::abort(const Status &why) {
  if (outcome() == Outcome::Open || outcome() == Outcome::Undecided)
    (void)end(why);
  return outcome();
}

void Switch::cancel(const Status &why) {
  rendezvous->cancel(why);
  Transport *open = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex);
    cancelled = why;
    open = transport.get();
  }
  if (open)
    open->abort(why);
}

Switch::Outcome Switch::outcome() const {
  std::lock_guard<std::mutex> lock(mutex);
  switch (phase) {
  case Phase::Committed:
    return Outcome::Committed;
  case Phase::Failed:
    return Outcome::Aborted;
  case Phase::Undecided:
    return Outcome::Undecided;
  default:
    return Outcome::Open;
  }
}

Result<std::string> Switch::compare(const std::vector<TensorBinding> &tensors,
                                    const std::string &note) {
  Status entered = enter("prepare", Phase::New);
  if (!entered.ok()) {
    // An abort that came first has yet to be told.
    if (outcome() == Outcome::Aborted)
      rendezvous->refuse(arrival, stopped);
    return entered;
  }
  Status fits = verifyOnce(*plan);
  if (fits.ok()) {
    auto live = LiveStorage::bind(plan->common(), program, tensors);
    if (live.ok())
      storage = std::move(*live);
    else
      fits = live.status();
  }
  if (!fits.ok()) {
    rendezvous->refuse(arrival, fits);
    return fail("prepare", fits);
  }
  auto verdict =
      rendezvous->gather(arrival, RankRecord{inventoryOf(tensors), note}.text(),
                         [this](const std::vector<std::string> &records) {
                           return judgeRecords(records, *plan, rankDevices);
                         });
  Status status = statusOf(verdict);
  if (status.ok())
    status = readVerdict(*verdict);
  DTRT_RETURN_IF_ERROR(leave("prepare", Phase::Compared, status));
  auto watch = Watch::start(*this);
  if (!watch.ok())
    return fail("prepare", watch.status());
  watching = std::move(*watch);
  return preparedNote;
}

Status Switch::readVerdict(const std::string &verdict) {
  Json json = Json::parse(verdict, nullptr, /*allow_exceptions=*/false);
  auto secret = Secret::parse(textIn(json, "secret"));
  DTRT_RETURN_IF_ERROR(secret);
  shared = *secret;
  preparedNote = textIn(json, "note");
  return {};
}

static Result<std::unique_ptr<ProgramRunner>>
runOnHost(LocalStorage &storage, Transport &transport,
          const ExecutionOptions &options) {
  auto prepared = Executor::prepare(storage, transport, options);
  DTRT_RETURN_IF_ERROR(prepared);
  return std::unique_ptr<ProgramRunner>(
      std::make_unique<Executor>(std::move(*prepared)));
}

/// The runner is made for a transport that knows its peers.
Status Switch::meet(const MakeRunner &make) {
  DTRT_RETURN_IF_ERROR(transport->connect(plan->digest(), peersOf(program)));
  ExecutionOptions options;
  auto peers = shareShards(*plan, *storage, *transport, options);
  DTRT_RETURN_IF_ERROR(peers);
  peerShards = std::move(*peers);
  auto made = make ? make(*storage, *transport)
                   : runOnHost(*storage, *transport, options);
  DTRT_RETURN_IF_ERROR(made);
  runner = std::move(*made);
  return transport->registerArena(runner->staging(), program.stagingBytes);
}

Status Switch::connect(std::unique_ptr<Transport> given,
                       const MakeRunner &make) {
  DTRT_RETURN_IF_ERROR(enter("prepare", Phase::Compared));
  Status stop;
  {
    std::lock_guard<std::mutex> lock(mutex);
    transport = std::move(given);
    stop = cancelled;
  }
  if (!stop.ok())
    transport->abort(stop);
  Status status = meet(make);
  status = status.ok()
               ? statusOf(rendezvous->agree(Step::Connected, "", acceptAll))
               : rendezvous->causeOf(status);
  watching->pause();
  return leave("prepare", Phase::Connected, status);
}

Status Switch::cannotConnect(const Status &why) {
  Status cause = rendezvous->causeOf(why, /*callsRoll=*/true);
  if (watching)
    watching->pause();
  return leave("prepare", Phase::Failed, cause);
}

Status Switch::runProgram() {
  auto begin = std::chrono::steady_clock::now();
  Status status = runner->run();
  if (!status.ok())
    return rendezvous->causeOf(status);
  elapsed = Seconds(std::chrono::steady_clock::now() - begin).count();
  hasArrived = true;
  return {};
}

Status Switch::runWarmUp() {
  watching->resume();
  Status status = transport->warmUp();
  watching->pause();
  return status.ok() ? status : rendezvous->causeOf(status);
}

Status Switch::warmUp() {
  DTRT_RETURN_IF_ERROR(enter("warm-up", Phase::Connected));
  if (warm)
    return {};
  warm = true;
  return leave("warm-up", Phase::Connected, runWarmUp());
}

Status Switch::makeSure() {
  DTRT_RETURN_IF_ERROR(enter("make sure", Phase::Connected));
  return leave("make sure", Phase::Connected, storage->makeSure());
}

/// Where the source may go for good nobody begins before all have come: until
/// then nothing is lost, whoever fails.
Status Switch::beginTogether() {
  if (plan->common().summary.mode != MemoryMode::Flat)
    return {};
  DTRT_RETURN_IF_ERROR(storage->makeSure());
  auto begun = rendezvous->agree(Step::Begun, "", acceptAll);
  DTRT_RETURN_IF_ERROR(begun);
  hasLost = storage->givesBack();
  return storage->clear();
}

Status Switch::transfer(const std::string &note) {
  DTRT_RETURN_IF_ERROR(enter("transfer", Phase::Connected));
  DTRT_RETURN_IF_ERROR(warmUp());
  transferNote = note;
  watching->resume();
  Status status = beginTogether();
  if (status.ok())
    status = runProgram();
  watching->pause();
  return leave("transfer", Phase::Transferred, status);
}

Result<std::string> Switch::commit() {
  bool asksAgain = outcome() == Outcome::Undecided;
  DTRT_RETURN_IF_ERROR(
      enter("commit", asksAgain ? Phase::Undecided : Phase::Transferred));
  auto decision = rendezvous->commit(transferNote, firstNote);
  if (decision.ok() && decision->state == Attempt::State::Committed) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      phase = Phase::Committed;
    }
    watching.reset();
    transport->leave();
    return decision->note.empty() ? preparedNote : decision->note;
  }
  if (decision.ok())
    return leave("commit", Phase::Failed, decision->why);
  if (!decision.status().is(ErrorCode::Undecided))
    return leave("commit", Phase::Failed, decision.status());
  std::lock_guard<std::mutex> lock(mutex);
  phase = Phase::Undecided;
  return named("commit", decision.status());
}

} // namespace dtrt
