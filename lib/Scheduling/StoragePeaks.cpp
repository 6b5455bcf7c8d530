//===- StoragePeaks.cpp - What devices hold, wave by wave -----------------===//
//
// A page of a destination buffer is created in the wave that first writes an
// element of it, or one between the first and the last of a piece; a page of a
// source buffer goes in the last wave that reads one. So per page one number is
// kept: the least wave, or the greatest.
//
//   pages of 4 elements, three pieces      wave   pages   first write
//   that write [0:6) [8:9) [5:12)          0      0..1    0 0 -
//                                          1      2..2    0 0 1
//                                          2      1..2    0 0 1
//
//===----------------------------------------------------------------------===//

#include "StoragePeaks.h"

#include "dt/Geometry/Painted.h"

#include <algorithm>
#include <limits>

using namespace dt;

namespace {

/// What is written by nobody (padding, what is made from another state) is
/// created when all is done; what is read by nobody goes before all waves.
constexpr int32_t kNever = std::numeric_limits<int32_t>::max();
constexpr int32_t kBefore = -1;

/// A piece that touches a shard.
struct Touch {
  int32_t wave;
  const Box *box;
};

/// Positions, in a shard, of the members that a box covers.
std::vector<int64_t> membersOf(const Shard &shard, const Box &box) {
  std::vector<int64_t> members = {0};
  for (unsigned d = 0; d < shard.numLeading; ++d) {
    std::vector<int64_t> positions;
    int64_t at = 0;
    for (Interval interval : shard.dims[d]) {
      Interval both = intersect(interval, box[d]);
      for (int64_t i = both.lo; i < both.hi; ++i)
        positions.push_back(at + i - interval.lo);
      at += interval.size();
    }
    std::vector<int64_t> next;
    for (int64_t member : members)
      for (int64_t position : positions)
        next.push_back(member * at + position);
    members = std::move(next);
  }
  return members;
}

/// Bytes that come or go in each wave.
using Changes = std::map<int32_t, int64_t>;

int64_t totalOf(const Changes &changes) {
  int64_t bytes = 0;
  for (auto [wave, change] : changes)
    bytes += change;
  return bytes;
}

/// Adds what one group of states of a shard has to the waves that its pages, of
/// `page` elements, belong to.
void addPages(const Shard &shard, const std::vector<Touch> &touches,
              FlatStates states, int64_t page, bool destination,
              Changes &changes) {
  int64_t end = shard.elementsPerMember();
  int64_t pages = (end + page - 1) / page;
  std::vector<int32_t> waves(size_t(pages * shard.numMembers()),
                             destination ? kNever : kBefore);
  for (const Touch &touch : touches) {
    auto view = localView(shard, *touch.box);
    int64_t last = view->offset;
    for (size_t d = 0; d < view->sizes.size(); ++d)
      last += (view->sizes[d] - 1) * view->strides[d];
    for (int64_t member : membersOf(shard, *touch.box))
      for (int64_t p = view->offset / page; p <= last / page; ++p) {
        int32_t &wave = waves[size_t(member * pages + p)];
        wave = destination ? std::min(wave, touch.wave)
                           : std::max(wave, touch.wave);
      }
  }
  for (size_t i = 0; i < waves.size(); ++i) {
    int64_t first = int64_t(i) % pages * page;
    changes[waves[i]] +=
        (std::min(end, first + page) - first) * states.width * states.count;
  }
}

/// What happens to all shards of one side.
class Side {
public:
  Side(const Storage &storage, bool destination)
      : storage(storage), destination(destination),
        index(shardsOn(storage, destination)) {}

  void add(uint32_t flow, int64_t device, const Box &box, int32_t wave) {
    uint32_t buffers = destination ? flow : storage.flows[flow].readsFrom;
    if (auto shard = index.findNumber(buffers, device, box))
      touches[{device, *shard}].push_back({wave, &box});
  }

  std::map<int64_t, Changes> changes() const {
    std::map<int64_t, Changes> out;
    std::map<std::pair<int64_t, int64_t>, Changes> shared; // device, storage
    static const std::vector<Touch> none;
    for (int64_t device : index.devices()) {
      const auto &shards = index.shardsOf(device);
      for (uint32_t i = 0; i < shards.size(); ++i) {
        const FlatFlow &flow = storage.flows[shards[i].flow];
        if (flow.stays(device))
          continue;
        auto found = touches.find({device, i});
        const std::vector<FlatStates> &all =
            destination ? flow.destination : flow.source;
        int64_t page = pageElements(all, storage.pageBytes);
        for (FlatStates states : all)
          addPages(*shards[i].shard,
                   found == touches.end() ? none : found->second, states, page,
                   destination,
                   states.storage < 0 ? out[device]
                                      : shared[{device, states.storage}]);
      }
    }
    // A shared storage comes with the first of it and goes with the last.
    for (const auto &[key, changes] : shared)
      out[key.first][destination ? changes.begin()->first
                                 : changes.rbegin()->first] += totalOf(changes);
    return out;
  }

private:
  const Storage &storage;
  bool destination;
  ShardIndex index;
  std::map<std::pair<int64_t, uint32_t>, std::vector<Touch>> touches;
};

/// Bytes of a device that stay from before to after.
int64_t stayingBytes(const Storage &storage, const ShardIndex &index,
                     int64_t device) {
  int64_t bytes = 0;
  for (const ShardIndex::Entry &entry : index.shardsOf(device))
    if (const FlatFlow &flow = storage.flows[entry.flow]; flow.stays(device))
      for (const FlatStates &states : flow.source)
        bytes += entry.shard->numMembers() * entry.shard->elementsPerMember() *
                 states.width * states.count;
  return bytes;
}

StoragePeak peakOf(const Changes &created, const Changes &freed) {
  StoragePeak peak;
  int64_t live = totalOf(freed);
  peak.larger = std::max(live, totalOf(created));
  peak.bytes = live;
  Changes both = created; // waves in which anything happens
  both.insert(freed.begin(), freed.end());
  for (const auto &[wave, unused] : both) {
    if (auto it = created.find(wave); it != created.end())
      live += it->second;
    if (live > peak.bytes) {
      peak.bytes = live;
      peak.wave = wave;
    }
    if (auto it = freed.find(wave); it != freed.end())
      live -= it->second;
  }
  return peak;
}

} // namespace

ShardIndex dt::shardsOn(const Storage &storage, bool destination) {
  ShardIndex index;
  const auto &side = destination ? storage.destination : storage.source;
  for (uint32_t flow = 0; flow < side.size(); ++flow)
    index.add(flow, side[flow]);
  return index;
}

std::map<int64_t, StoragePeak> dt::storagePeaks(const Storage &storage,
                                                const WaveSchedule &schedule) {
  Side source(storage, /*destination=*/false);
  Side destination(storage, /*destination=*/true);
  for (const ScheduledMove &piece : schedule.moves) {
    const Move &move = piece.move;
    // A forward is read from where it came to.
    if (move.hop == 0)
      source.add(move.flow, move.source, move.box, piece.wave);
    destination.add(move.flow, move.destination, move.box, piece.wave);
  }
  for (const ScheduledCopy &copy : schedule.copies) {
    const LocalMove &move = copy.move;
    source.add(move.flow, move.device, move.box, copy.wave);
    destination.add(move.flow, move.device, move.box, copy.wave);
  }
  std::map<int64_t, Changes> freed = source.changes();
  std::map<int64_t, Changes> created = destination.changes();
  for (const auto &[device, unused] : created)
    freed[device];
  std::map<int64_t, StoragePeak> out;
  ShardIndex before = shardsOn(storage, /*destination=*/false);
  for (const auto &[device, changes] : freed) {
    StoragePeak peak = peakOf(created[device], changes);
    int64_t staying = stayingBytes(storage, before, device);
    peak.bytes += staying;
    peak.larger += staying;
    out[device] = peak;
  }
  return out;
}
