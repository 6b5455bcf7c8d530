//===- TransitionAnalysis.cpp - Transitions as Geometry structs -----------===//

#include "TransitionAnalysis.h"

#include "dt/Geometry/OptimizerShards.h"
#include "dt/Geometry/Painted.h"
#include "dt/Scheduling/WaveProblem.h"

#include "mlir/IR/Threading.h"

#include <algorithm>
#include <iterator>
#include <map>
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
  for (size_t f = first; f < flows.size(); ++f)
    flows[f].stateNames = stateNames(param, flows[f].states);
}

void readLimits(TransitionOp op, TransitionInfo &info) {
  constexpr int64_t kDefaultStaging = int64_t(1) << 30;
  info.stagingLimit = kDefaultStaging;
  if (ClusterAttr cluster = op.getClusterAttr())
    info.cluster = cluster.toCluster();
  if (MemoryAttr memory = op.getMemoryAttr()) {
    info.stagingLimit = memory.getStagingBytes();
    info.deviceLimit = memory.getDeviceBytes();
    info.flat = memory.getFlat();
    info.byTensor = memory.getByTensor();
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
  info.transition = op;
  info.source = op.lookupSource(tables);
  info.destination = op.lookupDestination(tables);
  for (auto param : op.lookupSpace(tables).getOps<ParamOp>())
    info.params.push_back(param);
  readLimits(op, info);
  // One error is enough: the second layout is read when the first is sound.
  auto sourcePlaces = indexPlaces(info.source, Side::Source, info.params);
  if (failed(sourcePlaces))
    return failure();
  auto destinationPlaces =
      indexPlaces(info.destination, Side::Destination, info.params);
  if (failed(destinationPlaces))
    return failure();
  auto source = evaluateLayout(info.source, tables);
  if (failed(source))
    return failure();
  auto destination = evaluateLayout(info.destination, tables);
  if (failed(destination))
    return failure();
  for (ParamOp param : info.params)
    addFlows(param, (*sourcePlaces)[param.getSymNameAttr()],
             (*destinationPlaces)[param.getSymNameAttr()], *source,
             *destination, info.flows);
  info.indexFlows();
  return info;
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
  return byTensor ? kWholeBuffers : pageBytesFor(stagingLimit);
}

std::vector<int64_t> TransitionInfo::shapeOf(uint32_t flow) const {
  ParamOp param = flows[flow].param;
  return {param.getShape().begin(), param.getShape().end()};
}

const std::vector<Flow> &TransitionInfo::flowCells() const {
  std::call_once(cells->once, [&] {
    cells->flows = widths;
    for (uint32_t i = 0; i < flows.size(); ++i) {
      cells->flows[i].source = overlay(flows[i].source, shapeOf(i));
      cells->flows[i].destination = sentCells(i);
    }
  });
  return cells->flows;
}

LogicalResult TransitionInfo::verifyComplete() const {
  for (uint32_t i = 0; i < flows.size(); ++i) {
    ParamOp param = flows[i].param;
    if (param.getPartial() || flows[i].destination.empty())
      continue;
    Box whole = Box::whole(shapeOf(i));
    CellSet all;
    if (flows[i].deriveFrom)
      all = overlay(flows[i].destination, shapeOf(i));
    const CellSet &there =
        flows[i].deriveFrom ? all : flowCells()[i].destination;
    int64_t volume = 0;
    for (const Cell &cell : there.cells)
      volume += cell.box.volume();
    if (volume == whole.volume())
      continue;
    LayoutOp layout = destination;
    std::string hole =
        describe(flows[i], uncovered(whole, there.cells).front());
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

//===----------------------------------------------------------------------===//
// Elements that their device makes itself
//===----------------------------------------------------------------------===//
//
// A state that may be made from another is sent only where that saves nothing:
// a device that gets the other state's element anyway, and does not hold this
// one at the source, makes it when all transfers are done.

namespace {

/// A box that some devices want sent and others make themselves.
struct Wanted {
  Box box;
  std::vector<int64_t> sent, derived;
};

/// The part of `box` that no pair covers, when the pairs do not fill it.
std::vector<Box> restOf(const Box &box, int64_t covered,
                        const std::vector<Cell> &cells) {
  if (covered == box.volume())
    return {};
  return uncovered(box, cells);
}

/// Cuts the destination of a flow by where the elements come from: wanted by
/// P, also got as the other state by M, held at the source by S. Of P, those
/// in M and not in S make it themselves.
std::vector<Wanted> splitByOrigin(const TransitionInfo &info, uint32_t index) {
  const FlowInfo &flow = info.flows[index];
  std::vector<int64_t> shape = info.shapeOf(index);
  CellSet wanted = overlay(flow.destination, shape);
  CellSet made = overlay(info.flows[*flow.deriveFrom].destination, shape);
  CellSet held = overlay(flow.source, shape);
  std::vector<Wanted> both, out;
  std::vector<int64_t> covered(wanted.cells.size(), 0);
  std::vector<Cell> cells;
  auto setMinus = [](const auto &a, const auto &b) {
    std::vector<int64_t> rest;
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(),
                        std::back_inserter(rest));
    return rest;
  };
  for (const CellPair &pair : join(wanted.cells, made.cells)) {
    const auto &p = wanted.ownerSets[wanted.cells[pair.left].owners];
    const auto &m = made.ownerSets[made.cells[pair.right].owners];
    covered[pair.left] += pair.box.volume();
    std::vector<int64_t> sent = setMinus(p, m);
    cells.push_back({pair.box, uint32_t(both.size())});
    both.push_back({pair.box, sent, setMinus(p, sent)});
  }
  for (size_t i = 0; i < covered.size(); ++i)
    for (const Box &box : restOf(wanted.cells[i].box, covered[i], made.cells))
      out.push_back({box, wanted.ownerSets[wanted.cells[i].owners], {}});
  std::vector<int64_t> found(both.size(), 0);
  for (const CellPair &pair : join(cells, held.cells)) {
    const Wanted &part = both[pair.left];
    const auto &s = held.ownerSets[held.cells[pair.right].owners];
    found[pair.left] += pair.box.volume();
    std::vector<int64_t> derived = setMinus(part.derived, s), all;
    std::set_union(part.sent.begin(), part.sent.end(), part.derived.begin(),
                   part.derived.end(), std::back_inserter(all));
    out.push_back({pair.box, setMinus(all, derived), derived});
  }
  for (size_t i = 0; i < both.size(); ++i)
    for (const Box &box : restOf(both[i].box, found[i], held.cells))
      out.push_back({box, both[i].sent, both[i].derived});
  llvm::sort(out,
             [](const Wanted &a, const Wanted &b) { return a.box < b.box; });
  return out;
}

} // namespace

CellSet TransitionInfo::sentCells(uint32_t index) const {
  const FlowInfo &flow = flows[index];
  if (!flow.deriveFrom)
    return overlay(flow.destination, shapeOf(index));
  CellSet out;
  std::map<std::vector<int64_t>, uint32_t> owners;
  for (Wanted &wanted : splitByOrigin(*this, index)) {
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
  if (!flows[flow].deriveFrom)
    return out;
  for (const Wanted &wanted : splitByOrigin(*this, flow))
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

TransitionAnalysis::TransitionAnalysis(Operation *module) {
  SymbolTableCollection tables;
  for (auto op : cast<ModuleOp>(module).getOps<TransitionOp>()) {
    auto info = TransitionInfo::get(op, tables);
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

std::string describe(const FlowInfo &flow, const Box &box) {
  ParamOp param = flow.param;
  return "@" + param.getSymName().str() + toString(box);
}

} // namespace dt
