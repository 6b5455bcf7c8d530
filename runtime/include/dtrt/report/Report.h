//===- Report.h - Plans for people and scripts ------------------*- C++ -*-===//
//
// What dt-plan prints. Every function reads one program at a time and writes
// as it goes, so that plans of thousands of devices need little memory.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_REPORT_REPORT_H
#define DTRT_REPORT_REPORT_H

#include "dtrt/format/PlanFile.h"

#include <iosfwd>
#include <map>

namespace dtrt {

enum class OutputFormat { Text, Json };

/// The plan's numbers; with a device also that device's.
Status writeInspection(const PlanReader &plan, std::optional<uint32_t> device,
                       OutputFormat format, std::ostream &out);

/// One device's program, instruction by instruction.
Status writeProgram(const PlanReader &plan, uint32_t device,
                    OutputFormat format, std::ostream &out);
/// Every device's.
Status writePrograms(const PlanReader &plan, OutputFormat format,
                     std::ostream &out);
/// A program that need not be of a file.
void writeProgram(const PlanCommon &common, const RankProgram &program,
                  OutputFormat format, std::ostream &out);

/// One JSON object per line for every box of every tensor and state that
/// arrives somewhere, in coordinates of the user's own tensor.
Status writeDeliveries(const PlanReader &plan, std::ostream &out);

/// How much of what differs is printed: less than 60 lines of less than 120
/// columns, in which what is left out is counted, or everything.
enum class DiffLength { Screen, All };

/// What differs in meaning; true, and nothing printed, when nothing does.
Result<bool> writeDifferences(const PlanReader &a, const PlanReader &b,
                              std::ostream &out,
                              DiffLength length = DiffLength::Screen);

/// A self-contained HTML page.
Status writeDrawing(const PlanReader &plan, std::ostream &out);

//===----------------------------------------------------------------------===//
// Traffic: who sends how much to whom, when
//===----------------------------------------------------------------------===//

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

struct WaveTraffic {
  uint64_t bytes = 0;
  uint64_t interNode = 0;
  uint64_t messages = 0;
  /// Of its longest message, by the cluster model.
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

#endif // DTRT_REPORT_REPORT_H
