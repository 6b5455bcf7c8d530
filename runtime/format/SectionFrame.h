//===- SectionFrame.h - Sections as zstd frames -----------------*- C++ -*-===//
//
// A program may be stored as one zstd frame, which says what it decompresses
// to. Zeros follow it, as many as make the section a multiple of its alignment
// and no smaller than a kMostGrowth-th of what it decompresses to: so the size
// of a file bounds what its sections come to, whatever they say.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_FORMAT_SECTIONFRAME_H
#define DTRT_LIB_FORMAT_SECTIONFRAME_H

#include "PlanSource.h"

#include <string>

namespace dtrt {

/// Bytes that a stored byte may decompress to. Programs of the compiler come to
/// 5 to 7.
constexpr uint64_t kMostGrowth = 16;
/// Smaller programs are stored as they are: there is little to gain.
constexpr size_t kLeastCompressed = 4096;

/// Bytes of a frame that say what it decompresses to, at most.
constexpr uint64_t kFrameHead = 24;

/// Whether the section begins as a frame does, and so as no FlatBuffers buffer
/// can: its root would be 4 GB away.
bool isFrame(const uint8_t *data, uint64_t size);

/// The section as a frame with its zeros; empty where that is no smaller, or
/// where the library was built without zstd. The same bytes each time by one
/// version of zstd.
std::string compressSection(const std::string &section);

/// What the frame decompresses to. Fails, before that takes memory, where it is
/// more than the section's size allows, and where the section is anything else
/// than one whole frame and zeros.
Result<SectionBytes> decompressSection(const SectionBytes &stored);

/// Bytes that a section of `stored` bytes comes to, at most as many as may be;
/// `begin` are the first ones, kFrameHead of them or all.
uint64_t sizeOfSection(const SectionBytes &begin, uint64_t stored);

/// Fails where the library was built without zstd.
Status checkFramesCanBeRead();

} // namespace dtrt

#endif // DTRT_LIB_FORMAT_SECTIONFRAME_H
