//===- ShardTable.cpp - The shards of all devices -------------------------===//

#include "ShardTable.h"

#include <algorithm>

namespace dtrt {

Devices &ShardTable::devicesOf(Number shard) {
  auto [family, number] = shard;
  if (family >= devices.size())
    devices.resize(size_t(family) + 1);
  if (number >= devices[family].size())
    devices[family].resize(size_t(number) + 1);
  return devices[family][number];
}

std::vector<ShardTable::Number>
ShardTable::numbersOf(const RankProgram &program) {
  if (!numbers)
    numbers = std::make_shared<ShardNumbers>();
  std::vector<Number> out;
  out.reserve(program.source.size() + program.destination.size());
  for (const ShardRecord &shard : program.source)
    out.emplace_back(shard.family, numbers->numberOf(shard, Side::Source));
  for (const ShardRecord &shard : program.destination)
    out.emplace_back(shard.family, numbers->numberOf(shard, Side::Destination));
  return out;
}

void ShardTable::add(uint32_t device, const std::vector<Number> &shards) {
  for (Number shard : shards) {
    devicesOf(shard).push_back(device);
    numIntervals += numbers->get(shard.first, shard.second).intervals;
  }
}

void ShardTable::add(ShardTable &&other) {
  if (!numbers) {
    *this = std::move(other);
    return;
  }
  for (uint32_t family = 0; family < other.devices.size(); ++family)
    for (uint32_t i = 0; i < other.devices[family].size(); ++i) {
      const Devices &more = other.devices[family][i];
      if (more.empty())
        continue;
      const ShardNumbers::Entry &entry = other.numbers->get(family, i);
      Devices &own =
          devicesOf({family, numbers->numberOf(entry.shard, entry.side)});
      own.insert(own.end(), more.begin(), more.end());
    }
  numIntervals += other.numIntervals;
  other.devices.clear();
}

void ShardTable::sort() {
  rows.resize(devices.size());
  for (uint32_t family = 0; family < devices.size(); ++family)
    for (uint32_t i = 0; i < devices[family].size(); ++i) {
      Devices &own = devices[family][i];
      if (own.empty())
        continue;
      std::sort(own.begin(), own.end());
      own.erase(std::unique(own.begin(), own.end()), own.end());
      const ShardNumbers::Entry &entry = numbers->get(family, i);
      rows[family].push_back({i, &entry.shard, entry.side, std::move(own)});
    }
  devices.clear();
}

const std::vector<ShardTable::Row> &ShardTable::of(uint32_t family) const {
  static const std::vector<Row> none;
  return family < rows.size() ? rows[family] : none;
}

} // namespace dtrt
