//===- StoragePeaks.h - What devices hold, wave by wave ---------*- C++ -*-===//
//
// Counts the storage of flat memory page by page, as the problem says that it
// comes and goes, with no idea of jobs or phases.
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_SCHEDULING_STORAGEPEAKS_H
#define DT_LIB_SCHEDULING_STORAGEPEAKS_H

#include "dt/Geometry/ShardIndex.h"
#include "dt/Scheduling/WaveProblem.h"

#include <map>

namespace dt {

/// The most that a device holds of its source and its destination.
struct StoragePeak {
  int64_t bytes = 0;
  int32_t wave = -1;  // in which it does; -1: before the first
  int64_t larger = 0; // bytes of the larger of both sides
  int64_t above() const { return bytes - larger; }
};

/// What devices hold on one side, as an index of its shards.
ShardIndex shardsOn(const Storage &storage, bool destination);

/// The peak of every device. All boxes lie in shards (WaveProblem::check).
std::map<int64_t, StoragePeak> storagePeaks(const Storage &storage,
                                            const WaveSchedule &schedule);

} // namespace dt

#endif // DT_LIB_SCHEDULING_STORAGEPEAKS_H
