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
#include <functional>
#include <memory>

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
  /// Members, of the segment's shard, that it covers.
  std::vector<int64_t> membersIn(const Segment &segment) const;
  /// Where the buffer of a member stands among all buffers of the device.
  size_t index(Side side, uint32_t shard, unsigned state,
               int64_t member) const {
    const ShardLayout &layout = layouts[size_t(side)][shard];
    uint64_t below = layout.states & ((uint64_t(1) << state) - 1);
    return layout.first +
           size_t(__builtin_popcountll(below)) * size_t(layout.members) +
           size_t(member);
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

/// Where owned buffers come from: host memory, or a device's. `allocate` gives
/// nothing when there is no more.
struct MemorySource {
  std::function<std::byte *(uint64_t)> allocate;
  std::function<void(std::byte *)> free;
  /// Gives whole pages of a block back to the machine; they may be written
  /// again. Empty where a block can only be freed whole.
  std::function<void(std::byte *, uint64_t)> discard;
  uint64_t page = 0; // bytes; blocks start on one
};
/// Zeroed, on cache lines.
MemorySource hostMemory();
/// Addresses whose pages exist from the first write until they are discarded.
MemorySource hostPages();

/// Owns all buffers: one arena per side. In flat mode the pages of an arena
/// come and go with the program's Create and Release; where the memory cannot
/// give pages back, every member has a block, from its first Create to its
/// last Release.
class ArenaStorage : public LocalStorage {
public:
  static Result<std::unique_ptr<ArenaStorage>>
  allocate(const PlanCommon &common, const RankProgram &program,
           MemorySource memory = {});
  ~ArenaStorage() override;

  Status create(const Segment &range) override;
  Status release(const Segment &range) override;
  /// Most bytes of pages that held live storage at any time; 0 where nothing
  /// comes or goes by pages.
  uint64_t peakPageBytes() const { return peakPages * memory.page; }

private:
  using Block = std::unique_ptr<std::byte, std::function<void(std::byte *)>>;
  /// Flat mode: a buffer of one member and state.
  struct Buffer {
    uint64_t place = 0; // in its arena, when there is one
    uint64_t live = 0;  // bytes
    Block block;        // when there is none
  };

  ArenaStorage(const PlanCommon &common, const RankProgram &program,
               MemorySource memory)
      : LocalStorage(common, program), memory(std::move(memory)) {}
  Result<Block> allocateBlock(uint64_t bytes);
  Status allocateArena(Side side);
  std::byte *bindShard(Side side, uint32_t shard, std::byte *from);

  Status allocateFlat();
  uint64_t placeBuffers(Side side);
  /// Bytes of one buffer, counted from its start.
  struct Place {
    Side side;
    uint32_t shard;
    unsigned state;
    int64_t member;
    Interval bytes;
  };
  template <typename Fn> void forEachBuffer(const Segment &range, Fn fn);
  template <typename Fn> void forEachPage(const Place &at, Fn fn);
  void count(const Place &at, bool live);
  Status appear(const Place &at);
  void discard(const Place &at);

  MemorySource memory;
  Block arenas[2];
  std::vector<Buffer> buffers;    // flat mode, by index()
  std::vector<uint32_t> pages[2]; // live bytes of each page of an arena
  uint64_t livePages = 0, peakPages = 0;
};

} // namespace dtrt

#endif // DTRT_CORE_STORAGE_H
