//===- Gathers.h - Whether all-gathers on rails are right -------*- C++ -*-===//

#ifndef DT_TEST_UNIT_ROUTING_GATHERS_H
#define DT_TEST_UNIT_ROUTING_GATHERS_H

#include "dt/Routing/RailTree.h"

#include "gtest/gtest.h"

#include <map>
#include <set>

namespace dt::testing {

/// Devices 0, 1, ... of so many nodes.
inline std::vector<std::vector<int64_t>> nodesOf(int64_t nodes, int64_t rails) {
  std::vector<std::vector<int64_t>> out;
  for (int64_t node = 0; node < nodes; ++node) {
    out.emplace_back();
    for (int64_t rail = 0; rail < rails; ++rail)
      out.back().push_back(node * rails + rail);
  }
  return out;
}

/// Of nodesOf(): every cell comes to everybody once, by NIC to one device of a
/// node, which sends it on later; but for own parts inside nodes, ports carry
/// one message per round. A part has `cells`.
inline void expectGathered(int64_t nodes, int64_t rails, int64_t cells,
                           const std::vector<RailStep> &steps) {
  int64_t devices = nodes * rails;
  std::map<std::pair<int64_t, int64_t>, int64_t> since; // device, cell: round
  std::set<std::pair<int64_t, int64_t>> entered;        // node, cell
  std::set<std::tuple<int64_t, bool, bool, int64_t>> ports;
  for (const RailStep &step : steps) {
    bool inter = step.source / rails != step.destination / rails;
    bool isOwn = step.first / cells == step.source;
    if (inter || !isOwn) {
      ASSERT_TRUE(ports.insert({step.round, inter, false, step.source}).second);
      ASSERT_TRUE(
          ports.insert({step.round, inter, true, step.destination}).second);
    }
    ASSERT_LT(step.first, step.last);
    for (int64_t cell = step.first; cell < step.last; ++cell) {
      ASSERT_NE(cell / cells, step.destination);
      ASSERT_EQ(cell / cells == step.source, isOwn);
      if (!isOwn) {
        auto had = since.find({step.source, cell});
        ASSERT_NE(had, since.end());
        ASSERT_LT(had->second, step.round);
      }
      ASSERT_TRUE(since.insert({{step.destination, cell}, step.round}).second);
      if (inter) {
        ASSERT_TRUE(entered.insert({step.destination / rails, cell}).second);
      }
    }
  }
  EXPECT_EQ(int64_t(since.size()), devices * (devices - 1) * cells);
}

} // namespace dt::testing

#endif // DT_TEST_UNIT_ROUTING_GATHERS_H
