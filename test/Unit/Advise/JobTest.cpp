//===- JobTest.cpp - What a job says, and every mistake in it -------------===//

#include "JobTesting.h"

#include <functional>

using namespace dt::advise;

namespace {

TEST(Job, ReadsSizesSpeedsAndLosses) {
  Text text = jobOf("llama-tiny", 16);
  text["layout"] = {{"world", 16}, {"tp", 2},   {"pp", 4},
                    {"dp", 2},     {"zero", 1}, {"pp_layers", {1, 2, 2, 3}}};
  text["cluster"]["unequal"] = {{{"at", "node:1"}, {"slowdown", 2}},
                                {{"at", 9}, {"memory", "40GiB"}}};
  text["lost"] = {"node:3", 0};
  Job job = mustRead(text);
  EXPECT_EQ(job.today.blocks, (std::vector<int64_t>{1, 2, 2, 3}));
  EXPECT_EQ(job.cluster.nodes(), 4);
  EXPECT_DOUBLE_EQ(job.cluster.devices[4].flops,
                   job.cluster.devices[0].flops / 2);
  EXPECT_EQ(job.cluster.devices[9].memory, int64_t(40) << 30);
  EXPECT_EQ(job.available().size(), 11u);
  EXPECT_EQ(job.model.layers, 8);
}

TEST(Job, CommandLineAddsLosses) {
  JobChanges changes;
  changes.lost = {"node:0", "7"};
  EXPECT_EQ(mustRead(jobOf("llama-tiny", 16), changes).available().size(), 11u);
  changes.lost.clear();
  changes.devices = {1, 2, 3};
  EXPECT_EQ(mustRead(jobOf("llama-tiny", 16), changes).available(),
            (std::vector<int64_t>{1, 2, 3}));
}

TEST(Job, ProfileTakesThePlaceOfRates) {
  JobChanges changes;
  changes.profile =
      R"({"device_slowdown": [1, 2, 1, 1], "layer_seconds":
          [1, 1, 1, 1, 1, 1, 1, 3]})";
  Job job = mustRead(jobOf("llama-tiny", 4), changes);
  EXPECT_DOUBLE_EQ(job.profile.layerSeconds[7], 3);
  EXPECT_DOUBLE_EQ(job.cluster.devices[1].flops,
                   job.cluster.devices[0].flops / 2);
}

struct Mistake {
  const char *error;
  std::function<void(Text &)> make;
};

TEST(Job, EveryMistakeIsOneClearError) {
  const Mistake mistakes[] = {
      {"unknown key \"layuot\" in job; did you mean \"layout\"?",
       [](Text &t) { t["layuot"] = 1; }},
      {"job needs the key \"cluster\"", [](Text &t) { t.erase("cluster"); }},
      {"cluster needs the key \"memory\"",
       [](Text &t) { t["cluster"].erase("memory"); }},
      {"cluster.devices must be at most 65536, not 1000000",
       [](Text &t) { t["cluster"]["devices"] = 1000000; }},
      {"unknown key \"TFLOPS\" in cluster; did you mean \"TFLOPs\"?",
       [](Text &t) { t["cluster"]["TFLOPS"] = 1; }},
      {"cluster.nics_per_node must divide the 4 devices of a node, not be 3",
       [](Text &t) { t["cluster"]["nics_per_node"] = 3; }},
      {"cluster.pxn must be true or false, not 1",
       [](Text &t) { t["cluster"]["pxn"] = 1; }},
      {"cluster.intra_node_GBps is too large, expected at most 1000000.0",
       [](Text &t) { t["cluster"]["intra_node_GBps"] = 1e300; }},
      {"cluster.unequal[0].at names node 9, but the cluster has 16 devices on "
       "4 nodes",
       [](Text &t) { t["cluster"]["unequal"] = {{{"at", "node:9"}}}; }},
      {"cluster.measured_GBps has 1 rows, but the cluster has 16 devices",
       [](Text &t) { t["cluster"]["measured_GBps"] = {{1}}; }},
      {"layout: tp 3 x cp 1 x fsdp 1 x dp 16 x pp 1 = 48, but world is 16",
       [](Text &t) { t["layout"]["tp"] = 3; }},
      {"layout: 8 layers do not divide by pp 16; give the layers of each stage "
       "in pp_layers",
       [](Text &t) { t["layout"] = {{"world", 16}, {"pp", 16}}; }},
      {"layout uses device 40, but the cluster has 16 devices",
       [](Text &t) { t["layout"] = {{"world", 1}, {"devices", {40}}}; }},
      {"layout has \"shards\", but advice needs parallel sizes",
       [](Text &t) {
         t["layout"] = {{"world", 16}, {"shards", Text::array()}};
       }},
      {"layout.order must be \"tp-cp-ep-fsdp-dp-pp\"",
       [](Text &t) { t["layout"]["order"] = "tp-pp-dp"; }},
      {"batch needs the key \"sequence\"",
       [](Text &t) { t["batch"].erase("sequence"); }},
      {"batch.global 64 does not divide by batch.micro 3",
       [](Text &t) { t["batch"]["micro"] = 3; }},
      {"batch.recompute must be \"none\", \"selective\" or \"full\", not "
       "\"some\"",
       [](Text &t) { t["batch"]["recompute"] = "some"; }},
      {"constraints.tp allows nothing",
       [](Text &t) { t["constraints"]["tp"] = Text::array(); }},
      {"transition.mode must be \"flat\" or \"rollback\", not \"fast\"",
       [](Text &t) { t["transition"]["mode"] = "fast"; }},
      {"lost[0] must be a device such as 17 or a node such as \"node:3\", not "
       "\"rack:1\"",
       [](Text &t) { t["lost"] = {"rack:1"}; }},
      {"lost[0] names device 99, but the cluster has 16 devices on 4 nodes",
       [](Text &t) { t["lost"] = {99}; }},
      {"no device is left",
       [](Text &t) { t["lost"] = {"node:0", "node:1", "node:2", "node:3"}; }},
      {"state.param is the unknown dtype \"bf15\"",
       [](Text &t) { t["state"]["param"] = "bf15"; }},
      {"model is a list of tensors, but advice needs a config.json with "
       "\"model_type\"",
       [](Text &t) {
         t["model"] = {
             {"tensors", {{{"name", "w"}, {"shape", {4}}, {"dtype", "bf16"}}}}};
       }},
      {"model \"models/none.json\" cannot be read: No such file or directory",
       [](Text &t) { t["model"] = "models/none.json"; }},
      {"profile.layer_seconds has 2 entries, but the model has 8 layers",
       [](Text &t) { t["profile"]["layer_seconds"] = {1, 2}; }},
  };
  for (const Mistake &mistake : mistakes) {
    Text text = jobOf("llama-tiny", 16);
    mistake.make(text);
    std::string error;
    EXPECT_FALSE(readText(text, error)) << mistake.error;
    EXPECT_EQ(error, mistake.error);
  }
}

TEST(Job, RefusesMixersWhoseCostItDoesNotKnow) {
  Text text = jobOf("llama-tiny", 16);
  text["model"] = {{"model_type", "nemotron_h"},
                   {"hybrid_override_pattern", "M-"},
                   {"hidden_size", 8},
                   {"num_attention_heads", 2},
                   {"intermediate_size", 6},
                   {"mamba_num_heads", 4},
                   {"mamba_head_dim", 2},
                   {"n_groups", 2},
                   {"vocab_size", 16}};
  std::string error;
  EXPECT_FALSE(readText(text, error));
  EXPECT_EQ(error, "model has Mamba mixers: what their scans take and keep is "
                   "not known here");
  text["model"] = {{"model_type", "qwen3_next"},
                   {"num_hidden_layers", 4},
                   {"hidden_size", 8},
                   {"num_attention_heads", 2},
                   {"num_experts", 2},
                   {"num_experts_per_tok", 1},
                   {"moe_intermediate_size", 4},
                   {"shared_expert_intermediate_size", 4},
                   {"vocab_size", 16}};
  EXPECT_FALSE(readText(text, error));
  EXPECT_EQ(error, "model has linear attention: what it takes and keeps is not "
                   "known here");
}

TEST(Job, ReadsWhatIsNoJson) {
  std::string error;
  EXPECT_FALSE(readJob("{", ".", {}, error));
  EXPECT_EQ(error.rfind("job is not valid JSON: ", 0), 0u) << error;
  EXPECT_FALSE(readJob("[]", ".", {}, error));
  EXPECT_EQ(error, "job must be an object, not an array");
}

} // namespace
