//===- Pieces.h - Families of rows as affine classes ------------*- C++ -*-===//
//
// Large transitions are regular: the 96 pieces of a TP 4 -> 2 change differ by
// constant steps. A row is a tuple of integers (devices, offsets, sizes); a
// row class is an affine image of an integer range,
//
//   row(i, j) = base + i * strides[0] + j * strides[1],  0 <= i < counts[0]...
//
// and `compressRows` turns a list of rows into few classes, with whatever is
// irregular left in a table. `x floordiv 2` needs no floordiv here: it is one
// more range, x = 2 a + b.
//
//===----------------------------------------------------------------------===//

#ifndef DT_GEOMETRY_PIECES_H
#define DT_GEOMETRY_PIECES_H

#include <cstdint>
#include <vector>

namespace dt {

using Row = std::vector<int64_t>;

struct RowClass {
  Row base;
  std::vector<int64_t> counts; // slowest first
  std::vector<Row> strides;    // one per count
  int64_t size() const;        // product of counts
};

struct RowSet {
  unsigned numColumns = 0;
  std::vector<RowClass> classes;
  std::vector<int64_t> table; // numColumns per row, row-major

  int64_t numRows() const;
};

/// Nested run-length encoding of rows that differ by constant steps: finds
/// maximal arithmetic runs, then runs of equal-shaped runs, to a fixed point.
/// Classes of fewer than `minClassSize` rows, or that save too little, go to
/// the table. Rows in nested-loop order compress best; what is left is tried
/// again sorted, columns of few values first. `expandRows` gives back the same
/// multiset of rows; the order is: classes in order (row indices slowest
/// first), then the table.
RowSet compressRows(const std::vector<int64_t> &rows, unsigned numColumns,
                    int64_t minClassSize = 4);

/// Flat rows, numColumns each.
std::vector<int64_t> expandRows(const RowSet &set);

} // namespace dt

#endif // DT_GEOMETRY_PIECES_H
