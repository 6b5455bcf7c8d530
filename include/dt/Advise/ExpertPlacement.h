//===- ExpertPlacement.h - Experts to ranks, by their load ------*- C++ -*-===//
//
// EPLB (deepseek-ai/EPLB, eplb.py) packs experts so that every rank has equally
// many and the ranks' loads are alike: groups to nodes first, heaviest first to
// the lightest node with room, then experts to the ranks of a node likewise.
// Its copies of heavy experts are left out: in training each copy would be a
// parameter of its own. What is added is what moving costs: ranks are named so
// that most experts stay, and a budget of bytes bounds what may move.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ADVISE_EXPERTPLACEMENT_H
#define DT_ADVISE_EXPERTPLACEMENT_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dt::advise {

/// The experts of one layer.
struct ExpertProblem {
  std::vector<int64_t> load; // per expert, tokens of a step
  int64_t ranks = 1;         // of the expert-parallel group
  int64_t nodes = 1;         // that these ranks stand on, equally many on each
  int64_t groups = 1;        // of experts that a token is routed within
  std::vector<int64_t> rankOf; // today's rank of each expert; empty: in order
  int64_t bytesPerExpert = 1;
  int64_t budget = INT64_MAX; // most bytes that may change their rank
};

struct ExpertPlacement {
  std::vector<int64_t> rankOf; // per expert
  int64_t heaviest = 0;        // load of the heaviest rank
  int64_t movedBytes = 0;
};

bool check(const ExpertProblem &problem, std::string &error);

/// EPLB's packing without copies, ranks named so that the fewest experts move.
ExpertPlacement packExperts(const ExpertProblem &problem);

/// The lightest heaviest rank found within the budget: EPLB's packing where it
/// fits, else swaps from today's placement; of equals the fewest bytes.
std::optional<ExpertPlacement> placeExperts(const ExpertProblem &problem,
                                            std::string &error);

/// Rows to columns, one each, with the largest sum of gains (all >= 0): the
/// Hungarian method, O(n^3).
std::vector<int64_t>
bestAssignment(const std::vector<std::vector<int64_t>> &gain);

} // namespace dt::advise

#endif // DT_ADVISE_EXPERTPLACEMENT_H
