//===- LayoutShards.h - Which shards devices have by layouts ----*- C++ -*-===//
//
// Whether programs that were not made here have the shards, and the ranks, that
// the layouts of a transition say. Makes no records of its own: most programs
// have them.
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_PASSES_LAYOUTSHARDS_H
#define DT_LIB_PASSES_LAYOUTSHARDS_H

#include "TransitionAnalysis.h"
#include "dt/Emit/Programs.h"

#include "llvm/ADT/DenseMap.h"

namespace dt {

class LayoutShards {
public:
  /// `info` must outlive this.
  explicit LayoutShards(const TransitionInfo &info);

  /// May be called from several threads at once.
  bool areThoseOf(const dtrt::RankProgram &program) const;

private:
  struct Entry {
    const PlanFlow *flow;
    const Shard *shard;
  };
  using Entries = llvm::DenseMap<int64_t, std::vector<Entry>>; // by device

  static void add(const PlanFlow &flow, const std::vector<Holding> &holdings,
                  Entries &out);
  static bool areIn(const std::vector<dtrt::ShardRecord> &records,
                    const Entries &entries, int64_t device);

  TransportPlan plan; // flows alone
  Worlds worlds;
  Entries source, destination;
  /// Where a shard of the source may be read as one of another flow.
  std::optional<ProgramBuilder> builder;
};

} // namespace dt

#endif // DT_LIB_PASSES_LAYOUTSHARDS_H
