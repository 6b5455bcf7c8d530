//===- Frameworks.cpp - How frameworks cut known models -------------------===//
//
// Names and fusions: Hugging Face's models of these types as transformers 5
// builds them (its checkpoints have experts one by one), and vLLM's
// QKVParallelLinear, MergedColumnParallelLinear, FusedMoE and
// VocabParallelEmbedding.
//
//===----------------------------------------------------------------------===//

#include "Frameworks.h"

#include "Names.h"

#include <algorithm>
#include <set>

namespace dt::request {

namespace {

/// Which part of a tensor of the model a framework has as one tensor.
enum class Part {
  All,
  Query,
  Key,
  Value,
  QueryKeyValue, // of all groups, then the next
  Gate,
  Up,
  Vocabulary, // padded
};

struct Row {
  const char *of;
  const char *tensor; // with {}: one for each expert
  Part part = Part::All;
};

#define LAYER "decoder.layers.*."
#define HF "model.layers.*."

/// What both have.
constexpr Row kCommon[] = {
    {"decoder.final_layernorm.weight", "model.norm.weight"},
    {LAYER "self_attention.linear_proj.weight", HF "self_attn.o_proj.weight"},
    {LAYER "self_attention.linear_proj.bias", HF "self_attn.o_proj.bias"},
    {LAYER "self_attention.linear_qkv.layer_norm_weight",
     HF "input_layernorm.weight"},
    {LAYER "self_attention.q_layernorm.weight", HF "self_attn.q_norm.weight"},
    {LAYER "self_attention.k_layernorm.weight", HF "self_attn.k_norm.weight"},
    {LAYER "mlp.linear_fc1.layer_norm_weight",
     HF "post_attention_layernorm.weight"},
    {LAYER "mlp.linear_fc2.weight", HF "mlp.down_proj.weight"},
    {LAYER "pre_mlp_layernorm.weight", HF "post_attention_layernorm.weight"},
    {LAYER "mlp.router.weight", HF "mlp.gate.weight"},
};

constexpr Row kHuggingFace[] = {
    {"embedding.word_embeddings.weight", "model.embed_tokens.weight"},
    {"output_layer.weight", "lm_head.weight"},
    {LAYER "self_attention.linear_qkv.weight", HF "self_attn.q_proj.weight",
     Part::Query},
    {LAYER "self_attention.linear_qkv.weight", HF "self_attn.k_proj.weight",
     Part::Key},
    {LAYER "self_attention.linear_qkv.weight", HF "self_attn.v_proj.weight",
     Part::Value},
    {LAYER "self_attention.linear_qkv.bias", HF "self_attn.q_proj.bias",
     Part::Query},
    {LAYER "self_attention.linear_qkv.bias", HF "self_attn.k_proj.bias",
     Part::Key},
    {LAYER "self_attention.linear_qkv.bias", HF "self_attn.v_proj.bias",
     Part::Value},
    {LAYER "mlp.linear_fc1.weight", HF "mlp.gate_proj.weight", Part::Gate},
    {LAYER "mlp.linear_fc1.weight", HF "mlp.up_proj.weight", Part::Up},
    {LAYER "mlp.experts.linear_fc1.weight", HF "mlp.experts.gate_up_proj"},
    {LAYER "mlp.experts.linear_fc2.weight", HF "mlp.experts.down_proj"},
};

constexpr Row kVllm[] = {
    {"embedding.word_embeddings.weight", "model.embed_tokens.weight",
     Part::Vocabulary},
    {"output_layer.weight", "lm_head.weight", Part::Vocabulary},
    {LAYER "self_attention.linear_qkv.weight", HF "self_attn.qkv_proj.weight",
     Part::QueryKeyValue},
    {LAYER "self_attention.linear_qkv.bias", HF "self_attn.qkv_proj.bias",
     Part::QueryKeyValue},
    {LAYER "mlp.linear_fc1.weight", HF "mlp.gate_up_proj.weight"},
    {LAYER "mlp.experts.linear_fc1.weight", HF "mlp.experts.w13_weight"},
    {LAYER "mlp.experts.linear_fc2.weight", HF "mlp.experts.w2_weight"},
};

constexpr Row kMegatron[] = {
    {LAYER "mlp.experts.linear_fc1.weight",
     LAYER "mlp.experts.linear_fc1.weight{}"},
    {LAYER "mlp.experts.linear_fc2.weight",
     LAYER "mlp.experts.linear_fc2.weight{}"},
};

#undef LAYER
#undef HF

const std::set<std::string> kTypes = {"llama", "mistral", "qwen2", "qwen3",
                                      "qwen3_moe"};

/// vLLM's DEFAULT_VOCAB_PADDING_SIZE.
constexpr int64_t kVllmVocabMultiple = 64;

std::vector<Row> rowsOf(Framework framework) {
  std::vector<Row> rows;
  auto add = [&](const auto &table) {
    rows.insert(rows.end(), std::begin(table), std::end(table));
  };
  if (framework == Framework::Megatron) {
    add(kMegatron);
    return rows;
  }
  add(kCommon);
  if (framework == Framework::HuggingFace)
    add(kHuggingFace);
  else
    add(kVllm);
  return rows;
}

/// Views and rules as a request writes them.
class Writer {
public:
  Writer(const Model &model, int64_t tp) : model(model), tp(tp) {}

  void add(const Row &row, const ModelTensor &tensor) {
    std::string view = "{\"of\": \"" + std::string(row.of) +
                       "\", \"tensor\": \"" + row.tensor + "\"";
    if (std::string(row.tensor).find("{}") != std::string::npos)
      view += ", \"each\": 0";
    std::string take = takeOf(row.part, tensor.shape[0]);
    if (!take.empty())
      view += ", \"take\": [" + take + "]";
    append(views, view + "}");
    if (needsRule(row.part))
      append(rules, ruleOf(row));
  }

  std::string views, rules;

private:
  static void append(std::string &list, const std::string &item) {
    list += (list.empty() ? "" : ", ") + item;
  }

  static std::string span(int64_t lo, int64_t hi) {
    return "[" + std::to_string(lo) + ", " + std::to_string(hi) + "]";
  }

  /// Rows [lo, hi) of a group, in heads.
  std::string heads(int64_t lo, int64_t hi) const {
    return "{\"from\": " + std::to_string(lo * model.headDim) +
           ", \"size\": " + std::to_string((hi - lo) * model.headDim) +
           ", \"step\": " + std::to_string((perGroup() + 2) * model.headDim) +
           ", \"count\": " + std::to_string(model.groups) + "}";
  }
  int64_t perGroup() const { return model.heads / model.groups; }

  std::string takeOf(Part part, int64_t size) const {
    int64_t queries = perGroup();
    std::string query = heads(0, queries), key = heads(queries, queries + 1),
                value = heads(queries + 1, queries + 2);
    switch (part) {
    case Part::All:
      return "";
    case Part::Query:
      return query;
    case Part::Key:
      return key;
    case Part::Value:
      return value;
    case Part::QueryKeyValue:
      return query + ", " + key + ", " + value;
    case Part::Gate:
      return span(0, size / 2);
    case Part::Up:
      return span(size / 2, size);
    case Part::Vocabulary:
      return padded(size);
    }
    return "";
  }

  static std::string padded(int64_t size) {
    int64_t rest = size % kVllmVocabMultiple;
    if (rest == 0)
      return "";
    return span(0, size) +
           ", {\"zeros\": " + std::to_string(kVllmVocabMultiple - rest) + "}";
  }

  /// A part of what tensor parallelism cuts.
  static bool needsRule(Part part) {
    return part != Part::All && part != Part::Vocabulary;
  }

  std::string ruleOf(const Row &row) const {
    std::string rule =
        "{\"match\": \"" + std::string(row.tensor) + "\", \"tp\": 0";
    int64_t keys = model.groups * model.headDim;
    if (row.part == Part::QueryKeyValue)
      rule +=
          ", \"blocks\": " + listOf({model.heads * model.headDim, keys, keys});
    // Fewer key and value heads than ranks: ranks that follow each other share.
    int64_t times = tp / model.groups;
    if (row.part == Part::QueryKeyValue && times > 1)
      rule += ", \"replicas\": " + listOf({1, times, times});
    return rule + "}";
  }

  static std::string listOf(std::initializer_list<int64_t> values) {
    std::string out;
    for (int64_t value : values)
      append(out, std::to_string(value));
    return "[" + out + "]";
  }

  const Model &model;
  int64_t tp;
};

std::string nameOf(Framework framework) {
  switch (framework) {
  case Framework::Megatron:
    return "megatron";
  case Framework::HuggingFace:
    return "huggingface";
  case Framework::Vllm:
    return "vllm";
  }
  return "";
}

} // namespace

Framework readFramework(const Json &layout, const std::string &path,
                        const Model &model) {
  const Json *value = layout.find("framework");
  if (layout.find("views"))
    fail(path + ".views is beside a \"framework\", of this side or of the "
                "other: say \"views\" on both");
  if (!value)
    return Framework::Megatron;
  std::string where = path + ".framework";
  const std::string &name = asString(*value, where);
  if (!kTypes.count(model.type))
    fail(where +
         " is known for models of type llama, mistral, qwen2, qwen3 "
         "and qwen3_moe, not for " +
         (model.type.empty() ? "a list of tensors: say \"views\""
                             : inQuotes(model.type)));
  for (Framework framework :
       {Framework::Megatron, Framework::HuggingFace, Framework::Vllm})
    if (name == nameOf(framework))
      return framework;
  fail(where + " must be \"megatron\", \"huggingface\" or \"vllm\", not " +
       inQuotes(name));
}

Model withStackedExperts(Model model) {
  std::vector<ModelTensor> tensors;
  for (ModelTensor &tensor : model.tensors) {
    if (tensor.expert > 0)
      continue; // in the tensor of expert 0
    if (tensor.expert == 0) {
      tensor.name.pop_back(); // its number
      tensor.expert = -1;
      tensor.shape.insert(tensor.shape.begin(), model.experts);
      tensor.cut.expertDim = 0;
      if (tensor.cut.tpDim)
        ++*tensor.cut.tpDim;
    }
    tensors.push_back(std::move(tensor));
  }
  model.tensors = std::move(tensors);
  return model;
}

FrameworkWords wordsOf(Framework framework, const Model &model, int64_t tp,
                       const std::string &path) {
  Writer writer(model, tp);
  std::set<std::string> named;
  for (const Row &row : rowsOf(framework)) {
    const ModelTensor *first = nullptr;
    for (const ModelTensor &tensor : model.tensors)
      if (matchGlob(row.of, tensor.name)) {
        first = first ? first : &tensor;
        named.insert(tensor.name);
      }
    if (first)
      writer.add(row, *first);
  }
  if (framework != Framework::Megatron)
    for (const ModelTensor &tensor : model.tensors)
      if (!named.count(tensor.name))
        fail(path + ".framework " + inQuotes(nameOf(framework)) +
             " has no name for tensor " + inQuotes(tensor.name));
  return {parseJson("[" + writer.views + "]", path + ".framework"),
          parseJson("[" + writer.rules + "]", path + ".framework")};
}

int64_t vocabMultipleOf(Framework framework, int64_t standard) {
  return framework == Framework::Megatron ? standard : 1;
}

int64_t readTp(Framework framework, const Model &model, const Json &layout,
               const std::string &path) {
  const Json *tp = layout.find("tp");
  int64_t ways = tp ? asInteger(*tp, path + ".tp", 1) : 1;
  bool canShare = framework == Framework::Vllm && ways % model.groups == 0;
  if (framework != Framework::Megatron && ways > model.groups && !canShare)
    fail(path + ".tp is " + std::to_string(ways) + ", but the model has " +
         std::to_string(model.groups) + " key and value heads, which " +
         inQuotes(nameOf(framework)) + " cannot cut so");
  return ways;
}

} // namespace dt::request
