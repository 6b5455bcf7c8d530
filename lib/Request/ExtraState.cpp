//===- ExtraState.cpp - State that is no weight ---------------------------===//
//
// Step counters, RNG states, a dataloader's cursor: one value per coordinate
// of some mesh axes of the source, or one for all ranks. The full tensor has
// one leading dim per axis, with the source's size. A destination rank at
// coordinate c takes the value of source coordinate c mod the source's size,
// axis by axis. Where no source rank has those coordinates (dense and expert
// axes are two factorizations of the same ranks), it takes that of the first
// rank that agrees with it on as many of the axes as can be, first named
// first. A value that no destination rank takes is dropped by that rule.
//
//===----------------------------------------------------------------------===//

#include "ExtraState.h"
#include "States.h"

#include "dt/Geometry/Limits.h"

#include <algorithm>
#include <map>
#include <set>

namespace dt::request {

namespace {

using Coordinates = std::vector<int64_t>;

/// The mesh axes of all layouts; "rank" is that of explicit shards.
const std::set<std::string> kAxes = {"tp",   "cp", "ep", "etp",
                                     "fsdp", "dp", "pp", "rank"};

struct Extra {
  std::string name;
  std::vector<int64_t> shape;
  DType dtype = DType::U8;
  std::vector<std::string> axes; // of `per`
  JsonKey key = {};
};

std::vector<std::string> readAxes(const Json &json, const std::string &path) {
  std::vector<std::string> axes;
  for (const Json &item : asArray(json, path).items) {
    const std::string &axis = asString(item, path);
    if (!kAxes.count(axis))
      fail(path + " names the unknown axis " + inQuotes(axis));
    if (std::find(axes.begin(), axes.end(), axis) != axes.end())
      fail(path + " names axis " + inQuotes(axis) + " twice");
    axes.push_back(axis);
  }
  return axes;
}

Extra readExtra(const Json &json, const std::string &path) {
  checkKeys(json, path, {"name", "dtype", "shape", "per"});
  Extra extra;
  extra.key = keyOf(json, path);
  extra.name = asName(require(json, path, "name"), path + ".name");
  std::string where = path + " (" + inQuotes(extra.name) + ")";
  const std::string &dtype =
      asString(require(json, where, "dtype"), where + " dtype");
  std::optional<DType> known = parseDType(dtype);
  if (!known)
    fail(where + " has the unknown dtype " + inQuotes(dtype));
  extra.dtype = *known;
  extra.shape = {1};
  if (const Json *value = json.find("shape"))
    extra.shape = asIntegers(*value, where + " shape", 1);
  if (const Json *value = json.find("per"))
    extra.axes = readAxes(*value, where + " per");
  if (extra.axes.size() + extra.shape.size() > kMaxRank)
    fail(where + " has " + std::to_string(extra.axes.size()) + " axes and " +
         std::to_string(extra.shape.size()) + " dims, more than " +
         std::to_string(kMaxRank) + " together");
  return extra;
}

/// Sizes and coordinates of one layout's axes, dense or expert.
class Axes {
public:
  explicit Axes(const LayoutDecl &layout) : layout(layout) {}

  int64_t size(const std::string &axis) const {
    const Mesh *mesh = meshOf(axis);
    return mesh ? mesh->axisSize(axis) : 1;
  }
  Coordinates at(int64_t rank, const std::vector<std::string> &axes) const {
    Coordinates out;
    for (const std::string &axis : axes) {
      const Mesh *mesh = meshOf(axis);
      out.push_back(mesh ? mesh->coordinate(rank, axis) : 0);
    }
    return out;
  }

private:
  /// The dense grid where it has the axis; axes of size 1 may be in none.
  const Mesh *meshOf(const std::string &axis) const {
    for (const Mesh &grid : layout.grids)
      if (grid.axisIndex(axis) >= 0)
        return &grid;
    return nullptr;
  }

  const LayoutDecl &layout;
};

class ExtraPlaces {
public:
  ExtraPlaces(const Extra &extra, uint32_t tensor, const LayoutDecl &source)
      : extra(extra), tensor(tensor), axes(source) {
    for (const std::string &axis : extra.axes)
      sizes.push_back(axes.size(axis));
    for (int64_t rank = 0; rank < source.world; ++rank)
      held.insert(axes.at(rank, extra.axes));
    for (int64_t rank = source.world; rank-- > 0;)
      addPrefixes(axes.at(rank, extra.axes));
  }

  std::vector<int64_t> fullShape() const {
    std::vector<int64_t> shape = sizes;
    shape.insert(shape.end(), extra.shape.begin(), extra.shape.end());
    return shape;
  }

  PlaceDecl place(const LayoutDecl &layout) const {
    PlaceDecl place;
    place.tensor = tensor;
    place.key = extra.key;
    Axes own(layout);
    for (int64_t rank = 0; rank < layout.world; ++rank) {
      RankBox row;
      row.rank = rank;
      row.box = boxAt(sourceOf(own.at(rank, extra.axes)));
      place.rows.push_back(std::move(row));
    }
    return place;
  }

private:
  /// The first rank of every prefix stands last: it stays.
  void addPrefixes(const Coordinates &at) {
    for (size_t length = 0; length <= at.size(); ++length)
      first[Coordinates(at.begin(), at.begin() + length)] = at;
  }

  /// Of a source rank itself: its own coordinates.
  Coordinates sourceOf(Coordinates at) const {
    for (size_t i = 0; i < at.size(); ++i)
      at[i] %= sizes[i];
    if (held.count(at))
      return at;
    Coordinates prefix = at;
    while (!first.count(prefix))
      prefix.pop_back();
    return first.at(prefix);
  }

  Box boxAt(const Coordinates &at) const {
    std::vector<int64_t> offset = at, size(at.size(), 1);
    offset.resize(at.size() + extra.shape.size(), 0);
    size.insert(size.end(), extra.shape.begin(), extra.shape.end());
    return Box::fromOffsetSize(offset, size);
  }

  const Extra &extra;
  uint32_t tensor;
  Axes axes;
  std::vector<int64_t> sizes;
  std::set<Coordinates> held;
  std::map<Coordinates, Coordinates> first; // by prefix
};

void add(const Extra &extra, Request &request) {
  uint32_t index = request.tensors.size();
  ExtraPlaces places(extra, index, request.source);
  TensorDecl tensor;
  tensor.name = extra.name;
  tensor.shape = places.fullShape();
  tensor.states = {{"param", extra.dtype, extra.dtype, ""}};
  tensor.key = extra.key;
  checkBytes(tensor, extra.key.path + " (" + inQuotes(extra.name) + ")");
  tensor.partial = !extra.axes.empty();
  request.source.places.push_back(places.place(request.source));
  request.destination.places.push_back(places.place(request.destination));
  request.tensors.push_back(std::move(tensor));
}

} // namespace

void addExtraState(const Json &json, Request &request) {
  const Json &list = asArray(json, "extra");
  int64_t ranks = std::max(request.source.world, request.destination.world);
  checkCount(list.items.size(), kMaxRegions / ranks, "extra",
             "values for each of the ranks");
  std::set<std::string> names;
  for (const TensorDecl &tensor : request.tensors)
    names.insert(tensor.name);
  for (size_t i = 0; i < list.items.size(); ++i) {
    std::string path = "extra[" + std::to_string(i) + "]";
    Extra extra = readExtra(list.items[i], path);
    if (!names.insert(extra.name).second)
      fail(path + " names " + inQuotes(extra.name) +
           ", which is a tensor already");
    add(extra, request);
  }
}

} // namespace dt::request
