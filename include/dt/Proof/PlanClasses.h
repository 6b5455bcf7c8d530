//===- PlanClasses.h - What a solver is asked of one plan -------*- C++ -*-===//
//
// The lemmas (Obligations.h) hold for any plan that keeps the rules. Here are
// obligations of one plan, with its own numbers: not per instance, but per
// class, quantified over the waves, slots, devices and pieces in it. A plan
// that is wrong makes one of them satisfiable.
//
// What is alike up to a shift is one class, so their number follows the kinds
// of things in a plan and not its ranks. A solver does not need many of them to
// be slow: of ways to cut a shard it gets those that most devices share.
//
//===----------------------------------------------------------------------===//

#ifndef DT_PROOF_PLANCLASSES_H
#define DT_PROOF_PLANCLASSES_H

#include "dt/Geometry/Pieces.h"
#include "dt/Proof/Certificate.h"
#include "dt/Proof/Obligations.h"

#include <array>

namespace dt {

/// Waves first, first + step, ..., `count` of them, in program order.
struct WaveClass {
  int64_t first = 0;
  int64_t step = 1;
  int64_t count = 0;
  int64_t perPair = 0; // most messages of an ordered pair in a group
  int64_t perRank = 0; // most messages of a rank in a group, out and in
};

/// Bytes of a device that are in use from one half step of its time to another
/// (SlotUses.h).
struct ArenaSlot {
  Interval bytes;
  int64_t first = 0, last = 0;
};

/// Arenas whose areas, {send, receive} x {even, odd group}, follow one another
/// in one order. Area 2 * receive + odd ends where the next one begins, or
/// before.
struct ArenaClass {
  std::vector<unsigned> order; // areas in use, by their first byte
  int64_t devices = 0;
  int64_t peak = 0; // most bytes of any
  /// Of a device whose areas overlap, which is a class of its own: all slots,
  /// and pairs of them of which one is unpacked before the other is packed.
  std::vector<ArenaSlot> slots;
  std::vector<std::pair<size_t, size_t>> ordered;
};

/// How pieces fill what devices want of a flow, up to a shift.
struct CoverClass {
  std::string flow;
  int64_t users = 0;            // (flow, device) pairs that are cut like this
  unsigned rank = 0;            // dims
  std::vector<RowClass> pieces; // columns: offset per dim, size per dim
  std::vector<int64_t> volumes; // elements of each class, all pieces
  int64_t wanted = 0;
};

struct PlanClasses {
  int64_t stagingLimit = 0;
  std::vector<WaveClass> waves;
  std::vector<ArenaClass> arenas;
  /// Devices whose areas overlap and that have many slots, or that are many:
  /// the code that looks up every slot stands for these.
  int64_t otherArenas = 0;
  std::vector<CoverClass> covers;
  /// (flow, device) pairs that are cut in ways that are no few affine classes
  /// (ZeRO ranges), or that few share in a large plan: the lemmas on coverage
  /// stand for these, and the code that checks what they suppose.
  int64_t otherCovers = 0;
};

PlanClasses classify(const Arrivals &arrivals,
                     const std::vector<PlanSlot> &slots, const Wanted &wanted,
                     int64_t stagingLimit);

} // namespace dt

#endif // DT_PROOF_PLANCLASSES_H
