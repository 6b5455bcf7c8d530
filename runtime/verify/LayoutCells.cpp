//===- LayoutCells.cpp - Who holds what before and after ------------------===//

#include "LayoutCells.h"

#include "ShardBoxes.h"
#include "Steps.h"
#include "dtrt/format/ShardView.h"
#include "dtrt/format/Text.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>

namespace dtrt {

namespace {

/// Plans of the compiler take up to three steps and half a box per interval,
/// and where all devices exchange with all, three steps per message.
constexpr uint64_t kStepsPerInterval = 128, kStepsPerMessage = 128,
                   kStepsAtLeast = 1 << 22;
constexpr uint64_t kBoxesPerInterval = 8, kBoxesAtLeast = 1 << 18;

/// States of a family that the same shards have. A state that may be made from
/// another is alone.
std::vector<uint64_t> statesAlike(const Family &family,
                                  const std::vector<ShardTable::Row> &rows) {
  std::vector<uint64_t> masks; // of shards, by side
  for (const ShardTable::Row &row : rows)
    masks.push_back(row.shard->states);
  std::sort(masks.begin(), masks.end());
  masks.erase(std::unique(masks.begin(), masks.end()), masks.end());
  // With which masks of which side the state occurs, and what else is asked of
  // it.
  std::map<std::vector<int64_t>, uint64_t> classes;
  for (unsigned state = 0; state < family.states.size(); ++state) {
    const StateInfo &info = family.states[state];
    std::vector<int64_t> key = {info.inSource, info.inDestination,
                                info.derivedFrom >= 0 ? int64_t(state) : -1};
    for (size_t i = 0; i < masks.size(); ++i)
      if (masks[i] >> state & 1)
        key.push_back(int64_t(i));
    classes[key] |= uint64_t(1) << state;
  }
  std::vector<uint64_t> out;
  for (const auto &[key, states] : classes)
    out.push_back(states);
  return out;
}

/// The boxes of one family and of states that are alike. Calls cell(shape) for
/// each cell.
class Overlay {
public:
  using Visit = std::function<void(const CellShape &)>;

  Overlay(const Family &family, uint64_t states, Steps &steps, Steps &boxSteps,
          Visit cell)
      : family(family), states(states),
        info(family.states[statesOf(states).front()]), steps(steps),
        boxSteps(boxSteps), cell(std::move(cell)), levels(family.rank()),
        at(family.rank(), 0) {
    for (const LeadingDim &dim : family.leading)
      extents.push_back(dim.count);
    extents.insert(extents.end(), family.shape.begin(), family.shape.end());
    for (unsigned state : statesOf(states))
      width += byteWidth(wireDType(family.states[state]));
  }

  Status run(const std::vector<ShardTable::Row> &rows) {
    if (std::count(extents.begin(), extents.end(), 0) > 0)
      return {};
    for (uint32_t i = 0; i < rows.size(); ++i)
      addRow(rows[i], i);
    DTRT_RETURN_IF_ERROR(boxSteps.status());
    if (!info.inDestination)
      return {}; // what is dropped may lie anywhere
    std::vector<uint32_t> all(parts.size());
    for (uint32_t i = 0; i < all.size(); ++i)
      all[i] = i;
    return sweep(all, 0, 1);
  }

private:
  /// Of one dim; used by one call of `sweep` at a time.
  struct Level {
    std::vector<int64_t> cuts;
    std::vector<uint32_t> byStart, active;
  };

  /// Whether a device that gets what the state is made from can make it.
  bool mayBeDerived() const { return info.derivedFrom >= 0 && info.inSource; }

  void addRow(const ShardTable::Row &row, uint32_t number) {
    auto has = [&](uint64_t some) { return (row.shard->states & some) != 0; };
    if (row.side == Side::Source) {
      if (has(states))
        addBoxes(row, number, kHeld);
      return;
    }
    if (has(states))
      addBoxes(row, number, kWanted);
    if (mayBeDerived() && has(uint64_t(1) << info.derivedFrom))
      addBoxes(row, number, kDerived);
  }

  void addBoxes(const ShardTable::Row &row, uint32_t number, Part part) {
    appendBoxes(family, *row.shard, boxes, boxSteps);
    owners.resize(boxes.count(), number);
    parts.resize(boxes.count(), part);
  }

  Status lacks(const char *side) const {
    std::string element;
    for (unsigned d = family.numLeading(); d < family.rank(); ++d)
      element += (element.empty() ? "" : ", ") + std::to_string(at[d]);
    return makeError(side, " layout lacks element [", element, "] of tensor '",
                     tensorOf(family, at), "' state '", shortened(info.name),
                     "'");
  }

  Status sweep(const std::vector<uint32_t> &items, unsigned dim,
               uint64_t volume);
  void addCell(const std::vector<uint32_t> &items, uint64_t volume);

  const Family &family;
  uint64_t states;
  const StateInfo &info; // of the first of them
  Steps &steps, &boxSteps;
  const Visit cell;
  CellShape shape; // of one call of `addCell` at a time
  BoxList boxes;
  std::vector<uint32_t> owners; // of each box, its row
  std::vector<Part> parts;
  std::vector<Level> levels;
  std::vector<int64_t> extents, at; // where the sweep is
  uint64_t width = 0;               // bytes per element
};

/// The items span where the sweep is in all dims below `dim`, `volume` elements
/// there.
Status Overlay::sweep(const std::vector<uint32_t> &items, unsigned dim,
                      uint64_t volume) {
  bool has[kNumParts] = {};
  for (uint32_t item : items)
    has[parts[item]] = true;
  if (!has[kWanted])
    return family.partial ? Status() : lacks("destination");
  if (!has[kHeld] && info.inSource && !family.partial)
    return lacks("source");
  if (!steps.take(items.size() + 1))
    return steps.status();
  if (dim == family.rank()) {
    addCell(items, volume);
    return {};
  }
  Level &level = levels[dim];
  level.cuts = {0, extents[dim]};
  for (uint32_t item : items)
    level.cuts.insert(level.cuts.end(),
                      {boxes.low(item)[dim], boxes.high(item)[dim]});
  std::sort(level.cuts.begin(), level.cuts.end());
  level.cuts.erase(std::unique(level.cuts.begin(), level.cuts.end()),
                   level.cuts.end());
  level.byStart = items;
  std::sort(level.byStart.begin(), level.byStart.end(),
            [&](uint32_t a, uint32_t b) {
              return boxes.low(a)[dim] < boxes.low(b)[dim];
            });
  level.active.clear();
  size_t next = 0;
  for (size_t i = 0; i + 1 < level.cuts.size(); ++i) {
    int64_t from = level.cuts[i], to = level.cuts[i + 1];
    auto &active = level.active;
    active.erase(std::remove_if(active.begin(), active.end(),
                                [&](uint32_t item) {
                                  return boxes.high(item)[dim] <= from;
                                }),
                 active.end());
    for (; next < items.size() && boxes.low(level.byStart[next])[dim] == from;
         ++next)
      active.push_back(level.byStart[next]);
    at[dim] = from;
    DTRT_RETURN_IF_ERROR(sweep(active, dim + 1, volume * uint64_t(to - from)));
  }
  at[dim] = 0;
  return {};
}

void Overlay::addCell(const std::vector<uint32_t> &items, uint64_t volume) {
  for (auto &rows : shape.rows)
    rows.clear();
  for (uint32_t item : items)
    shape.rows[parts[item]].push_back(owners[item]);
  shape.bytes = volume * width;
  cell(shape);
}

} // namespace

void LayoutCells::add(const CellShape &cell,
                      const std::vector<uint32_t> &setOfRow) {
  auto whoHas = [&](Part part) {
    std::vector<uint32_t> some;
    for (uint32_t row : cell.rows[part])
      some.push_back(setOfRow[row]);
    return sets.unionOf(std::move(some));
  };
  uint32_t held = whoHas(kHeld), wanted = whoHas(kWanted);
  if (!cell.rows[kDerived].empty())
    wanted = wantersOf(held, wanted, whoHas(kDerived));
  uint64_t &sum = sums[uint64_t(held) << 32 | wanted];
  if (__builtin_add_overflow(sum, cell.bytes, &sum))
    sum = UINT64_MAX;
}

/// Those that want it, but for those that want what it is made from and do not
/// hold it.
uint32_t LayoutCells::wantersOf(uint32_t held, uint32_t wanted,
                                uint32_t derived) {
  Devices deriving, rest;
  const Devices &m = sets[derived], &s = sets[held], &p = sets[wanted];
  std::set_difference(m.begin(), m.end(), s.begin(), s.end(),
                      std::back_inserter(deriving));
  std::set_difference(p.begin(), p.end(), deriving.begin(), deriving.end(),
                      std::back_inserter(rest));
  return sets.numberOf(rest);
}

Result<LayoutCells> LayoutCells::of(const std::vector<Family> &families,
                                    const ShardTable &shards, uint64_t messages,
                                    KnownCells *known) {
  LayoutCells out;
  Steps steps(kStepsAtLeast + kStepsPerInterval * shards.intervals() +
              kStepsPerMessage * messages);
  Steps boxSteps(kBoxesAtLeast + kBoxesPerInterval * shards.intervals());
  for (uint32_t f = 0; f < families.size(); ++f) {
    const auto &rows = shards.of(f);
    std::vector<uint32_t> numbers, setOfRow;
    for (const ShardTable::Row &row : rows) {
      numbers.push_back(row.number);
      setOfRow.push_back(out.sets.numberOf(row.devices));
    }
    auto add = [&](const CellShape &cell) { out.add(cell, setOfRow); };
    for (uint64_t states : statesAlike(families[f], rows)) {
      if (auto *cells = known ? known->find(f, states, numbers) : nullptr) {
        cells->forEach(add);
        continue;
      }
      CellShapes cells;
      auto visit = [&](const CellShape &cell) {
        add(cell);
        if (known && cells.bytes() <= KnownCells::kMost)
          cells.add(cell);
      };
      Status status =
          Overlay(families[f], states, steps, boxSteps, visit).run(rows);
      if (!status.ok())
        return makeError("family ", f, " '", shortened(families[f].name),
                         "': ", status.message());
      if (known)
        known->keep(f, states, numbers, std::move(cells));
    }
  }
  return out;
}

} // namespace dtrt
