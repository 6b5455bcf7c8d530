//===- LayoutsTest.cpp - Who holds what, by parallel sizes ----------------===//
//
// Regions of single ranks against what Megatron-Core gives them. llama-tiny is
// 8 layers, hidden 128, 8 heads in 4 groups of 16, ffn 384, vocabulary 1000.
//
//===----------------------------------------------------------------------===//

#include "RequestTesting.h"

using namespace dt;

namespace {

const std::string kLlama = "llama-tiny.json";
const std::string kMoe = "qwen3-moe-tiny.json"; // 6 layers, 16 experts of 48
const std::string kLayer3 = "decoder.layers.3.";

Request llama(const std::string &layout) {
  return readGood(stay(kLlama, layout));
}
Request moe(const std::string &layout) { return readGood(stay(kMoe, layout)); }

/// The ranks of the source that hold some of a tensor.
std::vector<int64_t> holders(const Request &request, const std::string &name) {
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < request.source.world; ++rank)
    if (!heldBy(request, name, rank).empty())
      ranks.push_back(rank);
  return ranks;
}

using Ranks = std::vector<int64_t>;

std::string layerNorm(int64_t layer) {
  return "decoder.layers." + std::to_string(layer) +
         ".mlp.linear_fc1.layer_norm_weight";
}

TEST(TensorParallel, cutsRowsColumnsAndPackedHalves) {
  Request request = llama(R"({"world": 4, "tp": 4})");
  const std::string attention = kLayer3 + "self_attention.";
  EXPECT_EQ(heldBy(request, attention + "linear_qkv.weight", 1),
            "[64:128)x[0:128)");
  EXPECT_EQ(heldBy(request, attention + "linear_proj.weight", 3),
            "[0:128)x[96:128)");
  EXPECT_EQ(heldBy(request, kLayer3 + "mlp.linear_fc1.weight", 1),
            "[96:192)x[0:128) [480:576)x[0:128)");
  EXPECT_EQ(heldBy(request, kLayer3 + "mlp.linear_fc2.weight", 2),
            "[0:128)x[192:288)");
  EXPECT_EQ(heldBy(request, layerNorm(3), 2), "[0:128)");
}

TEST(TensorParallel, cutsInsideGroupsWhenThereAreMoreRanksThanGroups) {
  Request request =
      readGood(stay("qwen3-235b-a22b.json", R"({"world": 8, "tp": 8})"));
  EXPECT_EQ(heldBy(request, kLayer3 + "self_attention.linear_qkv.weight", 3),
            "[3456:4608)x[0:4096)");
}

struct PaddedVocabulary {
  const char *model;
  int64_t multiple;
  int64_t tp;
  int64_t padded;
};

TEST(TensorParallel, padsTheVocabularyAsMegatronDoes) {
  const PaddedVocabulary table[] = {
      {"gpt3-1.3b", 128, 1, 50304},       {"gpt3-1.3b", 128, 2, 50432},
      {"gpt3-1.3b", 128, 4, 50688},       {"gpt3-1.3b", 128, 8, 51200},
      {"gpt3-1.3b", 128, 16, 51200},      {"llama3-8b", 128, 1, 128256},
      {"llama3-8b", 128, 2, 128256},      {"llama3-8b", 128, 4, 128512},
      {"llama3-8b", 128, 8, 129024},      {"llama3-8b", 128, 16, 129024},
      {"qwen3-30b-a3b", 128, 2, 152064},  {"qwen3-30b-a3b", 128, 8, 152576},
      {"qwen3-30b-a3b", 128, 16, 153600}, {"qwen3-30b-a3b", 1187, 16, 151936},
      {"deepseek-v3", 128, 4, 129536},    {"deepseek-v3", 128, 16, 131072},
      {"deepseek-v3", 1280, 2, 130560},   {"deepseek-v3", 1280, 16, 143360},
      {"deepseek-v3", 3232, 8, 129280},   {"deepseek-v3", 3232, 16, 155136}};
  for (const PaddedVocabulary &row : table) {
    std::string tp = std::to_string(row.tp);
    Request request = readGood(stay(
        std::string(row.model) + ".json",
        "{\"world\": " + tp + ", \"tp\": " + tp + ", \"etp\": 1" +
            ", \"vocab_multiple\": " + std::to_string(row.multiple) + "}"));
    const PlaceDecl &place =
        placeOf(request, "embedding.word_embeddings.weight");
    EXPECT_EQ(place.placement.dims[0].extent, row.padded)
        << row.model << " tp " << tp;
  }
}

TEST(TensorParallel, takesTheVocabularyMultipleOfTheRequest) {
  Request request = readGood(
      R"({"model": "llama-tiny.json", "vocab_multiple": 250,
          "source": {"world": 1},
          "destination": {"world": 2, "tp": 2, "vocab_multiple": 384}})");
  EXPECT_EQ(request.source.places[0].placement.dims[0].extent, 1000);
  EXPECT_EQ(request.destination.places[0].placement.dims[0].extent, 1536);
}

TEST(Pipeline, putsEndsOnFirstAndLastStage) {
  Request request = llama(R"({"world": 4, "pp": 4})");
  EXPECT_EQ(holders(request, "embedding.word_embeddings.weight"), Ranks{0});
  EXPECT_EQ(holders(request, layerNorm(2)), Ranks{1});
  EXPECT_EQ(holders(request, "decoder.final_layernorm.weight"), Ranks{3});
  EXPECT_EQ(holders(request, "output_layer.weight"), Ranks{3});
}

TEST(Pipeline, interleavesChunks) {
  Request request = llama(R"({"world": 2, "pp": 2, "vpp": 2})");
  const int64_t stage[] = {0, 0, 1, 1, 0, 0, 1, 1};
  const int64_t chunk[] = {0, 0, 0, 0, 1, 1, 1, 1};
  for (int64_t layer = 0; layer < 8; ++layer) {
    EXPECT_EQ(holders(request, layerNorm(layer)), Ranks{stage[layer]});
    EXPECT_EQ(placeOf(request, layerNorm(layer)).chunks, Ranks{chunk[layer]});
  }
  EXPECT_EQ(placeOf(request, "output_layer.weight").chunks, Ranks{1});
}

TEST(Pipeline, takesUnevenStages) {
  Request request =
      readGood(stay("qwen3-235b-a22b.json",
                    R"({"world": 4, "pp": 4, "pp_layers": [24, 23, 23, 24]})"));
  const std::string norm = ".pre_mlp_layernorm.weight";
  for (auto [layer, rank] : {std::pair<int, int64_t>{23, 0},
                             {24, 1},
                             {46, 1},
                             {47, 2},
                             {69, 2},
                             {70, 3},
                             {93, 3}})
    EXPECT_EQ(
        holders(request, "decoder.layers." + std::to_string(layer) + norm),
        Ranks{rank});
}

TEST(Pipeline, takesLayersPerChunkInMegatronsOrder) {
  Request request =
      llama(R"({"world": 2, "pp": 2, "vpp": 2, "pp_layers": [1, 2, 0, 5]})");
  EXPECT_EQ(holders(request, layerNorm(0)), Ranks{0});
  EXPECT_EQ(holders(request, layerNorm(2)), Ranks{1});
  EXPECT_EQ(placeOf(request, layerNorm(2)).chunks, Ranks{0});
  EXPECT_EQ(holders(request, layerNorm(3)), Ranks{1});
  EXPECT_EQ(placeOf(request, layerNorm(3)).chunks, Ranks{1});
}

TEST(Pipeline, sharesTheLayersOfAStageOverItsChunks) {
  Request request =
      llama(R"({"world": 2, "pp": 2, "vpp": 2, "pp_layers": [6, 2]})");
  // Blocks of 3, 1, 3, 1 layers.
  for (auto [layer, rank] :
       {std::pair<int, int64_t>{2, 0}, {3, 1}, {4, 0}, {6, 0}, {7, 1}})
    EXPECT_EQ(holders(request, layerNorm(layer)), Ranks{rank}) << layer;
}

TEST(Pipeline, copiesTiedEmbeddingsToTheLastStage) {
  const std::string name = "embedding.word_embeddings.weight";
  Request two =
      readGood(stay("gpt2-tiny.json", R"({"world": 4, "tp": 2, "pp": 2})"));
  EXPECT_EQ(holders(two, name), (Ranks{0, 1, 2, 3}));
  EXPECT_TRUE(placeOf(two, name).ownBucket);
  EXPECT_EQ(holders(two, "embedding.position_embeddings.weight"),
            (Ranks{0, 1}));
  Request one = readGood(stay("gpt2-tiny.json", R"({"world": 2, "tp": 2})"));
  EXPECT_EQ(holders(one, name), (Ranks{0, 1}));
  EXPECT_FALSE(placeOf(one, name).ownBucket);
}

TEST(Pipeline, putsMtpAndACopyOfTheEmbeddingOnTheLastStage) {
  Request request = readGood(
      stay("deepseek-tiny.json",
           R"({"world": 3, "pp": 3, "vpp": 2, "pp_layers": [1,1,1,2,1,1]})"));
  EXPECT_EQ(holders(request, "mtp.layers.0.eh_proj.weight"), Ranks{2});
  EXPECT_EQ(placeOf(request, "mtp.layers.0.eh_proj.weight").chunks, Ranks{1});
  const std::string name = "embedding.word_embeddings.weight";
  EXPECT_EQ(holders(request, name), (Ranks{0, 2}));
  EXPECT_EQ(placeOf(request, name).chunks, (Ranks{0, 1}));
}

TEST(Pipeline, putsTheNormBeforeMtpWithTheLastLayer) {
  const std::string name = "decoder.final_layernorm.weight";
  Request request =
      readGood(stay("deepseek-tiny.json", R"({"world": 3, "pp": 3, "vpp": 2,
                                     "pp_layers": [1,2,1,2,1,0]})"));
  EXPECT_EQ(holders(request, name), Ranks{1});
  EXPECT_EQ(placeOf(request, name).chunks, Ranks{1});
}

TEST(Order, firstNameVariesFastest) {
  const std::string sizes = R"("world": 8, "tp": 2, "dp": 2, "pp": 2)";
  const std::string last = "output_layer.weight";
  EXPECT_EQ(holders(llama("{" + sizes + "}"), last), (Ranks{4, 5, 6, 7}));
  Request request = llama("{" + sizes + R"(, "order": "tp-pp-dp"})");
  EXPECT_EQ(holders(request, last), (Ranks{2, 3, 6, 7}));
  request = llama("{" + sizes + R"(, "order": "pp-dp-tp"})");
  EXPECT_EQ(holders(request, last), (Ranks{1, 3, 5, 7}));
  EXPECT_EQ(heldBy(request, last, 5), "[512:1000)x[0:128)");
}

TEST(Experts, haveAGridOfTheirOwn) {
  // Per stage: dense tp 2 x dp 2, experts ep 4 (rank mod 4).
  Request request =
      moe(R"({"world": 8, "tp": 2, "ep": 4, "etp": 1, "pp": 2, "dp": 2})");
  const std::string experts = kLayer3 + "mlp.experts.linear_fc1.weight";
  EXPECT_EQ(holders(request, experts + "0"), Ranks{4});
  EXPECT_EQ(holders(request, experts + "7"), Ranks{5});
  EXPECT_EQ(holders(request, experts + "15"), Ranks{7});
  EXPECT_EQ(heldBy(request, experts + "15", 7), "[0:96)x[0:64)");
  EXPECT_EQ(holders(request, kLayer3 + "mlp.router.weight"),
            (Ranks{4, 5, 6, 7}));
}

TEST(Experts, areCutByExpertTensorParallelism) {
  // etp varies fastest, then ep.
  Request request = moe(R"({"world": 8, "tp": 1, "ep": 2, "etp": 2, "dp": 8})");
  const std::string experts = kLayer3 + "mlp.experts.";
  EXPECT_EQ(holders(request, experts + "linear_fc1.weight3"),
            (Ranks{0, 1, 4, 5}));
  EXPECT_EQ(heldBy(request, experts + "linear_fc1.weight3", 5),
            "[24:48)x[0:64) [72:96)x[0:64)");
  EXPECT_EQ(heldBy(request, experts + "linear_fc2.weight12", 2),
            "[0:64)x[0:24)");
}

TEST(Experts, joinTheDenseGridWithoutExpertParallelism) {
  Request request = moe(R"({"world": 4, "tp": 2, "dp": 2})");
  EXPECT_EQ(request.source.meshes.size(), 1u);
  EXPECT_EQ(heldBy(request, kLayer3 + "mlp.experts.linear_fc2.weight1", 3),
            "[0:64)x[24:48)");
}

TEST(Experts, takeContextRanksToo) {
  Request request =
      moe(R"({"world": 16, "tp": 2, "cp": 2, "ep": 8, "etp": 1, "pp": 2,
              "dp": 2})");
  EXPECT_EQ(request.source.meshes[1].mesh.axisSize("edp"), 1);
  EXPECT_EQ(holders(request, kLayer3 + "mlp.experts.linear_fc1.weight6"),
            Ranks{11});
}

TEST(Experts, haveNoContextRanksSoOrderMovesThem) {
  // Dense tp groups are 2 ranks apart, expert ones are neighbours.
  Request request =
      moe(R"({"world": 4, "tp": 2, "cp": 2, "order": "cp-tp-dp-pp"})");
  EXPECT_EQ(heldBy(request, kLayer3 + "mlp.experts.linear_fc2.weight1", 1),
            "[0:64)x[24:48)");
  EXPECT_EQ(heldBy(request, kLayer3 + "self_attention.linear_proj.weight", 1),
            "[0:64)x[0:64)");
}

TEST(Experts, areNoGridOfADenseModel) {
  Request request = llama(R"({"world": 8, "cp": 2, "pp": 2, "dp": 2, "ep": 2,
                "order": "cp-pp-dp"})");
  EXPECT_EQ(request.source.meshes.size(), 1u);
}

TEST(Fsdp, chunksWhatTensorParallelismLeft) {
  Request request = llama(R"({"world": 6, "tp": 2, "fsdp": 3})");
  EXPECT_EQ(heldBy(request, layerNorm(0), 4), "[86:128)");
  EXPECT_EQ(heldBy(request, kLayer3 + "self_attention.linear_proj.weight", 3),
            "[43:86)x[64:128)");
  // Of [192 gate rows; 192 up rows] at tp 1, the second third.
  EXPECT_EQ(heldBy(request, kLayer3 + "mlp.linear_fc1.weight", 3),
            "[320:384)x[0:128) [576:640)x[0:128)");
}

TEST(Fsdp, shardsExpertsOverTheRanksThatEpLeaves) {
  Request request = moe(R"({"world": 16, "tp": 2, "fsdp": 4, "dp": 2, "ep": 4,
                            "etp": 1})");
  const Mesh &mesh = request.source.meshes[1].mesh;
  EXPECT_EQ(mesh.axisSize("efsdp"), 2);
  EXPECT_EQ(mesh.axisSize("edp"), 2);
  const std::string name = kLayer3 + "mlp.experts.linear_fc2.weight4";
  EXPECT_EQ(holders(request, name), (Ranks{1, 5, 9, 13}));
  EXPECT_EQ(heldBy(request, name, 5), "[32:64)x[0:48)");
}

TEST(Fsdp, leavesBuffersWhole) {
  Request request =
      readGood(stay("deepseek-tiny.json", R"({"world": 4, "fsdp": 4})"));
  EXPECT_EQ(heldBy(request, kLayer3 + "mlp.router.expert_bias", 2), "[0:8)");
  EXPECT_EQ(heldBy(request, kLayer3 + "mlp.router.weight", 2), "[4:6)x[0:64)");
}

TEST(Devices, followRanksAndMayGoOn) {
  Request request =
      llama(R"({"world": 4, "tp": 4, "devices": [8, 10, "..."]})");
  EXPECT_EQ(request.source.devices, (Ranks{8, 10, 12, 14}));
  EXPECT_EQ(request.source.meshes[0].mesh.devices, (Ranks{8, 10, 12, 14}));
  EXPECT_TRUE(llama(R"({"world": 2, "tp": 2, "devices": [0, 1]})")
                  .source.devices.empty());
}

} // namespace
