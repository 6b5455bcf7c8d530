//===- ShardIndex.cpp - Which shard of a device holds a box ---------------===//

#include "dt/Routing/ShardIndex.h"

using namespace dt;

void ShardIndex::add(uint32_t flow, const std::vector<Holding> &holdings) {
  for (const Holding &holding : holdings)
    for (int64_t device : holding.devices) {
      PerDevice &entry = perDevice[device];
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
  return out;
}

std::optional<ShardIndex::Found> ShardIndex::find(uint32_t flow, int64_t device,
                                                  const Box &box) const {
  auto it = perDevice.find(device);
  if (it == perDevice.end())
    return std::nullopt;
  auto shards = it->second.byFlow.find(flow);
  if (shards == it->second.byFlow.end())
    return std::nullopt;
  for (uint32_t number : shards->second)
    if (auto view = localView(*it->second.shards[number].shard, box))
      return Found{number, std::move(*view)};
  return std::nullopt;
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
