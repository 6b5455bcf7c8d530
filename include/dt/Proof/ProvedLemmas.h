//===- ProvedLemmas.h - Which lemmas the solver proves ----------*- C++ -*-===//

#ifndef DT_PROOF_PROVEDLEMMAS_H
#define DT_PROOF_PROVEDLEMMAS_H

#include <array>

namespace dt {

/// By claim, whether the solver proves its lemmas; none where there is no
/// solver. They are of no plan: a process asks once.
const std::array<bool, 3> &provedLemmas();

} // namespace dt

#endif // DT_PROOF_PROVEDLEMMAS_H
