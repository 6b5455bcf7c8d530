//===- mutants.cpp - Many changed plans before all judges -----------------===//
//
// dt-mutants COUNT SEED [PLAN...]: changes plans in one to three places, those
// of the unit tests and those in the files, and has all judges of Mutants.h
// look at what the verifier accepts. Prints how many there were of each
// outcome; the first on which the judges do not agree ends it, and goes to a
// file.
//
//===----------------------------------------------------------------------===//

#include "Mutants.h"
#include "PlanFields.h"

#include <fstream>
#include <iostream>
#include <map>

using namespace dtrt;
using namespace dtrt::test;

namespace {

struct Tally {
  unsigned long refused = 0, same = 0, different = 0;
};

std::vector<Mutation> allKinds(const std::vector<TestPlan> &plans) {
  std::vector<TestPlan> all = {reshapePlan(), reshapePlan(MemoryMode::Flat),
                               derivedPlan(), forwardingPlan()};
  all.insert(all.end(), plans.begin(), plans.end());
  std::vector<Mutation> out;
  for (const auto &list :
       {instructionMutations(), segmentMutations(), messageMutations(),
        statementMutations(), fieldMutations(all)})
    out.insert(out.end(), list.begin(), list.end());
  return out;
}

/// One to three changes; their names.
std::string mutate(TestPlan &plan, const std::vector<Mutation> &kinds,
                   Rng &rng) {
  std::string names;
  size_t wanted = 1 + (rng() % 4 == 0) + (rng() % 16 == 0);
  for (int tries = 0; wanted > 0 && tries < 100; ++tries) {
    const Mutation &kind = kinds[rng() % kinds.size()];
    if (!kind.apply(plan, rng))
      continue;
    names += (names.empty() ? "" : ", ") + kind.name;
    --wanted;
  }
  if (rng() % 2)
    makeSummaryTrue(plan);
  return names;
}

int fail(const std::string &message) {
  std::cerr << "error: " << message << "\n";
  return 1;
}

int run(unsigned long count, uint64_t seed,
        const std::vector<TestPlan> &plans) {
  std::vector<Mutation> kinds = allKinds(plans);
  Tally tally;
  for (unsigned long number = 0; number < count; ++number) {
    Rng rng(seed + number);
    bool own = plans.empty() || rng() % 2;
    TestPlan plan = own ? anyPlan(rng) : plans[rng() % plans.size()];
    TestPlan mutant = plan;
    std::string names = mutate(mutant, kinds, rng);
    Verdict verdict = judge(plan, mutant, rng);
    if (!verdict.problem.empty()) {
      std::string path = "mutant-" + std::to_string(seed + number) + ".dtplan";
      std::ofstream(path, std::ios::binary) << mutant.bytes();
      return fail("seed " + std::to_string(seed + number) + " (" + names +
                  "): verified, but " + verdict.problem + "; it is in " + path);
    }
    ++(!verdict.accepted ? tally.refused
       : verdict.differs ? tally.different
                         : tally.same);
  }
  std::cout << count << " mutants: " << tally.refused << " refused, "
            << tally.different << " right though different, " << tally.same
            << " the same\n";
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 3) {
    std::cerr << "usage: dt-mutants COUNT SEED [PLAN...]\n";
    return 2;
  }
  std::vector<TestPlan> plans;
  for (int i = 3; i < argc; ++i) {
    auto reader = PlanReader::open(argv[i]);
    auto plan = reader.ok() ? TestPlan::from(*reader)
                            : Result<TestPlan>(reader.status());
    if (!plan.ok())
      return fail(plan.status().message());
    plans.push_back(std::move(*plan));
  }
  return run(std::stoul(argv[1]), std::stoull(argv[2]), plans);
}
