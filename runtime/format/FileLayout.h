//===- FileLayout.h - Header and section table of a plan file ---*- C++ -*-===//
//
//   [Header][program of the lowest device]...[common][SectionEntry...]
//
// Sections follow each other without gaps, each padded with zeros to 8 bytes;
// the padding counts as part of the section, so no byte of the file is outside
// a checksum. Sizes and checksums are of what is stored, which may be a frame
// (SectionFrame.h). The first five fields of the header never change.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_FORMAT_FILELAYOUT_H
#define DTRT_LIB_FORMAT_FILELAYOUT_H

#include <cstdint>
#include <type_traits>

namespace dtrt {

constexpr char kMagic[8] = {'D', 'T', 'P', 'L', 'A', 'N', '\0', '\0'};
constexpr uint32_t kEndianMark = 0x01020304;
constexpr uint64_t kSectionAlignment = 8;

struct Header {
  char magic[8];
  uint32_t endian;
  uint16_t major;
  uint16_t minor;
  uint32_t headerSize;
  uint32_t sectionCount;
  uint64_t tableOffset;
  uint64_t fileSize;
  char compilerVersion[64]; // zero-padded; cut when longer
  uint64_t features;        // dtrt/format/Features.h; zero before format 1.4
  uint64_t digest[2];       // XXH3-128 of all the above and the table
};
static_assert(sizeof(Header) == 128 && std::is_trivially_copyable_v<Header>);
constexpr uint64_t kDigestOffset = 112;

enum class SectionKind : uint32_t { Common = 0, Program = 1 };

struct SectionEntry {
  uint32_t kind;
  uint32_t device; // zero for the common section
  uint64_t offset;
  uint64_t size;
  uint64_t checksum; // XXH3-64
};
static_assert(sizeof(SectionEntry) == 32);

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "plan files are written and read on little-endian machines only"
#endif

} // namespace dtrt

#endif // DTRT_LIB_FORMAT_FILELAYOUT_H
