//===- Batches.h - Micro-batches, weights and numbers of a step -*- C++ -*-===//
//
// When replicas are lost or unequal the global batch stays what it was: its
// micro-batches are dealt out anew so that the slowest replica ends as early as
// can be, each replica's gradient counts by its share, and all that depends on
// a position (learning rate, dropout) follows the samples, not the ranks.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ADVISE_BATCHES_H
#define DT_ADVISE_BATCHES_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dt::advise {

struct BatchProblem {
  int64_t globalBatch = 1; // samples of a step
  int64_t microBatch = 1;  // samples that run at once
  /// Per replica, time of one micro-batch in any unit. At least 1.
  std::vector<int64_t> slowness;
  /// Micro-batch counts must divide by this (stages, for interleaved ones).
  int64_t multiple = 1;
};

/// What one replica does in a step. Sample i of the step is number
/// `consumed + i` of the run, whatever the layout.
struct ReplicaShare {
  int64_t microBatches = 0;
  int64_t firstMicroBatch = 0; // in the order of the global batch
  int64_t samples = 0;
  /// Its mean gradient counts samples / globalBatch; weights sum to 1.
  double weight = 0;
};

/// The deal with the earliest slowest replica, micro-batches in order; exact.
std::optional<std::vector<ReplicaShare>>
dealBatches(const BatchProblem &problem, std::string &error);

/// Number of the random stream of one micro-batch in one layer on one tensor-
/// parallel coordinate: a function of what is computed and not of who computes
/// it, so that a step under another layout draws the same numbers. `tp` counts
/// only where dropout acts on what tensor parallelism cuts.
uint64_t randomStream(uint64_t seed, int64_t sample, int64_t layer, int64_t tp);

} // namespace dt::advise

#endif // DT_ADVISE_BATCHES_H
