//===- AdviceTest.cpp - Ranked layouts ------------------------------------===//

#include "JobTesting.h"

#include "dt/Advise/Advice.h"
#include "dt/Advise/AdvicePage.h"
#include "dt/Advise/Report.h"
#include "dt/Advise/RequestText.h"
#include "dt/Request/Request.h"

#include <set>

using namespace dt::advise;

namespace {

Text tinyJob() {
  Text text = jobOf("llama-tiny", 16);
  text["cluster"]["memory"] = "64MiB";
  text["cluster"]["TFLOPs"] = 1;
  text["cluster"]["inter_node_GBps"] = 2;
  text["cluster"]["intra_node_GBps"] = 20;
  text["layout"] = {{"world", 16}, {"tp", 2}, {"pp", 4}, {"dp", 2}};
  text["transition"] = {{"staging", "1MiB"}};
  return text;
}

Advice mustAdvise(const Job &job, AdviceOptions options = {}) {
  std::string error;
  auto advice = advise(job, options, {}, error);
  EXPECT_TRUE(advice) << error;
  return advice ? *advice : Advice();
}

TEST(Advice, UsesNoLostDeviceAndFitsTheMemory) {
  JobChanges changes;
  changes.lost = {"node:1"};
  Job job = mustRead(tinyJob(), changes);
  Advice advice = mustAdvise(job);
  ASSERT_FALSE(advice.rows.empty());
  EXPECT_FALSE(advice.today);
  for (const AdviceRow &row : advice.rows) {
    const Sizes &sizes = row.destination.sizes;
    EXPECT_EQ(int64_t(sizes.devices.size()), sizes.world);
    std::set<int64_t> used(sizes.devices.begin(), sizes.devices.end());
    EXPECT_EQ(int64_t(used.size()), sizes.world);
    for (int64_t device : sizes.devices)
      EXPECT_FALSE(job.cluster.devices[device].isLost);
    EXPECT_LE(row.destination.memory.total, int64_t(64) << 20);
    EXPECT_EQ(used.size() + row.givenBack.size(), 12u);
    int64_t samples = 0;
    for (const ReplicaShare &share : row.destination.shares)
      samples += share.samples;
    EXPECT_EQ(samples * sizes.fsdp, job.batch.global);
  }
}

TEST(Advice, RequestsAreReadAsTheyAreMeant) {
  JobChanges changes;
  changes.lost = {"5"};
  for (const char *model : {"llama-tiny", "qwen3-moe-tiny", "deepseek-tiny"}) {
    Text text = tinyJob();
    text["model"] = std::string("models/") + model + ".json";
    text["layout"]["pp"] = 2;
    text["layout"]["dp"] = 4;
    text["cluster"]["pxn"] = true;
    if (std::string(model) == "deepseek-tiny")
      text["layout"]["pp_layers"] = {3, 4};
    Job job = mustRead(text, changes);
    for (const AdviceRow &row : mustAdvise(job).rows) {
      std::string error;
      std::string request =
          requestText(job, mustAdvise(job), row, DT_SOURCE_DIR "/examples");
      auto read = dt::readRequest(request, DT_SOURCE_DIR "/examples", error);
      ASSERT_TRUE(read) << error << request;
      EXPECT_EQ(read->destination.world, row.destination.sizes.world);
      EXPECT_TRUE(read->cluster.pxn);
    }
  }
}

TEST(Advice, SourceIsTheReplicasThatAreLeft) {
  JobChanges changes;
  changes.lost = {"3"};
  Job job = mustRead(tinyJob(), changes);
  Advice advice = mustAdvise(job);
  EXPECT_EQ(advice.source.dp, 1);
  EXPECT_EQ(advice.lostBytes, 0);
  EXPECT_TRUE(advice.notes.empty());
  // ZeRO's shards have no replica.
  Text text = tinyJob();
  text["layout"]["zero"] = 1;
  job = mustRead(text, changes);
  advice = mustAdvise(job);
  EXPECT_EQ(advice.source.dp, 2);
  EXPECT_GT(advice.lostBytes, 0);
  EXPECT_EQ(advice.notes.size(), 1u);
}

TEST(Advice, TodayPaysNothing) {
  Job job = mustRead(tinyJob());
  Advice advice = mustAdvise(job);
  ASSERT_TRUE(advice.today);
  for (const AdviceRow &row : advice.rows)
    if (row.destination.time.total > advice.today->time.total) {
      EXPECT_FALSE(row.paysAfterSteps && row.movedBytes > 0);
    }
}

TEST(Advice, ConstraintsHold) {
  Text text = tinyJob();
  text["constraints"] = {
      {"tp", {2}}, {"pp", {2, 4}}, {"uneven_batches", false}};
  for (const AdviceRow &row : mustAdvise(mustRead(text)).rows) {
    EXPECT_EQ(row.destination.sizes.tp, 2);
    EXPECT_NE(row.destination.sizes.pp, 1);
  }
  text["constraints"] = {{"tp", {3}}};
  std::string error;
  EXPECT_FALSE(advise(mustRead(text), {}, {}, error));
  EXPECT_EQ(error, "no layout of 16 devices fits the model, the batch, the "
                   "constraints and the memory");
}

TEST(Advice, PacksOnTheFewestDevices) {
  Text text = tinyJob();
  text["cluster"]["inter_node_GBps"] = 0.05;
  AdviceOptions options;
  options.packWithin = 2.5;
  Job job = mustRead(text);
  Advice advice = mustAdvise(job, options);
  double best = HUGE_VAL;
  const AdviceRow *packed = nullptr;
  for (const AdviceRow &row : advice.rows) {
    best = std::min(best, row.destination.time.total);
    if (row.isPacked)
      packed = &row;
  }
  ASSERT_NE(packed, nullptr);
  EXPECT_LT(packed->destination.sizes.world, 16);
  EXPECT_LE(packed->destination.time.total, best * 2.5 * (1 + 1e-9));
  EXPECT_EQ(packed->givenBack.size(),
            size_t(16 - packed->destination.sizes.world));
}

TEST(Advice, SlowDevicesAndMeasuredLinksAreMinded) {
  Text text = tinyJob();
  text["cluster"]["unequal"] = {{{"at", "node:2"}, {"slowdown", 3}}};
  text["constraints"] = {{"pp", {4}}, {"tp", {2}}, {"world", {16}}};
  Advice advice = mustAdvise(mustRead(text));
  // The slow node has a stage of its own, with fewer layers.
  const AdviceRow &row = advice.rows.front();
  std::vector<int64_t> blocks = row.destination.sizes.blocks;
  EXPECT_LT(*std::min_element(blocks.begin(), blocks.end()), 2);
  EXPECT_LT(row.destination.time.total, row.evenStep * 0.8);
}

TEST(Advice, ReportsHaveEveryKeyOfTheContract) {
  Job job = mustRead(tinyJob());
  Advice advice = mustAdvise(job);
  auto rows = nlohmann::json::parse(rowsJson(job, advice));
  ASSERT_TRUE(rows.is_array());
  for (const auto &row : rows)
    for (const char *key : {"request", "step_s", "memory_bytes", "moved_bytes",
                            "transition_s", "pays_after_steps"})
      EXPECT_TRUE(row.contains(key)) << key;
  std::string page = advicePage(job, advice);
  EXPECT_EQ(page.find("http://"), page.find("http://www.w3.org"));
  EXPECT_EQ(page.find("<script src"), std::string::npos);
}

} // namespace
