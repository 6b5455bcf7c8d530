//===- StorageLifetimes.h - When storage comes and goes ---------*- C++ -*-===//

#ifndef DTRT_LIB_VERIFY_STORAGELIFETIMES_H
#define DTRT_LIB_VERIFY_STORAGELIFETIMES_H

#include "Steps.h"

#include <map>

namespace dtrt {

/// The Create and Release instructions of a program: ranges of storage, by
/// shard, state and member.
class StorageLifetimes {
public:
  /// All must outlive this. Looks count as steps.
  StorageLifetimes(const PlanCommon &common, const RankProgram &program,
                   Steps &steps);

  /// The instruction, before `instruction`, that released storage between the
  /// first and the last element that the box touches.
  std::optional<uint32_t> releasedBefore(const Segment &box,
                                         uint32_t instruction) const;
  /// Likewise the one, after `instruction`, that creates it.
  std::optional<uint32_t> createdAfter(const Segment &box,
                                       uint32_t instruction) const;
  /// Fails when storage is created or released twice.
  Status checkOnce() const;

private:
  struct Event {
    Interval range;
    uint32_t instruction = 0;
  };
  /// By member, in the order of their ranges.
  using Events = std::map<std::vector<int64_t>, std::vector<Event>>;
  using Key = std::tuple<Side, uint32_t, unsigned>; // shard, state

  template <typename Fn> void forEachEvent(const Segment &box, Fn fn) const;

  const PlanCommon &common;
  const RankProgram &program;
  Steps &steps;
  std::map<Key, Events> events;
};

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_STORAGELIFETIMES_H
