//===- FrameworkTensors.cpp - The tensors of frameworks -------------------===//
//
// Hugging Face: models as transformers 5 builds them (its checkpoints have
// experts one by one). vLLM: QKVParallelLinear, MergedColumnParallelLinear,
// FusedMoE and VocabParallelEmbedding of its model files; gpt_oss as
// `hf_to_vllm_mapper` and `_load_weights_other` of models/gpt_oss.py at
// a6b6cfaa have it, gpt2 as models/gpt2.py at 01768942, llama4_text as
// `permute_qk_weight_for_rotary` and `load_moe_expert_weights` of
// models/llama4.py at 0121c95e, nemotron_h as models/nemotron_h.py at 00b08dc4
// and layers/mamba/mamba_mixer2.py at 004d4e4c, qwen3_next as
// models/qwen3_next.py at 002d6073 and layers/mamba/gdn/qwen_gdn_linear_attn.py
// at 00545a8a. torchtitan: what the state dict
// adapters of its models map (torchtitan/models/*/), under the names that the
// models of 0.3.0 register. Megatron-Core: norms behind a linear as
// Megatron-Bridge names them.
//
//===----------------------------------------------------------------------===//

#include "FrameworkTensors.h"

#include <set>

namespace dt::request {

namespace {

#define LAYER "decoder.layers.*."
#define ATTENTION LAYER "self_attention."
#define MIXER LAYER "mixer."
#define HF "model.layers.*."
#define GPT2 "transformer.h.*."
#define TITAN "layers.*."

/// Hugging Face and vLLM.
constexpr FrameworkTensor kCommon[] = {
    {"decoder.final_layernorm.weight", "model.norm.weight"},
    {ATTENTION "linear_proj.weight", HF "self_attn.o_proj.weight"},
    {ATTENTION "linear_proj.bias", HF "self_attn.o_proj.bias"},
    {ATTENTION "linear_qkv.layer_norm_weight", HF "input_layernorm.weight"},
    {ATTENTION "q_layernorm.weight", HF "self_attn.q_norm.weight"},
    {ATTENTION "k_layernorm.weight", HF "self_attn.k_norm.weight"},
    {LAYER "input_layernorm.weight", HF "input_layernorm.weight"},
    {ATTENTION "linear_q_proj.weight", HF "self_attn.q_proj.weight"},
    {ATTENTION "linear_q_up_proj.layer_norm_weight",
     HF "self_attn.q_a_layernorm.weight"},
    {ATTENTION "linear_q_up_proj.weight", HF "self_attn.q_b_proj.weight"},
    {ATTENTION "linear_kv_up_proj.layer_norm_weight",
     HF "self_attn.kv_a_layernorm.weight"},
    {ATTENTION "linear_kv_up_proj.weight", HF "self_attn.kv_b_proj.weight"},
    {LAYER "mlp.linear_fc1.layer_norm_weight",
     HF "post_attention_layernorm.weight"},
    {LAYER "mlp.linear_fc2.weight", HF "mlp.down_proj.weight"},
    {LAYER "pre_mlp_layernorm.weight", HF "post_attention_layernorm.weight"},
    {LAYER "mlp.router.weight", HF "mlp.gate.weight"},
    {LAYER "mlp.router.expert_bias", HF "mlp.gate.e_score_correction_bias"},
    {LAYER "mlp.shared_experts.linear_fc2.weight",
     HF "mlp.shared_experts.down_proj.weight"},
};

constexpr FrameworkTensor kHuggingFace[] = {
    {"embedding.word_embeddings.weight", "model.embed_tokens.weight"},
    {"output_layer.weight", "lm_head.weight"},
    {ATTENTION "linear_qkv.weight", HF "self_attn.q_proj.weight", Part::Query},
    {ATTENTION "linear_qkv.weight", HF "self_attn.k_proj.weight", Part::Key},
    {ATTENTION "linear_qkv.weight", HF "self_attn.v_proj.weight", Part::Value},
    {ATTENTION "linear_qkv.bias", HF "self_attn.q_proj.bias", Part::Query},
    {ATTENTION "linear_qkv.bias", HF "self_attn.k_proj.bias", Part::Key},
    {ATTENTION "linear_qkv.bias", HF "self_attn.v_proj.bias", Part::Value},
    {ATTENTION "linear_q_down_proj.weight", HF "self_attn.q_a_proj.weight"},
    {ATTENTION "linear_kv_down_proj.weight",
     HF "self_attn.kv_a_proj_with_mqa.weight"},
    {ATTENTION "linear_qkv_down_proj.weight", HF "self_attn.q_a_proj.weight",
     Part::QueryDown},
    {ATTENTION "linear_qkv_down_proj.weight",
     HF "self_attn.kv_a_proj_with_mqa.weight", Part::KeyValueDown},
    {LAYER "mlp.linear_fc1.weight", HF "mlp.gate_proj.weight", Part::Gate},
    {LAYER "mlp.linear_fc1.weight", HF "mlp.up_proj.weight", Part::Up},
    {LAYER "mlp.experts.linear_fc1.weight", HF "mlp.experts.gate_up_proj"},
    {LAYER "mlp.experts.linear_fc2.weight", HF "mlp.experts.down_proj"},
    {LAYER "mlp.shared_experts.linear_fc1.weight",
     HF "mlp.shared_experts.gate_proj.weight", Part::Gate},
    {LAYER "mlp.shared_experts.linear_fc1.weight",
     HF "mlp.shared_experts.up_proj.weight", Part::Up},
};

constexpr FrameworkTensor kVllm[] = {
    {"embedding.word_embeddings.weight", "model.embed_tokens.weight",
     Part::Vocabulary},
    {"output_layer.weight", "lm_head.weight", Part::Vocabulary},
    {ATTENTION "linear_qkv.weight", HF "self_attn.qkv_proj.weight",
     Part::QueryKeyValue},
    {ATTENTION "linear_qkv.bias", HF "self_attn.qkv_proj.bias",
     Part::QueryKeyValue},
    {ATTENTION "linear_qkv_down_proj.weight",
     HF "self_attn.fused_qkv_a_proj.weight"},
    {ATTENTION "linear_kv_down_proj.weight",
     HF "self_attn.kv_a_proj_with_mqa.weight"},
    {LAYER "mlp.linear_fc1.weight", HF "mlp.gate_up_proj.weight"},
    {LAYER "mlp.experts.linear_fc1.weight", HF "mlp.experts.w13_weight"},
    {LAYER "mlp.experts.linear_fc2.weight", HF "mlp.experts.w2_weight"},
    {LAYER "mlp.shared_experts.linear_fc1.weight",
     HF "mlp.shared_experts.gate_up_proj.weight"},
};

constexpr FrameworkTensor kTorchtitan[] = {
    {"embedding.word_embeddings.weight", "tok_embeddings.weight"},
    {"decoder.final_layernorm.weight", "norm.weight"},
    {"output_layer.weight", "lm_head.weight"},
    {ATTENTION "linear_qkv.layer_norm_weight", TITAN "attention_norm.weight"},
    {LAYER "input_layernorm.weight", TITAN "attention_norm.weight"},
    {ATTENTION "linear_qkv.weight", TITAN "attention.qkv_linear.wq.weight",
     Part::Query},
    {ATTENTION "linear_qkv.weight", TITAN "attention.qkv_linear.wk.weight",
     Part::Key},
    {ATTENTION "linear_qkv.weight", TITAN "attention.qkv_linear.wv.weight",
     Part::Value},
    {ATTENTION "q_layernorm.weight", TITAN "attention.q_norm.weight"},
    {ATTENTION "k_layernorm.weight", TITAN "attention.k_norm.weight"},
    {ATTENTION "linear_proj.weight", TITAN "attention.wo.weight"},
    {ATTENTION "linear_q_proj.weight", TITAN "attention.wq.weight"},
    {ATTENTION "linear_q_down_proj.weight", TITAN "attention.wq_a.weight"},
    {ATTENTION "linear_qkv_down_proj.weight", TITAN "attention.wq_a.weight",
     Part::QueryDown},
    {ATTENTION "linear_q_up_proj.layer_norm_weight",
     TITAN "attention.q_norm.weight"},
    {ATTENTION "linear_q_up_proj.weight", TITAN "attention.wq_b.weight"},
    {ATTENTION "linear_kv_down_proj.weight", TITAN "attention.wkv_a.weight"},
    {ATTENTION "linear_qkv_down_proj.weight", TITAN "attention.wkv_a.weight",
     Part::KeyValueDown},
    {ATTENTION "linear_kv_up_proj.layer_norm_weight",
     TITAN "attention.kv_norm.weight"},
    {ATTENTION "linear_kv_up_proj.weight", TITAN "attention.wkv_b.weight"},
    {LAYER "mlp.linear_fc1.layer_norm_weight", TITAN "ffn_norm.weight"},
    {LAYER "pre_mlp_layernorm.weight", TITAN "ffn_norm.weight"},
    {LAYER "mlp.linear_fc1.weight", TITAN "feed_forward.w1.weight", Part::Gate},
    {LAYER "mlp.linear_fc1.weight", TITAN "feed_forward.w3.weight", Part::Up},
    {LAYER "mlp.linear_fc2.weight", TITAN "feed_forward.w2.weight"},
    {LAYER "mlp.router.weight", TITAN "moe.router.gate.weight"},
    {LAYER "mlp.router.expert_bias", TITAN "moe.expert_bias_E"},
    {LAYER "mlp.experts.linear_fc1.weight",
     TITAN "moe.routed_experts.inner_experts.w1_EFD", Part::ExpertGate},
    {LAYER "mlp.experts.linear_fc1.weight",
     TITAN "moe.routed_experts.inner_experts.w3_EFD", Part::ExpertUp},
    {LAYER "mlp.experts.linear_fc2.weight",
     TITAN "moe.routed_experts.inner_experts.w2_EDF"},
    {LAYER "mlp.shared_experts.linear_fc1.weight",
     TITAN "moe.shared_experts.w1.weight", Part::Gate},
    {LAYER "mlp.shared_experts.linear_fc1.weight",
     TITAN "moe.shared_experts.w3.weight", Part::Up},
    {LAYER "mlp.shared_experts.linear_fc2.weight",
     TITAN "moe.shared_experts.w2.weight"},
};

/// Of decoder layers and prediction layers.
constexpr FrameworkTensor kMegatron[] = {
    {"*.mlp.experts.linear_fc1.weight", "*.mlp.experts.linear_fc1.weight{}"},
    {"*.mlp.experts.linear_fc1.bias", "*.mlp.experts.linear_fc1.bias{}"},
    {"*.mlp.experts.linear_fc2.weight", "*.mlp.experts.linear_fc2.weight{}"},
    {"*.mlp.experts.linear_fc2.bias", "*.mlp.experts.linear_fc2.bias{}"},
    {"*.linear_qkv_down_proj.weight", "*.linear_q_down_proj.weight",
     Part::QueryDown},
    {"*.linear_qkv_down_proj.weight", "*.linear_kv_down_proj.weight",
     Part::KeyValueDown},
};

// What some model types have otherwise.

constexpr FrameworkTensor kGemma[] = {
    {ATTENTION "linear_proj.post_layernorm.weight",
     HF "post_attention_layernorm.weight"},
    {LAYER "mlp.linear_fc1.layer_norm_weight",
     HF "pre_feedforward_layernorm.weight"},
    {LAYER "mlp.linear_fc2.post_layernorm.weight",
     HF "post_feedforward_layernorm.weight"},
};

constexpr FrameworkTensor kQwen2Moe[] = {
    {LAYER "mlp.shared_experts.gate_weight",
     HF "mlp.shared_expert_gate.weight"},
    {LAYER "mlp.shared_experts.linear_fc2.weight",
     HF "mlp.shared_expert.down_proj.weight"},
};

constexpr FrameworkTensor kQwen2MoeApart[] = {
    {LAYER "mlp.shared_experts.linear_fc1.weight",
     HF "mlp.shared_expert.gate_proj.weight", Part::Gate},
    {LAYER "mlp.shared_experts.linear_fc1.weight",
     HF "mlp.shared_expert.up_proj.weight", Part::Up},
};

constexpr FrameworkTensor kQwen2MoeFused[] = {
    {LAYER "mlp.shared_experts.linear_fc1.weight",
     HF "mlp.shared_expert.gate_up_proj.weight"},
};

/// Tensor parallelism as transformers' plan has it: each rank computes all
/// heads. Of Megatron-Core's norms, `out_norm` alone has its weight less one
/// where Hugging Face's has it as it is: one has to be added where it arrives.
/// All others are less one on both sides, `layernorm_zero_centered_gamma`
/// there.
constexpr FrameworkTensor kQwen3Next[] = {
    {ATTENTION "in_proj.layer_norm_weight", HF "input_layernorm.weight"},
    {ATTENTION "in_proj.weight", HF "linear_attn.in_proj_qkvz.weight",
     Part::KeyHeads},
    {ATTENTION "in_proj.weight", HF "linear_attn.in_proj_ba.weight",
     Part::KeyHeadScalars},
    {ATTENTION "conv1d.weight", HF "linear_attn.conv1d.weight", Part::Whole},
    {ATTENTION "dt_bias", HF "linear_attn.dt_bias", Part::Whole},
    {ATTENTION "A_log", HF "linear_attn.A_log", Part::Whole},
    {ATTENTION "out_norm.weight", HF "linear_attn.norm.weight_less_one"},
    {ATTENTION "out_proj.weight", HF "linear_attn.out_proj.weight", Part::Rows},
};

/// `gqa_interleaved_layout`; what `tp` cuts, each rank computes its heads of.
constexpr FrameworkTensor kVllmQwen3Next[] = {
    {ATTENTION "conv1d.weight", HF "linear_attn.conv1d.weight"},
    {ATTENTION "dt_bias", HF "linear_attn.dt_bias"},
    {ATTENTION "A_log", HF "linear_attn.A_log"},
    {ATTENTION "out_proj.weight", HF "linear_attn.out_proj.weight"},
};

constexpr FrameworkTensor kPhi3[] = {
    {ATTENTION "linear_qkv.weight", HF "self_attn.qkv_proj.weight",
     Part::QueryKeyValue},
    {LAYER "mlp.linear_fc1.weight", HF "mlp.gate_up_proj.weight"},
};

/// Its linears are `Conv1D`: rows of the input, columns of the output.
constexpr FrameworkTensor kGpt2[] = {
    {"embedding.word_embeddings.weight", "transformer.wte.weight"},
    {"embedding.position_embeddings.weight", "transformer.wpe.weight"},
    {"decoder.final_layernorm.weight", "transformer.ln_f.weight"},
    {"decoder.final_layernorm.bias", "transformer.ln_f.bias"},
    {ATTENTION "linear_qkv.layer_norm_weight", GPT2 "ln_1.weight"},
    {ATTENTION "linear_qkv.layer_norm_bias", GPT2 "ln_1.bias"},
    {ATTENTION "linear_qkv.weight", GPT2 "attn.c_attn.weight",
     Part::QueryKeyValue, Form::Transposed},
    {ATTENTION "linear_qkv.bias", GPT2 "attn.c_attn.bias", Part::QueryKeyValue},
    {ATTENTION "linear_proj.weight", GPT2 "attn.c_proj.weight", Part::All,
     Form::Transposed},
    {ATTENTION "linear_proj.bias", GPT2 "attn.c_proj.bias"},
    {LAYER "mlp.linear_fc1.layer_norm_weight", GPT2 "ln_2.weight"},
    {LAYER "mlp.linear_fc1.layer_norm_bias", GPT2 "ln_2.bias"},
    {LAYER "mlp.linear_fc1.weight", GPT2 "mlp.c_fc.weight", Part::All,
     Form::Transposed},
    {LAYER "mlp.linear_fc1.bias", GPT2 "mlp.c_fc.bias"},
    {LAYER "mlp.linear_fc2.weight", GPT2 "mlp.c_proj.weight", Part::All,
     Form::Transposed},
    {LAYER "mlp.linear_fc2.bias", GPT2 "mlp.c_proj.bias"},
};

/// Linears again.
constexpr FrameworkTensor kVllmGpt2[] = {
    {"embedding.word_embeddings.weight", "transformer.wte.weight",
     Part::Vocabulary},
    {ATTENTION "linear_qkv.weight", GPT2 "attn.c_attn.weight",
     Part::QueryKeyValue},
    {ATTENTION "linear_proj.weight", GPT2 "attn.c_proj.weight"},
    {LAYER "mlp.linear_fc1.weight", GPT2 "mlp.c_fc.weight"},
    {LAYER "mlp.linear_fc2.weight", GPT2 "mlp.c_proj.weight"},
};

constexpr FrameworkTensor kGptOss[] = {
    {ATTENTION "core_attention.softmax_offset", HF "self_attn.sinks"},
    {LAYER "mlp.router.weight", HF "mlp.router.weight"},
    {LAYER "mlp.router.bias", HF "mlp.router.bias"},
    {LAYER "mlp.experts.linear_fc1.weight", HF "mlp.experts.gate_up_proj",
     Part::All, Form::ColumnsInTurns},
    {LAYER "mlp.experts.linear_fc1.bias", HF "mlp.experts.gate_up_proj_bias",
     Part::All, Form::ColumnsInTurns},
    {LAYER "mlp.experts.linear_fc2.weight", HF "mlp.experts.down_proj",
     Part::All, Form::Transposed},
    {LAYER "mlp.experts.linear_fc2.bias", HF "mlp.experts.down_proj_bias"},
};

constexpr FrameworkTensor kVllmGptOss[] = {
    {"embedding.word_embeddings.weight", "model.embedding.weight",
     Part::Vocabulary},
    {ATTENTION "linear_qkv.weight", HF "attn.qkv_proj.weight",
     Part::QueryKeyValue},
    {ATTENTION "linear_qkv.bias", HF "attn.qkv_proj.bias", Part::QueryKeyValue},
    {ATTENTION "linear_proj.weight", HF "attn.o_proj.weight"},
    {ATTENTION "linear_proj.bias", HF "attn.o_proj.bias"},
    {ATTENTION "core_attention.softmax_offset", HF "attn.sinks"},
    {LAYER "mlp.router.weight", HF "mlp.router.weight"},
    {LAYER "mlp.router.bias", HF "mlp.router.bias"},
    {LAYER "mlp.experts.linear_fc1.weight", HF "mlp.experts.w13_weight",
     Part::All, Form::RowsInTurns},
    {LAYER "mlp.experts.linear_fc1.bias", HF "mlp.experts.w13_bias", Part::All,
     Form::RowsInTurns},
    {LAYER "mlp.experts.linear_fc2.bias", HF "mlp.experts.w2_bias",
     Part::OfFirstRank},
};

constexpr FrameworkTensor kTorchtitanGptOss[] = {
    {ATTENTION "linear_qkv.bias", TITAN "attention.qkv_linear.wq.bias",
     Part::Query},
    {ATTENTION "linear_qkv.bias", TITAN "attention.qkv_linear.wk.bias",
     Part::Key},
    {ATTENTION "linear_qkv.bias", TITAN "attention.qkv_linear.wv.bias",
     Part::Value},
    {ATTENTION "linear_proj.bias", TITAN "attention.wo.bias"},
    {ATTENTION "core_attention.softmax_offset", TITAN "attention.sinks"},
    {LAYER "mlp.router.bias", TITAN "moe.router.gate.bias"},
    {LAYER "mlp.experts.linear_fc1.weight",
     TITAN "moe.routed_experts.inner_experts.mlp1_weight_EGD", Part::All,
     Form::RowsInTurns},
    {LAYER "mlp.experts.linear_fc1.bias",
     TITAN "moe.routed_experts.inner_experts.mlp1_bias_EG", Part::All,
     Form::RowsInTurns},
    {LAYER "mlp.experts.linear_fc2.weight",
     TITAN "moe.routed_experts.inner_experts.mlp2_weight_EDF"},
    {LAYER "mlp.experts.linear_fc2.bias",
     TITAN "moe.routed_experts.inner_experts.mlp2_bias_ED"},
};

constexpr FrameworkTensor kLlama4[] = {
    {LAYER "mlp.linear_fc1.weight", HF "feed_forward.gate_proj.weight",
     Part::Gate},
    {LAYER "mlp.linear_fc1.weight", HF "feed_forward.up_proj.weight", Part::Up},
    {LAYER "mlp.linear_fc2.weight", HF "feed_forward.down_proj.weight"},
    {LAYER "mlp.router.weight", HF "feed_forward.router.weight"},
    {LAYER "mlp.experts.linear_fc1.weight",
     HF "feed_forward.experts.gate_up_proj", Part::All, Form::Transposed},
    {LAYER "mlp.experts.linear_fc2.weight", HF "feed_forward.experts.down_proj",
     Part::All, Form::Transposed},
    {LAYER "mlp.shared_experts.linear_fc1.weight",
     HF "feed_forward.shared_expert.gate_proj.weight", Part::Gate},
    {LAYER "mlp.shared_experts.linear_fc1.weight",
     HF "feed_forward.shared_expert.up_proj.weight", Part::Up},
    {LAYER "mlp.shared_experts.linear_fc2.weight",
     HF "feed_forward.shared_expert.down_proj.weight"},
};

/// Its rotary embedding turns the two halves of a head.
constexpr FrameworkTensor kVllmLlama4[] = {
    {ATTENTION "linear_qkv.weight", HF "self_attn.qkv_proj.weight",
     Part::QueryKeyHalvesValue},
    {LAYER "mlp.linear_fc1.weight", HF "feed_forward.gate_up_proj.weight"},
    {LAYER "mlp.experts.linear_fc1.weight",
     HF "feed_forward.experts.w13_weight"},
    {LAYER "mlp.experts.linear_fc2.weight",
     HF "feed_forward.experts.w2_weight"},
    {LAYER "mlp.shared_experts.linear_fc1.weight",
     HF "feed_forward.shared_expert.gate_up_proj.weight"},
};

/// Each layer is one block, `mixer`, behind one norm.
constexpr FrameworkTensor kNemotronH[] = {
    {"embedding.word_embeddings.weight", "model.embeddings.weight"},
    {"decoder.final_norm.weight", "model.norm_f.weight"},
    {MIXER "in_proj.layer_norm_weight", HF "norm.weight"},
    {ATTENTION "linear_qkv.layer_norm_weight", HF "norm.weight"},
    {LAYER "mlp.linear_fc1.layer_norm_weight", HF "norm.weight"},
    {LAYER "pre_mlp_layernorm.weight", HF "norm.weight"},
    {MIXER "dt_bias", HF "mixer.dt_bias"},
    {MIXER "A_log", HF "mixer.A_log"},
    {MIXER "D", HF "mixer.D"},
    {MIXER "in_proj.weight", HF "mixer.in_proj.weight"},
    {MIXER "conv1d.weight", HF "mixer.conv1d.weight"},
    {MIXER "conv1d.bias", HF "mixer.conv1d.bias"},
    {MIXER "norm.weight", HF "mixer.norm.weight"},
    {MIXER "out_proj.weight", HF "mixer.out_proj.weight"},
    {ATTENTION "linear_qkv.weight", HF "mixer.q_proj.weight", Part::Query},
    {ATTENTION "linear_qkv.weight", HF "mixer.k_proj.weight", Part::Key},
    {ATTENTION "linear_qkv.weight", HF "mixer.v_proj.weight", Part::Value},
    {ATTENTION "linear_qkv.bias", HF "mixer.q_proj.bias", Part::Query},
    {ATTENTION "linear_qkv.bias", HF "mixer.k_proj.bias", Part::Key},
    {ATTENTION "linear_qkv.bias", HF "mixer.v_proj.bias", Part::Value},
    {ATTENTION "linear_proj.weight", HF "mixer.o_proj.weight"},
    {ATTENTION "linear_proj.bias", HF "mixer.o_proj.bias"},
    {LAYER "mlp.linear_fc1.weight", HF "mixer.up_proj.weight"},
    {LAYER "mlp.linear_fc1.bias", HF "mixer.up_proj.bias"},
    {LAYER "mlp.linear_fc2.weight", HF "mixer.down_proj.weight"},
    {LAYER "mlp.linear_fc2.bias", HF "mixer.down_proj.bias"},
    {LAYER "mlp.router.weight", HF "mixer.gate.weight"},
    {LAYER "mlp.router.expert_bias", HF "mixer.gate.e_score_correction_bias"},
    {LAYER "mlp.fc1_latent_proj.weight", HF "mixer.fc1_latent_proj.weight"},
    {LAYER "mlp.fc2_latent_proj.weight", HF "mixer.fc2_latent_proj.weight"},
    {LAYER "mlp.experts.linear_fc1.weight", HF "mixer.experts.up_proj"},
    {LAYER "mlp.experts.linear_fc2.weight", HF "mixer.experts.down_proj"},
    {LAYER "mlp.shared_experts.linear_fc1.weight",
     HF "mixer.shared_experts.up_proj.weight"},
    {LAYER "mlp.shared_experts.linear_fc2.weight",
     HF "mixer.shared_experts.down_proj.weight"},
};

/// Its parameter `A` is -exp of `A_log`: that has to be done where it arrives.
constexpr FrameworkTensor kVllmNemotronH[] = {
    {"embedding.word_embeddings.weight", "model.embed_tokens.weight",
     Part::Vocabulary},
    {ATTENTION "linear_qkv.weight", HF "mixer.qkv_proj.weight",
     Part::QueryKeyValue},
    {ATTENTION "linear_qkv.bias", HF "mixer.qkv_proj.bias",
     Part::QueryKeyValue},
    {LAYER "mlp.experts.linear_fc1.weight", HF "mixer.experts.w13_weight"},
    {LAYER "mlp.experts.linear_fc2.weight", HF "mixer.experts.w2_weight"},
};

constexpr FrameworkTensor kVllmMixtral[] = {
    {LAYER "mlp.router.weight", HF "block_sparse_moe.gate.weight"},
    {LAYER "mlp.experts.linear_fc1.weight",
     HF "block_sparse_moe.experts.w13_weight"},
    {LAYER "mlp.experts.linear_fc2.weight",
     HF "block_sparse_moe.experts.w2_weight"},
};

/// Its rotary embedding turns neighbouring rows of a head.
constexpr FrameworkTensor kTorchtitanLlama[] = {
    {ATTENTION "linear_qkv.weight", TITAN "attention.qkv_linear.wq.weight",
     Part::QueryPairs},
    {ATTENTION "linear_qkv.weight", TITAN "attention.qkv_linear.wk.weight",
     Part::KeyPairs},
    {ATTENTION "linear_qkv.weight", TITAN "attention.qkv_linear.wv.weight",
     Part::Value},
};

#undef TITAN
#undef GPT2
#undef HF
#undef MIXER
#undef ATTENTION
#undef LAYER

/// One of the tables above.
struct Rows {
  template <size_t N>
  constexpr Rows(const FrameworkTensor (&table)[N])
      : first(table), last(table + N) {}
  const FrameworkTensor *begin() const { return first; }
  const FrameworkTensor *end() const { return last; }

  const FrameworkTensor *first, *last;
};

std::vector<Rows> ordinary(Framework framework) {
  switch (framework) {
  case Framework::Megatron:
    return {kMegatron};
  case Framework::HuggingFace:
    return {kCommon, kHuggingFace};
  case Framework::Vllm:
    return {kCommon, kVllm};
  case Framework::Torchtitan:
    return {kTorchtitan};
  }
  return {};
}

struct Exception {
  const char *type;
  Framework framework;
  Rows rows;
};

constexpr auto HuggingFace = Framework::HuggingFace;
constexpr auto Vllm = Framework::Vllm;
constexpr auto Torchtitan = Framework::Torchtitan;

/// These take the place of what stands below, and of the ordinary, of the same
/// tensor of Megatron-Core's.
constexpr Exception kExceptions[] = {
    {"llama", Torchtitan, kTorchtitanLlama},
    {"phi3", HuggingFace, kPhi3},
    {"gemma2", HuggingFace, kGemma},
    {"gemma2", Vllm, kGemma},
    {"gemma3_text", HuggingFace, kGemma},
    {"gemma3_text", Vllm, kGemma},
    {"mixtral", Vllm, kVllmMixtral},
    {"qwen2_moe", HuggingFace, kQwen2Moe},
    {"qwen2_moe", HuggingFace, kQwen2MoeApart},
    {"qwen2_moe", Vllm, kQwen2Moe},
    {"qwen2_moe", Vllm, kQwen2MoeFused},
    {"qwen3_next", HuggingFace, kQwen3Next},
    {"qwen3_next", HuggingFace, kQwen2Moe},
    {"qwen3_next", HuggingFace, kQwen2MoeApart},
    {"qwen3_next", Vllm, kVllmQwen3Next},
    {"qwen3_next", Vllm, kQwen3Next},
    {"qwen3_next", Vllm, kQwen2Moe},
    {"qwen3_next", Vllm, kQwen2MoeFused},
    {"gpt2", HuggingFace, kGpt2},
    {"gpt2", Vllm, kVllmGpt2},
    {"gpt2", Vllm, kGpt2},
    {"gpt_oss", HuggingFace, kGptOss},
    {"gpt_oss", Vllm, kVllmGptOss},
    {"gpt_oss", Torchtitan, kTorchtitanGptOss},
    {"llama4_text", HuggingFace, kLlama4},
    {"llama4_text", Vllm, kVllmLlama4},
    {"llama4_text", Vllm, kLlama4},
    {"nemotron_h", HuggingFace, kNemotronH},
    {"nemotron_h", Vllm, kVllmNemotronH},
    {"nemotron_h", Vllm, kNemotronH},
};

/// Those of tensors that have no row yet.
void addRows(const std::vector<Rows> &tables,
             std::vector<FrameworkTensor> &out) {
  std::set<std::string> taken;
  for (const FrameworkTensor &row : out)
    taken.insert(row.of);
  for (const Rows &rows : tables)
    for (const FrameworkTensor &row : rows)
      if (!taken.count(row.of))
        out.push_back(row);
}

} // namespace

const char *nameOf(Framework framework) {
  switch (framework) {
  case Framework::Megatron:
    return "megatron";
  case Framework::HuggingFace:
    return "huggingface";
  case Framework::Vllm:
    return "vllm";
  case Framework::Torchtitan:
    return "torchtitan";
  }
  return "";
}

const std::vector<std::string> &typesOf(Framework framework) {
  static const std::vector<std::string> all = {
      "llama",       "mistral",     "qwen2",     "qwen3",     "phi3",
      "gemma2",      "gemma3_text", "mixtral",   "qwen2_moe", "qwen3_moe",
      "deepseek_v2", "deepseek_v3", "glm4_moe",  "gpt2",      "gpt_oss",
      "llama4_text", "nemotron_h",  "qwen3_next"};
  static const std::vector<std::string> torchtitan = {
      "llama", "qwen3", "qwen3_moe", "deepseek_v3", "gpt_oss"};
  switch (framework) {
  case Framework::Megatron:
  case Framework::HuggingFace:
  case Framework::Vllm:
    return all;
  case Framework::Torchtitan:
    return torchtitan;
  }
  return all;
}

std::vector<FrameworkTensor> tensorsOf(Framework framework,
                                       const std::string &type) {
  std::vector<FrameworkTensor> out;
  for (const Exception &exception : kExceptions)
    if (exception.type == type && exception.framework == framework)
      addRows({exception.rows}, out);
  addRows(ordinary(framework), out);
  return out;
}

} // namespace dt::request
