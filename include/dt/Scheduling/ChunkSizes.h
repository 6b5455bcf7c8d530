//===- ChunkSizes.h - How large the messages of a wave may be ---*- C++ -*-===//

#ifndef DT_SCHEDULING_CHUNKSIZES_H
#define DT_SCHEDULING_CHUNKSIZES_H

#include "dt/Scheduling/WaveProblem.h"

#include <optional>

namespace dt {

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
  /// What comes is forwarded a wave later than it could be, where there is
  /// something else to send: then it is copied beside that wave.
  bool holdsForwards = false;
  /// Of many phases, each ends in few waves: none is much shorter than another
  /// to make a little more of its time.
  bool endsSoon = false;
  friend bool operator==(ChunkBytes a, ChunkBytes b) {
    return a.intra == b.intra && a.inter == b.inter && a.isWhole == b.isWhole &&
           a.hasShortEnds == b.hasShortEnds &&
           a.holdsForwards == b.holdsForwards && a.endsSoon == b.endsSoon;
  }
};

/// Bytes of staging in which one element of each level fits.
int64_t stagingNeeded(const WaveProblem &problem);

/// Chunk sizes worth trying, the most promising first: the busiest port cut
/// into few or many messages, and sizes that divide the typical pair evenly.
/// Each holds every element of its level, and leaves room for two waves' worth
/// of send and receive slots in the staging of a device, where waves are joined
/// (JoinWaves.h) of as many messages as ports carry, if that can be; none when
/// that has less than `stagingNeeded`, or so little that there would be more
/// messages than the limits (Limits.h). Which is best shows only when they are
/// scheduled.
std::vector<ChunkBytes> candidateChunks(const WaveProblem &problem);
/// The same for other staging.
std::vector<ChunkBytes> candidateChunks(const WaveProblem &problem,
                                        int64_t stagingBytes);

/// All that a pair has as one message, where few latencies make that worth
/// trying. Staging may have no room for the slots; who schedules it finds out.
std::optional<ChunkBytes> wholeMessages(const WaveProblem &problem);

/// The least staging above what the problem has, to one part in sixteen, for
/// which there are chunk sizes; 0 when there is none.
int64_t smallestStaging(const WaveProblem &problem);

/// Most bytes of a message of a pair, of which `bytes` travel altogether: a
/// slow pair sends less, so that the messages of a wave last alike, but where
/// all are whole.
int64_t largestMessage(int64_t from, int64_t to, int64_t bytes,
                       ChunkBytes chunks, const Cluster &cluster);

} // namespace dt

#endif // DT_SCHEDULING_CHUNKSIZES_H
