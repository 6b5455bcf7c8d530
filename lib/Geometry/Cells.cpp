//===- Cells.cpp - Overlays of many regions -------------------------------===//
//
// Holdings hardly ever overlap but by being equal: replicas share a holding,
// and trainers tile. So overlaying first finds the boxes that overlap others,
// and cuts only those.
//
//===----------------------------------------------------------------------===//

#include "dt/Geometry/Cells.h"

#include "dt/Geometry/Overlaps.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace dt {

namespace {

using Devices = std::vector<int64_t>;

/// Numbers distinct sets of devices.
class SetNumbers {
public:
  explicit SetNumbers(WorkLimit *limit) : limit(limit) {}

  uint32_t number(const Devices &set) {
    if (!sets.empty() && sets[last] == set)
      return last;
    auto entry = numbers.emplace(set, uint32_t(sets.size()));
    last = entry.first->second;
    if (entry.second)
      sets.push_back(set);
    return last;
  }

  /// The number of the union of numbered sets.
  uint32_t unite(std::vector<uint32_t> parts) {
    std::sort(parts.begin(), parts.end());
    parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
    if (parts.size() == 1)
      return parts.front();
    auto [entry, isNew] = unions.emplace(parts, 0);
    if (!isNew)
      return entry->second;
    Devices all;
    for (uint32_t part : parts)
      all.insert(all.end(), sets[part].begin(), sets[part].end());
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    if (limit && !limit->take(int64_t(all.size())))
      all.clear();
    return entry->second = number(all);
  }

  std::vector<Devices> sets;

private:
  WorkLimit *limit;
  std::map<Devices, uint32_t> numbers;
  std::map<std::vector<uint32_t>, uint32_t> unions;
  uint32_t last = 0;
};

struct Plane {
  unsigned dim = 0;
  int64_t at = 0;
};

/// Endpoints tried, per dim, as the place of a cut.
constexpr size_t kMaxCandidates = 16;

/// A plane strictly inside the bounding box of the boxes, at an end of one of
/// them: the candidate that leaves the smaller larger side. There must be two
/// boxes that are not equal.
template <class Items, class GetBox>
Plane chooseCut(const Items &items, const Box &bounds, GetBox boxOf) {
  Plane best;
  size_t bestCost = SIZE_MAX;
  std::vector<int64_t> ends;
  for (unsigned dim = 0; dim < bounds.rank(); ++dim) {
    ends.clear();
    for (const auto &item : items)
      for (int64_t end : {boxOf(item)[dim].lo, boxOf(item)[dim].hi})
        if (bounds[dim].lo < end && end < bounds[dim].hi)
          ends.push_back(end);
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    size_t step = (ends.size() + kMaxCandidates - 1) / kMaxCandidates;
    for (size_t i = step / 2; i < ends.size(); i += step) {
      size_t below = 0, above = 0;
      for (const auto &item : items) {
        below += boxOf(item)[dim].lo < ends[i];
        above += boxOf(item)[dim].hi > ends[i];
      }
      size_t cost = below * below + above * above;
      if (cost < bestCost) {
        bestCost = cost;
        best = {dim, ends[i]};
      }
    }
  }
  return best;
}

/// A region on its way to becoming cells: after cutting, `covers` numbers the
/// set of regions that cover the part.
struct Part {
  Box box;
  uint32_t owners = 0;
  uint32_t covers = 0;
};

/// Clips every item to one side of a plane; items that miss it are dropped.
template <class Item>
std::vector<Item> clipTo(const std::vector<Item> &items, unsigned dim,
                         Interval side) {
  std::vector<Item> clipped;
  for (Item item : items) {
    item.box[dim] = intersect(item.box[dim], side);
    if (!item.box[dim].empty())
      clipped.push_back(item);
  }
  return clipped;
}

Box hullOf(const std::vector<Part> &items) {
  Box hull = items.front().box;
  for (const Part &item : items)
    for (unsigned dim = 0; dim < hull.rank(); ++dim) {
      hull[dim].lo = std::min(hull[dim].lo, item.box[dim].lo);
      hull[dim].hi = std::max(hull[dim].hi, item.box[dim].hi);
    }
  return hull;
}

/// Cuts overlapping regions into disjoint cells.
class Cutter {
public:
  Cutter(SetNumbers &sets, WorkLimit *limit) : sets(sets), limit(limit) {}

  std::vector<Cell> run(const std::vector<Cell> &items) {
    std::vector<Part> parts;
    for (const Cell &item : items)
      parts.push_back({item.box, item.owners, uint32_t(parts.size())});
    cut(parts);
    return merged();
  }

private:
  void cut(const std::vector<Part> &items);
  std::vector<Cell> merged();

  SetNumbers &sets;
  WorkLimit *limit;
  std::vector<Part> parts;
  std::map<std::vector<uint32_t>, uint32_t> covers;
};

/// Cuts until parts that overlap are equal, then unites their owners.
void Cutter::cut(const std::vector<Part> &items) {
  if (items.empty() || (limit && !limit->take(int64_t(items.size()))))
    return;
  Box hull = hullOf(items);
  bool allEqual =
      std::all_of(items.begin(), items.end(), [&](const Part &item) {
        return item.box == items.front().box;
      });
  if (allEqual) {
    std::vector<uint32_t> owners, regions;
    for (const Part &item : items) {
      owners.push_back(item.owners);
      regions.push_back(item.covers);
    }
    std::sort(regions.begin(), regions.end());
    uint32_t number =
        covers.emplace(std::move(regions), uint32_t(covers.size()))
            .first->second;
    parts.push_back({hull, sets.unite(std::move(owners)), number});
    return;
  }
  Plane plane = chooseCut(
      items, hull, [](const Part &item) -> const Box & { return item.box; });
  Interval extent = hull[plane.dim];
  cut(clipTo(items, plane.dim, {extent.lo, plane.at}));
  cut(clipTo(items, plane.dim, {plane.at, extent.hi}));
}

/// Merges touching parts of the same regions, which the cuts of others had
/// separated. Parts of different regions stay apart even when their owners are
/// equal: a cell lies in one shard of each owner.
std::vector<Cell> Cutter::merged() {
  std::map<uint32_t, std::vector<Box>> byCovers;
  std::map<uint32_t, uint32_t> owners;
  for (const Part &part : parts) {
    byCovers[part.covers].push_back(part.box);
    owners[part.covers] = part.owners;
  }
  std::vector<Cell> cells;
  for (auto &[number, boxes] : byCovers)
    for (const Box &box : mergeAdjacent(std::move(boxes)))
      cells.push_back({box, owners[number]});
  return cells;
}

/// Groups of items that overlap, directly or through others.
class Groups {
public:
  explicit Groups(size_t size) : parent(size) {
    std::iota(parent.begin(), parent.end(), 0);
  }
  uint32_t find(uint32_t item) {
    while (parent[item] != item)
      item = parent[item] = parent[parent[item]];
    return item;
  }
  void unite(uint32_t a, uint32_t b) {
    a = find(a);
    b = find(b);
    parent[std::max(a, b)] = std::min(a, b);
  }

private:
  std::vector<uint32_t> parent;
};

/// Puts items into `order`, without a second copy of them.
void permute(std::vector<Cell> &items, std::vector<uint32_t> order) {
  for (uint32_t start = 0; start < order.size(); ++start) {
    if (order[start] == start)
      continue;
    // Follow the cycle; a place that has its item is marked by order[i] = i.
    Cell first = items[start];
    uint32_t place = start;
    while (order[place] != start) {
      uint32_t from = order[place];
      items[place] = items[from];
      order[place] = place;
      place = from;
    }
    items[place] = first;
    order[place] = place;
  }
}

/// One item per region of a holding, sorted; equal boxes become one item.
std::vector<Cell> collectItems(const std::vector<Holding> &holdings,
                               const std::vector<int64_t> &shape,
                               SetNumbers &sets) {
  // Boxes are large: reserved room that stays untouched costs no memory,
  // growing and copying does.
  std::vector<Cell> items;
  items.reserve(size_t(mostRegions(holdings)));
  std::vector<Box> boxes;
  for (const Holding &holding : holdings) {
    boxes.clear();
    appendRegions(holding.shard, shape, boxes);
    uint32_t owners = sets.number(holding.devices);
    for (const Box &box : boxes)
      items.push_back({box, owners});
  }
  permute(items, sortedOrder(BoxList(items, &Cell::box)));

  size_t kept = 0;
  std::vector<uint32_t> parts;
  for (size_t i = 0; i < items.size();) {
    Cell item = items[i];
    parts.clear();
    for (; i < items.size() && items[i].box == item.box; ++i)
      parts.push_back(items[i].owners);
    if (parts.size() > 1)
      item.owners = sets.unite(parts);
    items[kept++] = item;
  }
  items.resize(kept);
  return items;
}

/// Makes items disjoint. Items that overlap no other stay as they are.
std::vector<Cell> makeDisjoint(std::vector<Cell> items, SetNumbers &sets,
                               WorkLimit *limit) {
  BoxList boxes(items, &Cell::box);
  Groups groups(items.size());
  for (auto [i, j] : overlappingPairs(boxes, boxes, limit))
    if (i < j)
      groups.unite(i, j);
  std::map<uint32_t, std::vector<Cell>> overlapping;
  for (uint32_t i = 0; i < items.size(); ++i)
    if (uint32_t root = groups.find(i); root != i)
      overlapping[root].push_back(items[i]);
  if (overlapping.empty())
    return items;

  std::vector<Cell> cells;
  for (uint32_t i = 0; i < items.size(); ++i) {
    if (groups.find(i) != i)
      continue;
    auto group = overlapping.find(i);
    if (group == overlapping.end()) {
      cells.push_back(items[i]);
      continue;
    }
    group->second.push_back(items[i]);
    std::vector<Cell> pieces = Cutter(sets, limit).run(group->second);
    cells.insert(cells.end(), pieces.begin(), pieces.end());
  }
  std::sort(cells.begin(), cells.end(),
            [](const Cell &a, const Cell &b) { return a.box < b.box; });
  return cells;
}

} // namespace

CellSet overlay(const std::vector<Holding> &holdings,
                const std::vector<int64_t> &shape, WorkLimit *limit) {
  CellSet result;
  if (limit && !limit->take(mostRegions(holdings)))
    return result;
  SetNumbers sets(limit);
  result.cells = makeDisjoint(collectItems(holdings, shape, sets), sets, limit);
  // Sets in order of first use, unused ones dropped.
  std::vector<uint32_t> renumbered(sets.sets.size(), UINT32_MAX);
  for (Cell &cell : result.cells) {
    uint32_t &number = renumbered[cell.owners];
    if (number == UINT32_MAX) {
      number = uint32_t(result.ownerSets.size());
      result.ownerSets.push_back(std::move(sets.sets[cell.owners]));
    }
    cell.owners = number;
  }
  return result;
}

std::optional<CellPair> firstOverlap(const std::vector<Cell> &cells) {
  auto found = firstOverlap(BoxList(cells, &Cell::box));
  if (!found)
    return std::nullopt;
  auto [left, right] = *found;
  return CellPair{intersect(cells[left].box, cells[right].box), left, right};
}

std::vector<CellPair> join(const std::vector<Cell> &a,
                           const std::vector<Cell> &b, WorkLimit *limit) {
  BoxList boxesA(a, &Cell::box), boxesB(b, &Cell::box);
  std::vector<IndexPair> pairs = overlappingPairs(boxesA, boxesB, limit);
  std::vector<CellPair> joined;
  joined.reserve(pairs.size());
  for (uint32_t i : sortedOrder(pairs, boxesA, boxesB)) {
    auto [left, right] = pairs[i];
    joined.push_back({intersect(a[left].box, b[right].box), left, right});
  }
  return joined;
}

namespace {

/// Appends the parts of `box` outside all `cells`, which lie inside it.
void appendHoles(const Box &box, const std::vector<Cell> &cells,
                 std::vector<Box> &out, WorkLimit *limit) {
  if (limit && limit->isExceeded())
    return;
  if (cells.size() <= 1) {
    size_t before = out.size();
    if (cells.empty())
      out.push_back(box);
    else
      subtract(box, cells.front().box, out);
    if (limit)
      limit->take(int64_t(out.size() - before));
    return;
  }
  int64_t covered = 0;
  for (const Cell &cell : cells) {
    if (cell.box == box)
      return;
    covered += cell.box.volume();
  }
  if (covered == box.volume())
    return;
  // No cell is the whole box, so each has an end inside it: both halves are
  // smaller, whether cells are disjoint or not.
  Plane cut = chooseCut(
      cells, box, [](const Cell &cell) -> const Box & { return cell.box; });
  for (Interval side :
       {Interval{box[cut.dim].lo, cut.at}, Interval{cut.at, box[cut.dim].hi}}) {
    Box half = box;
    half[cut.dim] = side;
    appendHoles(half, clipTo(cells, cut.dim, side), out, limit);
  }
}

} // namespace

std::vector<Box> uncovered(const Box &box, const std::vector<Cell> &cells,
                           WorkLimit *limit) {
  // Cells are disjoint, so that volumes tell whether there is any hole.
  int64_t covered = 0;
  for (const Cell &cell : cells)
    covered += intersect(cell.box, box).volume();
  if (covered == box.volume())
    return {};
  std::vector<Cell> inside;
  for (const Cell &cell : cells) {
    Box part = intersect(cell.box, box);
    if (!part.empty())
      inside.push_back({part, 0});
  }
  std::vector<Box> holes;
  appendHoles(box, inside, holes, limit);
  return mergeAdjacent(std::move(holes));
}

std::optional<Box> firstUncovered(const std::vector<Cell> &wanted,
                                  const std::vector<Cell> &cells,
                                  WorkLimit *limit) {
  // To name one hole, few are looked at.
  constexpr int64_t kMostHoles = 4096;
  std::vector<CellPair> pairs = join(wanted, cells, limit);
  std::vector<int64_t> covered(wanted.size(), 0);
  for (const CellPair &pair : pairs)
    covered[pair.left] += pair.box.volume();
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (covered[i] == wanted[i].box.volume())
      continue;
    std::vector<Cell> inside;
    for (const CellPair &pair : pairs)
      if (pair.left == i)
        inside.push_back({pair.box, 0});
    WorkLimit limited(kMostHoles);
    std::vector<Box> holes = uncovered(wanted[i].box, inside, &limited);
    if (!holes.empty())
      return holes.front();
  }
  return std::nullopt;
}

} // namespace dt
