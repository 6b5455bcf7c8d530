//===- JoinedTensors.cpp - Tensors that a side concatenates ---------------===//

#include "JoinedTensors.h"

#include "Names.h"

#include "dt/Geometry/Box.h"
#include "dt/Geometry/Limits.h"
#include "dt/Geometry/Names.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_set>

namespace dt::request {

namespace {

/// What is wrong with two tensors in one; empty: nothing.
std::string problemOf(const ModelTensor &a, const ModelTensor &b, int64_t dim) {
  if (!a.storage.empty() || !b.storage.empty())
    return "share a storage with others";
  if (a.dtype != b.dtype || a.states.size() != b.states.size() ||
      !std::equal(a.states.begin(), a.states.end(), b.states.begin(),
                  [](const StateDecl &x, const StateDecl &y) {
                    return std::tie(x.name, x.source, x.destination, x.from) ==
                           std::tie(y.name, y.source, y.destination, y.from);
                  }))
    return "have different dtypes or states";
  if (a.buffer != b.buffer || a.layer != b.layer || a.expert != b.expert ||
      a.stage != b.stage)
    return "are of different layers, experts or stages";
  if (a.shape.size() != b.shape.size())
    return "have " + std::to_string(a.shape.size()) + " and " +
           std::to_string(b.shape.size()) + " dims";
  if (dim >= int64_t(a.shape.size()))
    return "have no dim " + std::to_string(dim);
  for (size_t d = 0; d < a.shape.size(); ++d)
    if (int64_t(d) != dim && a.shape[d] != b.shape[d])
      return "have " + std::to_string(a.shape[d]) + " and " +
             std::to_string(b.shape[d]) + " elements along dim " +
             std::to_string(d);
  return "";
}

void checkGroup(const Concat &concat, const Group &group,
                const TensorsByName &listed) {
  int64_t size = 0;
  const ModelTensor &first = listed.tensors()[group.tensors.front()];
  std::unordered_set<uint32_t> seen;
  for (uint32_t number : group.tensors) {
    const ModelTensor &tensor = listed.tensors()[number];
    std::string problem = problemOf(first, tensor, group.dim);
    if (!problem.empty())
      fail(concat.path + ".concat: tensors " + inQuotes(first.name) + " and " +
           inQuotes(tensor.name) + " " + problem);
    if (!seen.insert(number).second)
      fail(concat.path + ".concat has tensor " + inQuotes(tensor.name) +
           " twice");
    size += tensor.shape[group.dim];
    if (size > kMaxBytes)
      fail(concat.path + ".concat has more elements along dim " +
           std::to_string(group.dim) + " than the limit of " +
           std::to_string(kMaxBytes));
  }
}

/// The groups of both sides, each once.
class Groups {
public:
  Groups(const Model &listed)
      : listed(listed), byName(listed), partings(listed) {}

  void add(const Json *views, const std::string &path) {
    if (!views || !views->isArray())
      return; // readViews says so
    checkCount(views->items.size(), kMaxRules, path, "views");
    for (size_t i = 0; i < views->items.size(); ++i) {
      const Json &entry = views->items[i];
      std::string where = path + "[" + std::to_string(i) + "]";
      if (auto concat = readConcat(entry, where))
        for (Group &group : groupsOf(*concat, byName))
          add(std::move(group), concat->path);
      else if (auto unflatten = readUnflatten(entry, where))
        partings.add(*unflatten,
                     asString(require(entry, where, "of"), where + ".of"));
    }
  }

  bool empty() const { return groups.empty() && partings.empty(); }

  JoinedModel join() const {
    JoinedModel out;
    out.listed = listed;
    out.parts.resize(listed.tensors.size());
    out.partings.resize(listed.tensors.size());
    out.model = listed;
    out.model.tensors.clear();
    std::vector<bool> isDone(groups.size());
    std::unordered_set<std::string> names;
    for (uint32_t t = 0; t < listed.tensors.size(); ++t) {
      auto found = groupOf.find(t);
      auto next = uint32_t(out.model.tensors.size());
      if (found == groupOf.end()) {
        out.partings[t] = partings.of(t);
        out.parts[t].tensor = next;
        out.model.tensors.push_back(partings.of(t).apply(listed.tensors[t]));
      } else if (!isDone[found->second]) {
        isDone[found->second] = true;
        out.model.tensors.push_back(joined(groups[found->second], next, out));
      }
      if (out.model.tensors.size() > next &&
          !names.insert(out.model.tensors.back().name).second)
        fail("a \"concat\" of views makes tensor " +
             inQuotes(out.model.tensors.back().name) +
             ", a name that the model has for another");
    }
    return out;
  }

private:
  void add(Group group, const std::string &path) {
    for (uint32_t tensor : group.tensors) {
      auto [known, isNew] = groupOf.try_emplace(tensor, groups.size());
      if (isNew)
        continue;
      const Group &other = groups[known->second];
      if (other.tensors == group.tensors && other.dim == group.dim)
        return; // the other side has the same
      fail(path + ".concat has tensor " +
           inQuotes(listed.tensors[tensor].name) + ", which is in " +
           inQuotes(other.name) + " in another way");
    }
    groups.push_back(std::move(group));
  }

  /// The tensor of a group, number `index` of the joined model.
  ModelTensor joined(const Group &group, uint32_t index,
                     JoinedModel &out) const {
    ModelTensor tensor = listed.tensors[group.tensors.front()];
    tensor.name = group.name;
    tensor.shape[group.dim] = 0;
    JoinedParting parting = partings.joined(group.tensors, group.dim);
    int64_t dim = parting.whole.firstPart(group.dim), offset = 0;
    for (size_t i = 0; i < group.tensors.size(); ++i) {
      uint32_t t = group.tensors[i];
      const ModelTensor &part = listed.tensors[t];
      out.partings[t] = parting.parts[i];
      out.parts[t] = {index, dim, offset};
      offset += parting.parts[i].apply(part).shape[dim];
      tensor.shape[group.dim] += part.shape[group.dim];
      // Of several parts that are cut, only a rule can say in which blocks.
      tensor.hasCut &= part.hasCut && !part.cut.tpDim;
    }
    out.ones[index] = {tensor, parting.whole};
    return parting.whole.apply(tensor);
  }

  const Model &listed;
  TensorsByName byName;
  Partings partings;
  std::vector<Group> groups;
  std::map<uint32_t, size_t> groupOf;
};

} // namespace

std::optional<Concat> readConcat(const Json &entry, const std::string &path) {
  const Json *of = entry.isObject() ? entry.find("concat") : nullptr;
  if (!of)
    return std::nullopt;
  checkKeys(entry, path, {"concat", "tensor", "dim"});
  Concat out;
  out.path = path;
  out.key = keyOf(entry, path);
  const std::vector<Json> &items = asArray(*of, path + ".concat").items;
  for (size_t i = 0; i < items.size(); ++i)
    out.of.push_back(
        asString(items[i], path + ".concat[" + std::to_string(i) + "]"));
  if (out.of.size() < 2)
    fail(path + ".concat must name two tensors or more");
  out.tensor = asString(require(entry, path, "tensor"), path + ".tensor");
  if (const Json *dim = entry.find("dim"))
    out.dim = asInteger(*dim, path + ".dim", 0, kMaxRank);
  return out;
}

std::optional<uint32_t> TensorsByName::find(const std::string &name) {
  if (numbers.empty())
    for (uint32_t t = 0; t < model.tensors.size(); ++t)
      numbers.emplace(model.tensors[t].name, t);
  auto found = numbers.find(name);
  return found == numbers.end() ? std::nullopt
                                : std::optional<uint32_t>(found->second);
}

std::vector<Group> groupsOf(const Concat &concat, TensorsByName &listed) {
  std::vector<Group> out;
  for (const ModelTensor &first : listed.tensors()) {
    auto matched = matchGlob(concat.of.front(), first.name);
    if (!matched)
      continue;
    Group group;
    group.dim = concat.dim;
    group.name = fillIn(concat.tensor, "*", *matched, concat.path + ".tensor");
    if (std::string problem = problemOfName(group.name); !problem.empty())
      fail(concat.path + " names a tensor " + inQuotes(group.name) +
           ", a name that " + problem);
    for (size_t i = 0; i < concat.of.size(); ++i) {
      std::string path = concat.path + ".concat[" + std::to_string(i) + "]";
      std::string name = fillIn(concat.of[i], "*", *matched, path);
      std::optional<uint32_t> found = listed.find(name);
      if (!found)
        fail(path + " names tensor " + inQuotes(name) +
             ", which the model lacks");
      group.tensors.push_back(*found);
    }
    checkGroup(concat, group, listed);
    out.push_back(std::move(group));
  }
  if (out.empty())
    fail(concat.path + ".concat[0] is " + inQuotes(concat.of.front()) +
         ", which no tensor of the model matches");
  return out;
}

JoinedModel unjoined(const Model &model) { return Groups(model).join(); }

std::optional<JoinedModel>
joinTensors(const Json *source, const Json *destination, const Model &listed) {
  Groups groups(listed);
  groups.add(source, "source.views");
  groups.add(destination, "destination.views");
  if (groups.empty())
    return std::nullopt;
  return groups.join();
}

} // namespace dt::request
