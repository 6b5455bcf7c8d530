//===- Prefetch.h - What is looked at soon ----------------------*- C++ -*-===//
//
// Lists by device name pieces and messages that lie far apart in memory. Who
// walks such a list asks for what comes some entries later.
//
//===----------------------------------------------------------------------===//

#ifndef DT_GEOMETRY_PREFETCH_H
#define DT_GEOMETRY_PREFETCH_H

#include <cstddef>

namespace dt {

/// So many entries ahead: what they name comes while those before are done.
constexpr size_t kPrefetched = 8;

/// Brings an object near that is read soon. Its address alone is used.
template <typename T> void prefetch(const T &object) {
  constexpr size_t kLine = 64;
  for (size_t at = 0; at < sizeof(T); at += kLine)
    __builtin_prefetch(reinterpret_cast<const char *>(&object) + at,
                       /*for writing=*/0, /*locality=*/0);
}

} // namespace dt

#endif // DT_GEOMETRY_PREFETCH_H
