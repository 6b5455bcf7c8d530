//===- CollectiveCheck.h - Do the members of collectives meet? --*- C++ -*-===//
//
// A library's collective is a rendezvous of all devices of a member set. A
// device has one group per wave, so that a collective has its members to itself
// where each of them has it in its group of that wave. Waves ascend in every
// program: that is the one order in which all ranks come to their collectives.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_VERIFY_COLLECTIVECHECK_H
#define DTRT_LIB_VERIFY_COLLECTIVECHECK_H

#include "ProgramVerifier.h"
#include "dtrt/cost/TimedCollectives.h"

namespace dtrt {

/// All members of a set have the same collective in a wave, or none of them
/// has. Sorts the parts by wave, member set and device.
Status checkCollectives(const PlanCommon &common,
                        std::vector<CollectivePart> &parts);

/// The collectives, of parts that are right.
std::vector<TimedCollective>
collectivesOf(const PlanCommon &common,
              const std::vector<CollectivePart> &parts);

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_COLLECTIVECHECK_H
