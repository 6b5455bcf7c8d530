//===- RequestSetTest.cpp - Which transitions a request is for ------------===//

#include "RequestTesting.h"

#include "dt/Request/RequestSet.h"

#include <fstream>

using namespace dt;

namespace {

RequestSet readSet(const std::string &sides) {
  std::string error;
  auto set = RequestSet::read(
      R"({"model": {"tensors": [{"name": "w", "shape": [48], "dtype": "f32"}]},
          "rules": [{"match": "*", "tp": 0}],
          "cluster": {"devices_per_node": 2},)" +
          sides + "}",
      ".", error);
  EXPECT_TRUE(set) << error;
  return std::move(*set);
}

Request requestAt(const RequestSet &set, size_t index) {
  std::string error;
  auto request = set.request(index, error);
  EXPECT_TRUE(request) << error;
  return request.value_or(Request());
}

using Numbers = std::vector<int64_t>;

TEST(RequestSet, ofOneTransitionIsNoFamily) {
  RequestSet set = readSet(R"("source": {"world": 2, "tp": 2},
                              "destination": {"world": 1})");
  EXPECT_FALSE(set.isFamily());
  ASSERT_EQ(set.size(), 1u);
  EXPECT_EQ(set.name(0), "");
  EXPECT_EQ(requestAt(set, 0).destination.world, 1);
}

TEST(RequestSet, lossesKeepTheOrderOfTheSource) {
  RequestSet set = readSet(
      R"("source": {"world": 6, "tp": 2, "dp": 3, "devices": [5, 1, 0, 7, 4, 6]},
         "destination": {"each_lost": "node"})");
  EXPECT_TRUE(set.isFamily());
  ASSERT_EQ(set.size(), 3u); // nodes 0, 2 and 3
  EXPECT_EQ(set.name(1), "lost-node-2");
  EXPECT_EQ(set.lost(1), "node:2");
  Request request = requestAt(set, 1);
  EXPECT_EQ(request.source.devices, (Numbers{5, 1, 0, 7, 4, 6}));
  EXPECT_EQ(request.destination.devices, (Numbers{1, 0, 7, 6}));
  EXPECT_EQ(request.destination.world, 4);
  EXPECT_EQ(request.destination.sizes->sizes[0].second, 2); // tp
  EXPECT_EQ(request.destination.sizes->sizes[5].second, 2); // dp
}

TEST(RequestSet, spareDevicesAreTheLast) {
  RequestSet set = readSet(
      R"("source": {"world": 4, "tp": 2, "dp": 2},
         "destination": {"each_lost": "device", "spare": "last"})");
  ASSERT_EQ(set.size(), 4u);
  EXPECT_EQ(requestAt(set, 0).destination.devices, (Numbers{1, 2}));
  EXPECT_EQ(requestAt(set, 1).destination.devices, (Numbers{0, 2}));
  EXPECT_EQ(requestAt(set, 3).destination.devices, Numbers()); // 0, 1
}

TEST(RequestSet, theLayoutIsThatOfTheDevicesThatRemain) {
  RequestSet set = readSet(
      R"("source": {"world": 3, "tp": 3},
         "destination": {"each_lost": "node",
                         "layout": [{"world": 1}, {"world": 2, "tp": 2}]})");
  ASSERT_EQ(set.size(), 2u);
  EXPECT_EQ(requestAt(set, 0).destination.devices, (Numbers{2}));
  EXPECT_EQ(requestAt(set, 1).destination.world, 2);
}

TEST(RequestSet, swapsAreAllPairsAndStepsAreNeighbours) {
  const char *layouts = R"([{"name": "a", "world": 1}, {"name": "b", "world": 2,
      "tp": 2}, {"name": "c", "world": 3, "tp": 3}])";
  RequestSet swaps = readSet(std::string("\"swaps\": ") + layouts);
  ASSERT_EQ(swaps.size(), 6u);
  EXPECT_EQ(swaps.name(1), "a-to-c");
  EXPECT_EQ(swaps.sourceName(5), "c");
  EXPECT_EQ(requestAt(swaps, 5).destination.world, 2);
  RequestSet steps = readSet(std::string("\"steps\": ") + layouts);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps.name(1), "b-to-c");
  EXPECT_EQ(requestAt(steps, 1).source.world, 2);
}

TEST(RequestSet, anEarlierMistakeLeavesTheOthersReadable) {
  RequestSet set = readSet(
      R"("source": {"world": 2, "tp": 2},
         "destination": [{"world": 3, "tp": 2}, {"world": 1}])");
  std::string error;
  EXPECT_FALSE(set.request(0, error));
  EXPECT_NE(error.find("destination: tp 2"), std::string::npos) << error;
  EXPECT_EQ(set.name(1), "destination-1");
  EXPECT_EQ(requestAt(set, 1).destination.world, 1);
}

TEST(RequestSet, isNotReadAsOneRequest) {
  std::string error;
  EXPECT_FALSE(readRequest(
      R"({"model": {"tensors": [{"name": "w", "shape": [4], "dtype": "f32"}]},
          "rules": [{"match": "*", "tp": 0}],
          "source": {"world": 1}, "destination": [{"world": 2, "tp": 2}]})",
      ".", error));
  EXPECT_EQ(error, "request is for a set of plans, not for one");
}

TEST(RequestSet, ranksAreElsewhereByListsOfDevicesAlone) {
  std::string source = R"("source": {"world": 2, "tp": 2})";
  auto to = [&](const std::string &destination) {
    return readSet(source + R"(, "destination": )" + destination);
  };
  auto byRank = to(R"({"world": 2, "devices": [6, 7], "tp": 2})");
  auto without = byRank.withoutDevices();
  ASSERT_TRUE(without);
  EXPECT_EQ(requestAt(*without, 0).destination.devices, Numbers());
  EXPECT_TRUE(byRank.isButForDevices(*without));
  EXPECT_EQ(byRank.devices(Side::Source), Numbers());
  EXPECT_EQ(byRank.devices(Side::Destination), (Numbers{6, 7}));
  // Wherever the values stand in the text.
  auto moved = to(R"({"world":   2, "tp": 2,
                      "devices": [0, 5]})");
  EXPECT_TRUE(moved.isButForDevices(*without));
  EXPECT_EQ(moved.devices(Side::Destination), (Numbers{0, 5}));
  auto twice = to(R"({"world": 2, "tp": 2, "devices": [5, 5]})");
  EXPECT_TRUE(twice.isButForDevices(*without));
  EXPECT_EQ(twice.devices(Side::Destination), std::nullopt);
  EXPECT_FALSE(to(R"({"world": 2, "tp": 1, "dp": 2, "devices": [6, 7]})")
                   .isButForDevices(*without));
  EXPECT_FALSE(to(R"({"tp": 2, "world": 2})").isButForDevices(*without));
}

TEST(RequestSet, someSayMoreThanWhereRanksAre) {
  std::string shards = R"({"world": 1, "devices": [1], "shards": [
      {"tensor": "w", "rank": 0, "offset": [0], "size": [48]}]})";
  EXPECT_FALSE(
      readSet(R"("source": )" + shards + R"(, "destination": )" + shards)
          .withoutDevices());
  EXPECT_FALSE(readSet(R"("source": {"world": 2, "dp": 2},
                          "destination": {"each_lost": "device"})")
                   .withoutDevices());
}

TEST(RequestSet, anotherModelIsAnotherRequest) {
  auto of = [](const std::string &model, const std::string &folder) {
    std::string error;
    auto set = RequestSet::read(R"({"model": )" + model +
                                    R"(, "source": {"world": 1},
                                        "destination": {"world": 1}})",
                                folder, error);
    EXPECT_TRUE(set) << error;
    return std::move(*set);
  };
  // The same name, of files that are not the same.
  std::string folder = testing::TempDir();
  std::ofstream(folder + "/llama3-8b.json")
      << R"({"tensors": [{"name": "w", "shape": [4], "dtype": "f32"}]})";
  auto one = of(R"("llama3-8b.json")", kModels);
  auto without = one.withoutDevices();
  ASSERT_TRUE(without);
  EXPECT_TRUE(of(R"("llama3-8b.json")", kModels).isButForDevices(*without));
  EXPECT_FALSE(of(R"("llama3-8b.json")", folder).isButForDevices(*without));
}

TEST(RequestSet, aModelIsThatOfALikeRequestWhereItIsTheSame) {
  auto of = [](const std::string &model, const RequestSet *like) {
    std::string error;
    auto set = RequestSet::read(R"({"model": )" + model +
                                    R"(, "rules": [{"match": "*", "tp": 0}],
                                        "source": {"world": 1},
                                        "destination": {"world": 1}})",
                                testing::TempDir(), error, like);
    EXPECT_TRUE(set) << error;
    return requestAt(*set, 0).tensors.at(0).name;
  };
  auto write = [](const std::string &name) {
    std::ofstream(testing::TempDir() + "/like.json")
        << R"({"tensors": [{"name": ")" + name +
               R"(", "shape": [4], "dtype": "f32"}]})";
  };
  write("a");
  std::string error;
  auto like = RequestSet::read(R"({"model": "like.json",
                                   "rules": [{"match": "*", "tp": 0}],
                                   "source": {"world": 1},
                                   "destination": {"world": 1}})",
                               testing::TempDir(), error);
  ASSERT_TRUE(like) << error;
  EXPECT_EQ(of(R"("like.json")", &*like), "a");
  // In the request itself there is another.
  EXPECT_EQ(of(R"({"tensors": [{"name": "b", "shape": [4], "dtype": "f32"}]})",
               &*like),
            "b");
  // The file has changed.
  write("c");
  EXPECT_EQ(of(R"("like.json")", &*like), "c");
}

} // namespace
