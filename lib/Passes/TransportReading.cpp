//===- TransportReading.cpp - Bodies of transitions in numbers ------------===//

#include "TransportReading.h"
#include "Threads.h"

#include "dt/Dialect/Collectives.h"
#include "dt/Proof/CollectiveRules.h"
#include "dt/Proof/RelayRules.h"
#include "dtrt/cost/TimedCollectives.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/ThreadPool.h"

#include <tuple>

using namespace mlir;

namespace dt {

namespace {

//===----------------------------------------------------------------------===//
// Flows
//===----------------------------------------------------------------------===//

/// Buffers of a flow's states on one side, by width; one by one where states
/// may come and go at different times.
std::vector<FlowBuffers> buffersOf(const FlowInfo &flow, Side side,
                                   bool oneByOne) {
  std::vector<FlowBuffers> out;
  StatesAttr states = flow.allStates();
  for (auto [i, entry] : llvm::enumerate(states.getEntries())) {
    std::optional<DType> stored =
        side == Side::Source ? entry.source : entry.destination;
    if (!(flow.states >> i & 1) || !stored)
      continue;
    int64_t width = byteWidth(*stored);
    auto same = llvm::find_if(out, [&](const FlowBuffers &group) {
      return group.width == width && !oneByOne;
    });
    if (same == out.end())
      same = out.insert(out.end(), {0, width});
    same->states |= uint64_t(1) << i;
  }
  return out;
}

/// The state that the first state of a flow is or may be made from, or -1.
int stateDerivedFrom(const FlowInfo &flow) {
  StatesAttr states = flow.allStates();
  const StateEntry &entry = states.getEntries()[llvm::countr_zero(flow.states)];
  return entry.from ? states.indexOf(entry.from) : -1;
}

/// Where the source elements of a flow are read: a state that the source does
/// not have is read from the one that it is made from.
void findSource(const TransitionInfo &info, uint32_t number, PlanFlow &out) {
  const FlowInfo &own = info.flows[number];
  const StateEntry &entry =
      own.allStates().getEntries()[llvm::countr_zero(own.states)];
  out.readsFrom = number;
  out.readStates = own.states;
  if (entry.source)
    return;
  int from = stateDerivedFrom(own);
  out.readStates = uint64_t(1) << from;
  for (uint32_t i = 0; i < info.flows.size(); ++i)
    if (info.flows[i].param == own.param && info.flows[i].states >> from & 1)
      out.readsFrom = i;
}

/// Numbers storages by group and state.
class StorageNumbers {
public:
  std::vector<uint32_t> of(ParamOp param) {
    std::vector<uint32_t> out;
    if (StringAttr group = param.getStorageAttr())
      for (const StateEntry &entry : param.getStates().getEntries())
        out.push_back(numbers.try_emplace({group, entry.name}, numbers.size())
                          .first->second);
    return out;
  }

private:
  llvm::DenseMap<std::pair<Attribute, Attribute>, uint32_t> numbers;
};

} // namespace

std::vector<PlanFlow> planFlowsOf(const TransitionInfo &info) {
  std::vector<PlanFlow> out;
  StorageNumbers numbers;
  for (uint32_t i = 0; i < info.flows.size(); ++i) {
    const FlowInfo &flow = info.flows[i];
    PlanFlow &named = out.emplace_back();
    named.name = "@" + ParamOp(flow.param).getSymName().str();
    named.shape = info.shapeOf(i);
    named.family = llvm::find(info.params, flow.param) - info.params.begin();
    named.states = flow.states;
    findSource(info, i, named);
    named.derivedFrom = flow.derivedFrom;
    if (flow.derivedFrom)
      named.derivedFromStates = uint64_t(1) << stateDerivedFrom(flow);
    if (info.isByTensor())
      named.storages = numbers.of(flow.param);
    bool oneByOne = !named.storages.empty();
    named.sourceBuffers = buffersOf(flow, Side::Source, oneByOne);
    named.destinationBuffers = buffersOf(flow, Side::Destination, oneByOne);
    named.sourceConverts = info.flowWidths()[i].sourceConverts;
    named.destinationConverts = info.flowWidths()[i].destinationConverts;
    named.source = &flow.source;
    named.destination = &flow.destination;
  }
  return out;
}

namespace {

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

class BodyReader {
public:
  explicit BodyReader(const TransitionInfo &info) : info(info) {
    reading.info = &info;
    reading.plan.flows = planFlowsOf(info);
    reading.plan.isFlat = info.isFlat();
    reading.plan.granularity = info.granularity;
  }

  /// A body that has been read, to which slots and storage have been added.
  explicit BodyReader(TransitionReading &&read)
      : info(*read.info), reading(std::move(read)) {}

  FailureOr<TransitionReading> readTransport();
  FailureOr<TransitionReading> readRouting();
  FailureOr<TransitionReading> readAgain();

private:
  using Kind = PlanStep::Kind;
  /// An op whose pieces are still to be read, and where they go.
  struct PieceJob {
    MovementOpInterface op;
    PiecesAttr pieces; // of the op
    uint32_t number, flow, step;
    Kind kind;
    int32_t wave;
    size_t first;
    uint32_t collective;
  };
  struct SlotJob {
    WaveOp wave;
    uint32_t number;
    size_t first;
  };

  uint32_t numberOf(Operation *op) {
    reading.ops.push_back(op);
    return uint32_t(reading.ops.size() - 1);
  }
  PlanStep &addStep(Kind kind, int32_t wave = -1) {
    PlanStep step;
    step.kind = kind;
    step.wave = wave;
    step.first = step.last = numPieces;
    reading.plan.steps.push_back(step);
    return reading.plan.steps.back();
  }
  LogicalResult addPieces(MovementOpInterface op, int32_t wave,
                          uint32_t collective = kNoCollective) {
    return addPieces(op, op.getPieces(), wave, collective);
  }
  LogicalResult addPieces(MovementOpInterface op, PiecesAttr pieces,
                          int32_t wave, uint32_t collective);
  LogicalResult addCollective(LibraryCollectiveOp op, int32_t wave);
  LogicalResult addLocal(Operation *op);
  LogicalResult addBeside(CopyOp copy);
  LogicalResult checkBeside(std::optional<int64_t> next);
  LogicalResult checkRelay(SendrecvOp op);
  LogicalResult addWave(WaveOp wave, int64_t &last);
  void addSlots(WaveOp wave);
  LogicalResult addStorage(Operation *op);
  LogicalResult addStorage(Operation *op, uint32_t flow, uint64_t states,
                           PiecesAttr pieces, uint32_t shard);
  void readAll();
  LogicalResult place();
  void readPieces(PieceJob &job);
  void readSlots(SlotJob &job);
  void readAllSlots();
  size_t countStorage() const;
  void sortMessages(PlanStep &step);
  void sortAllMessages();

  const TransitionInfo &info;
  TransitionReading reading;
  std::vector<PieceJob> jobs;
  std::vector<SlotJob> slotJobs;
  CopyOp beside; // the last that runs beside a wave which is still to come
  size_t numPieces = 0, numSlots = 0;
};

/// Pieces of an op, all or those of a hop, belong to the last step.
LogicalResult BodyReader::addPieces(MovementOpInterface op, PiecesAttr pieces,
                                    int32_t wave, uint32_t collective) {
  auto flow = info.flowOf(op);
  if (!flow)
    return op.emitOpError("names states that are not one flow, expected "
                          "exactly those of one layout");
  auto step = uint32_t(reading.plan.steps.size() - 1);
  PlanStep &own = reading.plan.steps.back();
  jobs.push_back({op, pieces, numberOf(op), *flow, step, own.kind, wave,
                  numPieces, collective});
  numPieces += pieces.numPieces();
  own.last = numPieces;
  return success();
}

LogicalResult BodyReader::addLocal(Operation *op) {
  addStep(isa<ZeroOp>(op)     ? Kind::Zero
          : isa<DeriveOp>(op) ? Kind::Derive
                              : Kind::Copy);
  reading.plan.steps.back().keeps = isa<KeepOp>(op);
  if (auto copy = dyn_cast<CopyOp>(op))
    if (failed(addBeside(copy)))
      return failure();
  return addPieces(cast<MovementOpInterface>(op), /*wave=*/-1);
}

/// A copy may run beside the next wave, in flat memory.
LogicalResult BodyReader::addBeside(CopyOp copy) {
  int64_t wave = copy.getWave();
  if (wave == -1)
    return success();
  if (!info.isFlat() || wave < 0 || wave > INT32_MAX)
    return copy.emitOpError() << "is of wave " << wave
                              << (info.isFlat() ? ", which there is none of"
                                                : ", expected flat memory");
  if (beside && beside.getWave() != wave)
    return copy.emitOpError() << "is of wave " << wave << ", others before it "
                              << "are of wave " << beside.getWave();
  beside = copy;
  reading.plan.steps.back().wave = int32_t(wave);
  return success();
}

LogicalResult BodyReader::checkBeside(std::optional<int64_t> next) {
  if (!beside || next == beside.getWave())
    return success();
  InFlightDiagnostic error = beside.emitOpError()
                             << "is of wave " << beside.getWave() << ", ";
  if (next)
    error << "the next wave is " << *next;
  else
    error << "no wave follows";
  return error;
}

LogicalResult BodyReader::checkRelay(SendrecvOp op) {
  if (!op || (!op.getToRelay() && !op.getFromRelay()))
    return success();
  if (!info.cluster.relays)
    return op.emitOpError("is relayed, which the cluster does not allow");
  if (info.isFlat())
    return op.emitOpError("is relayed, expected memory of mode rollback");
  return success();
}

LogicalResult BodyReader::addCollective(LibraryCollectiveOp op, int32_t wave) {
  if (info.isFlat())
    return op.emitOpError("stands in flat memory, expected mode rollback");
  auto number = uint32_t(reading.plan.collectives.size());
  PlanCollective &own = reading.plan.collectives.emplace_back();
  own.op = numberOf(op);
  own.wave = wave;
  own.kind = *callKindOf(op.getKind());
  own.members = op.getMembers().vec();
  own.root = op.getRoot();
  for (auto each : op.getBody().front().getOps<SendrecvOp>())
    if (failed(addPieces(each, wave, number)))
      return failure();
  return success();
}

LogicalResult BodyReader::addWave(WaveOp wave, int64_t &last) {
  if (wave.getNumber() <= last)
    return wave.emitOpError()
           << "has number " << wave.getNumber()
           << ", expected one above that of the wave before, " << last;
  last = wave.getNumber();
  if (last > INT32_MAX)
    return wave.emitOpError()
           << "has number " << last << ", more than the limit of " << INT32_MAX;
  if (failed(checkBeside(last)))
    return failure();
  beside = nullptr;
  addStep(Kind::Wave, int32_t(last));
  for (Operation &op : wave.getBody().front()) {
    if (auto collective = dyn_cast<LibraryCollectiveOp>(op)) {
      if (failed(addCollective(collective, int32_t(last))))
        return failure();
      continue;
    }
    if (failed(checkRelay(dyn_cast<SendrecvOp>(op))) ||
        failed(addPieces(cast<MovementOpInterface>(op), int32_t(last))))
      return failure();
  }
  addSlots(wave);
  return success();
}

/// The slots of a wave, which is the last step.
void BodyReader::addSlots(WaveOp wave) {
  PlanStep &step = reading.plan.steps.back();
  step.firstSlot = numSlots;
  if (RowsAttr slots = wave.getSlotsAttr()) {
    slotJobs.push_back({wave, numberOf(wave), numSlots});
    numSlots += slots.numRows();
  } else {
    reading.plan.isStaged = false;
  }
  step.lastSlot = numSlots;
}

LogicalResult BodyReader::addStorage(Operation *op, uint32_t flow,
                                     uint64_t states, PiecesAttr pieces,
                                     uint32_t shard) {
  bool creates = isa<CreateOp>(op);
  PlanStep &step = addStep(creates ? Kind::Create : Kind::Release);
  std::vector<PlanStorage> &storage = reading.plan.storage;
  step.first = storage.size();
  uint32_t number = numberOf(op);
  auto time = uint32_t(reading.plan.steps.size() - 1);
  pieces.forEach([&](int64_t device, int64_t, const Box &box) {
    storage.push_back({number, flow, states, time, device, shard, box});
  });
  step.last = storage.size();
  return success();
}

/// Storage of states with the same shards; they may be some of a flow's.
LogicalResult BodyReader::addStorage(Operation *op) {
  auto add = [&](auto storage) -> LogicalResult {
    bool creates = std::is_same_v<decltype(storage), CreateOp>;
    for (uint32_t i = 0; i < info.flows.size(); ++i) {
      ParamOp param = info.flows[i].param;
      if (param.getSymNameAttr() != storage.getParamAttr().getAttr())
        continue;
      uint64_t states = param.getStates().mask(storage.getStatesAttr());
      uint64_t stored = 0;
      for (const FlowBuffers &group :
           creates ? reading.plan.flows[i].destinationBuffers
                   : reading.plan.flows[i].sourceBuffers)
        stored |= group.states;
      if ((states & ~stored) == 0)
        return addStorage(op, i, states, storage.getPieces(),
                          uint32_t(storage.getShard()));
    }
    return op->emitOpError("names states with different shards on the ")
           << (creates ? "destination" : "source") << " side";
  };
  if (auto create = dyn_cast<CreateOp>(op))
    return add(create);
  return add(cast<ReleaseOp>(op));
}

RelayHop relayOf(Operation *op) {
  auto message = dyn_cast<SendrecvOp>(op);
  if (!message)
    return RelayHop::None;
  return message.getToRelay()     ? RelayHop::In
         : message.getFromRelay() ? RelayHop::Out
                                  : RelayHop::None;
}

void BodyReader::readPieces(PieceJob &job) {
  PlanPiece *next = reading.plan.pieces.data() + job.first;
  auto numFlows = uint32_t(info.flows.size());
  int64_t width = info.flowWidths()[job.flow].bytesPerElement;
  bool isZero = job.kind == Kind::Zero, isDerived = job.kind == Kind::Derive;
  uint32_t flow = isZero ? numFlows + job.flow : job.flow;
  uint32_t fedBy =
      isDerived ? info.flows[job.flow].derivedFrom.value_or(flow) : flow;
  RelayHop relay = relayOf(job.op);
  job.pieces.forEach([&](int64_t from, int64_t to, const Box &box) {
    *next++ = {job.number, flow,  fedBy, job.step,
               job.wave,   from,  to,    box.volume() * width,
               box,        false, relay, job.collective};
  });
}

void BodyReader::readSlots(SlotJob &job) {
  PlanSlot *slot = reading.plan.slots.data() + job.first;
  int64_t wave = job.wave.getNumber();
  job.wave.getSlotsAttr().forEach([&](ArrayRef<int64_t> row) {
    *slot++ = {job.number,
               wave,
               row[WaveOp::kDevice],
               row[WaveOp::kPeer],
               row[WaveOp::kReceive] != 0,
               row[WaveOp::kSlotOffset],
               row[WaveOp::kBytes]};
  });
}

} // namespace

int narrowness(int64_t bytes) {
  constexpr int64_t widest = 16;
  return llvm::countr_zero(uint64_t(widest)) -
         llvm::countr_zero(uint64_t(bytes | widest));
}

namespace {

/// Brings the pieces of a wave into packing order: within a message, pieces
/// whose size wider units divide come first. So every piece begins where its
/// own unit divides the offset, without gaps, and a piece of odd size narrows
/// the copies of no other one. Those that are relayed come in one order to the
/// relay and from there, whatever the ops are.
void BodyReader::sortMessages(PlanStep &step) {
  using Key = std::tuple<int64_t, int64_t, int, uint32_t>;
  PlanPiece *first = reading.plan.pieces.data() + step.first;
  std::vector<Key> keys;
  keys.reserve(step.last - step.first);
  for (uint32_t i = 0; i < step.last - step.first; ++i)
    keys.emplace_back(first[i].from, first[i].to, narrowness(first[i].bytes),
                      i);
  // Those of collectives come alike to all members, too.
  auto hasOrder = [](const PlanPiece &piece) {
    return piece.relay != RelayHop::None || piece.collective != kNoCollective;
  };
  bool ordered = std::any_of(first, first + keys.size(), hasOrder);
  if (!ordered) {
    if (std::is_sorted(keys.begin(), keys.end()))
      return;
    std::sort(keys.begin(), keys.end());
  } else {
    std::sort(keys.begin(), keys.end(), [&](const Key &a, const Key &b) {
      const PlanPiece &one = first[std::get<3>(a)];
      const PlanPiece &two = first[std::get<3>(b)];
      auto place = [&](const Key &key, const PlanPiece &piece) {
        return std::make_tuple(std::get<0>(key), std::get<1>(key),
                               std::get<2>(key), hasOrder(piece));
      };
      if (place(a, one) != place(b, two))
        return place(a, one) < place(b, two);
      if (!hasOrder(one))
        return a < b;
      return std::tie(one.flow, one.box) < std::tie(two.flow, two.box);
    });
  }
  std::vector<PlanPiece> given(first, first + keys.size());
  for (const Key &key : keys)
    *first++ = given[std::get<3>(key)];
}

void BodyReader::sortAllMessages() {
  std::vector<PlanStep> &steps = reading.plan.steps;
  forEachOnThreads(info.op().getContext(), steps.size(), [&](size_t i) {
    if (steps[i].kind == Kind::Wave)
      sortMessages(steps[i]);
  });
}

void BodyReader::readAllSlots() {
  reading.plan.slots.resize(numSlots);
  forEachOnThreads(info.op().getContext(), slotJobs.size(),
                   [&](size_t i) { readSlots(slotJobs[i]); });
}

/// Reads all pieces on the threads that there are.
void BodyReader::readAll() {
  reading.plan.pieces.resize(numPieces);
  forEachOnThreads(info.op().getContext(), jobs.size(),
                   [&](size_t i) { readPieces(jobs[i]); });
  readAllSlots();
}

LogicalResult BodyReader::place() {
  return reading.report(
      placePieces(reading.plan, threadsOf(info.op().getContext())));
}

/// Rows of all that comes or goes.
size_t BodyReader::countStorage() const {
  size_t count = 0;
  for (Operation &op : info.op().getBody().front()) {
    if (auto create = dyn_cast<CreateOp>(op))
      count += create.getPieces().numPieces();
    if (auto release = dyn_cast<ReleaseOp>(op))
      count += release.getPieces().numPieces();
  }
  return count;
}

/// What moves is as it was: its ops have not changed. Steps get other numbers
/// where storage stands between them.
FailureOr<TransitionReading> BodyReader::readAgain() {
  TransportPlan &plan = reading.plan;
  std::vector<PlanStep> read;
  read.swap(plan.steps);
  llvm::erase_if(read, [](const PlanStep &step) {
    return step.kind == Kind::Create || step.kind == Kind::Release;
  });
  plan.storage.clear();
  plan.storage.reserve(countStorage());
  plan.isStaged = true;
  auto next = read.begin();
  for (Operation &op : info.op().getBody().front()) {
    if (isa<CreateOp, ReleaseOp>(op)) {
      if (failed(addStorage(&op)))
        return failure();
      continue;
    }
    plan.steps.push_back(*next++);
    if (auto wave = dyn_cast<WaveOp>(op))
      addSlots(wave);
  }
  forEachOnThreads(info.op().getContext(), plan.steps.size(), [&](size_t i) {
    const PlanStep &step = plan.steps[i];
    if (step.kind != Kind::Create && step.kind != Kind::Release)
      for (size_t p = step.first; p < step.last; ++p)
        plan.pieces[p].step = uint32_t(i);
  });
  readAllSlots();
  markRelays(plan);
  return std::move(reading);
}

FailureOr<TransitionReading> BodyReader::readTransport() {
  int64_t last = -1;
  for (Operation &op : info.op().getBody().front()) {
    if (!op.hasTrait<TransportLevelOp>())
      return op.emitOpError("is illegal at the transport level")
             << (isa<TransferOp, CollectiveOp>(op) ? ": run --dt-schedule first"
                                                   : "");
    auto wave = dyn_cast<WaveOp>(op);
    LogicalResult added = wave                           ? addWave(wave, last)
                          : isa<CreateOp, ReleaseOp>(op) ? addStorage(&op)
                                                         : addLocal(&op);
    if (failed(added))
      return failure();
  }
  if (failed(checkBeside(std::nullopt)))
    return failure();
  readAll();
  // Before they are placed, so that those of one device are looked up one after
  // the other.
  sortAllMessages();
  if (failed(place()))
    return failure();
  markRelays(reading.plan);
  sizeBlocks(reading.plan);
  return std::move(reading);
}

/// Local work first, then hop after hop, then what is made from other states:
/// the body has no order of its own.
FailureOr<TransitionReading> BodyReader::readRouting() {
  // By hop; -1 before, then made.
  std::map<int64_t, std::vector<std::pair<Operation *, PiecesAttr>>> byTime;
  auto addHops = [&](TransferOp transfer) {
    for (const HopPieces &part : transfer.byHop())
      byTime[part.hop].push_back({transfer, part.pieces});
  };
  llvm::DenseMap<Operation *, uint32_t> libraries; // of library calls
  for (Operation &op : info.op().getBody().front()) {
    if (!op.hasTrait<RoutingLevelOp>())
      return op.emitOpError("is illegal at the routing level");
    // A collective is its transfers.
    if (auto collective = dyn_cast<CollectiveOp>(op)) {
      for (auto transfer : collective.getBody().front().getOps<TransferOp>())
        addHops(transfer);
      if (collective.getLibrary())
        libraries.insert({collective, uint32_t(libraries.size())});
      continue;
    }
    if (auto transfer = dyn_cast<TransferOp>(op))
      addHops(transfer);
    else
      byTime[isa<DeriveOp>(op) ? INT64_MAX : -1].push_back({&op, {}});
  }
  for (const auto &[hop, ops] : byTime) {
    bool isHop = hop >= 0 && hop != INT64_MAX;
    if (isHop && hop > INT32_MAX)
      return ops.front().first->emitOpError()
             << "has hop " << hop << ", more than the limit of " << INT32_MAX;
    if (isHop)
      addStep(Kind::Wave, int32_t(hop));
    for (auto [op, pieces] : ops) {
      auto library = libraries.find(op->getParentOp());
      uint32_t collective =
          library == libraries.end() ? kNoCollective : library->second;
      if (failed(isHop ? addPieces(cast<MovementOpInterface>(op), pieces,
                                   int32_t(hop), collective)
                       : addLocal(op)))
        return failure();
    }
  }
  readAll();
  if (failed(place()))
    return failure();
  return std::move(reading);
}

} // namespace

LogicalResult TransitionReading::report(const MaybeFault &fault) const {
  if (!fault)
    return success();
  Operation *op = info->op();
  if (fault->op != Fault::kNoOp)
    op = ops[fault->op];
  InFlightDiagnostic error = op->emitOpError() << fault->text;
  if (fault->other != Fault::kNoOp)
    error.attachNote(ops[fault->other]->getLoc()) << fault->note;
  return failure();
}

TransportReading::TransportReading(Operation *module,
                                   AnalysisManager &analyses) {
  const auto &transitions = analyses.getAnalysis<TransitionAnalysis>();
  llvm::DenseSet<Attribute> specialized; // transitions that have programs
  for (auto program : cast<ModuleOp>(module).getOps<ProgramOp>())
    specialized.insert(program.getTransitionAttr().getAttr());
  areRight = succeeded(transitions.forEach([&](const TransitionInfo &info) {
    if (info.op().getBody().front().empty() &&
        specialized.contains(info.op().getSymNameAttr()))
      return success();
    auto reading = BodyReader(info).readTransport();
    if (failed(reading))
      return failure();
    readings.push_back(std::move(*reading));
    return success();
  }));
}

LogicalResult TransportReading::readAgain() {
  for (TransitionReading &reading : readings) {
    auto again = BodyReader(std::move(reading)).readAgain();
    if (failed(again))
      return failure();
    reading = std::move(*again);
  }
  return success();
}

LogicalResult TransitionReadings::forEach(
    llvm::function_ref<LogicalResult(const TransitionReading &)> fn) const {
  for (const TransitionReading &reading : readings)
    if (failed(fn(reading)))
      return failure();
  return success(areRight);
}

RoutingReading::RoutingReading(Operation *, AnalysisManager &analyses) {
  const auto &transitions = analyses.getAnalysis<TransitionAnalysis>();
  areRight = succeeded(transitions.forEach([&](const TransitionInfo &info) {
    auto reading = BodyReader(info).readRouting();
    if (failed(reading))
      return failure();
    readings.push_back(std::move(*reading));
    return success();
  }));
}

const TransitionReading *TransportReading::find(TransitionOp op) const {
  for (const TransitionReading &reading : readings)
    if (reading.info->op() == op)
      return &reading;
  return nullptr;
}

} // namespace dt
