//===- Stages.cpp - Which pipeline stage holds a layer --------------------===//

#include "dt/Megatron/Stages.h"

#include "dt/Json/Json.h"

namespace dt::megatron {

using json::fail;

namespace {

std::string count(int64_t n, const char *noun) {
  return std::to_string(n) + " " + noun;
}

std::vector<int64_t> evenBlocks(const PipelineSizes &sizes, int64_t layers,
                                const std::string &path) {
  int64_t blocks = sizes.pp * sizes.vpp;
  if (layers % blocks != 0) {
    std::string by = "pp " + std::to_string(sizes.pp);
    if (sizes.vpp > 1)
      by += " x vpp " + std::to_string(sizes.vpp);
    fail(path + ": " + count(layers, "layers") + " do not divide by " + by +
         "; give the layers of each stage in pp_layers");
  }
  return std::vector<int64_t>(blocks, layers / blocks);
}

/// One entry per stage, which its chunks share evenly, or one per block.
std::vector<int64_t> givenBlocks(const PipelineSizes &sizes, int64_t layers,
                                 const std::string &path) {
  int64_t entries = sizes.layers.size();
  if (entries != sizes.pp && entries != sizes.pp * sizes.vpp)
    fail(path + ".pp_layers has " + count(entries, "entries") + ", but pp is " +
         std::to_string(sizes.pp) + " and vpp " + std::to_string(sizes.vpp));
  int64_t sum = 0;
  for (int64_t size : sizes.layers)
    if (__builtin_add_overflow(sum, size, &sum))
      sum = INT64_MAX;
  if (sum != layers)
    fail(path + ".pp_layers adds up to " + std::to_string(sum) +
         ", but the model has " + count(layers, "layers"));
  if (entries == sizes.pp * sizes.vpp)
    return sizes.layers;
  std::vector<int64_t> blocks;
  for (int64_t chunk = 0; chunk < sizes.vpp; ++chunk)
    for (int64_t size : sizes.layers)
      blocks.push_back(size / sizes.vpp);
  for (int64_t size : sizes.layers)
    if (size % sizes.vpp != 0)
      fail(path + ".pp_layers gives a stage " + count(size, "layers") +
           ", which do not divide by vpp " + std::to_string(sizes.vpp));
  return blocks;
}

} // namespace

StageTable buildStages(const PipelineSizes &sizes, int64_t layers,
                       const std::string &path) {
  std::vector<int64_t> blocks = sizes.layers.empty()
                                    ? evenBlocks(sizes, layers, path)
                                    : givenBlocks(sizes, layers, path);
  StageTable table;
  for (size_t block = 0; block < blocks.size(); ++block)
    for (int64_t i = 0; i < blocks[block]; ++i) {
      table.stageOf.push_back(block % sizes.pp);
      table.chunkOf.push_back(block / sizes.pp);
    }
  return table;
}

} // namespace dt::megatron
