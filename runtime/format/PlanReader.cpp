//===- PlanReader.cpp - Reading plan files that may be hostile ------------===//

#include "dtrt/format/PlanReader.h"
#include "FileLayout.h"
#include "PlanCheck.h"
#include "PlanSource.h"
#include "SectionDecoder.h"
#include "SectionFrame.h"
#include "dtrt/format/Features.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

namespace dtrt {

struct PlanReader::State {
  PlanSource source;
  Header header = {};
  Digest digest = {};
  std::vector<SectionEntry> programs;
  std::vector<uint32_t> devices;
  PlanCommon common;

  explicit State(PlanSource source) : source(std::move(source)) {}

  Status load();
  Status checkHeader();
  Status checkDigest(const SectionBytes &table);
  Status checkTable(const std::vector<SectionEntry> &table);
  /// The table, and then the bytes of the common section.
  Result<SectionBytes> commonSection();
  /// The section as it is stored, once its checksum is right.
  Result<SectionBytes> section(const SectionEntry &entry,
                               const std::string &name) const;
  /// A program's section, decompressed where it is a frame.
  Result<SectionBytes> programSection(const SectionEntry &entry,
                                      const std::string &name) const;
  Result<RankProgram> program(const SectionEntry &entry) const;
  /// Null where the device has no program.
  const SectionEntry *find(uint32_t device) const;
};

namespace {
std::string programName(uint32_t device) {
  return "program of device " + std::to_string(device);
}

Status wrongFormat(const Header &header) {
  return makeError("plan format ", header.major, ".", header.minor,
                   " cannot be read; this library reads ", kFormatMajor, ".0",
                   " to ", kFormatMajor, ".", kFormatMinor);
}

Status damaged(const std::string &name) {
  return makeError(name, " is damaged: its checksum does not match");
}

/// A budget bounds what is unpacked; the machine may have less than that.
template <typename Read> auto withinMemory(Read read) -> decltype(read()) {
  try {
    return read();
  } catch (const std::bad_alloc &) {
    return makeError("not enough memory to read the plan");
  }
}
} // namespace

Status PlanReader::State::checkHeader() {
  uint64_t size = source.size();
  if (size < sizeof(Header))
    return makeError("not a plan file: ", size, " bytes, expected at least ",
                     sizeof(Header));
  auto bytes = source.read(0, sizeof header);
  DTRT_RETURN_IF_ERROR(bytes);
  memcpy(&header, bytes->data, sizeof header);
  if (memcmp(header.magic, kMagic, sizeof kMagic) != 0)
    return makeError("not a plan file: it does not start with 'DTPLAN'");
  if (header.endian != kEndianMark)
    return makeError("plan file has another byte order");
  if (header.major != kFormatMajor)
    return wrongFormat(header);
  if (header.headerSize != sizeof(Header))
    return makeError("header has ", header.headerSize, " bytes, expected ",
                     sizeof(Header));
  if (header.fileSize != size)
    return makeError("plan file has ", size, " bytes, expected ",
                     header.fileSize);
  uint64_t tableBytes = uint64_t(header.sectionCount) * sizeof(SectionEntry);
  if (header.sectionCount == 0 || tableBytes > size - sizeof(Header) ||
      header.tableOffset != size - tableBytes)
    return makeError("section table of ", header.sectionCount, " entries at ",
                     header.tableOffset, " does not end the file of ", size,
                     " bytes");
  return {};
}

Status PlanReader::State::checkDigest(const SectionBytes &table) {
  XXH3_state_t hash;
  XXH3_128bits_reset(&hash);
  XXH3_128bits_update(&hash, &header, kDigestOffset);
  XXH3_128bits_update(&hash, table.data, table.size);
  XXH128_hash_t computed = XXH3_128bits_digest(&hash);
  if (computed.low64 != header.digest[0] || computed.high64 != header.digest[1])
    return makeError("plan file is damaged: the digest of its header and "
                     "section table does not match");
  digest = {header.digest[0], header.digest[1]};
  return {};
}

Status PlanReader::State::checkTable(const std::vector<SectionEntry> &table) {
  uint64_t end = sizeof(Header);
  for (size_t i = 0; i < table.size(); ++i) {
    const SectionEntry &entry = table[i];
    if (entry.offset != end || entry.size > header.tableOffset - end ||
        entry.size % kSectionAlignment != 0 || entry.size == 0)
      return makeError("section ", i, " spans [", entry.offset, ", +",
                       entry.size, "), expected it at ", end);
    end += entry.size;
    bool last = i + 1 == table.size();
    auto kind = last ? SectionKind::Common : SectionKind::Program;
    if (entry.kind != uint32_t(kind))
      return makeError("section ", i, " has kind ", entry.kind, ", expected ",
                       uint32_t(kind));
    if (i > 0 && !last && entry.device <= table[i - 1].device)
      return makeError("program of device ", entry.device,
                       " comes after that of device ", table[i - 1].device);
  }
  if (end != header.tableOffset)
    return makeError("sections end at ", end, ", expected ",
                     header.tableOffset);
  return {};
}

Result<SectionBytes> PlanReader::State::section(const SectionEntry &entry,
                                                const std::string &name) const {
  auto bytes = source.read(entry.offset, entry.size);
  if (!bytes.ok())
    return makeError(name, ": ", bytes.status().message());
  if (XXH3_64bits(bytes->data, bytes->size) != entry.checksum)
    return damaged(name);
  return bytes;
}

Result<SectionBytes> PlanReader::State::commonSection() {
  std::vector<SectionEntry> table(header.sectionCount);
  auto bytes =
      source.read(header.tableOffset, table.size() * sizeof(SectionEntry));
  DTRT_RETURN_IF_ERROR(bytes);
  DTRT_RETURN_IF_ERROR(checkDigest(*bytes));
  memcpy(table.data(), bytes->data, bytes->size);
  DTRT_RETURN_IF_ERROR(checkTable(table));
  auto last = section(table.back(), "common section");
  table.pop_back();
  programs = std::move(table);
  return last;
}

Status PlanReader::State::load() {
  DTRT_RETURN_IF_ERROR(checkHeader());
  auto last = commonSection();
  FeatureSet features =
      header.minor < kFeaturesSinceMinor ? 0 : header.features;
  if (header.minor > kFormatMinor) {
    // What it needs and we lack says more than its number.
    if (last.ok())
      DTRT_RETURN_IF_ERROR(checkFeatures(last->data, last->size, features));
    return wrongFormat(header);
  }
  DTRT_RETURN_IF_ERROR(last);
  DTRT_RETURN_IF_ERROR(checkFeatures(last->data, last->size, features));
  if (features & bitOf(Feature::CompressedPrograms))
    DTRT_RETURN_IF_ERROR(checkFramesCanBeRead());
  ReadBudget budget(last->size, last->size, source.size());
  auto decoded = decodeCommon(last->data, last->size, budget);
  DTRT_RETURN_IF_ERROR(decoded);
  common = std::move(*decoded);
  common.features = features;
  DTRT_RETURN_IF_ERROR(checkCommon(common));
  DTRT_RETURN_IF_ERROR(chargeTensors(common, budget));
  for (const SectionEntry &entry : programs)
    devices.push_back(entry.device);
  return {};
}

/// Shards of a view are stored in its order.
static void setOrders(const PlanCommon &common,
                      std::vector<ShardRecord> &shards) {
  for (ShardRecord &shard : shards)
    if (shard.view < common.views.size())
      shard.order = common.views[shard.view].order;
}

Result<SectionBytes>
PlanReader::State::programSection(const SectionEntry &entry,
                                  const std::string &name) const {
  auto stored = section(entry, name);
  if (!stored.ok() || !isFrame(stored->data, stored->size))
    return stored;
  if (!(common.features & bitOf(Feature::CompressedPrograms)))
    return makeError(name, " is compressed, which the plan does not state");
  auto bytes = decompressSection(*stored);
  if (!bytes.ok())
    return makeError(name, ": ", bytes.status().message());
  return bytes;
}

Result<RankProgram>
PlanReader::State::program(const SectionEntry &entry) const {
  std::string name = programName(entry.device);
  auto bytes = programSection(entry, name);
  DTRT_RETURN_IF_ERROR(bytes);
  ReadBudget budget(bytes->size, entry.size, source.size());
  auto program = decodeProgram(bytes->data, bytes->size, budget);
  if (!program.ok())
    return makeError(name, ": ", program.status().message());
  if (program->device != entry.device)
    return makeError(name, " says that it is that of device ", program->device);
  setOrders(common, program->source);
  setOrders(common, program->destination);
  DTRT_RETURN_IF_ERROR(checkProgram(common, devices, *program, budget));
  return program;
}

const SectionEntry *PlanReader::State::find(uint32_t device) const {
  auto found = std::lower_bound(devices.begin(), devices.end(), device);
  if (found == devices.end() || *found != device)
    return nullptr;
  return &programs[size_t(found - devices.begin())];
}

static Status noProgram(uint32_t device) {
  return makeError("device ", device, " has no program in this plan");
}

PlanReader::PlanReader(std::unique_ptr<State> state)
    : state(std::move(state)) {}
PlanReader::PlanReader(PlanReader &&) noexcept = default;
PlanReader &PlanReader::operator=(PlanReader &&) noexcept = default;
PlanReader::~PlanReader() = default;

Result<PlanReader> PlanReader::open(const std::string &path) {
  return withinMemory([&]() -> Result<PlanReader> {
    auto source = PlanSource::open(path);
    DTRT_RETURN_IF_ERROR(source);
    auto state = std::make_unique<State>(std::move(*source));
    Status status = state->load();
    if (!status.ok())
      return makeError(path == "-" ? "standard input" : path, ": ",
                       status.message());
    return PlanReader(std::move(state));
  });
}

Result<PlanReader> PlanReader::fromBytes(std::string bytes) {
  return withinMemory([&]() -> Result<PlanReader> {
    auto state =
        std::make_unique<State>(PlanSource::fromBytes(std::move(bytes)));
    DTRT_RETURN_IF_ERROR(state->load());
    return PlanReader(std::move(state));
  });
}

const PlanCommon &PlanReader::common() const { return state->common; }
const Digest &PlanReader::digest() const { return state->digest; }
uint16_t PlanReader::formatMajor() const { return state->header.major; }
uint16_t PlanReader::formatMinor() const { return state->header.minor; }
const std::vector<uint32_t> &PlanReader::devices() const {
  return state->devices;
}

Status PlanReader::checkSections() const {
  for (const SectionEntry &entry : state->programs) {
    XXH3_state_t hash;
    XXH3_64bits_reset(&hash);
    Status status = state->source.visit(
        entry.offset, entry.size, [&](const void *piece, size_t size) {
          XXH3_64bits_update(&hash, piece, size);
        });
    if (!status.ok())
      return makeError(programName(entry.device), ": ", status.message());
    if (XXH3_64bits_digest(&hash) != entry.checksum)
      return damaged(programName(entry.device));
  }
  return {};
}

Result<StoredPrograms> PlanReader::storedPrograms() const {
  StoredPrograms out;
  for (const SectionEntry &entry : state->programs) {
    auto begin = state->source.read(entry.offset,
                                    std::min<uint64_t>(entry.size, kFrameHead));
    if (!begin.ok())
      return makeError(programName(entry.device), ": ",
                       begin.status().message());
    out.bytes += sizeOfSection(*begin, entry.size);
    if (isFrame(begin->data, begin->size))
      out.features = bitOf(Feature::CompressedPrograms);
  }
  return out;
}

Result<RankProgram> PlanReader::program(uint32_t device) const {
  const SectionEntry *entry = state->find(device);
  if (!entry)
    return noProgram(device);
  return withinMemory([&] { return state->program(*entry); });
}

Result<std::string> PlanReader::storedProgram(uint32_t device) const {
  const SectionEntry *entry = state->find(device);
  if (!entry)
    return noProgram(device);
  return withinMemory([&]() -> Result<std::string> {
    auto bytes = state->section(*entry, programName(device));
    DTRT_RETURN_IF_ERROR(bytes);
    return std::string(reinterpret_cast<const char *>(bytes->data),
                       bytes->size);
  });
}

std::string digestText(const Digest &digest) {
  char text[33];
  snprintf(text, sizeof text, "%016llx%016llx",
           static_cast<unsigned long long>(digest[1]),
           static_cast<unsigned long long>(digest[0]));
  return text;
}

} // namespace dtrt
