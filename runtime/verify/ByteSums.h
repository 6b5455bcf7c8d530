//===- ByteSums.h - Sums of what many programs say --------------*- C++ -*-===//

#ifndef DTRT_LIB_VERIFY_BYTESUMS_H
#define DTRT_LIB_VERIFY_BYTESUMS_H

#include <cstdint>

namespace dtrt {

/// Programs are checked one by one, but hold no more than 2^64 bytes together.
inline void addBytes(uint64_t &sum, uint64_t bytes) {
  if (__builtin_add_overflow(sum, bytes, &sum))
    sum = UINT64_MAX;
}

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_BYTESUMS_H
