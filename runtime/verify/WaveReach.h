//===- WaveReach.h - How far each device can be -----------------*- C++ -*-===//
//
// A group is a rendezvous of its two ends: whoever has ended one knows that the
// others have come to theirs, and who waits in one keeps those waiting that
// need it later. So the place of one device bounds the places of all.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_VERIFY_WAVEREACH_H
#define DTRT_LIB_VERIFY_WAVEREACH_H

#include "dtrt/verify/Losses.h"

namespace dtrt {

/// A message; the devices by number in some list.
struct WaveEdge {
  Moment wave = 0;
  uint32_t source = 0, destination = 0;
};

/// A device has done all that it does up to `first`, and nothing that it does
/// after `last`.
struct Reach {
  Moment first = kAtStart, last = kForever;
};

/// Of all `count` devices, when device `self` is where `SeenFailure` says.
/// Sorts the edges.
std::vector<Reach> findReach(std::vector<WaveEdge> &edges, size_t count,
                             uint32_t self, Moment wave, bool isInGroup);

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_WAVEREACH_H
