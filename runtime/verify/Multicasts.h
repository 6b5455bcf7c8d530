//===- Multicasts.h - How many multicasts do programs make? -----*- C++ -*-===//
//
// Counts what PlanSummary::multicasts defines, in right programs. A segment
// that is sent from the destination side has been received before, or copied:
// its first element stands for it. Two passes over the programs: one finds
// these elements, the next the messages that carry them.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_VERIFY_MULTICASTS_H
#define DTRT_LIB_VERIFY_MULTICASTS_H

#include "Carried.h"
#include "Steps.h"

#include <map>
#include <set>

namespace dtrt {

/// The elements that stand for what is passed on: the first pass.
class PassedOn {
public:
  using Place = DimVector;
  /// Elements of one family that are passed on in these states.
  struct Elements {
    uint32_t family = 0;
    uint64_t states = 0;
    std::vector<Place> places;
  };

  /// A segment that a message sends.
  void addSent(const Segment &segment);
  /// What another has seen.
  void add(PassedOn &&other);
  void add(const PassedOn &other);
  bool empty() const { return wanted.empty(); }
  /// All of it, by family; places ascend, each once. Leaves nothing here.
  std::vector<Elements> take();

private:
  std::map<std::pair<uint32_t, uint64_t>, std::vector<Place>> wanted;
};

/// The messages that carry these elements: the second pass. Threads may count
/// some programs each, in counters of their own.
class MulticastCounter {
public:
  /// The elements, as `PassedOn::take` gives them, must outlive this.
  explicit MulticastCounter(const std::vector<PassedOn::Elements> &passedOn);

  /// The messages that one program sends; the steps that it took. Fails when
  /// these are too many, each of which may leave two ends in memory.
  Result<uint64_t> addProgram(const PlanCommon &common,
                              const RankProgram &program, uint64_t mostSteps);
  /// The same, by what its messages carry.
  Result<uint64_t> addCarried(const Carried &carried, uint64_t mostSteps);

  /// A device that has to do with an element: the place of the element, which
  /// is below 2^31, the device, and whether it receives. There may be hundreds
  /// of millions.
  using End = uint64_t;
  static size_t placeOf(End end) { return end >> 33; }
  /// By number of the elements; leaves none here.
  std::vector<std::vector<End>> takeEnds();

  /// Devices that share something, ascending.
  using Devices = std::vector<uint32_t>;
  /// Those of the ends of one element, which it sorts, where one of them passes
  /// it on; none elsewhere.
  static Devices sharersOf(End *first, End *last);
  /// Those of each element that is passed on, by counters of the same elements;
  /// leaves nothing in them.
  static std::set<Devices> sets(std::vector<MulticastCounter> &counters);

private:
  static End makeEnd(uint32_t place, uint32_t device, bool receives) {
    return uint64_t(place) << 33 | uint64_t(device) << 1 | uint64_t(receives);
  }
  /// All ends of the elements of one number in `passedOn`, place by place;
  /// leaves none of them.
  static std::vector<End> takeByPlace(std::vector<MulticastCounter> &counters,
                                      size_t number);
  template <typename ForEach>
  Result<uint64_t> addAll(uint32_t device, uint64_t mostSteps,
                          const ForEach &forEach);
  void addOne(const Segment &segment, uint32_t source, uint32_t destination,
              Steps &steps);

  /// Where all places of some elements lie.
  struct Bounds {
    DimVector first, last;
    explicit Bounds(const std::vector<PassedOn::Place> &places);
    bool meet(const Segment &segment) const;
  };

  const std::vector<PassedOn::Elements> &passedOn;
  std::vector<Bounds> bounds; // as in `passedOn`
  std::vector<std::vector<End>> ends;
  /// Whether the program at hand has sent the element.
  std::vector<std::vector<bool>> isSent;
};

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_MULTICASTS_H
