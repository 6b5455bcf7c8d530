//===- ViewsTest.cpp - Tensors of one side in their own coordinates -------===//

#include "ExpectContains.h"
#include "PlanBuilder.h"

#include "dtrt/format/ShardView.h"
#include "dtrt/format/Views.h"
#include "dtrt/report/Deliveries.h"
#include "dtrt/verify/Verifier.h"

#include <gtest/gtest.h>

#include <sstream>

using namespace dtrt;
using namespace dtrt::test;

namespace {

using Dims = std::vector<std::vector<Interval>>;

} // namespace

TEST(Views, APlanWithThemIsRead) {
  TestPlan plan = viewedPlan();
  EXPECT_EQ(plan.verdict(), "");
  auto again = TestPlan::from(plan.reader());
  ASSERT_TRUE(again.ok());
  ASSERT_EQ(again->common.views.size(), 3u);
  EXPECT_EQ(again->common.views[2].name, "h.{}.v");
  EXPECT_EQ(again->common.views[2].dims, plan.common.views[2].dims);
  EXPECT_EQ(again->programs[1].destination[2].view, 2u);
  EXPECT_EQ(again->programs[1].source[0].view, kNoView);
}

TEST(Views, ShardsAreToldInOwnCoordinates) {
  TestPlan plan = viewedPlan();
  const std::vector<ShardRecord> &shards = plan.programs[1].destination;
  EXPECT_EQ(ownTensorName(plan.common, shards[0], {1}), "h.3.q");
  OwnPart q = ownPart(plan.common, shards[0]);
  EXPECT_EQ(q.fullShape, (std::vector<int64_t>{8, 4}));
  EXPECT_EQ(q.dims, (Dims{{{6, 8}}, {{0, 4}}}));
  // Both intervals of v, the last group first.
  EXPECT_EQ(ownPart(plan.common, shards[2]).dims,
            (Dims{{{0, 1}, {1, 2}}, {{0, 4}}}));
  const ShardRecord &half = plan.programs[1].source[0];
  EXPECT_EQ(ownTensorName(plan.common, half, {1}), "layers.1.qkv");
  EXPECT_EQ(ownPart(plan.common, half).dims, (Dims{{{6, 12}}, {{0, 4}}}));
}

TEST(Views, BoxesAreToldInOwnCoordinates) {
  TestPlan plan = viewedPlan();
  auto box = ownBox(plan.common, Side::Destination, 0, {0, 6, 1}, {2, 2, 3});
  ASSERT_TRUE(box);
  EXPECT_EQ(box->view->name, "h.{}.q");
  EXPECT_EQ(box->offset, (std::vector<int64_t>{4, 1}));
  EXPECT_EQ(box->size, (std::vector<int64_t>{2, 3}));
  // No tensor has rows of both q and k.
  EXPECT_FALSE(ownBox(plan.common, Side::Destination, 0, {0, 3, 0}, {2, 2, 4}));
  EXPECT_FALSE(ownBox(plan.common, Side::Source, 0, {0, 6, 1}, {2, 2, 3}));
}

TEST(Views, DeliveriesHaveTheOwnTensor) {
  std::ostringstream out;
  ASSERT_TRUE(writeDeliveries(viewedPlan().reader(), out).ok());
  expectContains(
      out.str(),
      R"("offset": [11, 0], "size": [1, 4], "wave": -1, "destination": )"
      R"({"tensor": "h.1.v", "offset": [0, 0], "size": [1, 4]}})");
}

TEST(Views, AShardThatLeavesItsViewIsRefused) {
  TestPlan plan = viewedPlan();
  plan.programs[1].destination[0].view = 1;
  expectContains(plan.verdict(),
                 "destination shard 0 of 'layers.{}.qkv': has [8, 10) "
                 "of dim 0, which view 'h.{}.k' does not have there");
}

TEST(Views, PartsThatChangePlacesAreRefused) {
  TestPlan plan = viewedPlan();
  std::vector<Interval> &rows = plan.programs[1].destination[2].dims[1];
  std::swap(rows[0], rows[1]);
  expectContains(plan.verdict(),
                 "has [11, 12) of dim 0, which view 'h.{}.v' does "
                 "not have there");
  // Inside one interval of the view.
  plan = viewedPlan();
  plan.programs[0].destination[0].dims[1] = {{2, 4}, {0, 2}, {6, 8}};
  expectContains(
      plan.verdict(),
      "has [0, 2) of dim 0, which view 'h.{}.q' does not have there");
}

TEST(Views, ViewsThatDoNotFitTheirFamilyAreRefused) {
  auto refusal = [](auto change) {
    TestPlan plan = viewedPlan();
    change(plan.common.views[0]);
    return plan.verdict();
  };
  using View = NamedView;
  expectContains(refusal([](View &v) { v.family = 7; }),
                 "view 0 'h.{}.q': is of family 7 of 1");
  expectContains(refusal([](View &v) { v.dims.pop_back(); }),
                 "view 0 'h.{}.q': has 1 dims, expected 2");
  expectContains(refusal([](View &v) { v.dims[0].intervals[1] = {3, 7}; }),
                 "view 0 'h.{}.q': dim 0 has element 3 twice");
  expectContains(refusal([](View &v) { v.dims[0].intervals[1] = {7, 7}; }),
                 "view 0 'h.{}.q': dim 0 has interval [7, 7)");
  expectContains(refusal([](View &v) { v.dims[0].intervals.clear(); }),
                 "view 0 'h.{}.q': dim 0 has no interval");
  expectContains(refusal([](View &v) { v.dims[1].isIndex = true; }),
                 "view 0 'h.{}.q': dim 1 has no single index below 4");
  expectContains(refusal([](View &v) { v.name = "q"; }),
                 "has 0 '{}' in its name and 1 numbers for 1 leading dims");
  expectContains(refusal([](View &v) { v.leading = {{1, 0, 2, {1, 1}}}; }),
                 "has numbers from 1 step 0, 2 of them, for 2 members");
  expectContains(refusal([](View &v) { v.side = Side::Source; }),
                 "names view 'h.{}.q' of another family or side");
  expectContains(refusal([](View &v) { v.name = "h.{}.k"; }),
                 "two tensors have the name 'h.1.k'");
}

TEST(Views, ListedNumbersAreReadAndNamed) {
  TestPlan plan = listedPlan();
  EXPECT_EQ(plan.verdict(), "");
  auto again = TestPlan::from(plan.reader());
  ASSERT_TRUE(again.ok());
  const PlanCommon &common = again->common;
  EXPECT_EQ(common.families[0].tensorName({1}), "layers.5.qkv");
  EXPECT_EQ(common.views[0].tensorName({0}), "h.3.q");
  EXPECT_EQ(common.views[0].tensorName({1}), "h.1.q");
}

TEST(Views, DimsInAnotherOrderAreReadAndTold) {
  TestPlan plan = permutedPlan();
  EXPECT_EQ(plan.verdict(), "");
  auto again = TestPlan::from(plan.reader());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->common.views[0].order, plan.common.views[0].order);
  EXPECT_EQ(again->programs[1].destination[2].order, *Permutation::of({1, 0}));
  OwnPart q = ownPart(plan.common, plan.programs[1].destination[0]);
  EXPECT_EQ(q.fullShape, (std::vector<int64_t>{4, 8}));
  EXPECT_EQ(q.dims, (Dims{{{0, 4}}, {{6, 8}}}));
  auto box = ownBox(plan.common, Side::Destination, 0, {0, 6, 1}, {2, 2, 3});
  ASSERT_TRUE(box);
  EXPECT_EQ(box->offset, (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(box->size, (std::vector<int64_t>{3, 2}));
}

TEST(Views, ABoxOfAPermutedShardIsStrided) {
  TestPlan plan = permutedPlan();
  const Family &family = plan.common.families[0];
  // Rows 6 and 7 of rank 0's [0, 4) and [6, 8), columns 1 and 2.
  auto view =
      viewOf(family, plan.programs[0].destination[0], {0, 6, 1}, {1, 2, 2});
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->offset, 6 + 4);
  EXPECT_EQ(view->strides, (std::vector<int64_t>{1, 6}));
  EXPECT_FALSE(view->contiguous());
}

TEST(Views, SeveralDimsInOneAreReadAndTold) {
  TestPlan plan = flattenedPlan();
  EXPECT_EQ(plan.verdict(), "");
  auto again = TestPlan::from(plan.reader());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->common.views[0].parts, DimParts{2});
  // Rows 6 and 7 of 8, of each of 4 columns.
  OwnPart q = ownPart(plan.common, plan.programs[1].destination[0]);
  EXPECT_EQ(q.fullShape, (std::vector<int64_t>{32}));
  EXPECT_EQ(q.dims, (Dims{{{6, 8}, {14, 16}, {22, 24}, {30, 32}}}));
  EXPECT_EQ(
      mostFlattenedIntervals(plan.common, plan.programs[1].destination[0]), 4u);
  // All of v, whose rows stand in another order.
  const ShardRecord &v = plan.programs[1].destination[2];
  EXPECT_EQ(ownPart(plan.common, v).dims, (Dims{{{0, 8}}}));
  EXPECT_EQ(mostFlattenedIntervals(plan.common, v), 1u);
}

TEST(Views, ABoxThatIsNoneOfAFlattenedDimIsToldOfItsParts) {
  TestPlan plan = flattenedPlan();
  auto box = ownBox(plan.common, Side::Destination, 0, {0, 6, 1}, {2, 2, 1});
  ASSERT_TRUE(box);
  EXPECT_EQ(box->offset, (std::vector<int64_t>{8 + 4}));
  EXPECT_EQ(box->size, (std::vector<int64_t>{2}));
  EXPECT_TRUE(box->reshape.empty());
  box = ownBox(plan.common, Side::Destination, 0, {0, 4, 1}, {2, 1, 3});
  ASSERT_TRUE(box); // k has rows 4 and 10
  EXPECT_EQ(box->offset, (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(box->size, (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(box->reshape, (std::vector<int64_t>{4, 2}));
}

TEST(Views, PartsThatAreNotTheDimsAreRefused) {
  for (DimParts parts : {DimParts{1}, {3}, {1, 1}, {0, 2}, {2, 1}}) {
    TestPlan plan = flattenedPlan();
    plan.common.views[1].parts = parts;
    expectContains(plan.verdict(), "view 1 'h.{}.k': has " +
                                       std::to_string(parts.size()) +
                                       " dims made of its 2 dims");
  }
}

TEST(Views, WhatPaddingHoldsIsReadAndTold) {
  TestPlan plan = filledPlan();
  EXPECT_EQ(plan.verdict(), "");
  auto again = TestPlan::from(plan.reader());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->common.views[0].fill, std::vector<uint64_t>{kTestFill});
  const RankProgram &program = again->programs[0];
  EXPECT_EQ(fillOf(again->common, program.destination[1], 0), kTestFill);
  EXPECT_EQ(fillOf(again->common, program.destination[0], 0), 0u);
  EXPECT_EQ(fillOf(again->common, program.source[1], 0), 0u);
}

TEST(Views, FillsThatNoElementCanBeAreRefused) {
  auto verdict = [](std::vector<uint64_t> fill) {
    TestPlan plan = filledPlan();
    plan.common.views[0].fill = std::move(fill);
    return plan.verdict();
  };
  expectContains(verdict({1, 2}), "has fills of 2 states, expected 1");
  expectContains(verdict({0}), "has fills of zeros alone");
  expectContains(verdict({0x10000}),
                 "has the fill 0x10000 of state 'param', which has 2 bytes");
  EXPECT_EQ(verdict({0xffff}), "");
}

TEST(Views, AFlattenedDimThatCannotBeCountedIsRefused) {
  TestPlan plan = flattenedPlan();
  NamedView view = plan.common.views[0];
  view.dims[0].intervals = {{0, int64_t(1) << 61}};
  expectContains(checkView(plan.common.families, view).message(),
                 "has a dim of more than");
}

TEST(Views, AShardOfTooManyFlattenedIntervalsIsRefused) {
  // One column of very many rows, each of which it is one interval.
  TestPlan plan = flattenedPlan();
  ShardRecord &shard = plan.programs[0].destination[0];
  plan.common.families[0].shape = {int64_t(1) << 40, 4};
  plan.common.views[0].order = shard.order = Permutation();
  plan.common.views[0].dims[0].intervals = {{0, int64_t(1) << 40}};
  shard.dims[1] = {{0, int64_t(1) << 40}};
  shard.dims[2] = {{1, 2}};
  EXPECT_EQ(mostFlattenedIntervals(plan.common, shard), uint64_t(1) << 40);
  expectContains(plan.verdict(), "intervals of flattened dims");
}

TEST(Views, AShardInAnotherOrderThanItsViewIsRefused) {
  TestPlan plan = permutedPlan();
  ShardRecord &shard = plan.programs[0].destination[0];
  shard.order = Permutation();
  expectContains(checkInView(plan.common, shard, Side::Destination).message(),
                 "is stored in another order than view 'h.{}.q'");
  shard.view = kNoView;
  shard.order = *Permutation::of({1, 0});
  expectContains(checkInView(plan.common, shard, Side::Destination).message(),
                 "is stored in another order than its tensor");
}

TEST(Views, AShardOfNoSuchViewIsRefused) {
  TestPlan plan = viewedPlan();
  plan.programs[0].destination[0].view = 3;
  expectContains(plan.verdict(), "names view 3 of 3");
}
