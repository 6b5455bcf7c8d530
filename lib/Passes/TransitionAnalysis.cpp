//===- TransitionAnalysis.cpp - Transitions as Geometry structs -----------===//

#include "TransitionAnalysis.h"

#include "dt/Geometry/Limits.h"
#include "dt/Geometry/Overlaps.h"
#include "dt/Geometry/Painted.h"
#include "dt/Megatron/OptimizerShards.h"
#include "dt/Scheduling/WaveProblem.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>

using namespace mlir;

namespace dt {

namespace {

using Holdings = llvm::DenseMap<Operation *, std::vector<Holding>>;

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
  void setOrder(PlaceOp place, ParamOp param, BucketedParam &entry);
};

/// Position of a param in registration order when it states none.
int64_t BucketedPlaces::positionOf(ParamOp param) {
  if (positions.empty())
    for (auto [i, op] : llvm::enumerate(*param->getBlock()))
      positions[&op] = int64_t(i);
  return positions.lookup(param);
}

/// A tensor of the side says its own place in the order.
void BucketedPlaces::setOrder(PlaceOp place, ParamOp param,
                              BucketedParam &entry) {
  TensorAttr tensor = place.getTensorAttr();
  entry.orderOffsets = tensor ? tensor.orderOffsets() : param.orderOffsets();
  entry.orderOffsets.resize(entry.numLeading, {0, /*step=*/0});
  if (tensor)
    entry.orderBase = tensor.getOrder();
  else
    entry.orderBase =
        param.getOrder() >= 0 ? param.getOrder() : positionOf(param);
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
  entry.shape = place.placedShape(param);
  entry.numLeading = param.numLeading();
  entry.placement = cast<PlacementAttr>(place.getHow()).toGeometry();
  entry.mesh = &it->second;
  entry.axes = axes[meshNumber];
  setOrder(place, param, entry);
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

/// Carries what is held of a side's tensors to the params that they are views
/// of.
LogicalResult carryToParams(LayoutOp layout, SymbolTableCollection &tables,
                            Holdings &out) {
  for (auto place : layout.getOps<PlaceOp>()) {
    TensorAttr tensor = place.getTensorAttr();
    if (!tensor)
      continue;
    ParamOp param = place.lookupParam(tables);
    std::vector<Holding> &held = out[place];
    std::string error;
    auto carried =
        throughView(tensor.toGeometry(),
                    param.getShape().drop_front(param.numLeading()).vec(),
                    std::move(held), error);
    if (!carried)
      return place.emitOpError()
             << "places " << place.placedName() << ", but " << error;
    held = std::move(*carried);
  }
  return success();
}

LogicalResult evaluatePlaces(LayoutOp layout, SymbolTableCollection &tables,
                             Holdings &out) {
  // One evaluation of the buckets per set of states that share a layout:
  // master, exp_avg and exp_avg_sq of a param are one place.
  BucketedPlaces bucketed(layout, tables);
  for (auto place : layout.getOps<PlaceOp>()) {
    if (place.getBucketed()) {
      if (failed(bucketed.add(place)))
        return failure();
      continue;
    }
    auto holdings = place.evaluate(tables);
    if (failed(holdings))
      return failure();
    out[place] = std::move(*holdings);
  }
  if (failed(bucketed.evaluate(out)))
    return failure();
  return carryToParams(layout, tables, out);
}

/// An error whose text goes on with what the place does.
InFlightDiagnostic refuse(PlaceOp place) {
  return place.emitOpError() << "of @" << place.getParam() << " ";
}

/// Ranks that evaluating a place looks at. Ranks that share buckets hold the
/// same tensors, which are looked at once for all of them.
int64_t ranksLookedAt(LayoutOp layout, PlaceOp place,
                      SymbolTableCollection &tables) {
  int64_t world = layout.getWorld();
  if (!place.getBucketed())
    return world;
  MeshOp mesh = place.lookupMesh(tables);
  auto axes = layout.getZero()->axesAsStrings();
  int64_t groups = world;
  for (auto [i, name] : llvm::enumerate(*layout.getMeshes()))
    if (cast<FlatSymbolRefAttr>(name).getAttr() == mesh.getSymNameAttr())
      for (const std::string &axis : axes[i])
        groups /= mesh.getMesh().toGeometry().axisSize(axis);
  int64_t tensors = place.lookupParam(tables).numMembers();
  return std::max(world, tensors * std::max<int64_t>(groups, 1));
}

/// Refuses what would take too long to evaluate, before it is.
LogicalResult checkWork(LayoutOp layout, SymbolTableCollection &tables) {
  WorkLimit placed(kMaxPlacedRanks), rows(kMaxRegions);
  for (auto place : layout.getOps<PlaceOp>()) {
    if (auto shards = dyn_cast<ShardsAttr>(place.getHow())) {
      if (!rows.take(shards.getRows().numRows()))
        return refuse(place)
               << "brings the rows of the layout's shards above the limit of "
               << kMaxRegions;
      continue;
    }
    if (!placed.take(ranksLookedAt(layout, place, tables)))
      return refuse(place)
             << "is on " << layout.getWorld()
             << " ranks, which brings the ranks of the layout, counted for "
             << "each place, above the limit of " << kMaxPlacedRanks;
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
      return refuse(place)
             << "brings the regions of the layout above the limit of "
             << kMaxRegions;
    StatesAttr states = place.lookupParam(tables).getStates();
    uint64_t mask = states.mask(place.getStatesAttr());
    int64_t width = side == Side::Source ? states.sourceBytes(mask)
                                         : states.destinationBytes(mask);
    for (const Holding &holding : held) {
      int64_t total = width;
      for (int64_t factor :
           {holding.shard.numMembers(), holding.shard.elementsPerMember(),
            int64_t(holding.devices.size())})
        if (__builtin_mul_overflow(total, factor, &total))
          total = std::numeric_limits<int64_t>::max();
      if (!bytes.take(total))
        return refuse(place)
               << "brings the bytes that the devices of the layout hold above "
               << "the limit of " << kMaxBytes;
    }
  }
  return success();
}

/// Per state of the param its places: one, or one for each tensor of the side
/// that is a view of the param.
using PlacesOfState = std::vector<SmallVector<PlaceOp, 1>>;

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
                             PlacesOfState &places) {
  StatesAttr states = param.getStates();
  for (auto [i, entry] : llvm::enumerate(states.getEntries())) {
    if (existsOn(side, entry) && places[i].empty())
      return missingPlace(layout, param, entry.name);
    if (!existsOn(side, entry) && !places[i].empty())
      return places[i].front().emitOpError()
             << "places state '" << entry.name.getValue() << "' of @"
             << param.getSymName() << ", which does not exist on that side";
  }
  if (side == Side::Source)
    for (auto [i, entry] : llvm::enumerate(states.getEntries()))
      if (places[i].empty())
        places[i] = places[states.indexOf(entry.from)];
  return success();
}

/// The first place of each state of a param and tensor, whose attribute is
/// null for the param itself. Explicit shards of several states may be given
/// in several places.
using FirstPlaces =
    llvm::DenseMap<std::tuple<Attribute, unsigned, Attribute>, PlaceOp>;

/// The place that already gives what a place gives of a state: of the same
/// tensor, or of the param itself, which is all of it.
PlaceOp placedBefore(PlaceOp place, unsigned state, const PlacesOfState &places,
                     const FirstPlaces &known) {
  if (places[state].empty())
    return {};
  Attribute param = place.getParamAttr().getAttr();
  Attribute tensor = place.getTensorAttr();
  if (!tensor)
    return places[state].front();
  if (PlaceOp whole = known.lookup({param, state, Attribute()}))
    return whole;
  return known.lookup({param, state, tensor});
}

LogicalResult addPlace(PlaceOp place, ParamOp param, PlacesOfState &places,
                       FirstPlaces &known) {
  uint64_t mask = param.getStates().mask(place.getStatesAttr());
  for (unsigned i = 0; i < places.size(); ++i) {
    if (!(mask >> i & 1))
      continue;
    PlaceOp before = placedBefore(place, i, places, known);
    if (!before) {
      places[i].push_back(place);
      known[{place.getParamAttr().getAttr(), i, place.getTensorAttr()}] = place;
      continue;
    }
    InFlightDiagnostic error =
        place.emitOpError()
        << "places state '" << param.getStates().getEntries()[i].name.getValue()
        << "' of " << place.placedName() << " a second time";
    error.attachNote(before.getLoc()) << "it is placed here";
    return failure();
  }
  return success();
}

/// The places of every state of every param; none for a dropped one.
FailureOr<llvm::DenseMap<Attribute, PlacesOfState>>
indexPlaces(LayoutOp layout, Side side, const std::vector<ParamOp> &params) {
  llvm::DenseMap<Attribute, PlacesOfState> out;
  llvm::DenseMap<Attribute, ParamOp> byName;
  FirstPlaces known;
  for (ParamOp param : params) {
    byName[param.getSymNameAttr()] = param;
    out[param.getSymNameAttr()].resize(param.getStates().getEntries().size());
  }
  for (auto place : layout.getOps<PlaceOp>()) {
    Attribute name = place.getParamAttr().getAttr();
    if (failed(addPlace(place, byName[name], out[name], known)))
      return failure();
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
        flows[f].derivedFrom = g;
  }
}

/// Tensors of the sides that are not params of the space, numbered in order.
class SideTensors {
public:
  explicit SideTensors(std::vector<SideTensor> &list) : list(list) {}

  /// None where the tensor is the param itself, by name and by element.
  std::optional<uint32_t> numberOf(PlaceOp place, ParamOp param, Side side) {
    TensorAttr tensor = place.getTensorAttr();
    if (!tensor || isParam(tensor, param))
      return std::nullopt;
    auto [known, isNew] =
        numbers.try_emplace({tensor, unsigned(side)}, uint32_t(list.size()));
    if (isNew)
      list.push_back({side, param, tensor});
    return known->second;
  }

private:
  static bool isParam(TensorAttr tensor, ParamOp param) {
    return tensor.getName().getValue() == param.nameTemplate() &&
           tensor.getFirst() == param.getLeadingFirst() &&
           tensor.getStep() == param.getLeadingStep() &&
           tensor.getLists() == param.getLeadingLists() &&
           tensor.toGeometry().isWhole(
               param.getShape().drop_front(param.numLeading()).vec());
  }

  std::vector<SideTensor> &list;
  llvm::DenseMap<std::pair<Attribute, unsigned>, uint32_t> numbers;
};

/// What is held of a param on one side, all places together.
std::vector<Holding> holdingsOfSide(ParamOp param, ArrayRef<PlaceOp> places,
                                    Side side, const Holdings &holdings,
                                    SideTensors &tensors) {
  std::vector<Holding> out;
  for (PlaceOp place : places) {
    std::optional<uint32_t> view = tensors.numberOf(place, param, side);
    auto held = holdings.find(place);
    if (held == holdings.end()) // it is known by rank
      continue;
    for (const Holding &holding : held->second) {
      out.push_back(holding);
      out.back().shard.view = view;
    }
  }
  return out;
}

/// Both layouts as they were read.
struct ReadSides {
  llvm::DenseMap<Attribute, PlacesOfState> sourcePlaces, destinationPlaces;
  Holdings source, destination; // none where they are known by rank
};

/// What ranks hold, by the devices where they are.
std::vector<Holding> onDevices(std::vector<Holding> byRank,
                               const std::vector<int64_t> &devices) {
  for (Holding &holding : byRank) {
    for (int64_t &device : holding.devices)
      device = devices[size_t(device)];
    llvm::sort(holding.devices);
  }
  return byRank;
}

/// Fills the flows of a transition whose layouts are known by rank; fails where
/// these are of another one.
LogicalResult placeKnown(const LayoutsByRank &known, TransitionInfo &info,
                         SymbolTableCollection &tables) {
  if (known.flows.size() != info.flows.size() || !info.tensors.empty())
    return info.op().emitOpError("has other layouts than are known");
  const std::vector<int64_t> source = devicesOf(info.sourceLayout(), tables);
  const std::vector<int64_t> destination =
      devicesOf(info.destinationLayout(), tables);
  for (auto [flow, own] : llvm::zip(info.flows, known.flows)) {
    flow.source = onDevices(own.source, source);
    flow.destination = onDevices(own.destination, destination);
  }
  return success();
}

/// Adds the flows of one param: states grouped by their pair of places. A
/// state that is or may be made from another has a flow of its own.
void addFlows(ParamOp param, ReadSides &sides, SideTensors &tensors,
              std::vector<FlowInfo> &flows) {
  size_t first = flows.size();
  const PlacesOfState &sources = sides.sourcePlaces[param.getSymNameAttr()];
  const PlacesOfState &destinations =
      sides.destinationPlaces[param.getSymNameAttr()];
  ArrayRef<StateEntry> entries = param.getStates().getEntries();
  std::vector<std::tuple<ArrayRef<PlaceOp>, ArrayRef<PlaceOp>, StringAttr>>
      keys;
  for (size_t i = 0; i < sources.size(); ++i) {
    auto key = std::make_tuple(ArrayRef<PlaceOp>(sources[i]),
                               ArrayRef<PlaceOp>(destinations[i]),
                               entries[i].from ? entries[i].name : nullptr);
    size_t known = llvm::find(keys, key) - keys.begin();
    if (known == keys.size()) {
      keys.push_back(key);
      FlowInfo flow;
      flow.param = param;
      flow.source = holdingsOfSide(param, sources[i], Side::Source,
                                   sides.source, tensors);
      flow.destination =
          holdingsOfSide(param, destinations[i], Side::Destination,
                         sides.destination, tensors);
      flows.push_back(std::move(flow));
    }
    flows[first + known].states |= uint64_t(1) << i;
  }
  linkDerived(flows, first);
  for (size_t f = first; f < flows.size(); ++f)
    flows[f].stateNames = stateNames(param, flows[f].states);
}

/// What a limit leaves when compression has its part of it.
LogicalResult takeCompression(TransitionOp op, const char *what, int64_t taken,
                              int64_t &limit) {
  if (limit > taken) {
    limit -= taken;
    return success();
  }
  return op.emitOpError() << "has " << limit << " bytes of " << what
                          << ", of which compression takes " << taken;
}

LogicalResult readLimits(TransitionOp op, TransitionInfo &info) {
  constexpr int64_t kDefaultStaging = int64_t(1) << 30;
  info.stagingLimit = kDefaultStaging;
  if (ClusterAttr cluster = op.getClusterAttr())
    info.cluster = cluster.toCluster();
  if (MemoryAttr memory = op.getMemoryAttr()) {
    info.stagingLimit = memory.getStagingBytes();
    info.deviceLimit = memory.getDeviceBytes();
    info.mode = memory.getMode();
    info.granularity = memory.getGranularity();
    info.leastPage = memory.getPageBytes();
    info.overNccl = memory.getOverNccl();
  }
  CompressionAttr compression = op.getCompressionAttr();
  if (!compression)
    return success();
  info.compression = compression.toCompression();
  int64_t taken = info.compressionBytes();
  if (info.deviceLimit > 0 &&
      failed(takeCompression(op, "memory", taken, info.deviceLimit)))
    return failure();
  return takeCompression(op, "staging", taken, info.stagingLimit);
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
      op->emitOpError() << "brings the pieces of the transition above the "
                        << "limit of " << kMaxPieces;
      return WalkResult::interrupt();
    }
    auto wave = dyn_cast<WaveOp>(op);
    if (wave && wave.getSlotsAttr() &&
        !slots.take(wave.getSlotsAttr().numRows())) {
      op->emitOpError() << "brings the slots of the transition above the "
                        << "limit of " << 2 * kMaxMessages;
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return success(!result.wasInterrupted());
}

FailureOr<TransitionInfo> TransitionInfo::get(TransitionOp op,
                                              SymbolTableCollection &tables,
                                              const LayoutsByRank *known) {
  TransitionInfo info;
  info.transition = op;
  info.source = op.lookupSource(tables);
  info.destination = op.lookupDestination(tables);
  for (auto param : op.lookupSpace(tables).getOps<ParamOp>())
    info.params.push_back(param);
  if (failed(readLimits(op, info)))
    return failure();
  // One error is enough: the second layout is read when the first is sound.
  auto sourcePlaces = indexPlaces(info.source, Side::Source, info.params);
  if (failed(sourcePlaces))
    return failure();
  auto destinationPlaces =
      indexPlaces(info.destination, Side::Destination, info.params);
  if (failed(destinationPlaces))
    return failure();
  FailureOr<Holdings> source = Holdings(), destination = Holdings();
  if (!known)
    source = evaluateLayout(info.source, Side::Source, tables);
  if (failed(source))
    return failure();
  if (!known)
    destination = evaluateLayout(info.destination, Side::Destination, tables);
  if (failed(destination) || failed(checkRows(op)))
    return failure();
  ReadSides sides = {std::move(*sourcePlaces), std::move(*destinationPlaces),
                     std::move(*source), std::move(*destination)};
  SideTensors tensors(info.tensors);
  for (ParamOp param : info.params)
    addFlows(param, sides, tensors, info.flows);
  if (known && failed(placeKnown(*known, info, tables)))
    return failure();
  info.indexFlows();
  return info;
}

TransitionInfo TransitionInfo::withoutShards() const {
  TransitionInfo out;
  out.transition = transition;
  out.source = source;
  out.destination = destination;
  out.params = params;
  for (const FlowInfo &flow : flows)
    out.flows.push_back(
        {flow.param, flow.states, flow.stateNames, {}, {}, flow.derivedFrom});
  out.tensors = tensors;
  out.cluster = cluster;
  out.stagingLimit = stagingLimit;
  out.deviceLimit = deviceLimit;
  out.leastPage = leastPage;
  out.overNccl = overNccl;
  out.compression = compression;
  out.mode = mode;
  out.granularity = granularity;
  out.indexFlows();
  return out;
}

void TransitionInfo::indexFlows() {
  for (uint32_t i = 0; i < flows.size(); ++i) {
    const FlowInfo &info = flows[i];
    ParamOp param = info.param;
    StatesAttr states = info.allStates();
    flowIndex[{param.getSymNameAttr(), info.states}] = i;
    statesOf[param.getSymNameAttr()] = states;
    Flow flow;
    flow.param = i;
    flow.bytesPerElement = states.wireBytes(info.states);
    flow.sourceBytes = states.sourceBytes(info.states);
    flow.destinationBytes = states.destinationBytes(info.states);
    flow.sourceConverts = convertsOn(Side::Source, info);
    flow.destinationConverts = convertsOn(Side::Destination, info);
    widths.push_back(std::move(flow));
  }
}

int64_t TransitionInfo::pageBytes() const {
  return isByTensor() ? kWholeBuffers
                      : std::max(leastPage, pageBytesFor(stagingLimit));
}

std::vector<int64_t> TransitionInfo::shapeOf(uint32_t flow) const {
  ParamOp param = flows[flow].param;
  return {param.getShape().begin(), param.getShape().end()};
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

LogicalResult TransitionInfo::computeCells(std::vector<Flow> &out) const {
  out = widths;
  WorkLimit pieces(kMaxPieces), choices(kMaxChoices);
  for (uint32_t i = 0; i < out.size(); ++i) {
    WorkLimit found(kMaxPieces);
    out[i].source = overlay(flows[i].source, shapeOf(i), &found);
    out[i].destination = sentCells(i, &found);
    if (!found.isExceeded())
      countPieces(out[i], pieces, choices);
    if (found.isExceeded() || pieces.isExceeded() || choices.isExceeded())
      return op().emitOpError()
             << "cuts @" << ParamOp(flows[i].param).getSymName()
             << ", which brings the pieces of the transition above the "
             << "limit of " << kMaxPieces;
  }
  return success();
}

FailureOr<const std::vector<Flow> *> TransitionInfo::flowCells() const {
  std::call_once(cells->once, [&] {
    cells->areWithinLimits = succeeded(computeCells(cells->flows));
  });
  if (!cells->areWithinLimits)
    return failure();
  return &cells->flows;
}

LogicalResult TransitionInfo::verifyComplete() const {
  auto found = flowCells();
  if (failed(found))
    return failure();
  for (uint32_t i = 0; i < flows.size(); ++i) {
    ParamOp param = flows[i].param;
    if (param.getPartial() || flows[i].destination.empty())
      continue;
    Box whole = Box::whole(shapeOf(i));
    CellSet all;
    if (flows[i].derivedFrom)
      all = overlay(flows[i].destination, shapeOf(i));
    const CellSet &there =
        flows[i].derivedFrom ? all : (**found)[i].destination;
    int64_t volume = 0;
    for (const Cell &cell : there.cells)
      volume += cell.box.volume();
    if (volume == whole.volume())
      continue;
    LayoutOp layout = destination;
    std::string hole =
        describe(flows[i], *firstUncovered({{whole, 0}}, there.cells));
    InFlightDiagnostic error = layout.emitError()
                               << "destination lacks " << hole;
    error.attachNote(param.getLoc())
        << "the param is here, and is not 'partial'";
    return failure();
  }
  return success();
}

std::optional<uint32_t> TransitionInfo::flowOf(MovementOpInterface op) const {
  Attribute param = op.getParamAttr().getAttr();
  auto states = statesOf.find(param);
  if (states == statesOf.end())
    return std::nullopt;
  auto flow = flowIndex.find({param, states->second.mask(op.getStatesAttr())});
  if (flow == flowIndex.end())
    return std::nullopt;
  return flow->second;
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

StoredFlows TransitionInfo::stored() const {
  StoredFlows out;
  for (uint32_t i = 0; i < flows.size(); ++i) {
    out.flows.push_back({unsigned(llvm::popcount(flows[i].states)),
                         widths[i].sourceConverts,
                         widths[i].destinationConverts});
    out.source.add(i, flows[i].source);
    out.destination.add(i, flows[i].destination);
  }
  return out;
}

//===----------------------------------------------------------------------===//
// Elements that their device makes itself
//===----------------------------------------------------------------------===//
//
// A state that may be made from another is sent only where that saves nothing:
// a device that gets the other state's element anyway, and does not hold this
// one at the source, makes it when all transfers are done.

namespace {

/// A box that some devices want sent and others make themselves.
struct WantedPart {
  Box box;
  std::vector<int64_t> sent, derived;
};

/// The parts of `wanted` that no other cell covers; `pairs` joins both.
std::vector<Cell> restOf(const std::vector<Cell> &wanted,
                         const std::vector<CellPair> &pairs, WorkLimit *limit) {
  std::vector<std::vector<Cell>> inside(wanted.size());
  std::vector<int64_t> covered(wanted.size(), 0);
  for (const CellPair &pair : pairs) {
    inside[pair.left].push_back({pair.box, 0});
    covered[pair.left] += pair.box.volume();
  }
  std::vector<Cell> out;
  for (size_t i = 0; i < wanted.size(); ++i)
    if (covered[i] != wanted[i].box.volume())
      for (const Box &box : uncovered(wanted[i].box, inside[i], limit))
        out.push_back({box, uint32_t(i)});
  return out;
}

/// Cuts the destination of a flow by where the elements come from: wanted by
/// P, also got as the other state by M, held at the source by S. Of P, those
/// in M and not in S make it themselves.
std::vector<WantedPart> splitByOrigin(const TransitionInfo &info,
                                      uint32_t index, WorkLimit *limit) {
  const FlowInfo &flow = info.flows[index];
  std::vector<int64_t> shape = info.shapeOf(index);
  CellSet wanted = overlay(flow.destination, shape, limit);
  CellSet other =
      overlay(info.flows[*flow.derivedFrom].destination, shape, limit);
  CellSet held = overlay(flow.source, shape, limit);
  std::vector<WantedPart> both, out;
  if (limit && limit->isExceeded())
    return out;
  std::vector<Cell> cells;
  auto setMinus = [](const auto &a, const auto &b) {
    std::vector<int64_t> rest;
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(),
                        std::back_inserter(rest));
    return rest;
  };
  auto ownersOf = [](const CellSet &set, uint32_t cell) -> const auto & {
    return set.ownerSets[set.cells[cell].owners];
  };
  std::vector<CellPair> pairs = join(wanted.cells, other.cells, limit);
  for (const CellPair &pair : pairs) {
    const auto &p = ownersOf(wanted, pair.left);
    std::vector<int64_t> sent = setMinus(p, ownersOf(other, pair.right));
    cells.push_back({pair.box, uint32_t(both.size())});
    both.push_back({pair.box, sent, setMinus(p, sent)});
    if (limit && !limit->take(int64_t(p.size())))
      return out;
  }
  for (const Cell &rest : restOf(wanted.cells, pairs, limit))
    out.push_back({rest.box, ownersOf(wanted, rest.owners), {}});
  pairs = join(cells, held.cells, limit);
  for (const CellPair &pair : pairs) {
    const WantedPart &part = both[pair.left];
    std::vector<int64_t> derived =
        setMinus(part.derived, ownersOf(held, pair.right));
    std::vector<int64_t> all;
    std::set_union(part.sent.begin(), part.sent.end(), part.derived.begin(),
                   part.derived.end(), std::back_inserter(all));
    if (limit && !limit->take(int64_t(all.size())))
      return out;
    out.push_back({pair.box, setMinus(all, derived), derived});
  }
  for (const Cell &rest : restOf(cells, pairs, limit))
    out.push_back(
        {rest.box, both[rest.owners].sent, both[rest.owners].derived});
  llvm::sort(out, [](const WantedPart &a, const WantedPart &b) {
    return a.box < b.box;
  });
  return out;
}

} // namespace

CellSet TransitionInfo::sentCells(uint32_t index, WorkLimit *limit) const {
  const FlowInfo &flow = flows[index];
  if (!flow.derivedFrom)
    return overlay(flow.destination, shapeOf(index), limit);
  CellSet out;
  std::map<std::vector<int64_t>, uint32_t> owners;
  for (WantedPart &wanted : splitByOrigin(*this, index, limit)) {
    if (wanted.sent.empty())
      continue;
    auto [it, isNew] =
        owners.try_emplace(wanted.sent, uint32_t(out.ownerSets.size()));
    if (isNew)
      out.ownerSets.push_back(wanted.sent);
    out.cells.push_back({wanted.box, it->second});
  }
  return out;
}

std::vector<LocalMove> TransitionInfo::derivedPieces(uint32_t flow) const {
  std::vector<LocalMove> out;
  if (!flows[flow].derivedFrom)
    return out;
  for (const WantedPart &wanted : splitByOrigin(*this, flow, nullptr))
    for (int64_t device : wanted.derived)
      out.push_back({flow, device, wanted.box});
  return out;
}

std::vector<int64_t> devicesOf(LayoutOp layout, SymbolTableCollection &tables) {
  if (auto devices = layout.lookupDevices(tables))
    return {devices->begin(), devices->end()};
  std::vector<int64_t> out;
  for (int64_t rank = 0; rank < layout.getWorld(); ++rank)
    out.push_back(rank);
  return out;
}

ArrayAttr stateNames(ParamOp param, uint64_t states) {
  Builder builder(param.getContext());
  ArrayRef<StateEntry> all = param.getStates().getEntries();
  SmallVector<Attribute> names;
  for (auto [i, entry] : llvm::enumerate(all))
    if (states >> i & 1)
      names.push_back(entry.name);
  return names.size() == all.size() ? ArrayAttr() : builder.getArrayAttr(names);
}

Worlds worldsOf(const TransitionInfo &info) {
  SymbolTableCollection tables;
  Worlds out;
  for (auto [rank, device] :
       llvm::enumerate(devicesOf(info.sourceLayout(), tables)))
    out.sourceRank[device] = rank;
  for (auto [rank, device] :
       llvm::enumerate(devicesOf(info.destinationLayout(), tables)))
    out.destinationRank[device] = rank;
  return out;
}

std::shared_ptr<const LayoutsByRank> layoutsByRank(const TransitionInfo &info) {
  if (!info.tensors.empty())
    return nullptr;
  auto out = std::make_shared<LayoutsByRank>();
  for (const FlowInfo &flow : info.flows)
    out->flows.push_back({flow.source, flow.destination});
  return out;
}

namespace {

struct KnowLayoutsPass : PassWrapper<KnowLayoutsPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(KnowLayoutsPass)

  explicit KnowLayoutsPass(std::shared_ptr<const LayoutsByRank> known)
      : known(std::move(known)) {}

  StringRef getArgument() const override { return "dt-know-layouts"; }

  void runOnOperation() override {
    getAnalysis<KnownLayouts>().byRank = known;
    markAllAnalysesPreserved();
  }

private:
  std::shared_ptr<const LayoutsByRank> known;
};

const LayoutsByRank *knownLayouts(AnalysisManager &analyses) {
  auto known = analyses.getCachedAnalysis<KnownLayouts>();
  return known ? known->get().byRank.get() : nullptr;
}

} // namespace

std::unique_ptr<Pass>
createKnowLayouts(std::shared_ptr<const LayoutsByRank> known) {
  return std::make_unique<KnowLayoutsPass>(std::move(known));
}

TransitionAnalysis::TransitionAnalysis(Operation *module,
                                       AnalysisManager &analyses)
    : TransitionAnalysis(module, knownLayouts(analyses)) {}

TransitionAnalysis::TransitionAnalysis(Operation *module,
                                       const LayoutsByRank *known) {
  SymbolTableCollection tables;
  for (auto op : cast<ModuleOp>(module).getOps<TransitionOp>()) {
    auto info = TransitionInfo::get(op, tables, known);
    areRight = succeeded(info);
    if (!areRight)
      return;
    transitions.push_back(std::move(*info));
  }
}

LogicalResult TransitionAnalysis::forEach(
    llvm::function_ref<LogicalResult(const TransitionInfo &)> fn) const {
  for (const TransitionInfo &info : transitions)
    if (failed(fn(info)))
      return failure();
  return success(areRight);
}

void appendRow(std::vector<int64_t> &rows, int64_t from, int64_t to,
               const Box &box) {
  rows.push_back(from);
  rows.push_back(to);
  for (unsigned d = 0; d < box.rank(); ++d)
    rows.push_back(box[d].lo);
  for (unsigned d = 0; d < box.rank(); ++d)
    rows.push_back(box[d].size());
}

std::string describe(const FlowInfo &flow, const Box &box) {
  ParamOp param = flow.param;
  return "@" + param.getSymName().str() + toString(box);
}

} // namespace dt
