//===- TransitionInfo.cpp - A transition as Geometry structs --------------===//

#include "TransitionInfo.h"

#include "dt/Geometry/OptimizerShards.h"

#include "mlir/IR/Threading.h"

#include <algorithm>
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
};

/// Position of a param in registration order when it states none.
int64_t positionOf(ParamOp param) {
  int64_t position = 0;
  for (Operation *op = param->getPrevNode(); op; op = op->getPrevNode())
    ++position;
  return position;
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

FailureOr<Holdings> evaluateLayout(LayoutOp layout,
                                   SymbolTableCollection &tables) {
  Holdings out;
  if (failed(evaluatePlaces(layout, tables, out)))
    return failure();
  return out;
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
  auto source = evaluateLayout(info.sourceLayout, tables);
  if (failed(source))
    return failure();
  auto destination = evaluateLayout(info.destinationLayout, tables);
  if (failed(destination))
    return failure();
  for (ParamOp param : info.params)
    addFlows(param, (*sourcePlaces)[param.getSymNameAttr()],
             (*destinationPlaces)[param.getSymNameAttr()], *source,
             *destination, info.flows);
  return info;
}

std::vector<int64_t> TransitionInfo::shapeOf(uint32_t flow) const {
  ParamOp param = flows[flow].param;
  return {param.getShape().begin(), param.getShape().end()};
}

std::vector<Flow> TransitionInfo::makeFlows(bool computeCells) const {
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
    if (computeCells) {
      flow.source = overlay(info.source, shapeOf(i));
      flow.destination = sentCells(i);
    }
    out.push_back(std::move(flow));
  }
  return out;
}

std::optional<uint32_t> TransitionInfo::flowOf(MovementOpInterface op) const {
  for (uint32_t i = 0; i < flows.size(); ++i) {
    ParamOp param = flows[i].param;
    if (param.getSymNameAttr() == op.getParamAttr().getAttr() &&
        flows[i].states == param.getStates().mask(op.getStatesAttr()))
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
