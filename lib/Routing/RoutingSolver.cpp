//===- RoutingSolver.cpp - What answers routing problems ------------------===//

#include "dt/Routing/RoutingSolver.h"

#include "dt/Routing/BestRoute.h"
#include "dt/Routing/ExactRoute.h"
#include "dt/Routing/Router.h"

using namespace dt;

namespace {

struct Named {
  const char *name;
  RoutingSolver solver;
};
constexpr Named kSolvers[] = {
    {"greedy", routeGreedily}, {"exact", routeExactly}, {"best", routeBest}};

} // namespace

RoutingSolver dt::findRoutingSolver(const std::string &name) {
  for (const Named &named : kSolvers)
    if (name == named.name)
      return named.solver;
  return nullptr;
}

std::string dt::routingSolverNames() {
  std::string out;
  for (const Named &named : kSolvers)
    out += (out.empty() ? "" : ", ") + std::string(named.name);
  return out;
}
