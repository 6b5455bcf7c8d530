//===- PlanBytes.h - The outer shape of a plan file -------------*- C++ -*-===//
//
// For tests that damage a file on purpose, behind right checksums.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TEST_PLANBYTES_H
#define DTRT_TEST_PLANBYTES_H

#include "FileLayout.h"

#include "dtrt/format/Features.h"

#include <optional>
#include <string>
#include <vector>

namespace dtrt::test {

/// Of a whole file.
Header &headerOf(std::string &bytes);
SectionEntry *tableOf(std::string &bytes);
/// Makes checksums and digest right again after tampering.
void reseal(std::string &bytes);

/// A file taken apart: what each section holds, behind right sizes, checksums
/// and digest when it is put together again.
struct PlanSections {
  struct Program {
    uint32_t device = 0;
    std::string bytes;         // decompressed
    bool isCompressed = false; // in the file, where that makes it smaller
  };
  Header header = {}; // as PlanWriter begins it
  std::vector<Program> programs;
  std::string common;

  PlanSections();
  /// Nothing where header and table do not say where the sections are. What
  /// does not decompress stays as it is.
  static std::optional<PlanSections> split(const std::string &bytes);
  /// Sections are padded to their alignment.
  std::string join() const;
};

/// The file of a plan that PlanWriter may refuse; fails where it cannot even be
/// written down.
Result<std::string> encodePlan(const PlanCommon &common,
                               const std::vector<RankProgram> &programs);
/// The features that a file states, as a program would find them in it.
FeatureSet featuresOf(const PlanCommon &common,
                      const std::vector<RankProgram> &programs);
/// The same, stating these features.
Result<std::string> encodePlan(const PlanCommon &common,
                               const std::vector<RankProgram> &programs,
                               FeatureSet features);

/// A plan that can be read, with its programs compressed, small ones too.
Result<std::string> withCompressedPrograms(const std::string &plan);

/// The first error that reading all of a file gives; empty when there is none.
std::string readAll(std::string bytes);

} // namespace dtrt::test

#endif // DTRT_TEST_PLANBYTES_H
