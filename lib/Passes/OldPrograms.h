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
#include <memory>
#include <unordered_map>

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
  int64_t bytes = 0;        // of all of them, on the wire
  bool hasForwards = false; // any of them
};

struct OldProgram {
  std::shared_ptr<const dtrt::RankProgram> program;
  std::vector<OldMessage> sent, received; // by wave
  /// Local work is [0, firstWave) and [lastWave, end) of its instructions.
  size_t firstWave = 0, lastWave = 0;
};

/// The flows of a transition, by family and states, and what their elements
/// take on the wire.
struct FlowNumbers {
  explicit FlowNumbers(const TransitionInfo &info);

  std::map<std::pair<uint32_t, uint64_t>, uint32_t> numbers;
  std::vector<int64_t> bytesPerElement; // by number

  friend bool operator==(const FlowNumbers &a, const FlowNumbers &b) {
    return a.numbers == b.numbers && a.bytesPerElement == b.bytesPerElement;
  }
};

/// Programs of a plan as transitions with these flows have them.
struct ReadPrograms {
  FlowNumbers flows;
  std::unordered_map<int64_t, std::shared_ptr<const OldProgram>> programs;
};

/// Reads all programs of a plan that can be read so, before they are asked for.
std::shared_ptr<const ReadPrograms> readAhead(const TransitionInfo &info,
                                              const Replan &from);

/// What a segment of a program names.
Box boxOf(const dtrt::Segment &segment);

class OldPrograms {
public:
  /// The plan must outlive this, and have the families of `info`.
  OldPrograms(const TransitionInfo &info, const Replan &from);

  /// Null where the plan has none, or one that cannot be read so.
  const OldProgram *of(int64_t device) { return find(device).get(); }
  std::shared_ptr<const OldProgram> find(int64_t device);
  const FlowNumbers &flowNumbers() const { return flows; }
  /// All that have one, ascending.
  const std::vector<uint32_t> &devices() const { return plan.devices(); }
  /// Why some program cannot be read so; empty: all could.
  const std::string &problem() const { return why; }

private:
  std::shared_ptr<const dtrt::RankProgram> read(uint32_t device);
  bool addPieces(const std::vector<dtrt::Segment> &segments, OldMessage &out);

  const dtrt::PlanReader &plan;
  const HeldPrograms *held; // null: none
  const FlowNumbers flows;
  const ReadPrograms *ahead; // null: none with these flows
  std::unordered_map<int64_t, std::shared_ptr<const OldProgram>> programs;
  std::string why;
};

} // namespace dt

#endif // DT_LIB_PASSES_OLDPROGRAMS_H
