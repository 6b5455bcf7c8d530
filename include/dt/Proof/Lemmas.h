//===- Lemmas.h - What the rules imply --------------------------*- C++ -*-===//

#ifndef DT_PROOF_LEMMAS_H
#define DT_PROOF_LEMMAS_H

#include "dt/Proof/Obligations.h"

namespace dt {

/// What holds of any plan that keeps the rules.
const std::vector<Obligation> &lemmas();

} // namespace dt

#endif // DT_PROOF_LEMMAS_H
