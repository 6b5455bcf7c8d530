//===- ReportTest.cpp - What dt-plan prints -------------------------------===//

#include "PlanBuilder.h"

#include "dtrt/Report.h"

#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

using namespace dtrt;
using namespace dtrt::test;

namespace {

template <typename Write> std::string written(Write write) {
  std::ostringstream out;
  Status status = write(out);
  EXPECT_TRUE(status.ok()) << status.message();
  return out.str();
}

std::set<std::string> keys(const nlohmann::json &object) {
  std::set<std::string> out;
  for (const auto &item : object.items())
    out.insert(item.key());
  return out;
}

std::pair<bool, std::string> difference(const TestPlan &a, const TestPlan &b) {
  std::ostringstream out;
  auto same = writeDifferences(a.reader(), b.reader(), out);
  EXPECT_TRUE(same.ok()) << same.status().message();
  return {*same, out.str()};
}

} // namespace

TEST(Report, InspectionHasItsKeys) {
  PlanReader plan = reshapePlan().reader();
  auto json = nlohmann::json::parse(written([&](std::ostream &out) {
    return writeInspection(plan, std::nullopt, OutputFormat::Json, out);
  }));
  using Keys = std::set<std::string>;
  EXPECT_EQ(keys(json),
            (Keys{"format_version", "request_hash", "source", "destination",
                  "tensors", "bytes", "time", "memory", "counts", "proof"}));
  EXPECT_EQ(keys(json["bytes"]),
            (Keys{"destination", "local", "wire", "wire_lower_bound",
                  "inter_node", "inter_node_lower_bound"}));
  EXPECT_EQ(keys(json["time"]), (Keys{"predicted_s", "lower_bound_s"}));
  EXPECT_EQ(keys(json["memory"]),
            (Keys{"mode", "staging_limit", "staging_peak", "device_peak",
                  "source_max", "destination_max"}));
  EXPECT_EQ(keys(json["counts"]), (Keys{"waves", "messages", "collectives"}));
  EXPECT_EQ(keys(json["proof"]), Keys{});
  EXPECT_EQ(json["tensors"], 10);
  EXPECT_EQ(json["source"]["world"], 4);
}

TEST(Report, InspectionOfOneDevice) {
  PlanReader plan = reshapePlan().reader();
  auto json = nlohmann::json::parse(written([&](std::ostream &out) {
    return writeInspection(plan, 2, OutputFormat::Json, out);
  }));
  EXPECT_EQ(json["rank"]["device"], 2);
  EXPECT_GT(json["rank"]["sent_bytes"], 0);
  std::ostringstream none;
  EXPECT_FALSE(writeInspection(plan, 17, OutputFormat::Text, none).ok());
}

TEST(Report, DeliveriesAddUpToTheDestination) {
  TestPlan plan = reshapePlan();
  PlanReader reader = plan.reader();
  std::istringstream lines(
      written([&](std::ostream &out) { return writeDeliveries(reader, out); }));
  std::map<std::string, uint64_t> widths = {
      {"param", 2}, {"master", 4}, {"exp_avg", 4}, {"step", 8}};
  uint64_t bytes = 0;
  for (std::string line; std::getline(lines, line);) {
    auto json = nlohmann::json::parse(line);
    uint64_t elements = 1;
    for (uint64_t size : json["size"])
      elements *= size;
    bytes += elements * widths[json["state"]];
    EXPECT_EQ(json["src"] == json["dst"], json["wave"] == -1) << line;
    EXPECT_EQ(json["tensor"].get<std::string>().find("{}"), std::string::npos);
  }
  EXPECT_EQ(bytes, plan.common.summary.bytesDestination);
}

TEST(Report, DeliveriesOfForwardedTensors) {
  PlanReader reader = forwardingPlan().reader();
  EXPECT_EQ(
      written([&](std::ostream &out) { return writeDeliveries(reader, out); }),
      R"({"tensor": "w", "state": "param", "src": 0, "dst": 0, "offset": [0, 0], "size": [4, 4], "wave": -1}
{"tensor": "w", "state": "param", "src": 0, "dst": 1, "offset": [0, 0], "size": [4, 4], "wave": 0}
{"tensor": "w", "state": "param", "src": 1, "dst": 2, "offset": [0, 0], "size": [4, 4], "wave": 1}
)");
}

TEST(Report, ProgramsAsTextAndJson) {
  PlanReader plan = reshapePlan().reader();
  std::string text = written([&](std::ostream &out) {
    return writeProgram(plan, 1, OutputFormat::Text, out);
  });
  EXPECT_NE(text.find("layers.{}.mlp.fc1.weight {param, master} [0:4) "
                      "[2:4)+[10:12) [0:6)"),
            std::string::npos)
      << text;
  auto json = nlohmann::json::parse(written([&](std::ostream &out) {
    return writeProgram(plan, 1, OutputFormat::Json, out);
  }));
  EXPECT_EQ(json["instructions"].size(), plan.program(1)->instructions.size());
  auto shard = std::find_if(
      json["source"].begin(), json["source"].end(), [](const auto &shard) {
        return shard["family"] == "layers.{}.mlp.fc1.weight";
      });
  ASSERT_NE(shard, json["source"].end());
  EXPECT_EQ((*shard)["numbers"].dump(), "[[0,1,2,3]]");
}

TEST(Report, DifferencesByMeaning) {
  auto [same, nothing] = difference(reshapePlan(), reshapePlan());
  EXPECT_TRUE(same);
  EXPECT_EQ(nothing, "");
  auto [equal, text] = difference(reshapePlan(), reshapePlan(MemoryMode::Flat));
  EXPECT_FALSE(equal);
  EXPECT_NE(text.find("memory mode: rollback -> flat"), std::string::npos);
  auto [alike, edges] = difference(reshapePlan(), forwardingPlan());
  EXPECT_FALSE(alike);
  EXPECT_NE(edges.find("bytes from 0 to 1"), std::string::npos) << edges;
}

TEST(Report, DrawingNeedsNothingElse) {
  PlanReader plan = reshapePlan().reader();
  std::string page =
      written([&](std::ostream &out) { return writeDrawing(plan, out); });
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_EQ(page.find("href="), std::string::npos);
  EXPECT_NE(page.find("\"matrix\":[["), std::string::npos);
}
