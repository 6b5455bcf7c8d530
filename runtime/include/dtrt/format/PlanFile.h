//===- PlanFile.h - Writing and reading plan files --------------*- C++ -*-===//
//
// A plan file is a fixed header, one section per device program, the common
// section and a section table; all little-endian, every section 8-byte aligned
// and with a checksum of its own, so that a rank maps and verifies only what
// concerns it. The digest covers header and table, and the table the checksums:
// two ranks with equal digests have the same plan.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_FORMAT_PLANFILE_H
#define DTRT_FORMAT_PLANFILE_H

#include "dtrt/format/PlanModel.h"
#include "dtrt/types/Status.h"

#include <functional>
#include <memory>

namespace dtrt {

/// 128 bits, lower half first.
using Digest = std::array<uint64_t, 2>;
std::string digestText(const Digest &digest);

/// A program as its section of the file holds it.
struct EncodedProgram {
  uint32_t device = 0;
  std::string bytes; // padded to the alignment of sections
  uint64_t checksum = 0;
  FeatureSet features = 0;
};
/// The slow half of `PlanWriter::addProgram`: several threads may encode
/// programs while one writes them.
Result<EncodedProgram> encodeSection(const RankProgram &program);

/// A common part as its section of the file holds it: two parts are the same
/// exactly if their bytes are.
std::string encodeCommonSection(const PlanCommon &common);

class PlanReader;

/// Writes a plan program by program; keeps none of them. Nothing is visible at
/// the path before `finish` has succeeded (dtrt/format/OutputFile.h).
class PlanWriter {
public:
  /// "-" is standard output. Devices and pipes get the bytes at the end.
  static Result<PlanWriter> create(const std::string &path);
  /// Gathers the file's bytes in `out`, which must outlive the writer.
  static PlanWriter toBytes(std::string &out);

  PlanWriter(PlanWriter &&) noexcept;
  PlanWriter &operator=(PlanWriter &&) noexcept;
  ~PlanWriter();

  /// Programs come in ascending device order.
  Status addProgram(const RankProgram &program);
  Status addProgram(const EncodedProgram &program);
  /// Reads what was written and says what the common part states of it.
  using Check = std::function<Result<PlanCommon>(const PlanReader &)>;

  /// Fails when the common part is one that no reader takes. With a check,
  /// the file is read again before it is visible, and the common part that
  /// the check returns takes the place of the one that it saw: what a plan
  /// states of itself is said of its own bytes. It may differ in what is
  /// proved and by what, and in nothing else, and is read again too.
  Status finish(const PlanCommon &common, const Check &check = nullptr);

private:
  struct State;
  explicit PlanWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
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
  /// Devices that have a program, ascending.
  const std::vector<uint32_t> &devices() const;
  /// May be called from several threads at once.
  Result<RankProgram> program(uint32_t device) const;

private:
  struct State;
  explicit PlanReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace dtrt

#endif // DTRT_FORMAT_PLANFILE_H
