//===- OptimizerShards.h - ZeRO-1 shards of a whole layout ------*- C++ -*-===//
//
// Megatron-Core's distributed optimizer cuts no tensor by itself: it lays all
// local parameters of a model-parallel rank into buffers and cuts those
// (Buckets.h). So the shards of one param depend on all params of the layout.
//
//===----------------------------------------------------------------------===//

#ifndef DT_MEGATRON_OPTIMIZERSHARDS_H
#define DT_MEGATRON_OPTIMIZERSHARDS_H

#include "dt/Geometry/Placement.h"
#include "dt/Geometry/Sequence.h"

namespace dt {

/// The mesh axis whose coordinate is the pipeline stage.
constexpr const char *kPipelineAxis = "pp";

/// One param (a family) whose optimizer states live in bucketed buffers.
struct BucketedParam {
  std::vector<int64_t> shape; // leading dims first
  unsigned numLeading = 0;
  Placement placement; // before ZeRO cuts
  const Mesh *mesh = nullptr;
  /// Axes of `mesh` whose ranks share a buffer, slowest first.
  std::vector<std::string> axes;
  /// Registration order of member (i, j, ...): base + offsets[0].at(i) + ...
  int64_t orderBase = 0;
  std::vector<Sequence> orderOffsets;
  bool sharedEmbedding = false;
  /// Params with different numbers never share a buffer (dense or expert,
  /// parameter dtype).
  uint32_t buffer = 0;
};

/// The holdings of every param, in the order given, each shard with the flat
/// range of the local tensor that its device owns. Buffers are formed per
/// model-parallel rank, model chunk (see AxisRestriction) and `buffer`. Those
/// of the first chunk of the first stage are cut into buckets of `bucketSize`
/// elements, every other buffer is one bucket.
/// On a placement that does not fit returns nullopt and sets `error`, and
/// `culprit` to the param's index.
std::optional<std::vector<std::vector<Holding>>>
evaluateBucketed(const std::vector<BucketedParam> &params, int64_t bucketSize,
                 size_t &culprit, std::string &error);

} // namespace dt

#endif // DT_MEGATRON_OPTIMIZERSHARDS_H
