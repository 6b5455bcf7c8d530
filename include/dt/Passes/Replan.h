//===- Replan.h - What is to be kept of an old plan -------------*- C++ -*-===//
//
// A compilation that starts from a plan file: what routes and schedules keeps
// what that plan did where it is right still, and says here what became of it.
// All else, checks and proofs included, is as in any compilation.
//
//===----------------------------------------------------------------------===//

#ifndef DT_PASSES_REPLAN_H
#define DT_PASSES_REPLAN_H

#include "dt/Routing/OldRoute.h"
#include "dtrt/format/PlanReader.h"
#include "dtrt/verify/VerifiedPrograms.h"

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace llvm::json {
class OStream;
} // namespace llvm::json

namespace dt {

/// Programs of a plan that have been read, by device.
using HeldPrograms =
    std::unordered_map<uint32_t, std::shared_ptr<const dtrt::RankProgram>>;

struct ReadPrograms;

struct Replan {
  explicit Replan(std::shared_ptr<const dtrt::PlanReader> plan)
      : plan(std::move(plan)) {}

  std::shared_ptr<const dtrt::PlanReader> plan; // the old one
  /// What it moved, in the flows of the new transition, as RouteTransfers has
  /// read it. Empty: nothing can be kept.
  OldMoves moves;
  bool keepsMoves() const { return !moves.empty(); }

  /// Programs that this process has verified, of plans like the old one; null:
  /// none.
  std::shared_ptr<dtrt::VerifiedPrograms> known;
  /// Whether those of the new plan take the place of the old one's there.
  bool replacesKnown = false;
  /// Those of the old plan that need not be read again; null: none.
  std::shared_ptr<const HeldPrograms> held;
  /// The same, as requests that are expected have their messages; null: none.
  std::shared_ptr<const ReadPrograms> ahead;
  /// Where no programs can be copied: from zero, not around the old plan.
  bool copiesOnly = false;

  /// Seconds that no plan of the transition goes below.
  double lowerBound = 0;
  /// Why nothing can be kept; empty where something may.
  std::string reason;
  /// Bytes of the new plan that go from where to where they went before; of
  /// them, those in the wave in which they went.
  int64_t bytesOnRoute = 0, bytesInWave = 0;
  dtrt::PlanSummary summary; // of the new plan
  /// Where sections of the old plan were copied: how many, and how many
  /// programs were made anew.
  size_t programsCopied = 0, programsMade = 0;

  /// For people: what was kept, and how far the new plan is from one that is
  /// made from zero. One line each, without its end.
  std::vector<std::string> report() const;
  /// The same as one JSON object, for programs.
  std::string reportJson() const;
  /// The members of that object.
  void writeReport(llvm::json::OStream &json) const;

private:
  /// Why nothing was kept; empty where something was.
  std::string whyFromZero() const;
};

} // namespace dt

#endif // DT_PASSES_REPLAN_H
