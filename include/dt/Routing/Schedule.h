//===- Schedule.h - Moves into contention-free waves ------------*- C++ -*-===//
//
// A wave gives every NIC at most one message out and one in, and every device
// one out and one in on its island port, so that no two messages share a port.
// Messages of a pair in a wave are packed into one. A wave orders the groups
// of each device; it is no barrier between devices that do not meet.
//
// Preemptive open shop: with full-duplex ports the busiest port is a bound, and
// it is met when every wave keeps all ports busy that have no time to lose
// (Gonzalez and Sahni 1976). Messages are cut to the length of their wave, and
// a wave is as long as a matching for it exists (lib/Routing/Matching.h). What
// forwards wait for goes first. It works for any number of devices; nothing
// depends on powers of two.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ROUTING_SCHEDULE_H
#define DT_ROUTING_SCHEDULE_H

#include "dt/Routing/Router.h"

#include <string>

namespace dt {

/// Slots start on this boundary, in bytes: what vector loads and NCCL's fast
/// path want. Chunks are multiples of it.
constexpr int64_t kSlotAlignment = 128;
inline int64_t alignSlot(int64_t bytes) {
  return (bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
}

/// Live slots of a device on one level: send and receive, of two waves.
constexpr int64_t kSlotsPerLevel = 4;

/// Largest message of one wave, in bytes, on each level.
struct ChunkBytes {
  int64_t intra = 0;
  int64_t inter = 0;
  /// Latency counts, not bytes: no message is cut, and as few waves as can be.
  bool isWhole = false;
  /// The first and the last wave are short, where the copies before and after
  /// them take several latencies: nothing else runs beside these two.
  bool hasShortEnds = false;
  friend bool operator==(ChunkBytes a, ChunkBytes b) {
    return a.intra == b.intra && a.inter == b.inter && a.isWhole == b.isWhole &&
           a.hasShortEnds == b.hasShortEnds;
  }
};

/// Chunk sizes worth trying, the most promising first: the busiest port cut
/// into few or many messages, and sizes that divide the typical pair evenly.
/// Each leaves room for two waves' worth of send and receive slots in
/// `stagingBytes` per device. Which is best shows only when they are scheduled.
/// None where `stagingBytes` is so little that there would be more messages
/// than the limits (Limits.h).
std::vector<ChunkBytes> candidateChunks(const std::vector<Move> &moves,
                                        const std::vector<Flow> &flows,
                                        const Cluster &cluster,
                                        int64_t stagingBytes);

/// The least staging above `tooSmall`, to one part in sixteen, for which there
/// are chunk sizes; 0 when there is none.
int64_t smallestStaging(const std::vector<Move> &moves,
                        const std::vector<Flow> &flows, const Cluster &cluster,
                        int64_t tooSmall);

/// Most bytes of a message of a pair, of which `bytes` travel altogether: a
/// slow pair sends less, so that the messages of a wave last alike.
int64_t largestMessage(int64_t from, int64_t to, int64_t bytes,
                       ChunkBytes chunks, const Cluster &cluster);

/// A move, or a part of one, with the wave that carries it.
struct ScheduledMove {
  Move move;
  int32_t wave = 0;
};

/// Orders by (wave, source, destination); what is equal keeps its order.
void sortByMessage(std::vector<ScheduledMove> &moves);
/// The same for the moves of one wave, [first, last).
void sortWave(ScheduledMove *first, ScheduledMove *last);

/// No staging is known to be enough.
constexpr int64_t kTooManyMessages = INT64_MAX;

/// Schedules all moves; forwards (hop k) come in a later wave than the moves
/// that feed them. `moves` of hop k must stand after those that feed them. The
/// result is sorted by (wave, source, destination), in packing order; the
/// boxes of a message add up to at most a chunk. An element that is larger
/// than a chunk returns false and sets `needed` to the staging bytes at which
/// it fits; so do more messages than the limit, and set kTooManyMessages.
bool schedule(const std::vector<Move> &moves, const std::vector<Flow> &flows,
              const Cluster &cluster, ChunkBytes chunks,
              std::vector<ScheduledMove> &scheduled, int64_t &needed);

} // namespace dt

#endif // DT_ROUTING_SCHEDULE_H
