//===- PlanFields.h - Every field of a plan, one by one ---------*- C++ -*-===//
//
// The structs of PlanModel.h taken apart by structured bindings: a field that
// is added to one does not compile here before it is listed.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TEST_PLANFIELDS_H
#define DTRT_TEST_PLANFIELDS_H

#include "Mutations.h"

namespace dtrt::test {

/// One field of one struct of a plan, which must outlive it.
struct Field {
  std::string name; // of struct and field: "shard.range.lo"
  /// Gives it another value: mostly a near one, sometimes one at which
  /// something may overflow. False where that was the same value by chance, or
  /// a list is too short for what was to be done to it.
  std::function<bool(Rng &)> change;
};

std::vector<Field> fieldsOf(TestPlan &plan);

/// Fields that say who made a plan, and from what.
bool isProvenance(const std::string &fieldName);
/// The plan without what these fields say.
TestPlan withoutProvenance(TestPlan plan);

/// A kind of mutation for each name, that changes one of the fields that have
/// it; the names are those of the given plans.
std::vector<Mutation> fieldMutations(const std::vector<TestPlan> &plans);

} // namespace dtrt::test

#endif // DTRT_TEST_PLANFIELDS_H
