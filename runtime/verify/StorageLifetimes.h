//===- StorageLifetimes.h - When storage comes and goes ---------*- C++ -*-===//

#ifndef DTRT_LIB_VERIFY_STORAGELIFETIMES_H
#define DTRT_LIB_VERIFY_STORAGELIFETIMES_H

#include "StateGroups.h"
#include "Steps.h"

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
  /// A member that has events: behind those of the member before, until `end`.
  /// Members have the numbers that count them row-major.
  struct Member {
    int64_t number = 0;
    size_t end = 0;
    uint32_t first = UINT32_MAX, last = 0; // instructions of its events
  };
  /// Those of one shard and group of states, by member and then in the order of
  /// their ranges. Looks are many: nothing of it is a piece of memory by
  /// itself.
  struct Events {
    struct Entry {
      int64_t member = 0;
      Event event;
    };
    using Run = std::pair<const Event *, const Event *>;

    Run of(size_t at) const {
      return {events.data() + (at > 0 ? members[at - 1].end : 0),
              events.data() + members[at].end};
    }
    /// The place of a member; that behind all where it has no events. `next`:
    /// where it may be, and then the place behind it: members are mostly looked
    /// for in order.
    size_t find(int64_t member, size_t &next) const;
    void add(int64_t member, const Event &event);
    /// All have been added; the others may be asked.
    void sort();

    std::vector<Entry> added; // none once they have been sorted
    std::vector<Member> members;
    std::vector<Event> events;

  private:
    void sortByMember();
  };
  /// What comes or goes of a shard, by the first state of each group.
  using OfShard = std::vector<std::pair<unsigned, Events>>;

  const StateGroups &togetherOn(Side side) const {
    return together[side == Side::Source];
  }
  Events &eventsOf(Side side, uint32_t shard, unsigned state);
  Status checkOnce(Side side, uint32_t shard, unsigned state,
                   const Events &list) const;
  template <typename Of, typename Fn>
  void forEachEvent(const Segment &box, Of isOf, Fn fn) const;

  const PlanCommon &common;
  const RankProgram &program;
  Steps &steps;
  StateGroups together[2]; // come or go together; destination, source
  /// Likewise, by shard; none where the program has no such instructions.
  std::vector<OfShard> events[2];
};

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_STORAGELIFETIMES_H
