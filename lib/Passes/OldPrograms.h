//===- OldPrograms.h - A few programs of an old plan ------------*- C++ -*-===//
//
// What devices of a plan file send each other, as a transition's flows have it,
// where both have the same families. A program is read when it is asked for:
// who changes little reads few.
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_PASSES_OLDPROGRAMS_H
#define DT_LIB_PASSES_OLDPROGRAMS_H

#include "TransitionAnalysis.h"
#include "dt/Passes/Replan.h"

#include <map>

namespace dt {

/// A part of a message, as it is packed.
struct OldPiece {
  uint32_t flow = 0;
  Box box;
  /// Its sender has received it before. Says nothing in a message that was read
  /// where it is received.
  bool isForward = false;
};

struct OldMessage {
  int32_t wave = 0;
  int64_t from = 0, to = 0;
  std::vector<OldPiece> pieces;
};

struct OldProgram {
  std::shared_ptr<const dtrt::RankProgram> program;
  std::vector<OldMessage> sent, received; // by wave
  /// Local work is [0, firstWave) and [lastWave, end) of its instructions.
  size_t firstWave = 0, lastWave = 0;
};

/// What a segment of a program names.
Box boxOf(const dtrt::Segment &segment);

class OldPrograms {
public:
  /// `info` and the plan must outlive this, and have the same families.
  OldPrograms(const TransitionInfo &info, const Replan &from);

  /// Null where the plan has none, or one that cannot be read so.
  const OldProgram *of(int64_t device);
  /// All that have one, ascending.
  const std::vector<uint32_t> &devices() const { return plan.devices(); }
  /// Why some program cannot be read so; empty: all could.
  const std::string &problem() const { return why; }

private:
  std::shared_ptr<const dtrt::RankProgram> read(uint32_t device);
  bool addPieces(const std::vector<dtrt::Segment> &segments, OldMessage &out);

  const dtrt::PlanReader &plan;
  const HeldPrograms *held;                                // null: none
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> flows; // family, states
  std::map<int64_t, std::unique_ptr<OldProgram>> programs;
  std::string why;
};

} // namespace dt

#endif // DT_LIB_PASSES_OLDPROGRAMS_H
