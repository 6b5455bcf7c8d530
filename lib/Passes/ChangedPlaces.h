//===- ChangedPlaces.h - Who has another device's rank now ------*- C++ -*-===//
//
//   rank     0  1  2  3  4  5
//   before   0  1  2  3  6  7       node 1, devices 4 and 5, is spare
//   now      0  1  4  5  6  7       node 0 has lost 2 and 3
//
//   heirs    2 -> 4, 3 -> 5
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_PASSES_CHANGEDPLACES_H
#define DT_LIB_PASSES_CHANGEDPLACES_H

#include "dtrt/format/PlanModel.h"

#include <map>
#include <optional>
#include <set>
#include <string>

namespace dt {

struct ChangedPlaces {
  /// By device of the old destination that has its rank no more: who has it.
  std::map<int64_t, int64_t> heirs;
  std::set<int64_t> allHeirs;

  /// Who has now what a device had of the destination.
  int64_t heirOf(int64_t device) const {
    auto found = heirs.find(device);
    return found == heirs.end() ? device : found->second;
  }
  bool isHeir(int64_t device) const { return allHeirs.count(device) > 0; }
};

/// Says why two plans differ in more than the devices of a few destination
/// ranks. Whether ranks have the same shards is not to be seen here.
std::optional<std::string> findChangedPlaces(const dtrt::PlanCommon &before,
                                             const dtrt::PlanCommon &now,
                                             ChangedPlaces &out);

} // namespace dt

#endif // DT_LIB_PASSES_CHANGEDPLACES_H
