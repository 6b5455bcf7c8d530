//===- WaveProblem.h - What goes in which wave: the question ----*- C++ -*-===//
//
// Who sends what to whom is decided (RoutingProblem.h). A schedule cuts the
// moves into pieces and numbers them with waves. A wave orders the groups of
// each device; it is no barrier between devices that do not meet.
//
// **Instance.** Moves by hop, copies that devices make of what they hold, the
// bytes that an element of each flow has on the wire, the cluster, the bytes of
// staging per device. With a storage part (flat memory): what devices hold on
// both sides, how its elements are stored, the pages in which storage comes and
// goes, and how much more than the larger side a device may hold.
//
// **Solution.** Pieces with waves, in the order in which they are packed, and
// copies with waves. Copies have waves of their own, or run beside the messages
// of one.
//
// **Constraints.**
//   order     pieces ascend by wave, those of a message stand together
//   messages  at most one per ordered pair of devices and wave
//   ports     at most one message each way per port and wave, or as many as
//             fill it (Cluster::messagesPerPort); a port is the NIC of a
//             device, or of several that share it, or its island port; a
//             device has at most as many as one kernel runs
//             (dtrt/cost/KernelPlans.h)
//   cut       pieces cut what moves between two devices at one hop exactly, and
//             copies what a device copies
//   feeding   a piece of hop k > 0 goes in a later wave than what brings it to
//             its sender
//   slots     Messages wait in slots: of the group before a device's own until
//             that has run (packed, to be sent), of its own until the next one
//             has run (received, to be unpacked). So the slots of two groups
//             one after the other live at once. A device's arena has an area
//             for each of {send, receive} x {even, odd group}, as large as its
//             largest group; the four together fit the staging bytes.
//   relays    A move may be two messages, to a third device and on from there
//             in a later wave, both of the same pieces and of nothing else. It
//             waits in a slot of its own between the two (Relays.h).
//   storage   Pages of destination storage exist from the start of the wave
//             that first writes any element between the first and the last of
//             a piece; pages of source storage go at the end of the wave that
//             last reads such an element, those that nobody reads before wave
//             0. What stays on a device exists once and never goes. No device
//             ever holds more, its arena included, than the larger of its
//             source and its destination and the limit. All copies of a wave
//             are created for before any of them frees.
//
// **Objective.** Seconds by the cost model (dt/Cost/CostModel.h). Every message
// is packed and unpacked, but for runs of bytes, where it is known which these
// are (StoredFlows.h).
//
// Without hops, latency and storage this is preemptive open shop, which is easy
// (Gonzalez and Sahni, Open shop scheduling to minimize finish time, J. ACM 23,
// 1976): the seconds of the busiest port are attained. A cost per wave makes it
// NP-hard (Crescenzi, Deng and Papadimitriou, On approximating a scheduling
// problem, J. Comb. Optim. 5, 2001). With a limit on storage it is data
// migration with space constraints (Hall et al., On algorithms for efficient
// data migration, SODA 2001).
//
//===----------------------------------------------------------------------===//

#ifndef DT_SCHEDULING_WAVEPROBLEM_H
#define DT_SCHEDULING_WAVEPROBLEM_H

#include "dt/Cost/CostModel.h"
#include "dt/Geometry/Parallel.h"
#include "dt/Routing/Moves.h"
#include "dt/Scheduling/PlanMessage.h"
#include "dt/Scheduling/StoredFlows.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

namespace dt {

/// Slots start on this boundary, in bytes: what vector loads and NCCL's fast
/// path want. Chunks are multiples of it.
constexpr int64_t kSlotAlignment = 128;
inline int64_t alignSlot(int64_t bytes) {
  return (bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
}

/// A move, or a part of one, with the wave that carries it.
struct ScheduledMove {
  Move move;
  int32_t wave = 0;
  /// A move that is relayed is two: to the device between, and on from there.
  RelayHop relay = RelayHop::None;
};

/// A copy, or a part of one, with its wave: one of copies alone, or one of
/// messages, beside which it runs where its device has a part in them.
struct ScheduledCopy {
  LocalMove move;
  int32_t wave = 0;
};

/// A solution.
struct WaveSchedule {
  std::vector<ScheduledMove> moves;
  std::vector<ScheduledCopy> copies; // by wave
};

/// Buffers of a flow on one side: `count` states of `width` bytes per element.
struct FlatStates {
  int64_t width = 0;
  int64_t count = 0;
  /// One state's, in a storage that others have too, which comes and goes
  /// whole: its number on that side. -1: in storages of their own.
  int64_t storage = -1;
};

struct FlatFlow {
  unsigned numLeading = 0;
  std::vector<FlatStates> source, destination;
  /// The flow whose source buffers are read: itself, or the one that its state
  /// is made from.
  uint32_t readsFrom = 0;
  /// Devices, ascending, that hold the same of it on both sides, where it stays
  /// as it is: there is one storage for both, which neither comes nor goes.
  std::vector<int64_t> staying = {};

  bool stays(int64_t device) const {
    return std::binary_search(staying.begin(), staying.end(), device);
  }
};

/// Flat memory: the storage part of an instance.
struct Storage {
  std::vector<FlatFlow> flows;
  /// Per flow, what devices hold before and after.
  std::vector<std::vector<Holding>> source, destination;
  /// Of each member's buffer in the narrowest state, and as many elements in
  /// the others; at least an element. kWholeBuffers: whole storages come and
  /// go.
  int64_t pageBytes = 0;
  int64_t limitBytes = 0;
};

/// The pages that plans use under a limit: small beside it, no smaller than
/// what aligned copies want, no larger than the 2 MiB that a GPU maps at least.
int64_t pageBytesFor(int64_t limitBytes);

struct WaveProblem {
  std::vector<Move> moves; // by hop
  std::vector<LocalMove> copies;
  std::vector<int64_t> elementBytes; // per flow
  Cluster cluster;
  int64_t stagingBytes = 0; // per device
  std::optional<Storage> storage;
  /// Says what is one run of bytes, and must outlive this; null: nothing is.
  const StoredFlows *stored = nullptr;

  /// Why this is no instance, in one sentence that names the move, the flow or
  /// the device: a box that is empty or comes to a device twice, hops out of
  /// order, a forward that nothing feeds, bytes beyond int64, boxes that lie in
  /// no shard.
  std::optional<std::string>
  check(const ParallelFor &parallel = serialFor) const;

  /// Which constraint a schedule breaks, in one sentence that names wave and
  /// device. Knows nothing of how it was made; the instance is sound.
  std::optional<std::string> verify(const WaveSchedule &schedule) const;

  /// Seconds that no schedule goes below: for each port the bytes that it
  /// carries and a latency for each message, of which each pair has one at
  /// least and, where all is packed, as many as staging makes it have; what it
  /// forwards, or gets forwarded, comes a message later for each hop. Packs
  /// count as nothing, since a message may turn out to lie in one run.
  double lowerBound() const;

  /// Seconds that a schedule takes.
  double seconds(const std::vector<ScheduledMove> &scheduled) const;
  /// The messages that its pieces form.
  std::vector<TimedMessage>
  messages(const std::vector<ScheduledMove> &scheduled,
           const ParallelFor &parallel = serialFor) const;
  /// What its copies take from the devices between their groups and beside
  /// them: nothing, but in flat memory.
  std::vector<dtrt::TimedCopy> timedCopies(const WaveSchedule &schedule) const;
};

/// Bytes that the slots of each device take, but those in which something waits
/// to be sent on (Relays.h); `messages` are sorted by wave.
std::map<int64_t, int64_t>
arenaBytes(const std::vector<TimedMessage> &messages);

/// Orders by (wave, source, destination); what is equal keeps its order.
void sortByMessage(std::vector<ScheduledMove> &moves);
/// The same for the moves of one wave, [first, last).
void sortWave(ScheduledMove *first, ScheduledMove *last);

/// Calls fn(first, last) for each run of pieces that form one message.
template <typename Fn>
void forEachMessage(const std::vector<ScheduledMove> &scheduled, Fn fn) {
  for (size_t first = 0, last = 0; first < scheduled.size(); first = last) {
    const ScheduledMove &piece = scheduled[first];
    for (last = first + 1;
         last < scheduled.size() && scheduled[last].wave == piece.wave &&
         scheduled[last].move.source == piece.move.source &&
         scheduled[last].move.destination == piece.move.destination;
         ++last)
      continue;
    fn(first, last);
  }
}

} // namespace dt

#endif // DT_SCHEDULING_WAVEPROBLEM_H
