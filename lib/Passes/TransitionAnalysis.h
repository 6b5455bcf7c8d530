//===- TransitionAnalysis.h - Transitions as Geometry structs ---*- C++ -*-===//
//
// The layouts of a transition are read once into plain structs; passes work on
// those and write ops back: attributes are for the IR's edge. Below the layout
// level no pass changes a layout, so all of them preserve this analysis.
//
//===----------------------------------------------------------------------===//

#ifndef DT_PASSES_TRANSITIONANALYSIS_H
#define DT_PASSES_TRANSITIONANALYSIS_H

#include "dt/Cost/Cluster.h"
#include "dt/Dialect/Ops.h"
#include "dt/Emit/Programs.h"
#include "dt/Geometry/ShardIndex.h"
#include "dt/Routing/Moves.h"
#include "dt/Scheduling/StoredFlows.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/AnalysisManager.h"
#include "mlir/Pass/Pass.h"

#include <memory>
#include <mutex>

namespace dt {

/// The states of one param that have the same shards in both layouts.
struct FlowInfo {
  ParamOp param;
  uint64_t states = 0;        // mask over the param's states
  mlir::ArrayAttr stateNames; // null: all of them
  /// What its elements are read from, and where they end; the latter is empty
  /// for a state that the destination drops.
  std::vector<Holding> source, destination;
  /// Index of the flow that elements may be derived from on their own device.
  std::optional<uint32_t> derivedFrom;

  StatesAttr allStates() const { return ParamOp(param).getStates(); }
};

/// A tensor of one side that is a view of a param, or has another name.
struct SideTensor {
  Side side = Side::Source;
  ParamOp param;
  TensorAttr tensor;
};

/// What both layouts of a transition say of ranks, as its flows have it: it is
/// the same wherever the ranks are.
struct LayoutsByRank {
  struct Flow {
    std::vector<Holding> source, destination; // device = rank
  };
  std::vector<Flow> flows;
};

/// An analysis that knows nothing of itself: who has evaluated the layouts of
/// such a module says so here.
struct KnownLayouts {
  explicit KnownLayouts(mlir::Operation *) {}

  std::shared_ptr<const LayoutsByRank> byRank; // null: nothing is known
};

/// One transition with both of its layouts evaluated.
class TransitionInfo {
public:
  /// Evaluates both layouts, unless what they say of ranks is known. Emits a
  /// diagnostic on failure, and where the layouts or the ops inside hold more
  /// than the limits (Limits.h).
  static mlir::FailureOr<TransitionInfo>
  get(TransitionOp op, mlir::SymbolTableCollection &tables,
      const LayoutsByRank *known = nullptr);

  /// The same of devices that have nothing: for who looks at the shards of a
  /// few, and fills these in.
  TransitionInfo withoutShards() const;

  TransitionOp op() const { return transition; }
  LayoutOp sourceLayout() const { return source; }
  LayoutOp destinationLayout() const { return destination; }

  std::vector<ParamOp> params;
  std::vector<FlowInfo> flows;
  std::vector<SideTensor> tensors; // numbered as Shard::view has them
  Cluster cluster;
  /// Bytes per device, without those that compression takes.
  int64_t stagingLimit = 0;
  int64_t leastPage = 0;   // that the request asks for
  int64_t deviceLimit = 0; // 0: none
  /// Whether what GPUs and NCCL have for the plan counts on a device.
  bool overNccl = false;
  dtrt::Compression compression;
  int64_t compressionBytes() const {
    return int64_t(compression.bytesPerDevice(cluster));
  }
  MemoryMode mode = MemoryMode::Rollback;
  Granularity granularity = Granularity::Page;
  bool isFlat() const { return mode == MemoryMode::Flat; }
  /// Flat mode: storages come and go whole.
  bool isByTensor() const { return granularity == Granularity::Tensor; }
  /// Flat mode: bytes of the pages in which storage comes and goes.
  int64_t pageBytes() const;

  /// All flows with bytes per element and no cells.
  const std::vector<Flow> &flowWidths() const { return widths; }
  /// All flows with cells. What a device makes from another flow is not part
  /// of the destination. Computed when first asked for; may be asked for by
  /// several threads. Fails, with a diagnostic the first time, where the cells
  /// have more pieces than the limit.
  mlir::FailureOr<const std::vector<Flow> *> flowCells() const;
  /// What devices make from another state that they get anyway, because they
  /// do not hold it themselves.
  std::vector<LocalMove> derivedPieces(uint32_t flow) const;
  /// Index of the flow that an op's param and states name, or nullopt.
  std::optional<uint32_t> flowOf(MovementOpInterface op) const;
  std::vector<int64_t> shapeOf(uint32_t flow) const;
  /// The destination has all elements of every state that it has; of a partial
  /// param it may lack some. Emits a diagnostic on failure.
  mlir::LogicalResult verifyComplete() const;
  std::vector<unsigned> numStates() const;
  std::vector<unsigned> numLeading() const;
  /// How flows lie in memory; this must outlive it.
  StoredFlows stored() const;

private:
  /// What must be kept or sent: wanted, and not made by the device itself.
  CellSet sentCells(uint32_t flow, WorkLimit *limit) const;
  mlir::LogicalResult computeCells(std::vector<Flow> &out) const;
  void indexFlows();

  TransitionOp transition;
  LayoutOp source, destination;
  std::vector<Flow> widths;
  /// By param and mask of states.
  llvm::DenseMap<std::pair<mlir::Attribute, uint64_t>, uint32_t> flowIndex;
  llvm::DenseMap<mlir::Attribute, StatesAttr> statesOf; // by param
  /// Behind a pointer, so that the struct can be moved.
  struct Cells {
    std::once_flag once;
    bool areWithinLimits = false;
    std::vector<Flow> flows;
  };
  std::unique_ptr<Cells> cells = std::make_unique<Cells>();
};

/// All transitions of a module. An analysis: computed once, const, preserved by
/// every pass that leaves the layouts alone.
class TransitionAnalysis {
public:
  /// Emits a diagnostic where a layout is wrong.
  explicit TransitionAnalysis(mlir::Operation *module)
      : TransitionAnalysis(module, nullptr) {}
  TransitionAnalysis(mlir::Operation *module, mlir::AnalysisManager &analyses);

  /// Fails where the layouts of a transition are wrong, and where `fn` fails.
  mlir::LogicalResult forEach(
      llvm::function_ref<mlir::LogicalResult(const TransitionInfo &)> fn) const;

private:
  TransitionAnalysis(mlir::Operation *module, const LayoutsByRank *known);

  std::vector<TransitionInfo> transitions;
  bool areRight = true;
};

/// What the layouts of a module with one transition say of ranks, where each
/// is the device of its number; null where tensors of the sides are views.
std::shared_ptr<const LayoutsByRank> layoutsByRank(const TransitionInfo &info);

/// Says what is known of the layouts of a module.
std::unique_ptr<mlir::Pass>
createKnowLayouts(std::shared_ptr<const LayoutsByRank> known);

/// Holdings of every place of a layout, in op order; places of ZeRO buckets
/// are evaluated together. Emits a diagnostic on failure.
mlir::FailureOr<llvm::DenseMap<mlir::Operation *, std::vector<Holding>>>
evaluateLayout(LayoutOp layout, Side side, mlir::SymbolTableCollection &tables);

/// The names of the states in a mask; null where they are all of the param's.
mlir::ArrayAttr stateNames(ParamOp param, uint64_t states);

/// Rank of each device in both worlds.
Worlds worldsOf(const TransitionInfo &info);
/// Device of each rank of a layout.
std::vector<int64_t> devicesOf(LayoutOp layout,
                               mlir::SymbolTableCollection &tables);

/// Appends a row of an op of pieces: (from, to, offset..., size...).
void appendRow(std::vector<int64_t> &rows, int64_t from, int64_t to,
               const Box &box);

/// "@param[0:4)x[2:6)", for messages.
std::string describe(const FlowInfo &flow, const Box &box);

} // namespace dt

#endif // DT_PASSES_TRANSITIONANALYSIS_H
