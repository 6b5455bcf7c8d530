//===- BytePlanes.cpp - Bytes of one significance, side by side -----------===//

#include "BytePlanes.h"

#include <cstdint>
#include <cstring>

namespace dtrt {

namespace {

/// So many elements are in the first cache at once; the loops over them have
/// one stream to write and are vectorized.
constexpr size_t kChunk = 2048;

template <typename Word>
void split(const std::byte *elements, size_t count,
           const Planes<std::byte> &planes) {
  Word words[kChunk];
  for (size_t at = 0; at < count; at += kChunk) {
    size_t some = count - at < kChunk ? count - at : kChunk;
    std::memcpy(words, elements + at * sizeof(Word), some * sizeof(Word));
    for (unsigned p = 0; p < sizeof(Word); ++p) {
      std::byte *plane = planes[p] + at;
      for (size_t i = 0; i < some; ++i)
        plane[i] = std::byte(words[i] >> (8 * p));
    }
  }
}

template <typename Word>
void join(const Planes<const std::byte> &planes, size_t count,
          std::byte *elements) {
  Word words[kChunk];
  for (size_t at = 0; at < count; at += kChunk) {
    size_t some = count - at < kChunk ? count - at : kChunk;
    for (size_t i = 0; i < some; ++i)
      words[i] = Word(planes[0][at + i]);
    for (unsigned p = 1; p < sizeof(Word); ++p) {
      const std::byte *plane = planes[p] + at;
      for (size_t i = 0; i < some; ++i)
        words[i] |= Word(Word(plane[i]) << (8 * p));
    }
    std::memcpy(elements + at * sizeof(Word), words, some * sizeof(Word));
  }
}

} // namespace

void splitPlanes(const std::byte *elements, size_t count, unsigned width,
                 const Planes<std::byte> &planes) {
  switch (width) {
  case 2:
    return split<uint16_t>(elements, count, planes);
  case 4:
    return split<uint32_t>(elements, count, planes);
  case 8:
    return split<uint64_t>(elements, count, planes);
  default:
    return split<uint8_t>(elements, count, planes);
  }
}

void joinPlanes(const Planes<const std::byte> &planes, size_t count,
                unsigned width, std::byte *elements) {
  switch (width) {
  case 2:
    return join<uint16_t>(planes, count, elements);
  case 4:
    return join<uint32_t>(planes, count, elements);
  case 8:
    return join<uint64_t>(planes, count, elements);
  default:
    return join<uint8_t>(planes, count, elements);
  }
}

} // namespace dtrt
