//===- Solver.cpp - Z3 ----------------------------------------------------===//
//
// The only file that knows Z3. Its C API reports errors by codes once a
// handler that does nothing is set, so no exception is involved.
//
// Each problem gets a context and the tactic `smt` on its own, which looks at
// the problem before it chooses how to reason. Z3's simple solver chooses once,
// for the first problem that it is given, and takes half a minute for integers
// where the tactic takes a twentieth of a second. The tactics that are made for
// linear integers (`qflia`) try several ways for so many milliseconds each,
// so that what they answer depends on how busy the machine is.
//
//===----------------------------------------------------------------------===//

#include "dt/Proof/Solver.h"

#ifdef DT_HAVE_Z3

#include <z3.h>

namespace {

void ignoreError(Z3_context, Z3_error_code) {}

/// A context with one solver and its budget, for one problem: what another
/// leaves behind in a context changes the steps of the next.
class Session {
public:
  explicit Session(unsigned steps) {
    Z3_config config = Z3_mk_config();
    context = Z3_mk_context_rc(config);
    Z3_del_config(config);
    Z3_set_error_handler(context, ignoreError);
    Z3_tactic tactic = Z3_mk_tactic(context, "smt");
    Z3_tactic_inc_ref(context, tactic);
    solver = Z3_mk_solver_from_tactic(context, tactic);
    Z3_solver_inc_ref(context, solver);
    Z3_tactic_dec_ref(context, tactic);
    Z3_params params = Z3_mk_params(context);
    Z3_params_inc_ref(context, params);
    Z3_params_set_uint(context, params, Z3_mk_string_symbol(context, "rlimit"),
                       steps);
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
    Z3_solver_from_string(context, solver, problem.c_str());
    if (failed())
      return {dt::Verdict::Unknown, error(), 0};
    Z3_lbool answer = Z3_solver_check(context, solver);
    if (failed())
      return {dt::Verdict::Unknown, error(), steps()};
    if (answer == Z3_L_FALSE)
      return {dt::Verdict::Proved, "", steps()};
    if (answer == Z3_L_TRUE)
      return {dt::Verdict::Refuted, model(), steps()};
    return {dt::Verdict::Unknown, Z3_solver_get_reason_unknown(context, solver),
            steps()};
  }

private:
  uint64_t steps() const {
    uint64_t count = 0;
    Z3_stats stats = Z3_solver_get_statistics(context, solver);
    Z3_stats_inc_ref(context, stats);
    for (unsigned i = 0; i < Z3_stats_size(context, stats); ++i)
      if (Z3_stats_is_uint(context, stats, i) &&
          std::string(Z3_stats_get_key(context, stats, i)) == "rlimit count")
        count = Z3_stats_get_uint_value(context, stats, i);
    Z3_stats_dec_ref(context, stats);
    return count;
  }

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

dt::SolverAnswer dt::solve(const Obligation &obligation, unsigned steps) {
  if (steps == 0) // Z3 takes 0 for no limit.
    return {Verdict::Unknown, "no step is left", 0};
  return Session(steps).check(obligation.problem);
}

#else

std::string dt::solverName() { return ""; }

dt::SolverAnswer dt::solve(const Obligation &, unsigned) {
  return {Verdict::Unknown, "this compiler was built without a solver", 0};
}

#endif
