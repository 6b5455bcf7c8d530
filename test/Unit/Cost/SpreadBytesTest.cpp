//===- SpreadBytesTest.cpp - What crosses, against all that there are -----===//

#include "dt/Cost/SpreadBytes.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <vector>

using namespace dt;

namespace {

/// Tries all messages whose bytes take whole ticks, a round being so many: what
/// a device and all after it bring other nodes, by ticks that are left.
std::vector<int> mostBrought(int round, int ticks) {
  std::vector<int> nic(ticks + 1), island(ticks + 1), all(ticks + 1);
  for (int left = round; left <= ticks; ++left) {
    int after = left - round;
    for (int bytes = 0; bytes <= after; ++bytes) {
      int then = after - bytes; // of the receiver, and of the NIC
      nic[left] = std::max(nic[left], bytes + all[then] + nic[then]);
      // What goes inside its node is no gain by itself.
      island[left] = std::max(island[left], all[then] + island[then]);
    }
    all[left] = nic[left] + island[left];
  }
  return all;
}

} // namespace

TEST(SpreadBytes, TakeTheLeastTimeOfAllSchedules) {
  for (int round : {1, 2, 5, 7}) {
    std::vector<int> most = mostBrought(round, 6 * round);
    for (int ticks = round + 1; ticks <= 6 * round; ++ticks)
      EXPECT_NEAR(spreadSeconds(most[ticks], round), ticks, 1e-9)
          << "a round of " << round;
  }
}

// The table of the header.
TEST(SpreadBytes, Threefold) {
  EXPECT_DOUBLE_EQ(spreadSeconds(0, 10), 10);
  EXPECT_DOUBLE_EQ(spreadSeconds(4, 10), 14);
  EXPECT_DOUBLE_EQ(spreadSeconds(10 + 2 * 4, 10), 24);
  EXPECT_DOUBLE_EQ(spreadSeconds(3 * (10 + 2 * 4), 10), 34);
  EXPECT_DOUBLE_EQ(spreadSeconds(9 * (10 + 2 * 4), 10), 44);
}
