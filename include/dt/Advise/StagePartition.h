//===- StagePartition.h - Layers to pipeline stages, exactly ----*- C++ -*-===//
//
// Cuts a chain of layers into pipeline stages so that the slowest stage is as
// fast as can be: a dynamic program in integers, so the answer is the optimum
// whatever the scale of the times. Of all partitions within a slack of it a
// second program takes the one that brings the fewest bytes to other devices.
//
// Embeddings, loss and prediction layers stay on the stage that they belong to:
// they are the fixed work and bytes of that stage.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ADVISE_STAGEPARTITION_H
#define DT_ADVISE_STAGEPARTITION_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dt::advise {

/// What a stage has besides its layers, and what it may hold.
struct StageLimits {
  int64_t fixedWork = 0;
  /// Time of one unit of work; larger is slower. At least 1.
  int64_t slowness = 1;
  int64_t fixedBytes = 0;
  /// Micro-batches whose activations the stage keeps at once.
  int64_t inFlight = 1;
  int64_t capacity = INT64_MAX; // bytes
  int64_t leastLayers = 0;
  int64_t mostLayers = INT64_MAX;
};

struct StageProblem {
  std::vector<int64_t> work;            // per layer
  std::vector<int64_t> layerBytes;      // per layer; empty: none
  std::vector<int64_t> activationBytes; // per layer and micro-batch, or empty
  std::vector<StageLimits> stages;
  /// moveBytes[stage][layer]: what comes to the stage's devices when the layer
  /// lies there. Empty: nothing counts.
  std::vector<std::vector<int64_t>> moveBytes;
  /// Layers after which there is no cut, in any order.
  std::vector<int64_t> noCutAfter;
};

struct StagePartition {
  std::vector<int64_t> layers; // per stage
  int64_t time = 0;            // of the slowest stage: slowness x work
  int64_t movedBytes = 0;
};

/// Sizes that fit together, and sums that fit 62 bits; else an error.
bool check(const StageProblem &problem, std::string &error);
/// Whether the partition keeps every limit and says its own time and bytes.
bool verify(const StageProblem &problem, const StagePartition &partition,
            std::string &error);

/// The partition with the fastest slowest stage; of equals the one that moves
/// the fewest bytes. An error says why there is none.
std::optional<StagePartition> fastestPartition(const StageProblem &problem,
                                               std::string &error);

/// Of all partitions whose slowest stage takes at most (1 + slack) times the
/// optimum, the one that moves the fewest bytes; of equals the fastest.
std::optional<StagePartition>
nearestPartition(const StageProblem &problem, double slack, std::string &error);

/// As many layers on each stage as can be, the first stages one more: what
/// trainers do that count layers. Limits are not looked at.
StagePartition evenPartition(const StageProblem &problem);

/// Times in seconds as whole numbers of a unit that is the sum over 2^40: a
/// partition of them is exact to 1e-12 of the sum. `unit` becomes seconds per
/// whole number.
std::vector<int64_t> quantize(const std::vector<double> &seconds, double &unit);

} // namespace dt::advise

#endif // DT_ADVISE_STAGEPARTITION_H
