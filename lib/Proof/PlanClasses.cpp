//===- PlanClasses.cpp - What is alike in a plan --------------------------===//

#include "dt/Proof/PlanClasses.h"

#include "dt/Proof/SlotUses.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <unordered_map>

namespace dt {

namespace {

//===----------------------------------------------------------------------===//
// Waves
//===----------------------------------------------------------------------===//

/// Messages of one wave, counted at their ends.
struct WaveCounts {
  int64_t wave = 0;
  int64_t perPair = 0, perRank = 0;
};

/// One entry per wave, in the order in which waves stand in the program.
std::vector<WaveCounts> countWaves(const std::vector<PlanSlot> &slots) {
  std::vector<WaveCounts> out;
  std::unordered_map<int64_t, int64_t> ranks, pairs;
  for (const PlanSlot &slot : slots) {
    if (out.empty() || out.back().wave != slot.wave) {
      out.push_back({slot.wave, 0, 0});
      ranks.clear();
      pairs.clear();
    }
    int64_t pair = (slot.device << 32 | slot.peer) * 2 + slot.receive;
    out.back().perRank = std::max(out.back().perRank, ++ranks[slot.device]);
    out.back().perPair = std::max(out.back().perPair, ++pairs[pair]);
  }
  return out;
}

/// Runs of waves in constant steps.
std::vector<WaveClass> classifyWaves(const std::vector<PlanSlot> &slots) {
  std::vector<WaveClass> out;
  for (const WaveCounts &wave : countWaves(slots)) {
    WaveClass *last = out.empty() ? nullptr : &out.back();
    if (last && last->count == 1 && last->perPair == wave.perPair)
      last->step = wave.wave - last->first;
    if (!last || last->perPair != wave.perPair ||
        wave.wave != last->first + last->step * last->count)
      out.push_back({wave.wave, 1, 0, wave.perPair, 0});
    last = &out.back();
    ++last->count;
    last->perRank = std::max(last->perRank, wave.perRank);
  }
  return out;
}

//===----------------------------------------------------------------------===//
// Arenas
//===----------------------------------------------------------------------===//

using Areas = std::array<Interval, 4>;

/// A device has a class of its own up to so many slots, and so many devices
/// have: a bound that does not grow with the world.
constexpr size_t kMaxSlots = 64, kMaxOwnArenas = 16;

/// What a device has of staging.
struct Arena {
  int64_t wave = -1, group = -1;
  Areas areas; // hulls of the slots, by kind and parity
  std::vector<const PlanSlot *> ends;

  void add(const PlanSlot &slot) {
    group += slot.wave != wave;
    wave = slot.wave;
    ends.push_back(&slot);
    if (slot.offset < 0)
      return;
    Interval own = {slot.offset, slot.offset + slot.bytes};
    Interval &area = areas[2 * slot.receive + group % 2];
    area = area.empty()
               ? own
               : Interval{std::min(area.lo, own.lo), std::max(area.hi, own.hi)};
  }
};

std::vector<Arena> measureArenas(const std::vector<PlanSlot> &slots) {
  std::unordered_map<int64_t, size_t> index;
  std::vector<Arena> out;
  for (const PlanSlot &slot : slots) { // waves ascend
    auto [at, isNew] = index.try_emplace(slot.device, out.size());
    if (isNew)
      out.emplace_back();
    out[at->second].add(slot);
  }
  return out;
}

/// Areas in use, by their first byte; whether they overlap.
bool orderAreas(const Areas &areas, ArenaClass &out) {
  for (unsigned area = 0; area < areas.size(); ++area)
    if (!areas[area].empty())
      out.order.push_back(area);
  std::sort(out.order.begin(), out.order.end(), [&](unsigned a, unsigned b) {
    return std::tie(areas[a].lo, a) < std::tie(areas[b].lo, b);
  });
  bool overlap = false;
  for (size_t i = 0; i < out.order.size(); ++i) {
    const Interval &area = areas[out.order[i]];
    overlap |= i > 0 && area.lo < areas[out.order[i - 1]].hi;
    out.peak = std::max(out.peak, area.hi);
  }
  return overlap;
}

void listSlots(const Arena &arena, const Forwards &forwards, ArenaClass &out) {
  std::vector<SlotUse> uses = slotUses(arena.ends, &forwards);
  for (const SlotUse &use : uses)
    out.slots.push_back({{use.begin(), use.end()}, use.first, use.last});
  std::vector<SlotPair> all = slotsThatMeet(uses);
  std::vector<SlotPair> left = slotsThatMeet(uses, &forwards);
  std::set_difference(all.begin(), all.end(), left.begin(), left.end(),
                      std::back_inserter(out.ordered));
}

void classifyArenas(const Arrivals &arrivals,
                    const std::vector<PlanSlot> &slots, PlanClasses &out) {
  Forwards forwards(arrivals.allPieces());
  std::map<std::vector<unsigned>, ArenaClass> classes;
  for (const Arena &arena : measureArenas(slots)) {
    ArenaClass own;
    own.devices = 1;
    if (orderAreas(arena.areas, own)) {
      if (arena.ends.size() > kMaxSlots || out.arenas.size() == kMaxOwnArenas) {
        ++out.otherArenas;
        continue;
      }
      listSlots(arena, forwards, own);
      out.arenas.push_back(std::move(own));
      continue;
    }
    auto [at, isNew] = classes.try_emplace(own.order, own);
    if (isNew)
      continue;
    ++at->second.devices;
    at->second.peak = std::max(at->second.peak, own.peak);
  }
  for (auto &[order, found] : classes)
    out.arenas.push_back(std::move(found));
}

//===----------------------------------------------------------------------===//
// Covers
//===----------------------------------------------------------------------===//

/// A way to cut has few affine classes with few indices altogether, or it is
/// irregular: a solver takes minutes over eight classes of four indices.
constexpr size_t kMaxPieceClasses = 8, kMaxIndices = 20;
/// Ways of more pieces are not tried.
constexpr size_t kMaxWayPieces = 4096;
/// So many ways at most are classes, and so many are tried: a bound that does
/// not grow with the world, and that small plans do not reach.
constexpr size_t kMaxCovers = 16, kMaxWaysTried = 32;

uint64_t mix(uint64_t hash, int64_t value) {
  hash = (hash ^ uint64_t(value)) * 0x9e3779b97f4a7c15ull;
  return hash ^ hash >> 29;
}

/// Pieces that arrive at one device, of one flow.
class Group {
public:
  Group(const Arrivals &arrivals, Arrivals::Range range)
      : arrivals(&arrivals), range(range) {}
  size_t size() const { return range.last - range.first; }
  const PlanPiece *operator[](size_t i) const {
    return &arrivals->piece(arrivals->all()[range.first + i]);
  }

private:
  const Arrivals *arrivals;
  Arrivals::Range range;
};

std::vector<int64_t> lowestCorner(const Group &group) {
  std::vector<int64_t> corner(group[0]->box.rank(), INT64_MAX);
  for (size_t i = 0; i < group.size(); ++i)
    for (unsigned d = 0; d < corner.size(); ++d)
      corner[d] = std::min(corner[d], group[i]->box[d].lo);
  return corner;
}

/// The same for groups that are alike up to a shift, whatever their order.
uint64_t hashShape(const Group &group, const std::vector<int64_t> &corner,
                   int64_t wanted) {
  uint64_t sum = mix(corner.size(), wanted);
  for (size_t i = 0; i < group.size(); ++i) {
    uint64_t hash = 1;
    for (unsigned d = 0; d < corner.size(); ++d)
      hash = mix(mix(hash, group[i]->box[d].lo - corner[d]),
                 group[i]->box[d].size());
    sum += hash;
  }
  return sum;
}

/// Offsets and sizes of the pieces, moved to the origin, as affine classes.
RowSet shapeOf(const Group &group, const std::vector<int64_t> &corner) {
  std::vector<Row> rows;
  for (size_t i = 0; i < group.size(); ++i) {
    Row row;
    for (unsigned d = 0; d < corner.size(); ++d)
      row.push_back(group[i]->box[d].lo - corner[d]);
    for (unsigned d = 0; d < corner.size(); ++d)
      row.push_back(group[i]->box[d].size());
    rows.push_back(std::move(row));
  }
  std::sort(rows.begin(), rows.end());
  std::vector<int64_t> flat;
  for (const Row &row : rows)
    flat.insert(flat.end(), row.begin(), row.end());
  unsigned columns = 2 * unsigned(corner.size());
  RowSet set = compressRows(flat, columns, /*minClassSize=*/2);
  for (size_t i = 0; i < set.table.size(); i += columns)
    set.classes.push_back(
        {Row(set.table.begin() + i, set.table.begin() + i + columns), {}, {}});
  set.table.clear();
  return set;
}

int64_t volumeOf(const RowClass &pieces, unsigned rank) {
  RowSet one;
  one.numColumns = 2 * rank;
  one.classes = {pieces};
  std::vector<int64_t> rows = expandRows(one);
  int64_t sum = 0;
  for (size_t at = 0; at < rows.size(); at += 2 * rank) {
    int64_t volume = 1;
    for (unsigned d = 0; d < rank; ++d)
      volume *= rows[at + rank + d];
    sum += volume;
  }
  return sum;
}

bool isRegular(const RowSet &shape) {
  size_t indices = 0;
  for (const RowClass &pieces : shape.classes)
    indices += pieces.counts.size();
  return !shape.classes.empty() && shape.classes.size() <= kMaxPieceClasses &&
         indices <= kMaxIndices;
}

class Covers {
public:
  Covers(const Arrivals &arrivals, PlanClasses &out)
      : arrivals(arrivals), out(out) {}

  void add(Arrivals::Range range, int64_t wanted) {
    Group group(arrivals, range);
    // One piece that is all that is wanted needs no solver.
    if (group.size() == 1 && group[0]->box.volume() == wanted)
      return;
    uint64_t hash = hashShape(group, lowestCorner(group), wanted);
    auto [at, isNew] = ways.try_emplace(hash, order.size());
    if (isNew)
      order.push_back({group, wanted, 0});
    ++order[at->second].users;
  }

  /// The ways that most use become classes, if they are regular.
  void finish() {
    std::stable_sort(
        order.begin(), order.end(),
        [](const Way &a, const Way &b) { return a.users > b.users; });
    for (size_t i = 0; i < order.size(); ++i) {
      RowSet shape;
      if (i < kMaxWaysTried && out.covers.size() < kMaxCovers &&
          order[i].group.size() <= kMaxWayPieces)
        shape = shapeOf(order[i].group, lowestCorner(order[i].group));
      if (!isRegular(shape))
        out.otherCovers += order[i].users;
      else
        out.covers.push_back(coverOf(order[i], std::move(shape.classes)));
    }
  }

private:
  struct Way {
    Group group;
    int64_t wanted = 0;
    int64_t users = 0;
  };

  CoverClass coverOf(const Way &way, std::vector<RowClass> pieces) const {
    CoverClass cover;
    cover.flow = arrivals.nameOf(way.group[0]->flow);
    cover.users = way.users;
    cover.rank = way.group[0]->box.rank();
    cover.pieces = std::move(pieces);
    for (const RowClass &part : cover.pieces)
      cover.volumes.push_back(volumeOf(part, cover.rank));
    cover.wanted = way.wanted;
    return cover;
  }

  const Arrivals &arrivals;
  PlanClasses &out;
  std::unordered_map<uint64_t, size_t> ways; // by shape, index in `order`
  std::vector<Way> order;
};

} // namespace

PlanClasses classify(const Arrivals &arrivals,
                     const std::vector<PlanSlot> &slots, const Wanted &wanted,
                     int64_t stagingLimit) {
  PlanClasses out;
  out.stagingLimit = stagingLimit;
  out.waves = classifyWaves(slots);
  classifyArenas(arrivals, slots, out);
  Covers covers(arrivals, out);
  for (const auto &[key, range] : arrivals.byKey()) {
    auto volume = wanted.find(key);
    covers.add(range, volume == wanted.end() ? 0 : volume->second);
  }
  covers.finish();
  return out;
}

} // namespace dt
