//===- Config.h - The sizes that make a model's tensors ---------*- C++ -*-===//

#ifndef DT_MEGATRON_CONFIG_H
#define DT_MEGATRON_CONFIG_H

#include "dt/Json/Json.h"
#include "dt/Megatron/Model.h"

namespace dt::megatron {

using json::Json;

/// What a layer of a hybrid model is, alone.
enum class HybridLayer { Mamba, Attention, Mlp, Experts };

/// A decoder of the GPT family, or a hybrid with Mamba mixers, whatever its
/// config.json calls things.
struct MegatronConfig {
  DType dtype = DType::BF16;
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t vocab = 0;
  int64_t positions = 0; // of learned position embeddings; 0: rotary
  bool tied = false;
  bool normBias = false; // LayerNorm, else RMSNorm
  /// What attention and MLP give is normed too, as Gemma 2 has it.
  bool postNorms = false;

  // Attention.
  int64_t heads = 0;
  int64_t groups = 0; // of keys and values
  int64_t headDim = 0;
  bool qkvBias = false;
  bool projBias = false;
  bool qkNorm = false;
  bool sinks = false;      // each head has a learned offset of its softmax
  bool outputGate = false; // a gate for each query head, behind a group's

  // Linear attention in place of it: one per layer; none where no layer has.
  std::vector<bool> linearLayers;
  LinearHeads linear;

  // Multi-latent attention, when kvRank > 0.
  int64_t qRank = 0; // 0: queries are not compressed
  int64_t kvRank = 0;
  int64_t nopeDim = 0;
  int64_t ropeDim = 0;
  int64_t valueDim = 0;

  // Feed-forward.
  int64_t ffn = 0;
  bool gated = true; // SwiGLU: gate and up in one tensor
  bool mlpBias = false;

  // Mixture of experts.
  std::vector<bool> moeLayers; // one per layer
  int64_t experts = 0;
  int64_t expertFfn = 0;
  int64_t sharedFfn = 0;    // 0: no shared experts
  int64_t expertLatent = 0; // what routed experts see of `hidden`; 0: all
  bool sharedGate = false;  // what they give is weighted, token by token
  bool expertBias = false;
  bool moeLinearBias = false; // of the router and of the experts' linears

  int64_t mtpLayers = 0; // multi-token prediction

  // Of a hybrid model: one per layer; none where all have attention and an MLP
  // or experts.
  std::vector<HybridLayer> hybrid;
  int64_t mambaHeads = 0;
  int64_t mambaHeadDim = 0;
  int64_t mambaGroups = 0; // of B and C
  int64_t mambaState = 0;
  int64_t convKernel = 0; // of linear attention too
};

MegatronConfig readMegatronConfig(const Json &config, const std::string &path);

/// Tensors of a Hugging Face config.json of a known model type, as
/// Megatron-Core (Transformer Engine spec) names and fuses them.
Model readConfig(const Json &config, const std::string &path);

} // namespace dt::megatron

#endif // DT_MEGATRON_CONFIG_H
