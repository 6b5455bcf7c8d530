//===- Placement.cpp - How a param is cut over a mesh ---------------------===//

#include "dt/Geometry/Placement.h"

#include "LocalIntervals.h"
#include "dt/Geometry/Limits.h"
#include "dt/Geometry/Overlaps.h"

#include <algorithm>
#include <map>

namespace dt {

namespace {

using Intervals = std::vector<Interval>;

std::string str(int64_t value) { return std::to_string(value); }
std::string quote(const std::string &text) { return '"' + text + '"'; }

int64_t ceilDiv(int64_t value, int64_t by) { return (value + by - 1) / by; }

int64_t numPieces(const Split &split, int64_t axisSize) {
  if (!split.cuts.empty())
    return int64_t(split.cuts.size()) - 1;
  return split.owners.empty() ? axisSize : int64_t(split.owners.size());
}

/// What does not fit when `split` cuts a part of `extent` elements; empty when
/// all does.
std::string misfit(const Split &split, int64_t extent, int64_t axisSize) {
  std::string axis = "axis " + quote(split.axis);
  int64_t pieces = numPieces(split, axisSize);
  if (!split.owners.empty() && int64_t(split.owners.size()) != pieces)
    return axis + " has " + str(split.owners.size()) + " owners for " +
           str(pieces) + " pieces";
  if (split.owners.empty() && pieces != axisSize)
    return axis + " of size " + str(axisSize) + " is given " + str(pieces) +
           " pieces, expected " + str(axisSize);
  for (int64_t owner : split.owners)
    if (owner < 0)
      return axis + " has no coordinate " + str(owner) + " to own a piece";
  if (split.cuts.empty()) {
    if (!split.chunk && extent % pieces != 0)
      return "extent " + str(extent) + " is not a multiple of the " +
             str(pieces) + " pieces of " + axis;
    return "";
  }
  if (!std::is_sorted(split.cuts.begin(), split.cuts.end()))
    return "cuts over " + axis + " are not ascending";
  if (split.cuts.front() != 0 || split.cuts.back() != extent)
    return "cuts over " + axis + " cover [" + str(split.cuts.front()) + ":" +
           str(split.cuts.back()) + "), expected [0:" + str(extent) + ")";
  return "";
}

/// Piece `index` of an extent that `split` fits.
Interval pieceOf(const Split &split, int64_t index, int64_t extent,
                 int64_t axisSize) {
  if (!split.cuts.empty())
    return {split.cuts[index], split.cuts[index + 1]};
  int64_t size = ceilDiv(extent, numPieces(split, axisSize));
  return {std::min(index * size, extent), std::min((index + 1) * size, extent)};
}

/// Appends what `coordinate` holds of the local elements `part`.
bool cutPart(const Split &split, Interval part, int64_t axisSize,
             int64_t coordinate, Intervals &out, std::string &error) {
  error = misfit(split, part.size(), axisSize);
  if (!error.empty())
    return false;
  auto take = [&](int64_t i) {
    Interval piece = pieceOf(split, i, part.size(), axisSize);
    appendMerged({part.lo + piece.lo, part.lo + piece.hi}, out);
  };
  if (split.owners.empty())
    take(coordinate);
  for (size_t i = 0; i < split.owners.size(); ++i)
    if (split.owners[i] % axisSize == coordinate)
      take(int64_t(i));
  return true;
}

/// What does not fit of the numbers of replicas; empty when all does.
std::string misfitReplicas(const Split &split, int64_t axisSize) {
  if (split.replicas.empty())
    return "";
  if (split.replicas.size() != split.blocks.size() || !split.cuts.empty() ||
      !split.owners.empty())
    return "axis " + quote(split.axis) + " has " + str(split.replicas.size()) +
           " numbers of replicas, expected one for each of " +
           str(split.blocks.size()) + " blocks, in equal pieces";
  for (int64_t times : split.replicas)
    if (times < 1 || axisSize % times != 0)
      return str(times) + " replicas do not divide axis " + quote(split.axis) +
             " of size " + str(axisSize);
  return "";
}

/// The local elements, of `extent` many, that `coordinate` keeps.
bool cutExtent(const Split &split, int64_t extent, int64_t axisSize,
               int64_t coordinate, Intervals &out, std::string &error) {
  if (split.blocks.empty())
    return cutPart(split, {0, extent}, axisSize, coordinate, out, error);
  if (error = misfitReplicas(split, axisSize); !error.empty())
    return false;
  int64_t start = 0;
  for (size_t block = 0; block < split.blocks.size(); ++block) {
    int64_t size = split.blocks[block];
    int64_t times = split.replicas.empty() ? 1 : split.replicas[block];
    if (!cutPart(split, {start, start + size}, axisSize / times,
                 coordinate / times, out, error))
      return false;
    start += size;
  }
  if (start == extent)
    return true;
  error = "blocks over axis " + quote(split.axis) + " add up to " + str(start) +
          ", expected " + str(extent);
  return false;
}

/// One mesh axis as a divisor of the rank.
struct AxisRef {
  int64_t stride = 1;
  int64_t size = 1;

  int64_t coordinate(int64_t rank) const { return rank / stride % size; }
};

/// Evaluates one placement on one mesh, rank by rank. Interval lists are
/// computed once per coordinate tuple of a dim and numbered by content, so
/// that equal shards have equal keys.
class Evaluation {
public:
  Evaluation(const Placement &placement, const Mesh &mesh,
             const std::vector<int64_t> &shape, unsigned numLeading,
             std::string &error)
      : placement(placement), mesh(mesh), shape(shape), numLeading(numLeading),
        error(error) {}

  bool prepare();
  std::optional<std::vector<Holding>> run();

private:
  struct Dim {
    std::vector<AxisRef> axes;
    std::map<std::vector<int64_t>, uint32_t> byCoords;
    std::map<Intervals, uint32_t> numbers;
    std::vector<Intervals> lists;
    std::vector<int64_t> extents; // of the lists
  };
  /// What one rank holds, by the numbers of its lists.
  struct Held {
    std::vector<uint32_t> numbers;
    int64_t members = 1, elements = 1; // elements of each member
  };

  bool fail(std::string message) {
    error = std::move(message);
    return false;
  }
  bool prepareDims();
  bool prepareRestrictions();
  bool checkWork(unsigned dim);
  bool findAxis(const std::string &name, const std::string &where,
                AxisRef &axis);
  bool useAxis(const std::string &name, const std::string &where,
               AxisRef &axis);
  bool isHolder(int64_t rank) const;
  bool listOf(unsigned dim, int64_t rank, uint32_t &number);
  bool findHeld(int64_t rank, Held &held);
  std::optional<Interval> flatRange(int64_t numElements, int64_t rank) const;

  const Placement &placement;
  const Mesh &mesh;
  const std::vector<int64_t> &shape;
  unsigned numLeading;
  std::string &error;
  std::vector<Dim> dims;
  std::vector<AxisRef> restricted;        // one per placement.at
  std::vector<std::vector<bool>> allowed; // the same, by coordinate
  std::vector<AxisRef> flat;              // one per flat axis
  std::map<std::string, std::string> users;
};

bool Evaluation::findAxis(const std::string &name, const std::string &where,
                          AxisRef &axis) {
  int index = mesh.axisIndex(name);
  if (index < 0)
    return fail(where + ": the mesh has no axis " + quote(name));
  axis.size = mesh.axes[index].size;
  axis.stride = 1;
  for (size_t i = index + 1; i < mesh.axes.size(); ++i)
    axis.stride *= mesh.axes[i].size;
  return true;
}

/// Finds an axis that cuts. An axis that cuts twice would leave a hole.
bool Evaluation::useAxis(const std::string &name, const std::string &where,
                         AxisRef &axis) {
  if (!findAxis(name, where, axis))
    return false;
  auto [user, isNew] = users.emplace(name, where);
  if (!isNew && axis.size > 1)
    return fail(where + ": axis " + quote(name) + " already cuts " +
                user->second);
  return true;
}

/// Every coordinate tuple of a dim has a list of as many intervals as the
/// splits have blocks, and is found by a look at all cuts and owners.
bool Evaluation::checkWork(unsigned dim) {
  double tuples = 1, intervals = 0;
  for (const AxisRef &axis : dims[dim].axes)
    tuples *= double(axis.size);
  for (const Split &split : placement.dims[dim].splits)
    intervals += double(1 + split.cuts.size() + split.owners.size()) *
                 double(std::max<size_t>(1, split.blocks.size()));
  if (tuples * intervals <= double(kMaxPieces))
    return true;
  return fail("dim " + str(dim) + ": blocks, cuts and owners for each of " +
              str(int64_t(tuples)) +
              " coordinates are more than the limit of " + str(kMaxPieces));
}

bool Evaluation::prepareDims() {
  dims.resize(shape.size());
  for (size_t i = 0; i < placement.dims.size(); ++i) {
    for (const Split &split : placement.dims[i].splits) {
      dims[i].axes.emplace_back();
      if (!useAxis(split.axis, "dim " + str(i), dims[i].axes.back()))
        return false;
    }
    if (!checkWork(i))
      return false;
  }
  for (const std::string &name : placement.flatAxes) {
    flat.emplace_back();
    if (!useAxis(name, "flat cut", flat.back()))
      return false;
  }
  return true;
}

bool Evaluation::prepareRestrictions() {
  for (const AxisRestriction &at : placement.at) {
    restricted.emplace_back();
    if (!findAxis(at.axis, "restriction", restricted.back()))
      return false;
    if (at.coordinates.empty())
      return fail("restriction: no coordinate of axis " + quote(at.axis) +
                  " is named");
    int64_t size = restricted.back().size;
    std::vector<bool> &own = allowed.emplace_back(size, false);
    for (int64_t coordinate : at.coordinates) {
      if (coordinate < 0)
        return fail("restriction: axis " + quote(at.axis) +
                    " has no coordinate " + str(coordinate));
      own[coordinate % size] = true;
    }
  }
  return true;
}

bool Evaluation::prepare() {
  if (shape.size() > kMaxRank)
    return fail("param has " + str(shape.size()) + " dims, expected at most " +
                str(kMaxRank));
  if (placement.dims.size() > shape.size())
    return fail("placement has " + str(placement.dims.size()) +
                " dims, expected at most " + str(shape.size()));
  for (const MeshAxis &axis : mesh.axes)
    if (axis.size < 1)
      return fail("mesh axis " + quote(axis.name) + " has size " +
                  str(axis.size) + ", expected at least 1");
  if (!mesh.devices.empty() && int64_t(mesh.devices.size()) != mesh.numRanks())
    return fail("mesh lists " + str(mesh.devices.size()) +
                " devices, expected " + str(mesh.numRanks()));
  return prepareDims() && prepareRestrictions();
}

bool Evaluation::isHolder(int64_t rank) const {
  for (size_t i = 0; i < restricted.size(); ++i)
    if (!allowed[i][restricted[i].coordinate(rank)])
      return false;
  return true;
}

bool Evaluation::listOf(unsigned index, int64_t rank, uint32_t &number) {
  Dim &dim = dims[index];
  std::vector<int64_t> sizes, coords;
  for (const AxisRef &axis : dim.axes) {
    sizes.push_back(axis.size);
    coords.push_back(axis.coordinate(rank));
  }
  if (auto known = dim.byCoords.find(coords); known != dim.byCoords.end()) {
    number = known->second;
    return true;
  }
  static const DimPlacement kReplicated;
  const DimPlacement &cut =
      index < placement.dims.size() ? placement.dims[index] : kReplicated;
  std::optional<Intervals> list =
      evaluateDim(cut, shape[index], sizes, coords, error);
  if (!list)
    return fail("dim " + str(index) + ": " + error);
  number = dim.numbers.emplace(*list, dim.lists.size()).first->second;
  if (number == dim.lists.size()) {
    dim.extents.push_back(extentOf(*list));
    dim.lists.push_back(std::move(*list));
  }
  dim.byCoords.emplace(std::move(coords), number);
  return true;
}

/// The rank's share of a member's local elements; nullopt when it is all.
std::optional<Interval> Evaluation::flatRange(int64_t numElements,
                                              int64_t rank) const {
  int64_t parts = 1;
  int64_t index = 0;
  for (const AxisRef &axis : flat) {
    parts *= axis.size;
    index = index * axis.size + axis.coordinate(rank);
  }
  int64_t size = ceilDiv(numElements, parts);
  Interval range = {std::min(index * size, numElements),
                    std::min((index + 1) * size, numElements)};
  if (range.size() == numElements)
    return std::nullopt;
  return range;
}

bool Evaluation::findHeld(int64_t rank, Held &held) {
  held.numbers.resize(shape.size());
  for (unsigned dim = 0; dim < shape.size(); ++dim) {
    if (!listOf(dim, rank, held.numbers[dim]))
      return false;
    int64_t &product = dim < numLeading ? held.members : held.elements;
    if (__builtin_mul_overflow(product, dims[dim].extents[held.numbers[dim]],
                               &product) ||
        product > kMaxBytes)
      return fail("a shard has more elements than the limit of " +
                  str(kMaxBytes));
  }
  return true;
}

std::optional<std::vector<Holding>> Evaluation::run() {
  std::vector<Holding> holdings;
  // Numbers of the interval lists and the flat range -> index of the holding.
  std::map<std::pair<std::vector<uint32_t>, int64_t>, size_t> known;
  for (int64_t rank = 0, end = mesh.numRanks(); rank < end; ++rank) {
    if (!isHolder(rank))
      continue;
    Held held;
    if (!findHeld(rank, held))
      return std::nullopt;
    std::optional<Interval> range = flatRange(held.elements, rank);
    if (held.members == 0 || (range ? range->size() : held.elements) == 0)
      continue;
    auto [entry, isNew] = known.emplace(
        std::make_pair(held.numbers, range ? range->lo : -1), holdings.size());
    if (isNew) {
      Shard &shard = holdings.emplace_back().shard;
      shard.numLeading = numLeading;
      for (unsigned dim = 0; dim < shape.size(); ++dim)
        shard.dims.push_back(dims[dim].lists[held.numbers[dim]]);
      shard.range = range;
    }
    holdings[entry->second].devices.push_back(mesh.device(rank));
  }
  for (Holding &holding : holdings)
    std::sort(holding.devices.begin(), holding.devices.end());
  return holdings;
}

Shard shardOf(const HeldBox &row, unsigned numLeading) {
  Shard shard;
  shard.numLeading = numLeading;
  for (unsigned dim = 0; dim < row.box.rank(); ++dim)
    shard.dims.push_back({row.box[dim]});
  if (row.range && row.range->size() != shard.elementsPerMember())
    shard.range = row.range;
  return shard;
}

} // namespace

std::optional<std::vector<Interval>>
evaluateDim(const DimPlacement &dim, int64_t size,
            const std::vector<int64_t> &axisSizes,
            const std::vector<int64_t> &coords, std::string &error) {
  int64_t extent = dim.extent ? dim.extent : size;
  if (extent < size) {
    error =
        "padded extent " + str(extent) + " is less than the size " + str(size);
    return std::nullopt;
  }
  Intervals held;
  appendMerged({0, extent}, held);
  for (size_t i = 0; i < dim.splits.size(); ++i) {
    Intervals kept;
    if (!cutExtent(dim.splits[i], extentOf(held), axisSizes[i], coords[i], kept,
                   error))
      return std::nullopt;
    held = selected(held, kept);
  }
  return held;
}

std::optional<std::vector<Holding>> evaluate(const Placement &placement,
                                             const Mesh &mesh,
                                             const std::vector<int64_t> &shape,
                                             unsigned numLeading,
                                             std::string &error) {
  Evaluation evaluation(placement, mesh, shape, numLeading, error);
  if (!evaluation.prepare())
    return std::nullopt;
  return evaluation.run();
}

int64_t mostRegions(const std::vector<Holding> &holdings) {
  int64_t sum = 0;
  for (const Holding &holding : holdings) {
    const Shard &shard = holding.shard;
    int64_t numInner = shard.rank() - shard.numLeading;
    int64_t count = shard.range && numInner ? 2 * numInner - 1 : 1;
    for (const Intervals &intervals : shard.dims)
      if (__builtin_mul_overflow(count, int64_t(intervals.size()), &count))
        return INT64_MAX;
    if (__builtin_add_overflow(sum, count, &sum))
      return INT64_MAX;
  }
  return sum;
}

std::vector<Holding> holdingsOf(const std::vector<HeldBox> &rows,
                                unsigned numLeading) {
  // Number the rows so that equal shards have equal numbers.
  std::vector<Shard> shards;
  for (const HeldBox &row : rows)
    shards.push_back(shardOf(row, numLeading));
  std::vector<uint32_t> order = sortedOrder(BoxList(rows, &HeldBox::box));
  std::vector<uint32_t> firstEqual(rows.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    const Box &box = rows[order[begin]].box;
    while (end < order.size() && rows[order[end]].box == box)
      ++end;
    std::stable_sort(order.begin() + begin, order.begin() + end,
                     [&](uint32_t i, uint32_t j) {
                       return shards[i].range < shards[j].range;
                     });
    for (size_t i = begin; i < end; ++i) {
      bool same = i > begin && shards[order[i]] == shards[order[i - 1]];
      firstEqual[order[i]] = same ? firstEqual[order[i - 1]] : order[i];
    }
  }

  std::vector<Holding> holdings;
  std::vector<uint32_t> holdingOf(rows.size());
  for (uint32_t i = 0; i < rows.size(); ++i) {
    if (rows[i].box.empty() || shards[i].elementsPerMember() == 0)
      continue;
    if (firstEqual[i] == i) {
      holdingOf[i] = uint32_t(holdings.size());
      holdings.push_back({std::move(shards[i]), {}});
    }
    holdings[holdingOf[firstEqual[i]]].devices.push_back(rows[i].device);
  }
  for (Holding &holding : holdings) {
    std::vector<int64_t> &devices = holding.devices;
    std::sort(devices.begin(), devices.end());
    devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  }
  return holdings;
}

} // namespace dt
