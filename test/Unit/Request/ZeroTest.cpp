//===- ZeroTest.cpp - Which states the ZeRO-1 buckets cut -----------------===//

#include "RequestTesting.h"

using namespace dt;

namespace {

using Names = std::vector<std::string>;

Request readZero(const std::string &model, const std::string &layout) {
  return readGood(R"({"model": ")" + model +
                  R"(", "state": {"param": "bf16", "master": "f32",
                      "grad": "bf16", "exp_avg": "f32"},
                      "source": )" +
                  layout + R"(, "destination": {"world": 1}})");
}

ZeroDecl zeroOf(const Request &request) {
  EXPECT_TRUE(request.source.zero);
  return request.source.zero ? *request.source.zero : ZeroDecl();
}

std::vector<PlaceDecl> placesOf(const Request &request,
                                const std::string &name) {
  std::vector<PlaceDecl> places;
  for (const PlaceDecl &place : request.source.places)
    if (place.tensor == findTensor(request, name))
      places.push_back(place);
  return places;
}

TEST(Zero, bucketsAllStatesButParamAndGrad) {
  Request request =
      readZero("llama-tiny.json", R"({"world": 8, "tp": 2, "dp": 4,
                                      "zero": 1})");
  auto places = placesOf(request, "output_layer.weight");
  ASSERT_EQ(places.size(), 2u);
  EXPECT_FALSE(places[0].bucketed);
  EXPECT_EQ(places[0].states, (Names{"param", "grad"}));
  EXPECT_TRUE(places[1].bucketed);
  EXPECT_EQ(places[1].states, (Names{"master", "exp_avg"}));
  EXPECT_EQ(zeroOf(request).axes, std::vector<Names>{{"dp"}});
  EXPECT_FALSE(request.destination.zero);
}

TEST(Zero, widensByContextParallelismButNotTheBucketSize) {
  Request request =
      readZero("llama-tiny.json", R"({"world": 8, "cp": 2, "dp": 4,
                                      "zero": 1})");
  EXPECT_EQ(zeroOf(request).axes, (std::vector<Names>{{"dp", "cp"}}));
  EXPECT_EQ(zeroOf(request).bucketSize, 40'000'000);
}

TEST(Zero, growsBucketsWithDataParallelism) {
  Request request =
      readZero("llama-tiny.json", R"({"world": 64, "dp": 64, "zero": 1})");
  EXPECT_EQ(zeroOf(request).bucketSize, 64'000'000);
  request = readZero("llama-tiny.json", R"({"world": 64, "dp": 64, "zero": 1,
                                            "bucket_size": 12345})");
  EXPECT_EQ(zeroOf(request).bucketSize, 12345);
}

TEST(Zero, givesExpertsBuffersOverExpertDataParallelism) {
  Request request = readZero("qwen3-moe-tiny.json",
                             R"({"world": 8, "tp": 2, "dp": 4, "ep": 2,
                                 "etp": 1, "zero": 1})");
  EXPECT_EQ(zeroOf(request).axes, (std::vector<Names>{{"dp"}, {"edp"}}));
  auto places =
      placesOf(request, "decoder.layers.0.mlp.experts.linear_fc1.weight0");
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places[1].mesh, 1u);
}

TEST(Zero, cutsNothingWhereOneRankSharesTheBuffer) {
  Request request = readZero("qwen3-moe-tiny.json",
                             R"({"world": 8, "tp": 2, "dp": 4, "ep": 8,
                                 "etp": 1, "zero": 1})");
  auto places =
      placesOf(request, "decoder.layers.0.mlp.experts.linear_fc1.weight0");
  ASSERT_EQ(places.size(), 1u);
  EXPECT_FALSE(places[0].bucketed);
  EXPECT_TRUE(places[0].states.empty());
}

TEST(Zero, leavesBuffersAlone) {
  Request request =
      readZero("deepseek-tiny.json", R"({"world": 4, "dp": 4, "zero": 1})");
  auto places = placesOf(request, "decoder.layers.1.mlp.router.expert_bias");
  ASSERT_EQ(places.size(), 1u);
  EXPECT_FALSE(places[0].bucketed);
}

} // namespace
