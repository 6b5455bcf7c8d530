//===- Cells.h - Overlays of many regions -----------------------*- C++ -*-===//
//
// Routing asks one question: which elements do which source devices hold and
// which destination devices want? A cell is a box all of whose elements have
// the same set of holders. Cells of one side are disjoint; joining the cells
// of both sides gives the pieces that may have to move.
//
//===----------------------------------------------------------------------===//

#ifndef DT_GEOMETRY_CELLS_H
#define DT_GEOMETRY_CELLS_H

#include "dt/Geometry/Placement.h"

namespace dt {

struct Cell {
  Box box;
  /// Index into the list of distinct device sets.
  uint32_t owners = 0;
};

struct CellSet {
  std::vector<Cell> cells;                     // disjoint, sorted by box
  std::vector<std::vector<int64_t>> ownerSets; // each sorted
};

/// Overlays the holdings of one side. Where two holdings overlap, the cell's
/// owners are the union.
CellSet overlay(const std::vector<Holding> &holdings,
                const std::vector<int64_t> &shape);

struct CellPair {
  Box box;
  uint32_t left = 0;  // index into a.cells
  uint32_t right = 0; // index into b.cells
};

/// All non-empty intersections of cells of `a` with cells of `b`, sorted by
/// box. Time O((|a| + |b| + pairs) log) for cells of bounded overlap: recursive
/// bisection on the dim with the widest spread.
std::vector<CellPair> join(const std::vector<Cell> &a,
                           const std::vector<Cell> &b);

/// The parts of `box` that no cell covers (holes), as disjoint boxes.
std::vector<Box> uncovered(const Box &box, const std::vector<Cell> &cells);

} // namespace dt

#endif // DT_GEOMETRY_CELLS_H
