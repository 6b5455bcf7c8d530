//===- CellShapes.cpp - Cells, whoever has their shards -------------------===//

#include "CellShapes.h"

#include <utility>

namespace dtrt {

const CellShapes *KnownCells::find(uint32_t family, uint64_t states,
                                   const std::vector<uint32_t> &shards) const {
  auto found = entries.find({family, states});
  if (found == entries.end() || found->second.shards != shards)
    return nullptr;
  return &found->second.cells;
}

void KnownCells::keep(uint32_t family, uint64_t states,
                      std::vector<uint32_t> shards, CellShapes cells) {
  if (auto old = entries.find({family, states}); old != entries.end()) {
    numBytes -= old->second.bytes();
    entries.erase(old);
  }
  Entry entry = {std::move(shards), std::move(cells)};
  if (entry.bytes() > kMost - numBytes)
    return;
  numBytes += entry.bytes();
  entries.emplace(std::make_pair(family, states), std::move(entry));
}

} // namespace dtrt
