//===- Request.cpp - From the text of a request to its structs ------------===//

#include "dt/Request/Request.h"

#include "Cluster.h"
#include "ExtraState.h"
#include "RequestReading.h"
#include "Rules.h"
#include "ShardedLayout.h"
#include "SizedLayout.h"
#include "States.h"

#include "dt/Request/RequestSet.h"

#include <set>

namespace dt {

namespace request {

namespace {

/// Buffers keep their own dtype and have no optimizer state.
std::vector<StateDecl> statesOf(const ModelTensor &tensor,
                                const std::vector<StateDecl> &states) {
  if (!tensor.states.empty())
    return tensor.states;
  if (states.empty() || tensor.buffer)
    return {{"param", tensor.dtype, tensor.dtype, ""}};
  return states;
}

/// A request that moves no `param` moves no buffers either.
void dropBuffersWithoutParam(const std::vector<StateDecl> &states,
                             Model &model) {
  for (const StateDecl &state : states)
    if (state.name == "param")
      return;
  if (states.empty())
    return;
  std::vector<ModelTensor> kept;
  for (ModelTensor &tensor : model.tensors)
    if (!tensor.buffer)
      kept.push_back(std::move(tensor));
  model.tensors = std::move(kept);
}

bool isSharded(const Json &layout, const std::string &path) {
  return asObject(layout, path).find("shards") != nullptr;
}

struct Reader {
  const Json &json;
  const Sides &sides;
  Model model;
  std::vector<TensorDecl> tensors = {};
  int64_t vocabMultiple = 128;

  LayoutDecl layout(Side side) const {
    const char *path = sideName(side);
    const Json &layout = sides.of(side);
    std::vector<TensorDecl> existing = tensorsOn(side, tensors);
    LayoutDecl out =
        isSharded(layout, path)
            ? layoutFromShards(layout, path, existing)
            : layoutFromSizes(layout, path, model, existing, vocabMultiple);
    out.key = keyOf(layout, path);
    for (PlaceDecl &place : out.places)
      if (place.key.path.empty())
        place.key = out.key;
    nameStates(tensors, existing, out);
    return out;
  }
};

/// Rules are needed, and checked against the tensors, only where a side is
/// given by sizes.
void prepareModel(Reader &reader, const std::vector<StateDecl> &states) {
  const Json &json = reader.json;
  std::vector<Rule> rules;
  if (const Json *value = json.find("rules"))
    rules = readRules(*value);
  bool allSharded = true;
  for (Side side : {Side::Source, Side::Destination})
    allSharded &= isSharded(reader.sides.of(side), sideName(side));
  if (!allSharded)
    applyRules(rules, reader.model);
  applyStorages(rules, reader.model);
  dropBuffersWithoutParam(states, reader.model);
  for (const ModelTensor &tensor : reader.model.tensors) {
    reader.tensors.push_back({tensor.name, tensor.shape,
                              statesOf(tensor, states), /*partial=*/false,
                              tensor.storage, tensor.key});
    checkBytes(reader.tensors.back(), "tensor " + inQuotes(tensor.name));
  }
}

/// Every state that `drop` and `derive` name is some tensor's own.
void checkOwnStatesNamed(const Json &json, const Model &model) {
  std::set<std::string> dropped, made;
  for (const ModelTensor &tensor : model.tensors)
    for (const StateDecl &state : tensor.states) {
      if (!state.destination)
        dropped.insert(state.name);
      if (!state.from.empty())
        made.insert(state.name);
    }
  if (const Json *drop = json.find("drop"))
    for (size_t i = 0; i < drop->items.size(); ++i)
      if (!dropped.count(drop->items[i].string))
        fail("drop[" + std::to_string(i) + "] names " +
             inQuotes(drop->items[i].string) + ", which no tensor drops");
  if (const Json *derive = json.find("derive"))
    for (const Json::Member &member : derive->members)
      if (!made.count(member.first))
        fail(pathOf("derive", member.first) + " names " +
             inQuotes(member.second.string) +
             ", from which no tensor can make it");
}

/// The states of the tensors that have none of their own.
std::vector<StateDecl> readAllStates(const Json &json, const Sides &sides,
                                     Model &model) {
  bool anyOwn = false;
  for (ModelTensor &tensor : model.tensors) {
    if (tensor.states.empty())
      continue;
    anyOwn = true;
    tensor.states = completeOwnStates(json, tensor.name, tensor.states);
  }
  std::vector<StateDecl> shared = readStates(json, sides, anyOwn);
  if (anyOwn && shared.empty())
    checkOwnStatesNamed(json, model);
  return shared;
}

} // namespace

Request readTransition(const Json &json, const Sides &sides, Model model) {
  Reader reader{json, sides, std::move(model)};
  if (const Json *value = json.find("vocab_multiple"))
    reader.vocabMultiple =
        asInteger(*value, "vocab_multiple", 1, int64_t(1) << 20);
  Request request;
  request.key = keyOf(json, "request");
  if (const Json *value = json.find("cluster"))
    request.cluster = readCluster(*value);
  if (const Json *value = json.find("memory"))
    request.memory = readMemory(*value);
  request.model = keyOf(require(json, "request", "model"), "model");
  std::vector<StateDecl> states = readAllStates(json, sides, reader.model);
  prepareModel(reader, states);
  request.source = reader.layout(Side::Source);
  request.destination = reader.layout(Side::Destination);
  request.tensors = std::move(reader.tensors);
  request.warnings =
      holesOf(request.destination, "destination", request.tensors);
  if (const Json *value = json.find("extra"))
    addExtraState(*value, request);
  return request;
}

} // namespace request

std::optional<Request> readRequest(const std::string &json,
                                   const std::string &directory,
                                   std::string &error) {
  std::optional<RequestSet> set = RequestSet::read(json, directory, error);
  if (set && !set->isFamily())
    return set->request(0, error);
  if (set)
    error = "request is for a set of plans, not for one";
  return std::nullopt;
}

} // namespace dt
