//===- LossOracle.h - What a failure would lose, the slow way ---*- C++ -*-===//

#ifndef DTRT_TEST_LOSSORACLE_H
#define DTRT_TEST_LOSSORACLE_H

#include "PlanBuilder.h"

#include "dtrt/verify/Losses.h"

#include <map>
#include <set>

namespace dtrt::test {

/// An element of a tensor's state: family, state and place.
using Element = std::tuple<uint32_t, unsigned, std::vector<int64_t>>;

/// Runs all programs side by side, wave by wave, and keeps account of each
/// element on each device.
class LossOracle {
public:
  explicit LossOracle(const TestPlan &plan);

  const PlanLosses &losses() const { return found; }
  /// The devices that had an element at each moment, of those that come to a
  /// destination.
  const std::map<Element, std::vector<std::set<uint32_t>>> &holders() const {
    return holding;
  }

private:
  /// Elements of a source shard that are still there, with their positions in
  /// their member's storage.
  using Stored = std::map<std::vector<int64_t>, int64_t>;
  struct StagedElement {
    Element element;
    uint64_t width = 0;
  };
  struct Device {
    const RankProgram *program = nullptr;
    size_t next = 0;                                        // instruction
    std::map<std::pair<uint32_t, unsigned>, Stored> source; // shard, state
    std::set<Element> destination;
    std::map<uint64_t, StagedElement> staging; // by start
  };

  void fill(Device &device) const;
  void runLocal(Device &device, Moment moment);
  /// Whether it has storage of its own: a state that is made from another one
  /// has none.
  bool release(Device &device, const Segment &segment) const;
  void exchange(int32_t wave);
  static void dropSent(Device &device, const Message &message);
  static void clear(Device &device, uint64_t begin, uint64_t end);
  void observe(Moment moment);
  std::set<Element> elementsOn(const Device &device) const;
  std::vector<StagedElement> elementsOf(const Segment &segment) const;

  const PlanCommon &common;
  std::map<uint32_t, Device> devices;
  std::set<Element> wanted;
  std::map<Element, std::vector<std::set<uint32_t>>> holding;
  PlanLosses found;
};

/// Releases of anything at any place: losses are told of wrong plans too.
void releaseAnything(TestPlan &plan, std::mt19937_64 &rng);

/// A vector of 8 bf16 goes from device 0 to 1 in two messages, of waves 3 and
/// 5, and 0 lets each half go when it is packed.
TestPlan twoHalves();

} // namespace dtrt::test

#endif // DTRT_TEST_LOSSORACLE_H
