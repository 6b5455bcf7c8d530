//===- KnownPrograms.h - What a check of programs found ---------*- C++ -*-===//

#ifndef DTRT_LIB_VERIFY_KNOWNPROGRAMS_H
#define DTRT_LIB_VERIFY_KNOWNPROGRAMS_H

#include "ProgramVerifier.h"
#include "dtrt/format/PlanReader.h"
#include "dtrt/verify/VerifiedPrograms.h"

#include <mutex>

namespace dtrt {

/// A program that was right.
struct KnownProgram {
  StoredSum sum = {};
  RankProgram shards;   // without its instructions
  ProgramTotals totals; // without its shards
};

struct VerifiedPrograms::State {
  std::mutex mutex;
  std::string against; // what the programs were checked against
  std::unordered_map<uint32_t, KnownProgram> programs;
};

/// What is known of the programs of one plan.
class KnownPrograms {
public:
  /// `known` may be null: nothing is.
  KnownPrograms(const PlanReader &plan, VerifiedPrograms *known);

  /// What is known of a device's program; null where it has to be read. From
  /// one thread at a time.
  Result<const KnownProgram *> find(uint32_t device);
  /// From any thread. `found` is of this program alone.
  Status add(const RankProgram &program, ProgramTotals found);
  bool isAsked() const { return state != nullptr; }

private:
  bool hasItsRanks(const RankProgram &program) const;

  const PlanReader &plan;
  VerifiedPrograms::State *state;
  std::unordered_map<uint32_t, int64_t> sourceRanks, destinationRanks;
};

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_KNOWNPROGRAMS_H
