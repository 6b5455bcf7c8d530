//===- LayoutCells.h - Who holds what before and after ----------*- C++ -*-===//
//
// Lays the shards of all devices and of both sides over each other:
//
//   before   | device 0  |  device 1 |        cells, with who holds and wants
//   after    | 2 | 2 and 3       | 4 |        0>2  0>2,3  1>2,3  1>4
//
// Dim by dim, the elements between two neighbouring cuts of the boxes that lie
// there are alike. Knows nothing of what moves.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_VERIFY_LAYOUTCELLS_H
#define DTRT_LIB_VERIFY_LAYOUTCELLS_H

#include "CellShapes.h"
#include "ShardTable.h"

#include "dtrt/types/Status.h"

#include <unordered_map>

namespace dtrt {

/// Elements that the same devices hold at the source, and that the same want
/// sent. A device that wants a state of both sides which it does not hold, and
/// wants the state that it may be made from too, makes it: it is not among
/// those that want it sent.
class LayoutCells {
public:
  /// Fails where a destination lacks an element of a tensor whose state it
  /// has, or the source one that it should hold; or where this takes too long
  /// for a plan of so many shards and messages. `known`: cells of plans of the
  /// same families, by the numbers that the table has; null: none.
  static Result<LayoutCells> of(const std::vector<Family> &families,
                                const ShardTable &shards, uint64_t messages,
                                KnownCells *known = nullptr);

  struct Cell {
    const Devices &holders, &wanters;
    uint64_t bytes; // as they travel
  };
  template <typename Visit> void visit(Visit visit) const {
    for (const auto &[key, bytes] : sums)
      visit(Cell{sets[uint32_t(key >> 32)], sets[uint32_t(key)], bytes});
  }

private:
  /// `setOfRow`: the devices of each row, by their number in `sets`.
  void add(const CellShape &cell, const std::vector<uint32_t> &setOfRow);
  uint32_t wantersOf(uint32_t held, uint32_t wanted, uint32_t derived);

  DeviceSets sets;
  /// Numbers of the holders and of those that want it, to bytes.
  std::unordered_map<uint64_t, uint64_t> sums;
};

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_LAYOUTCELLS_H
