//===- ReadBudget.cpp - What a section may grow to ------------------------===//

#include "ReadBudget.h"

#include <algorithm>

namespace dtrt {

namespace {

/// Bytes for each byte of the section: programs of the compiler unpack to 3 to
/// 8 times their size.
constexpr uint64_t kGrowth = 16;
/// A few boxes may name very many members: a program of 2 KB that keeps all
/// tensors of a large mixture of experts needs 8 MB. So small sections get
/// more, up to kMostExtra: a multiple of their size, and their share of kExtra.
constexpr uint64_t kSmallGrowth = 4096;
constexpr uint64_t kExtra = 64 << 20;
constexpr uint64_t kMostExtra = 64 << 20;

} // namespace

ReadBudget::ReadBudget(uint64_t section, uint64_t stored, uint64_t file)
    : section(section) {
  // Sections are parts of files, whose sizes are below 2^63.
  double share = double(stored) / double(std::max<uint64_t>(file, 1));
  uint64_t extra = section < kMostExtra
                       ? kSmallGrowth * section + uint64_t(share * kExtra)
                       : kMostExtra;
  most = std::min(extra, kMostExtra);
  if (__builtin_mul_overflow(section, kGrowth, &section) ||
      __builtin_add_overflow(most, section, &most))
    most = UINT64_MAX;
}

Status ReadBudget::charge(const char *table, uint64_t count, uint64_t each) {
  uint64_t bytes = 0;
  if (!__builtin_mul_overflow(count, each, &bytes) && bytes <= most - taken) {
    taken += bytes;
    return {};
  }
  return makeError(count, " ", table, " make a section of ", section,
                   " bytes unpack to more than ", most, " bytes, the limit");
}

} // namespace dtrt
