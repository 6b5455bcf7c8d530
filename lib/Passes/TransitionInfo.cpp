//===- TransitionInfo.cpp - A transition as Geometry structs --------------===//

#include "TransitionInfo.h"

#include "dt/Geometry/Limits.h"
#include "dt/Geometry/OptimizerShards.h"
#include "dt/Geometry/Overlaps.h"

#include "mlir/IR/Threading.h"

#include <algorithm>
#include <limits>
#include <tuple>

using namespace mlir;

namespace dt {

namespace {

using Holdings = llvm::DenseMap<Operation *, std::vector<Holding>>;

/// Explicit shards: rows name ranks of the layout.
std::vector<Holding> evaluateShards(PlaceOp place, LayoutOp layout,
                                    SymbolTableCollection &tables) {
  auto devices = layout.lookupDevices(tables);
  std::vector<HeldBox> held;
  for (RankBox &row : cast<ShardsAttr>(place.getHow()).toGeometry())
    held.push_back({devices ? (*devices)[row.rank] : row.rank,
                    std::move(row.box), row.range});
  return holdingsOf(held, place.lookupParam(tables).numLeading());
}

/// Evaluates all bucketed places of a layout together.
class BucketedPlaces {
public:
  BucketedPlaces(LayoutOp layout, SymbolTableCollection &tables)
      : layout(layout), tables(tables) {}

  LogicalResult add(PlaceOp place);
  LogicalResult evaluate(Holdings &out);

private:
  LayoutOp layout;
  SymbolTableCollection &tables;
  std::vector<PlaceOp> places;
  std::vector<BucketedParam> params;
  std::map<Operation *, Mesh> meshes; // node-based: params point into it
  std::map<std::pair<Operation *, int>, uint32_t> buffers;
  llvm::DenseMap<Operation *, int64_t> positions; // of params in their space

  int64_t positionOf(ParamOp param);
};

/// Position of a param in registration order when it states none.
int64_t BucketedPlaces::positionOf(ParamOp param) {
  if (positions.empty())
    for (auto [i, op] : llvm::enumerate(*param->getBlock()))
      positions[&op] = int64_t(i);
  return positions.lookup(param);
}

LogicalResult BucketedPlaces::add(PlaceOp place) {
  ParamOp param = place.lookupParam(tables);
  MeshOp mesh = place.lookupMesh(tables);
  auto [it, isNew] = meshes.try_emplace(mesh);
  if (isNew)
    it->second = mesh.getMesh().toGeometry();
  std::vector<std::vector<std::string>> axes =
      layout.getZero()->axesAsStrings();
  size_t meshNumber = 0;
  for (auto [i, name] : llvm::enumerate(*layout.getMeshes()))
    if (cast<FlatSymbolRefAttr>(name).getAttr() == mesh.getSymNameAttr())
      meshNumber = i;
  BucketedParam entry;
  entry.shape.assign(param.getShape().begin(), param.getShape().end());
  entry.numLeading = param.numLeading();
  entry.placement = cast<PlacementAttr>(place.getHow()).toGeometry();
  entry.mesh = &it->second;
  entry.axes = axes[meshNumber];
  entry.orderStrides.assign(param.getOrderStrides().begin(),
                            param.getOrderStrides().end());
  entry.orderStrides.resize(entry.numLeading, 0);
  entry.orderBase =
      param.getOrder() >= 0 ? param.getOrder() : positionOf(param);
  entry.sharedEmbedding = place.getAlone();
  // Buffers are kept apart by mesh (dense, expert) and by the dtype of the
  // parameter itself.
  StatesAttr states = param.getStates();
  int dtype = states.readDType(0) == DType::F32;
  int index = states.indexOf("param");
  if (index >= 0)
    dtype = int(states.getEntries()[index].destination.value_or(
        states.readDType(index)));
  entry.buffer =
      buffers.try_emplace({mesh, dtype}, buffers.size()).first->second;
  places.push_back(place);
  params.push_back(std::move(entry));
  return success();
}

LogicalResult BucketedPlaces::evaluate(Holdings &out) {
  if (places.empty())
    return success();
  size_t culprit = 0;
  std::string error;
  auto holdings = evaluateBucketed(params, layout.getZero()->getBucketSize(),
                                   culprit, error);
  if (!holdings)
    return places[culprit].emitOpError() << error;
  for (auto [place, held] : llvm::zip(places, *holdings))
    out[place] = std::move(held);
  return success();
}

LogicalResult evaluatePlaces(LayoutOp layout, SymbolTableCollection &tables,
                             Holdings &out) {
  // One evaluation of the buckets per set of states that share a layout:
  // master, exp_avg and exp_avg_sq of a param are one place.
  BucketedPlaces bucketed(layout, tables);
  for (auto place : layout.getOps<PlaceOp>()) {
    if (isa<ShardsAttr>(place.getHow())) {
      out[place] = evaluateShards(place, layout, tables);
      continue;
    }
    if (place.getBucketed()) {
      if (failed(bucketed.add(place)))
        return failure();
      continue;
    }
    ParamOp param = place.lookupParam(tables);
    std::string error;
    auto holdings =
        dt::evaluate(cast<PlacementAttr>(place.getHow()).toGeometry(),
                     place.lookupMesh(tables).getMesh().toGeometry(),
                     {param.getShape().begin(), param.getShape().end()},
                     param.numLeading(), error);
    if (!holdings)
      return place.emitOpError() << error;
    out[place] = std::move(*holdings);
  }
  return bucketed.evaluate(out);
}

/// Refuses what would take too long to evaluate, before it is: ranks are
/// looked at for each place, and for each tensor whose buckets they share.
LogicalResult checkWork(LayoutOp layout, SymbolTableCollection &tables) {
  WorkLimit placed(kMaxPlacedRanks), rows(kMaxRegions);
  for (auto place : layout.getOps<PlaceOp>()) {
    if (auto shards = dyn_cast<ShardsAttr>(place.getHow())) {
      if (!rows.take(shards.getRows().numRows()))
        return place.emitOpError()
               << "has shards with which the layout has more rows than the "
               << "limit of " << kMaxRegions;
      continue;
    }
    ParamOp param = place.lookupParam(tables);
    int64_t tensors = place.getBucketed() ? param.numMembers() : 1;
    if (!placed.take(tensors * layout.getWorld()))
      return place.emitOpError()
             << "lies on " << layout.getWorld()
             << " ranks, with which the layout has more ranks, counted for "
             << "each place, than the limit of " << kMaxPlacedRanks;
  }
  return success();
}

/// Refuses a layout whose devices hold more regions or bytes than the limits.
LogicalResult checkHeld(LayoutOp layout, Side side, const Holdings &holdings,
                        SymbolTableCollection &tables) {
  WorkLimit regions(kMaxRegions), bytes(kMaxBytes);
  for (auto place : layout.getOps<PlaceOp>()) {
    const std::vector<Holding> &held = holdings.find(place)->second;
    if (!regions.take(mostRegions(held)))
      return place.emitOpError()
             << "cuts regions with which the layout has more than the limit of "
             << kMaxRegions;
    StatesAttr states = place.lookupParam(tables).getStates();
    uint64_t mask = states.mask(place.getStatesAttr());
    int64_t width = side == Side::Source ? states.sourceBytes(mask)
                                         : states.destinationBytes(mask);
    for (const Holding &holding : held) {
      int64_t total = width;
      for (int64_t factor : {holding.shard.numMembers(),
                             holding.shard.elementsPerMember(),
                             int64_t(holding.devices.size())})
        if (__builtin_mul_overflow(total, factor, &total))
          total = std::numeric_limits<int64_t>::max();
      if (!bytes.take(total))
        return place.emitOpError()
               << "takes bytes with which the devices of the layout hold more "
               << "than the limit of " << kMaxBytes;
    }
  }
  return success();
}

using PlaceOfState = std::vector<PlaceOp>; // one per state of the param

/// Whether a state exists on the given side.
bool existsOn(Side side, const StateEntry &entry) {
  return bool(side == Side::Source ? entry.source : entry.destination);
}

LogicalResult missingPlace(LayoutOp layout, ParamOp param, StringAttr state) {
  InFlightDiagnostic error = layout.emitOpError()
                             << "does not place state '" << state.getValue()
                             << "' of @" << param.getSymName();
  error.attachNote(param.getLoc()) << "the param is declared here";
  return failure();
}

/// Every state that exists on the side has a place; what is made from another
/// state is read where that one lies.
LogicalResult completePlaces(LayoutOp layout, Side side, ParamOp param,
                             PlaceOfState &places) {
  StatesAttr states = param.getStates();
  for (auto [i, entry] : llvm::enumerate(states.getEntries())) {
    if (existsOn(side, entry) && !places[i])
      return missingPlace(layout, param, entry.name);
    if (!existsOn(side, entry) && places[i])
      return places[i].emitOpError()
             << "places state '" << entry.name.getValue() << "' of @"
             << param.getSymName() << ", which does not exist on that side";
  }
  if (side == Side::Source)
    for (auto [i, entry] : llvm::enumerate(states.getEntries()))
      if (!places[i])
        places[i] = places[states.indexOf(entry.from)];
  return success();
}

/// The place of every state of every param; null for a dropped one.
FailureOr<llvm::DenseMap<Attribute, PlaceOfState>>
indexPlaces(LayoutOp layout, Side side, const std::vector<ParamOp> &params) {
  llvm::DenseMap<Attribute, PlaceOfState> out;
  llvm::DenseMap<Attribute, ParamOp> byName;
  for (ParamOp param : params) {
    byName[param.getSymNameAttr()] = param;
    out[param.getSymNameAttr()].resize(param.getStates().getEntries().size());
  }
  for (auto place : layout.getOps<PlaceOp>()) {
    ParamOp param = byName[place.getParamAttr().getAttr()];
    PlaceOfState &slots = out[place.getParamAttr().getAttr()];
    uint64_t mask = param.getStates().mask(place.getStatesAttr());
    for (size_t i = 0; i < slots.size(); ++i) {
      if (!(mask >> i & 1))
        continue;
      // Explicit shards of several states may be given in several places.
      if (slots[i]) {
        InFlightDiagnostic error =
            place.emitOpError()
            << "places state '"
            << param.getStates().getEntries()[i].name.getValue() << "' of @"
            << param.getSymName() << " a second time";
        error.attachNote(slots[i].getLoc()) << "it is placed here";
        return failure();
      }
      slots[i] = place;
    }
  }
  for (ParamOp param : params)
    if (failed(
            completePlaces(layout, side, param, out[param.getSymNameAttr()])))
      return failure();
  return out;
}

/// Points every flow of a state that may be made from another to its flow.
void linkDerived(std::vector<FlowInfo> &flows, size_t first) {
  for (size_t f = first; f < flows.size(); ++f) {
    StatesAttr states = flows[f].allStates();
    const StateEntry &entry =
        states.getEntries()[llvm::countr_zero(flows[f].states)];
    if (!entry.from || !entry.source || !entry.destination)
      continue;
    int from = states.indexOf(entry.from);
    for (size_t g = first; g < flows.size(); ++g)
      if (flows[g].states >> from & 1)
        flows[f].deriveFrom = g;
  }
}

/// Adds the flows of one param: states grouped by their pair of places. A
/// state that is or may be made from another has a flow of its own.
void addFlows(ParamOp param, const PlaceOfState &sources,
              const PlaceOfState &destinations, const Holdings &sourceHoldings,
              const Holdings &destinationHoldings,
              std::vector<FlowInfo> &flows) {
  size_t first = flows.size();
  ArrayRef<StateEntry> entries = param.getStates().getEntries();
  std::vector<std::tuple<PlaceOp, PlaceOp, StringAttr>> keys;
  for (size_t i = 0; i < sources.size(); ++i) {
    auto key = std::make_tuple(sources[i], destinations[i],
                               entries[i].from ? entries[i].name : nullptr);
    size_t known = llvm::find(keys, key) - keys.begin();
    if (known == keys.size()) {
      keys.push_back(key);
      FlowInfo flow;
      flow.param = param;
      flow.source = sourceHoldings.find(sources[i])->second;
      if (destinations[i])
        flow.destination = destinationHoldings.find(destinations[i])->second;
      flows.push_back(std::move(flow));
    }
    flows[first + known].states |= uint64_t(1) << i;
  }
  linkDerived(flows, first);
  if (keys.size() == 1)
    return;
  Builder builder(param.getContext());
  for (size_t f = first; f < flows.size(); ++f) {
    SmallVector<Attribute> names;
    for (auto [i, entry] : llvm::enumerate(param.getStates().getEntries()))
      if (flows[f].states >> i & 1)
        names.push_back(entry.name);
    flows[f].stateNames = builder.getArrayAttr(names);
  }
}

void readLimits(TransitionOp op, TransitionInfo &info) {
  constexpr int64_t kDefaultStaging = int64_t(1) << 30;
  info.stagingLimit = kDefaultStaging;
  if (ClusterAttr cluster = op.getClusterAttr()) {
    info.cluster.devicesPerNode = cluster.getDevicesPerNode();
    info.cluster.intraBytesPerSecond = cluster.intraNodeGBps() * 1e9;
    info.cluster.interBytesPerSecond = cluster.interNodeGBps() * 1e9;
    info.cluster.latencySeconds = cluster.latencyUs() * 1e-6;
    info.cluster.devicesPerNic = cluster.getDevicesPerNic();
    for (const LinkEntry &link : cluster.getLinks())
      info.cluster.links.push_back({{link.fromNode, link.from},
                                    {link.toNode, link.to},
                                    link.GBps.getValueAsDouble() * 1e9});
  }
  if (MemoryAttr memory = op.getMemoryAttr()) {
    info.stagingLimit = memory.getStagingBytes();
    info.deviceLimit = memory.getDeviceBytes();
    info.flat = memory.getFlat();
  }
}

/// Whether a side stores a state of the flow in another dtype than travels.
bool convertsOn(Side side, const FlowInfo &flow) {
  StatesAttr states = flow.allStates();
  for (auto [i, entry] : llvm::enumerate(states.getEntries())) {
    if (!(flow.states >> i & 1) || !entry.destination)
      continue;
    DType stored =
        side == Side::Source ? states.readDType(i) : *entry.destination;
    if (stored != wireDType(states.readDType(i), *entry.destination))
      return true;
  }
  return false;
}

} // namespace

FailureOr<Holdings> evaluateLayout(LayoutOp layout, Side side,
                                   SymbolTableCollection &tables) {
  Holdings out;
  if (failed(checkWork(layout, tables)) ||
      failed(evaluatePlaces(layout, tables, out)) ||
      failed(checkHeld(layout, side, out, tables)))
    return failure();
  return out;
}

/// Refuses more rows than a transition may have pieces, or slots.
static LogicalResult checkRows(TransitionOp transition) {
  WorkLimit pieces(kMaxPieces), slots(2 * kMaxMessages);
  WalkResult result = transition.walk([&](Operation *op) {
    if (auto movement = dyn_cast<MovementOpInterface>(op);
        movement && !pieces.take(movement.getPieces().numPieces())) {
      op->emitOpError() << "has pieces with which the transition has more than "
                        << "the limit of " << kMaxPieces;
      return WalkResult::interrupt();
    }
    auto wave = dyn_cast<WaveOp>(op);
    if (wave && wave.getSlotsAttr() &&
        !slots.take(wave.getSlotsAttr().numRows())) {
      op->emitOpError() << "has slots with which the transition has more than "
                        << "the limit of " << 2 * kMaxMessages;
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return success(!result.wasInterrupted());
}

FailureOr<TransitionInfo> TransitionInfo::get(TransitionOp op,
                                              SymbolTableCollection &tables) {
  TransitionInfo info;
  info.op = op;
  info.sourceLayout = op.lookupSource(tables);
  info.destinationLayout = op.lookupDestination(tables);
  for (auto param : op.lookupSpace(tables).getOps<ParamOp>())
    info.params.push_back(param);
  readLimits(op, info);
  // One error is enough: the second layout is read when the first is sound.
  auto sourcePlaces = indexPlaces(info.sourceLayout, Side::Source, info.params);
  if (failed(sourcePlaces))
    return failure();
  auto destinationPlaces =
      indexPlaces(info.destinationLayout, Side::Destination, info.params);
  if (failed(destinationPlaces))
    return failure();
  auto source = evaluateLayout(info.sourceLayout, Side::Source, tables);
  if (failed(source))
    return failure();
  auto destination =
      evaluateLayout(info.destinationLayout, Side::Destination, tables);
  if (failed(destination) || failed(checkRows(op)))
    return failure();
  for (ParamOp param : info.params)
    addFlows(param, (*sourcePlaces)[param.getSymNameAttr()],
             (*destinationPlaces)[param.getSymNameAttr()], *source,
             *destination, info.flows);
  for (auto [i, flow] : llvm::enumerate(info.flows))
    info.flowsOf[flow.param.getSymNameAttr()].push_back(uint32_t(i));
  return info;
}

/// Small beside the limit, and no smaller than what aligned copies want; 2 MiB
/// is what a GPU maps at least.
int64_t TransitionInfo::pageBytes(int64_t limit) {
  int64_t page = 64;
  while (page < (int64_t(2) << 20) && page * 16384 < limit)
    page *= 2;
  return page;
}

std::vector<int64_t> TransitionInfo::shapeOf(uint32_t flow) const {
  ParamOp param = flows[flow].param;
  return {param.getShape().begin(), param.getShape().end()};
}

std::vector<Flow> TransitionInfo::makeFlows() const {
  std::vector<Flow> out;
  for (uint32_t i = 0; i < flows.size(); ++i) {
    const FlowInfo &info = flows[i];
    StatesAttr states = info.allStates();
    Flow flow;
    flow.param = i;
    flow.bytesPerElement = states.wireBytes(info.states);
    flow.sourceBytes = states.sourceBytes(info.states);
    flow.destinationBytes = states.destinationBytes(info.states);
    flow.sourceConverts = convertsOn(Side::Source, info);
    flow.destinationConverts = convertsOn(Side::Destination, info);
    out.push_back(std::move(flow));
  }
  return out;
}

/// Cells of both sides meet in pieces: as many as their product where one side
/// is cut by rows and the other by columns.
static void countPieces(const Flow &flow, WorkLimit &pieces,
                        WorkLimit &choices) {
  WorkLimit pairs(kMaxPieces);
  for (auto [i, j] :
       overlappingPairs(BoxList(flow.source.cells, &Cell::box),
                        BoxList(flow.destination.cells, &Cell::box), &pairs)) {
    auto owners = [](const CellSet &side, uint32_t cell) {
      return int64_t(side.ownerSets[side.cells[cell].owners].size());
    };
    if (!pieces.take(owners(flow.destination, j)) ||
        !choices.take(owners(flow.source, i)))
      return;
  }
  if (pairs.isExceeded())
    pieces.take(std::numeric_limits<int64_t>::max());
}

FailureOr<std::vector<Flow>> TransitionInfo::makeFlowsWithCells() const {
  std::vector<Flow> out = makeFlows();
  WorkLimit pieces(kMaxPieces), choices(kMaxChoices);
  for (uint32_t i = 0; i < out.size(); ++i) {
    Flow &flow = out[i];
    WorkLimit cells(kMaxPieces);
    flow.source = overlay(flows[i].source, shapeOf(i), &cells);
    flow.destination = sentCells(i, &cells);
    if (!cells.isExceeded())
      countPieces(flow, pieces, choices);
    if (cells.isExceeded() || pieces.isExceeded() || choices.isExceeded())
      return TransitionOp(op).emitOpError()
             << "cuts @" << ParamOp(flows[i].param).getSymName()
             << " into pieces with which it has more than the limit of "
             << kMaxPieces;
  }
  return out;
}

std::optional<uint32_t> TransitionInfo::flowOf(MovementOpInterface op) const {
  auto found = flowsOf.find(op.getParamAttr().getAttr());
  if (found == flowsOf.end())
    return std::nullopt;
  for (uint32_t i : found->second) {
    ParamOp param = flows[i].param;
    if (flows[i].states == param.getStates().mask(op.getStatesAttr()))
      return i;
  }
  return std::nullopt;
}

std::vector<unsigned> TransitionInfo::numStates() const {
  std::vector<unsigned> out;
  for (const FlowInfo &flow : flows)
    out.push_back(llvm::popcount(flow.states));
  return out;
}

std::vector<unsigned> TransitionInfo::numLeading() const {
  std::vector<unsigned> out;
  for (FlowInfo flow : flows)
    out.push_back(flow.param.numLeading());
  return out;
}

FailureOr<std::vector<ScheduledMove>>
collectScheduled(const TransitionInfo &info) {
  /// The pieces of one op, and where they go.
  struct Part {
    PiecesAttr pieces;
    uint32_t flow;
    int32_t wave;
    size_t first;
  };
  std::vector<Part> parts;
  std::vector<size_t> waves; // the first part of each
  TransitionOp transition = info.op;
  size_t count = 0;
  for (auto wave : transition.getOps<WaveOp>()) {
    waves.push_back(parts.size());
    for (auto op : wave.getOps<SendrecvOp>()) {
      auto flow = info.flowOf(op);
      if (!flow)
        return op.emitOpError("names states that do not lie alike");
      parts.push_back(
          {op.getPieces(), *flow, int32_t(wave.getNumber()), count});
      count += op.getPieces().numPieces();
    }
  }
  waves.push_back(parts.size());
  std::vector<ScheduledMove> out(count);
  parallelFor(transition.getContext(), 1, waves.size(), [&](size_t w) {
    ArrayRef<Part> own =
        ArrayRef(parts).slice(waves[w - 1], waves[w] - waves[w - 1]);
    if (own.empty())
      return;
    ScheduledMove *at = out.data() + own.front().first, *first = at;
    for (const Part &part : own)
      part.pieces.forEach([&](int64_t from, int64_t to, const Box &box) {
        *at++ = {{part.flow, /*hop=*/0, from, to, box}, part.wave};
      });
    sortWave(first, at);
  });
  sortByMessage(out);
  return out;
}

LogicalResult
forEachTransition(ModuleOp module,
                  llvm::function_ref<LogicalResult(TransitionInfo &)> fn) {
  SymbolTableCollection tables;
  for (auto op : module.getOps<TransitionOp>()) {
    auto info = TransitionInfo::get(op, tables);
    if (failed(info) || failed(fn(*info)))
      return failure();
  }
  return success();
}

std::string describe(const FlowInfo &flow, const Box &box) {
  ParamOp param = flow.param;
  return "@" + param.getSymName().str() + toString(box);
}

} // namespace dt
