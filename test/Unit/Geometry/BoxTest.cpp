#include "dt/Geometry/Box.h"
#include <gtest/gtest.h>
using namespace dt;
TEST(BoxTest, splitsAFlatRange) {
  std::vector<Box> boxes = splitFlatRange({3, 4}, {2, 9});
  ASSERT_EQ(boxes.size(), 3u);
  EXPECT_EQ(toString(boxes[0]), "[0:1)x[2:4)");
  EXPECT_EQ(toString(boxes[1]), "[1:2)x[0:4)");
  EXPECT_EQ(toString(boxes[2]), "[2:3)x[0:1)");
}
