//===- RequestSet.cpp - One request for several plans ---------------------===//

#include "dt/Request/RequestSet.h"

#include "DeviceLists.h"
#include "ParallelSizes.h"
#include "RequestReading.h"
#include "SetItems.h"

#include "dt/Geometry/Names.h"

#include <exception>

namespace dt {

using namespace request;

struct RequestSet::State {
  Json json;
  std::string modelFile; // its text; "" where the request has the model
  std::shared_ptr<const Model> model;

  void readModel(const std::string &directory, const State *like);
  Cluster measured;
  SetItems items;
};

namespace {

/// Names come from files: an error stays one line, and a short one, whatever
/// they hold.
std::string oneLine(const std::string &text) {
  constexpr size_t kMostShown = 1000;
  std::string line = shorten(text, kMostShown);
  for (char &c : line)
    if (static_cast<unsigned char>(c) < ' ')
      c = ' ';
  return line;
}

/// What `read` gives; nothing, with `error` set, where it throws.
template <typename Read>
auto caught(Read read, std::string &error) -> std::optional<decltype(read())> {
  try {
    return read();
  } catch (const JsonError &mistake) {
    error = oneLine(mistake.message);
  } catch (const std::exception &failure) {
    error = oneLine(std::string("cannot read the request: ") + failure.what());
  }
  return std::nullopt;
}

} // namespace

void RequestSet::State::readModel(const std::string &directory,
                                  const State *like) {
  const Json &named = require(json, "request", "model");
  modelFile = readModelFile(named, directory);
  bool isAlike = like && like->modelFile == modelFile &&
                 isSameValue(require(like->json, "request", "model"), named);
  model =
      isAlike
          ? like->model
          : std::make_shared<const Model>(request::readModel(named, modelFile));
}

RequestSet::RequestSet(std::unique_ptr<State> state)
    : state(std::move(state)) {}
RequestSet::RequestSet(RequestSet &&) noexcept = default;
RequestSet &RequestSet::operator=(RequestSet &&) noexcept = default;
RequestSet::~RequestSet() = default;

std::optional<RequestSet> RequestSet::read(const std::string &json,
                                           const std::string &directory,
                                           std::string &error,
                                           const RequestSet *like) {
  auto parsed = caught([&] { return parseJson(json, "request"); }, error);
  if (!parsed)
    return std::nullopt;
  return read(std::move(*parsed), directory, error, like);
}

std::optional<RequestSet> RequestSet::read(Json request,
                                           const std::string &directory,
                                           std::string &error,
                                           const RequestSet *like) {
  auto read = [&] {
    auto state = std::make_unique<State>();
    state->json = std::move(request);
    checkKeys(state->json, "request",
              {"model", "state", "derive", "drop", "extra", "rules", "source",
               "destination", "swaps", "steps", "cluster", "memory",
               "compression", "vocab_multiple"});
    require(state->json, "request", "model");
    state->items = readItems(state->json);
    state->readModel(directory, like ? like->state.get() : nullptr);
    state->measured = readCalibration(state->json, directory);
    return RequestSet(std::move(state));
  };
  return caught(read, error);
}

bool RequestSet::isFamily() const { return state->items.isFamily; }
size_t RequestSet::size() const { return state->items.items.size(); }

const std::string &RequestSet::name(size_t index) const {
  return state->items.items[index].name;
}
const std::string &RequestSet::sourceName(size_t index) const {
  return state->items.items[index].sourceName;
}
const std::string &RequestSet::destinationName(size_t index) const {
  return state->items.items[index].destinationName;
}
const std::string &RequestSet::lost(size_t index) const {
  return state->items.items[index].lost;
}

std::optional<Request> RequestSet::request(size_t index,
                                           std::string &error) const {
  const SetItem &item = state->items.items[index];
  auto read = [&] {
    if (!isFamily())
      return readTransition(state->json, {*item.source, *item.destination},
                            *state->model, state->measured);
    Json source = sourceOf(item), destination = destinationOf(item);
    return readTransition(state->json, {source, destination}, *state->model,
                          state->measured);
  };
  return caught(read, error);
}

std::optional<RequestSet> RequestSet::withoutDevices() const {
  if (isFamily() || !onlyPlacesRanks(state->json))
    return std::nullopt;
  auto out = std::make_unique<State>();
  out->json = withoutDeviceLists(state->json);
  out->items = readItems(out->json);
  out->modelFile = state->modelFile;
  out->model = state->model;
  return RequestSet(std::move(out));
}

bool RequestSet::isButForDevices(const RequestSet &without) const {
  return onlyPlacesRanks(state->json) &&
         isSameValue(withoutDeviceLists(state->json), without.state->json) &&
         state->modelFile == without.state->modelFile;
}

std::optional<std::vector<int64_t>> RequestSet::devices(Side side) const {
  std::string path = sideName(side), error;
  auto read = [&] {
    const Json &layout = require(state->json, "request", path);
    return readDevices(layout, path, readWorld(layout, path));
  };
  return caught(read, error);
}

} // namespace dt
