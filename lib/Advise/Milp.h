//===- Milp.h - Mixed integer programs, by HiGHS ----------------*- C++ -*-===//
//
// The one place that knows HiGHS. Where it was not found when this was built,
// `haveMilpSolver` is false and every program is without an answer.
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_ADVISE_MILP_H
#define DT_LIB_ADVISE_MILP_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dt::advise {

/// Minimizes cost over variables in [lower, upper], with rows
/// lower <= sum of coefficients x variable <= upper.
struct MilpProblem {
  struct Variable {
    double cost = 0, lower = 0, upper = 0;
    bool isInteger = false;
  };
  struct Term {
    int32_t variable = 0;
    double coefficient = 0;
  };
  struct Row {
    double lower = 0, upper = 0;
    std::vector<Term> terms;
  };

  int32_t add(Variable variable) {
    variables.push_back(variable);
    return int32_t(variables.size()) - 1;
  }

  std::vector<Variable> variables;
  std::vector<Row> rows;
  /// Most nodes of the search tree: a bound that no clock decides.
  int64_t mostNodes = 20000;
};

struct MilpAnswer {
  std::vector<double> values;
  bool isOptimal = false; // else only feasible: the bound of nodes was met
};

bool haveMilpSolver();
/// Version of HiGHS, or why there is none.
std::string milpSolverName();

/// An error says that there is no solution, or what the solver said.
std::optional<MilpAnswer> solveMilp(const MilpProblem &problem,
                                    std::string &error);

} // namespace dt::advise

#endif // DT_LIB_ADVISE_MILP_H
