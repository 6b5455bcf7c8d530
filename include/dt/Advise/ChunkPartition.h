//===- ChunkPartition.h - Layers to model chunks (VPP) ----------*- C++ -*-===//
//
// An interleaved pipeline deals layers out in stages x chunks blocks; block b
// lies on stage b mod stages. The time of a stage is the sum over its blocks,
// so the blocks of one stage hang together and a dynamic program over the chain
// no longer does: a mixed integer program (HiGHS) finds the optimum. It also
// takes side constraints that a chain cannot say. Where HiGHS is not built in,
// the blocks are cut by the chain's program alone and said to be inexact.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ADVISE_CHUNKPARTITION_H
#define DT_ADVISE_CHUNKPARTITION_H

#include "dt/Advise/StagePartition.h"

#include <utility>

namespace dt::advise {

struct ChunkProblem {
  /// Limits are those of whole stages; least and most layers too.
  StageProblem stages;
  int64_t chunks = 1; // model chunks per stage
  int64_t leastLayersPerBlock = 0;
  /// Side constraints: (layer, stage), and pairs of layers on one stage.
  std::vector<std::pair<int64_t, int64_t>> pinned;
  std::vector<std::pair<int64_t, int64_t>> together;
};

struct ChunkPartition {
  std::vector<int64_t> layers; // per block, in block order
  int64_t time = 0;
  int64_t movedBytes = 0;
  bool isExact = false;
};

bool check(const ChunkProblem &problem, std::string &error);
bool verify(const ChunkProblem &problem, const ChunkPartition &partition,
            std::string &error);

/// The fastest partition (slack 0), or of all within (1 + slack) of it the one
/// that moves the fewest bytes.
std::optional<ChunkPartition> partitionChunks(const ChunkProblem &problem,
                                              double slack, std::string &error);

/// Quickly and inexactly: every block of a stage bounded alike. Side
/// constraints are not looked at; nullopt where limits are not kept.
std::optional<ChunkPartition> spreadChunks(const ChunkProblem &problem,
                                           std::string &error);

/// Whether HiGHS is built in, and its version.
std::string milpSolver();

} // namespace dt::advise

#endif // DT_ADVISE_CHUNKPARTITION_H
