//===- FlatStorages.h - Tensors that share storages -------------*- C++ -*-===//

#ifndef DT_LIB_SCHEDULING_FLATSTORAGES_H
#define DT_LIB_SCHEDULING_FLATSTORAGES_H

#include "FlatJobs.h"

namespace dt {

/// Groups of cohorts that write or read the same shared storages, directly or
/// by way of others: what they use comes at once and goes at once.
class FlatStorages {
public:
  /// Both must outlive this.
  FlatStorages(const FlatInput &input, const FlatJobs &jobs);

  /// The group of a cohort; none where its tensors have storages of their own.
  std::optional<uint32_t> groupOf(uint32_t cohort) const {
    return groups[cohort];
  }
  /// The jobs in order, those of a group together in the place of its first;
  /// all others alone.
  std::vector<FlatJob> gather(std::vector<FlatJob> sequence) const;
  /// What a group makes on each device, and what it frees when it is done.
  std::map<int64_t, JobEffect> effectsOf(uint32_t group) const;

private:
  /// (device, is destination, number); device -1: of any.
  using Storage = std::tuple<int64_t, bool, int64_t>;

  const std::vector<FlatStates> &statesOf(const FlatShape &shape,
                                          bool destination) const;
  void group();
  void measure();

  const FlatInput &input;
  const FlatJobs &jobs;
  std::vector<std::optional<uint32_t>> groups; // by cohort
  std::map<Storage, int64_t> bytes;            // of shared ones
};

} // namespace dt

#endif // DT_LIB_SCHEDULING_FLATSTORAGES_H
