//===- ModelsTest.cpp - Tensors of known model types ----------------------===//
//
// Totals and counts against the models' well-known sizes, names and order
// against Megatron-Core's registration order.
//
//===----------------------------------------------------------------------===//

#include "RequestTesting.h"

using namespace dt;

namespace {

int64_t volume(const TensorDecl &tensor) {
  int64_t product = 1;
  for (int64_t size : tensor.shape)
    product *= size;
  return product;
}

/// Elements of all tensors whose name has `part`, buffers left out.
int64_t elements(const Request &request, const std::string &part = "") {
  int64_t sum = 0;
  for (const TensorDecl &tensor : request.tensors)
    if (tensor.name.find(part) != std::string::npos &&
        tensor.name.find("expert_bias") == std::string::npos)
      sum += volume(tensor);
  return sum;
}

Request readModel(const std::string &name) {
  return readGood(stay(name + ".json", R"({"world": 1})"));
}

std::vector<std::string> namesWith(const Request &request,
                                   const std::string &prefix) {
  std::vector<std::string> names;
  for (const TensorDecl &tensor : request.tensors)
    if (tensor.name.compare(0, prefix.size(), prefix) == 0)
      names.push_back(tensor.name.substr(prefix.size()));
  return names;
}

TEST(Models, llama3HasItsPublishedSize) {
  EXPECT_EQ(elements(readModel("llama3-8b")), 8'030'261'248);
  Request request = readModel("llama3-70b");
  EXPECT_EQ(elements(request), 70'553'706'496);
  EXPECT_EQ(elements(request, "layers.7."), 855'654'400);
  EXPECT_EQ(request.tensors.size(), 80u * 6 + 3);
}

TEST(Models, qwen3MoeHasItsPublishedSize) {
  EXPECT_EQ(elements(readModel("qwen3-30b-a3b")), 30'532'122'624);
  Request request = readModel("qwen3-235b-a22b");
  EXPECT_EQ(elements(request), 235'093'634'560);
  EXPECT_EQ(elements(request, "layers.93."), 2'487'755'008);
  EXPECT_EQ(request.tensors.size(), 94u * (7 + 256) + 3);
}

TEST(Models, deepseekV3HasItsPublishedSize) {
  Request request = readModel("deepseek-v3");
  EXPECT_EQ(elements(request, "decoder.layers.60."), 11'507'286'016);
  EXPECT_EQ(elements(request, "decoder.layers.0."), 583'483'392);
  EXPECT_EQ(elements(request, "mtp."), 11'610'067'968);
  EXPECT_EQ(elements(request), 671'026'404'352 + 11'610'067'968);
  EXPECT_EQ(namesWith(request, "decoder.layers.60.mlp.experts.").size(), 512u);
}

TEST(Models, gpt3HasItsPublishedSizeButForPaddingRows) {
  Request request = readModel("gpt3-1.3b");
  EXPECT_EQ(elements(request), 1'315'819'520 - (50304 - 50257) * 2048);
  EXPECT_EQ(elements(request, "layers.3."), 50'358'272);
}

TEST(Models, llamaLayerIsInRegistrationOrder) {
  EXPECT_EQ(namesWith(readModel("llama3-8b"), "decoder.layers.5."),
            (std::vector<std::string>{
                "self_attention.linear_proj.weight",
                "self_attention.linear_qkv.layer_norm_weight",
                "self_attention.linear_qkv.weight",
                "mlp.linear_fc1.layer_norm_weight", "mlp.linear_fc1.weight",
                "mlp.linear_fc2.weight"}));
}

TEST(Models, gpt2LayerHasBiases) {
  EXPECT_EQ(
      namesWith(readModel("gpt3-1.3b"), "decoder.layers.0."),
      (std::vector<std::string>{
          "self_attention.linear_proj.weight",
          "self_attention.linear_proj.bias",
          "self_attention.linear_qkv.layer_norm_weight",
          "self_attention.linear_qkv.layer_norm_bias",
          "self_attention.linear_qkv.weight", "self_attention.linear_qkv.bias",
          "mlp.linear_fc1.layer_norm_weight", "mlp.linear_fc1.layer_norm_bias",
          "mlp.linear_fc1.weight", "mlp.linear_fc1.bias",
          "mlp.linear_fc2.weight", "mlp.linear_fc2.bias"}));
}

TEST(Models, gptOssHasItsPublishedSizeAndBiasesOfExperts) {
  Request request = readGood(
      R"({"model": {"model_type": "gpt_oss", "num_hidden_layers": 24,
            "hidden_size": 2880, "intermediate_size": 2880,
            "num_attention_heads": 64, "num_key_value_heads": 8,
            "head_dim": 64, "num_local_experts": 32, "vocab_size": 201088},
          "source": {"world": 1}, "destination": {"world": 1}})");
  EXPECT_EQ(elements(request), 20'914'757'184);
  std::vector<std::string> names = namesWith(request, "decoder.layers.3.");
  EXPECT_EQ(
      std::vector<std::string>(names.begin(), names.begin() + 13),
      (std::vector<std::string>{
          "self_attention.core_attention.softmax_offset",
          "self_attention.linear_proj.weight",
          "self_attention.linear_proj.bias",
          "self_attention.linear_qkv.layer_norm_weight",
          "self_attention.linear_qkv.weight", "self_attention.linear_qkv.bias",
          "pre_mlp_layernorm.weight", "mlp.router.weight", "mlp.router.bias",
          "mlp.experts.linear_fc1.weight0", "mlp.experts.linear_fc1.bias0",
          "mlp.experts.linear_fc1.weight1", "mlp.experts.linear_fc1.bias1"}));
  EXPECT_EQ(names.back(), "mlp.experts.linear_fc2.bias31");
}

TEST(Models, llama4HasExpertsInEveryNthLayer) {
  std::string config =
      R"({"model_type": "llama4_text", "num_hidden_layers": 4,
          "hidden_size": 8, "intermediate_size": 4, "intermediate_size_mlp": 6,
          "num_attention_heads": 2, "head_dim": 4, "num_local_experts": 2,
          "vocab_size": 16, "interleave_moe_layer_step": 2)";
  auto layersWithExperts = [&](const std::string &more) {
    Request request = readGood(R"({"model": )" + config + more +
                               R"(}, "source": {"world": 1},
                                "destination": {"world": 1}})");
    std::string layers;
    for (const TensorDecl &tensor : request.tensors)
      if (tensor.name.find("mlp.router.weight") != std::string::npos)
        layers += tensor.name.substr(15, 1);
    return layers;
  };
  EXPECT_EQ(layersWithExperts(""), "13");
  EXPECT_EQ(layersWithExperts(R"(, "moe_layers": [0, 3])"), "03");
  EXPECT_EQ(layersWithExperts(R"(, "moe_layers": null)"), "13");
}

TEST(Models, nemotronHHasItsPublishedSize) {
  Request request = readGood(
      R"({"model": {"model_type": "nemotron_h", "hidden_size": 4096,
            "hybrid_override_pattern":
              "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
            "num_attention_heads": 32, "num_key_value_heads": 8,
            "head_dim": 128, "intermediate_size": 21504,
            "mamba_num_heads": 128, "mamba_head_dim": 64, "n_groups": 8,
            "ssm_state_size": 128, "vocab_size": 131072},
          "source": {"world": 1}, "destination": {"world": 1}})");
  EXPECT_EQ(elements(request), 8'100'852'736);
  EXPECT_EQ(namesWith(request, "decoder.layers.0."),
            (std::vector<std::string>{
                "mixer.dt_bias", "mixer.A_log", "mixer.D",
                "mixer.in_proj.layer_norm_weight", "mixer.in_proj.weight",
                "mixer.conv1d.weight", "mixer.conv1d.bias", "mixer.norm.weight",
                "mixer.out_proj.weight"}));
  EXPECT_EQ(
      namesWith(request, "decoder.layers.7."),
      (std::vector<std::string>{"self_attention.linear_proj.weight",
                                "self_attention.linear_qkv.layer_norm_weight",
                                "self_attention.linear_qkv.weight"}));
}

TEST(Models, latentExpertsSeeAPartOfTheHiddenSize) {
  Request request = readGood(
      R"({"model": {"model_type": "nemotron_h", "hidden_size": 8,
            "hybrid_override_pattern": "E", "num_attention_heads": 2,
            "num_key_value_heads": 2, "intermediate_size": 6,
            "mamba_num_heads": 4, "mamba_head_dim": 2, "n_groups": 2,
            "ssm_state_size": 3, "n_routed_experts": 1,
            "moe_intermediate_size": 5, "moe_latent_size": 3,
            "moe_shared_expert_intermediate_size": 4, "vocab_size": 16},
          "source": {"world": 1}, "destination": {"world": 1}})");
  EXPECT_EQ(
      namesWith(request, "decoder.layers.0.mlp."),
      (std::vector<std::string>{
          "router.weight", "router.expert_bias", "fc1_latent_proj.weight",
          "fc2_latent_proj.weight", "experts.linear_fc1.weight0",
          "experts.linear_fc2.weight0", "shared_experts.linear_fc1.weight",
          "shared_experts.linear_fc2.weight"}));
  auto shapeOf = [&](const char *name) {
    return request
        .tensors[findTensor(request,
                            std::string("decoder.layers.0.mlp.") + name)]
        .shape;
  };
  using Shape = std::vector<int64_t>;
  EXPECT_EQ(shapeOf("fc1_latent_proj.weight"), (Shape{3, 8}));
  EXPECT_EQ(shapeOf("fc2_latent_proj.weight"), (Shape{8, 3}));
  EXPECT_EQ(shapeOf("experts.linear_fc1.weight0"), (Shape{5, 3}));
  EXPECT_EQ(shapeOf("experts.linear_fc2.weight0"), (Shape{3, 5}));
  EXPECT_EQ(shapeOf("shared_experts.linear_fc1.weight"), (Shape{4, 8}));
}

TEST(Models, qwen3NextHasItsPublishedSize) {
  Request request = readGood(
      R"({"model": {"model_type": "qwen3_next", "num_hidden_layers": 48,
            "hidden_size": 2048, "intermediate_size": 5120,
            "num_attention_heads": 16, "num_key_value_heads": 2,
            "num_experts": 512, "moe_intermediate_size": 512,
            "shared_expert_intermediate_size": 512, "vocab_size": 151936},
          "source": {"world": 1}, "destination": {"world": 1}})");
  EXPECT_EQ(elements(request), 79'674'391'296);
  std::vector<std::string> names = namesWith(request, "decoder.layers.2.");
  EXPECT_EQ(
      std::vector<std::string>(names.begin(), names.begin() + 9),
      (std::vector<std::string>{
          "self_attention.dt_bias", "self_attention.A_log",
          "self_attention.in_proj.layer_norm_weight",
          "self_attention.in_proj.weight", "self_attention.conv1d.weight",
          "self_attention.out_norm.weight", "self_attention.out_proj.weight",
          "pre_mlp_layernorm.weight", "mlp.router.weight"}));
  names = namesWith(request, "decoder.layers.3.");
  EXPECT_EQ(
      std::vector<std::string>(names.begin(), names.begin() + 5),
      (std::vector<std::string>{"self_attention.linear_proj.weight",
                                "self_attention.linear_qkv.layer_norm_weight",
                                "self_attention.linear_qkv.weight",
                                "self_attention.q_layernorm.weight",
                                "self_attention.k_layernorm.weight"}));
}

TEST(Models, predictionLayersOfQwen3NextHaveWhatItsLastLayerHas) {
  auto names = [](const char *interval) {
    Request request = readGood(
        R"({"model": {"model_type": "qwen3_next", "num_hidden_layers": 4,
              "hidden_size": 8, "intermediate_size": 6, "head_dim": 4,
              "num_attention_heads": 2, "num_key_value_heads": 1,
              "num_experts": 2, "moe_intermediate_size": 5,
              "linear_num_key_heads": 1, "linear_num_value_heads": 2,
              "shared_expert_intermediate_size": 3, "vocab_size": 16,
              "num_nextn_predict_layers": 1, "full_attention_interval": )" +
        std::string(interval) + R"(},
            "source": {"world": 2, "pp": 2},
            "destination": {"world": 1, "framework": "huggingface",
                            "without": ["mtp.*"]}})");
    return namesWith(request, "mtp.layers.0.");
  };
  std::vector<std::string> full = names("4"), linear = names("3");
  EXPECT_EQ(full[3], "mtp_model_layer.self_attention.linear_proj.weight");
  EXPECT_EQ(linear[3], "mtp_model_layer.self_attention.dt_bias");
  EXPECT_EQ(full.back(), "final_layernorm.weight");
}

TEST(Models, layersOfAHybridHaveLettersOrNames) {
  std::string config =
      R"({"model_type": "nemotron_h", "hidden_size": 8,
          "num_attention_heads": 2, "num_key_value_heads": 2,
          "intermediate_size": 6, "mamba_num_heads": 4, "mamba_head_dim": 2,
          "n_groups": 2, "ssm_state_size": 3, "n_routed_experts": 2,
          "moe_intermediate_size": 5, "moe_shared_expert_intermediate_size": 4,
          "vocab_size": 16, )";
  auto tensors = [&](const std::string &layers) {
    return namesWith(readGood(R"({"model": )" + config + layers +
                              R"(}, "source": {"world": 1},
                               "destination": {"world": 1}})"),
                     "decoder.");
  };
  std::vector<std::string> byLetter =
      tensors(R"("hybrid_override_pattern": "M*-E")");
  EXPECT_EQ(byLetter.back(), "final_norm.weight");
  EXPECT_EQ(tensors(R"("layers_block_type": ["linear_attention",
                       "full_attention", "mlp", "moe"])"),
            byLetter);
  EXPECT_EQ(tensors(R"("layer_types": ["mamba", "attention", "mlp", "moe"])"),
            byLetter);
}

TEST(Models, groupedExpertsListAllFc1BeforeAllFc2) {
  std::vector<std::string> names =
      namesWith(readModel("qwen3-30b-a3b"), "decoder.layers.0.");
  EXPECT_EQ(std::vector<std::string>(names.begin(), names.begin() + 9),
            (std::vector<std::string>{
                "self_attention.linear_proj.weight",
                "self_attention.linear_qkv.layer_norm_weight",
                "self_attention.linear_qkv.weight",
                "self_attention.q_layernorm.weight",
                "self_attention.k_layernorm.weight", "pre_mlp_layernorm.weight",
                "mlp.router.weight", "mlp.experts.linear_fc1.weight0",
                "mlp.experts.linear_fc1.weight1"}));
  EXPECT_EQ(names[7 + 128], "mlp.experts.linear_fc2.weight0");
}

TEST(Models, latentAttentionAndMtpAreInRegistrationOrder) {
  Request request = readModel("deepseek-v3");
  EXPECT_EQ(namesWith(request, "decoder.layers.2."),
            (std::vector<std::string>{
                "input_layernorm.weight", "self_attention.linear_proj.weight",
                "self_attention.linear_q_down_proj.weight",
                "self_attention.linear_q_up_proj.layer_norm_weight",
                "self_attention.linear_q_up_proj.weight",
                "self_attention.linear_kv_down_proj.weight",
                "self_attention.linear_kv_up_proj.layer_norm_weight",
                "self_attention.linear_kv_up_proj.weight",
                "mlp.linear_fc1.layer_norm_weight", "mlp.linear_fc1.weight",
                "mlp.linear_fc2.weight"}));
  std::vector<std::string> mtp = namesWith(request, "mtp.layers.0.");
  EXPECT_EQ(mtp[2], "eh_proj.weight");
  EXPECT_EQ(mtp[3], "mtp_model_layer.input_layernorm.weight");
  EXPECT_EQ(mtp.back(), "final_layernorm.weight");
  EXPECT_EQ(request.tensors.back().name, "output_layer.weight");
}

TEST(Models, tiedEmbeddingsHaveNoOutputLayer) {
  EXPECT_EQ(readModel("gpt3-1.3b").tensors.back().name,
            "decoder.final_layernorm.bias");
}

TEST(Models, routerBiasIsABufferOfItsOwnDType) {
  Request request = readGood(
      R"({"model": "deepseek-v3.json", "state": {"param": "bf16",
          "master": "f32"}, "source": {"world": 1},
          "destination": {"world": 1}})");
  const TensorDecl &bias = request.tensors[findTensor(
      request, "decoder.layers.3.mlp.router.expert_bias")];
  ASSERT_EQ(bias.states.size(), 1u);
  EXPECT_EQ(bias.states[0].source, DType::F32);
  EXPECT_EQ(request.tensors[0].states.size(), 2u);
}

} // namespace
