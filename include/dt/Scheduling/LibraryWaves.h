//===- LibraryWaves.h - Library collectives in waves ------------*- C++ -*-===//
//
// Collectives of one kind, members and root are carried out together, whatever
// they are of: all that a member has for others is cut into rounds, as many as
// staging asks for, each of them one call. A round comes in the first wave in
// which none of its members has another, behind the round before it. What moves
// is held at the source by who gives it, so the order of calls is free.
//
//===----------------------------------------------------------------------===//

#ifndef DT_SCHEDULING_LIBRARYWAVES_H
#define DT_SCHEDULING_LIBRARYWAVES_H

#include "dt/Scheduling/WaveProblem.h"

#include "dtrt/types/Collective.h"

namespace dt {

/// What a library's call moves: from each member that gives to each that gets
/// of it. Of a broadcast and an all-gather, each box goes to all others.
struct LibraryCall {
  dtrt::CollectiveKind kind = dtrt::CollectiveKind::Broadcast;
  std::vector<int64_t> members; // ascending
  int64_t root = -1;            // of a broadcast
  std::vector<Move> moves;
};

/// Calls of each wave; no device is in two of one.
using LibraryWaves = std::vector<std::vector<LibraryCall>>;

/// `elementBytes` by flow. Four areas of the staging hold what goes in and out
/// in turn: all blocks that a member gives or gets in a call fit one of them,
/// or are an element of each flow.
LibraryWaves scheduleCalls(const std::vector<LibraryCall> &calls,
                           const std::vector<int64_t> &elementBytes,
                           int64_t stagingBytes);

/// The same as messages that take as long (dtrt/cost/TimedCollectives.h).
std::vector<dtrt::TimedMessage>
timedCalls(const LibraryWaves &waves, const std::vector<int64_t> &elementBytes,
           const Cluster &cluster);

} // namespace dt

#endif // DT_SCHEDULING_LIBRARYWAVES_H
