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
  Unknown, // no answer within the budget, or a problem that does not read
};

struct SolverAnswer {
  Verdict verdict = Verdict::Unknown;
  std::string detail; // a model, or why there is no answer
  uint64_t steps = 0; // spent
};

/// What one obligation may cost, in steps that the solver counts itself: the
/// answer to a problem depends on no clock. Those of plans take up to 150,000,
/// a twentieth of a second; this many take about half of one.
constexpr unsigned kSolverSteps = 2'000'000;

/// Checks one obligation with at most `steps`. The answer depends on nothing
/// else. Never throws; without a solver it is Unknown.
SolverAnswer solve(const Obligation &obligation, unsigned steps);

/// Checks one after the other, each with at most `steps`, until one is refuted,
/// which is the last of the answers then. They depend on nothing but the list;
/// what stays open in it is asked once more by itself. Several times as fast as
/// `solve` for each of them.
std::vector<SolverAnswer> solveAll(const std::vector<Obligation> &obligations,
                                   unsigned steps);

} // namespace dt

#endif // DT_PROOF_SOLVER_H
