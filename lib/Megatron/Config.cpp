//===- Config.cpp - Reads Hugging Face config.json files ------------------===//
//
// One small reader per model type. A config holds many keys that do not touch
// tensors, so unknown keys are left alone here and nowhere else.
//
//===----------------------------------------------------------------------===//

#include "dt/Megatron/Config.h"
#include "dt/Megatron/Tensors.h"

#include "dt/Geometry/Limits.h"

#include <algorithm>
#include <map>

namespace dt::megatron {

using namespace json;

namespace {

/// Largest number in a config: products of two stay far from overflow.
constexpr int64_t kMaxSize = int64_t(1) << 24;

struct ConfigReader {
  const Json &json;
  const std::string &path;

  const Json *find(const char *key) const {
    const Json *value = json.find(key);
    return value && !value->isNull() ? value : nullptr;
  }
  int64_t size(const char *key) const {
    return asInteger(require(json, path, key), keyPath(key), 1, kMaxSize);
  }
  int64_t sizeOr(const char *key, int64_t standard, int64_t least = 1) const {
    const Json *value = find(key);
    return value ? asInteger(*value, keyPath(key), least, kMaxSize) : standard;
  }
  bool flag(const char *key, bool standard) const {
    const Json *value = find(key);
    return value ? asBool(*value, keyPath(key)) : standard;
  }
  std::string keyPath(const char *key) const {
    return path + " " + inQuotes(key);
  }
};

DType readConfigDType(const ConfigReader &in) {
  for (const char *key : {"torch_dtype", "dtype"}) {
    const Json *value = in.find(key);
    if (!value)
      continue;
    const std::string &text = asString(*value, in.keyPath(key));
    std::optional<DType> dtype = parseDType(text);
    if (!dtype)
      fail(in.keyPath(key) + " is the unknown dtype " + inQuotes(text));
    return *dtype;
  }
  return DType::BF16;
}

/// Embeddings, heads and biases of all types but gpt2.
void readAttention(const ConfigReader &in, MegatronConfig &out) {
  out.hidden = in.size("hidden_size");
  out.vocab = in.size("vocab_size");
  out.tied = in.flag("tie_word_embeddings", false);
  out.heads = in.size("num_attention_heads");
  out.groups = in.sizeOr("num_key_value_heads", out.heads);
  if (out.heads % out.groups != 0)
    fail(in.path + " has " + std::to_string(out.heads) +
         " attention heads, which do not divide into " +
         std::to_string(out.groups) + " key-value heads");
  out.headDim = in.sizeOr("head_dim", out.hidden / out.heads);
  if (!in.find("head_dim") && out.hidden % out.heads != 0)
    fail(in.path + " has hidden size " + std::to_string(out.hidden) +
         ", which does not divide into " + std::to_string(out.heads) +
         " heads");
  out.qkvBias = out.projBias = in.flag("attention_bias", false);
  out.mlpBias = in.flag("mlp_bias", false);
}

/// What all types share but gpt2 and hybrids.
MegatronConfig readLlamaLike(const ConfigReader &in) {
  MegatronConfig out;
  out.layers = in.size("num_hidden_layers");
  readAttention(in, out);
  out.moeLayers.assign(std::min(out.layers, kMaxTensors), false);
  return out;
}

MegatronConfig readLlama(const ConfigReader &in) {
  MegatronConfig out = readLlamaLike(in);
  out.ffn = in.size("intermediate_size");
  return out;
}

MegatronConfig readQwen2(const ConfigReader &in) {
  MegatronConfig out = readLlama(in);
  out.qkvBias = true;
  return out;
}

MegatronConfig readQwen3(const ConfigReader &in) {
  MegatronConfig out = readLlama(in);
  out.qkNorm = true;
  return out;
}

MegatronConfig readMixtral(const ConfigReader &in) {
  MegatronConfig out = readLlamaLike(in);
  out.experts = in.size("num_local_experts");
  out.expertFfn = in.size("intermediate_size");
  out.moeLayers.assign(out.moeLayers.size(), true);
  return out;
}

/// Which layers of a Qwen model have experts, and how large these are.
void readQwenExperts(const ConfigReader &in, MegatronConfig &out) {
  out.ffn = in.sizeOr("intermediate_size", 0);
  out.experts = in.size("num_experts");
  out.expertFfn = in.size("moe_intermediate_size");
  int64_t step = in.sizeOr("decoder_sparse_step", 1);
  for (size_t layer = 0; layer < out.moeLayers.size(); ++layer)
    out.moeLayers[layer] = (layer + 1) % step == 0;
  if (const Json *dense = in.find("mlp_only_layers"))
    for (int64_t layer : asIntegers(*dense, in.keyPath("mlp_only_layers"), 0))
      if (layer < static_cast<int64_t>(out.moeLayers.size()))
        out.moeLayers[layer] = false;
}

MegatronConfig readQwen2Moe(const ConfigReader &in) {
  MegatronConfig out = readLlamaLike(in);
  out.qkvBias = in.flag("qkv_bias", true);
  readQwenExperts(in, out);
  out.sharedFfn = in.size("shared_expert_intermediate_size");
  out.sharedGate = true;
  return out;
}

MegatronConfig readQwen3Moe(const ConfigReader &in) {
  MegatronConfig out = readLlamaLike(in);
  out.qkNorm = true;
  readQwenExperts(in, out);
  return out;
}

/// Layers with linear attention: all but each fourth, if not said otherwise.
std::vector<bool> readLinearLayers(const ConfigReader &in, size_t layers) {
  std::vector<bool> out;
  const Json *names = in.find("layer_types");
  if (!names) {
    auto step = size_t(in.sizeOr("full_attention_interval", 4));
    for (size_t layer = 0; layer < layers; ++layer)
      out.push_back((layer + 1) % step != 0);
    return out;
  }
  std::string path = in.keyPath("layer_types");
  for (const Json &item : asArray(*names, path).items) {
    const std::string &name = asString(item, path);
    if (name != "linear_attention" && name != "full_attention")
      fail(path + " has the unknown layer " + inQuotes(name));
    out.push_back(name == "linear_attention");
  }
  if (out.size() != layers)
    fail(path + " has " + std::to_string(out.size()) + " layers, expected " +
         std::to_string(layers));
  return out;
}

MegatronConfig readQwen3Next(const ConfigReader &in) {
  MegatronConfig out = readLlamaLike(in);
  out.headDim = in.sizeOr("head_dim", 256);
  out.qkNorm = out.outputGate = true;
  readQwenExperts(in, out);
  out.sharedFfn = in.size("shared_expert_intermediate_size");
  out.sharedGate = true;
  out.mtpLayers = in.sizeOr("num_nextn_predict_layers", 0, 0);
  out.linearLayers = readLinearLayers(in, out.moeLayers.size());
  out.linear = {in.sizeOr("linear_num_key_heads", 16),
                in.sizeOr("linear_key_head_dim", 128),
                in.sizeOr("linear_num_value_heads", 32),
                in.sizeOr("linear_value_head_dim", 128)};
  out.convKernel = in.sizeOr("linear_conv_kernel_dim", 4);
  if (out.linear.values % out.linear.keys != 0)
    fail(in.path + " has " + std::to_string(out.linear.values) +
         " value heads of linear attention, which do not divide into " +
         std::to_string(out.linear.keys) + " key heads");
  return out;
}

/// What DeepSeek's models and those after them have: dense layers first, shared
/// experts beside the others.
void readDeepseekExperts(const ConfigReader &in, MegatronConfig &out) {
  out.ffn = in.size("intermediate_size");
  out.experts = in.size("n_routed_experts");
  out.expertFfn = in.size("moe_intermediate_size");
  out.sharedFfn = in.sizeOr("n_shared_experts", 0, 0) * out.expertFfn;
  int64_t firstMoe = in.sizeOr("first_k_dense_replace", 0, 0);
  int64_t step = in.sizeOr("moe_layer_freq", 1);
  for (int64_t layer = 0; layer < int64_t(out.moeLayers.size()); ++layer)
    out.moeLayers[layer] = layer >= firstMoe && layer % step == 0;
}

MegatronConfig readDeepseekV2(const ConfigReader &in) {
  MegatronConfig out = readLlamaLike(in);
  out.qRank = in.sizeOr("q_lora_rank", 0);
  out.kvRank = in.size("kv_lora_rank");
  out.nopeDim = in.size("qk_nope_head_dim");
  out.ropeDim = in.size("qk_rope_head_dim");
  out.valueDim = in.size("v_head_dim");
  readDeepseekExperts(in, out);
  return out;
}

MegatronConfig readDeepseekV3(const ConfigReader &in) {
  MegatronConfig out = readDeepseekV2(in);
  out.expertBias = true;
  out.mtpLayers = in.sizeOr("num_nextn_predict_layers", 0, 0);
  return out;
}

MegatronConfig readGlm4Moe(const ConfigReader &in) {
  MegatronConfig out = readLlamaLike(in);
  out.projBias = false;
  out.qkNorm = in.flag("use_qk_norm", false);
  readDeepseekExperts(in, out);
  out.expertBias = true;
  out.mtpLayers = in.sizeOr("num_nextn_predict_layers", 0, 0);
  return out;
}

MegatronConfig readGemma2(const ConfigReader &in) {
  MegatronConfig out = readLlama(in);
  out.tied = in.flag("tie_word_embeddings", true);
  out.headDim = in.sizeOr("head_dim", 256);
  out.postNorms = true;
  return out;
}

MegatronConfig readGemma3(const ConfigReader &in) {
  MegatronConfig out = readGemma2(in);
  out.qkNorm = true;
  return out;
}

MegatronConfig readGptOss(const ConfigReader &in) {
  MegatronConfig out = readLlamaLike(in);
  out.qkvBias = out.projBias = in.flag("attention_bias", true);
  out.sinks = true;
  out.experts = in.size("num_local_experts");
  out.expertFfn = in.size("intermediate_size");
  out.moeLinearBias = true;
  out.moeLayers.assign(out.moeLayers.size(), true);
  return out;
}

MegatronConfig readLlama4(const ConfigReader &in) {
  MegatronConfig out = readLlamaLike(in);
  out.ffn = in.size("intermediate_size_mlp");
  out.experts = in.size("num_local_experts");
  out.expertFfn = out.sharedFfn = in.size("intermediate_size");
  auto numLayers = int64_t(out.moeLayers.size());
  if (const Json *layers = in.find("moe_layers")) {
    for (int64_t layer : asIntegers(*layers, in.keyPath("moe_layers"), 0))
      if (layer < numLayers)
        out.moeLayers[layer] = true;
    return out;
  }
  int64_t step = in.sizeOr("interleave_moe_layer_step", 1);
  for (int64_t layer = step - 1; layer < numLayers; layer += step)
    out.moeLayers[layer] = true;
  return out;
}

/// Layers by letter, as Megatron-Core's `hybrid_override_pattern` has them.
std::vector<HybridLayer> readPattern(const ConfigReader &in) {
  const char *key = "hybrid_override_pattern";
  std::vector<HybridLayer> out;
  for (char letter : asString(require(in.json, in.path, key), in.keyPath(key)))
    switch (letter) {
    case 'M':
      out.push_back(HybridLayer::Mamba);
      break;
    case '*':
      out.push_back(HybridLayer::Attention);
      break;
    case '-':
      out.push_back(HybridLayer::Mlp);
      break;
    case 'E':
      out.push_back(HybridLayer::Experts);
      break;
    default:
      fail(in.keyPath(key) + " has the unknown layer " +
           inQuotes(std::string(1, letter)) + "; known are M, *, - and E");
    }
  if (out.empty() || int64_t(out.size()) > kMaxTensors)
    fail(in.keyPath(key) + " has " + std::to_string(out.size()) +
         " layers, expected 1 to " + std::to_string(kMaxTensors));
  return out;
}

/// Layers by name, as transformers writes them.
std::vector<HybridLayer> readLayerTypes(const ConfigReader &in) {
  const char *key =
      in.find("layers_block_type") ? "layers_block_type" : "layer_types";
  const Json *names = in.find(key);
  if (!names)
    return readPattern(in);
  const std::map<std::string, HybridLayer> known = {
      {"linear_attention", HybridLayer::Mamba},
      {"mamba", HybridLayer::Mamba},
      {"full_attention", HybridLayer::Attention},
      {"attention", HybridLayer::Attention},
      {"mlp", HybridLayer::Mlp},
      {"moe", HybridLayer::Experts}};
  std::vector<HybridLayer> out;
  for (const Json &item : asArray(*names, in.keyPath(key)).items) {
    const std::string &name = asString(item, in.keyPath(key));
    auto found = known.find(name);
    if (found == known.end())
      fail(in.keyPath(key) + " has the unknown layer " + inQuotes(name));
    out.push_back(found->second);
  }
  if (out.empty())
    fail(in.keyPath(key) + " has no layers");
  return out;
}

/// What Megatron-Core's hybrid models have no tensors for.
void refuseOthers(const ConfigReader &in) {
  for (const char *key : {"mamba_proj_bias", "use_bias"})
    if (in.flag(key, false))
      fail(in.keyPath(key) + ": Megatron-Core's mixers have no such bias");
  if (!in.flag("use_conv_bias", true))
    fail(in.keyPath("use_conv_bias") +
         ": Megatron-Core's mixers have that bias always");
  if (in.sizeOr("num_nextn_predict_layers", 0, 0) > 0)
    fail(in.keyPath("num_nextn_predict_layers") +
         " is not known for nemotron_h");
}

MegatronConfig readNemotronH(const ConfigReader &in) {
  refuseOthers(in);
  MegatronConfig out;
  out.hybrid = readLayerTypes(in);
  out.layers = int64_t(out.hybrid.size());
  readAttention(in, out);
  out.gated = false;
  out.ffn = in.size("intermediate_size");
  out.mambaHeads = in.size("mamba_num_heads");
  out.mambaHeadDim = in.size("mamba_head_dim");
  out.mambaGroups = in.sizeOr("n_groups", 8);
  out.mambaState = in.sizeOr("ssm_state_size", 128);
  out.convKernel = in.sizeOr("conv_kernel", 4);
  for (HybridLayer kind : out.hybrid)
    out.moeLayers.push_back(kind == HybridLayer::Experts);
  if (std::count(out.moeLayers.begin(), out.moeLayers.end(), true) == 0)
    return out;
  out.experts = in.size("n_routed_experts");
  out.expertFfn = in.size("moe_intermediate_size");
  out.sharedFfn = in.sizeOr("n_shared_experts", 1, 0) *
                  in.size("moe_shared_expert_intermediate_size");
  out.expertLatent = in.sizeOr("moe_latent_size", 0, 0);
  if (out.expertLatent > 0 && in.flag("mlp_bias", false))
    fail(in.keyPath("mlp_bias") +
         " is not known for projections of latent experts");
  out.expertBias = true;
  return out;
}

MegatronConfig readGpt2(const ConfigReader &in) {
  MegatronConfig out;
  out.layers = in.size("n_layer");
  out.hidden = in.size("n_embd");
  out.heads = out.groups = in.size("n_head");
  out.headDim = out.hidden / out.heads;
  if (out.hidden % out.heads != 0)
    fail(in.path + " has n_embd " + std::to_string(out.hidden) +
         ", which does not divide into " + std::to_string(out.heads) +
         " heads");
  out.ffn = in.sizeOr("n_inner", 4 * out.hidden);
  out.vocab = in.size("vocab_size");
  out.positions = in.size("n_positions");
  out.tied = in.flag("tie_word_embeddings", true);
  out.gated = false;
  out.normBias = out.qkvBias = out.projBias = out.mlpBias = true;
  out.moeLayers.assign(std::min(out.layers, kMaxTensors), false);
  return out;
}

struct ModelType {
  const char *name;
  MegatronConfig (*read)(const ConfigReader &in);
};

constexpr ModelType kModelTypes[] = {
    {"llama", readLlama},
    {"mistral", readLlama},
    {"qwen2", readQwen2},
    {"qwen3", readQwen3},
    {"phi3", readLlama},
    {"gemma2", readGemma2},
    {"gemma3_text", readGemma3},
    {"mixtral", readMixtral},
    {"qwen2_moe", readQwen2Moe},
    {"qwen3_moe", readQwen3Moe},
    {"qwen3_next", readQwen3Next},
    {"deepseek_v2", readDeepseekV2},
    {"deepseek_v3", readDeepseekV3},
    {"glm4_moe", readGlm4Moe},
    {"gpt2", readGpt2},
    {"gpt_oss", readGptOss},
    {"llama4_text", readLlama4},
    {"nemotron_h", readNemotronH},
};

void checkSize(const MegatronConfig &config, const std::string &path) {
  constexpr int64_t perLayer = 16; // roughly, without experts
  double tensors = double(config.layers + config.mtpLayers) *
                   double(perLayer + 2 * config.experts);
  if (tensors > double(kMaxTensors))
    fail(path + " has more tensors than the limit of " +
         std::to_string(kMaxTensors));
  bool hasDense =
      std::count(config.moeLayers.begin(), config.moeLayers.end(), false) > 0;
  if (hasDense && config.ffn == 0)
    fail(path + " needs the key \"intermediate_size\"");
}

} // namespace

MegatronConfig readMegatronConfig(const Json &config, const std::string &path) {
  ConfigReader in{config, path};
  std::string name =
      asString(require(config, path, "model_type"), in.keyPath("model_type"));
  std::string known;
  for (const ModelType &type : kModelTypes) {
    if (name == type.name) {
      MegatronConfig out = type.read(in);
      out.dtype = readConfigDType(in);
      checkSize(out, path);
      return out;
    }
    known += (known.empty() ? "" : ", ") + std::string(type.name);
  }
  fail(path + " has the unknown model_type " + inQuotes(name) + "; known are " +
       known);
}

Model readConfig(const Json &config, const std::string &path) {
  MegatronConfig sizes = readMegatronConfig(config, path);
  Model model = listMegatronTensors(sizes);
  model.type = config.find("model_type")->string;
  model.heads = sizes.heads;
  model.groups = sizes.groups;
  model.headDim = sizes.headDim;
  model.queryRank = sizes.qRank;
  model.outputGate = sizes.outputGate;
  model.linear = sizes.linear;
  return model;
}

} // namespace dt::megatron
