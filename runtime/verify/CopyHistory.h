//===- CopyHistory.h - Who has a copy of what, and when ---------*- C++ -*-===//

#ifndef DTRT_LIB_VERIFY_COPYHISTORY_H
#define DTRT_LIB_VERIFY_COPYHISTORY_H

#include "BoxList.h"
#include "Steps.h"
#include "dtrt/verify/Losses.h"

#include <optional>

namespace dtrt {

/// What happens to the elements of a box on a device.
struct CopyEvent {
  enum class Kind : uint8_t {
    Held,     // in a source shard, from the start
    Released, // from that shard, at `begin`
    Staged,   // in [begin, end), beside what the shards have
    Brought   // to a destination shard or its staging, at `begin`, for good
  };
  Kind kind = Kind::Held;
  uint32_t device = 0;
  uint32_t shard = 0; // of the source; Held and Released only
  uint64_t states = 0;
  Moment begin = kAtStart, end = kForever;
};

/// Of one family; event e is of box e.
struct FamilyHistory {
  BoxList boxes;
  std::vector<CopyEvent> events;
};

/// All programs of a plan, family by family.
class CopyHistory {
public:
  explicit CopyHistory(const PlanCommon &common)
      : common(common), histories(common.families.size()) {}

  /// Fails where it unpacks what no message brought, or where this takes more
  /// steps, or boxes more memory, than a program of this size should.
  Status add(const RankProgram &program, Steps &steps);

  /// Adds all programs of a plan, and calls visit(program) for each.
  template <typename Visit> Status addAll(const PlanReader &plan, Visit visit) {
    for (uint32_t device : plan.devices()) {
      auto program = plan.program(device);
      DTRT_RETURN_IF_ERROR(program);
      Steps steps = Steps::forProgram(*program);
      DTRT_RETURN_IF_ERROR(add(*program, steps));
      visit(*program);
    }
    return {};
  }
  /// Looks at events that cutting boxes may take.
  Steps cuttingSteps() const;

  const FamilyHistory &of(size_t family) const { return histories[family]; }
  /// Those after a wave, ascending, each once.
  std::vector<Moment> waveMoments() const;

  /// As in PlanLosses.
  std::optional<Moment> firstRelease;
  uint32_t releasingDevice = 0;

private:
  friend class CopyReader;
  void noteRelease(Moment moment, uint32_t device);
  /// How many boxes of so many dims there is room for.
  uint64_t boxesLeft(size_t rank) const;
  Status charge(uint64_t boxes, size_t rank);

  const PlanCommon &common;
  std::vector<FamilyHistory> histories;
  std::vector<Moment> waves;
  uint64_t room = 0, used = 0; // numbers in memory
  uint64_t items = 0;          // of all programs
};

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_COPYHISTORY_H
