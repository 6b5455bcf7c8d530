//===- KnownPrograms.h - What a check of programs found ---------*- C++ -*-===//

#ifndef DTRT_LIB_VERIFY_KNOWNPROGRAMS_H
#define DTRT_LIB_VERIFY_KNOWNPROGRAMS_H

#include "CellShapes.h"
#include "KnownTogether.h"
#include "ProgramVerifier.h"
#include "dtrt/format/PlanReader.h"
#include "dtrt/verify/VerifiedPrograms.h"

#include <mutex>
#include <optional>

namespace dtrt {

/// A program that was right.
struct KnownProgram {
  std::string stored;   // its section
  RankProgram shards;   // without its instructions
  ProgramTotals totals; // without its shards
  std::optional<std::vector<ShardTable::Number>> numbers; // of its shards
};

struct VerifiedPrograms::State {
  std::mutex mutex;
  std::string against; // what the programs were checked against
  std::unordered_map<uint32_t, KnownProgram> programs;
  size_t bytes = 0; // of their sections
  std::shared_ptr<ShardNumbers> numbers;
  KnownCells cells;
  /// Of all these programs, where somebody has asked for it.
  std::shared_ptr<const KnownTogether> together;

  void forget();
};

/// The programs of a plan that are known.
struct TakenPrograms {
  std::shared_ptr<const KnownTogether> together; // null: all is in the totals
  std::vector<bool> isTaken;                     // by number there
  std::vector<const ProgramTotals *> totals;     // of those
};

/// What is known of the programs of one plan.
class KnownPrograms {
public:
  /// `known` may be null: nothing is.
  KnownPrograms(const PlanReader &plan, VerifiedPrograms *known);

  /// A table whose numbers are the same for all plans.
  ShardTable table() const;
  /// Makes room for what is known of all programs.
  void reserve(ProgramTotals &out) const;
  /// Adds what is known of a device's program; its shards, without any
  /// instructions, or null where it has to be read. From one thread at a time.
  Result<const RankProgram *> take(uint32_t device, ProgramTotals &out);
  /// What has been taken. Its ends, and what is passed on and carried, are not
  /// in the totals where it is known together.
  TakenPrograms takeTogether() { return std::move(taken); }
  /// From any thread. `found` is of this program alone.
  Status add(const RankProgram &program, ProgramTotals found);
  bool isAsked() const { return state != nullptr; }

private:
  Result<KnownProgram *> find(uint32_t device);
  bool hasItsRanks(const RankProgram &program) const;

  const PlanReader &plan;
  VerifiedPrograms::State *state;
  TakenPrograms taken;
  std::unordered_map<uint32_t, int64_t> sourceRanks, destinationRanks;
};

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_KNOWNPROGRAMS_H
