//===- ShardNumbers.cpp - Shards by number --------------------------------===//

#include "ShardNumbers.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace dtrt {

size_t ShardNumbers::Hash::operator()(const Key &key) const {
  return XXH3_64bits(key.data(), key.size() * sizeof(int64_t));
}

void ShardNumbers::setKey(const ShardRecord &shard, Side side, Key &key) {
  key = {int64_t(side), int64_t(shard.states), shard.flat};
  if (shard.flat)
    key.insert(key.end(), {shard.range.lo, shard.range.hi});
  for (const std::vector<Interval> &intervals : shard.dims) {
    key.push_back(int64_t(intervals.size()));
    for (const Interval &interval : intervals)
      key.insert(key.end(), {interval.lo, interval.hi});
  }
  if (!shard.order.isIdentity())
    key.push_back(int64_t(shard.order.bits()));
}

uint32_t ShardNumbers::numberOf(const ShardRecord &shard, Side side) {
  if (shard.family >= families.size())
    families.resize(size_t(shard.family) + 1);
  Family &family = families[shard.family];
  setKey(shard, side, scratch);
  auto [at, isNew] =
      family.numbers.try_emplace(scratch, uint32_t(family.entries.size()));
  if (!isNew)
    return at->second;
  Entry entry = {shard, side};
  for (const std::vector<Interval> &intervals : shard.dims)
    entry.intervals += intervals.size();
  // Its key has what it has, and both have a few words beside.
  numBytes += 2 * scratch.size() * sizeof(int64_t) + sizeof(Entry);
  family.entries.push_back(std::move(entry));
  return at->second;
}

} // namespace dtrt
