//===- Switch.cpp - One transition of a live job --------------------------===//

#include "dtrt/Switch.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <thread>

namespace dtrt {

namespace {

/// How often a rank that moves bytes looks whether another has stopped.
constexpr Seconds kWatchInterval(0.05);

/// Of the timeout: how long ranks that could not connect wait for a sign of
/// life from each other, to say who is missing.
constexpr double kRollCallShare = 0.3;

/// What a rank hands in: one field per line, the last three being its tensors,
/// an error and a note; both of these may be empty.
/// Line breaks inside a value would end it.
std::string oneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// A digest (FNV-1a) of which tensors there are, of how many bytes, in any
/// order. Tensors of no bytes need not be given and do not count.
std::string inventoryOf(std::vector<TensorBinding> tensors) {
  auto keyOf = [](const TensorBinding &tensor) {
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
  for (const TensorBinding &tensor : tensors) {
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

const char *kFields[] = {"source layout", "destination layout", "plan"};
constexpr size_t kNumFields = 3;

std::string makeRecord(const PlanReader &plan, const std::string &inventory,
                       const Status &error, const std::string &note) {
  const PlanCommon &common = plan.common();
  return common.sourceFingerprint + "\n" + common.destinationFingerprint +
         "\n" + digestText(plan.digest()) + "\n" + inventory + "\n" +
         oneLine(error.message()) + "\n" + oneLine(note);
}

std::vector<std::string> linesOf(const std::string &record) {
  std::vector<std::string> lines;
  std::istringstream stream(record);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line);
  lines.resize(kNumFields + 3);
  return lines;
}

using Records = std::vector<std::vector<std::string>>;

/// Says who has what, the largest party last.
Status compareField(const Records &records, size_t field) {
  std::map<std::string, std::vector<uint32_t>> parties;
  for (uint32_t rank = 0; rank < records.size(); ++rank)
    parties[records[rank][field]].push_back(rank);
  if (parties.size() == 1)
    return {};
  std::vector<std::pair<std::string, std::vector<uint32_t>>> sorted(
      parties.begin(), parties.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto &a, const auto &b) {
                     return a.second.size() < b.second.size();
                   });
  std::string text =
      "the ranks do not have the same " + std::string(kFields[field]) + ": ";
  for (size_t i = 0; i < sorted.size(); ++i)
    text += (i ? ", " : "") + rankNames(sorted[i].second) +
            (sorted[i].second.size() == 1 ? " has " : " have ") +
            sorted[i].first;
  return makeError(text);
}

constexpr size_t kInventory = kNumFields, kError = kNumFields + 1,
                 kNote = kNumFields + 2;

/// Every rank's tensors against what rank 0's copy of the plan expects of it.
Status compareInventories(const Records &records, const PlanReader &plan,
                          const std::vector<uint32_t> &devices) {
  for (uint32_t rank = 0; rank < records.size(); ++rank) {
    auto program = plan.program(devices[rank]);
    DTRT_RETURN_IF_ERROR(program);
    LocalStorage storage(plan.common(), *program);
    std::string expected = inventoryOf(expectedTensors(storage));
    if (records[rank][kInventory] != expected)
      return makeError("rank ", rank, " has ", records[rank][kInventory],
                       ", the plan expects ", expected, " of it");
  }
  return {};
}

/// Rank 0's part: all ranks have the same plan, and the tensors that it names.
Result<std::string> judgeRecords(const std::vector<std::string> &texts,
                                 const PlanReader &plan,
                                 const std::vector<uint32_t> &devices) {
  Records records;
  for (const std::string &text : texts)
    records.push_back(linesOf(text));
  for (uint32_t rank = 0; rank < records.size(); ++rank)
    if (!records[rank][kError].empty())
      return makeError("rank ", rank, ": ", records[rank][kError]);
  for (size_t field = 0; field < kNumFields; ++field)
    DTRT_RETURN_IF_ERROR(compareField(records, field));
  DTRT_RETURN_IF_ERROR(compareInventories(records, plan, devices));
  for (const std::vector<std::string> &record : records)
    if (!record[kNote].empty())
      return record[kNote];
  return std::string();
}

Result<std::string> acceptAll(const std::vector<std::string> &) {
  return std::string();
}

Rendezvous rendezvousOf(const World &world) {
  return Rendezvous(world.store, world.prefix, world.rank, world.size,
                    world.timeout);
}

/// While it lives, a rank that stops elsewhere aborts the transport here.
class StopWatch {
public:
  StopWatch(Rendezvous &rendezvous, Transport &transport)
      : thread(
            [this, &rendezvous, &transport] { run(rendezvous, transport); }) {}
  ~StopWatch() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      ended = true;
    }
    wake.notify_all();
    thread.join();
  }

private:
  void run(Rendezvous &rendezvous, Transport &transport) {
    std::unique_lock<std::mutex> lock(mutex);
    while (!wake.wait_for(lock, kWatchInterval, [this] { return ended; })) {
      lock.unlock();
      Status stopped = rendezvous.checkStopped();
      lock.lock();
      if (!stopped.ok())
        return transport.abort(stopped);
    }
  }

  std::mutex mutex;
  std::condition_variable wake;
  bool ended = false;
  std::thread thread;
};

} // namespace

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
    : plan(&plan), rendezvous(rendezvousOf(world)) {}

/// What the transport has registered lives in the runner.
Switch::~Switch() {
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

Status Switch::refuse(const PlanReader &plan, const World &world,
                      const Status &why) {
  return rendezvousOf(world).submit("prepare", makeRecord(plan, "", why, ""));
}

Status Switch::enter(const char *name, Phase expected) {
  if (phase == expected)
    return {};
  if (phase == Phase::Failed)
    return makeError("rank ", rendezvous.rank(), ", ", name,
                     ": the switch has failed or was aborted");
  return makeError("rank ", rendezvous.rank(), ", ", name,
                   ": the phases are prepare, transfer, commit, each once and "
                   "in this order");
}

/// A failure here is made known to all ranks.
Status Switch::leave(const char *name, Phase reached, const Status &status) {
  if (status.ok()) {
    phase = reached;
    return {};
  }
  Status named =
      makeError("rank ", rendezvous.rank(), ", ", name, ": ", status.message());
  abort(named);
  return named;
}

Status Switch::fail(const char *name, const Status &why) {
  return leave(name, Phase::Failed, why);
}

Status Switch::cannotConnect(const std::string &why) {
  auto absent =
      rendezvous.rollCall("alive", rendezvous.timeout() * kRollCallShare);
  std::string names = absent.ok() && !absent->empty()
                          ? " (" + rankNames(*absent) + " did not answer)"
                          : "";
  return leave("prepare", Phase::Failed,
               makeError("cannot connect: ", why, names));
}

void Switch::abort(const Status &why) {
  if (phase == Phase::Committed || phase == Phase::Failed)
    return;
  phase = Phase::Failed;
  rendezvous.stop(why);
  if (transport)
    transport->abort(why);
}

Result<std::string> Switch::compare(const std::vector<TensorBinding> &tensors,
                                    const std::string &note) {
  DTRT_RETURN_IF_ERROR(enter("prepare", Phase::New));
  auto live = LiveStorage::bind(plan->common(), program, tensors);
  Status bound = statusOf(live);
  if (bound.ok())
    storage = std::move(*live);
  auto verdict = rendezvous.agree(
      "prepare", makeRecord(*plan, inventoryOf(tensors), bound, note),
      [this](const std::vector<std::string> &records) {
        return judgeRecords(records, *plan, rankDevices);
      });
  DTRT_RETURN_IF_ERROR(leave("prepare", Phase::Compared, statusOf(verdict)));
  return verdict;
}

static Result<std::unique_ptr<ProgramRunner>> runOnHost(LocalStorage &storage,
                                                        Transport &transport) {
  auto prepared = Executor::prepare(storage, transport);
  DTRT_RETURN_IF_ERROR(prepared);
  return std::unique_ptr<ProgramRunner>(
      std::make_unique<Executor>(std::move(*prepared)));
}

/// The runner is made for a transport that knows its peers.
Status Switch::meet(const MakeRunner &make) {
  DTRT_RETURN_IF_ERROR(transport->connect(plan->digest(), peersOf(program)));
  auto made =
      make ? make(*storage, *transport) : runOnHost(*storage, *transport);
  DTRT_RETURN_IF_ERROR(made);
  runner = std::move(*made);
  return transport->registerArena(runner->staging(), program.stagingBytes);
}

Status Switch::connect(std::unique_ptr<Transport> given,
                       const MakeRunner &make) {
  DTRT_RETURN_IF_ERROR(enter("prepare", Phase::Compared));
  transport = std::move(given);
  Status status;
  {
    StopWatch watch(rendezvous, *transport);
    status = meet(make);
  }
  if (!status.ok())
    status = rendezvous.causeOf(status);
  if (status.ok())
    status = statusOf(rendezvous.agree("connect", "", acceptAll));
  return leave("prepare", Phase::Connected, status);
}

Status Switch::runProgram() {
  StopWatch watch(rendezvous, *transport);
  auto begin = std::chrono::steady_clock::now();
  Status status = runner->run();
  if (!status.ok())
    return rendezvous.causeOf(status);
  elapsed = Seconds(std::chrono::steady_clock::now() - begin).count();
  return {};
}

/// Where the source may go for good nobody begins before all have come: until
/// then nothing is lost, whoever fails.
Status Switch::beginTogether() {
  if (plan->common().summary.mode != MemoryMode::Flat)
    return {};
  auto begun = rendezvous.agree("begin", "", acceptAll);
  DTRT_RETURN_IF_ERROR(begun);
  return storage->clear();
}

/// Says when the old state is no longer whole.
Status Switch::withLoss(const Status &status) const {
  constexpr const char *kGone = "the old state is gone";
  if (status.ok() || !storage->givesBack() ||
      status.message().find(kGone) != std::string::npos)
    return status;
  return makeError(status.message(), " (", kGone, ": in mode flat there is no ",
                   "way back once all have begun the transfer)");
}

Status Switch::transfer() {
  DTRT_RETURN_IF_ERROR(enter("transfer", Phase::Connected));
  Status status = beginTogether();
  if (status.ok())
    status = withLoss(runProgram());
  return leave("transfer", Phase::Transferred, status);
}

Status Switch::commit() {
  DTRT_RETURN_IF_ERROR(enter("commit", Phase::Transferred));
  auto verdict = rendezvous.agree("commit", "", acceptAll);
  Status status = leave("commit", Phase::Committed, statusOf(verdict));
  transport->leave();
  return status;
}

} // namespace dtrt
