//===- Mutations.h - Plans with one fault each ------------------*- C++ -*-===//

#ifndef DTRT_TEST_MUTATIONS_H
#define DTRT_TEST_MUTATIONS_H

#include "PlanBuilder.h"

#include <functional>
#include <random>

namespace dtrt::test {

using Rng = std::mt19937_64;

/// One kind of fault. `apply` changes the plan at a random place and says
/// whether it found one.
struct Mutation {
  std::string name;
  std::function<bool(TestPlan &, Rng &)> apply;
};

/// Kinds that change what instructions do, which may by luck change nothing
/// (two packs in the other order).
std::vector<Mutation> instructionMutations();
std::vector<Mutation> segmentMutations();
std::vector<Mutation> messageMutations();
/// Kinds that make the plan untrue or break a limit, whatever the place.
std::vector<Mutation> statementMutations();

} // namespace dtrt::test

#endif // DTRT_TEST_MUTATIONS_H
