//===- ArenaStorage.cpp - Shards in memory of our own ---------------------===//

#include "dtrt/core/ArenaStorage.h"
#include "dtrt/format/ShardView.h"
#include "dtrt/format/StayingStates.h"

#include <algorithm>
#include <cstring>

namespace dtrt {

namespace {

uint64_t aligned(uint64_t bytes) { return roundUp(bytes, kCacheLine); }

/// What is released must not be readable by chance in the rest of a page.
constexpr int kReleased = 0xdd;

} // namespace

ArenaStorage::~ArenaStorage() = default;

Result<ArenaStorage::Block> ArenaStorage::allocateBlock(uint64_t bytes) {
  uint64_t size = std::max(aligned(bytes), kCacheLine);
  std::byte *block = memory.allocate(size);
  if (!block)
    return makeError(ErrorCode::OutOfMemory, "cannot allocate ", size,
                     " bytes");
  return Block(block, memory.free);
}

/// Those with buffers of their own, unlike what is read from another state.
static StateNumbers ownStates(const LocalStorage &storage, Side side,
                              uint32_t shard) {
  const ShardRecord &record = storage.shards(side)[shard];
  return statesOf(storedStates(storage.common().families[record.family],
                               record.states, side));
}

//===----------------------------------------------------------------------===//
// Rollback: all of it exists all the time
//===----------------------------------------------------------------------===//

std::byte *ArenaStorage::bindShard(Side side, uint32_t shard, std::byte *from) {
  for (unsigned state : ownStates(*this, side, shard))
    for (int64_t member = 0; member < members(side, shard); ++member) {
      bind(side, shard, state, member, from);
      from += aligned(memberBytes(side, shard, state));
    }
  return from;
}

namespace {
uint64_t arenaBytes(const LocalStorage &storage, Side side, uint32_t shard) {
  uint64_t bytes = 0;
  for (unsigned state : ownStates(storage, side, shard))
    bytes += uint64_t(storage.members(side, shard)) *
             aligned(storage.memberBytes(side, shard, state));
  return bytes;
}
} // namespace

Status ArenaStorage::allocateArena(Side side) {
  uint64_t bytes = 0;
  for (uint32_t shard = 0; shard < shards(side).size(); ++shard)
    bytes += arenaBytes(*this, side, shard);
  auto arena = allocateBlock(bytes);
  DTRT_RETURN_IF_ERROR(arena);
  std::byte *next = arena->get();
  for (uint32_t shard = 0; shard < shards(side).size(); ++shard)
    next = bindShard(side, shard, next);
  arenas[size_t(side)] = std::move(*arena);
  return {};
}

Result<std::unique_ptr<ArenaStorage>>
ArenaStorage::allocate(const PlanCommon &common, const RankProgram &program,
                       MemorySource memory) {
  bool flat = common.summary.mode == MemoryMode::Flat;
  if (!memory.allocate)
    memory = flat ? hostPages() : hostMemory();
  try {
    std::unique_ptr<ArenaStorage> storage(
        new ArenaStorage(common, program, std::move(memory)));
    if (flat) {
      DTRT_RETURN_IF_ERROR(storage->allocateFlat());
    } else {
      DTRT_RETURN_IF_ERROR(storage->allocateArena(Side::Source));
      DTRT_RETURN_IF_ERROR(storage->allocateArena(Side::Destination));
    }
    storage->bindMade();
    return storage;
  } catch (const std::bad_alloc &) {
    return makeError("device ", program.device,
                     ": not enough memory to list its buffers");
  }
}

//===----------------------------------------------------------------------===//
// Flat: ranges come and go
//===----------------------------------------------------------------------===//

/// Buffers of a page and more start on a page, so that ranges of them that are
/// whole pages are whole pages of the machine.
uint64_t ArenaStorage::placeBuffers(Side side) {
  uint64_t next = 0;
  for (uint32_t shard = 0; shard < shards(side).size(); ++shard)
    for (unsigned state : ownStates(*this, side, shard))
      for (int64_t m = 0; m < members(side, shard); ++m) {
        uint64_t bytes = memberBytes(side, shard, state);
        next = roundUp(next, bytes < memory.page ? kCacheLine : memory.page);
        buffers[index(side, shard, state, m)].place = next;
        next += bytes;
      }
  return roundUp(next, memory.page);
}

/// All storage but that which the program creates. What stays has the storage
/// of its source.
Status ArenaStorage::allocateFlat() {
  buffers.resize(numBuffers());
  std::vector<uint64_t> staying(shards(Side::Destination).size());
  std::vector<StayingState> stays = stayingStates(common(), program());
  for (const StayingState &own : stays)
    staying[own.destination] |= uint64_t(1) << own.state;
  for (Side side : {Side::Source, Side::Destination}) {
    if (memory.page > 0) {
      uint64_t bytes = placeBuffers(side);
      auto arena = allocateBlock(bytes);
      DTRT_RETURN_IF_ERROR(arena);
      arenas[size_t(side)] = std::move(*arena);
      pages[size_t(side)].resize(bytes / memory.page);
    }
    for (uint32_t shard = 0; shard < shards(side).size(); ++shard) {
      const ShardRecord &record = shards(side)[shard];
      const Family &family = common().families[record.family];
      for (Segment all : wholeStorage(family, record, side, shard)) {
        if (side == Side::Destination)
          all.states &= ~staying[shard];
        for (const BufferPart &at : partsOf(all))
          count(at, /*live=*/true);
      }
    }
  }
  for (const Instruction &instruction : program().instructions)
    if (instruction.op == Opcode::Create)
      for (const Segment &range : instruction.segments)
        for (const BufferPart &at : partsOf(range))
          count(at, /*live=*/false);
  peakPages = livePages;
  if (hasAddressesFirst())
    DTRT_RETURN_IF_ERROR(bindAddresses());
  for (Side side : {Side::Source, Side::Destination})
    for (uint32_t shard = 0; shard < shards(side).size(); ++shard)
      for (unsigned state : statesOf(shards(side)[shard].states))
        for (int64_t member = 0; member < members(side, shard); ++member)
          if (buffers[index(side, shard, state, member)].live > 0)
            DTRT_RETURN_IF_ERROR(appear({side, shard, state, member, {}}));
  for (const StayingState &own : stays)
    for (int64_t m = 0; m < members(Side::Destination, own.destination); ++m)
      bind(Side::Destination, own.destination, own.state, m,
           data(Side::Source, own.source, own.state, m));
  return {};
}

/// Where all buffers are, and memory for what exists.
Status ArenaStorage::bindAddresses() {
  for (Side side : {Side::Source, Side::Destination}) {
    for (uint32_t shard = 0; shard < shards(side).size(); ++shard)
      for (unsigned state : ownStates(*this, side, shard))
        for (int64_t member = 0; member < members(side, shard); ++member)
          DTRT_RETURN_IF_ERROR(appear({side, shard, state, member, {}}));
    const std::vector<uint32_t> &held = pages[size_t(side)];
    for (size_t i = 0; i < held.size(); ++i)
      if (held[i] > 0)
        DTRT_RETURN_IF_ERROR(memory.provide(
            arenas[size_t(side)].get() + i * memory.page, memory.page));
  }
  return {};
}

/// Counts live bytes, of the buffer and of its pages.
void ArenaStorage::count(const BufferPart &at, bool live) {
  Buffer &buffer = buffers[indexOf(at)];
  buffer.live += uint64_t(live ? at.bytes.size() : -at.bytes.size());
  if (memory.page == 0)
    return;
  forEachPage(at, [&](uint32_t &held, Interval part) {
    livePages += live && held == 0;
    held += uint32_t(live ? part.size() : -part.size());
    livePages -= !live && held == 0;
  });
  peakPages = std::max(peakPages, livePages);
}

/// Calls fn(live bytes of a page, bytes of the arena on it).
template <typename Fn>
void ArenaStorage::forEachPage(const BufferPart &at, Fn fn) {
  auto page = int64_t(memory.page);
  auto place = int64_t(buffers[indexOf(at)].place);
  Interval bytes = {place + at.bytes.lo, place + at.bytes.hi};
  for (int64_t i = bytes.lo / page; i * page < bytes.hi; ++i)
    fn(pages[size_t(at.side)][size_t(i)],
       Interval{std::max(bytes.lo, i * page),
                std::min(bytes.hi, (i + 1) * page)});
}

Status ArenaStorage::appear(const BufferPart &at) {
  Buffer &buffer = buffers[indexOf(at)];
  std::byte *data = arenas[size_t(at.side)].get();
  if (memory.page > 0) {
    data += buffer.place;
  } else {
    auto block = allocateBlock(memberBytes(at.side, at.shard, at.state));
    DTRT_RETURN_IF_ERROR(block);
    buffer.block = std::move(*block);
    data = buffer.block.get();
  }
  bind(at.side, at.shard, at.state, at.member, data);
  return {};
}

/// Calls fn(first byte, bytes) for runs of pages of which chosen(live bytes) is
/// true, until one fails.
template <typename Chosen, typename Fn>
Status ArenaStorage::forEachRun(const BufferPart &at, Chosen chosen, Fn fn) {
  std::byte *arena = arenas[size_t(at.side)].get();
  auto page = int64_t(memory.page);
  Interval run;
  Status status;
  auto end = [&] {
    if (run.size() > 0 && status.ok())
      status = fn(arena + run.lo, uint64_t(run.size()));
  };
  forEachPage(at, [&](uint32_t &held, Interval part) {
    if (!chosen(held))
      return;
    int64_t lo = part.lo / page * page;
    if (run.hi != lo) {
      end();
      run.lo = lo;
    }
    run.hi = lo + page;
  });
  end();
  return status;
}

/// Memory for pages that hold nothing yet, before it is counted.
Status ArenaStorage::provide(const BufferPart &at) {
  if (!hasAddressesFirst())
    return {};
  return forEachRun(
      at, [](uint32_t held) { return held == 0; }, memory.provide);
}

/// Pages that hold nothing live any more go; the rest must not be readable.
Status ArenaStorage::discard(const BufferPart &at) {
  auto isEmpty = [](uint32_t held) { return held == 0; };
  if (hasAddressesFirst())
    return forEachRun(at, isEmpty, memory.takeBack);
  std::byte *arena = arenas[size_t(at.side)].get();
  forEachPage(at, [&](uint32_t &held, Interval part) {
    if (held > 0)
      memset(arena + part.lo, kReleased, size_t(part.size()));
  });
  return forEachRun(at, isEmpty, [this](std::byte *start, uint64_t bytes) {
    memory.discard(start, bytes);
    return Status();
  });
}

Status ArenaStorage::create(const Segment &range) {
  Status status;
  for (const BufferPart &at : partsOf(range)) {
    bool first = buffers[indexOf(at)].live == 0;
    if (status.ok())
      status = provide(at);
    count(at, /*live=*/true);
    if (first && status.ok())
      status = appear(at);
  }
  DTRT_RETURN_IF_ERROR(status);
  return LocalStorage::create(range);
}

Status ArenaStorage::release(const Segment &range) {
  for (const BufferPart &at : partsOf(range)) {
    count(at, /*live=*/false);
    if (memory.page > 0)
      DTRT_RETURN_IF_ERROR(discard(at));
    Buffer &buffer = buffers[indexOf(at)];
    if (buffer.live > 0 || hasAddressesFirst())
      continue;
    bind(at.side, at.shard, at.state, at.member, nullptr);
    buffer.block.reset();
  }
  return LocalStorage::release(range);
}

} // namespace dtrt
