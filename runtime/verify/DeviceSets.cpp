//===- DeviceSets.cpp - Sets of devices by number -------------------------===//

#include "DeviceSets.h"

#include <algorithm>
#include <iterator>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace dtrt {

size_t DeviceSets::Hash::operator()(const Devices &devices) const {
  return XXH3_64bits(devices.data(), devices.size() * sizeof(uint32_t));
}

uint32_t DeviceSets::numberOf(const Devices &devices) {
  auto [at, isNew] = numbers.try_emplace(devices, uint32_t(sets.size()));
  if (isNew)
    sets.push_back(&at->first);
  return at->second;
}

uint32_t DeviceSets::unionOf(std::vector<uint32_t> some) {
  std::sort(some.begin(), some.end());
  some.erase(std::unique(some.begin(), some.end()), some.end());
  if (some.size() < 2)
    return some.empty() ? 0 : some.front();
  if (auto known = unions.find(some); known != unions.end())
    return known->second;
  Devices all, next;
  for (uint32_t number : some) {
    next.clear();
    std::set_union(all.begin(), all.end(), sets[number]->begin(),
                   sets[number]->end(), std::back_inserter(next));
    all.swap(next);
  }
  return unions[std::move(some)] = numberOf(all);
}

} // namespace dtrt
