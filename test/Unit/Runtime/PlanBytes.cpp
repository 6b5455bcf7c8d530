//===- PlanBytes.cpp - The outer shape of a plan file ---------------------===//

#include "PlanBytes.h"

#include "SectionEncoder.h"
#include "SectionFrame.h"

#include "dtrt/format/Features.h"
#include "dtrt/format/PlanReader.h"
#include "dtrt/format/PlanWriter.h"

#include <flatbuffers/flatbuffers.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

namespace dtrt::test {

Header &headerOf(std::string &bytes) {
  return *reinterpret_cast<Header *>(&bytes[0]);
}

SectionEntry *tableOf(std::string &bytes) {
  return reinterpret_cast<SectionEntry *>(&bytes[headerOf(bytes).tableOffset]);
}

void reseal(std::string &bytes) {
  Header &header = headerOf(bytes);
  SectionEntry *table = tableOf(bytes);
  for (uint32_t i = 0; i < header.sectionCount; ++i)
    if (table[i].offset <= bytes.size() &&
        table[i].size <= bytes.size() - table[i].offset)
      table[i].checksum = XXH3_64bits(&bytes[table[i].offset], table[i].size);
  XXH3_state_t hash;
  XXH3_128bits_reset(&hash);
  XXH3_128bits_update(&hash, &header, kDigestOffset);
  XXH3_128bits_update(&hash, table, header.sectionCount * sizeof *table);
  XXH128_hash_t digest = XXH3_128bits_digest(&hash);
  header.digest[0] = digest.low64;
  header.digest[1] = digest.high64;
}

PlanSections::PlanSections() {
  memcpy(header.magic, kMagic, sizeof kMagic);
  header.endian = kEndianMark;
  header.major = kFormatMajor;
  header.minor = kFormatMinor;
  header.headerSize = sizeof(Header);
}

namespace {
/// A program's section.
PlanSections::Program openSection(uint32_t device, std::string bytes) {
  auto *data = reinterpret_cast<const uint8_t *>(bytes.data());
  SectionBytes stored;
  stored.data = data;
  stored.size = bytes.size();
  if (isFrame(data, bytes.size()))
    if (auto whole = decompressSection(stored); whole.ok())
      return {device,
              {reinterpret_cast<const char *>(whole->data), whole->size},
              true};
  return {device, std::move(bytes), false};
}
} // namespace

std::optional<PlanSections> PlanSections::split(const std::string &bytes) {
  PlanSections out;
  if (bytes.size() < sizeof(Header))
    return std::nullopt;
  memcpy(&out.header, bytes.data(), sizeof(Header));
  uint64_t room = bytes.size() - sizeof(Header);
  uint64_t count = out.header.sectionCount;
  if (count == 0 || count > room / sizeof(SectionEntry))
    return std::nullopt;
  uint64_t at = bytes.size() - count * sizeof(SectionEntry);
  for (uint64_t i = 0; i < count; ++i, at += sizeof(SectionEntry)) {
    SectionEntry entry;
    memcpy(&entry, bytes.data() + at, sizeof entry);
    if (entry.offset > bytes.size() || entry.size > bytes.size() - entry.offset)
      return std::nullopt;
    std::string payload = bytes.substr(entry.offset, entry.size);
    if (i + 1 == count)
      out.common = std::move(payload);
    else
      out.programs.push_back(openSection(entry.device, std::move(payload)));
  }
  return out;
}

std::string PlanSections::join() const {
  std::string out(sizeof(Header), '\0');
  std::vector<SectionEntry> table;
  auto add = [&](SectionKind kind, uint32_t device, const std::string &bytes) {
    uint64_t start = out.size();
    out += bytes;
    out.resize((out.size() + kSectionAlignment - 1) / kSectionAlignment *
               kSectionAlignment);
    table.push_back({uint32_t(kind), device, start, out.size() - start, 0});
  };
  for (const Program &program : programs) {
    std::string frame;
    if (program.isCompressed)
      frame = compressSection(program.bytes);
    add(SectionKind::Program, program.device,
        frame.empty() ? program.bytes : frame);
  }
  add(SectionKind::Common, 0, common);
  Header whole = header;
  whole.sectionCount = uint32_t(table.size());
  whole.tableOffset = out.size();
  out.append(reinterpret_cast<const char *>(table.data()),
             table.size() * sizeof(SectionEntry));
  whole.fileSize = out.size();
  memcpy(out.data(), &whole, sizeof whole);
  reseal(out);
  return out;
}

FeatureSet featuresOf(const PlanCommon &common,
                      const std::vector<RankProgram> &programs) {
  FeatureSet out = dtrt::featuresOf(common);
  for (const RankProgram &program : programs)
    out |= dtrt::featuresOf(program);
  return out;
}

namespace {
/// Of the programs of a plan, as PlanWriter would store them.
Result<PlanSections> encodePrograms(const std::vector<RankProgram> &programs,
                                    FeatureSet &features) {
  PlanSections sections;
  for (const RankProgram &program : programs) {
    auto encoded = encodeSection(program);
    DTRT_RETURN_IF_ERROR(encoded);
    features |= encoded->features;
    sections.programs.push_back(
        openSection(program.device, std::move(encoded->bytes)));
  }
  return sections;
}

void setCommon(PlanSections &sections, const PlanCommon &common,
               FeatureSet features) {
  flatbuffers::FlatBufferBuilder builder;
  encodeCommon(common, features, builder);
  sections.header.features = features;
  sections.common.assign(
      reinterpret_cast<const char *>(builder.GetBufferPointer()),
      builder.GetSize());
  common.compilerVersion.copy(sections.header.compilerVersion,
                              sizeof sections.header.compilerVersion - 1);
}
} // namespace

Result<std::string> encodePlan(const PlanCommon &common,
                               const std::vector<RankProgram> &programs) {
  FeatureSet features = dtrt::featuresOf(common);
  auto sections = encodePrograms(programs, features);
  DTRT_RETURN_IF_ERROR(sections);
  setCommon(*sections, common, features);
  return sections->join();
}

Result<std::string> encodePlan(const PlanCommon &common,
                               const std::vector<RankProgram> &programs,
                               FeatureSet features) {
  FeatureSet needed = 0;
  auto sections = encodePrograms(programs, needed);
  DTRT_RETURN_IF_ERROR(sections);
  setCommon(*sections, common, features);
  return sections->join();
}

Result<std::string> withCompressedPrograms(const std::string &plan) {
  auto reader = PlanReader::fromBytes(plan);
  DTRT_RETURN_IF_ERROR(reader);
  auto sections = PlanSections::split(plan);
  for (PlanSections::Program &program : sections->programs)
    program.isCompressed = true;
  setCommon(*sections, reader->common(),
            sections->header.features | bitOf(Feature::CompressedPrograms));
  return sections->join();
}

std::string readAll(std::string bytes) {
  auto reader = PlanReader::fromBytes(std::move(bytes));
  if (!reader.ok())
    return reader.status().message();
  for (uint32_t device : reader->devices()) {
    auto program = reader->program(device);
    if (!program.ok())
      return program.status().message();
  }
  return "";
}

} // namespace dtrt::test
