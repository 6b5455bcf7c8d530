// Ranks, coordinates and devices of a mesh.

#include "dt/Geometry/Mesh.h"

#include <gtest/gtest.h>

using namespace dt;

namespace {

TEST(MeshTest, theLastAxisVariesFastest) {
  Mesh mesh = {{{"pp", 2}, {"dp", 3}, {"tp", 4}}, {}};
  EXPECT_EQ(mesh.numRanks(), 24);
  EXPECT_EQ(mesh.coordinate(17, "pp"), 1);
  EXPECT_EQ(mesh.coordinate(17, "dp"), 1);
  EXPECT_EQ(mesh.coordinate(17, "tp"), 1);
  EXPECT_EQ(mesh.coordinate(11, "dp"), 2);
}

TEST(MeshTest, anAxisLeftOutHasSizeOne) {
  Mesh mesh = {{{"tp", 4}}, {}};
  EXPECT_EQ(mesh.axisIndex("ep"), -1);
  EXPECT_EQ(mesh.axisSize("ep"), 1);
  EXPECT_EQ(mesh.coordinate(3, "ep"), 0);
}

TEST(MeshTest, aRankHasADevice) {
  Mesh mesh = {{{"tp", 2}}, {7, 3}};
  EXPECT_EQ(mesh.device(1), 3);
  mesh.devices.clear();
  EXPECT_EQ(mesh.device(1), 1);
}

} // namespace
