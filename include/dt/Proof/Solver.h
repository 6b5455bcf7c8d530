//===- Solver.h - An SMT solver, if there is one ----------------*- C++ -*-===//

#ifndef DT_PROOF_SOLVER_H
#define DT_PROOF_SOLVER_H

#include "dt/Proof/Obligations.h"

namespace dt {

/// "z3 4.8.12"; empty when the compiler was built without a solver.
std::string solverName();

enum class Verdict {
  Proved,
  Refuted, // the negation has a model
  Unknown, // no answer within the limit, or a problem that does not read
};

struct SolverAnswer {
  Verdict verdict = Verdict::Unknown;
  std::string detail; // a model, or why there is no answer
};

/// Checks one obligation within `timeLimitMs`, one solver for each. Never
/// throws; without a solver the answer is Unknown.
SolverAnswer solve(const Obligation &obligation, unsigned timeLimitMs);

/// Checks obligations one after another, `timeLimitMs` each, up to the first
/// that is not proved.
struct SolverRun {
  size_t numProved = 0; // the one after these failed, if there is one
  SolverAnswer failure;
};
SolverRun solveAll(const std::vector<Obligation> &obligations,
                   unsigned timeLimitMs);

} // namespace dt

#endif // DT_PROOF_SOLVER_H
