//===- Permutation.h - Dims in another order --------------------*- C++ -*-===//

#ifndef DTRT_TYPES_PERMUTATION_H
#define DTRT_TYPES_PERMUTATION_H

#include <cstdint>
#include <optional>
#include <vector>

namespace dtrt {

/// Which dim stands at which place: [1, 0] is a transposed matrix. Those of
/// torch.permute. Without any, each stands at its own.
class Permutation {
public:
  static constexpr unsigned kMaxDims = 16;

  Permutation() = default;
  /// The dim of each place; nothing unless these are all dims, each once.
  static std::optional<Permutation> of(const std::vector<int64_t> &dims) {
    if (dims.size() > kMaxDims)
      return std::nullopt;
    Permutation out;
    uint32_t seen = 0;
    for (unsigned place = 0; place < dims.size(); ++place) {
      int64_t dim = dims[place];
      if (dim < 0 || dim >= int64_t(dims.size()) || seen >> dim & 1)
        return std::nullopt;
      seen |= uint32_t(1) << dim;
      out.code |= uint64_t(uint64_t(dim) ^ place) << (4 * place);
    }
    return out;
  }

  unsigned operator[](unsigned place) const {
    return place < kMaxDims ? unsigned(code >> (4 * place) & 15) ^ place
                            : place;
  }
  bool isIdentity() const { return code == 0; }
  /// A number of its own.
  uint64_t bits() const { return code; }
  /// The dims of the first `count` places.
  std::vector<int64_t> dims(unsigned count) const {
    std::vector<int64_t> out(count);
    for (unsigned place = 0; place < count; ++place)
      out[place] = (*this)[place];
    return out;
  }

  friend bool operator==(Permutation a, Permutation b) {
    return a.code == b.code;
  }
  friend bool operator!=(Permutation a, Permutation b) { return !(a == b); }
  friend bool operator<(Permutation a, Permutation b) {
    return a.code < b.code;
  }

private:
  uint64_t code = 0; // 4 bits per place: its number, xor its dim
};

} // namespace dtrt

#endif // DTRT_TYPES_PERMUTATION_H
