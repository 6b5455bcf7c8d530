//===- ShardIndex.cpp - Which shard of a device holds a box ---------------===//

#include "dt/Geometry/ShardIndex.h"

#include <algorithm>

using namespace dt;

namespace {

/// Shards that are asked one after the other.
constexpr size_t kFew = 16;

/// From the first to the last element that a shard stores, in every dim.
Box spanOf(const Shard &shard) {
  Box span(shard.rank());
  for (unsigned dim = 0; dim < shard.rank(); ++dim) {
    span[dim] = shard.dims[dim].front();
    for (Interval interval : shard.dims[dim])
      span[dim] = {std::min(span[dim].lo, interval.lo),
                   std::max(span[dim].hi, interval.hi)};
  }
  return span;
}

} // namespace

void ShardIndex::add(uint32_t flow, const std::vector<Holding> &holdings) {
  std::vector<uint32_t> withMany;
  for (const Holding &holding : holdings)
    for (int64_t device : holding.devices) {
      uint32_t place = index(device);
      if (place == perDevice.size())
        perDevice.emplace_back();
      PerDevice &entry = perDevice[place];
      if (flow >= entry.byFlow.size())
        entry.byFlow.resize(flow + 1);
      std::vector<uint32_t> &numbers = entry.byFlow[flow].numbers;
      numbers.push_back(entry.shards.size());
      entry.shards.push_back({flow, &holding.shard});
      if (numbers.size() == kFew + 1)
        withMany.push_back(place);
    }
  for (uint32_t place : withMany) {
    PerDevice &entry = perDevice[place];
    PerFlow &own = entry.byFlow[flow];
    std::vector<Box> spans;
    for (uint32_t number : own.numbers)
      spans.push_back(spanOf(*entry.shards[number].shard));
    own.spans = std::make_shared<const BoxTree>(std::move(spans));
  }
}

const ShardIndex::PerDevice *ShardIndex::at(int64_t device) const {
  std::optional<uint32_t> place = index.find(device);
  return place ? &perDevice[*place] : nullptr;
}

const std::vector<ShardIndex::Entry> &
ShardIndex::shardsOf(int64_t device) const {
  static const std::vector<Entry> none;
  const PerDevice *entry = at(device);
  return entry ? entry->shards : none;
}

std::vector<int64_t> ShardIndex::devices() const {
  std::vector<int64_t> out = index.all();
  std::sort(out.begin(), out.end());
  return out;
}

template <typename Fn>
void ShardIndex::forEachShard(uint32_t flow, int64_t device, const Box &box,
                              Fn fn) const {
  const PerDevice *entry = at(device);
  if (!entry || flow >= entry->byFlow.size())
    return;
  const PerFlow &own = entry->byFlow[flow];
  std::vector<uint32_t> near;
  if (own.spans) {
    own.spans->forEachContaining(
        box, [&](uint32_t i) { near.push_back(own.numbers[i]); });
    std::sort(near.begin(), near.end());
  }
  for (uint32_t number : own.spans ? near : own.numbers)
    if (fn(number, *entry->shards[number].shard))
      return;
}

std::optional<ShardIndex::Found> ShardIndex::find(uint32_t flow, int64_t device,
                                                  const Box &box) const {
  std::optional<Found> found;
  forEachShard(flow, device, box, [&](uint32_t number, const Shard &shard) {
    if (holds(shard, box))
      found = Found{number, *localView(shard, box)};
    return found.has_value();
  });
  return found;
}

std::optional<uint32_t> ShardIndex::findNumber(uint32_t flow, int64_t device,
                                               const Box &box) const {
  std::optional<uint32_t> found;
  forEachShard(flow, device, box, [&](uint32_t number, const Shard &shard) {
    if (holds(shard, box))
      found = number;
    return found.has_value();
  });
  return found;
}

const std::vector<uint32_t> &ShardIndex::numbersOf(uint32_t flow,
                                                   int64_t device) const {
  static const std::vector<uint32_t> none;
  const PerDevice *entry = at(device);
  return !entry || flow >= entry->byFlow.size() ? none
                                                : entry->byFlow[flow].numbers;
}
