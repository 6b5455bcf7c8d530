//===- Milp.cpp - Mixed integer programs, by HiGHS ------------------------===//

#include "Milp.h"

#ifdef DT_HAVE_HIGHS
#include "interfaces/highs_c_api.h"
#endif

namespace dt::advise {

#ifdef DT_HAVE_HIGHS

namespace {

/// The handle of one solver.
struct Solver {
  Solver() : highs(Highs_create()) {
    Highs_setBoolOptionValue(highs, "output_flag", 0);
    Highs_setIntOptionValue(highs, "threads", 1);
    Highs_setIntOptionValue(highs, "random_seed", 0);
    Highs_setDoubleOptionValue(highs, "mip_rel_gap", 0);
    Highs_setDoubleOptionValue(highs, "mip_abs_gap", 1e-6);
  }
  ~Solver() { Highs_destroy(highs); }
  Solver(const Solver &) = delete;

  void *highs;
};

/// The columns and rows as HiGHS takes them.
struct Matrix {
  explicit Matrix(const MilpProblem &problem) {
    for (const MilpProblem::Variable &variable : problem.variables) {
      cost.push_back(variable.cost);
      lower.push_back(variable.lower);
      upper.push_back(variable.upper);
      integrality.push_back(variable.isInteger ? kHighsVarTypeInteger
                                               : kHighsVarTypeContinuous);
    }
    for (const MilpProblem::Row &row : problem.rows) {
      starts.push_back(HighsInt(index.size()));
      rowLower.push_back(row.lower);
      rowUpper.push_back(row.upper);
      for (const MilpProblem::Term &term : row.terms) {
        index.push_back(term.variable);
        value.push_back(term.coefficient);
      }
    }
  }

  std::vector<double> cost, lower, upper, rowLower, rowUpper, value;
  std::vector<HighsInt> integrality, starts, index;
};

} // namespace

bool haveMilpSolver() { return true; }

std::string milpSolverName() { return std::string("HiGHS ") + Highs_version(); }

std::optional<MilpAnswer> solveMilp(const MilpProblem &problem,
                                    std::string &error) {
  Solver solver;
  Matrix matrix(problem);
  Highs_setIntOptionValue(solver.highs, "mip_max_nodes",
                          HighsInt(problem.mostNodes));
  Highs_passMip(solver.highs, HighsInt(matrix.cost.size()),
                HighsInt(matrix.rowLower.size()), HighsInt(matrix.index.size()),
                kHighsMatrixFormatRowwise, kHighsObjSenseMinimize,
                /*offset=*/0, matrix.cost.data(), matrix.lower.data(),
                matrix.upper.data(), matrix.rowLower.data(),
                matrix.rowUpper.data(), matrix.starts.data(),
                matrix.index.data(), matrix.value.data(),
                matrix.integrality.data());
  if (Highs_run(solver.highs) == kHighsStatusError) {
    error = "HiGHS failed";
    return std::nullopt;
  }
  HighsInt status = Highs_getModelStatus(solver.highs);
  HighsInt primal = 0;
  Highs_getIntInfoValue(solver.highs, "primal_solution_status", &primal);
  if (primal != kHighsSolutionStatusFeasible) {
    error = status == kHighsModelStatusInfeasible
                ? "there is no solution"
                : "no solution within " + std::to_string(problem.mostNodes) +
                      " nodes";
    return std::nullopt;
  }
  MilpAnswer answer;
  answer.isOptimal = status == kHighsModelStatusOptimal;
  answer.values.resize(matrix.cost.size());
  std::vector<double> duals(matrix.cost.size()), rows(matrix.rowLower.size()),
      rowDuals(matrix.rowLower.size());
  Highs_getSolution(solver.highs, answer.values.data(), duals.data(),
                    rows.data(), rowDuals.data());
  return answer;
}

#else

bool haveMilpSolver() { return false; }

std::string milpSolverName() { return "HiGHS is not built in"; }

std::optional<MilpAnswer> solveMilp(const MilpProblem &, std::string &error) {
  error = milpSolverName();
  return std::nullopt;
}

#endif

} // namespace dt::advise
