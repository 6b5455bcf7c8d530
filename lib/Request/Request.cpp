//===- Request.cpp - From the text of a request to its structs ------------===//

#include "dt/Request/Request.h"

#include "BlockScales.h"
#include "Cluster.h"
#include "ExtraState.h"
#include "Frameworks.h"
#include "RequestReading.h"
#include "Rules.h"
#include "ShardedLayout.h"
#include "SizedLayout.h"
#include "States.h"
#include "Views.h"

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

/// How a side's own tensors come from the model's, and are cut.
struct SideWords {
  std::optional<Json> views;
  std::string viewsPath;
  std::vector<Rule> rules;
  int64_t vocabMultiple = 128;
  /// Names of the side's tensors in registration order; empty: the model's.
  std::vector<std::string> order;
};

void append(std::vector<Rule> more, std::vector<Rule> &rules) {
  for (Rule &rule : more)
    rules.push_back(std::move(rule));
}

/// Reads the layouts. Tensors of the model are cut by rules where a side is
/// given by sizes, and so are a side's own tensors.
struct Reader {
  const Json &json;
  const Sides &sides;
  Model model;
  std::vector<Rule> rules = {}; // the request's
  std::vector<TensorDecl> tensors = {};
  int64_t vocabMultiple = 128;
  std::vector<std::string> warnings = {};
  /// Of both sides, where one of them names one.
  std::vector<Framework> frameworks = {};
  std::vector<std::string> registered = {}; // names of Megatron-Core's tensors
  /// Of `model`, where a side concatenates tensors of the list.
  std::optional<JoinedModel> joined = {};

  LayoutDecl layout(Side side) {
    const char *path = sideName(side);
    const Json &layout = sides.of(side);
    SideWords words = wordsOf(side);
    LayoutDecl out = words.views ? layoutOfOwn(side, words)
                                 : layoutOf(side, words, model, tensors);
    out.key = keyOf(layout, path);
    for (PlaceDecl &place : out.places)
      if (place.key.path.empty())
        place.key = out.key;
    return out;
  }

  /// One side at least does, and both are views of what all can be made of.
  bool namesFramework() const {
    return sides.source.find("framework") ||
           sides.destination.find("framework");
  }

private:
  /// A side's own rules come before the request's, its framework's after.
  SideWords wordsOf(Side side) const {
    std::string path = sideName(side);
    const Json &layout = sides.of(side);
    SideWords out;
    out.vocabMultiple = vocabMultiple;
    std::vector<Rule> own; // of the framework
    if (const Json *ofSide = layout.find("rules"))
      out.rules = readRules(*ofSide, path + ".rules");
    if (!frameworks.empty()) {
      Framework framework = frameworks[side == Side::Destination];
      Model present = tensorsWithStates(side);
      Ways ways = readWays(framework, present, layout, path);
      FrameworkWords words = request::wordsOf(framework, present, ways, path);
      if (framework == Framework::Megatron)
        out.order = registered;
      out.views = std::move(words.views);
      out.viewsPath = path + ".framework";
      own = readRules(words.rules, out.viewsPath);
      out.vocabMultiple = vocabMultipleOf(framework, vocabMultiple);
    } else if (const Json *views = layout.find("views")) {
      out.views = *views;
      out.viewsPath = path + ".views";
    } else if (joined) { // the other side has views
      out.views = parseJson("[]", path + ".views");
      out.viewsPath = path + ".views";
    }
    append(rules, out.rules);
    append(std::move(own), out.rules);
    return out;
  }

  /// What of the model the side has.
  Model tensorsWithStates(Side side) const {
    const Model &listed = joined ? joined->listed : model;
    Model out = listed;
    out.tensors.clear();
    std::vector<TensorDecl> existing = tensorsOn(side, tensors);
    for (size_t i = 0; i < listed.tensors.size(); ++i)
      if (!existing[joined ? joined->parts[i].tensor : i].states.empty())
        out.tensors.push_back(listed.tensors[i]);
    return out;
  }

  /// A layout of `all`, tensors that `own` describes.
  LayoutDecl layoutOf(Side side, const SideWords &words, const Model &own,
                      std::vector<TensorDecl> &all) {
    const char *path = sideName(side);
    const Json &layout = sides.of(side);
    std::vector<TensorDecl> existing = tensorsOn(side, all);
    bool isExplicit = isSharded(layout, path);
    std::optional<Model> ruled;
    if (!isExplicit && !leaveCuts(words.rules, own))
      applyRules(words.rules, ruled.emplace(own));
    LayoutDecl out = isExplicit
                         ? layoutFromShards(layout, path, existing)
                         : layoutFromSizes(layout, path, ruled ? *ruled : own,
                                           existing, words.vocabMultiple);
    nameStates(all, existing, out);
    if (side == Side::Destination)
      warnings = holesOf(out, path, all);
    return out;
  }

  LayoutDecl layoutOfOwn(Side side, const SideWords &words) {
    const std::string &path = words.viewsPath;
    for (const TensorDecl &tensor : tensors)
      if (!tensor.storage.empty())
        fail(path + " is beside storage " + inQuotes(tensor.storage) +
             " of tensor " + inQuotes(tensor.name) +
             ", which is not supported: a view has storage of its own");
    OwnTensors own = readViews(
        *words.views, path, joined ? *joined : unjoined(model), tensors, side);
    if (!words.order.empty())
      sortByName(words.order, own);
    std::vector<TensorDecl> declared = declareOwn(own, tensors);
    LayoutDecl out = layoutOf(side, words, own.model, declared);
    for (size_t i = 0; i < declared.size(); ++i)
      if (declared[i].partial)
        tensors[own.views[i].tensor].partial = true;
    carryToModel(std::move(own), out);
    return out;
  }
};

/// The model as one that the tensors of both frameworks are parts of.
void prepareForFrameworks(Reader &reader) {
  if (!reader.namesFramework())
    return;
  for (Side side : {Side::Source, Side::Destination})
    reader.frameworks.push_back(
        readFramework(reader.sides.of(side), sideName(side), reader.model));
  for (const ModelTensor &tensor : reader.model.tensors)
    reader.registered.push_back(tensor.name);
  reader.model = withStackedExperts(std::move(reader.model));
  for (Framework framework : reader.frameworks)
    if (framework == Framework::Vllm) {
      reader.model = withJoinedProjections(std::move(reader.model));
      return;
    }
}

/// What the tensors of both sides are views of, where that is not the list.
void joinForSides(Reader &reader) {
  const Json *source = reader.sides.source.find("views");
  const Json *destination = reader.sides.destination.find("views");
  if (reader.frameworks.empty()) {
    reader.joined = joinTensors(source, destination, reader.model);
    return;
  }
  Json before = unflattensOf(reader.frameworks[0], reader.model, "source");
  Json after = unflattensOf(reader.frameworks[1], reader.model, "destination");
  reader.joined = joinTensors(&before, &after, reader.model);
}

/// The tensors that a plan is about.
void prepareModel(Reader &reader, const std::vector<StateDecl> &states) {
  prepareForFrameworks(reader);
  if (const Json *value = reader.json.find("rules"))
    reader.rules = readRules(*value, "rules");
  applyStorages(reader.rules, reader.model);
  dropBuffersWithoutParam(states, reader.model);
  joinForSides(reader);
  if (reader.joined)
    reader.model = reader.joined->model;
  for (const ModelTensor &tensor : reader.model.tensors) {
    reader.tensors.push_back({tensor.name, tensor.shape,
                              statesOf(tensor, states), /*partial=*/false,
                              tensor.storage, tensor.key});
    checkBytes(reader.tensors.back(), "tensor " + inQuotes(tensor.name));
  }
  leaveOut(reader.sides, reader.tensors);
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

Request readTransition(const Json &json, const Sides &sides, Model model,
                       const Cluster &measured) {
  Reader reader{json, sides, std::move(model)};
  if (const Json *value = json.find("vocab_multiple"))
    reader.vocabMultiple =
        asInteger(*value, "vocab_multiple", 1, int64_t(1) << 20);
  Request request;
  request.key = keyOf(json, "request");
  if (const Json *value = json.find("cluster"))
    request.cluster = readCluster(*value, measured);
  if (const Json *value = json.find("memory"))
    request.memory = readMemory(*value);
  if (request.cluster.relays && request.memory.mode == MemoryMode::Flat)
    fail("cluster.relays stands beside memory.mode \"flat\", expected "
         "\"rollback\"");
  if (request.cluster.collectives == dtrt::CollectiveChoice::Library &&
      request.memory.mode == MemoryMode::Flat)
    fail("cluster.collectives \"library\" stands beside memory.mode "
         "\"flat\", expected \"rollback\"");
  if (const Json *value = json.find("compression"))
    request.compression = readCompression(*value);
  request.model = keyOf(require(json, "request", "model"), "model");
  std::vector<StateDecl> states = readAllStates(json, sides, reader.model);
  prepareModel(reader, states);
  request.source = reader.layout(Side::Source);
  request.destination = reader.layout(Side::Destination);
  request.tensors = std::move(reader.tensors);
  addBlockScales(sides, request);
  request.warnings = std::move(reader.warnings);
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
