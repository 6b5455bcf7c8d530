//===- CellShapes.h - Cells, whoever has their shards -----------*- C++ -*-===//
//
// How shards lie over each other does not depend on who has them: plans whose
// layouts differ in devices alone have cells of the same shards. A process that
// reads many such plans remembers these, by the numbers of the shards, which
// are equal where they are.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_VERIFY_CELLSHAPES_H
#define DTRT_LIB_VERIFY_CELLSHAPES_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace dtrt {

/// What a shard is of a cell: of a source, of a destination, or of the
/// destination of the state that the elements may be made from.
enum Part : uint8_t { kHeld, kWanted, kDerived };
constexpr size_t kNumParts = 3;

/// A cell by the rows of its shards, by part.
struct CellShape {
  std::array<std::vector<uint32_t>, kNumParts> rows;
  uint64_t bytes = 0; // as they travel
};

/// The cells of one family and of states that are alike.
class CellShapes {
public:
  void add(const CellShape &cell);
  /// Calls fn(cell) for each, in the order in which they were added.
  template <typename Fn> void forEach(const Fn &fn) const;
  size_t bytes() const { return words.size() * sizeof(uint32_t); }

private:
  /// Of each: bytes, low and high; by part how many rows; these.
  static constexpr size_t kHead = 2 + kNumParts;
  std::vector<uint32_t> words;
};

/// The cells of the families of some plans.
class KnownCells {
public:
  /// Bytes of all that is remembered.
  static constexpr size_t kMost = size_t(64) << 20;

  /// What is remembered is of these shards, by number; null: nothing is.
  const CellShapes *find(uint32_t family, uint64_t states,
                         const std::vector<uint32_t> &shards) const;
  /// In the place of others of that family and states; not where all would be
  /// too much.
  void keep(uint32_t family, uint64_t states, std::vector<uint32_t> shards,
            CellShapes cells);

private:
  struct Entry {
    std::vector<uint32_t> shards;
    CellShapes cells;
    size_t bytes() const {
      return shards.size() * sizeof(uint32_t) + cells.bytes();
    }
  };
  std::map<std::pair<uint32_t, uint64_t>, Entry> entries;
  size_t numBytes = 0; // of all
};

inline void CellShapes::add(const CellShape &cell) {
  words.insert(words.end(), {uint32_t(cell.bytes), uint32_t(cell.bytes >> 32)});
  for (const auto &rows : cell.rows)
    words.push_back(uint32_t(rows.size()));
  for (const auto &rows : cell.rows)
    words.insert(words.end(), rows.begin(), rows.end());
}

template <typename Fn> void CellShapes::forEach(const Fn &fn) const {
  CellShape cell;
  for (size_t at = 0; at < words.size();) {
    cell.bytes = words[at] | uint64_t(words[at + 1]) << 32;
    auto next = words.begin() + std::ptrdiff_t(at + kHead);
    for (size_t part = 0; part < kNumParts; ++part) {
      auto end = next + std::ptrdiff_t(words[at + 2 + part]);
      cell.rows[part].assign(next, end);
      next = end;
    }
    fn(cell);
    at = size_t(next - words.begin());
  }
}

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_CELLSHAPES_H
