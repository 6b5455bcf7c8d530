//===- ShardedLayout.cpp - Placements by explicit shards ------------------===//
//
// Every row is one region that one rank holds: a box, or a flat range of it.
// Holes between rows are found by the router, which knows all regions.
//
//===----------------------------------------------------------------------===//

#include "Layouts.h"
#include "ParallelSizes.h"

#include "dt/Geometry/Cells.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

namespace dt::request {

namespace {

class ShardReader {
public:
  ShardReader(const std::vector<TensorDecl> &tensors, int64_t world)
      : tensors(tensors), world(world), rows(tensors.size()) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      indexOf.emplace(tensors[i].name, i);
      rows[i].resize(tensors[i].states.size());
    }
  }

  void read(const Json &json, const std::string &path);
  void addPlaces(const std::string &path, LayoutDecl &layout) const;

private:
  using Rows = std::vector<ShardRow>;
  /// What one rank holds of one tensor and state so far.
  using HeldKey = std::tuple<uint32_t, size_t, int64_t>;
  struct Held {
    Box box;
    std::string where; // the row that said so
  };

  uint32_t findTensor(const Json &json, const std::string &path) const;
  Box readBox(const Json &json, const TensorDecl &tensor,
              const std::string &where) const;
  void addRow(const Json &json, uint32_t tensor, const ShardRow &row,
              const std::string &where);
  void checkOverlap(const HeldKey &key, const ShardRow &row,
                    const std::string &where);

  const std::vector<TensorDecl> &tensors;
  int64_t world;
  std::unordered_map<std::string, uint32_t> indexOf;
  std::vector<std::vector<Rows>> rows; // per tensor and state
  std::map<HeldKey, std::vector<Held>> held;
};

uint32_t ShardReader::findTensor(const Json &json,
                                 const std::string &path) const {
  const std::string &name =
      asString(require(json, path, "tensor"), path + ".tensor");
  auto found = indexOf.find(name);
  if (found != indexOf.end())
    return found->second;
  fail(path + " names tensor " + inQuotes(name) + ", which the model lacks");
}

Box ShardReader::readBox(const Json &json, const TensorDecl &tensor,
                         const std::string &where) const {
  std::vector<int64_t> offset =
      asIntegers(require(json, where, "offset"), where + " offset", 0);
  std::vector<int64_t> size =
      asIntegers(require(json, where, "size"), where + " size", 0);
  size_t dims = tensor.shape.size();
  if (offset.size() != dims || size.size() != dims)
    fail(where + " has offset and size of " + std::to_string(offset.size()) +
         " and " + std::to_string(size.size()) + " dims, but the tensor has " +
         std::to_string(dims));
  for (size_t d = 0; d < dims; ++d)
    if (offset[d] > tensor.shape[d] || size[d] > tensor.shape[d] - offset[d])
      fail(where + " is out of bounds in dim " + std::to_string(d) +
           ": offset " + std::to_string(offset[d]) + " and size " +
           std::to_string(size[d]) + " of " + std::to_string(tensor.shape[d]));
  return Box::fromOffsetSize(offset, size);
}

Interval readRange(const Json &value, int64_t volume,
                   const std::string &where) {
  std::vector<int64_t> ends = asIntegers(value, where + " range", 0);
  if (ends.size() != 2)
    fail(where + " range must be [begin, end], not " +
         std::to_string(ends.size()) + " numbers");
  if (ends[0] > ends[1] || ends[1] > volume)
    fail(where + " has range [" + std::to_string(ends[0]) + ", " +
         std::to_string(ends[1]) + "), which is not within the " +
         std::to_string(volume) + " elements of its box");
  return {ends[0], ends[1]};
}

/// The elements of a row as boxes of the tensor.
std::vector<Box> boxesOf(const ShardRow &row) {
  if (!row.range)
    return {row.box};
  std::vector<int64_t> size;
  for (unsigned d = 0; d < row.box.rank(); ++d)
    size.push_back(row.box[d].size());
  std::vector<Box> boxes = splitFlatRange(size, *row.range);
  for (Box &box : boxes)
    for (unsigned d = 0; d < box.rank(); ++d) {
      box[d].lo += row.box[d].lo;
      box[d].hi += row.box[d].lo;
    }
  return boxes;
}

/// One rank stores an element once.
void ShardReader::checkOverlap(const HeldKey &key, const ShardRow &row,
                               const std::string &where) {
  std::vector<Held> &earlier = held[key];
  size_t count = earlier.size();
  for (const Box &box : boxesOf(row)) {
    for (size_t i = 0; i < count; ++i)
      if (overlaps(earlier[i].box, box))
        fail(where + " overlaps " + earlier[i].where + " in " +
             toString(intersect(earlier[i].box, box)));
    earlier.push_back({box, where});
  }
}

void ShardReader::addRow(const Json &json, uint32_t tensor, const ShardRow &row,
                         const std::string &where) {
  const std::vector<StateDecl> &states = tensors[tensor].states;
  const Json *value = json.find("state");
  const std::string *name =
      value ? &asString(*value, where + " state") : nullptr;
  bool found = !name;
  for (size_t s = 0; s < states.size(); ++s) {
    if (name && states[s].name != *name)
      continue;
    found = true;
    bool isEmpty = row.range ? row.range->empty() : row.box.empty();
    if (isEmpty)
      continue;
    checkOverlap({tensor, s, row.rank}, row, where);
    rows[tensor][s].push_back(row);
  }
  if (!found)
    fail(where + " has the unknown state " + inQuotes(*name));
}

void ShardReader::read(const Json &json, const std::string &path) {
  checkKeys(json, path, {"tensor", "rank", "offset", "size", "range", "state"});
  uint32_t index = findTensor(json, path);
  const TensorDecl &tensor = tensors[index];
  std::string where = path + " (tensor " + inQuotes(tensor.name);
  ShardRow row;
  row.rank = asInteger(require(json, where + ")", "rank"), where + ") rank", 0,
                       INT64_MAX);
  where += ", rank " + std::to_string(row.rank) + ")";
  if (row.rank >= world)
    fail(where + " has a rank that world " + std::to_string(world) +
         " does not have");
  row.box = readBox(json, tensor, where);
  if (const Json *range = json.find("range"))
    row.range = readRange(*range, row.box.volume(), where);
  addRow(json, index, row, where);
}

bool sameRows(const std::vector<ShardRow> &a, const std::vector<ShardRow> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const ShardRow &x, const ShardRow &y) {
                      return x.rank == y.rank && x.box == y.box &&
                             x.range == y.range;
                    });
}

/// States that lie alike share one place.
void ShardReader::addPlaces(const std::string &path, LayoutDecl &layout) const {
  for (size_t t = 0; t < tensors.size(); ++t) {
    size_t first = layout.places.size();
    for (size_t s = 0; s < tensors[t].states.size(); ++s) {
      const std::string &state = tensors[t].states[s].name;
      if (rows[t][s].empty())
        fail(path + ".shards has no shard of tensor " +
             inQuotes(tensors[t].name) + " state " + inQuotes(state));
      auto same = std::find_if(
          layout.places.begin() + first, layout.places.end(),
          [&](const PlaceDecl &p) { return sameRows(p.rows, rows[t][s]); });
      if (same == layout.places.end()) {
        PlaceDecl place;
        place.tensor = t;
        place.rows = rows[t][s];
        same = layout.places.insert(same, std::move(place));
      }
      same->states.push_back(state);
    }
    if (layout.places.size() == first + 1)
      layout.places.back().states.clear(); // all
  }
}

std::optional<Box> firstHole(const PlaceDecl &place,
                             const std::vector<int64_t> &shape) {
  std::vector<HeldBox> held;
  for (const ShardRow &row : place.rows)
    held.push_back({row.rank, row.box, row.range});
  std::vector<Box> holes =
      uncovered(Box::whole(shape), overlay(holdingsOf(held), shape).cells);
  return holes.empty() ? std::nullopt : std::optional<Box>(holes.front());
}

} // namespace

std::vector<std::string> holesOf(const LayoutDecl &layout,
                                 const std::string &path,
                                 std::vector<TensorDecl> &tensors) {
  std::vector<std::string> out;
  for (const PlaceDecl &place : layout.places) {
    if (place.rows.empty())
      continue;
    TensorDecl &tensor = tensors[place.tensor];
    std::optional<Box> hole = firstHole(place, tensor.shape);
    if (!hole)
      continue;
    tensor.partial = true;
    std::string states;
    for (const std::string &state : place.states)
      states += (states.empty() ? " state " : ", ") + inQuotes(state);
    out.push_back(path + ".shards leave " + toString(*hole) + " of tensor " +
                  inQuotes(tensor.name) + states +
                  " on no rank: its values are lost");
  }
  return out;
}

LayoutDecl layoutFromShards(const Json &json, const std::string &path,
                            const std::vector<TensorDecl> &tensors) {
  for (const Json::Member &member : json.members)
    for (const char *key :
         {"tp", "cp", "ep", "etp", "fsdp", "dp", "pp", "vpp", "zero", "order",
          "pp_layers", "vocab_multiple", "bucket_size"})
      if (member.first == key)
        fail(path + " has " + inQuotes(key) + " beside \"shards\"");
  checkKeys(json, path, {"world", "shards", "devices", "state"});
  LayoutDecl layout;
  layout.world = readWorld(json, path);
  layout.devices = readDevices(json, path, layout.world);
  NamedMesh ranks;
  ranks.name = "ranks";
  ranks.mesh.axes.push_back({"rank", layout.world});
  ranks.mesh.devices = layout.devices;
  layout.grids = {ranks.mesh};
  layout.meshes.push_back(std::move(ranks));
  ShardReader reader(tensors, layout.world);
  const Json &shards = asArray(*json.find("shards"), path + ".shards");
  for (size_t i = 0; i < shards.items.size(); ++i)
    reader.read(shards.items[i], path + ".shards[" + std::to_string(i) + "]");
  reader.addPlaces(path, layout);
  return layout;
}

} // namespace dt::request
