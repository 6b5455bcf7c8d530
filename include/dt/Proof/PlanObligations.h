//===- PlanObligations.h - The classes of a plan, to be proved --*- C++ -*-===//

#ifndef DT_PROOF_PLANOBLIGATIONS_H
#define DT_PROOF_PLANOBLIGATIONS_H

#include "dt/Proof/Obligations.h"
#include "dt/Proof/PlanClasses.h"

namespace dt {

/// One obligation per class.
std::vector<Obligation> planObligations(const PlanClasses &classes);

} // namespace dt

#endif // DT_PROOF_PLANOBLIGATIONS_H
