//===- FlatSequence.h - Jobs of all cohorts, one after another --*- C++ -*-===//

#ifndef DT_LIB_SCHEDULING_FLATSEQUENCE_H
#define DT_LIB_SCHEDULING_FLATSEQUENCE_H

#include <array>
#include <cstdint>
#include <vector>

namespace dt {

/// What a block of one tensor does to the memory and the ports of a device, in
/// bytes.
struct JobEffect {
  int64_t device = 0;
  int64_t created = 0, freed = 0; // of storages that are not shared
  int64_t copied = 0;             // from its own source
  /// Sent and received in the island, sent and received by NIC.
  std::array<int64_t, 4> ports = {};
};
using JobEffects = std::vector<JobEffect>; // by device

/// Jobs of a cohort: block after block, tensor after tensor. Where a tensor is
/// one block, `together` of them make a job.
struct CohortJobs {
  std::vector<JobEffects> effects; // by block
  int64_t members = 0;
  int64_t together = 1;

  int64_t count() const {
    return (members + together - 1) / together * int64_t(effects.size());
  }
};

struct FlatJob {
  uint32_t cohort = 0;
  int64_t number = 0;                      // in the cohort
  int64_t firstMember = 0, numMembers = 0; // places in the cohort
  int64_t block = 0;
};

/// Puts all jobs in one order in which each device frees and creates its bytes
/// as evenly as greedy choice can make it. In a phase a device creates about
/// `phaseBytes`.
std::vector<FlatJob> sequenceJobs(const std::vector<CohortJobs> &cohorts,
                                  double phaseBytes);

} // namespace dt

#endif // DT_LIB_SCHEDULING_FLATSEQUENCE_H
