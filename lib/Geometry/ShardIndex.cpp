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
    span[dim] = shard.dims[dim].empty() ? Interval() : shard.dims[dim].front();
    for (Interval interval : shard.dims[dim])
      span[dim] = {std::min(span[dim].lo, interval.lo),
                   std::max(span[dim].hi, interval.hi)};
  }
  return span;
}

/// Whether a row-major position in the span is the one in a member's tensor.
bool isRowMajorBox(const Shard &shard) {
  return shard.order.isIdentity() &&
         std::all_of(shard.dims.begin(), shard.dims.end(),
                     [](const auto &held) { return held.size() == 1; });
}

} // namespace

ShardIndex::Held::Held(uint32_t number, const Shard &shard)
    : shard(&shard), span(spanOf(shard)), number(number),
      numLeading(shard.numLeading), isOneBox(isRowMajorBox(shard)) {
  if (shard.range)
    range = *shard.range;
}

/// As localSpan() finds it, of what is here already.
bool ShardIndex::Held::holds(const Box &box) const {
  if (box.rank() != span.rank())
    return false;
  for (unsigned dim = 0; dim < span.rank(); ++dim)
    if (box[dim].empty() || !span[dim].contains(box[dim]))
      return false;
  if (!isOneBox)
    return dt::holds(*shard, box);
  int64_t first = 0, last = 0, stride = 1;
  for (unsigned dim = span.rank(); dim-- > numLeading;) {
    first += (box[dim].lo - span[dim].lo) * stride;
    last += (box[dim].hi - 1 - span[dim].lo) * stride;
    stride *= span[dim].size();
  }
  return range.lo <= first && last < range.hi;
}

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
      PerFlow &own = entry.byFlow[flow];
      auto number = uint32_t(entry.shards.size());
      own.shards.emplace_back(number, holding.shard);
      own.numbers.push_back(number);
      entry.shards.push_back({flow, &holding.shard});
      if (own.shards.size() == kFew + 1)
        withMany.push_back(place);
    }
  for (uint32_t place : withMany) {
    PerFlow &own = perDevice[place].byFlow[flow];
    std::vector<Box> spans;
    for (const Held &held : own.shards)
      spans.push_back(held.span);
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

const ShardIndex::Held *ShardIndex::findHeld(uint32_t flow, int64_t device,
                                             const Box &box) const {
  const PerDevice *entry = at(device);
  if (!entry || flow >= entry->byFlow.size())
    return nullptr;
  const PerFlow &own = entry->byFlow[flow];
  const Held *found = nullptr;
  if (own.spans) {
    own.spans->forEachContaining(box, [&](uint32_t i) {
      const Held &held = own.shards[i];
      if ((!found || held.number < found->number) && held.holds(box))
        found = &held;
    });
    return found;
  }
  for (const Held &held : own.shards)
    if (held.holds(box))
      return &held;
  return nullptr;
}

std::optional<ShardIndex::Found> ShardIndex::find(uint32_t flow, int64_t device,
                                                  const Box &box) const {
  const Held *held = findHeld(flow, device, box);
  return held ? std::make_optional(
                    Found{held->number, *localView(*held->shard, box)})
              : std::nullopt;
}

std::optional<uint32_t> ShardIndex::findNumber(uint32_t flow, int64_t device,
                                               const Box &box) const {
  const Held *held = findHeld(flow, device, box);
  return held ? std::make_optional(held->number) : std::nullopt;
}

const std::vector<uint32_t> &ShardIndex::numbersOf(uint32_t flow,
                                                   int64_t device) const {
  static const std::vector<uint32_t> none;
  const PerDevice *entry = at(device);
  return !entry || flow >= entry->byFlow.size() ? none
                                                : entry->byFlow[flow].numbers;
}
