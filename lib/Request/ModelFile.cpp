//===- ModelFile.cpp - Finds out what a model file holds ------------------===//
//
// Three kinds: a config.json of a known model type ("model_type"), a list
// {"tensors": [{"name", "shape", "dtype" or "state"}]}, and a flat object from
// names to
// {"shape", "dtype"} as the header of a safetensors file has it.
//
//===----------------------------------------------------------------------===//

#include "Model.h"

#include "dt/Geometry/Box.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <unordered_set>

namespace dt::request {

namespace {

/// Leading dims that families add to a tensor's own: layer and expert.
constexpr unsigned kLeadingDims = 2;

std::string readFile(const std::string &path, const std::string &shown) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf()))
    fail("model " + inQuotes(shown) +
         " cannot be read: " + std::strerror(errno ? errno : EISDIR));
  return text.str();
}

void checkShape(const ModelTensor &tensor) {
  constexpr size_t limit = kMaxRank - kLeadingDims;
  std::string path = "tensor " + inQuotes(tensor.name);
  if (tensor.shape.size() > limit)
    fail(path + " has " + std::to_string(tensor.shape.size()) +
         " dims, more than the limit of " + std::to_string(limit));
  int64_t bytes = 8; // of the widest dtype
  for (int64_t size : tensor.shape)
    if (__builtin_mul_overflow(bytes, size, &bytes))
      fail(path + " has more elements than fit 63 bits of bytes");
}

DType readDType(const Json &value, const std::string &path) {
  const std::string &text = asString(value, path + " dtype");
  std::optional<DType> parsed = parseDType(text);
  if (!parsed)
    fail(path + " has the unknown dtype " + inQuotes(text));
  return *parsed;
}

/// A dtype for both sides, or [source, destination] with null for none.
StateDecl readOwnState(const Json::Member &member, const std::string &path) {
  StateDecl state;
  state.name = member.first;
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
  for (const Json::Member &member : asObject(json, path + " state").members)
    states.push_back(readOwnState(member, path + " state." + member.first));
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
        asString(require(item, itemPath, "name"), itemPath + ".name");
    if (name.empty())
      fail(itemPath + ".name is empty");
    if (!names.insert(name).second)
      fail("tensor " + inQuotes(name) + " stands twice in " + path);
    model.tensors.push_back(readTensor(name, item, item.find("state")));
    if (const Json *storage = item.find("storage"))
      model.tensors.back().storage =
          readStorage(*storage, itemPath + ".storage");
  }
  return model;
}

/// Keys besides shape and dtype are other tools' and are left alone.
Model readFlatList(const Json &list) {
  Model model;
  for (const Json::Member &member : list.members) {
    if (member.first == "__metadata__") // safetensors: free text
      continue;
    model.tensors.push_back(readTensor(member.first, member.second));
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
    model = readFlatList(json);
  }
  if (model.tensors.empty())
    fail(path + " has no tensors");
  for (const ModelTensor &tensor : model.tensors)
    checkShape(tensor);
  return model;
}

} // namespace

std::string readStorage(const Json &value, const std::string &path) {
  const std::string &name = asString(value, path);
  if (name.empty())
    fail(path + " is empty, expected the name of a group of tensors");
  return name;
}

Model readModel(const Json &model, const std::string &directory) {
  if (model.isObject())
    return readAnyModel(model, "model");
  const std::string &path = asString(model, "model");
  bool absolute = !path.empty() && path[0] == '/';
  std::string full =
      absolute || directory.empty() ? path : directory + "/" + path;
  std::string what = "model " + inQuotes(path);
  return readAnyModel(parseJson(readFile(full, path), what), what);
}

} // namespace dt::request
