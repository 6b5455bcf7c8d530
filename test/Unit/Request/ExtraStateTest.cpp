//===- ExtraStateTest.cpp - Counters, RNG states and cursors --------------===//

#include "RequestTesting.h"

using namespace dt;

namespace {

std::string request(const std::string &source, const std::string &destination,
                    const std::string &extra) {
  return R"({"model": "qwen3-moe-tiny.json", "source": )" + source +
         R"(, "destination": )" + destination + R"(, "extra": [)" + extra +
         "]}";
}

/// Offsets of the row of every destination rank of the last tensor.
std::vector<std::vector<int64_t>> taken(const Request &request) {
  std::vector<std::vector<int64_t>> out;
  const PlaceDecl &place = request.destination.places.back();
  size_t axes = request.tensors[place.tensor].shape.size() - 1;
  for (const RankBox &row : place.rows) {
    out.emplace_back();
    for (size_t d = 0; d < axes; ++d)
      out.back().push_back(row.box[d].lo);
  }
  return out;
}

} // namespace

TEST(ExtraState, ACounterIsOnEveryRank) {
  Request read =
      readGood(request(R"({"world": 2, "dp": 2})", R"({"world": 3, "dp": 3})",
                       R"({"name": "step", "dtype": "i64"})"));
  const TensorDecl &step = read.tensors.back();
  EXPECT_EQ(step.name, "step");
  EXPECT_EQ(step.shape, std::vector<int64_t>{1});
  EXPECT_EQ(step.states[0].source, DType::I64);
  EXPECT_EQ(read.source.places.back().rows.size(), 2u);
  EXPECT_EQ(read.destination.places.back().rows.size(), 3u);
}

TEST(ExtraState, CoordinatesOfALargerMeshCountRoundAgain) {
  Request read = readGood(request(
      R"({"world": 4, "tp": 2, "dp": 2})", R"({"world": 6, "tp": 2, "dp": 3})",
      R"({"name": "rng", "dtype": "u8", "shape": [40], "per": ["dp", "tp"]})"));
  EXPECT_EQ(read.tensors.back().shape, (std::vector<int64_t>{2, 2, 40}));
  EXPECT_EQ(taken(read), (std::vector<std::vector<int64_t>>{
                             {0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 0}, {0, 1}}));
}

TEST(ExtraState, CoordinatesThatNoRankHasTakeThoseOfTheFirstNamedAxes) {
  // ep is another factorization of the dp ranks: dp 1 always is ep 1.
  Request read = readGood(request(
      R"({"world": 4, "dp": 4, "ep": 2})", R"({"world": 2, "dp": 2})",
      R"({"name": "rng", "dtype": "u8", "shape": [40], "per": ["dp", "ep"]})"));
  EXPECT_EQ(taken(read), (std::vector<std::vector<int64_t>>{{0, 0}, {1, 1}}));
}

TEST(ExtraState, ExpertAxesAreToldApartWithoutExperts) {
  // etp is tp unless it is given; a dense model may have ep ranks all the same.
  Request read = readGood(
      R"({"model": "llama-tiny.json", "source": {"world": 4, "tp": 2, "dp": 2,
          "ep": 2}, "destination": {"world": 4, "tp": 2, "dp": 2, "ep": 2},
          "extra": [{"name": "rng", "dtype": "u8", "per": ["etp", "ep"]}]})");
  EXPECT_EQ(read.tensors.back().shape, (std::vector<int64_t>{2, 2, 1}));
  EXPECT_EQ(taken(read), (std::vector<std::vector<int64_t>>{
                             {0, 0}, {1, 0}, {0, 1}, {1, 1}}));
}

TEST(ExtraState, ExplicitShardsHaveTheAxisRank) {
  Request read = readGood(
      R"({"model": {"tensors": [{"name": "w", "shape": [4], "dtype": "bf16"}]},
          "source": {"world": 2, "shards": [
            {"tensor": "w", "rank": 0, "offset": [0], "size": [4]}]},
          "destination": {"world": 3, "shards": [
            {"tensor": "w", "rank": 0, "offset": [0], "size": [4]}]},
          "extra": [{"name": "rng", "dtype": "u8", "per": ["rank"]}]})");
  EXPECT_EQ(taken(read), (std::vector<std::vector<int64_t>>{{0}, {1}, {0}}));
}

TEST(ExtraState, MistakesAreNamed) {
  auto bad = [](const std::string &extra) {
    return readBad(request(R"({"world": 1})", R"({"world": 1})", extra));
  };
  EXPECT_EQ(bad(R"({"name": "a", "dtype": "u9"})"),
            "extra[0] (\"a\") has the unknown dtype \"u9\"");
  EXPECT_EQ(bad(R"({"name": "a", "dtype": "u8", "per": ["xp"]})"),
            "extra[0] (\"a\") per names the unknown axis \"xp\"");
  EXPECT_EQ(bad(R"({"name": "a", "dtype": "u8", "per": ["dp", "dp"]})"),
            "extra[0] (\"a\") per names axis \"dp\" twice");
  EXPECT_EQ(bad(R"({"name": "a", "dtype": "u8"}, {"name": "a",
                    "dtype": "u8"})"),
            "extra[1] names \"a\", which is a tensor already");
}
