//===- StorageLifetimes.h - When storage comes and goes ---------*- C++ -*-===//

#ifndef DTRT_LIB_PLAN_STORAGELIFETIMES_H
#define DTRT_LIB_PLAN_STORAGELIFETIMES_H

#include "dtrt/PlanModel.h"
#include "dtrt/Status.h"

#include <map>

namespace dtrt {

/// The Create and Release instructions of a program: ranges of storage, by
/// shard, state and member. Segments of many members are kept as they are: a
/// damaged plan may name any number of members.
class StorageLifetimes {
public:
  /// Both must outlive this.
  StorageLifetimes(const PlanCommon &common, const RankProgram &program);

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
    Range range;
    uint32_t instruction = 0;
    const Segment *segment = nullptr;
  };
  struct Events {
    std::vector<Event> all;
    std::map<std::vector<int64_t>, std::vector<Event>> ofMember; // by range
    std::vector<Event> ofMany; // segments of very many members
  };
  using Key = std::tuple<Side, uint32_t, unsigned>; // shard, state

  template <typename Fn> void forEachEvent(const Segment &box, Fn fn) const;
  bool sharesMembers(const Segment &a, const Segment &b) const;

  const PlanCommon &common;
  const RankProgram &program;
  std::map<Key, Events> events;
};

} // namespace dtrt

#endif // DTRT_LIB_PLAN_STORAGELIFETIMES_H
