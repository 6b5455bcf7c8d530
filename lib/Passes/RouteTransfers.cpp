//===- RouteTransfers.cpp - Every destination byte and its source ---------===//
//
// Reads both layouts into a RoutingProblem, asks a solver, and writes what it
// chose as few ops: one per param and group of states, whose pieces are affine
// classes and a table, of transfers hop by hop.
//
//===----------------------------------------------------------------------===//

#include "LibraryChoice.h"
#include "OldPlan.h"
#include "ProblemFile.h"
#include "Threads.h"
#include "TransitionAnalysis.h"
#include "dt/Passes/Passes.h"
#include "dt/Passes/Replan.h"
#include "dt/Routing/ProblemText.h"
#include "dt/Routing/Reroute.h"
#include "dt/Routing/RoutingSolver.h"
#include "dt/Scheduling/RouteSchedule.h"

#include <map>

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_ROUTETRANSFERS
#include "dt/Passes/Passes.h.inc"

namespace {

/// Rows of one op, by appendRow.
using Rows = std::vector<int64_t>;

/// Gathers the rows of ops, in the order in which these shall stand, and writes
/// all of them at once: rows become classes on the threads that there are.
class Writer {
public:
  Writer(const TransitionInfo &info)
      : info(info), builder(info.op().getContext()) {
    builder.setInsertionPointToEnd(&info.op().getBody().front());
  }

  template <typename Op> void add(uint32_t flow, Rows rows) {
    entries.push_back({flow, {{0, std::move(rows), {}}}, createLocal<Op>});
  }
  void addTransfer(uint32_t flow, std::map<uint32_t, Rows> byHop) {
    entries.push_back({flow, {}, createTransfer});
    for (auto &[hop, rows] : byHop)
      entries.back().parts.push_back({int64_t(hop), std::move(rows), {}});
  }
  void write() {
    compress();
    for (const Entry &entry : entries)
      entry.create(*this, entry);
  }

private:
  struct Part {
    int64_t hop = 0;
    Rows rows;
    PiecesAttr pieces;
  };
  struct Entry {
    uint32_t flow = 0;
    std::vector<Part> parts;
    void (*create)(Writer &, const Entry &) = nullptr;
  };

  /// Those of most rows first: a thread that begins them last would be alone
  /// with them.
  void compress() {
    std::vector<std::pair<const Entry *, Part *>> parts;
    for (Entry &entry : entries)
      for (Part &part : entry.parts)
        parts.emplace_back(&entry, &part);
    llvm::stable_sort(parts, [](const auto &a, const auto &b) {
      return a.second->rows.size() > b.second->rows.size();
    });
    forEachOnThreads(builder.getContext(), parts.size(), [&](size_t i) {
      auto [entry, part] = parts[i];
      unsigned rank = info.shapeOf(entry->flow).size();
      RowSet set = compressRows(part->rows, PiecesAttr::numColumns(rank));
      part->rows = {};
      part->pieces = PiecesAttr::get(builder.getContext(), set, rank);
    });
  }

  template <typename Op>
  static void createLocal(Writer &writer, const Entry &entry) {
    Op::create(
        writer.builder, writer.info.op().getLoc(), writer.nameOf(entry.flow),
        writer.info.flows[entry.flow].stateNames, entry.parts.front().pieces);
  }
  static void createTransfer(Writer &writer, const Entry &entry) {
    SmallVector<HopPieces> parts;
    for (const Part &part : entry.parts)
      parts.push_back({part.hop, part.pieces});
    TransferOp::create(writer.builder, writer.info.op().getLoc(),
                       writer.nameOf(entry.flow),
                       writer.info.flows[entry.flow].stateNames, parts);
  }
  FlatSymbolRefAttr nameOf(uint32_t flow) const {
    ParamOp param = info.flows[flow].param;
    return FlatSymbolRefAttr::get(param.getSymNameAttr());
  }

  const TransitionInfo &info;
  OpBuilder builder;
  std::vector<Entry> entries;
};

/// Devices whose shards of a flow are the same on both sides: their storage
/// can stay as it is.
std::vector<int64_t> unchangedDevices(const FlowInfo &flow) {
  for (auto [i, entry] : llvm::enumerate(flow.allStates().getEntries()))
    if (flow.states >> i & 1 && entry.source != entry.destination)
      return {};
  std::map<int64_t, std::vector<const Shard *>> before, after;
  for (const Holding &holding : flow.source)
    for (int64_t device : holding.devices)
      before[device].push_back(&holding.shard);
  for (const Holding &holding : flow.destination)
    for (int64_t device : holding.devices)
      after[device].push_back(&holding.shard);
  std::vector<int64_t> out;
  for (const auto &[device, shards] : after) {
    auto it = before.find(device);
    if (it != before.end() &&
        std::equal(shards.begin(), shards.end(), it->second.begin(),
                   it->second.end(),
                   [](const Shard *a, const Shard *b) { return *a == *b; }))
      out.push_back(device);
  }
  return out;
}

void addLocals(const TransitionInfo &info, const Routing &routing,
               Writer &writer) {
  std::vector<Rows> keeps(info.flows.size()), copies(info.flows.size());
  std::vector<std::vector<int64_t>> unchanged;
  for (const FlowInfo &flow : info.flows)
    unchanged.push_back(unchangedDevices(flow));
  for (const LocalMove &local : routing.locals) {
    bool keep = std::binary_search(unchanged[local.flow].begin(),
                                   unchanged[local.flow].end(), local.device);
    appendRow((keep ? keeps : copies)[local.flow], local.device, local.device,
              local.box);
  }
  for (uint32_t flow = 0; flow < info.flows.size(); ++flow) {
    if (!keeps[flow].empty())
      writer.add<KeepOp>(flow, std::move(keeps[flow]));
    if (!copies[flow].empty())
      writer.add<CopyOp>(flow, std::move(copies[flow]));
  }
}

void addDerived(const TransitionInfo &info, Writer &writer) {
  for (uint32_t flow = 0; flow < info.flows.size(); ++flow) {
    Rows rows;
    for (const LocalMove &piece : info.derivedPieces(flow))
      appendRow(rows, piece.device, piece.device, piece.box);
    if (!rows.empty())
      writer.add<DeriveOp>(flow, std::move(rows));
  }
}

void addZeros(const TransitionInfo &info, Writer &writer) {
  for (uint32_t flow = 0; flow < info.flows.size(); ++flow) {
    Rows rows;
    for (const Holding &holding : info.flows[flow].destination)
      for (const Box &box : padding(holding.shard, info.shapeOf(flow)))
        for (int64_t device : holding.devices)
          appendRow(rows, device, device, box);
    if (!rows.empty())
      writer.add<ZeroOp>(flow, std::move(rows));
  }
}

void addTransfers(const Routing &routing, Writer &writer) {
  std::map<uint32_t, std::map<uint32_t, Rows>> rows; // by flow and hop
  for (const Move &move : routing.moves)
    appendRow(rows[move.flow][move.hop], move.source, move.destination,
              move.box);
  for (auto &[flow, byHop] : rows)
    writer.addTransfer(flow, std::move(byHop));
}

/// In the order in which they are read again, hop by hop: which waves are found
/// depends on it.
std::vector<Move> asRead(const TransitionInfo &info,
                         const std::vector<Move> &moves) {
  std::map<std::pair<uint32_t, uint32_t>, Rows> rows; // by hop and flow
  for (const Move &move : moves)
    appendRow(rows[{move.hop, move.flow}], move.source, move.destination,
              move.box);
  std::vector<Move> out;
  out.reserve(moves.size());
  for (const auto &[key, own] : rows) {
    auto [hop, flow] = key;
    unsigned rank = info.shapeOf(flow).size();
    unsigned columns = PiecesAttr::numColumns(rank);
    std::vector<int64_t> read = expandRows(compressRows(own, columns));
    for (const int64_t *row = read.data(); row != read.data() + read.size();
         row += columns) {
      Box box(rank);
      for (unsigned d = 0; d < rank; ++d)
        box[d] = {row[2 + d], row[2 + d] + row[2 + rank + d]};
      out.push_back({flow, hop, row[0], row[1], box});
    }
  }
  return out;
}

struct RouteTransfersPass : impl::RouteTransfersBase<RouteTransfersPass> {
  using RouteTransfersBase::RouteTransfersBase;
  explicit RouteTransfersPass(std::shared_ptr<Replan> from)
      : from(std::move(from)) {}

  /// Names the first tensor of the hole as its user knows it.
  LogicalResult refuse(const TransitionInfo &info, const Hole &hole) {
    FlowInfo flow = info.flows[hole.flow];
    std::vector<int64_t> member;
    for (unsigned d = 0; d < flow.param.numLeading(); ++d)
      member.push_back(hole.box[d].lo);
    InFlightDiagnostic error = info.op().emitOpError();
    error << "wants " << describe(flow, hole.box) << " of tensor '"
          << flow.param.memberName(member) << "'";
    if (flow.stateNames)
      error << " " << flow.stateNames;
    error << " on device " << hole.device << " (rank "
          << worldsOf(info).destinationRank[hole.device]
          << "), which no source device holds";
    error.attachNote(info.sourceLayout().getLoc()) << "source layout is here";
    return failure();
  }

  LogicalResult solve(const TransitionInfo &info, const RoutingProblem &problem,
                      Routing &routing) {
    RoutingSolver found = findRoutingSolver(solver);
    if (!found)
      return info.op().emitOpError() << "has no solver '" << solver
                                     << "', expected " << routingSolverNames();
    if (from && from->keepsMoves())
      found = reroute;
    RouterOptions options;
    options.old = found == reroute ? &from->moves : nullptr;
    options.balanceParts = balanceParts;
    // Phases of flat memory keep no rounds: routes are timed without them.
    constexpr double kFlatRailPart = 0.5;
    if (info.isFlat())
      options.railPart = options.fewMovesPart = kFlatRailPart;
    // Messages of several states are all packed.
    bool mayBeRuns = !info.isFlat() &&
                     llvm::all_of(info.numStates(),
                                  [](unsigned states) { return states == 1; });
    std::optional<StoredFlows> stored; // most routes are not compared
    options.seconds = [&](const std::vector<Move> &moves) {
      // Flat memory has an order of its own.
      std::vector<Move> read = info.isFlat() ? moves : asRead(info, moves);
      if (!mayBeRuns)
        return routeSeconds(problem, read);
      if (!stored)
        stored = info.stored();
      return routeSeconds(problem, read, &*stored);
    };
    if (auto error = found(problem, options, routing))
      return info.op().emitOpError() << *error;
    return success();
  }

  /// What the old plan moved. In flat memory all moves have one order, in which
  /// storage comes and goes; what is best relayed depends on all other moves.
  LogicalResult readOld(const TransitionInfo &info) {
    if (!from->reason.empty())
      return success();
    auto moves = readOldMoves(info, *from->plan);
    if (failed(moves))
      return failure();
    if (info.isFlat()) {
      from->reason = "flat memory orders all moves anew";
      return success();
    }
    bool callsLibrary =
        looksForCalls(info) || !from->plan->common().memberSets.empty();
    if (callsLibrary) {
      from->reason = "library collectives are chosen anew";
      return success();
    }
    if (info.cluster.relays) {
      from->reason = "relays are chosen anew";
      return success();
    }
    from->moves = std::move(*moves);
    return success();
  }

  /// How much goes as it went before.
  void countKept(const Routing &routing, const std::vector<Flow> &flows) {
    OldMoveIndex old(from->moves);
    for (const Move &move : routing.moves)
      for (const OldMove &part : old.partsOf(move))
        from->bytesOnRoute +=
            part.move.box.volume() * flows[move.flow].bytesPerElement;
  }

  LogicalResult routeTransition(const TransitionInfo &info) {
    if (!info.op().getBody().front().empty())
      return info.op().emitOpError("is routed already");
    // Flat mode has one route for all limits: what is then found to be the
    // smallest that works has to work when it is asked for.
    constexpr int64_t kFlatStaging = int64_t(1) << 30;
    auto cells = info.flowCells();
    if (failed(cells))
      return failure();
    RoutingProblem problem(**cells, info.cluster,
                           info.isFlat() ? kFlatStaging : info.stagingLimit);
    if (!writeProblem.empty() &&
        failed(file.write(info.op(), writeProblem, toText(problem))))
      return failure();
    if (problem.hole())
      return refuse(info, *problem.hole());
    if (auto error = problem.check())
      return info.op().emitOpError() << "cannot be routed: " << *error;
    if (from && failed(readOld(info)))
      return failure();
    Routing routing;
    if (failed(solve(info, problem, routing)))
      return failure();
    const std::vector<Flow> &flows = problem.flows();
    if (from) {
      from->lowerBound = problem.lowerBound();
      countKept(routing, flows);
    }
    Writer writer(info);
    addLocals(info, routing, writer);
    addDerived(info, writer);
    addZeros(info, writer);
    addTransfers(routing, writer);
    writer.write();
    for (const Move &move : routing.moves)
      bytesMoved += move.box.volume() * flows[move.flow].bytesPerElement;
    for (const LocalMove &local : routing.locals)
      bytesKept += local.box.volume() * flows[local.flow].destinationBytes;
    numPieces += routing.moves.size() + routing.locals.size();
    return success();
  }

  void runOnOperation() override {
    file = ProblemFile();
    const auto &transitions = getAnalysis<TransitionAnalysis>();
    if (failed(transitions.forEach(
            [&](const TransitionInfo &info) { return routeTransition(info); })))
      return signalPassFailure();
    markAnalysesPreserved<TransitionAnalysis>();
  }

private:
  ProblemFile file;
  std::shared_ptr<Replan> from; // null: from zero
};

} // namespace

std::unique_ptr<Pass> createRouteTransfers(std::shared_ptr<Replan> from) {
  return std::make_unique<RouteTransfersPass>(std::move(from));
}

} // namespace dt
