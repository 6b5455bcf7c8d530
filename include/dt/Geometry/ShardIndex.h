//===- ShardIndex.h - Which shard of a device holds a box -------*- C++ -*-===//

#ifndef DT_GEOMETRY_SHARDINDEX_H
#define DT_GEOMETRY_SHARDINDEX_H

#include "dt/Geometry/BoxTree.h"
#include "dt/Geometry/Placement.h"
#include "dtrt/types/DeviceIndex.h"

#include <memory>
#include <vector>

namespace dt {

/// The shards of every device on one side of a transition. Per device they
/// are numbered in the order in which they were added: the numbers that the
/// plan's segments use.
class ShardIndex {
public:
  struct Entry {
    uint32_t flow = 0;
    const Shard *shard = nullptr;
  };
  struct Found {
    uint32_t shard = 0; // number on its device
    LocalView view;
  };

  /// Adds all holdings of a flow. The holdings must outlive the index.
  void add(uint32_t flow, const std::vector<Holding> &holdings);

  /// All shards of a device, by number; empty for an unknown device.
  const std::vector<Entry> &shardsOf(int64_t device) const;
  std::vector<int64_t> devices() const; // ascending

  /// The shard of `device` that holds all of `box`; nullopt when none does.
  std::optional<Found> find(uint32_t flow, int64_t device,
                            const Box &box) const;
  /// Numbers, on their device, of the shards of a flow there, ascending.
  const std::vector<uint32_t> &numbersOf(uint32_t flow, int64_t device) const;
  /// The same as `find`, without the view.
  std::optional<uint32_t> findNumber(uint32_t flow, int64_t device,
                                     const Box &box) const;

private:
  /// A shard with what most lookups ask of it, in one place of memory.
  struct Held {
    Held(uint32_t number, const Shard &shard);
    bool holds(const Box &box) const;

    const Shard *shard;
    Box span; // from its first to its last element, in every dim
    Interval range = {0, INT64_MAX};
    uint32_t number;
    unsigned numLeading;
    bool isOneBox; // all of its span, or a range of that, row by row
  };
  /// The shards of one flow on one device: one after the other, or by what they
  /// span where there are many.
  struct PerFlow {
    std::vector<Held> shards;
    std::vector<uint32_t> numbers;
    std::shared_ptr<const BoxTree> spans;
  };
  struct PerDevice {
    std::vector<Entry> shards;
    std::vector<PerFlow> byFlow;
  };
  /// The first by number that holds the box.
  const Held *findHeld(uint32_t flow, int64_t device, const Box &box) const;

  /// Null for an unknown device.
  const PerDevice *at(int64_t device) const;

  dtrt::DeviceIndex index;
  std::vector<PerDevice> perDevice; // as the index numbers them
};

} // namespace dt

#endif // DT_GEOMETRY_SHARDINDEX_H
