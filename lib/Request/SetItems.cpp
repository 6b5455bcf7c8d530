//===- SetItems.cpp - Which transitions a request is for ------------------===//
//
//   "destination": {...}                              one
//   "destination": [{"name": "a", ...}, ...]          one for each entry
//   "destination": {"each_lost": "node", ...}         one for each loss; in a
//                                                     list too
//   "swaps": [{"name": "a", ...}, ...]                each to each other
//   "steps": [{"name": "a", ...}, ...]                each to the next
//
// A loss leaves the devices of the source, in the order of its ranks, but for
// those that are gone. What lies on them then is what `layout` says for so many
// devices; without it the source's layout, with fewer replicas.
//
//===----------------------------------------------------------------------===//

#include "SetItems.h"

#include "Cluster.h"
#include "ParallelSizes.h"

#include "dt/Geometry/Limits.h"

#include <algorithm>
#include <map>
#include <set>

namespace dt::request {

namespace {

std::string at(const std::string &path, size_t index) {
  return path + "[" + std::to_string(index) + "]";
}

/// Names become names of files.
void checkFileName(const std::string &name, const std::string &path) {
  constexpr size_t kMostBytes = 128;
  auto isFine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  };
  if (name.empty() || name.size() > kMostBytes || name[0] == '.' ||
      name[0] == '-' || !std::all_of(name.begin(), name.end(), isFine))
    fail(path + " is " + inQuotes(name) +
         ", which cannot name a plan's file: expected up to " +
         std::to_string(kMostBytes) +
         " letters, digits, '_', '-' and '.', the first no '-' or '.'");
}

/// The name that a layout of a list has; `standard`, if any, where it has none.
std::string layoutName(const Json &layout, const std::string &path,
                       const std::string &standard) {
  if (!asObject(layout, path).find("name") && !standard.empty())
    return standard;
  const std::string &name =
      asString(require(layout, path, "name"), path + ".name");
  checkFileName(name, path + ".name");
  return name;
}

/// The losses of one `each_lost`.
class Losses {
public:
  Losses(const Json &request, const Json &family, const std::string &path)
      : request(request), family(family), path(path),
        source(require(request, "request", "source")) {}

  void addTo(std::vector<SetItem> &items);

private:
  void readLayouts();
  std::map<int64_t, Loss> losses(bool byNode) const;
  void choose(SetItem &item) const;
  void keepLayout(SetItem &item, const std::string &what) const;
  std::string leaves(const SetItem &item, const std::string &what) const;

  const Json &request;
  const Json &family;
  const std::string &path;
  const Json &source;
  std::map<int64_t, const Json *> layouts; // by world
  bool spareLast = false;
};

void Losses::readLayouts() {
  const Json *layout = family.find("layout");
  if (!layout)
    return;
  std::vector<std::pair<const Json *, std::string>> found;
  if (layout->isArray())
    for (size_t i = 0; i < layout->items.size(); ++i)
      found.push_back({&layout->items[i], at(path + ".layout", i)});
  else
    found.push_back({layout, path + ".layout"});
  if (found.empty())
    fail(path + ".layout has no layouts");
  for (const auto &[one, where] : found) {
    if (asObject(*one, where).find("devices"))
      fail(where + " has \"devices\": these are what each loss leaves");
    int64_t world = readWorld(*one, where);
    if (!layouts.emplace(world, one).second)
      fail(where + " is the second layout for " + std::to_string(world) +
           " devices");
  }
}

/// By number of the node or device.
std::map<int64_t, Loss> Losses::losses(bool byNode) const {
  Cluster cluster;
  if (const Json *value = request.find("cluster"))
    cluster.devicesPerNode = readDevicesPerNode(*value);
  int64_t world = readWorld(asObject(source, "source"), "source");
  std::vector<int64_t> devices = readDevices(source, "source", world);
  std::map<int64_t, Loss> found;
  for (int64_t rank = 0; rank < world; ++rank) {
    int64_t device = devices.empty() ? rank : devices[rank];
    int64_t place = byNode ? cluster.node(device) : device;
    Loss &loss = found[place];
    if (!loss.any()) {
      loss.remaining = world;
      loss.first = byNode ? place * cluster.devicesPerNode : device;
      loss.last = byNode ? loss.first + cluster.devicesPerNode - 1 : device;
    }
    --loss.remaining;
  }
  return found;
}

std::string Losses::leaves(const SetItem &item, const std::string &what) const {
  return path + ": without " + what + " " +
         std::to_string(item.loss.remaining) + " devices remain, ";
}

/// The source's layout on fewer devices, if they are whole replicas.
void Losses::keepLayout(SetItem &item, const std::string &what) const {
  if (source.find("shards"))
    fail(path + " has no \"layout\", and the source, which is by explicit "
                "shards, does not say what fewer devices hold");
  int64_t world = readWorld(source, "source");
  const Json *dp = source.find("dp");
  int64_t replicas = dp ? asInteger(*dp, "source.dp", 1, kMaxRanks) : 1;
  int64_t each = std::max<int64_t>(1, world / replicas);
  item.replicas = item.loss.remaining / each;
  item.world = item.replicas * each;
  if (item.replicas == 0)
    fail(leaves(item, what) + "fewer than the " + std::to_string(each) +
         " of one replica: say in \"layout\" what they hold");
  if (item.world != item.loss.remaining && !spareLast)
    fail(leaves(item, what) + "no whole number of replicas of " +
         std::to_string(each) +
         ": say in \"layout\" what they hold, or \"spare\": \"last\"");
}

/// The layout for the devices that remain.
void Losses::choose(SetItem &item) const {
  std::string what = "device " + item.lost;
  if (item.loss.last != item.loss.first || item.lost[0] == 'n')
    what = "node " + item.lost.substr(std::string("node:").size());
  if (layouts.empty())
    return keepLayout(item, what);
  auto above = layouts.upper_bound(item.loss.remaining);
  if (above != layouts.begin()) {
    auto [world, layout] = *std::prev(above);
    item.destination = layout;
    item.world = world;
    if (world == item.loss.remaining || spareLast)
      return;
  }
  std::string known;
  for (const auto &[world, layout] : layouts)
    known += (known.empty() ? "" : ", ") + std::to_string(world);
  fail(leaves(item, what) + "but \"layout\" is for " + known +
       (spareLast ? "" : "; \"spare\": \"last\" would leave some idle"));
}

void Losses::addTo(std::vector<SetItem> &items) {
  checkKeys(family, path, {"each_lost", "layout", "spare"});
  const std::string &kind =
      asString(*family.find("each_lost"), path + ".each_lost");
  if (kind != "node" && kind != "device")
    fail(path + ".each_lost is " + inQuotes(kind) +
         ": expected \"node\" or \"device\"");
  if (const Json *spare = family.find("spare")) {
    if (asString(*spare, path + ".spare") != "last")
      fail(path + ".spare is " + inQuotes(spare->string) +
           ": expected \"last\"");
    spareLast = true;
  }
  readLayouts();
  std::map<int64_t, Loss> found = losses(kind == "node");
  checkCount(items.size() + found.size(), kMaxSetPlans, path, "plans");
  for (const auto &[place, loss] : found) {
    SetItem item;
    item.lost = (kind == "node" ? "node:" : "") + std::to_string(place);
    item.name = "lost-" + kind + "-" + std::to_string(place);
    item.source = &source;
    item.loss = loss;
    if (loss.remaining == 0)
      fail(path + ": without " + kind + " " + std::to_string(place) +
           " no device remains");
    choose(item);
    items.push_back(std::move(item));
  }
}

void addDestination(const Json &request, const Json &layout,
                    const std::string &path, const std::string &standard,
                    std::vector<SetItem> &items) {
  if (asObject(layout, path).find("each_lost"))
    return Losses(request, layout, path).addTo(items);
  SetItem item;
  item.name = layoutName(layout, path, standard);
  item.destinationName = item.name;
  item.source = &require(request, "request", "source");
  item.destination = &layout;
  items.push_back(std::move(item));
}

/// Of a list of layouts: each to each other, or each to the next.
enum class Pairs { All, Neighbours };

void addPairs(const Json &list, const std::string &path, Pairs pairs,
              std::vector<SetItem> &items) {
  size_t count = asArray(list, path).items.size();
  if (count < 2)
    fail(path + " has " + std::to_string(count) +
         " layouts: expected two or more");
  checkCount(pairs == Pairs::All ? count * (count - 1) : count - 1,
             kMaxSetPlans, path, "plans");
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i)
    names.push_back(layoutName(list.items[i], at(path, i), ""));
  for (size_t from = 0; from < count; ++from)
    for (size_t to = 0; to < count; ++to) {
      if (pairs == Pairs::All ? from == to : from + 1 != to)
        continue;
      SetItem item;
      item.sourceName = names[from];
      item.destinationName = names[to];
      item.name = names[from] + "-to-" + names[to];
      item.source = &list.items[from];
      item.destination = &list.items[to];
      items.push_back(std::move(item));
    }
}

void checkNames(const std::vector<SetItem> &items) {
  std::set<std::string> names;
  for (const SetItem &item : items)
    if (!names.insert(item.name).second)
      fail("two plans of the request have the name " + inQuotes(item.name));
}

/// Without the members that are not a layout's own.
Json copyWithout(const Json &layout, std::initializer_list<const char *> keys) {
  Json out = layout;
  auto isLeftOut = [&](const Json::Member &member) {
    return std::any_of(keys.begin(), keys.end(),
                       [&](const char *key) { return member.first == key; });
  };
  out.members.erase(
      std::remove_if(out.members.begin(), out.members.end(), isLeftOut),
      out.members.end());
  return out;
}

Json number(int64_t value) {
  Json out;
  out.kind = Json::Kind::Integer;
  out.integer = value;
  out.number = double(value);
  return out;
}

/// The first `world` devices that a loss leaves, in the source's order.
Json remainingDevices(const SetItem &item) {
  int64_t sourceWorld = readWorld(*item.source, "source");
  std::vector<int64_t> devices =
      readDevices(*item.source, "source", sourceWorld);
  Json list;
  list.kind = Json::Kind::Array;
  for (int64_t rank = 0; rank < sourceWorld; ++rank) {
    int64_t device = devices.empty() ? rank : devices[rank];
    if (!item.loss.takes(device) &&
        static_cast<int64_t>(list.items.size()) < item.world)
      list.items.push_back(number(device));
  }
  return list;
}

} // namespace

/// What `swaps` or `steps` ask for; false where the request has neither.
static bool readPairs(const Json &request, SetItems &out) {
  for (const char *key : {"swaps", "steps"})
    if (const Json *list = request.find(key)) {
      for (const char *other : {"source", "destination", "steps"})
        if (other != std::string(key) && request.find(other))
          fail(std::string("request has \"") + other + "\" beside \"" + key +
               "\", which says both sides");
      addPairs(*list, key,
               key == std::string("swaps") ? Pairs::All : Pairs::Neighbours,
               out.items);
      return true;
    }
  return false;
}

/// What a family of destinations asks for.
static void readDestinations(const Json &request, const Json &destination,
                             SetItems &out) {
  if (!destination.isArray())
    return addDestination(request, destination, "destination", "", out.items);
  size_t count = destination.items.size();
  if (count == 0)
    fail("destination has no layouts");
  checkCount(count, kMaxSetPlans, "destination", "plans");
  for (size_t i = 0; i < count; ++i)
    addDestination(request, destination.items[i], at("destination", i),
                   "destination-" + std::to_string(i), out.items);
}

SetItems readItems(const Json &request) {
  SetItems out;
  out.isFamily = true;
  if (!readPairs(request, out)) {
    const Json &source = require(request, "request", "source");
    const Json &destination = require(request, "request", "destination");
    out.isFamily = destination.isArray() || destination.find("each_lost");
    if (!out.isFamily) {
      SetItem item;
      item.source = &source;
      item.destination = &destination;
      out.items.push_back(std::move(item));
      return out;
    }
    readDestinations(request, destination, out);
  }
  checkCount(out.items.size(), kMaxSetPlans, "request", "plans");
  checkNames(out.items);
  return out;
}

Json destinationOf(const SetItem &item) {
  if (!item.loss.any())
    return copyWithout(*item.destination, {"name"});
  Json out = item.replicas
                 ? copyWithout(*item.source, {"world", "dp", "devices"})
                 : *item.destination;
  if (item.replicas) {
    out.members.push_back({"world", number(item.world)});
    out.members.push_back({"dp", number(item.replicas)});
  }
  out.members.push_back({"devices", remainingDevices(item)});
  return out;
}

Json sourceOf(const SetItem &item) {
  return copyWithout(*item.source, {"name"});
}

} // namespace dt::request
