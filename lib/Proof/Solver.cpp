//===- Solver.cpp - Z3 ----------------------------------------------------===//
//
// The only file that knows Z3. Its C API reports errors by codes once a
// handler that does nothing is set, so no exception is involved.
//
//===----------------------------------------------------------------------===//

#include "dt/Proof/Solver.h"

#ifdef DT_HAVE_Z3

#include <z3.h>

namespace {

void ignoreError(Z3_context, Z3_error_code) {}

/// A context with one solver and its time limit. The plain solver is enough
/// for lemmas, and starts faster than the one that tries tactics.
class Session {
public:
  explicit Session(unsigned timeLimitMs) {
    Z3_config config = Z3_mk_config();
    context = Z3_mk_context_rc(config);
    Z3_del_config(config);
    Z3_set_error_handler(context, ignoreError);
    solver = Z3_mk_simple_solver(context);
    Z3_solver_inc_ref(context, solver);
    Z3_params params = Z3_mk_params(context);
    Z3_params_inc_ref(context, params);
    Z3_params_set_uint(context, params, Z3_mk_string_symbol(context, "timeout"),
                       timeLimitMs);
    Z3_solver_set_params(context, solver, params);
    Z3_params_dec_ref(context, params);
  }
  ~Session() {
    Z3_solver_dec_ref(context, solver);
    Z3_del_context(context);
  }
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  dt::SolverAnswer check(const std::string &problem) {
    Z3_solver_reset(context, solver);
    Z3_solver_from_string(context, solver, problem.c_str());
    if (failed())
      return {dt::Verdict::Unknown, error()};
    Z3_lbool answer = Z3_solver_check(context, solver);
    if (failed())
      return {dt::Verdict::Unknown, error()};
    if (answer == Z3_L_FALSE)
      return {dt::Verdict::Proved, ""};
    if (answer == Z3_L_UNDEF)
      return {dt::Verdict::Unknown,
              Z3_solver_get_reason_unknown(context, solver)};
    return {dt::Verdict::Refuted, model()};
  }

private:
  bool failed() const { return Z3_get_error_code(context) != Z3_OK; }
  std::string error() const {
    return Z3_get_error_msg(context, Z3_get_error_code(context));
  }
  std::string model() const {
    Z3_model found = Z3_solver_get_model(context, solver);
    return found ? Z3_model_to_string(context, found) : "";
  }

  Z3_context context;
  Z3_solver solver;
};

} // namespace

std::string dt::solverName() {
  unsigned major = 0, minor = 0, build = 0, revision = 0;
  Z3_get_version(&major, &minor, &build, &revision);
  return "z3 " + std::to_string(major) + "." + std::to_string(minor) + "." +
         std::to_string(build);
}

dt::SolverAnswer dt::solve(const Obligation &obligation, unsigned timeLimitMs) {
  return solveAll({obligation}, timeLimitMs).failure;
}

dt::SolverRun dt::solveAll(const std::vector<Obligation> &obligations,
                           unsigned timeLimitMs) {
  SolverRun run;
  // Z3 takes 0 for no limit.
  if (timeLimitMs == 0) {
    run.failure = {Verdict::Unknown, "no time is left"};
    return run;
  }
  Session session(timeLimitMs);
  for (const Obligation &obligation : obligations) {
    run.failure = session.check(obligation.problem);
    if (run.failure.verdict != Verdict::Proved)
      break;
    ++run.numProved;
  }
  return run;
}

#else

std::string dt::solverName() { return ""; }

dt::SolverAnswer dt::solve(const Obligation &, unsigned) {
  return {Verdict::Unknown, "this compiler was built without a solver"};
}

dt::SolverRun dt::solveAll(const std::vector<Obligation> &obligations,
                           unsigned timeLimitMs) {
  return {0, solve(obligations.front(), timeLimitMs)};
}

#endif
