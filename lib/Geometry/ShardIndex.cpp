//===- ShardIndex.cpp - Which shard of a device holds a box ---------------===//

#include "dt/Geometry/ShardIndex.h"

#include <algorithm>

using namespace dt;

void ShardIndex::add(uint32_t flow, const std::vector<Holding> &holdings) {
  for (const Holding &holding : holdings)
    for (int64_t device : holding.devices) {
      PerDevice &entry = perDevice[device];
      if (flow >= entry.byFlow.size())
        entry.byFlow.resize(flow + 1);
      entry.byFlow[flow].push_back(entry.shards.size());
      entry.shards.push_back({flow, &holding.shard});
    }
}

const std::vector<ShardIndex::Entry> &
ShardIndex::shardsOf(int64_t device) const {
  static const std::vector<Entry> none;
  auto it = perDevice.find(device);
  return it == perDevice.end() ? none : it->second.shards;
}

std::vector<int64_t> ShardIndex::devices() const {
  std::vector<int64_t> out;
  for (const auto &[device, entry] : perDevice)
    out.push_back(device);
  std::sort(out.begin(), out.end());
  return out;
}

/// Shards of a flow on a device, by number.
const std::vector<uint32_t> &
ShardIndex::numbersOf(uint32_t flow, int64_t device,
                      const PerDevice *&entry) const {
  static const std::vector<uint32_t> none;
  auto it = perDevice.find(device);
  if (it == perDevice.end() || flow >= it->second.byFlow.size())
    return none;
  entry = &it->second;
  return entry->byFlow[flow];
}

std::optional<ShardIndex::Found> ShardIndex::find(uint32_t flow, int64_t device,
                                                  const Box &box) const {
  const PerDevice *entry = nullptr;
  for (uint32_t number : numbersOf(flow, device, entry))
    if (auto view = localView(*entry->shards[number].shard, box))
      return Found{number, std::move(*view)};
  return std::nullopt;
}

std::optional<uint32_t> ShardIndex::findNumber(uint32_t flow, int64_t device,
                                               const Box &box) const {
  const PerDevice *entry = nullptr;
  for (uint32_t number : numbersOf(flow, device, entry))
    if (holds(*entry->shards[number].shard, box))
      return number;
  return std::nullopt;
}

std::vector<const Shard *> ShardIndex::shardsOf(uint32_t flow,
                                                int64_t device) const {
  const PerDevice *entry = nullptr;
  std::vector<const Shard *> out;
  for (uint32_t number : numbersOf(flow, device, entry))
    out.push_back(entry->shards[number].shard);
  return out;
}

uint32_t ShardIndex::numberOf(uint32_t flow, int64_t device, uint32_t k) const {
  const PerDevice *entry = nullptr;
  return numbersOf(flow, device, entry).at(k);
}

bool dt::isContiguous(const LocalView &view) {
  int64_t expected = 1;
  for (size_t d = view.sizes.size(); d-- > 0;) {
    if (view.sizes[d] == 1)
      continue;
    if (view.strides[d] != expected)
      return false;
    expected *= view.sizes[d];
  }
  return true;
}
