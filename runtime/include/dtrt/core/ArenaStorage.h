//===- ArenaStorage.h - Shards in memory of our own -------------*- C++ -*-===//

#ifndef DTRT_CORE_ARENASTORAGE_H
#define DTRT_CORE_ARENASTORAGE_H

#include "dtrt/core/MemorySource.h"
#include "dtrt/core/Storage.h"

#include <functional>
#include <memory>
#include <vector>

namespace dtrt {

/// Owns all buffers: one arena per side. In flat mode the pages of an arena
/// come and go with the program's Create and Release; where the memory cannot
/// give pages back, every member has a block, from its first Create to its
/// last Release. Where blocks are only addresses (MemorySource::provide), all
/// buffers are bound from the start, also those that have no memory yet.
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
  template <typename Fn> void forEachPage(const BufferPart &at, Fn fn);
  template <typename Chosen, typename Fn>
  Status forEachRun(const BufferPart &at, Chosen chosen, Fn fn);
  void count(const BufferPart &at, bool live);
  bool hasAddressesFirst() const { return bool(memory.provide); }
  Status provide(const BufferPart &at);
  Status bindAddresses();
  Status appear(const BufferPart &at);
  Status discard(const BufferPart &at);

  MemorySource memory;
  Block arenas[2];
  std::vector<Buffer> buffers;    // flat mode, by index()
  std::vector<uint32_t> pages[2]; // live bytes of each page of an arena
  uint64_t livePages = 0, peakPages = 0;
};

} // namespace dtrt

#endif // DTRT_CORE_ARENASTORAGE_H
