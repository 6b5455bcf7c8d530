//===- Stages.h - Which pipeline stage holds a layer ------------*- C++ -*-===//

#ifndef DT_LIB_REQUEST_STAGES_H
#define DT_LIB_REQUEST_STAGES_H

#include "ParallelSizes.h"

namespace dt::request {

/// Layers are dealt out in pp x vpp blocks; block b is model chunk b / pp of
/// stage b % pp, as Megatron-Core interleaves them.
///   8 layers, pp 2, vpp 2: stage 0 [0,1][4,5], stage 1 [2,3][6,7]
struct StageTable {
  std::vector<int64_t> stageOf; // per layer
  std::vector<int64_t> chunkOf; // per layer
};

/// Fails when the layers do not divide evenly and `pp_layers` is not given, or
/// when it has the wrong count or sum.
StageTable buildStages(const ParallelSizes &sizes, int64_t layers,
                       const std::string &path);

} // namespace dt::request

#endif // DT_LIB_REQUEST_STAGES_H
