//===- SlotUses.h - When slots of staging are in use ------------*- C++ -*-===//
//
// The time of a device in half steps: 2 g while its group g runs, 2 g + 1
// between that one and the next. A send slot is in use from its pack on, which
// may come while the group before its own runs, or after that group where it
// reads what that group brings. A receive slot is in use until its unpack,
// which may come while the group after its own runs, or before that group where
// it sends what is unpacked. And a pack comes after the unpack of what it
// reads. The slot of a message that is relayed is in use from the group that
// receives it to the one that sends it on.
//
// That copies of what was received come after its unpack is not counted on.
//
//===----------------------------------------------------------------------===//

#ifndef DT_PROOF_SLOTUSES_H
#define DT_PROOF_SLOTUSES_H

#include "dt/Proof/TransportPlan.h"

#include <mutex>
#include <tuple>

namespace dt {

/// What receivers pass on. Looks at pieces only when it is asked.
class Forwards {
public:
  /// `pieces` are placed; they must outlive this.
  explicit Forwards(const std::vector<PlanPiece> &pieces) : pieces(pieces) {}

  /// Whether a send of a device reads, where it came to, something that a
  /// receive of the same device brought. May be called from several threads.
  bool feeds(const PlanSlot &receive, const PlanSlot &send) const;

private:
  using Key = std::tuple<int64_t, int64_t, int64_t>; // wave, from, to
  using Entry = std::pair<Key, const PlanPiece *>;
  std::pair<const Entry *, const Entry *> messageOf(const PlanSlot &slot) const;

  const std::vector<PlanPiece> &pieces;
  mutable std::once_flag isIndexed;
  mutable std::vector<Entry> index;
};

/// A slot while it may be in use.
struct SlotUse {
  const PlanSlot *slot = nullptr;
  int64_t group = 0;           // number of its group among those of its device
  int64_t first = 0, last = 0; // half steps

  int64_t begin() const { return slot->offset; }
  int64_t end() const { return slot->offset + slot->bytes; }
  /// In which they are named.
  std::tuple<int64_t, bool, int64_t> order() const {
    return {group, slot->receive, begin()};
  }
};

/// The staged slots of one device, in their order. `ends` are all ends of its
/// messages. Without forwards uses are as long as they may be.
std::vector<SlotUse> slotUses(std::vector<const PlanSlot *> ends,
                              const Forwards *forwards = nullptr);

/// Two uses, by number, the older first.
using SlotPair = std::pair<size_t, size_t>;

/// Pairs that share a byte at a time when both may be in use, which `forwards`
/// keep apart if there are any.
std::vector<SlotPair> slotsThatMeet(const std::vector<SlotUse> &uses,
                                    const Forwards *forwards = nullptr);

} // namespace dt

#endif // DT_PROOF_SLOTUSES_H
