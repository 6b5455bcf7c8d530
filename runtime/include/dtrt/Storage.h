//===- Storage.h - Where a device keeps its shards --------------*- C++ -*-===//
//
// A program names bytes as (side, shard, state, member); storage says where
// they are. `ArenaStorage` owns the memory, for runs outside a trainer; a live
// trainer makes a `LocalStorage` and binds the tensors that it has.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_STORAGE_H
#define DTRT_STORAGE_H

#include "dtrt/PlanModel.h"
#include "dtrt/Status.h"

#include <cstddef>
#include <functional>
#include <memory>

namespace dtrt {

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

  /// Points source states that are read from another (StateInfo::madeFrom) to
  /// its buffers. Call it when those are bound.
  void bindMade();

  /// Bytes of one member's buffer for one state.
  uint64_t memberBytes(Side side, uint32_t shard, unsigned state) const;
  int64_t members(Side side, uint32_t shard) const {
    return layouts[size_t(side)][shard].members;
  }

  /// Flat mode: called when the program creates members of a destination shard
  /// or releases members of a source shard. Here only the bytes are counted:
  /// bound tensors are the caller's.
  virtual Status create(const Segment &members);
  virtual Status release(const Segment &members);

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
  uint64_t bytesOfMembers(const Segment &segment) const;
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

/// A tensor of a live trainer: one local shard of one state.
struct TensorBinding {
  std::string tensor; // its own name, not the family's
  std::string state;
  Side side = Side::Source;
  /// Counts the shards that the device holds of this tensor, state and side,
  /// in program order; 0 nearly always.
  uint32_t ordinal = 0;
  void *data = nullptr;
  uint64_t bytes = 0;
};

/// What the plan expects the device to be given, without `data`, in the order
/// of tensor, state, side and ordinal.
std::vector<TensorBinding> expectedTensors(const LocalStorage &storage);

/// Binds all tensors; fails when one is unknown, has the wrong size or comes
/// twice, and when a buffer of the program stays without one.
Status bindTensors(const std::vector<TensorBinding> &tensors,
                   LocalStorage &storage);

/// Where owned buffers come from: host memory, or a device's. `allocate` gives
/// nothing when there is no more.
struct MemorySource {
  std::function<std::byte *(uint64_t)> allocate;
  std::function<void(std::byte *)> free;
};
/// Zeroed, on cache lines.
MemorySource hostMemory();

/// Owns all buffers: one arena per side, or one block per member where the
/// program creates and releases members.
class ArenaStorage : public LocalStorage {
public:
  static Result<std::unique_ptr<ArenaStorage>>
  allocate(const PlanCommon &common, const RankProgram &program,
           MemorySource memory = hostMemory());
  ~ArenaStorage() override;

  Status create(const Segment &members) override;
  Status release(const Segment &members) override;

private:
  using Block = std::unique_ptr<std::byte, std::function<void(std::byte *)>>;

  ArenaStorage(const PlanCommon &common, const RankProgram &program,
               MemorySource memory)
      : LocalStorage(common, program), memory(std::move(memory)) {}
  Result<Block> allocateBlock(uint64_t bytes);
  Status allocateMember(Side side, uint32_t shard, unsigned state,
                        int64_t member);
  Status allocateMembers();
  Status allocateArena(Side side);
  std::byte *bindShard(Side side, uint32_t shard, std::byte *from);

  MemorySource memory;
  Block arenas[2];
  std::vector<Block> blocks; // by buffer, where there is no arena
};

} // namespace dtrt

#endif // DTRT_STORAGE_H
