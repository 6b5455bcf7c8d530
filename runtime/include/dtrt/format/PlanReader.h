//===- PlanReader.h - Reading plan files ------------------------*- C++ -*-===//
//
// A plan file is a fixed header, one section per device program, the common
// section and a section table; all little-endian, every section 8-byte aligned
// and with a checksum of its own, so that a rank reads and verifies only what
// concerns it. Programs may be compressed, each by itself. The digest covers
// header and table, and the table the checksums: two ranks with equal digests
// have the same plan.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_FORMAT_PLANREADER_H
#define DTRT_FORMAT_PLANREADER_H

#include "dtrt/format/PlanModel.h"
#include "dtrt/types/Status.h"

#include <memory>

namespace dtrt {

/// 128 bits, lower half first.
using Digest = std::array<uint64_t, 2>;
std::string digestText(const Digest &digest);

/// How the programs of a plan are stored.
struct StoredPrograms {
  uint64_t bytes = 0;      // of their sections, decompressed
  FeatureSet features = 0; // that a plan needs for it
};

/// Reads a plan that may be damaged or hostile. What it returns has passed the
/// checksum, the FlatBuffers verifier and a check of every index, size and
/// range in it, so its users need no bounds checks; and it has unpacked to no
/// more than the size of its section allows (docs/PlanFile.md).
class PlanReader {
public:
  /// Reads small files whole, and of large ones a section when it is asked for:
  /// a file that is cut or changed meanwhile is an error of that read. "-" is
  /// standard input.
  static Result<PlanReader> open(const std::string &path);
  static Result<PlanReader> fromBytes(std::string bytes);

  PlanReader(PlanReader &&) noexcept;
  PlanReader &operator=(PlanReader &&) noexcept;
  ~PlanReader();

  const PlanCommon &common() const;
  const Digest &digest() const;
  uint16_t formatMajor() const;
  uint16_t formatMinor() const;
  /// Compares the checksums of all sections. `program` checks only its own.
  Status checkSections() const;
  /// By what the sections say of themselves: none is decompressed.
  Result<StoredPrograms> storedPrograms() const;
  /// Devices that have a program, ascending.
  const std::vector<uint32_t> &devices() const;
  /// May be called from several threads at once.
  Result<RankProgram> program(uint32_t device) const;
  /// A program's section as it is stored, once its checksum is right: what is
  /// in it nobody has looked at.
  Result<std::string> storedProgram(uint32_t device) const;

private:
  struct State;
  explicit PlanReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace dtrt

#endif // DTRT_FORMAT_PLANREADER_H
