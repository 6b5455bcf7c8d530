//===- DimVector.h - A number per dim ---------------------------*- C++ -*-===//
//
// Programs have millions of offsets and sizes of a few numbers each. As vectors
// each would be memory of its own; here what has few dims, as almost all have,
// is a part of what has it.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TYPES_DIMVECTOR_H
#define DTRT_TYPES_DIMVECTOR_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace dtrt {

/// A number per dim: as std::vector<int64_t>, but up to kInline numbers take no
/// memory beside the object's.
class DimVector {
public:
  /// Layer, expert, row, column.
  static constexpr size_t kInline = 4;
  using value_type = int64_t;
  using iterator = int64_t *;
  using const_iterator = const int64_t *;

  DimVector() = default;
  explicit DimVector(size_t count) { resize(count); }
  DimVector(std::initializer_list<int64_t> from) {
    assign(from.begin(), from.end());
  }
  template <typename Iterator> DimVector(Iterator first, Iterator last) {
    assign(first, last);
  }
  DimVector(const std::vector<int64_t> &from) {
    assign(from.begin(), from.end());
  }
  DimVector(const DimVector &from) { assign(from.begin(), from.end()); }
  DimVector(DimVector &&from) noexcept { take(from); }
  ~DimVector() { free(); }

  DimVector &operator=(const DimVector &from) {
    if (this != &from)
      assign(from.begin(), from.end());
    return *this;
  }
  DimVector &operator=(DimVector &&from) noexcept {
    if (this != &from) {
      free();
      take(from);
    }
    return *this;
  }

  size_t size() const { return count; }
  bool empty() const { return count == 0; }
  int64_t *data() { return isInline() ? few : many; }
  const int64_t *data() const { return isInline() ? few : many; }
  int64_t *begin() { return data(); }
  const int64_t *begin() const { return data(); }
  int64_t *end() { return data() + count; }
  const int64_t *end() const { return data() + count; }
  int64_t &operator[](size_t dim) { return data()[dim]; }
  const int64_t &operator[](size_t dim) const { return data()[dim]; }

  int64_t &back() { return data()[count - 1]; }
  int64_t back() const { return data()[count - 1]; }

  /// What was there is lost; the numbers are not of this vector itself.
  template <typename Iterator> void assign(Iterator first, Iterator last) {
    count = 0;
    reserve(size_t(last - first));
    std::copy(first, last, data());
    count = uint32_t(last - first);
  }
  void resize(size_t dims, int64_t value = 0) {
    reserve(dims);
    if (dims > count)
      std::fill(data() + count, data() + dims, value);
    count = uint32_t(dims);
  }
  void push_back(int64_t number) { resize(count + 1, number); }
  void clear() { count = 0; }

  friend bool operator==(const DimVector &a, const DimVector &b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  friend bool operator!=(const DimVector &a, const DimVector &b) {
    return !(a == b);
  }
  friend bool operator<(const DimVector &a, const DimVector &b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  }

private:
  bool isInline() const { return room == kInline; }
  void reserve(size_t numbers) {
    if (numbers <= room)
      return;
    size_t grown = std::max<size_t>(numbers, 2 * size_t(room));
    auto *moved = new int64_t[grown];
    std::copy(begin(), end(), moved);
    free();
    many = moved;
    room = uint32_t(grown);
  }
  void free() {
    if (!isInline())
      delete[] many;
  }
  /// Of another, which has none then; what was here is freed already.
  void take(DimVector &from) {
    count = from.count;
    room = from.room;
    if (from.isInline())
      std::copy(from.few, from.few + kInline, few);
    else
      many = from.many;
    from.count = 0;
    from.room = kInline;
  }

  uint32_t count = 0, room = kInline;
  union {
    int64_t few[kInline] = {};
    int64_t *many;
  };
};

} // namespace dtrt

#endif // DTRT_TYPES_DIMVECTOR_H
