//===- Solver.cpp - Z3 ----------------------------------------------------===//
//
// The only file that knows Z3. Its C API reports errors by codes once a
// handler that does nothing is set, so no exception is involved.
//
// Each problem gets a solver of its own from the tactic `smt`, which looks at
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

/// A context. Making one takes longer than most problems.
class Session {
public:
  Session() {
    Z3_config config = Z3_mk_config();
    context = Z3_mk_context_rc(config);
    Z3_del_config(config);
    Z3_set_error_handler(context, ignoreError);
  }
  ~Session() { Z3_del_context(context); }
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  /// By a solver of its own. What earlier problems leave behind in the context
  /// may change how many steps it takes.
  dt::SolverAnswer check(const std::string &problem, unsigned budget) {
    makeSolver(budget);
    dt::SolverAnswer answer = ask(problem);
    Z3_solver_dec_ref(context, solver);
    return answer;
  }

private:
  void makeSolver(unsigned budget) {
    Z3_tactic tactic = Z3_mk_tactic(context, "smt");
    Z3_tactic_inc_ref(context, tactic);
    solver = Z3_mk_solver_from_tactic(context, tactic);
    Z3_solver_inc_ref(context, solver);
    Z3_tactic_dec_ref(context, tactic);
    Z3_params params = Z3_mk_params(context);
    Z3_params_inc_ref(context, params);
    Z3_params_set_uint(context, params, Z3_mk_string_symbol(context, "rlimit"),
                       budget);
    Z3_solver_set_params(context, solver, params);
    Z3_params_dec_ref(context, params);
  }

  dt::SolverAnswer ask(const std::string &problem) {
    Z3_solver_from_string(context, solver, problem.c_str());
    if (failed())
      return {dt::Verdict::Unknown, error(), 0};
    uint64_t before = spent;
    Z3_lbool answer = Z3_solver_check(context, solver);
    spent = count();
    uint64_t steps = spent - before;
    if (failed())
      return {dt::Verdict::Unknown, error(), steps};
    if (answer == Z3_L_FALSE)
      return {dt::Verdict::Proved, "", steps};
    if (answer == Z3_L_TRUE)
      return {dt::Verdict::Refuted, model(), steps};
    return {dt::Verdict::Unknown, Z3_solver_get_reason_unknown(context, solver),
            steps};
  }

  /// Steps that the context has taken so far.
  uint64_t count() const {
    uint64_t steps = 0;
    Z3_stats stats = Z3_solver_get_statistics(context, solver);
    Z3_stats_inc_ref(context, stats);
    for (unsigned i = 0; i < Z3_stats_size(context, stats); ++i)
      if (Z3_stats_is_uint(context, stats, i) &&
          std::string(Z3_stats_get_key(context, stats, i)) == "rlimit count")
        steps = Z3_stats_get_uint_value(context, stats, i);
    Z3_stats_dec_ref(context, stats);
    return steps;
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
  Z3_solver solver = nullptr; // of the problem at hand
  uint64_t spent = 0;         // steps of all problems
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
  return Session().check(obligation.problem, steps);
}

std::vector<dt::SolverAnswer>
dt::solveAll(const std::vector<Obligation> &obligations, unsigned steps) {
  std::vector<SolverAnswer> answers;
  Session session;
  for (const Obligation &obligation : obligations) {
    answers.push_back(steps == 0 ? solve(obligation, steps)
                                 : session.check(obligation.problem, steps));
    if (answers.back().verdict == Verdict::Unknown)
      answers.back() = solve(obligation, steps);
    if (answers.back().verdict == Verdict::Refuted)
      break;
  }
  return answers;
}

#else

std::string dt::solverName() { return ""; }

dt::SolverAnswer dt::solve(const Obligation &, unsigned) {
  return {Verdict::Unknown, "this compiler was built without a solver", 0};
}

std::vector<dt::SolverAnswer>
dt::solveAll(const std::vector<Obligation> &obligations, unsigned steps) {
  return {obligations.size(), solve({}, steps)};
}

#endif
