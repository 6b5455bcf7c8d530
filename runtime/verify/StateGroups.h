//===- StateGroups.h - States that are always named together ----*- C++ -*-===//

#ifndef DTRT_LIB_VERIFY_STATEGROUPS_H
#define DTRT_LIB_VERIFY_STATEGROUPS_H

#include "dtrt/format/PlanModel.h"

namespace dtrt {

/// States of each shard that all segments that are added name together. What
/// such segments do to one state of a group they do to all of it, so it is
/// enough to look at one.
class StateGroups {
public:
  explicit StateGroups(const std::vector<ShardRecord> &shards);

  void add(const Segment &segment);

  /// Of each group that has any of `states`, its lowest state. A state that the
  /// shard does not have stands for itself.
  uint64_t firstOf(uint32_t shard, uint64_t states) const;
  /// All states of the group of one.
  uint64_t groupOf(uint32_t shard, unsigned state) const;

private:
  std::vector<uint64_t> all;                 // by shard
  std::vector<std::vector<uint64_t>> groups; // likewise
};

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_STATEGROUPS_H
