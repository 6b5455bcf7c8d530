//===- Mutants.h - Do all judges of a changed plan agree? -------*- C++ -*-===//
//
// Whatever the verifier lets pass must be right: run to the letter and from
// shard to shard, with packs as early and unpacks as late as they may be, and
// on the adversarial machine, every byte arrives; read again it is right again;
// and where it says something else than before, diff says so.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TEST_MUTANTS_H
#define DTRT_TEST_MUTANTS_H

#include "Mutations.h"

namespace dtrt::test {

/// Packs of source shards go before the group before them, unpacks behind the
/// group after them, unless that sends from the destination.
TestPlan overlapped(TestPlan plan);

/// Why a plan that the verifier accepts does not run right; empty if it does.
std::string wrongRun(const TestPlan &plan, Rng &rng);

struct Verdict {
  bool accepted = false;
  bool differs = false; // it says something else than the original
  std::string problem;  // judges that do not agree
};
Verdict judge(const TestPlan &original, const TestPlan &mutant, Rng &rng);

} // namespace dtrt::test

#endif // DTRT_TEST_MUTANTS_H
