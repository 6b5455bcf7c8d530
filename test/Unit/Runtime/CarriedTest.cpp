//===- CarriedTest.cpp - What the messages of a program carry -------------===//
//
// A list in few bytes says what the program says, or that it is too long.
//
//===----------------------------------------------------------------------===//

#include "Multicasts.h"
#include "PlanBuilder.h"
#include "ProgramVerifier.h"

#include <gtest/gtest.h>

using namespace dtrt;
using namespace dtrt::test;

namespace {

Segment segmentAt(int64_t place) {
  Segment segment;
  segment.family = 3;
  segment.states = 5;
  segment.offset = {place, 7};
  segment.size = {2, 4};
  return segment;
}

uint64_t count(const TestPlan &plan, bool fromLists) {
  std::vector<ProgramTotals> totals(plan.programs.size());
  PassedOn passedOn;
  for (size_t i = 0; i < totals.size(); ++i) {
    Status status =
        ProgramVerifier(plan.common, plan.programs[i], totals[i]).verify();
    EXPECT_TRUE(status.ok()) << status.message();
    passedOn.add(std::move(totals[i].passedOn));
  }
  std::vector<PassedOn::Elements> elements = passedOn.take();
  std::vector<MulticastCounter> counters(1, MulticastCounter(elements));
  for (size_t i = 0; i < totals.size(); ++i) {
    auto steps =
        fromLists
            ? counters[0].addCarried(*totals[i].carried.at(0), 1 << 20)
            : counters[0].addProgram(plan.common, plan.programs[i], 1 << 20);
    EXPECT_TRUE(steps.ok()) << steps.status().message();
  }
  return MulticastCounter::sets(counters).size();
}

} // namespace

TEST(Carried, GivesBackWhatWasAdded) {
  Carried carried(1);
  carried.add(segmentAt(10), 8);
  carried.add(segmentAt(20), 9);
  std::vector<std::pair<int64_t, uint32_t>> found;
  carried.forEach([&](const Segment &segment, uint32_t peer) {
    Segment added = segmentAt(segment.offset[0]);
    EXPECT_EQ(segment.family, added.family);
    EXPECT_EQ(segment.states, added.states);
    EXPECT_EQ(segment.offset, added.offset);
    EXPECT_EQ(segment.size, added.size);
    found.push_back({segment.offset[0], peer});
    return true;
  });
  EXPECT_EQ(found,
            (std::vector<std::pair<int64_t, uint32_t>>{{10, 8}, {20, 9}}));
}

TEST(Carried, KeepsNumbersOfAnySize) {
  std::vector<int64_t> places = {0, INT64_MAX, -1, INT64_MIN};
  for (unsigned bit = 0; bit < 63; ++bit)
    for (int64_t beside : {-1, 0})
      places.push_back((int64_t(1) << bit) + beside);
  Carried carried(1);
  for (int64_t place : places) {
    Segment segment = segmentAt(place);
    segment.states = uint64_t(place);
    segment.size.push_back(place);
    segment.offset.push_back(0);
    carried.add(segment, uint32_t(place));
  }
  size_t next = 0;
  carried.forEach([&](const Segment &segment, uint32_t peer) {
    int64_t place = places[next++];
    EXPECT_EQ(segment.offset, (DimVector{place, 7, 0}));
    EXPECT_EQ(segment.size, (DimVector{2, 4, place}));
    EXPECT_EQ(segment.states, uint64_t(place));
    EXPECT_EQ(peer, uint32_t(place));
    return true;
  });
  EXPECT_EQ(next, places.size());
}

TEST(Carried, EndsWhereItIsTold) {
  Carried carried(1);
  carried.add(segmentAt(10), 8);
  carried.add(segmentAt(20), 9);
  size_t seen = 0;
  carried.forEach([&](const Segment &, uint32_t) { return ++seen == 0; });
  EXPECT_EQ(seen, 1u);
}

TEST(Carried, IsNothingWhereItWouldBeLong) {
  Carried carried(1);
  size_t added = 0;
  for (; carried.isWhole(); ++added)
    carried.add(segmentAt(0), 8);
  EXPECT_GT(added, Carried::kMost / 128);
  EXPECT_EQ(carried.bytes(), 0u);
  carried.add(segmentAt(0), 8);
  EXPECT_FALSE(carried.isWhole());
  EXPECT_EQ(carried.bytes(), 0u);
}

TEST(Carried, HasTheMulticastsOfTheProgram) {
  EXPECT_EQ(count(forwardingPlan(), /*fromLists=*/true), 1u);
  EXPECT_EQ(count(forwardingPlan(), /*fromLists=*/false), 1u);
  EXPECT_EQ(count(reshapePlan(), /*fromLists=*/true), 0u);
}
