//===- ProvedLemmas.cpp - Which lemmas the solver proves ------------------===//

#include "dt/Proof/ProvedLemmas.h"

#include "dt/Proof/Lemmas.h"
#include "dt/Proof/Solver.h"

namespace dt {

static std::array<bool, 3> prove() {
  if (solverName().empty())
    return {};
  std::array<bool, 3> holds = {true, true, true};
  const std::vector<Obligation> &all = lemmas();
  std::vector<SolverAnswer> answers = solveAll(all, kSolverSteps);
  for (size_t i = 0; i < all.size(); ++i)
    if (i >= answers.size() || answers[i].verdict != Verdict::Proved)
      holds[size_t(all[i].claim)] = false;
  return holds;
}

const std::array<bool, 3> &provedLemmas() {
  static const std::array<bool, 3> proved = prove();
  return proved;
}

} // namespace dt
