//===- NodeExchange.h - All of a node get what each has got -----*- C++ -*-===//
//
// The first devices of a node have a *rail* each, and all want all of them. In
// a round each sends another one message, and receives one.
//
// With as many devices as rails they meet in teams that grow. With teams of 2
// and 4, first pairs exchange what both have, then four pairs do what each pair
// has; who is at the same place in both teams meet. So a message has rails that
// lie side by side. Four devices, teams of 2 and 2:
//
//   round   0->  1->  2->  3->
//   0       1 0  0 1  3 2  2 3      device and rails
//   1       2 01 3 01 0 23 1 23
//
// Else each sends its own to all others, one after the other.
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_ROUTING_NODEEXCHANGE_H
#define DT_LIB_ROUTING_NODEEXCHANGE_H

#include <cstdint>
#include <vector>

namespace dt {

/// Rails [rail, rail + count) from one device of the node to another.
struct ExchangeStep {
  int64_t round = 0;
  int64_t rail = 0, count = 0;
  int64_t from = 0, to = 0;
};

/// `teams`: their sizes, which multiply to the number of rails.
struct NodeExchange {
  int64_t devices = 0, rails = 0;
  const std::vector<int64_t> &teams;

  int64_t rounds() const;
  std::vector<ExchangeStep> steps() const;
};

/// The teams that take the fewest rounds.
std::vector<int64_t> fewestTeams(int64_t rails);

/// These, and teams whose rounds are not more, nor their
/// messages longer, than those in which as many blocks of each rail come as
/// there are rounds.
std::vector<std::vector<int64_t>> teamsWorthTrying(int64_t rails);

} // namespace dt

#endif // DT_LIB_ROUTING_NODEEXCHANGE_H
