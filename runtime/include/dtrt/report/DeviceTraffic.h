//===- DeviceTraffic.h - Who sends how much to whom, when -------*- C++ -*-===//

#ifndef DTRT_REPORT_DEVICETRAFFIC_H
#define DTRT_REPORT_DEVICETRAFFIC_H

#include "dtrt/format/PlanReader.h"

#include <map>

namespace dtrt {

struct DeviceTraffic {
  uint64_t sourceBytes = 0;
  uint64_t destinationBytes = 0;
  uint64_t stagingBytes = 0;
  uint64_t peakBytes = 0;
  uint64_t copied = 0;
  uint64_t sent = 0;
  uint64_t received = 0;
  uint64_t messages = 0; // sends and receives
  uint64_t instructions = 0;
};

/// A library's collective.
struct CallTraffic {
  CollectiveKind kind = CollectiveKind::Broadcast;
  uint32_t root = 0;  // of a broadcast
  uint64_t bytes = 0; // that it brings
  double seconds = 0; // by the cluster model
};

struct WaveTraffic {
  uint64_t bytes = 0;
  uint64_t interNode = 0;
  uint64_t messages = 0;                 // without what calls bring
  std::map<uint32_t, CallTraffic> calls; // by member set
  /// Of its longest message or call, by the cluster model.
  double seconds = 0;
};

struct PlanTraffic {
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> edges; // source, target
  std::map<uint32_t, DeviceTraffic> devices;
  std::map<int32_t, WaveTraffic> waves;
};

DeviceTraffic trafficOf(const PlanCommon &common, const RankProgram &program);
Result<PlanTraffic> collectTraffic(const PlanReader &plan);

} // namespace dtrt

#endif // DTRT_REPORT_DEVICETRAFFIC_H
