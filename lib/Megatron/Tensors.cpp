//===- Tensors.cpp - Tensors as Megatron-Core registers them --------------===//
//
// Names, fusions and order are those of the Transformer Engine spec: the norm
// before a linear is part of it and comes before its weight, attention lists
// its output projection first, grouped experts list all fc1 before all fc2.
//
//   [gate; up]    one tensor [2f, h], each half cut by itself
//   [q; k; v]     one tensor, rows grouped by key-value head: a plain row cut
//   [q; gates; k; v]  the same, with a gate for each query head
//   [z; x; B; C; dt]  the projection into a Mamba mixer, each part cut by
//   itself
//   [q; k; v; z; beta; alpha]  that into linear attention, the same
//
//===----------------------------------------------------------------------===//

#include "dt/Megatron/Tensors.h"

namespace dt::megatron {

namespace {

class TensorLister {
public:
  explicit TensorLister(const MegatronConfig &config) : config(config) {}

  Model list() &&;

private:
  // Cuts.
  static Cut replicated() { return Cut(); }
  static Cut rows() { return tp(0); }
  static Cut columns() { return tp(1); }
  static Cut tp(int64_t dim) {
    Cut cut;
    cut.tpDim = dim;
    return cut;
  }
  static Cut vocabulary() {
    Cut cut = tp(0);
    cut.vocab = true;
    return cut;
  }
  /// Rows of fc1: gate and up are two packed parts.
  Cut gatedRows(int64_t ffn) const {
    Cut cut = tp(0);
    if (config.gated)
      cut.blocks = {ffn, ffn};
    return cut;
  }
  static Cut parts(std::vector<int64_t> sizes) {
    Cut cut = tp(0);
    cut.blocks = std::move(sizes);
    return cut;
  }
  static Cut onExpertGrid(Cut cut) {
    cut.expert = true;
    return cut;
  }

  ModelTensor &add(const std::string &name, std::vector<int64_t> shape,
                   Cut cut);
  void addNorm(const std::string &weight, const std::string &bias,
               int64_t size);
  void addPostNorm(const std::string &linear);
  void addEmbedding();
  void addAttention(const std::string &prefix);
  void addLatentAttention(const std::string &prefix);
  void addLinearAttention(const std::string &prefix);
  void addAttentionOf(const std::string &prefix);
  void addMlp(const std::string &prefix);
  void addGrouped(const std::string &linear, const std::vector<int64_t> &shape,
                  const Cut &weight, const Cut &bias);
  void addExperts(const std::string &prefix);
  void addMixer(const std::string &prefix);
  void addExpertLayer(const std::string &prefix);
  void addLayer(const std::string &prefix, bool moe);
  void addHybridLayer(const std::string &prefix, HybridLayer kind);
  void addMtpLayer(int64_t index);

  int64_t gatedRowsOf(int64_t ffn) const {
    return config.gated ? 2 * ffn : ffn;
  }

  const MegatronConfig &config;
  Model model;
  Stage stage = Stage::First;
  int64_t layer = -1;
};

ModelTensor &TensorLister::add(const std::string &name,
                               std::vector<int64_t> shape, Cut cut) {
  cut.fsdpDim = 0;
  ModelTensor tensor;
  tensor.name = name;
  tensor.shape = std::move(shape);
  tensor.dtype = config.dtype;
  tensor.hasCut = true;
  tensor.cut = std::move(cut);
  tensor.stage = stage;
  tensor.layer = layer;
  model.tensors.push_back(std::move(tensor));
  return model.tensors.back();
}

void TensorLister::addNorm(const std::string &weight, const std::string &bias,
                           int64_t size) {
  add(weight, {size}, replicated());
  if (config.normBias)
    add(bias, {size}, replicated());
}

/// The norm of what a linear gives is a module of it.
void TensorLister::addPostNorm(const std::string &linear) {
  if (config.postNorms)
    addNorm(linear + "post_layernorm.weight", linear + "post_layernorm.bias",
            config.hidden);
}

void TensorLister::addEmbedding() {
  ModelTensor &words = add("embedding.word_embeddings.weight",
                           {config.vocab, config.hidden}, vocabulary());
  if (config.tied || config.mtpLayers > 0)
    words.stage = Stage::FirstAndLast;
  if (config.positions > 0)
    add("embedding.position_embeddings.weight",
        {config.positions, config.hidden}, replicated());
}

void TensorLister::addAttention(const std::string &prefix) {
  int64_t heads = config.heads * config.headDim;
  int64_t gates = config.outputGate ? heads : 0;
  int64_t qkv = heads + gates + 2 * config.groups * config.headDim;
  if (config.sinks)
    add(prefix + "core_attention.softmax_offset", {config.heads}, rows());
  add(prefix + "linear_proj.weight", {config.hidden, heads}, columns());
  if (config.projBias)
    add(prefix + "linear_proj.bias", {config.hidden}, replicated());
  addPostNorm(prefix + "linear_proj.");
  addNorm(prefix + "linear_qkv.layer_norm_weight",
          prefix + "linear_qkv.layer_norm_bias", config.hidden);
  add(prefix + "linear_qkv.weight", {qkv, config.hidden}, rows());
  if (config.qkvBias)
    add(prefix + "linear_qkv.bias", {qkv}, rows());
  if (config.qkNorm) {
    add(prefix + "q_layernorm.weight", {config.headDim}, replicated());
    add(prefix + "k_layernorm.weight", {config.headDim}, replicated());
  }
}

void TensorLister::addLatentAttention(const std::string &prefix) {
  int64_t queries = config.heads * (config.nopeDim + config.ropeDim);
  int64_t values = config.heads * config.valueDim;
  int64_t keysAndValues = config.heads * (config.nopeDim + config.valueDim);
  add(prefix + "linear_proj.weight", {config.hidden, values}, columns());
  if (config.qRank > 0) {
    add(prefix + "linear_q_down_proj.weight", {config.qRank, config.hidden},
        replicated());
    add(prefix + "linear_q_up_proj.layer_norm_weight", {config.qRank},
        replicated());
    add(prefix + "linear_q_up_proj.weight", {queries, config.qRank}, rows());
  } else {
    add(prefix + "linear_q_proj.weight", {queries, config.hidden}, rows());
  }
  add(prefix + "linear_kv_down_proj.weight",
      {config.kvRank + config.ropeDim, config.hidden}, replicated());
  add(prefix + "linear_kv_up_proj.layer_norm_weight", {config.kvRank},
      replicated());
  add(prefix + "linear_kv_up_proj.weight", {keysAndValues, config.kvRank},
      rows());
}

/// A module's own parameters come before those of its children.
void TensorLister::addLinearAttention(const std::string &prefix) {
  const LinearHeads &heads = config.linear;
  int64_t keys = heads.keys * heads.keyDim;
  int64_t values = heads.values * heads.valueDim;
  for (const char *name : {"dt_bias", "A_log"})
    add(prefix + name, {heads.values}, rows());
  addNorm(prefix + "in_proj.layer_norm_weight",
          prefix + "in_proj.layer_norm_bias", config.hidden);
  add(prefix + "in_proj.weight",
      {2 * (keys + values + heads.values), config.hidden},
      parts({keys, keys, values, values, heads.values, heads.values}));
  add(prefix + "conv1d.weight", {2 * keys + values, 1, config.convKernel},
      parts({keys, keys, values}));
  add(prefix + "out_norm.weight", {heads.valueDim}, replicated());
  add(prefix + "out_proj.weight", {config.hidden, values}, columns());
}

/// Of the layer that is listed. A prediction layer has what the last layer has.
void TensorLister::addAttentionOf(const std::string &prefix) {
  const std::vector<bool> &linear = config.linearLayers;
  bool isLinear =
      !linear.empty() && (layer < 0 ? linear.back() : linear[size_t(layer)]);
  if (isLinear)
    return addLinearAttention(prefix + "self_attention.");
  if (config.kvRank == 0)
    return addAttention(prefix + "self_attention.");
  addNorm(prefix + "input_layernorm.weight", prefix + "input_layernorm.bias",
          config.hidden);
  addLatentAttention(prefix + "self_attention.");
}

void TensorLister::addMlp(const std::string &prefix) {
  int64_t fc1 = gatedRowsOf(config.ffn);
  addNorm(prefix + "linear_fc1.layer_norm_weight",
          prefix + "linear_fc1.layer_norm_bias", config.hidden);
  add(prefix + "linear_fc1.weight", {fc1, config.hidden},
      gatedRows(config.ffn));
  if (config.mlpBias)
    add(prefix + "linear_fc1.bias", {fc1}, gatedRows(config.ffn));
  add(prefix + "linear_fc2.weight", {config.hidden, config.ffn}, columns());
  if (config.mlpBias)
    add(prefix + "linear_fc2.bias", {config.hidden}, replicated());
  addPostNorm(prefix + "linear_fc2.");
}

/// A linear of each expert: weight and bias of one after those of the other.
void TensorLister::addGrouped(const std::string &linear,
                              const std::vector<int64_t> &shape,
                              const Cut &weight, const Cut &bias) {
  for (int64_t e = 0; e < config.experts; ++e) {
    std::string number = std::to_string(e);
    add(linear + "weight" + number, shape, onExpertGrid(weight)).expert = e;
    if (config.moeLinearBias)
      add(linear + "bias" + number, {shape[0]}, onExpertGrid(bias)).expert = e;
  }
}

void TensorLister::addExperts(const std::string &prefix) {
  int64_t hidden = config.hidden;
  add(prefix + "router.weight", {config.experts, hidden}, replicated());
  if (config.moeLinearBias)
    add(prefix + "router.bias", {config.experts}, replicated());
  if (config.expertBias) {
    ModelTensor &bias =
        add(prefix + "router.expert_bias", {config.experts}, replicated());
    bias.buffer = true;
    bias.dtype = DType::F32;
    bias.cut.fsdpDim.reset();
  }
  int64_t seen = hidden;
  if (config.expertLatent > 0) {
    seen = config.expertLatent;
    add(prefix + "fc1_latent_proj.weight", {seen, hidden}, replicated());
    add(prefix + "fc2_latent_proj.weight", {hidden, seen}, replicated());
  }
  int64_t fc1 = gatedRowsOf(config.expertFfn);
  addGrouped(prefix + "experts.linear_fc1.", {fc1, seen},
             gatedRows(config.expertFfn), gatedRows(config.expertFfn));
  addGrouped(prefix + "experts.linear_fc2.", {seen, config.expertFfn},
             columns(), replicated());
  if (config.sharedFfn == 0)
    return;
  if (config.sharedGate)
    add(prefix + "shared_experts.gate_weight", {1, hidden}, replicated());
  add(prefix + "shared_experts.linear_fc1.weight",
      {gatedRowsOf(config.sharedFfn), hidden}, gatedRows(config.sharedFfn));
  add(prefix + "shared_experts.linear_fc2.weight", {hidden, config.sharedFfn},
      columns());
}

/// A module's own parameters come before those of its children.
void TensorLister::addMixer(const std::string &prefix) {
  int64_t heads = config.mambaHeads, inner = heads * config.mambaHeadDim;
  int64_t states = config.mambaGroups * config.mambaState;
  int64_t convolved = inner + 2 * states;
  for (const char *name : {"dt_bias", "A_log", "D"})
    add(prefix + name, {heads}, rows());
  addNorm(prefix + "in_proj.layer_norm_weight",
          prefix + "in_proj.layer_norm_bias", config.hidden);
  add(prefix + "in_proj.weight", {inner + convolved + heads, config.hidden},
      parts({inner, inner, states, states, heads}));
  add(prefix + "conv1d.weight", {convolved, 1, config.convKernel},
      parts({inner, states, states}));
  add(prefix + "conv1d.bias", {convolved}, parts({inner, states, states}));
  add(prefix + "norm.weight", {inner}, rows());
  add(prefix + "out_proj.weight", {config.hidden, inner}, columns());
}

void TensorLister::addExpertLayer(const std::string &prefix) {
  addNorm(prefix + "pre_mlp_layernorm.weight",
          prefix + "pre_mlp_layernorm.bias", config.hidden);
  addExperts(prefix + "mlp.");
}

void TensorLister::addHybridLayer(const std::string &prefix, HybridLayer kind) {
  switch (kind) {
  case HybridLayer::Mamba:
    return addMixer(prefix + "mixer.");
  case HybridLayer::Attention:
    return addAttention(prefix + "self_attention.");
  case HybridLayer::Mlp:
    return addMlp(prefix + "mlp.");
  case HybridLayer::Experts:
    return addExpertLayer(prefix);
  }
}

void TensorLister::addLayer(const std::string &prefix, bool moe) {
  addAttentionOf(prefix);
  if (!moe)
    return addMlp(prefix + "mlp.");
  addExpertLayer(prefix);
}

void TensorLister::addMtpLayer(int64_t index) {
  std::string prefix = "mtp.layers." + std::to_string(index) + ".";
  bool moe = config.experts > 0 && config.moeLayers.back();
  addNorm(prefix + "enorm.weight", prefix + "enorm.bias", config.hidden);
  addNorm(prefix + "hnorm.weight", prefix + "hnorm.bias", config.hidden);
  add(prefix + "eh_proj.weight", {config.hidden, 2 * config.hidden}, rows());
  addLayer(prefix + "mtp_model_layer.", moe);
  addNorm(prefix + "final_layernorm.weight", prefix + "final_layernorm.bias",
          config.hidden);
}

Model TensorLister::list() && {
  model.layers = config.layers;
  model.experts = config.experts;
  addEmbedding();
  stage = Stage::Layer;
  bool isHybrid = !config.hybrid.empty();
  for (layer = 0; layer < config.layers; ++layer) {
    std::string prefix = "decoder.layers." + std::to_string(layer) + ".";
    if (isHybrid)
      addHybridLayer(prefix, config.hybrid[layer]);
    else
      addLayer(prefix, config.moeLayers[layer]);
  }
  // The final norm goes with the output, but before prediction layers, which
  // take what it gives, it goes with the last layer.
  stage = config.mtpLayers > 0 ? Stage::Layer : Stage::Last;
  layer = config.mtpLayers > 0 ? config.layers - 1 : -1;
  const std::string norm =
      isHybrid ? "decoder.final_norm." : "decoder.final_layernorm.";
  addNorm(norm + "weight", norm + "bias", config.hidden);
  stage = Stage::Last;
  layer = -1;
  for (int64_t index = 0; index < config.mtpLayers; ++index)
    addMtpLayer(index);
  if (!config.tied)
    add("output_layer.weight", {config.vocab, config.hidden}, vocabulary());
  return std::move(model);
}

} // namespace

Model listMegatronTensors(const MegatronConfig &config) {
  return TensorLister(config).list();
}

} // namespace dt::megatron
