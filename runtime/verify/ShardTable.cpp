//===- ShardTable.cpp - The shards of all devices -------------------------===//

#include "ShardTable.h"

#include <algorithm>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace dtrt {

size_t ShardTable::Hash::operator()(const Key &key) const {
  return XXH3_64bits(key.data(), key.size() * sizeof(int64_t));
}

void ShardTable::setKey(const ShardRecord &shard, Side side, Key &key) {
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

ShardTable::Row &ShardTable::rowOf(const ShardRecord &shard, Side side) {
  if (shard.family >= families.size())
    families.resize(shard.family + 1);
  Family &family = families[shard.family];
  setKey(shard, side, scratch);
  auto [at, isNew] =
      family.numbers.try_emplace(scratch, uint32_t(family.rows.size()));
  if (isNew)
    family.rows.push_back({shard, side, {}});
  return family.rows[at->second];
}

void ShardTable::add(const RankProgram &program) {
  for (Side side : {Side::Source, Side::Destination})
    for (const ShardRecord &shard :
         side == Side::Source ? program.source : program.destination) {
      rowOf(shard, side).devices.push_back(program.device);
      for (const std::vector<Interval> &intervals : shard.dims)
        numIntervals += intervals.size();
    }
}

void ShardTable::add(ShardTable &&other) {
  for (Family &family : other.families)
    for (Row &row : family.rows) {
      Devices &own = rowOf(row.shard, row.side).devices;
      own.insert(own.end(), row.devices.begin(), row.devices.end());
    }
  numIntervals += other.numIntervals;
  other.families.clear();
}

void ShardTable::sort() {
  for (Family &family : families)
    for (Row &row : family.rows) {
      std::sort(row.devices.begin(), row.devices.end());
      row.devices.erase(std::unique(row.devices.begin(), row.devices.end()),
                        row.devices.end());
    }
}

const std::vector<ShardTable::Row> &ShardTable::of(uint32_t family) const {
  static const std::vector<Row> none;
  return family < families.size() ? families[family].rows : none;
}

} // namespace dtrt
