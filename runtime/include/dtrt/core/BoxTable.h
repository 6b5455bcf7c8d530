//===- BoxTable.h - Tables of strided copies --------------------*- C++ -*-===//

#ifndef DTRT_CORE_BOXTABLE_H
#define DTRT_CORE_BOXTABLE_H

#include "dtrt/core/BoxCopy.h"

#include <vector>

namespace dtrt {

/// What elements of `width` bytes hold.
struct ElementFill {
  uint64_t bits = 0;
  int64_t width = 1;
};

/// The copies of one launch, in any order; none reads what another writes.
class BoxTable {
public:
  /// Each fails only when a buffer is not bound. Packed bytes come in the order
  /// of Segment's packed form. Nothing is read or written.
  Status addPack(const PreparedSegment &segment, const LocalStorage &storage,
                 std::byte *packed);
  Status addUnpack(const PreparedSegment &segment, const LocalStorage &storage,
                   const std::byte *packed);
  Status addCopy(const PreparedCopy &copy, const LocalStorage &storage);
  Status addFill(const PreparedSegment &segment, const LocalStorage &storage);
  /// The copies of another table after those of this one.
  void append(const BoxTable &other);
  void add(std::byte *to, const std::byte *from, const StridedCopy &copy);

  const std::vector<BoxCopy> &copies() const { return rows; }
  uint64_t tiles() const { return numTiles; }
  /// The kernel's work, as so many blocks of threads do it, done here.
  void runOnHost(uint32_t blocks = 1) const;

private:
  /// `fill` where there is no `from`.
  void add(std::byte *to, const std::byte *from, const StridedCopy &copy,
           const ElementFill &fill);
  void addRow(BoxCopy row);

  std::vector<BoxCopy> rows;
  uint64_t numTiles = 0;
};

} // namespace dtrt

#endif // DTRT_CORE_BOXTABLE_H
