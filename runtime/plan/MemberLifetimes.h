//===- MemberLifetimes.h - When members come and go -------------*- C++ -*-===//

#ifndef DTRT_LIB_PLAN_MEMBERLIFETIMES_H
#define DTRT_LIB_PLAN_MEMBERLIFETIMES_H

#include "dtrt/PlanModel.h"
#include "dtrt/Status.h"

#include <map>

namespace dtrt {

/// The Create and Release instructions of a program, by shard. Boxes are kept,
/// not members: a damaged plan may name any number of those.
class MemberLifetimes {
public:
  /// The program must outlive this.
  explicit MemberLifetimes(const RankProgram &program);

  /// The instruction, before `instruction`, that released a member which the
  /// segment touches.
  std::optional<uint32_t> releasedBefore(const Segment &segment,
                                         uint32_t instruction) const;
  /// Likewise the one, after `instruction`, that creates it.
  std::optional<uint32_t> createdAfter(const Segment &segment,
                                       uint32_t instruction) const;
  /// Fails when a member is created or released twice.
  Status checkOnce(const PlanCommon &common) const;

private:
  struct Event {
    const Segment *segment = nullptr;
    uint32_t instruction = 0;
  };
  using Key = std::pair<Side, uint32_t>; // shard
  const std::vector<Event> *eventsOf(const Segment &segment) const;

  std::map<Key, std::vector<Event>> events;
};

} // namespace dtrt

#endif // DTRT_LIB_PLAN_MEMBERLIFETIMES_H
