//===- Traffic.h - A program's messages with both ends ----------*- C++ -*-===//
//
// A program knows its own end of every message; whether the other end is
// staged, and where, stands in the peer's program. Transports that write into a
// peer's memory, or that must treat both ends alike, look it up here.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TRANSPORT_TRAFFIC_H
#define DTRT_TRANSPORT_TRAFFIC_H

#include "dtrt/format/PlanReader.h"

#include <map>

namespace dtrt {

/// Where a message's bytes lie at one of its ends.
struct MessagePlace {
  bool direct = false; // in a tensor, else in the arena
  uint64_t slot = 0;   // of the arena
};

struct MessageEnds {
  bool receive = false;
  uint32_t peer = 0; // device
  uint64_t bytes = 0;
  MessagePlace own, other;
  uint64_t regions = 0; // MessageRegions of it; 0: not told
};

/// All groups of one program, in their order.
struct Traffic {
  uint64_t arenaBytes = 0;
  bool knowsOtherSlots = true; // MessageEnds::other
  std::vector<std::vector<MessageEnds>> groups;
  /// Of these, by number, those that are a library's collectives: their
  /// messages are what they bring.
  std::map<size_t, GroupCollective> calls;

  /// Whether no end of this program lies in a tensor.
  bool staged() const;
};

/// Decodes the sections of all peers. Fails when a message has no other end of
/// its size in the same wave.
Result<Traffic> trafficOf(const PlanReader &plan, const RankProgram &program);

} // namespace dtrt

#endif // DTRT_TRANSPORT_TRAFFIC_H
