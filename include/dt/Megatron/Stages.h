//===- Stages.h - Which pipeline stage holds a layer ------------*- C++ -*-===//

#ifndef DT_MEGATRON_STAGES_H
#define DT_MEGATRON_STAGES_H

#include <cstdint>
#include <string>
#include <vector>

namespace dt::megatron {

/// Layers are dealt out in pp x vpp blocks; block b is model chunk b / pp of
/// stage b % pp, as Megatron-Core interleaves them.
///   8 layers, pp 2, vpp 2: stage 0 [0,1][4,5], stage 1 [2,3][6,7]
struct StageTable {
  std::vector<int64_t> stageOf; // per layer
  std::vector<int64_t> chunkOf; // per layer
};

/// How a pipeline deals out layers: stages, model chunks of each, and layers of
/// each stage, or of each block, where they are not alike ("pp_layers").
struct PipelineSizes {
  int64_t pp = 1, vpp = 1;
  std::vector<int64_t> layers;
};

/// Throws a json::JsonError when the layers do not divide evenly and none are
/// given, or when those that are have the wrong count or sum. `path` names the
/// layout in errors.
StageTable buildStages(const PipelineSizes &sizes, int64_t layers,
                       const std::string &path);

} // namespace dt::megatron

#endif // DT_MEGATRON_STAGES_H
