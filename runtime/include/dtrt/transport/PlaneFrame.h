//===- PlaneFrame.h - What stands before encoded byte planes ----*- C++ -*-===//
//
// A mask of planes, and sizes of what is compressed: common to all codecs of
// StateCodec.h.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TRANSPORT_PLANEFRAME_H
#define DTRT_TRANSPORT_PLANEFRAME_H

#include "dtrt/types/Status.h"

#include <cstddef>
#include <cstdint>

namespace dtrt {

inline bool hasPlane(uint8_t planes, unsigned plane) {
  return planes >> plane & 1;
}

/// A plane that has become `size` of `bytes` bytes is worth it: one that gains
/// less than a sixteenth is left as it is.
inline bool isGain(size_t size, size_t bytes) {
  return size < bytes - bytes / 16;
}

/// A size is 4 bytes, little-endian.
inline void putSize(std::byte *out, size_t size) {
  auto word = uint32_t(size);
  for (int i = 0; i < 4; ++i)
    out[i] = std::byte(word >> (8 * i));
}

inline size_t sizeAt(const std::byte *in) {
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i)
    word |= uint32_t(in[i]) << (8 * i);
  return word;
}

inline Status damagedPlanes(const char *what) {
  return makeError(ErrorCode::System, "compressed bytes are damaged: ", what);
}

} // namespace dtrt

#endif // DTRT_TRANSPORT_PLANEFRAME_H
