//===- Rules.cpp - A request's rules: how tensors are cut -----------------===//

#include "Rules.h"

#include "Names.h"

#include "dt/Geometry/Limits.h"

#include <algorithm>
#include <numeric>

namespace dt::request {

namespace {

/// A dim, or null for none.
std::optional<int64_t> readDim(const Json *value, const std::string &path,
                               std::optional<int64_t> standard) {
  if (!value)
    return standard;
  if (value->isNull())
    return std::nullopt;
  return asInteger(*value, path, 0);
}

Stage readStage(const Json &value, const std::string &path) {
  const std::string &name = asString(value, path);
  if (name == "first")
    return Stage::First;
  if (name == "last")
    return Stage::Last;
  if (name == "every")
    return Stage::Every;
  fail(path + " must be \"first\", \"last\" or \"every\", not " +
       inQuotes(name));
}

Rule readRule(const Json &json, const std::string &path) {
  checkKeys(json, path,
            {"match", "tp", "fsdp", "ep", "blocks", "replicas", "replicate",
             "stage", "storage"});
  Rule rule;
  rule.match = asString(require(json, path, "match"), path + ".match");
  const Json *replicate = json.find("replicate");
  if (replicate && asBool(*replicate, path + ".replicate")) {
    for (const char *key : {"tp", "fsdp", "ep", "blocks", "replicas"})
      if (json.find(key))
        fail(path + " has \"replicate\" beside " + inQuotes(key));
  } else {
    rule.cut.tpDim = readDim(json.find("tp"), path + ".tp", std::nullopt);
    rule.cut.fsdpDim = readDim(json.find("fsdp"), path + ".fsdp", 0);
  }
  if (const Json *ep = json.find("ep")) {
    if (ep->kind == Json::Kind::Integer)
      rule.cut.expertDim = asInteger(*ep, path + ".ep", 0);
    rule.cut.expert = rule.cut.expertDim || asBool(*ep, path + ".ep");
  }
  if (const Json *blocks = json.find("blocks"))
    rule.cut.blocks = asIntegers(*blocks, path + ".blocks", 1);
  if (const Json *replicas = json.find("replicas"))
    rule.cut.replicas = asIntegers(*replicas, path + ".replicas", 1);
  if (!rule.cut.replicas.empty() &&
      rule.cut.replicas.size() != rule.cut.blocks.size())
    fail(path + " has " + std::to_string(rule.cut.replicas.size()) +
         " \"replicas\" for " + std::to_string(rule.cut.blocks.size()) +
         " \"blocks\"");
  if (!rule.cut.blocks.empty() && !rule.cut.tpDim)
    fail(path + " has \"blocks\" but no \"tp\" dimension that they lie along");
  if (const Json *stage = json.find("stage"))
    rule.stage = readStage(*stage, path + ".stage");
  if (const Json *storage = json.find("storage")) {
    rule.storage = asName(*storage, path + ".storage");
    rule.cuts = json.members.size() > 2; // than "match" and "storage"
  }
  return rule;
}

void checkDim(const ModelTensor &tensor, std::optional<int64_t> dim,
              const char *key, const Rule &rule) {
  if (dim && *dim >= static_cast<int64_t>(tensor.shape.size()))
    fail("rule " + inQuotes(rule.match) + " has " + key + " dim " +
         std::to_string(*dim) + ", but tensor " + inQuotes(tensor.name) +
         " has " + std::to_string(tensor.shape.size()) + " dims");
}

void checkBlocks(const ModelTensor &tensor, const Rule &rule) {
  if (rule.cut.blocks.empty())
    return;
  int64_t sum = 0;
  for (int64_t block : rule.cut.blocks)
    if (__builtin_add_overflow(sum, block, &sum))
      sum = INT64_MAX;
  int64_t size = tensor.shape[*rule.cut.tpDim];
  if (sum == size)
    return;
  std::string region = "[" + std::to_string(std::min(sum, size)) + ":" +
                       std::to_string(std::max(sum, size)) + ")";
  fail("rule " + inQuotes(rule.match) + " has blocks of " +
       std::to_string(sum) + " in all, but tensor " + inQuotes(tensor.name) +
       " has " + std::to_string(size) + " in dim " +
       std::to_string(*rule.cut.tpDim) +
       (sum < size ? ": no rank would hold " + region
                   : ": ranks would hold " + region + " beyond its end"));
}

/// FSDP2 shards no scalars: the default dim does not apply to them.
void applyRule(const Rule &rule, ModelTensor &tensor) {
  bool vocab = tensor.cut.vocab && rule.cut.tpDim.value_or(0) == 0;
  Cut cut = rule.cut;
  if (tensor.shape.empty() && cut.fsdpDim == 0)
    cut.fsdpDim.reset();
  checkDim(tensor, cut.tpDim, "tp", rule);
  checkDim(tensor, cut.fsdpDim, "fsdp", rule);
  checkDim(tensor, cut.expertDim, "ep", rule);
  checkBlocks(tensor, rule);
  cut.vocab = vocab;
  tensor.cut = cut;
  if (rule.stage)
    tensor.stage = *rule.stage;
}

/// The first rule for a name of those that `counts`.
template <typename Fn>
const Rule *firstMatch(const std::vector<Rule> &rules, const std::string &name,
                       Fn counts) {
  auto found = std::find_if(rules.begin(), rules.end(), [&](const Rule &rule) {
    return counts(rule) && matchesGlob(rule.match, name);
  });
  return found == rules.end() ? nullptr : &*found;
}

/// Layer, expert and stage of a tensor that no model type described.
void readNumbers(const Rule &rule, bool afterLayers, ModelTensor &tensor) {
  NameNumbers numbers = readNameNumbers(tensor.name);
  tensor.layer = rule.stage ? -1 : numbers.layer;
  if (tensor.layer >= 0)
    tensor.stage = Stage::Layer;
  else if (!rule.stage)
    tensor.stage = afterLayers ? Stage::Last : Stage::First;
  bool isOne = rule.cut.expert && !rule.cut.expertDim;
  tensor.expert = isOne ? numbers.expert : -1;
}

} // namespace

std::vector<Rule> readRules(const Json &json, const std::string &path) {
  std::vector<Rule> rules;
  checkCount(asArray(json, path).items.size(), kMaxRules, path, "rules");
  for (const Json &item : json.items)
    rules.push_back(
        readRule(item, path + "[" + std::to_string(rules.size()) + "]"));
  return rules;
}

void applyStorages(const std::vector<Rule> &rules, Model &model) {
  for (ModelTensor &tensor : model.tensors) {
    const Rule *rule = firstMatch(rules, tensor.name, [](const Rule &rule) {
      return !rule.storage.empty();
    });
    if (rule)
      tensor.storage = rule->storage;
  }
}

void applyRules(const std::vector<Rule> &rules, Model &model) {
  bool afterLayers = false;
  for (ModelTensor &tensor : model.tensors) {
    const Rule *rule = firstMatch(rules, tensor.name,
                                  [](const Rule &rule) { return rule.cuts; });
    if (!rule && !tensor.hasCut)
      fail("no rule matches tensor " + inQuotes(tensor.name));
    if (rule)
      applyRule(*rule, tensor);
    if (!tensor.hasCut) {
      readNumbers(*rule, afterLayers, tensor);
      afterLayers |= readNameNumbers(tensor.name).layer >= 0;
      model.layers = std::max(model.layers, tensor.layer + 1);
      model.experts = std::max(model.experts, tensor.expert + 1);
      if (tensor.cut.expertDim)
        model.experts =
            std::max(model.experts, tensor.shape[*tensor.cut.expertDim]);
    }
    if (tensor.cut.expert && !tensor.cut.expertDim && tensor.expert < 0)
      fail("rule " + inQuotes(rule->match) + " cuts tensor " +
           inQuotes(tensor.name) +
           " by experts, but its name has no expert number");
  }
}

bool leaveCuts(const std::vector<Rule> &rules, const Model &model) {
  return rules.empty() &&
         std::all_of(model.tensors.begin(), model.tensors.end(),
                     [](const ModelTensor &tensor) { return tensor.hasCut; });
}

} // namespace dt::request
