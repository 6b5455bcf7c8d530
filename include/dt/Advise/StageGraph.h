//===- StageGraph.h - The work of a pipelined step as a graph ---*- C++ -*-===//
//
// Forward and backward of every micro-batch on every stage, in the order that
// Megatron-Core runs them (one forward, one backward; interleaved where stages
// have several chunks). The longest path is the time of the step; what is not
// on it may run slower for nothing, which is what energy advice is about: the
// graph is what lowtime (Perseus) takes.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ADVISE_STAGEGRAPH_H
#define DT_ADVISE_STAGEGRAPH_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dt::advise {

/// Seconds of one micro-batch, [stage][chunk].
struct PipelineTimes {
  int64_t microBatches = 1;
  std::vector<std::vector<double>> forward, backward;
  double transfer = 0; // of activations to the next stage
};

struct StageOperation {
  bool isBackward = false;
  int32_t stage = 0;
  int32_t chunk = 0;
  int32_t microBatch = 0;
  double seconds = 0;
};

struct StageEdge {
  int32_t from = 0, to = 0;
  double delay = 0; // of what is sent between stages
};

/// Edges lead from lower to higher positions of a topological order, which is
/// the order of `operations`.
struct StageGraph {
  std::vector<StageOperation> operations;
  std::vector<StageEdge> edges;
};

/// Fails on times that do not fit together, on interleaved pipelines whose
/// micro-batches do not divide by the stages, and above 4,000,000 operations.
std::optional<StageGraph> buildStageGraph(const PipelineTimes &times,
                                          std::string &error);

/// Length of the longest path where operation i runs factor[i] times slower
/// (empty: 1).
double makespan(const StageGraph &graph,
                const std::vector<double> &factor = {});

/// Per operation how many times slower it may run, at most `most`, so that the
/// step takes no longer. The first micro-batch fills the pipeline and the last
/// drains it: what they run on every stage has no time to lose. All other
/// operations of a stage get one factor, the largest that is free; stages with
/// the least work choose first.
std::vector<double> freeSlowdowns(const StageGraph &graph, double most);

} // namespace dt::advise

#endif // DT_ADVISE_STAGEGRAPH_H
