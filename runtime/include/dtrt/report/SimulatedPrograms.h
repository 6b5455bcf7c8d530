//===- SimulatedPrograms.h - A plan file as it is simulated -----*- C++ -*-===//

#ifndef DTRT_REPORT_SIMULATEDPROGRAMS_H
#define DTRT_REPORT_SIMULATEDPROGRAMS_H

#include "dtrt/cost/SimulatedPlan.h"
#include "dtrt/format/PlanReader.h"

namespace dtrt {

/// What of a program takes time, in the order in which executors that overlap
/// copies and messages run it (dtrt/core/Overlap.h). Neighbouring packs
/// are one launch, and so are unpacks and local work. Local work goes beside
/// the rest, as on a GPU; in flat memory it stays at its place.
std::vector<DeviceStep> stepsOf(const PlanCommon &common,
                                const RankProgram &program);

/// Those of all devices; reads one program at a time.
Result<SimulatedPlan> readSimulatedPlan(const PlanReader &plan);

} // namespace dtrt

#endif // DTRT_REPORT_SIMULATEDPROGRAMS_H
