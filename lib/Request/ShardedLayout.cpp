//===- ShardedLayout.cpp - Placements by explicit shards ------------------===//
//
// Every row is one region that one rank holds: a box, or a flat range of it.
// Holes between rows are found by the router, which knows all regions.
//
//===----------------------------------------------------------------------===//

#include "ShardedLayout.h"
#include "ParallelSizes.h"

#include "dt/Geometry/Cells.h"
#include "dt/Geometry/Overlaps.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace dt::request {

namespace {

/// A row that was read, and where it stands in the request.
struct ReadRow {
  RankBox row;
  size_t number = 0;
  uint32_t line = 0, column = 0;
};

class ShardReader {
public:
  ShardReader(const std::vector<TensorDecl> &tensors, int64_t world,
              const std::string &path)
      : tensors(tensors), world(world), path(path + ".shards"),
        rows(tensors.size()) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      indexOf.emplace(tensors[i].name, i);
      rows[i].resize(tensors[i].states.size());
    }
  }

  void read(const Json &shards);
  /// One rank stores an element once.
  void checkOverlaps() const;
  void addPlaces(LayoutDecl &layout) const;

private:
  using Rows = std::vector<ReadRow>;

  std::string pathOf(size_t number) const {
    return path + "[" + std::to_string(number) + "]";
  }
  /// source.shards[3] (tensor "w", rank 1)
  std::string describe(const ReadRow &row, uint32_t tensor) const {
    return pathOf(row.number) + " (tensor " + inQuotes(tensors[tensor].name) +
           ", rank " + std::to_string(row.row.rank) + ")";
  }
  void readRow(const Json &json, size_t number);
  uint32_t findTensor(const Json &json, const std::string &path) const;
  Box readBox(const Json &json, const TensorDecl &tensor,
              const std::string &where) const;
  void addRow(const Json &json, uint32_t tensor, const ReadRow &row,
              const std::string &where);
  void checkOverlaps(uint32_t tensor, const Rows &rows) const;

  const std::vector<TensorDecl> &tensors;
  int64_t world;
  std::string path;
  std::unordered_map<std::string, uint32_t> indexOf;
  std::vector<std::vector<Rows>> rows; // per tensor and state
  WorkLimit regions{kMaxRegions};
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
std::vector<Box> boxesOf(const RankBox &row) {
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

/// Of a tensor and state: the boxes of each rank are disjoint.
void ShardReader::checkOverlaps(uint32_t tensor, const Rows &rows) const {
  struct Held {
    Box box;
    const ReadRow *row;
  };
  std::map<int64_t, std::vector<Held>> byRank;
  for (const ReadRow &row : rows)
    for (const Box &box : boxesOf(row.row))
      byRank[row.row.rank].push_back({box, &row});
  for (const auto &[rank, held] : byRank) {
    auto found = firstOverlap(BoxList(held, &Held::box));
    if (!found)
      continue;
    const Held &one = held[found->first], &other = held[found->second];
    fail(describe(*other.row, tensor) + " overlaps " +
         describe(*one.row, tensor) + " in " +
         toString(intersect(one.box, other.box)));
  }
}

void ShardReader::checkOverlaps() const {
  for (uint32_t tensor = 0; tensor < rows.size(); ++tensor)
    for (const Rows &own : rows[tensor])
      checkOverlaps(tensor, own);
}

void ShardReader::addRow(const Json &json, uint32_t tensor, const ReadRow &row,
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
    const RankBox &own = row.row;
    if (own.range ? own.range->empty() : own.box.empty())
      continue;
    if (!regions.take(own.range ? 2 * int64_t(own.box.rank()) : 1))
      fail(path +
           " hold more regions, counted for each state, than the limit "
           "of " +
           std::to_string(kMaxRegions));
    rows[tensor][s].push_back(row);
  }
  if (!found)
    fail(where + " has the unknown state " + inQuotes(*name));
}

void ShardReader::readRow(const Json &json, size_t number) {
  std::string rowPath = pathOf(number);
  checkKeys(json, rowPath,
            {"tensor", "rank", "offset", "size", "range", "state"});
  uint32_t index = findTensor(json, rowPath);
  const TensorDecl &tensor = tensors[index];
  std::string where = rowPath + " (tensor " + inQuotes(tensor.name);
  ReadRow row;
  row.number = number;
  row.line = json.line;
  row.column = json.column;
  row.row.rank = asInteger(require(json, where + ")", "rank"), where + ") rank",
                           0, INT64_MAX);
  where = describe(row, index);
  if (row.row.rank >= world)
    fail(where + " has a rank that world " + std::to_string(world) +
         " does not have");
  row.row.box = readBox(json, tensor, where);
  if (const Json *range = json.find("range"))
    row.row.range = readRange(*range, row.row.box.volume(), where);
  addRow(json, index, row, where);
}

void ShardReader::read(const Json &shards) {
  for (size_t i = 0; i < asArray(shards, path).items.size(); ++i)
    readRow(shards.items[i], i);
}

bool sameRows(const std::vector<RankBox> &a, const std::vector<ReadRow> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const RankBox &x, const ReadRow &y) {
                      return x.rank == y.row.rank && x.box == y.row.box &&
                             x.range == y.row.range;
                    });
}

/// States with the same shards share one place.
void ShardReader::addPlaces(LayoutDecl &layout) const {
  for (size_t t = 0; t < tensors.size(); ++t) {
    size_t first = layout.places.size();
    for (size_t s = 0; s < tensors[t].states.size(); ++s) {
      const std::string &state = tensors[t].states[s].name;
      if (rows[t][s].empty())
        fail(path + " has no shard of tensor " + inQuotes(tensors[t].name) +
             " state " + inQuotes(state));
      auto same = std::find_if(
          layout.places.begin() + first, layout.places.end(),
          [&](const PlaceDecl &p) { return sameRows(p.rows, rows[t][s]); });
      if (same == layout.places.end()) {
        PlaceDecl place;
        place.tensor = t;
        for (const ReadRow &row : rows[t][s])
          place.rows.push_back(row.row);
        const ReadRow &first = rows[t][s].front();
        place.key = {pathOf(first.number), first.line, first.column};
        same = layout.places.insert(same, std::move(place));
      }
      same->states.push_back(state);
    }
    if (layout.places.size() == first + 1)
      layout.places.back().states.clear(); // all
  }
}

std::optional<Box> firstHole(const PlaceDecl &place,
                             const std::vector<int64_t> &shape,
                             const std::string &path) {
  std::vector<HeldBox> held;
  for (const RankBox &row : place.rows)
    held.push_back({row.rank, row.box, row.range});
  WorkLimit limit(kMaxPieces);
  CellSet cells = overlay(holdingsOf(held), shape, &limit);
  if (limit.isExceeded())
    fail(path + ".shards overlap in more parts than the limit of " +
         std::to_string(kMaxPieces));
  return firstUncovered({{Box::whole(shape), 0}}, cells.cells);
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
    std::optional<Box> hole = firstHole(place, tensor.shape, path);
    if (!hole)
      continue;
    tensor.partial = true;
    std::string states;
    for (const std::string &state : place.states)
      states += (states.empty() ? " state " : ", ") + inQuotes(state);
    std::string lost = path + ".shards leave " + toString(*hole) +
                       " of tensor " + inQuotes(tensor.name) + states +
                       " on no rank: its values are lost";
    if (!layout.partial)
      fail(lost + ", unless " + path + ".partial is true");
    out.push_back(std::move(lost));
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
  checkKeys(json, path,
            {"world", "shards", "devices", "state", "partial", "views",
             "framework", "without", "quantize"});
  LayoutDecl layout;
  layout.world = readWorld(json, path);
  layout.devices = readDevices(json, path, layout.world);
  NamedMesh ranks;
  ranks.name = "ranks";
  ranks.mesh.axes.push_back({"rank", layout.world});
  ranks.mesh.devices = layout.devices;
  layout.grids = {ranks.mesh};
  layout.meshes.push_back(std::move(ranks));
  ShardReader reader(tensors, layout.world, path);
  reader.read(*json.find("shards"));
  reader.checkOverlaps();
  reader.addPlaces(layout);
  if (const Json *partial = json.find("partial"))
    layout.partial = asBool(*partial, path + ".partial");
  return layout;
}

} // namespace dt::request
