//===- ShardsTest.cpp - Explicit shards, cluster and memory ---------------===//

#include "RequestTesting.h"

using namespace dt;

namespace {

const std::string kTensors =
    R"("model": {"tensors": [{"name": "w", "shape": [4, 6], "dtype": "f32"}]})";

std::string row(int64_t rank, const std::string &rest) {
  return R"({"tensor": "w", "rank": )" + std::to_string(rank) +
         R"(, "offset": [0, 0], "size": [4, 6])" + rest + "}";
}

/// A request whose source has these rows.
Request readShards(const std::string &rows, const std::string &more = "") {
  return readGood("{" + kTensors + more +
                  R"(, "source": {"world": 3, "devices": [5, 6, 7],
                      "shards": [)" +
                  rows + R"(]}, "destination": {"world": 1, "shards": [)" +
                  row(0, "") + "]}}");
}

TEST(Shards, areBoxesOrFlatRanges) {
  Request request =
      readShards(row(0, R"(, "range": [0, 10])") + "," +
                 row(2, R"(, "range": [10, 24])") + "," + row(1, ""));
  ASSERT_EQ(request.source.places.size(), 1u);
  const PlaceDecl &place = request.source.places[0];
  EXPECT_TRUE(place.states.empty());
  ASSERT_EQ(place.rows.size(), 3u);
  EXPECT_EQ(place.rows[1].rank, 2);
  EXPECT_EQ(place.rows[1].range, (Interval{10, 24}));
  EXPECT_EQ(place.rows[2].box, Box::whole({4, 6}));
  EXPECT_FALSE(place.rows[2].range);
  EXPECT_EQ(request.source.devices, (std::vector<int64_t>{5, 6, 7}));
}

TEST(Shards, ofOneStateLieApart) {
  Request request = readShards(
      row(0, R"(, "state": "param")") + "," + row(1, R"(, "state": "m")") +
          "," + row(1, R"(, "state": "v")"),
      R"(, "state": {"param": "bf16", "m": "f32", "v": "f32"})");
  ASSERT_EQ(request.source.places.size(), 2u);
  EXPECT_EQ(request.source.places[0].states, std::vector<std::string>{"param"});
  EXPECT_EQ(request.source.places[1].states,
            (std::vector<std::string>{"m", "v"}));
  EXPECT_EQ(request.source.places[1].rows[0].rank, 1);
}

TEST(Shards, withoutElementsAreDropped) {
  Request request =
      readShards(row(0, "") + "," + row(1, R"(, "range": [3, 3])"));
  EXPECT_EQ(request.source.places[0].rows.size(), 1u);
}

TEST(Shards, mayStandAgainstSizes) {
  Request request =
      readGood("{" + kTensors + R"(, "rules": [{"match": "*", "tp": 1}],
               "source": {"world": 1, "shards": [)" +
               row(0, "") + R"(]}, "destination": {"world": 2, "tp": 2}})");
  EXPECT_EQ(request.destination.places[0].placement.dims[1].splits.size(), 1u);
}

MemoryDecl readMemory(const std::string &memory) {
  return readShards(row(0, ""), R"(, "memory": )" + memory).memory;
}

TEST(Memory, readsBytesWithUnits) {
  EXPECT_EQ(readMemory(R"({"staging": "512MiB"})").stagingBytes, 512 << 20);
  EXPECT_EQ(readMemory(R"({"staging": "64KB"})").stagingBytes, 64'000);
  EXPECT_EQ(readMemory(R"({"staging": 4096})").stagingBytes, 4096);
  EXPECT_EQ(readMemory(R"({"device": "80GB"})").deviceBytes, 80'000'000'000);
  EXPECT_EQ(readMemory(R"({"device": "1.5 GiB"})").deviceBytes, int64_t(1536)
                                                                    << 20);
}

TEST(Memory, hasTwoModesAndRollsBackByDefault) {
  EXPECT_EQ(readMemory("{}").mode, MemoryMode::Rollback);
  EXPECT_EQ(readMemory(R"({"mode": "rollback"})").mode, MemoryMode::Rollback);
  EXPECT_EQ(readMemory(R"({"mode": "flat"})").mode, MemoryMode::Flat);
}

TEST(Cluster, hasTwoLevelsAndUnequalLinks) {
  Cluster cluster =
      readShards(row(0, ""), R"(, "cluster": {"devices_per_node": 4,
        "nics_per_node": 2, "pxn": true, "relays": true,
        "collectives": "library",
        "inter_node_GBps": 12.5, "latency_us": 0, "links": [
        {"from": "node:0", "to": "node:1", "GBps": 50},
        {"from": 3, "to": 7, "GBps": 5}]})")
          .cluster;
  EXPECT_EQ(cluster.devicesPerNode, 4);
  EXPECT_EQ(cluster.devicesPerNic, cluster.devicesPerNode / 2);
  EXPECT_TRUE(cluster.pxn);
  EXPECT_TRUE(cluster.relays);
  EXPECT_EQ(cluster.collectives, dtrt::CollectiveChoice::Library);
  EXPECT_EQ(cluster.interNodeGBps, 12.5);
  EXPECT_EQ(cluster.latencyUs, 0);
  ASSERT_EQ(cluster.links.size(), 2u);
  EXPECT_TRUE(cluster.links[0].to.isNode);
  EXPECT_EQ(cluster.links[0].to.index, 1);
  EXPECT_FALSE(cluster.links[1].from.isNode);
  EXPECT_EQ(cluster.links[1].GBps, 5);
}

TEST(Cluster, hasWhatALibraryAdds) {
  Cluster cluster = readShards(row(0, ""), R"(, "cluster": {"launch_us": 4.5,
        "channels_per_peer": 2, "inter_channel_GBps": 18.3})")
                        .cluster;
  EXPECT_EQ(cluster.launchUs, 4.5);
  EXPECT_EQ(cluster.channelsPerPeer, 2);
  EXPECT_EQ(cluster.intraChannelGBps, Cluster().intraChannelGBps);
  EXPECT_EQ(cluster.interChannelGBps, 18.3);
  // Nothing unless asked for.
  cluster = readShards(row(0, ""), "").cluster;
  EXPECT_EQ(cluster.launchUs, 0);
  EXPECT_TRUE(cluster.pairsFillPorts());
}

TEST(Cluster, isWhatWasMeasuredWhereTheRequestSaysNothing) {
  // test/Pipelines/Inputs/calibration.json
  Cluster cluster =
      readShards(row(0, ""), R"(, "cluster": {"latency_us": 4,
        "nics_per_node": 2, "calibration": ")" DT_SOURCE_DIR
                             R"(/test/Pipelines/Inputs/calibration.json"})")
          .cluster;
  EXPECT_EQ(cluster.latencyUs, 4);
  EXPECT_EQ(cluster.devicesPerNic, 4);
  EXPECT_EQ(cluster.launchUs, 6.5);
  EXPECT_EQ(cluster.intraNodeGBps, 168);
  EXPECT_EQ(cluster.channelsPerPeer, 2);
  EXPECT_EQ(cluster.interChannelGBps, 6.05);
}

} // namespace
