//===- Solved.h - Routings that are verified --------------------*- C++ -*-===//

#ifndef DT_TEST_UNIT_ROUTING_SOLVED_H
#define DT_TEST_UNIT_ROUTING_SOLVED_H

#include "dt/Routing/Router.h"

#include "gtest/gtest.h"

namespace dt::testing {

/// What a solver answers to a problem; both are checked.
inline Routing solved(const RoutingProblem &problem,
                      const RouterOptions &options = {},
                      RoutingSolver solver = routeGreedily) {
  auto fault = problem.check();
  EXPECT_FALSE(fault) << *fault;
  Routing routing;
  if (fault)
    return routing;
  auto error = solver(problem, options, routing);
  EXPECT_FALSE(error) << *error;
  if (!error) {
    auto broken = problem.verify(routing);
    EXPECT_FALSE(broken) << *broken;
  }
  return routing;
}

} // namespace dt::testing

#endif // DT_TEST_UNIT_ROUTING_SOLVED_H
