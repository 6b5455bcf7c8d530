//===- IdleWaves.h - What goes beside messages that stay --------*- C++ -*-===//
//
// Waves are there, with some of their ports taken. Pairs that still have
// something to send meet in those whose ports are idle at both ends, for as
// long as the wave lasts. A port *lacks* the seconds by which what it has to
// carry exceeds the idle waves that it has left. Ports are covered in the order
// of what they lack, by augmenting paths that leave none alone that came
// before: the matching of the largest weight, if a port weighs what it lacks
// (Spencer and Mayr, Node weighted matching, ICALP 1984).
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_SCHEDULING_IDLEWAVES_H
#define DT_LIB_SCHEDULING_IDLEWAVES_H

#include "WaveRoom.h"

namespace dt {

struct IdleWaves {
  std::vector<double> seconds; // that each wave lasts
  int64_t largest[2] = {0, 0}; // bytes of a message, by level
};

/// What pairs have to send; they go by number.
class IdlePairs {
public:
  virtual ~IdlePairs() = default;
  /// Bytes that may go in a wave. What is sent before may bring more.
  virtual int64_t ready(size_t pair, int32_t wave) = 0;
  /// Sends what it can in one message of at most so many bytes; returns them.
  virtual int64_t send(size_t pair, int64_t room, int32_t wave) = 0;
};

struct WaitingPair {
  DevicePair pair;
  int64_t bytes = 0; // ready or not
};

/// Takes ports of `taken` for what is sent.
void fillIdleWaves(const IdleWaves &waves, const Cluster &cluster,
                   const std::vector<WaitingPair> &waiting, IdlePairs &pairs,
                   WaveRoom &taken);

} // namespace dt

#endif // DT_LIB_SCHEDULING_IDLEWAVES_H
