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

#include "dt/Geometry/Limits.h"
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
/// owners are the union. With a limit, at most so many overlaps and cells are
/// looked at, and what is returned past it is no overlay.
CellSet overlay(const std::vector<Holding> &holdings,
                const std::vector<int64_t> &shape, WorkLimit *limit = nullptr);

struct CellPair {
  Box box;
  uint32_t left = 0;  // index into a.cells
  uint32_t right = 0; // index into b.cells
};

/// All non-empty intersections of cells of `a` with cells of `b`, sorted by
/// box. Time O((|a| + |b| + pairs) log) for cells of bounded overlap: recursive
/// bisection on the dim with the widest spread. With a limit, no more pairs
/// than it allows.
std::vector<CellPair> join(const std::vector<Cell> &a,
                           const std::vector<Cell> &b,
                           WorkLimit *limit = nullptr);

/// A part that two cells of a list cover: their numbers, the lower one first;
/// nullopt when all are disjoint.
std::optional<CellPair> firstOverlap(const std::vector<Cell> &cells);

/// The parts of `box` that no cell covers (holes), as disjoint boxes. The cells
/// are disjoint; where they are not, what is found are holes still, but some
/// may be missed. With a limit, no more holes than it allows.
std::vector<Box> uncovered(const Box &box, const std::vector<Cell> &cells,
                           WorkLimit *limit = nullptr);

/// A hole in the first of `wanted` that disjoint `cells` do not cover; nullopt
/// when they cover all. With a limit, found or not before it is exceeded.
std::optional<Box> firstUncovered(const std::vector<Cell> &wanted,
                                  const std::vector<Cell> &cells,
                                  WorkLimit *limit = nullptr);

} // namespace dt

#endif // DT_GEOMETRY_CELLS_H
