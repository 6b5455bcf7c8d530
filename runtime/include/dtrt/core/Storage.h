//===- Storage.h - Where a device keeps its shards --------------*- C++ -*-===//
//
// A program names bytes as (side, shard, state, member); storage says where
// they are. `ArenaStorage` owns the memory, for runs outside a trainer; a live
// trainer makes a `LocalStorage` and binds the tensors that it has.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_CORE_STORAGE_H
#define DTRT_CORE_STORAGE_H

#include "dtrt/format/PlanModel.h"
#include "dtrt/types/Status.h"

#include <cstddef>

namespace dtrt {

class LiveMemory;
struct TensorBinding;

/// One dense local buffer per (side, shard, state, member). The members of a
/// shard are numbered in local row-major order of its leading dims.
class LocalStorage {
public:
  /// Both must outlive the storage.
  LocalStorage(const PlanCommon &common, const RankProgram &program);
  virtual ~LocalStorage() = default;
  LocalStorage(const LocalStorage &) = delete;
  LocalStorage &operator=(const LocalStorage &) = delete;

  /// Null when nothing is bound there.
  std::byte *data(Side side, uint32_t shard, unsigned state,
                  int64_t member) const {
    return pointers[index(side, shard, state, member)];
  }
  void bind(Side side, uint32_t shard, unsigned state, int64_t member,
            std::byte *data) {
    pointers[index(side, shard, state, member)] = data;
  }

  /// Points source states that are read from another (StateInfo::derivedFrom)
  /// to its buffers. Call it when those are bound.
  void bindMade();

  /// Bytes of one member's buffer for one state.
  uint64_t memberBytes(Side side, uint32_t shard, unsigned state) const;
  int64_t members(Side side, uint32_t shard) const {
    return layouts[size_t(side)][shard].members;
  }

  /// Flat mode: called when the program creates storage of a destination shard
  /// or releases storage of a source shard (storage segments, PlanModel.h).
  /// Here only the bytes are counted: bound tensors are the caller's.
  virtual Status create(const Segment &range);
  virtual Status release(const Segment &range);

  /// Called with every tensor that is bound, and the buffer that it is.
  virtual void note(const TensorBinding &, uint32_t, unsigned, int64_t) {}

  /// Counts bytes that the device holds beside its shards: the staging arena.
  void reserve(uint64_t bytes) { count(int64_t(bytes)); }
  /// Shards and reserved bytes now, and the most so far.
  uint64_t liveBytes() const { return live; }
  uint64_t peakLiveBytes() const { return peak; }

  const PlanCommon &common() const { return planCommon; }
  const RankProgram &program() const { return rankProgram; }
  const std::vector<ShardRecord> &shards(Side side) const {
    return side == Side::Source ? rankProgram.source : rankProgram.destination;
  }

protected:
  /// Bytes of the buffer of one member and state, counted from its start.
  struct BufferPart {
    Side side = Side::Source;
    uint32_t shard = 0;
    unsigned state = 0;
    int64_t member = 0;
    Interval bytes;
  };
  /// What a storage segment names.
  std::vector<BufferPart> partsOf(const Segment &range) const;
  /// Where the buffer of a member stands among all buffers of the device.
  size_t index(Side side, uint32_t shard, unsigned state,
               int64_t member) const {
    const ShardLayout &layout = layouts[size_t(side)][shard];
    uint64_t below = layout.states & ((uint64_t(1) << state) - 1);
    return layout.first +
           size_t(__builtin_popcountll(below)) * size_t(layout.members) +
           size_t(member);
  }
  size_t indexOf(const BufferPart &part) const {
    return index(part.side, part.shard, part.state, part.member);
  }
  size_t numBuffers() const { return pointers.size(); }

private:
  struct ShardLayout {
    size_t first = 0; // of this shard's pointers
    int64_t members = 0;
    uint64_t states = 0;
  };
  uint64_t bytesOf(const Segment &range) const;
  void count(int64_t bytes) {
    live += uint64_t(bytes);
    peak = peak > live ? peak : live;
  }

  const PlanCommon &planCommon;
  const RankProgram &rankProgram;
  std::vector<ShardLayout> layouts[2];
  std::vector<std::byte *> pointers;
  uint64_t live = 0, peak = 0;
};

} // namespace dtrt

#endif // DTRT_CORE_STORAGE_H
