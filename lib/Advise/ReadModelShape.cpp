//===- ReadModelShape.cpp - From a model file to what it costs ------------===//
//
// Arithmetic as Megatron-LM counts it (num_floating_point_operations of
// megatron/training/training.py): two operations per element of a matrix and
// token, attention over half of the sequence (causal). Activations by the
// outputs that a matrix product's backward needs, as in "Reducing Activation
// Recomputation in Large Transformer Models" (arXiv 2205.05198), with an
// attention that keeps no scores.
//
//===----------------------------------------------------------------------===//

#include "ReadModelShape.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace dt::advise {

using json::fail;
using json::inQuotes;
using json::Json;
using megatron::Stage;

namespace {

constexpr int64_t kMostNumber = int64_t(1) << 24;

int64_t readNumber(const Json &config, const std::string &path,
                   std::initializer_list<const char *> keys, int64_t standard) {
  for (const char *key : keys)
    if (const Json *value = config.find(key))
      if (!value->isNull())
        return json::asInteger(*value, path + " " + inQuotes(key), 1,
                               kMostNumber);
  if (standard < 0)
    fail(path + " needs the key " + inQuotes(*keys.begin()));
  return standard;
}

class Reader {
public:
  Reader(const Json &config, const megatron::Model &model,
         const std::string &path, const std::vector<StateWidth> &states)
      : config(config), model(model), path(path), states(states) {}

  ModelShape read() {
    shape.layers = model.layers;
    shape.experts = model.experts;
    shape.heads =
        readNumber(config, path, {"num_attention_heads", "n_head"}, -1);
    shape.groups =
        readNumber(config, path, {"num_key_value_heads"}, shape.heads);
    shape.hidden = readNumber(config, path, {"hidden_size", "n_embd"}, -1);
    if (model.experts > 0)
      shape.topk = readNumber(config, path, {"num_experts_per_tok"}, -1);
    if (shape.topk > shape.experts)
      fail(path + " sends a token to " + std::to_string(shape.topk) +
           " experts of " + std::to_string(shape.experts));
    shape.costs.resize(shape.layers);
    for (LayerCost &cost : shape.costs)
      cost.ioSaved = 4 * double(shape.hidden);
    attentions.resize(shape.layers + 1);
    for (const megatron::ModelTensor &tensor : model.tensors)
      add(tensor);
    for (int64_t layer = 0; layer < shape.layers; ++layer)
      finish(attentions[layer], shape.costs[layer]);
    finish(attentions.back(), shape.last);
    countClasses();
    // Prediction layers are alike; attention's widths are those of one.
    for (double *part : {&shape.last.coreFlops, &shape.last.keyValue})
      *part *= double(shape.logits - 1);
    return std::move(shape);
  }

private:
  /// What the attention of one layer says of its widths.
  struct Attention {
    double values = 0;  // columns of linear_proj: values of all heads
    double packed = 0;  // rows of linear_qkv: queries, keys and values
    double queries = 0; // rows of latent attention's queries
  };

  void add(const megatron::ModelTensor &tensor) {
    ShapeTensor out;
    if (tensor.stage == Stage::Every)
      fail("tensor " + inQuotes(tensor.name) +
           " is on every stage, which no known model type has");
    if (tensor.name.find(".mixer.") != std::string::npos)
      fail(path + " has Mamba mixers: what their scans take and keep is not "
                  "known here");
    if (tensor.name.find(".self_attention.A_log") != std::string::npos)
      fail(path + " has linear attention: what it takes and keeps is not known "
                  "here");
    out.stage = tensor.stage;
    out.layer = int32_t(tensor.layer);
    out.expert = int32_t(tensor.expert);
    out.kind = classOf(tensor);
    shape.tensors.push_back(out);
    if (tensor.cut.vocab) {
      shape.vocab = tensor.shape[0];
      shape.isTied |= out.stage == Stage::FirstAndLast;
      return;
    }
    if (tensor.shape.size() != 2 || out.stage == Stage::First)
      return;
    bool isMtp = out.stage == Stage::Last;
    if (isMtp && tensor.name.find("eh_proj") != std::string::npos) {
      ++shape.logits;
      shape.last.ioSaved += 4 * double(shape.hidden);
    }
    if (isMtp)
      addCost(tensor, shape.last, attentions.back());
    else
      addCost(tensor, shape.costs[tensor.layer], attentions[tensor.layer]);
  }

  void addCost(const megatron::ModelTensor &tensor, LayerCost &cost,
               Attention &attention) {
    double rows = double(tensor.shape[0]), columns = double(tensor.shape[1]);
    double flops = 2 * rows * columns;
    if (tensor.cut.expert) {
      // All experts are alike: the first stands for those of a token.
      if (tensor.expert > 0)
        return;
      cost.expertFlops += double(shape.topk) * flops;
      bool isFirst = tensor.name.find("linear_fc1") != std::string::npos;
      cost.expertSaved +=
          double(shape.topk) * (isFirst ? rows + columns : columns);
      return;
    }
    (tensor.cut.tpDim ? cost.tpFlops : cost.replicatedFlops) += flops;
    if (tensor.name.find("self_attention.") != std::string::npos)
      addAttention(tensor, rows, columns, cost, attention);
    else if (tensor.name.find(".mlp.") != std::string::npos &&
             tensor.cut.tpDim) {
      cost.mlpFlops += flops;
      cost.mlpSaved += *tensor.cut.tpDim == 0 ? rows : columns;
    }
  }

  static void addAttention(const megatron::ModelTensor &tensor, double rows,
                           double columns, LayerCost &cost,
                           Attention &attention) {
    auto has = [&](const char *part) {
      return tensor.name.find(part) != std::string::npos;
    };
    cost.attentionSaved += has("linear_proj.") ? columns : rows;
    if (has("linear_proj."))
      attention.values = columns;
    else if (has("linear_qkv."))
      attention.packed = rows;
    else if (has("linear_q_up_proj.") || has("linear_q_proj."))
      attention.queries = rows;
  }

  /// Two operations per width of queries and keys, and of values. Latent
  /// attention has a key as wide as the query and a value for every head.
  static void finish(const Attention &attention, LayerCost &cost) {
    bool isLatent = attention.queries > 0;
    double queries = isLatent ? attention.queries : attention.values;
    cost.coreFlops = 2 * queries + 2 * attention.values;
    cost.keyValue = isLatent ? queries + attention.values
                             : attention.packed - attention.values;
  }

  void countClasses() {
    shape.inLayer.resize(shape.layers);
    for (const ShapeTensor &tensor : shape.tensors) {
      std::vector<ClassCount> &list =
          tensor.stage == Stage::Layer   ? shape.inLayer[tensor.layer]
          : tensor.stage == Stage::First ? shape.inFirst
          : tensor.stage == Stage::Last  ? shape.inLast
                                         : shape.inFirstAndLast;
      auto it =
          std::find_if(list.begin(), list.end(), [&](const ClassCount &one) {
            return one.kind == tensor.kind;
          });
      if (it == list.end())
        list.push_back({tensor.kind, 1});
      else
        ++it->count;
    }
  }

  int32_t classOf(const megatron::ModelTensor &tensor) {
    TensorClass kind;
    kind.shape = tensor.shape;
    kind.tpDim = tensor.cut.tpDim ? int(*tensor.cut.tpDim) : -1;
    kind.fsdpDim = tensor.cut.fsdpDim ? int(*tensor.cut.fsdpDim) : -1;
    kind.blocks = tensor.cut.blocks;
    kind.isExpert = tensor.cut.expert;
    kind.isVocab = tensor.cut.vocab;
    bool hasParam = states.empty();
    for (const StateWidth &state : states) {
      hasParam |= state.name == "param";
      if (tensor.buffer)
        continue;
      bool isWhole = state.name == "param" || state.name == "grad";
      (isWhole ? kind.wholeBytes : kind.cutBytes) += state.bytes;
    }
    if ((tensor.buffer || states.empty()) && hasParam)
      kind.wholeBytes = byteWidth(tensor.dtype);
    auto key = std::make_tuple(kind.shape, kind.tpDim, kind.fsdpDim,
                               kind.blocks, kind.isExpert, kind.isVocab,
                               kind.wholeBytes, kind.cutBytes);
    auto [it, isNew] = numbers.emplace(key, int32_t(shape.classes.size()));
    if (isNew)
      shape.classes.push_back(std::move(kind));
    return it->second;
  }

  using Key = std::tuple<std::vector<int64_t>, int, int, std::vector<int64_t>,
                         bool, bool, int64_t, int64_t>;

  const Json &config;
  const megatron::Model &model;
  const std::string &path;
  const std::vector<StateWidth> &states;
  ModelShape shape;
  std::vector<Attention> attentions; // per layer, then prediction layers
  std::map<Key, int32_t> numbers;
};

} // namespace

ModelShape readModelShape(const Json &config, const megatron::Model &model,
                          const std::string &path,
                          const std::vector<StateWidth> &states) {
  return Reader(config, model, path, states).read();
}

} // namespace dt::advise
