//===- PlanReader.cpp - Reading plan files that may be hostile ------------===//

#include "FileLayout.h"
#include "SectionDecoder.h"
#include "dtrt/PlanFile.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dtrt {

struct PlanReader::State {
  std::string bytes; // what was read, unless mapped
  void *mapping = nullptr;
  const uint8_t *data = nullptr;
  uint64_t size = 0;
  Header header = {};
  Digest digest = {};
  std::vector<SectionEntry> programs;
  std::vector<uint32_t> devices;
  PlanCommon common;

  ~State() {
    if (mapping)
      munmap(mapping, size);
  }

  Status map(const std::string &path);
  Status readStandardInput();
  Status load();
  Status checkHeader();
  Status checkTable(const std::vector<SectionEntry> &table);
  Status checkSum(const SectionEntry &entry, const std::string &name) const;
};

Status PlanReader::State::map(const std::string &path) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return makeError("cannot open '", path, "': ", strerror(errno));
  struct stat info;
  if (fstat(file, &info) != 0 || S_ISDIR(info.st_mode)) {
    close(file);
    return makeError("cannot read '", path, "': not a file");
  }
  size = uint64_t(info.st_size);
  if (size > 0) {
    mapping = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (mapping == MAP_FAILED)
      mapping = nullptr;
  }
  close(file);
  if (size > 0 && !mapping)
    return makeError("cannot map '", path, "': ", strerror(errno));
  data = static_cast<const uint8_t *>(mapping);
  return {};
}

Status PlanReader::State::readStandardInput() {
  std::vector<char> buffer(1 << 20);
  while (size_t read = fread(buffer.data(), 1, buffer.size(), stdin))
    bytes.append(buffer.data(), read);
  if (ferror(stdin))
    return makeError("cannot read standard input: ", strerror(errno));
  return {};
}

Status PlanReader::State::checkHeader() {
  if (size < sizeof(Header))
    return makeError("not a plan file: ", size, " bytes, expected at least ",
                     sizeof(Header));
  memcpy(&header, data, sizeof header);
  if (memcmp(header.magic, kMagic, sizeof kMagic) != 0)
    return makeError("not a plan file: it does not start with 'DTPLAN'");
  if (header.endian != kEndianMark)
    return makeError("plan file has another byte order");
  if (header.major != kFormatMajor || header.minor > kFormatMinor)
    return makeError("plan format ", header.major, ".", header.minor,
                     " cannot be read; this library reads ", kFormatMajor, ".0",
                     " to ", kFormatMajor, ".", kFormatMinor);
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

Status PlanReader::State::checkSum(const SectionEntry &entry,
                                   const std::string &name) const {
  if (XXH3_64bits(data + entry.offset, entry.size) == entry.checksum)
    return {};
  return makeError(name, " is damaged: its checksum does not match");
}

Status PlanReader::State::load() {
  if (!mapping) {
    data = reinterpret_cast<const uint8_t *>(bytes.data());
    size = bytes.size();
  }
  DTRT_RETURN_IF_ERROR(checkHeader());
  std::vector<SectionEntry> table(header.sectionCount);
  uint64_t tableBytes = table.size() * sizeof(SectionEntry);
  memcpy(table.data(), data + header.tableOffset, tableBytes);
  XXH3_state_t hash;
  XXH3_128bits_reset(&hash);
  XXH3_128bits_update(&hash, &header, kDigestOffset);
  XXH3_128bits_update(&hash, table.data(), tableBytes);
  XXH128_hash_t computed = XXH3_128bits_digest(&hash);
  if (computed.low64 != header.digest[0] || computed.high64 != header.digest[1])
    return makeError("plan file is damaged: the digest of its header and "
                     "section table does not match");
  digest = {header.digest[0], header.digest[1]};
  DTRT_RETURN_IF_ERROR(checkTable(table));
  SectionEntry last = table.back();
  DTRT_RETURN_IF_ERROR(checkSum(last, "common section"));
  auto decoded = decodeCommon(data + last.offset, last.size);
  DTRT_RETURN_IF_ERROR(decoded);
  common = std::move(*decoded);
  DTRT_RETURN_IF_ERROR(checkCommon(common));
  table.pop_back();
  programs = std::move(table);
  for (const SectionEntry &entry : programs)
    devices.push_back(entry.device);
  return {};
}

PlanReader::PlanReader(std::unique_ptr<State> state)
    : state(std::move(state)) {}
PlanReader::PlanReader(PlanReader &&) noexcept = default;
PlanReader &PlanReader::operator=(PlanReader &&) noexcept = default;
PlanReader::~PlanReader() = default;

Result<PlanReader> PlanReader::open(const std::string &path) {
  auto state = std::make_unique<State>();
  if (path == "-")
    DTRT_RETURN_IF_ERROR(state->readStandardInput());
  else
    DTRT_RETURN_IF_ERROR(state->map(path));
  Status status = state->load();
  if (!status.ok())
    return makeError(path == "-" ? "standard input" : path, ": ",
                     status.message());
  return PlanReader(std::move(state));
}

Result<PlanReader> PlanReader::fromBytes(std::string bytes) {
  auto state = std::make_unique<State>();
  state->bytes = std::move(bytes);
  DTRT_RETURN_IF_ERROR(state->load());
  return PlanReader(std::move(state));
}

const PlanCommon &PlanReader::common() const { return state->common; }
const Digest &PlanReader::digest() const { return state->digest; }
uint16_t PlanReader::formatMajor() const { return state->header.major; }
uint16_t PlanReader::formatMinor() const { return state->header.minor; }
const std::vector<uint32_t> &PlanReader::devices() const {
  return state->devices;
}

namespace {
std::string programName(uint32_t device) {
  return "program of device " + std::to_string(device);
}
} // namespace

Status PlanReader::checkSections() const {
  for (const SectionEntry &entry : state->programs)
    DTRT_RETURN_IF_ERROR(state->checkSum(entry, programName(entry.device)));
  return {};
}

Result<RankProgram> PlanReader::program(uint32_t device) const {
  auto found =
      std::lower_bound(state->devices.begin(), state->devices.end(), device);
  if (found == state->devices.end() || *found != device)
    return makeError("device ", device, " has no program in this plan");
  const SectionEntry &entry = state->programs[found - state->devices.begin()];
  std::string name = programName(device);
  DTRT_RETURN_IF_ERROR(state->checkSum(entry, name));
  auto program = decodeProgram(state->data + entry.offset, entry.size);
  if (!program.ok())
    return makeError(name, ": ", program.status().message());
  if (program->device != device)
    return makeError(name, " says that it is that of device ", program->device);
  DTRT_RETURN_IF_ERROR(checkProgram(state->common, state->devices, *program));
  return program;
}

std::string digestText(const Digest &digest) {
  char text[33];
  snprintf(text, sizeof text, "%016llx%016llx",
           static_cast<unsigned long long>(digest[1]),
           static_cast<unsigned long long>(digest[0]));
  return text;
}

} // namespace dtrt
