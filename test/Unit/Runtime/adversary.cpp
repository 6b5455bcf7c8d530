//===- adversary.cpp - Plan files on the adversarial machine --------------===//
//
// dt-adversary PLAN RUNS SEED: runs a plan with real bytes under RUNS random
// adversaries. Prints the number of runs; the first failure ends it.
//
//===----------------------------------------------------------------------===//

#include "AdversarialMachine.h"

#include <iostream>

using namespace dtrt;
using namespace dtrt::test;

int main(int argc, char **argv) {
  if (argc != 4) {
    std::cerr << "usage: dt-adversary PLAN RUNS SEED\n";
    return 2;
  }
  auto plan = PlanReader::open(argv[1]);
  if (!plan.ok()) {
    std::cerr << "error: " << plan.status().message() << "\n";
    return 1;
  }
  std::mt19937_64 rng(std::stoull(argv[3]));
  unsigned long runs = std::stoul(argv[2]);
  uint32_t perNode = uint32_t(plan->common().cluster.devicesPerNode);
  for (unsigned long run = 0; run < runs; ++run) {
    Adversary adversary = randomAdversary(rng);
    Status status = runOnMachine(*plan, perNode, adversary, rng());
    if (!status.ok()) {
      std::cerr << "error: run " << run << ": " << status.message() << "\n";
      return 1;
    }
  }
  std::cout << runs << " runs\n";
  return 0;
}
