//===- Obligations.h - What has to be proved --------------------*- C++ -*-===//
//
// A proof has two halves. The *lemmas* say, for any number of ranks, waves,
// messages, pieces and slots, and wherever a library cuts its groups, that a
// plan which keeps a few rules is safe; a solver proves them. That a plan keeps
// the rules is the *certificate* (Certificate.h), which code checks in linear
// time. So the solver's share does not grow with the world.
//
//===----------------------------------------------------------------------===//

#ifndef DT_PROOF_OBLIGATIONS_H
#define DT_PROOF_OBLIGATIONS_H

#include <string>
#include <vector>

namespace dt {

/// What a plan is said to be.
enum class Claim { Coverage, DeadlockFree, MemorySafe };

/// A statement and its negation as an SMT-LIB problem: declarations and
/// assertions, without (check-sat). Proved when that is unsatisfiable.
struct Obligation {
  std::string name;
  Claim claim = Claim::Coverage;
  std::string statement; // in words
  std::string problem;
  /// Of a lemma: the theorem of proof/ that says it with its induction.
  std::string theorem = {};
};

/// All obligations as one SMT-LIB file; each check-sat shall say "unsat".
/// `header` lines become comments at its start.
std::string toSmtLib(const std::vector<Obligation> &obligations,
                     const std::vector<std::string> &header);

} // namespace dt

#endif // DT_PROOF_OBLIGATIONS_H
