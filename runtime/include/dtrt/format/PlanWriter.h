//===- PlanWriter.h - Writing plan files ------------------------*- C++ -*-===//
//
// The format is said in PlanReader.h.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_FORMAT_PLANWRITER_H
#define DTRT_FORMAT_PLANWRITER_H

#include "dtrt/format/PlanReader.h"

#include <functional>
#include <memory>

namespace dtrt {

/// A program as its section of the file holds it.
struct EncodedProgram {
  uint32_t device = 0;
  std::string bytes; // as they are stored, padded to the sections' alignment
  uint64_t checksum = 0;
  FeatureSet features = 0;
};
/// The slow half of `PlanWriter::addProgram`: several threads may encode
/// programs while one writes them.
Result<EncodedProgram> encodeSection(const RankProgram &program);
/// A program that another plan has stored (PlanReader::storedProgram), which
/// needs no features but these.
EncodedProgram storedSection(uint32_t device, std::string bytes,
                             FeatureSet features);

/// A common part as its section of the file holds it, never compressed: two
/// parts are the same exactly if their bytes are.
std::string encodeCommonSection(const PlanCommon &common);

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
  /// Reads what is written so far as a plan with this common part, which is
  /// taken back then. `look` says which features the programs have: what copied
  /// ones need is known only when they are read.
  using Look = std::function<Result<FeatureSet>(const PlanReader &)>;
  Status preview(const PlanCommon &common, const Look &look);

  /// Finishes a plan as it was when a preview has read it, with another common
  /// part, which is read again.
  Status finishPreviewed(const PlanCommon &common);

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

} // namespace dtrt

#endif // DTRT_FORMAT_PLANWRITER_H
