//===- PlanWriter.cpp - Writing plan files, one program at a time ---------===//

#include "FileLayout.h"
#include "SectionEncoder.h"
#include "dtrt/PlanFile.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>

namespace dtrt {

/// Either a string in memory or a temporary file; the file gets its final
/// name, or is copied to a stream, at the very end.
struct PlanWriter::State {
  std::string path;
  std::string temporary; // empty: the file has no name, and is copied
  FILE *file = nullptr;
  std::string *bytes = nullptr;
  size_t bytesStart = 0;
  uint64_t position = 0;
  std::vector<SectionEntry> table;

  ~State() {
    if (file)
      fclose(file);
    if (!temporary.empty())
      unlink(temporary.c_str());
  }

  Status systemError(const char *what) const {
    return makeError("cannot ", what, " '", path, "': ", strerror(errno));
  }

  Status write(const void *data, size_t size) {
    position += size;
    if (bytes)
      bytes->append(static_cast<const char *>(data), size);
    else if (fwrite(data, 1, size, file) != size)
      return systemError("write");
    return {};
  }

  Status addSection(SectionKind kind, const EncodedProgram &section) {
    table.push_back({uint32_t(kind), section.device, position,
                     section.bytes.size(), section.checksum});
    return write(section.bytes.data(), section.bytes.size());
  }

  Status writeHeader(const Header &header) {
    if (bytes) {
      memcpy(&(*bytes)[bytesStart], &header, sizeof header);
      return {};
    }
    if (fseek(file, 0, SEEK_SET) != 0 ||
        fwrite(&header, 1, sizeof header, file) != sizeof header ||
        fflush(file) != 0)
      return systemError("write");
    return {};
  }

  Status publish() {
    if (bytes)
      return {};
    if (path == "-")
      return copyTo(stdout);
    if (temporary.empty())
      return copyToPath();
    FILE *written = file;
    file = nullptr;
    if (fclose(written) != 0)
      return systemError("write");
    if (rename(temporary.c_str(), path.c_str()) != 0)
      return systemError("create");
    temporary.clear();
    return {};
  }

  Status copyTo(FILE *out) {
    std::vector<char> buffer(1 << 20);
    rewind(file);
    while (size_t read = fread(buffer.data(), 1, buffer.size(), file))
      if (fwrite(buffer.data(), 1, read, out) != read)
        return systemError("write");
    if (ferror(file) || fflush(out) != 0)
      return systemError("write");
    return {};
  }

  Status copyToPath() {
    FILE *out = fopen(path.c_str(), "wb");
    if (!out)
      return systemError("open");
    Status status = copyTo(out);
    if (fclose(out) != 0 && status.ok())
      return systemError("write");
    return status;
  }
};

namespace {
Header makeHeader(const PlanCommon &common,
                  const std::vector<SectionEntry> &table, uint64_t end) {
  Header header = {};
  memcpy(header.magic, kMagic, sizeof kMagic);
  header.endian = kEndianMark;
  header.major = kFormatMajor;
  header.minor = kFormatMinor;
  header.headerSize = sizeof(Header);
  header.sectionCount = uint32_t(table.size());
  header.tableOffset = end;
  uint64_t tableBytes = table.size() * sizeof(SectionEntry);
  header.fileSize = end + tableBytes;
  common.compilerVersion.copy(header.compilerVersion,
                              sizeof header.compilerVersion - 1);
  XXH3_state_t hash;
  XXH3_128bits_reset(&hash);
  XXH3_128bits_update(&hash, &header, kDigestOffset);
  XXH3_128bits_update(&hash, table.data(), tableBytes);
  XXH128_hash_t digest = XXH3_128bits_digest(&hash);
  header.digest[0] = digest.low64;
  header.digest[1] = digest.high64;
  return header;
}
} // namespace

namespace {
EncodedProgram sealSection(uint32_t device,
                           const flatbuffers::FlatBufferBuilder &builder) {
  EncodedProgram out;
  out.device = device;
  size_t size = builder.GetSize();
  size_t padding =
      (kSectionAlignment - size % kSectionAlignment) % kSectionAlignment;
  out.bytes.reserve(size + padding);
  out.bytes.append(reinterpret_cast<const char *>(builder.GetBufferPointer()),
                   size);
  out.bytes.append(padding, '\0');
  out.checksum = XXH3_64bits(out.bytes.data(), out.bytes.size());
  return out;
}
} // namespace

Result<EncodedProgram> encodeSection(const RankProgram &program) {
  flatbuffers::FlatBufferBuilder builder(1 << 14);
  DTRT_RETURN_IF_ERROR(encodeProgram(program, builder));
  return sealSection(program.device, builder);
}

PlanWriter::PlanWriter(std::unique_ptr<State> state)
    : state(std::move(state)) {}
PlanWriter::PlanWriter(PlanWriter &&) noexcept = default;
PlanWriter &PlanWriter::operator=(PlanWriter &&) noexcept = default;
PlanWriter::~PlanWriter() = default;

/// A device or a pipe is written to: a new file in its place would be no use to
/// who reads from it.
static bool isStream(const std::string &path) {
  struct stat found;
  return path == "-" || (stat(path.c_str(), &found) == 0 &&
                         !S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode));
}

Result<PlanWriter> PlanWriter::create(const std::string &path) {
  auto state = std::make_unique<State>();
  state->path = path;
  if (isStream(path)) {
    state->file = tmpfile();
  } else {
    state->temporary = path + ".tmp." + std::to_string(getpid());
    state->file = fopen(state->temporary.c_str(), "wb");
  }
  if (!state->file) {
    state->temporary.clear();
    return state->systemError("create");
  }
  Header blank = {};
  DTRT_RETURN_IF_ERROR(state->write(&blank, sizeof blank));
  return PlanWriter(std::move(state));
}

PlanWriter PlanWriter::toBytes(std::string &out) {
  auto state = std::make_unique<State>();
  state->bytes = &out;
  state->bytesStart = out.size();
  out.append(sizeof(Header), '\0');
  state->position = sizeof(Header);
  return PlanWriter(std::move(state));
}

Status PlanWriter::addProgram(const RankProgram &program) {
  auto encoded = encodeSection(program);
  return encoded.ok() ? addProgram(*encoded) : encoded.status();
}

Status PlanWriter::addProgram(const EncodedProgram &program) {
  if (!state->table.empty() && state->table.back().device >= program.device)
    return makeError("program of device ", program.device,
                     " comes after that of device ", state->table.back().device,
                     ": expected ascending devices");
  return state->addSection(SectionKind::Program, program);
}

Status PlanWriter::finish(const PlanCommon &common) {
  flatbuffers::FlatBufferBuilder builder(1 << 14);
  encodeCommon(common, builder);
  DTRT_RETURN_IF_ERROR(
      state->addSection(SectionKind::Common, sealSection(0, builder)));
  Header header = makeHeader(common, state->table, state->position);
  DTRT_RETURN_IF_ERROR(state->write(
      state->table.data(), state->table.size() * sizeof(SectionEntry)));
  DTRT_RETURN_IF_ERROR(state->writeHeader(header));
  return state->publish();
}

} // namespace dtrt
