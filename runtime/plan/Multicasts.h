//===- Multicasts.h - How many multicasts do programs make? -----*- C++ -*-===//

#ifndef DTRT_LIB_PLAN_MULTICASTS_H
#define DTRT_LIB_PLAN_MULTICASTS_H

#include "dtrt/PlanFile.h"

#include <map>

namespace dtrt {

/// Counts what PlanSummary::collectives defines, in right programs. A segment
/// that is sent from the destination side has been received before, or copied:
/// its first element stands for it. Two passes over the programs: one finds
/// these elements, the next the messages that carry them.
class MulticastCounter {
public:
  /// A segment that a message sends.
  void addSent(const Segment &segment);
  /// Whether a second pass is needed.
  bool anyPassedOn() const { return !wanted.empty(); }
  /// What another counter has seen in its first pass.
  void addSent(MulticastCounter &&other);
  /// Ends the first pass.
  void sortPassedOn();
  /// The messages of one program, second pass.
  void addProgram(const PlanCommon &common, const RankProgram &program);
  /// What a copy of this counter has seen in its second pass.
  void addEnds(const MulticastCounter &copy);
  uint64_t count() const;

private:
  /// Elements of one family that are passed on in these states.
  struct Key {
    uint32_t family = 0;
    uint64_t states = 0;
    bool operator<(const Key &o) const {
      return family != o.family ? family < o.family : states < o.states;
    }
  };
  struct Elements {
    std::vector<std::vector<int64_t>> places; // sorted
    /// Per place: (device, receives).
    std::vector<std::vector<std::pair<uint32_t, bool>>> ends;
  };

  void addCarried(const Segment &segment, uint32_t source,
                  uint32_t destination);
  static void find(Elements &elements, const Segment &segment, size_t first,
                   size_t last, unsigned dim, uint32_t source,
                   uint32_t destination);

  std::map<Key, Elements> wanted;
};

} // namespace dtrt

#endif // DTRT_LIB_PLAN_MULTICASTS_H
