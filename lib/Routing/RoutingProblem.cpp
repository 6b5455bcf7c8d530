//===- RoutingProblem.cpp - Who sends what to whom: the question ----------===//

#include "dt/Routing/RoutingProblem.h"

#include "dt/Geometry/Covers.h"

#include <algorithm>
#include <map>

using namespace dt;

namespace {

using MaybeError = std::optional<std::string>;
using Boxes = std::vector<Box>;

std::string flowText(uint32_t flow) { return "flow " + std::to_string(flow); }
std::string deviceText(int64_t device) {
  return "device " + std::to_string(device);
}
std::string boxText(uint32_t flow, const Box &box) {
  return toString(box) + " of " + flowText(flow);
}

//===----------------------------------------------------------------------===//
// Both sides joined
//===----------------------------------------------------------------------===//

/// Adds a flow to the bounds. What the destination wants and no pair covers is
/// a hole.
std::optional<Hole> joinFlow(const std::vector<Flow> &flows, uint32_t index,
                             BoundsBuilder &bounds) {
  const Flow &flow = flows[index];
  std::vector<int64_t> covered(flow.destination.cells.size(), 0);
  std::map<std::pair<uint32_t, uint32_t>, int64_t> volumes;
  for (const CellPair &pair : join(flow.source.cells, flow.destination.cells)) {
    covered[pair.right] += pair.box.volume();
    volumes[{flow.source.cells[pair.left].owners,
             flow.destination.cells[pair.right].owners}] += pair.box.volume();
  }
  for (auto [owners, volume] : volumes)
    bounds.add(flow.source.ownerSets[owners.first],
               flow.destination.ownerSets[owners.second],
               volume * flow.bytesPerElement);
  for (size_t i = 0; i < covered.size(); ++i) {
    const Cell &cell = flow.destination.cells[i];
    if (covered[i] == cell.box.volume())
      continue;
    // None where source cells meet, which is for check() to say.
    Boxes holes = uncovered(cell.box, flow.source.cells);
    if (!holes.empty())
      return Hole{index, flow.destination.ownerSets[cell.owners].front(),
                  holes.front()};
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Instances
//===----------------------------------------------------------------------===//

/// Bytes of a box; beyond 2^53 not exact.
double bytesOf(const Box &box, int64_t bytesPerElement) {
  auto bytes = double(bytesPerElement);
  for (unsigned dim = 0; dim < box.rank(); ++dim)
    bytes *= std::max(0.0, double(box[dim].hi) - double(box[dim].lo));
  return bytes;
}

MaybeError checkOwners(const CellSet &side, const std::string &where) {
  for (const auto &owners : side.ownerSets)
    if (owners.empty() || owners.front() < 0 ||
        std::adjacent_find(owners.begin(), owners.end(),
                           std::greater_equal<int64_t>()) != owners.end())
      return where +
             " has owners that are not one or more devices in ascending order";
  for (const Cell &cell : side.cells)
    if (cell.owners >= side.ownerSets.size())
      return where + " has a cell of owners " + std::to_string(cell.owners) +
             ", and " + std::to_string(side.ownerSets.size()) +
             " sets of owners";
  return std::nullopt;
}

/// The cells of one side of a flow. Adds the bytes that its owners have.
MaybeError checkCells(const CellSet &side, const std::string &where,
                      unsigned rank, int64_t width, double &bytes) {
  if (MaybeError error = checkOwners(side, where))
    return error;
  Boxes boxes;
  for (const Cell &cell : side.cells) {
    if (cell.box.rank() != rank)
      return where + " has a cell of " + std::to_string(cell.box.rank()) +
             " dims, expected " + std::to_string(rank);
    if (bytesOf(cell.box, 1) == 0)
      return where + " has an empty cell, " + toString(cell.box);
    bytes +=
        bytesOf(cell.box, width) * double(side.ownerSets[cell.owners].size());
    if (bytes >= 0x1p63)
      return where + " has bytes beyond the limit of 2^63";
    boxes.push_back(cell.box);
  }
  if (auto twice = firstTwice(boxes))
    return where + " has two cells that share " + toString(*twice);
  return std::nullopt;
}

unsigned rankOf(const Flow &flow) {
  for (const CellSet *side : {&flow.destination, &flow.source})
    if (!side->cells.empty())
      return side->cells.front().box.rank();
  return 0;
}

//===----------------------------------------------------------------------===//
// Solutions
//===----------------------------------------------------------------------===//

/// Boxes of one flow, by device.
using ByDevice = std::map<int64_t, Boxes>;

ByDevice boxesOf(const CellSet &side) {
  ByDevice out;
  for (const Cell &cell : side.cells)
    for (int64_t device : side.ownerSets[cell.owners])
      out[device].push_back(cell.box);
  return out;
}

/// Looks at what a routing does with one flow.
class FlowVerifier {
public:
  FlowVerifier(const RoutingProblem &problem, uint32_t number)
      : cluster(problem.cluster()), number(number),
        held(boxesOf(problem.flows()[number].source)),
        wanted(boxesOf(problem.flows()[number].destination)) {}

  void add(const Move &move) { moves.push_back(&move); }
  void add(const LocalMove &local) { locals.push_back(&local); }

  MaybeError run() {
    for (MaybeError (FlowVerifier::*rule)() :
         {&FlowVerifier::needless, &FlowVerifier::once, &FlowVerifier::from,
          &FlowVerifier::crossing})
      if (MaybeError error = (this->*rule)())
        return error;
    return std::nullopt;
  }

private:
  MaybeError needless();
  MaybeError once();
  MaybeError from();
  MaybeError forwards();
  MaybeError crossing();

  const Cluster &cluster;
  uint32_t number;
  ByDevice held, wanted;
  std::vector<const Move *> moves;
  std::vector<const LocalMove *> locals;
};

MaybeError FlowVerifier::needless() {
  ByDevice sent;
  for (const Move *move : moves)
    sent[move->destination].push_back(move->box);
  for (const auto &[device, boxes] : sent)
    if (auto shared = firstShared(held[device], boxes))
      return "sends " + boxText(number, *shared) + " to " + deviceText(device) +
             ", which holds it";
  return std::nullopt;
}

MaybeError FlowVerifier::once() {
  ByDevice arrived;
  for (const LocalMove *local : locals)
    arrived[local->device].push_back(local->box);
  for (const Move *move : moves)
    arrived[move->destination].push_back(move->box);
  for (const auto &[device, boxes] : arrived) {
    if (auto twice = firstTwice(boxes))
      return "brings " + boxText(number, *twice) + " to " + deviceText(device) +
             " twice, expected once";
    if (auto other = firstUncovered(boxes, wanted[device]))
      return "brings " + boxText(number, *other) + " to " + deviceText(device) +
             ", which does not want it";
  }
  for (const auto &[device, boxes] : wanted)
    if (auto missing = firstUncovered(boxes, arrived[device]))
      return "does not bring " + boxText(number, *missing) + " to " +
             deviceText(device) + ", which wants it";
  return std::nullopt;
}

/// Reads what comes to devices once, as `once` has seen.
MaybeError FlowVerifier::from() {
  ByDevice copied, sent;
  for (const LocalMove *local : locals)
    copied[local->device].push_back(local->box);
  for (const Move *move : moves)
    if (move->hop == 0)
      sent[move->source].push_back(move->box);
  for (const auto &[device, boxes] : copied)
    if (auto missing = firstUncovered(boxes, held[device]))
      return "copies " + boxText(number, *missing) + " on " +
             deviceText(device) + ", which does not hold it";
  for (const auto &[device, boxes] : sent)
    if (auto missing = firstUncovered(boxes, held[device]))
      return "sends " + boxText(number, *missing) + " from " +
             deviceText(device) + " at hop 0, which does not hold it";
  return forwards();
}

MaybeError FlowVerifier::forwards() {
  std::map<std::pair<int64_t, uint32_t>, Boxes> sent; // by device and hop
  std::map<int64_t, std::vector<const Move *>> arrived;
  for (const Move *move : moves) {
    if (move->hop > 0)
      sent[{move->source, move->hop}].push_back(move->box);
    arrived[move->destination].push_back(move);
  }
  for (const auto &[key, boxes] : sent) {
    auto [device, hop] = key;
    Boxes earlier;
    for (const Move *move : arrived[device])
      if (move->hop < hop)
        earlier.push_back(move->box);
    if (auto missing = firstUncovered(boxes, earlier))
      return "forwards " + boxText(number, *missing) + " from " +
             deviceText(device) + " at hop " + std::to_string(hop) +
             ", which does not get it at a lower hop";
  }
  return std::nullopt;
}

MaybeError FlowVerifier::crossing() {
  std::map<int64_t, Boxes> entering, inside; // by node
  for (const Move *move : moves)
    if (!cluster.sameNode(move->source, move->destination))
      entering[cluster.node(move->destination)].push_back(move->box);
  for (const auto &[device, boxes] : held) {
    Boxes &own = inside[cluster.node(device)];
    own.insert(own.end(), boxes.begin(), boxes.end());
  }
  for (const auto &[node, boxes] : entering) {
    std::string where = " to node " + std::to_string(node);
    if (auto twice = firstTwice(boxes))
      return "brings " + boxText(number, *twice) + where +
             " twice, expected once";
    if (auto known = firstShared(boxes, inside[node]))
      return "brings " + boxText(number, *known) + where + ", which has it";
  }
  return std::nullopt;
}

/// Flow, devices and box of what a routing does.
MaybeError checkForm(const RoutingProblem &problem, uint32_t flow,
                     int64_t source, int64_t destination, const Box &box) {
  if (flow >= problem.flows().size())
    return "names " + flowText(flow) + ", and there are " +
           std::to_string(problem.flows().size());
  const CellSet &wanted = problem.flows()[flow].destination;
  if (source < 0 || destination < 0)
    return "names a device below 0";
  if (wanted.cells.empty() || box.rank() != wanted.cells.front().box.rank() ||
      box.empty())
    return "moves " + boxText(flow, box) + ", which has no such box";
  return std::nullopt;
}

} // namespace

const RoutingProblem::Joined &RoutingProblem::joined() const {
  if (!known) {
    BoundsBuilder builder(machine);
    Joined out;
    for (uint32_t i = 0; i < allFlows.size(); ++i)
      if (auto found = joinFlow(allFlows, i, builder); found && !out.hole)
        out.hole = found;
    out.bounds = builder.finish();
    known = std::move(out);
  }
  return *known;
}

const Bounds &RoutingProblem::bounds() const { return joined().bounds; }
const std::optional<Hole> &RoutingProblem::hole() const {
  return joined().hole;
}

std::optional<std::string> RoutingProblem::check() const {
  if (MaybeError error = machine.check())
    return error;
  if (staging < 1)
    return "staging has " + std::to_string(staging) +
           " bytes, expected at least 1";
  double held = 0, wanted = 0; // bytes, all owners counted
  for (uint32_t i = 0; i < allFlows.size(); ++i) {
    const Flow &flow = allFlows[i];
    // What nobody wants may have no width: a state that is dropped.
    int64_t least = flow.destination.cells.empty() ? 0 : 1;
    if (flow.bytesPerElement < least)
      return flowText(i) + " has " + std::to_string(flow.bytesPerElement) +
             " bytes per element, expected at least " + std::to_string(least);
    if (auto error = checkCells(flow.source, "the source of " + flowText(i),
                                rankOf(flow), flow.bytesPerElement, held))
      return error;
    if (auto error =
            checkCells(flow.destination, "the destination of " + flowText(i),
                       rankOf(flow), flow.bytesPerElement, wanted))
      return error;
  }
  if (const auto &missing = hole())
    return deviceText(missing->device) + " wants " +
           boxText(missing->flow, missing->box) +
           ", which no source device holds";
  return std::nullopt;
}

std::optional<std::string>
RoutingProblem::verify(const Routing &routing) const {
  std::vector<FlowVerifier> verifiers;
  for (uint32_t i = 0; i < allFlows.size(); ++i)
    verifiers.emplace_back(*this, i);
  for (const LocalMove &local : routing.locals) {
    if (auto error =
            checkForm(*this, local.flow, local.device, local.device, local.box))
      return error;
    verifiers[local.flow].add(local);
  }
  for (const Move &move : routing.moves) {
    if (auto error = checkForm(*this, move.flow, move.source, move.destination,
                               move.box))
      return error;
    verifiers[move.flow].add(move);
  }
  for (FlowVerifier &verifier : verifiers)
    if (auto error = verifier.run())
      return error;
  return std::nullopt;
}

Bounds dt::computeBounds(const std::vector<Flow> &flows,
                         const Cluster &cluster) {
  BoundsBuilder builder(cluster);
  for (uint32_t i = 0; i < flows.size(); ++i)
    joinFlow(flows, i, builder);
  return builder.finish();
}
