//===- ProblemTextTest.cpp - Routing problems as text ---------------------===//

#include "dt/Routing/ProblemText.h"
#include "ChangedText.h"
#include "RandomFlows.h"
#include "Solved.h"

using namespace dt;
using namespace dt::testing;

namespace {

const char *const kText = R"({
  // The smallest problem, with a comment.
  "problem": "routing",
  "cluster": {"devices_per_node": 2, "intra_node_GBps": 200,
              "inter_node_GBps": 25, "latency_us": 10},
  "staging_bytes": 4096,
  "flows": [
    {"element_bytes": 4,
      "source": {"owners": [[0]], "cells": [{"owners": 0, "box": [[0, 8]]}]},
      "destination": {"owners": [[1, 2]],
                      "cells": [{"owners": 0, "box": [[0, 8]]}]}}
  ]
})";

void expectRefused(const std::string &from, const std::string &to,
                   const std::string &expected) {
  expectUnread(readRoutingProblem, replaced(kText, from, to), expected);
}

} // namespace

TEST(ProblemText, IsReadWithComments) {
  std::string error;
  auto problem = readRoutingProblem(kText, error);
  ASSERT_TRUE(problem) << error;
  EXPECT_FALSE(problem->check());
  EXPECT_EQ(problem->cluster().devicesPerNode, 2);
  EXPECT_EQ(problem->cluster().devicesPerNic, 1);
  EXPECT_EQ(problem->cluster().interNodeGBps, 25);
  EXPECT_EQ(problem->stagingBytes(), 4096);
  ASSERT_EQ(problem->flows().size(), 1u);
  EXPECT_EQ(problem->flows()[0].destination.ownerSets[0],
            (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(problemKind(kText, error), "routing");
}

TEST(ProblemText, ReadsBackWhatItWrote) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int trial = 0; trial < 100; ++trial) {
    RandomTransition t = randomTransition(random);
    t.cluster.latencyUs = double(random()) / 3;
    t.cluster.intraNodeGBps = double(random() + 1) / 7;
    if (random() % 2)
      t.cluster.links = {{{true, 0}, {false, 3}, double(random() + 1) / 3},
                         {{false, 1}, {true, 2}, 1}};
    if (random() % 2)
      t.cluster.devicesPerNic = t.cluster.devicesPerNode;
    RoutingProblem problem(t.flows, t.cluster, 1 + int64_t(random()));
    std::string text = toText(problem), error;
    auto again = readRoutingProblem(text, error);
    ASSERT_TRUE(again) << error;
    EXPECT_EQ(toText(*again), text);
    // Everything that a solver sees is the same.
    EXPECT_EQ(again->lowerBound(), problem.lowerBound());
    Routing first = solved(problem), second = solved(*again);
    ASSERT_EQ(first.moves.size(), second.moves.size());
    for (size_t i = 0; i < first.moves.size(); ++i) {
      EXPECT_EQ(first.moves[i].source, second.moves[i].source);
      EXPECT_EQ(first.moves[i].box, second.moves[i].box);
    }
  }
}

TEST(ProblemText, NamesWhatItDoesNotExpect) {
  expectRefused("\"staging_bytes\": 4096", "\"staging\": 4096",
                "unknown key 'staging' in the problem, expected problem, "
                "cluster, staging_bytes, flows");
  expectRefused("\"latency_us\": 10", "\"links\": []",
                "cluster.latency_us must be a number, not missing");
  expectRefused("[[0, 8]]", "[[0, 8, 9]]",
                "flows[0].source.cells[0].box[0] must be [LO, HI], not "
                "[0,8,9]");
  expectRefused("\"element_bytes\": 4", "\"element_bytes\": 4.5",
                "flows[0].element_bytes must be an integer, not 4.5");
  expectRefused("\"element_bytes\": 4",
                "\"element_bytes\": 9223372036854775808",
                "flows[0].element_bytes must be an integer, not "
                "9223372036854775808");
  expectRefused("\"owners\": 0", "\"owners\": -1",
                "flows[0].source.cells[0].owners must be an integer from 0 to "
                "2^32 - 1, not -1");
  expectRefused("\"routing\"", "\"waves\"",
                "problem must be \"routing\", not \"waves\"");
  expectRefused("[[0]]", "0", "flows[0].source.owners must be an array, not 0");
  expectRefused("{\"devices_per_node\": 2,", "[{\"a\": 2,",
                "the problem is not JSON: parse error at line 6, column 18: "
                "syntax error while parsing array - unexpected ':'; expected "
                "']'");
  std::string deep = "[";
  for (int dim = 0; dim < 9; ++dim)
    deep += dim ? ", [0, 1]" : "[0, 1]";
  expectRefused("[[0, 8]]", deep + "]",
                "flows[0].source.cells[0].box must be a box of at most 8 dims, "
                "not [[0,1],[0,1],[0,1],[0,1],[0,1],[0,1],[0,");
}
