//===- PlanWriter.cpp - Writing plan files, one program at a time ---------===//

#include "dtrt/format/PlanWriter.h"
#include "FileLayout.h"
#include "PlanCheck.h"
#include "SectionEncoder.h"
#include "SectionFrame.h"
#include "dtrt/format/Features.h"
#include "dtrt/format/OutputFile.h"
#include "dtrt/format/PlanReader.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>
#include <optional>

namespace dtrt {

/// Either a string in memory or a file.
struct PlanWriter::State {
  std::optional<OutputFile> file;
  std::string *bytes = nullptr;
  size_t bytesStart = 0;
  uint64_t position = 0;
  std::vector<SectionEntry> table;
  FeatureSet features = 0;  // of the programs
  bool isPreviewed = false; // all of it that is written

  Status write(const void *data, size_t size) {
    position += size;
    if (!bytes)
      return file->write(data, size);
    bytes->append(static_cast<const char *>(data), size);
    return {};
  }

  Status addSection(SectionKind kind, const EncodedProgram &section) {
    table.push_back({uint32_t(kind), section.device, position,
                     section.bytes.size(), section.checksum});
    return write(section.bytes.data(), section.bytes.size());
  }

  Status writeHeader(const Header &header) {
    if (!bytes)
      return file->rewrite(0, &header, sizeof header);
    memcpy(&(*bytes)[bytesStart], &header, sizeof header);
    return {};
  }

  /// Takes back what was written from a position on.
  Status cutAt(uint64_t at) {
    position = at;
    if (!bytes)
      return file->truncate(at);
    bytes->resize(bytesStart + at);
    return {};
  }

  /// Writes the common section, the table and the header.
  Status close(const PlanCommon &common);
  /// Takes these back; `end` is where the programs end.
  Status open(uint64_t end);
  Result<PlanReader> read();
  /// Closes the file, and publishes it where it says what it was given.
  Status closeForGood(const PlanCommon &common);
  Status publish() { return bytes ? Status() : file->publish(); }
};

namespace {
Header makeHeader(const PlanCommon &common, FeatureSet features,
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
  header.features = features;
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
/// Padded to the alignment of sections.
std::string sectionOf(const flatbuffers::FlatBufferBuilder &builder) {
  size_t size = builder.GetSize();
  size_t padding =
      (kSectionAlignment - size % kSectionAlignment) % kSectionAlignment;
  std::string out;
  out.reserve(size + padding);
  out.append(reinterpret_cast<const char *>(builder.GetBufferPointer()), size);
  out.append(padding, '\0');
  return out;
}

EncodedProgram sealSection(uint32_t device, std::string bytes) {
  EncodedProgram out;
  out.device = device;
  out.bytes = std::move(bytes);
  out.checksum = XXH3_64bits(out.bytes.data(), out.bytes.size());
  return out;
}
} // namespace

Result<EncodedProgram> encodeSection(const RankProgram &program) {
  flatbuffers::FlatBufferBuilder builder(1 << 14);
  DTRT_RETURN_IF_ERROR(encodeProgram(program, builder));
  std::string section = sectionOf(builder), frame;
  if (section.size() >= kLeastCompressed)
    frame = compressSection(section);
  bool isCompressed = !frame.empty();
  EncodedProgram out =
      sealSection(program.device, std::move(isCompressed ? frame : section));
  out.features = featuresOf(program);
  if (isCompressed)
    out.features |= bitOf(Feature::CompressedPrograms);
  return out;
}

EncodedProgram storedSection(uint32_t device, std::string bytes,
                             FeatureSet features) {
  EncodedProgram out = sealSection(device, std::move(bytes));
  out.features = features;
  return out;
}

std::string encodeCommonSection(const PlanCommon &common) {
  flatbuffers::FlatBufferBuilder builder(1 << 14);
  encodeCommon(common, featuresOf(common), builder);
  return sectionOf(builder);
}

namespace {
/// A common part but for what is proved of the plan.
std::string withoutProof(PlanCommon common) {
  PlanSummary &summary = common.summary;
  summary.coverage = summary.deadlockFree = summary.memorySafe = "";
  summary.solver = summary.verifier = "";
  summary.solverSteps = 0;
  return encodeCommonSection(common);
}
} // namespace

PlanWriter::PlanWriter(std::unique_ptr<State> state)
    : state(std::move(state)) {}
PlanWriter::PlanWriter(PlanWriter &&) noexcept = default;
PlanWriter &PlanWriter::operator=(PlanWriter &&) noexcept = default;
PlanWriter::~PlanWriter() = default;

Result<PlanWriter> PlanWriter::create(const std::string &path) {
  auto file = OutputFile::create(path);
  DTRT_RETURN_IF_ERROR(file);
  auto state = std::make_unique<State>();
  state->file.emplace(std::move(*file));
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
  state->features |= program.features;
  state->isPreviewed = false;
  return state->addSection(SectionKind::Program, program);
}

Status PlanWriter::State::close(const PlanCommon &common) {
  DTRT_RETURN_IF_ERROR(checkCommon(common)); // else no reader would take it
  flatbuffers::FlatBufferBuilder builder(1 << 14);
  FeatureSet all = features | featuresOf(common);
  encodeCommon(common, all, builder);
  DTRT_RETURN_IF_ERROR(
      addSection(SectionKind::Common, sealSection(0, sectionOf(builder))));
  Header header = makeHeader(common, all, table, position);
  DTRT_RETURN_IF_ERROR(
      write(table.data(), table.size() * sizeof(SectionEntry)));
  return writeHeader(header);
}

Status PlanWriter::State::open(uint64_t end) {
  table.pop_back();
  return cutAt(end);
}

/// The plan as it has been written so far.
Result<PlanReader> PlanWriter::State::read() {
  if (bytes)
    return PlanReader::fromBytes(bytes->substr(bytesStart));
  auto path = file->readablePath();
  DTRT_RETURN_IF_ERROR(path);
  return PlanReader::open(*path);
}

Status PlanWriter::preview(const PlanCommon &common, const Look &look) {
  uint64_t end = state->position;
  DTRT_RETURN_IF_ERROR(state->close(common));
  auto plan = state->read();
  DTRT_RETURN_IF_ERROR(plan);
  auto features = look(*plan);
  DTRT_RETURN_IF_ERROR(features);
  state->features = *features;
  state->isPreviewed = true;
  return state->open(end);
}

Status PlanWriter::State::closeForGood(const PlanCommon &common) {
  DTRT_RETURN_IF_ERROR(close(common));
  auto written = read();
  DTRT_RETURN_IF_ERROR(written);
  if (encodeCommonSection(written->common()) != encodeCommonSection(common))
    return makeError("the common part of the plan reads otherwise than it was "
                     "written");
  return publish();
}

Status PlanWriter::finishPreviewed(const PlanCommon &common) {
  if (!state->isPreviewed)
    return makeError("the plan has been written to since it was previewed");
  return state->closeForGood(common);
}

Status PlanWriter::finish(const PlanCommon &common, const Check &check) {
  uint64_t end = state->position;
  DTRT_RETURN_IF_ERROR(state->close(common));
  if (!check)
    return state->publish();
  auto plan = state->read();
  DTRT_RETURN_IF_ERROR(plan);
  auto checked = check(*plan);
  DTRT_RETURN_IF_ERROR(checked);
  if (withoutProof(*checked) != withoutProof(plan->common()))
    return makeError("the check of the plan returned another common part than "
                     "it was given");
  DTRT_RETURN_IF_ERROR(state->open(end));
  return state->closeForGood(*checked);
}

} // namespace dtrt
