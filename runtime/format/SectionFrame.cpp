//===- SectionFrame.cpp - Sections as zstd frames -------------------------===//

#include "SectionFrame.h"

#include "FileLayout.h"

#ifdef DT_HAS_ZSTD
#include <zstd.h>
#endif

#include <algorithm>
#include <cstring>

namespace dtrt {

namespace {

/// The first four bytes of each frame.
constexpr uint32_t kFrameMagic = 0xFD2FB528;

} // namespace

bool isFrame(const uint8_t *data, uint64_t size) {
  uint32_t magic = 0;
  if (size < sizeof magic)
    return false;
  memcpy(&magic, data, sizeof magic);
  return magic == kFrameMagic;
}

#ifdef DT_HAS_ZSTD

namespace {

/// Plans are up to 7 % smaller than at level 1, for 5 % more time.
constexpr int kLevel = 3;

/// The least multiple of the alignment that is no less.
size_t aligned(size_t size) {
  return (size + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment;
}

/// Where the frame ends.
Result<size_t> endOfFrame(const SectionBytes &stored) {
  size_t end = ZSTD_findFrameCompressedSize(stored.data, stored.size);
  if (ZSTD_isError(end))
    return makeError("its zstd frame is not whole: ", ZSTD_getErrorName(end));
  for (size_t at = end; at < stored.size; ++at)
    if (stored.data[at] != 0)
      return makeError("byte ", at, " behind its zstd frame of ", end,
                       " bytes is not zero");
  return end;
}

/// What the frame says, if the section is large enough for it.
Result<uint64_t> checkedSize(const SectionBytes &stored) {
  uint64_t size = ZSTD_getFrameContentSize(stored.data, stored.size);
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN)
    return makeError("its zstd frame does not say what it decompresses to");
  uint64_t most = kMostGrowth * stored.size;
  if (size > most)
    return makeError("a section of ", stored.size,
                     " bytes says that it decompresses to ", size,
                     " bytes, limit ", most);
  return size;
}

} // namespace

std::string compressSection(const std::string &section) {
  std::string out(ZSTD_compressBound(section.size()), '\0');
  size_t size = ZSTD_compress(out.data(), out.size(), section.data(),
                              section.size(), kLevel);
  if (ZSTD_isError(size))
    return "";
  out.resize(size);
  size_t least = (section.size() + kMostGrowth - 1) / kMostGrowth;
  out.resize(aligned(std::max(size, least)), '\0');
  return out.size() < section.size() ? out : "";
}

Result<SectionBytes> decompressSection(const SectionBytes &stored) {
  auto end = endOfFrame(stored);
  DTRT_RETURN_IF_ERROR(end);
  auto size = checkedSize(stored);
  DTRT_RETURN_IF_ERROR(size);
  SectionBytes out;
  out.size = *size;
  out.owned.resize((out.size + 7) / 8);
  size_t got = ZSTD_decompress(out.owned.data(), out.size, stored.data, *end);
  if (ZSTD_isError(got) || got != out.size)
    return makeError("its zstd frame is damaged: ", ZSTD_isError(got)
                                                        ? ZSTD_getErrorName(got)
                                                        : "it ends too early");
  out.data = reinterpret_cast<const uint8_t *>(out.owned.data());
  return out;
}

uint64_t sizeOfSection(const SectionBytes &begin, uint64_t stored) {
  if (!isFrame(begin.data, begin.size))
    return stored;
  // What is no size is more than any.
  uint64_t size = ZSTD_getFrameContentSize(begin.data, begin.size);
  return std::min<uint64_t>(size, kMostGrowth * stored);
}

Status checkFramesCanBeRead() { return {}; }

#else

std::string compressSection(const std::string &) { return ""; }

Result<SectionBytes> decompressSection(const SectionBytes &) {
  return checkFramesCanBeRead();
}

uint64_t sizeOfSection(const SectionBytes &, uint64_t stored) { return stored; }

Status checkFramesCanBeRead() {
  return makeError("plan has compressed programs, and this library was built "
                   "without zstd");
}

#endif

} // namespace dtrt
