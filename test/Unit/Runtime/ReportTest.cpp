//===- ReportTest.cpp - What dt-plan prints -------------------------------===//

#include "PlanBuilder.h"

#include "dtrt/core/BoxCopy.h"
#include "dtrt/report/Deliveries.h"
#include "dtrt/report/Draw.h"
#include "dtrt/report/Dump.h"
#include "dtrt/report/Inspect.h"
#include "dtrt/report/OutputFormat.h"

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

/// What the page of a plan draws.
nlohmann::json drawn(const PlanReader &plan) {
  std::string page =
      written([&](std::ostream &out) { return writeDrawing(plan, out); });
  const std::string before = "const plan = ", after = ";\nconst byId";
  size_t begin = page.find(before) + before.size();
  return nlohmann::json::parse(
      page.substr(begin, page.find(after, begin) - begin));
}

/// Device 0 keeps rows [0, 2) of a float [8, 4], sends [0, 4) to device 1 of
/// its node, then [4, 8) to device 2 of another.
TestPlan twoNodePlan() {
  Family family =
      makeFamily("w", {}, {8, 4}, {{"param", DType::F32, DType::F32}});
  TestPlan plan = makePlan({family}, {{box(0, {{0, 8}, {0, 4}})}, {}, {}},
                           {{box(0, {{0, 2}, {0, 4}})},
                            {box(0, {{0, 4}, {0, 4}})},
                            {box(0, {{4, 8}, {0, 4}})}});
  plan.common.cluster = {2, 2, 1, 1, 4, 0.5, {}, 1};
  summarize(plan);
  plan.common.summary.timePredicted = 3e-6;
  plan.common.summary.timeLowerBound = 1.5e-6;
  return plan;
}

/// 0 but for bins [first, last], which have a digit.
std::string busyBetween(size_t first, size_t last, char digit) {
  std::string text(400, '0');
  std::fill(text.begin() + long(first), text.begin() + long(last) + 1, digit);
  return text;
}

/// Expects numbers that are equal but for rounding.
void expectNumbers(const nlohmann::json &found,
                   const std::vector<double> &expected) {
  ASSERT_EQ(found.size(), expected.size()) << found;
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(found[i].get<double>(), expected[i], 1e-12) << found;
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

TEST(Report, InspectionHasThePlansNumbers) {
  TestPlan source = twoNodePlan();
  PlanSummary &summary = source.common.summary;
  summary.bytesWireLowerBound = 100;
  summary.bytesInterNodeLowerBound = 50;
  summary.multicasts = 7;
  summary.coverage = "proved";
  summary.solver = "z3 4.8.12";
  PlanReader plan = source.reader();
  auto json = nlohmann::json::parse(written([&](std::ostream &out) {
    return writeInspection(plan, std::nullopt, OutputFormat::Json, out);
  }));
  EXPECT_EQ(json["format_version"], "1.4");
  EXPECT_EQ(json["request_hash"], std::string(32, '0'));
  EXPECT_EQ(json["source"]["world"], 3);
  EXPECT_EQ(json["destination"]["world"], 3);
  EXPECT_EQ(json["tensors"], 1);
  EXPECT_EQ(json["bytes"], (nlohmann::json{{"destination", 160},
                                           {"local", 32},
                                           {"wire", 128},
                                           {"wire_lower_bound", 100},
                                           {"inter_node", 64},
                                           {"inter_node_lower_bound", 50}}));
  EXPECT_EQ(json["time"],
            (nlohmann::json{{"predicted_s", 3e-6}, {"lower_bound_s", 1.5e-6}}));
  EXPECT_EQ(json["memory"], (nlohmann::json{{"mode", "rollback"},
                                            {"staging_limit", 1 << 20},
                                            {"staging_peak", 128},
                                            {"device_peak", 288},
                                            {"source_max", 128},
                                            {"destination_max", 64}}));
  EXPECT_EQ(
      json["counts"],
      (nlohmann::json{{"waves", 2}, {"messages", 2}, {"collectives", 7}}));
  EXPECT_EQ(json["proof"],
            (nlohmann::json{{"coverage", "proved"}, {"solver", "z3 4.8.12"}}));
}

TEST(Report, InspectionAsText) {
  PlanReader plan = twoNodePlan().reader();
  std::string text = written([&](std::ostream &out) {
    return writeInspection(plan, 0, OutputFormat::Text, out);
  });
  for (const char *line :
       {"worlds                3 -> 3 ranks on 3 devices\n",
        "tensors               1 in 1 families\n",
        "destination bytes     160 B\n", "local bytes           32 B\n",
        "wire bytes            128 B (1.00 x lower bound)\n",
        "inter-node bytes      64 B (1.00 x lower bound)\n",
        "predicted time        0.003 ms, lower bound 0.0015 ms\n",
        "staging               128 B of 1.00 MiB\n",
        "device peak           288 B, mode rollback\n",
        "shards                at most 128 B before, 64 B after\n",
        "schedule              2 waves, 2 messages, 0 multicasts\n",
        "features              -\n",
        "device                0, source rank 0, destination rank 0\n",
        "  holds               128 B before, 32 B after\n",
        "  staging             128 B\n",
        "  peak                288 B: source 128 B, destination 32 B, staging "
        "128 "
        "B\n",
        // 3 rows of 224 bytes; 8 channels to the peer of the node, of 2 MiB
        // each; what is sent to the other node. 288 B do not show.
        "  peak over NCCL      272.00 MiB: tables 696 B more, buffers of NCCL "
        "16.00 MiB in the node, 256.00 MiB for the network\n",
        "  copies              32 B\n", "  sends               128 B\n",
        "  receives            0 B\n",
        "  program             5 instructions, 2 messages\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "in\n" << text;
}

TEST(Report, TheDeviceThatHoldsMostOverNccl) {
  PlanReader plan = twoNodePlan().reader();
  auto rankOf = [&](uint32_t device) {
    return nlohmann::json::parse(written([&](std::ostream &out) {
      return writeInspection(plan, device, OutputFormat::Json, out);
    }))["rank"];
  };
  nlohmann::json most;
  for (uint32_t device : plan.devices())
    if (auto rank = rankOf(device);
        most.is_null() || rank["gpu_peak_bytes"] > most["gpu_peak_bytes"])
      most = rank;
  auto told = [&](OutputFormat format) {
    return written([&](std::ostream &out) {
      return writeInspection(plan, std::nullopt, format, out, TellLosses::Yes,
                             TellNccl::Yes);
    });
  };
  EXPECT_EQ(
      nlohmann::json::parse(told(OutputFormat::Json))["memory"]["over_nccl"],
      (nlohmann::json{{"device_peak", most["gpu_peak_bytes"]},
                      {"device", most["device"]},
                      {"peak_parts", most["peak_parts"]},
                      {"gpu_parts", most["gpu_parts"]}}));
  EXPECT_NE(told(OutputFormat::Text).find("\ndevice peak over NCCL "),
            std::string::npos);
}

TEST(Report, InspectionOfOneDevice) {
  PlanReader nodes = twoNodePlan().reader();
  auto first = nlohmann::json::parse(written([&](std::ostream &out) {
    return writeInspection(nodes, 0, OutputFormat::Json, out);
  }));
  EXPECT_EQ(first["rank"],
            (nlohmann::json{
                {"device", 0},
                {"source_rank", 0},
                {"destination_rank", 0},
                {"source_bytes", 128},
                {"destination_bytes", 32},
                {"staging_bytes", 128},
                {"peak_bytes", 288},
                {"peak_parts",
                 {{"source", 128}, {"destination", 32}, {"staging", 128}}},
                {"gpu_parts",
                 {{"tables", 3 * sizeof(BoxCopy)},
                  {"nccl_local", 8 * (2 << 20)},
                  {"nccl_network", 256 << 20}}},
                {"gpu_peak_bytes",
                 288 + 3 * sizeof(BoxCopy) + 8 * (2 << 20) + (256 << 20)},
                {"copied_bytes", 32},
                {"sent_bytes", 128},
                {"received_bytes", 0},
                {"messages", 2},
                {"instructions", 5}}));
  PlanReader plan = reshapePlan().reader();
  auto json = nlohmann::json::parse(written([&](std::ostream &out) {
    return writeInspection(plan, 2, OutputFormat::Json, out);
  }));
  EXPECT_EQ(json["rank"]["device"], 2);
  EXPECT_GT(json["rank"]["sent_bytes"], 0);
  std::ostringstream none;
  EXPECT_FALSE(writeInspection(plan, 17, OutputFormat::Text, none).ok());
}

// Whatever comes, goes or stays.
TEST(Report, PartsOfAPeakAddUp) {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    std::mt19937_64 rng(seed);
    TestPlan plan = anyPlan(rng);
    PlanReader reader = plan.reader();
    for (const RankProgram &program : plan.programs) {
      auto json = nlohmann::json::parse(written([&](std::ostream &out) {
        return writeInspection(reader, program.device, OutputFormat::Json, out);
      }))["rank"];
      uint64_t sum = 0;
      for (const auto &[part, bytes] : json["peak_parts"].items())
        sum += bytes.get<uint64_t>();
      EXPECT_EQ(sum, json["peak_bytes"]) << "seed " << seed;
      EXPECT_EQ(json["peak_parts"]["staging"], program.stagingBytes);
      EXPECT_LE(json["peak_parts"]["source"], json["source_bytes"]);
      EXPECT_LE(json["peak_parts"]["destination"], json["destination_bytes"]);
    }
  }
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

/// Of a run of members in two dims, which starts at neither's first.
TEST(Report, DeliveriesNameEachMember) {
  Family family =
      makeFamily("layers.{}.experts.{}.w", {{0, 1, 4}, {0, 1, 4}}, {6});
  ShardRecord some = box(0, {{1, 3}, {2, 4}, {0, 6}});
  PlanReader plan = makePlan({family}, {{some}}, {{some}}).reader();
  std::istringstream lines(
      written([&](std::ostream &out) { return writeDeliveries(plan, out); }));
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);)
    names.push_back(nlohmann::json::parse(line)["tensor"]);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "layers.1.experts.2.w", "layers.1.experts.3.w",
                       "layers.2.experts.2.w", "layers.2.experts.3.w"}));
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

/// What a program of these source shards says of them.
std::string shardLines(const PlanCommon &common,
                       std::vector<ShardRecord> shards) {
  RankProgram program;
  program.source = std::move(shards);
  std::ostringstream out;
  writeProgram(common, program, OutputFormat::Text, out);
  std::string text = out.str();
  size_t begin = text.find("source shards:\n") + 15;
  return text.substr(begin, text.find("destination shards:") - begin);
}

// Members with equal shards, wherever they stand among others.
TEST(Report, RepeatedShardsOfAFamilyAreOneLine) {
  PlanCommon common;
  common.families = {makeFamily("layers.{}.w", {{0, 1, 8}}, {4, 6})};
  auto member = [](int64_t at, int64_t rows) {
    return box(0, {{at, at + 1}, {0, rows}, {0, 6}});
  };
  EXPECT_EQ(shardLines(common, {member(0, 4), member(1, 2), member(2, 4),
                                member(3, 4), member(4, 4)}),
            "  #0, #2-#4 layers.{}.w {param} each of 0, 2-4 [0:4) [0:6) (4 "
            "shards)\n"
            "  #1 layers.{}.w {param} [1:2) [0:2) [0:6)\n");
}

// Families whose names differ in one number; another number is another line.
TEST(Report, RepeatedShardsOfFamiliesAreOneLine) {
  PlanCommon common;
  for (const char *name : {"l.0.e.5.w", "l.1.e.5.w", "l.2.e.6.w", "l.2.e.7.w",
                           "l.03.e.7.w", "other"})
    common.families.push_back(makeFamily(name, {}, {4}));
  std::vector<ShardRecord> shards;
  for (uint32_t family = 0; family < 6; ++family)
    shards.push_back(box(family, {{0, 4}}));
  EXPECT_EQ(shardLines(common, shards),
            "  #0-#1 l.{0-1}.e.5.w {param} [0:4) (2 shards)\n"
            "  #2-#3 l.2.e.{6-7}.w {param} [0:4) (2 shards)\n"
            "  #4 l.03.e.7.w {param} [0:4)\n"
            "  #5 other {param} [0:4)\n");
  shards[1].dims[0][0].hi = 3;
  EXPECT_EQ(shardLines(common, {shards[0], shards[1]}),
            "  #0 l.0.e.5.w {param} [0:4)\n"
            "  #1 l.1.e.5.w {param} [0:3)\n");
}

TEST(Report, DrawingNeedsNothingElse) {
  PlanReader plan = reshapePlan().reader();
  std::string page =
      written([&](std::ostream &out) { return writeDrawing(plan, out); });
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_EQ(page.find("href="), std::string::npos);
  EXPECT_NE(page.find("\"matrix\":[["), std::string::npos);
}

TEST(Report, DrawingHasThePlansNumbers) {
  auto json = drawn(twoNodePlan().reader());
  using Json = nlohmann::json;
  EXPECT_EQ(json["sourceWorld"], 3);
  EXPECT_EQ(json["destinationWorld"], 3);
  EXPECT_EQ(json["mode"], "rollback");
  EXPECT_EQ(json["bytes"], (Json{160, 32, 128, 64, 0}));
  EXPECT_EQ(json["predicted"], 3e-6);
  EXPECT_EQ(json["bound"], 1.5e-6);
  EXPECT_EQ(json["stagingLimit"], 1 << 20);
  EXPECT_EQ(json["deviceLimit"], 0);
  EXPECT_EQ(json["proved"], false);
  EXPECT_EQ(json["perNode"], 2);
  EXPECT_EQ(json["labels"], (Json{"0", "1", "2"}));
  EXPECT_EQ(json["matrix"], (Json{{0, 0, 32}, {0, 1, 64}, {0, 2, 64}}));
  EXPECT_EQ(json["memory"],
            (Json{{128, 32, 128, 288}, {0, 64, 64, 128}, {0, 64, 64, 128}}));
  // Wave, bytes, bytes between nodes, messages, seconds.
  expectNumbers(json["waves"][0], {0, 64, 0, 1, 1.032e-6});
  expectNumbers(json["waves"][1], {1, 64, 64, 1, 1.064e-6});
}

/// Device 0 packs for 0.516 us, sends for 1.032 us inside its node, packs for
/// 0.516 us meanwhile, sends for 1.064 us between nodes; the receivers unpack
/// for 0.516 us each. Bytes are on the wire for 32 and 64 ns of these.
TEST(Report, DrawingShowsWhatIsBusyWhen) {
  auto json = drawn(twoNodePlan().reader());
  EXPECT_NEAR(json["seconds"].get<double>(), 3.128e-6, 1e-12);
  // Busiest port, latency, end.
  expectNumbers(json["spent"][0], {64e-9, 2e-6, 2.612e-6});
  expectNumbers(json["spent"][1], {32e-9, 1e-6, 2.064e-6});
  expectNumbers(json["spent"][2], {64e-9, 1e-6, 3.128e-6});
  // Bins of 7.82 ns; a port is busy for 3 % or 6 % of a message, in 36ths.
  const std::string idle(400, '0');
  std::vector<std::vector<std::string>> expected = {
      {busyBetween(198, 333, '2'), idle, busyBetween(66, 197, '1'), idle,
       busyBetween(0, 131, 'z'), idle},
      {idle, idle, idle, busyBetween(66, 197, '1'), idle,
       busyBetween(198, 262, 'z')},
      {idle, busyBetween(198, 333, '2'), idle, idle, idle,
       busyBetween(334, 399, 'z')}};
  for (size_t row = 0; row < 3; ++row)
    for (size_t lane = 0; lane < 6; ++lane) {
      std::string found = json["lanes"][row][lane];
      // Bins at the ends of a span are busy in part.
      size_t differing = 0;
      for (size_t bin = 0; bin < 400; ++bin)
        differing += found[bin] != expected[row][lane][bin];
      EXPECT_LE(differing, expected[row][lane] == idle ? 0u : 2u)
          << row << " " << lane << "\n"
          << found;
    }
}

/// NICs that two devices share send one message after the other.
TEST(Report, DrawingKnowsLinksAndSharedNics) {
  TestPlan plan = twoNodePlan();
  plan.common.cluster.links = {
      {{true, 0}, {true, 1}, 5},   // overruled by what follows
      {{false, 0}, {false, 2}, 4}, // device to device
      {{false, 0}, {true, 0}, 8},  // to any of node 0
  };
  auto json = drawn(plan.reader());
  expectNumbers(json["spent"][1], {8e-9, 1e-6, 2.04e-6});
  expectNumbers(json["spent"][2], {16e-9, 1e-6, 3.056e-6});
}

/// Of neighbours in one row of the page, the fullest counts, whichever it is.
TEST(Report, DrawingOfManyDevicesShowsTheFullest) {
  Holdings source(130), destination(130);
  source[0] = {box(0, {{0, 8}, {0, 4}})};
  destination[0] = {box(0, {{0, 2}, {0, 4}})};
  destination[1] = {box(0, {{0, 1}, {0, 4}})};
  destination[2] = {box(0, {{0, 1}, {0, 4}})};
  destination[3] = {box(0, {{0, 3}, {0, 4}})};
  Family family =
      makeFamily("w", {}, {8, 4}, {{"param", DType::F32, DType::F32}});
  auto json = drawn(makePlan({family}, source, destination).reader());
  EXPECT_EQ(json["labels"].size(), 65u);
  EXPECT_EQ(json["labels"][1], "2-3");
  using Json = nlohmann::json;
  EXPECT_EQ(json["memory"][0], (Json{128, 32, 80, 240}));
  EXPECT_EQ(json["memory"][1], (Json{0, 48, 48, 96}));
  EXPECT_EQ(json["memory"][2], (Json{0, 0, 0, 0}));
  EXPECT_EQ(json["matrix"], (Json{{0, 0, 48}, {0, 1, 64}}));
}

TEST(Report, PlansWithoutMessagesAreDrawn) {
  Holdings all = {{box(0, {{0, 8}, {0, 4}})}, {}};
  TestPlan plan = makePlan({makeFamily("w", {}, {8, 4})}, all, all);
  auto json = drawn(plan.reader());
  EXPECT_EQ(json["seconds"], 0);
  EXPECT_EQ(json["lanes"].size(), 2u);
  for (const auto &row : json["lanes"])
    for (const std::string lane : row)
      EXPECT_EQ(lane, std::string(400, '0'));
  EXPECT_EQ(json["waves"], nlohmann::json::array());
  // The same where messages take no time.
  TestPlan moved = twoNodePlan();
  moved.common.cluster.latencyUs = moved.common.cluster.packLaunchUs = 0;
  EXPECT_GT(drawn(moved.reader())["seconds"], 0);
}
