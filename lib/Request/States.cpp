//===- States.cpp - Which states exist on which side ----------------------===//
//
// The top-level `state` holds for both sides; `state` inside a side takes its
// place there. Nothing is lost in silence: a state that only the source has
// must be listed in `drop`, one that only the destination has must be made
// from another (`derive`).
//
//===----------------------------------------------------------------------===//

#include "States.h"

#include "Names.h"

#include "dt/Geometry/Limits.h"
#include "dt/Geometry/Names.h"

#include <algorithm>
#include <set>

namespace dt::request {

namespace {

struct NamedDType {
  std::string name;
  DType dtype;
};

std::vector<NamedDType> readDTypes(const Json &json, const std::string &path) {
  std::vector<NamedDType> states;
  checkCount(asObject(json, path).members.size(), kMaxStates, path, "states");
  for (const Json::Member &member : json.members) {
    std::string where = pathOf(path, member.first);
    const std::string &text = asString(member.second, where);
    std::optional<DType> dtype = parseDType(text);
    if (!dtype)
      fail(where + " has the unknown dtype " + inQuotes(text));
    std::string problem = problemOfName(member.first);
    if (!problem.empty())
      fail(where + " is the name of a state that " + problem);
    states.push_back({member.first, *dtype});
  }
  if (states.empty())
    fail(path + " names no states");
  return states;
}

/// States of one side; empty: none given there nor at the top.
std::vector<NamedDType> statesOn(const Json &request, const Sides &sides,
                                 Side side) {
  if (const Json *own = sides.of(side).find("state"))
    return readDTypes(*own, std::string(sideName(side)) + ".state");
  const Json *shared = request.find("state");
  return shared ? readDTypes(*shared, "state") : std::vector<NamedDType>();
}

StateDecl *find(std::vector<StateDecl> &states, const std::string &name) {
  auto found = std::find_if(states.begin(), states.end(),
                            [&](const StateDecl &s) { return s.name == name; });
  return found == states.end() ? nullptr : &*found;
}

/// `all`: every entry must be about these states.
void readDerive(const Json &json, bool all, std::vector<StateDecl> &states) {
  checkCount(asObject(json, "derive").members.size(), kMaxRules, "derive",
             "entries");
  for (const Json::Member &member : json.members) {
    std::string path = pathOf("derive", member.first);
    StateDecl *to = find(states, member.first);
    const std::string &name = asString(member.second, path);
    StateDecl *from = find(states, name);
    if (!all && !(to && to->destination && from && from->source))
      continue;
    if (!to || !to->destination)
      fail(path + " names a state that the destination does not have");
    if (!from || !from->source || from == to)
      fail(path + " names " + inQuotes(name) +
           ", which is not another state of the source");
    if (!from->from.empty())
      fail(path + " names " + inQuotes(name) + ", which is derived itself");
    if (!canConvert(*from->source, *to->destination))
      fail(path + ": " + name + " is " + dtypeName(*from->source) +
           ", which does not convert to " + dtypeName(*to->destination));
    if (to->source && from->destination &&
        !roundAlike(*from->source, *from->destination, *to->source,
                    *to->destination))
      fail(path + ": " + member.first + " changes from " +
           dtypeName(*to->source) + " to " + dtypeName(*to->destination) +
           " and " + name + " from " + dtypeName(*from->source) + " to " +
           dtypeName(*from->destination) +
           ", which rounds otherwise what is sent than what is made");
    to->from = name;
  }
}

std::set<std::string> readDrop(const Json &json, bool all,
                               std::vector<StateDecl> &states) {
  std::set<std::string> dropped;
  const Json &list = asArray(json, "drop");
  checkCount(list.items.size(), kMaxRules, "drop", "entries");
  for (size_t i = 0; i < list.items.size(); ++i) {
    std::string path = "drop[" + std::to_string(i) + "]";
    const std::string &name = asString(list.items[i], path);
    const StateDecl *state = find(states, name);
    if (!all && !(state && state->source && !state->destination))
      continue;
    if (!state || !state->source)
      fail(path + " names " + inQuotes(name) +
           ", which is not a state of the source");
    if (state->destination)
      fail(path + " names " + inQuotes(name) + ", which the destination has");
    dropped.insert(name);
  }
  return dropped;
}

void checkSides(const std::vector<StateDecl> &states,
                const std::set<std::string> &dropped) {
  for (const StateDecl &state : states) {
    if (!state.destination && !dropped.count(state.name))
      fail("destination lacks state " + inQuotes(state.name) +
           ", which the source has: list it in \"drop\"");
    if (!state.source && state.from.empty())
      fail("source lacks state " + inQuotes(state.name) +
           ", which the destination has: say in \"derive\" what it is made "
           "from");
    if (state.source && state.destination &&
        !canConvert(*state.source, *state.destination))
      fail("state " + inQuotes(state.name) + " changes from " +
           dtypeName(*state.source) + " to " + dtypeName(*state.destination) +
           ", which does not convert: expected two of f64, f32, f16 and bf16");
  }
}

} // namespace

static void complete(const Json &request, bool all,
                     std::vector<StateDecl> &states) {
  if (const Json *value = request.find("derive"))
    readDerive(*value, all, states);
  std::set<std::string> dropped;
  if (const Json *value = request.find("drop"))
    dropped = readDrop(*value, all, states);
  checkSides(states, dropped);
}

std::vector<StateDecl> completeOwnStates(const Json &request,
                                         const std::string &tensor,
                                         std::vector<StateDecl> states) {
  try {
    complete(request, /*all=*/false, states);
  } catch (const JsonError &mistake) {
    fail("tensor " + inQuotes(tensor) + ": " + mistake.message);
  }
  for (const StateDecl &state : states)
    if (state.destination)
      return states;
  fail("tensor " + inQuotes(tensor) + " has no state in the destination");
}

std::vector<StateDecl> readStates(const Json &request, const Sides &sides,
                                  bool tensorsHaveOwn) {
  std::vector<NamedDType> source = statesOn(request, sides, Side::Source);
  std::vector<NamedDType> destination =
      statesOn(request, sides, Side::Destination);
  if (source.empty() != destination.empty())
    fail("state is given inside one side only: give it inside both, or at the "
         "top");
  std::vector<StateDecl> states;
  for (const NamedDType &state : source)
    states.push_back({state.name, state.dtype, std::nullopt, ""});
  for (const NamedDType &state : destination) {
    if (StateDecl *both = find(states, state.name))
      both->destination = state.dtype;
    else
      states.push_back({state.name, std::nullopt, state.dtype, ""});
  }
  checkCount(states.size(), kMaxStates, "state", "states on both sides");
  complete(request, !(states.empty() && tensorsHaveOwn), states);
  return states;
}

void checkBytes(const TensorDecl &tensor, const std::string &path) {
  int64_t source = 0, destination = 0;
  for (const StateDecl &state : tensor.states) {
    source += state.source ? byteWidth(*state.source) : 0;
    destination += state.destination ? byteWidth(*state.destination) : 0;
  }
  int64_t bytes = std::max(source, destination);
  for (int64_t size : tensor.shape)
    if (__builtin_mul_overflow(bytes, size, &bytes) || bytes > kMaxBytes)
      fail(path +
           " has more elements, all states together, than the limit of " +
           std::to_string(kMaxBytes) + " bytes holds");
}

std::vector<TensorDecl> tensorsOn(Side side,
                                  const std::vector<TensorDecl> &tensors) {
  std::vector<TensorDecl> out = tensors;
  for (TensorDecl &tensor : out) {
    auto isAbsent = [&](const StateDecl &state) {
      return !(side == Side::Source ? state.source : state.destination);
    };
    tensor.states.erase(
        std::remove_if(tensor.states.begin(), tensor.states.end(), isAbsent),
        tensor.states.end());
  }
  return out;
}

void leaveOut(const Sides &sides, std::vector<TensorDecl> &tensors) {
  if (sides.source.find("without"))
    fail("source.without: what the source does not have, nothing can make: "
         "leave it out of the model");
  const Json *list = sides.destination.find("without");
  if (!list)
    return;
  const std::string path = "destination.without";
  checkCount(asArray(*list, path).items.size(), kMaxRules, path, "entries");
  for (size_t i = 0; i < list->items.size(); ++i) {
    std::string where = path + "[" + std::to_string(i) + "]";
    const std::string &glob = asString(list->items[i], where);
    bool matches = false;
    for (TensorDecl &tensor : tensors) {
      if (!matchesGlob(glob, tensor.name))
        continue;
      matches = true;
      for (StateDecl &state : tensor.states) {
        state.destination.reset();
        state.from.clear();
      }
      tensor.states = tensorsOn(Side::Source, {tensor}).front().states;
    }
    if (!matches)
      fail(where + " is " + inQuotes(glob) + ", which no tensor matches");
  }
}

void nameStates(const std::vector<TensorDecl> &all,
                const std::vector<TensorDecl> &existing, LayoutDecl &layout) {
  for (PlaceDecl &place : layout.places) {
    const std::vector<StateDecl> &own = existing[place.tensor].states;
    if (!place.states.empty() || own.size() == all[place.tensor].states.size())
      continue;
    for (const StateDecl &state : own)
      place.states.push_back(state.name);
  }
}

} // namespace dt::request
