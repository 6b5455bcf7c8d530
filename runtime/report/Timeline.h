//===- Timeline.h - What every port does when -------------------*- C++ -*-===//
//
// Runs the groups of all programs against the plan's cluster model, by the
// rules that the compiler predicts with: a group starts when the groups before
// it on both ends of each message have ended and its packs are done; packs and
// unpacks run beside the wire.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_REPORT_TIMELINE_H
#define DTRT_LIB_REPORT_TIMELINE_H

#include "dtrt/PlanFile.h"

#include <array>
#include <map>
#include <vector>

namespace dtrt {

enum class Lane { NicOut, NicIn, IslandOut, IslandIn, Pack, Unpack };
constexpr size_t kNumLanes = 6;

struct Span {
  double begin = 0, end = 0; // seconds
  double busy = 0;           // of it, bytes on the wire or copied
};

struct DeviceTimeline {
  std::array<std::vector<Span>, kNumLanes> lanes;
  double latency = 0; // of its groups together
  double end = 0;     // its last byte is in place
};

struct Timeline {
  std::map<uint32_t, DeviceTimeline> devices;
  double seconds = 0;
};

Result<Timeline> buildTimeline(const PlanReader &plan);

} // namespace dtrt

#endif // DTRT_LIB_REPORT_TIMELINE_H
