//===- TransitionInfo.h - A transition as Geometry structs ------*- C++ -*-===//
//
// Passes read a transition's layouts once into plain structs, work on those,
// and write ops back: attributes are for the IR's edge.
//
//===----------------------------------------------------------------------===//

#ifndef DT_PASSES_TRANSITIONINFO_H
#define DT_PASSES_TRANSITIONINFO_H

#include "dt/Dialect/Ops.h"
#include "dt/Routing/Schedule.h"
#include "dt/Routing/ShardIndex.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace dt {

/// The states of one param that lie alike in both layouts.
struct FlowInfo {
  ParamOp param;
  uint64_t states = 0;        // mask over the param's states
  mlir::ArrayAttr stateNames; // null: all of them
  /// What its elements are read from, and where they end; the latter is empty
  /// for a state that the destination drops.
  std::vector<Holding> source, destination;
  /// Index of the flow that elements may be made from on their own device.
  std::optional<uint32_t> deriveFrom;

  StatesAttr allStates() const { return ParamOp(param).getStates(); }
};

struct TransitionInfo {
  TransitionOp op;
  LayoutOp sourceLayout, destinationLayout;
  std::vector<ParamOp> params;
  std::vector<FlowInfo> flows;
  Cluster cluster;
  int64_t stagingLimit = 0; // bytes per device
  int64_t deviceLimit = 0;  // 0: none
  bool flat = false;
  /// Flat mode: bytes of the pages in which storage comes and goes.
  int64_t pageBytes() const { return pageBytes(stagingLimit); }
  static int64_t pageBytes(int64_t limit);

  /// Flows of each param, by its name.
  llvm::DenseMap<mlir::Attribute, llvm::SmallVector<uint32_t, 2>> flowsOf;

  /// Evaluates both layouts. Emits a diagnostic on failure, and where the
  /// layouts or the ops inside hold more than the limits (Limits.h).
  static mlir::FailureOr<TransitionInfo>
  get(TransitionOp op, mlir::SymbolTableCollection &tables);

  /// Flows with bytes per element, without cells.
  std::vector<Flow> makeFlows() const;
  /// The same with cells. What a device makes from another flow is not part of
  /// the destination. Emits a diagnostic where the cells of a flow have more
  /// pieces than the limit.
  mlir::FailureOr<std::vector<Flow>> makeFlowsWithCells() const;
  /// What devices make from another state that they get anyway, because they
  /// do not hold it themselves.
  std::vector<LocalMove> derivedPieces(uint32_t flow) const;
  /// What must be kept or sent: wanted, and not made by the device itself.
  CellSet sentCells(uint32_t flow, WorkLimit *limit = nullptr) const;
  /// Index of the flow that an op's param and states name, or nullopt.
  std::optional<uint32_t> flowOf(MovementOpInterface op) const;
  std::vector<int64_t> shapeOf(uint32_t flow) const;
  std::vector<unsigned> numStates() const;
  std::vector<unsigned> numLeading() const;
};

/// Holdings of every place of a layout, in op order; places of ZeRO buckets
/// are evaluated together. Emits a diagnostic on failure.
mlir::FailureOr<llvm::DenseMap<mlir::Operation *, std::vector<Holding>>>
evaluateLayout(LayoutOp layout, Side side, mlir::SymbolTableCollection &tables);

/// All sendrecv pieces of a transition, in packing order: sorted by (wave,
/// source, destination), then by op and piece order. Emits a diagnostic and
/// fails on ops that name no flow.
mlir::FailureOr<std::vector<ScheduledMove>>
collectScheduled(const TransitionInfo &info);

/// Pieces of all `Op`s of the transition's body as local moves.
template <typename Op>
mlir::FailureOr<std::vector<LocalMove>>
collectLocals(const TransitionInfo &info);

/// Runs `fn` on each transition of the module.
mlir::LogicalResult
forEachTransition(mlir::ModuleOp module,
                  llvm::function_ref<mlir::LogicalResult(TransitionInfo &)> fn);

/// "@param[0:4)x[2:6)", for messages.
std::string describe(const FlowInfo &flow, const Box &box);

// Template definitions.

template <typename Op>
mlir::FailureOr<std::vector<LocalMove>>
collectLocals(const TransitionInfo &info) {
  std::vector<LocalMove> out;
  TransitionOp transition = info.op;
  for (auto op : transition.getOps<Op>()) {
    auto flow = info.flowOf(op);
    if (!flow)
      return op.emitOpError("names states that do not lie alike");
    int32_t before = 0;
    if constexpr (std::is_same_v<Op, CopyOp>)
      before = op.getBefore();
    op.getPieces().forEach([&](int64_t from, int64_t, const Box &box) {
      out.push_back({*flow, from, box, before});
    });
  }
  return out;
}

} // namespace dt

#endif // DT_PASSES_TRANSITIONINFO_H
