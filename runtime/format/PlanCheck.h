//===- PlanCheck.h - Bounds of everything a plan says -----------*- C++ -*-===//

#ifndef DTRT_LIB_FORMAT_PLANCHECK_H
#define DTRT_LIB_FORMAT_PLANCHECK_H

#include "ReadBudget.h"

#include "dtrt/format/PlanModel.h"

namespace dtrt {

/// After these every index is in range, every box lies in its shard, every
/// number that may be computed with is finite, no product of sizes overflows,
/// and names are text. Members, which are not unpacked, are charged as what
/// users of the plan need for them.
Status checkCommon(const PlanCommon &common);
/// The numbers in the names of the members are different, and int64.
Status checkLeading(const LeadingDim &dim);
/// Charges the names of all tensors of a common part that is checked.
Status chargeTensors(const PlanCommon &common, ReadBudget &budget);
/// `devices`: those with programs, ascending. The common part is checked.
Status checkProgram(const PlanCommon &common,
                    const std::vector<uint32_t> &devices,
                    const RankProgram &program, ReadBudget &budget);

} // namespace dtrt

#endif // DTRT_LIB_FORMAT_PLANCHECK_H
