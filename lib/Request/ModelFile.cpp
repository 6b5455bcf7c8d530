//===- ModelFile.cpp - Finds out what a model file holds ------------------===//
//
// Three kinds: a config.json of a known model type ("model_type"), a list
// {"tensors": [{"name", "shape", "dtype" or "state"}]}, and a flat object from
// names to
// {"shape", "dtype"} as the header of a safetensors file has it.
//
//===----------------------------------------------------------------------===//

#include "ModelFile.h"
#include "NamedFile.h"

#include "dt/Megatron/Config.h"

#include "dt/Geometry/Box.h"
#include "dt/Geometry/Limits.h"
#include "dt/Geometry/Names.h"

#include <unordered_set>

namespace dt::request {

namespace {

/// Leading dims that families add to a tensor's own: layer and expert.
constexpr unsigned kLeadingDims = 2;

void checkShape(const ModelTensor &tensor) {
  constexpr size_t limit = kMaxRank - kLeadingDims;
  std::string path = "tensor " + inQuotes(tensor.name);
  if (tensor.shape.size() > limit)
    fail(path + " has " + std::to_string(tensor.shape.size()) +
         " dims, more than the limit of " + std::to_string(limit));
}

DType readDType(const Json &value, const std::string &path) {
  const std::string &text = asString(value, path + " dtype");
  std::optional<DType> parsed = parseDType(text);
  if (!parsed)
    fail(path + " has the unknown dtype " + inQuotes(text));
  return *parsed;
}

void checkStateName(const std::string &name, const std::string &path) {
  std::string problem = problemOfName(name);
  if (!problem.empty())
    fail(path + " is a name that " + problem);
}

/// A dtype for both sides, or [source, destination] with null for none.
StateDecl readOwnState(const Json::Member &member, const std::string &path) {
  StateDecl state;
  state.name = member.first;
  checkStateName(member.first, path);
  if (!member.second.isArray()) {
    state.source = state.destination = readDType(member.second, path);
    return state;
  }
  const std::vector<Json> &sides = member.second.items;
  if (sides.size() != 2)
    fail(path + " must be a dtype or [source, destination], not a list of " +
         std::to_string(sides.size()));
  if (!sides[0].isNull())
    state.source = readDType(sides[0], path);
  if (!sides[1].isNull())
    state.destination = readDType(sides[1], path);
  return state;
}

std::vector<StateDecl> readOwnStates(const Json &json,
                                     const std::string &path) {
  std::vector<StateDecl> states;
  checkCount(asObject(json, path + " state").members.size(), kMaxStates,
             path + " state", "states");
  for (const Json::Member &member : json.members)
    states.push_back(
        readOwnState(member, pathOf(path + " state", member.first)));
  if (states.empty())
    fail(path + " state names no states");
  return states;
}

ModelTensor readTensor(const std::string &name, const Json &value,
                       const Json *states = nullptr) {
  std::string path = "tensor " + inQuotes(name);
  ModelTensor tensor;
  tensor.name = name;
  tensor.shape =
      asIntegers(require(value, path, "shape"), path + " shape", /*least=*/1);
  if (states)
    tensor.states = readOwnStates(*states, path);
  if (!states || value.find("dtype"))
    tensor.dtype = readDType(require(value, path, "dtype"), path);
  return tensor;
}

Model readTensorArray(const Json &tensors, const std::string &path) {
  Model model;
  std::unordered_set<std::string> names;
  for (const Json &item : asArray(tensors, path).items) {
    std::string itemPath =
        path + "[" + std::to_string(model.tensors.size()) + "]";
    checkKeys(item, itemPath, {"name", "shape", "dtype", "state", "storage"});
    const std::string &name =
        asName(require(item, itemPath, "name"), itemPath + ".name");
    if (!names.insert(name).second)
      fail("tensor " + inQuotes(name) + " appears twice in " + path);
    model.tensors.push_back(readTensor(name, item, item.find("state")));
    if (const Json *storage = item.find("storage"))
      model.tensors.back().storage = asName(*storage, itemPath + ".storage");
    model.tensors.back().key = keyOf(item, itemPath);
  }
  return model;
}

/// Keys besides shape and dtype are other tools' and are left alone.
Model readFlatList(const Json &list, const std::string &path) {
  Model model;
  for (const Json::Member &member : list.members) {
    if (member.first == "__metadata__") // safetensors: free text
      continue;
    std::string problem = problemOfName(member.first);
    if (!problem.empty())
      fail("tensor " + inQuotes(member.first) + " " + problem);
    model.tensors.push_back(readTensor(member.first, member.second));
    model.tensors.back().key = keyOf(member.second, pathOf(path, member.first));
  }
  return model;
}

Model readAnyModel(const Json &json, const std::string &path) {
  asObject(json, path);
  Model model;
  const Json *tensors = json.find("tensors");
  if (json.find("model_type")) {
    model = readConfig(json, path);
  } else if (tensors && tensors->isArray()) {
    checkKeys(json, path, {"tensors"});
    model = readTensorArray(*tensors, path + ".tensors");
  } else {
    model = readFlatList(json, path);
  }
  if (model.tensors.empty())
    fail(path + " has no tensors");
  checkCount(model.tensors.size(), kMaxTensors, path, "tensors");
  for (const ModelTensor &tensor : model.tensors)
    checkShape(tensor);
  return model;
}

std::string nameOf(const Json &model) {
  return "model " + inQuotes(asString(model, "model"));
}

Model modelOfFile(const Json &model, const std::string &text) {
  std::string what = nameOf(model);
  Model out = readAnyModel(parseJson(text, what), what);
  for (ModelTensor &tensor : out.tensors)
    tensor.key = {};
  return out;
}

} // namespace

std::string readModelFile(const Json &model, const std::string &directory) {
  if (model.isObject())
    return "";
  return readNamedText(asString(model, "model"), directory, nameOf(model));
}

Model readModel(const Json &model, const std::string &file) {
  Model out = model.isObject() ? readAnyModel(model, "model")
                               : modelOfFile(model, file);
  for (ModelTensor &tensor : out.tensors)
    if (tensor.key.path.empty())
      tensor.key = keyOf(model, "model");
  return out;
}

} // namespace dt::request
