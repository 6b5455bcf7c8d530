//===- Storage.cpp - Where a device keeps its shards ----------------------===//

#include "dtrt/Storage.h"

#include "dtrt/ShardView.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <sys/mman.h>

namespace dtrt {

namespace {
/// Every buffer starts on a cache line.
constexpr uint64_t kAlignment = 64;

/// Blocks of at least this size start on such a page.
constexpr uint64_t kHugePage = 2 << 20;

uint64_t aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

const char *sideName(Side side) {
  return side == Side::Source ? "source" : "destination";
}
} // namespace

LocalStorage::LocalStorage(const PlanCommon &common, const RankProgram &program)
    : planCommon(common), rankProgram(program) {
  size_t total = 0;
  for (Side side : {Side::Source, Side::Destination})
    for (const ShardRecord &shard : shards(side)) {
      ShardLayout layout;
      layout.first = total;
      layout.members = numMembers(common.families[shard.family], shard);
      layout.states = shard.states;
      total +=
          size_t(layout.members) * size_t(__builtin_popcountll(shard.states));
      layouts[size_t(side)].push_back(layout);
    }
  pointers.resize(total);
  for (Side side : {Side::Source, Side::Destination})
    for (const ShardRecord &shard : shards(side))
      live += shardBytes(common.families[shard.family], shard, side);
  for (const Instruction &instruction : program.instructions)
    if (instruction.op == Opcode::Create)
      for (const Segment &segment : instruction.segments)
        live -= bytesOfMembers(segment);
  peak = live;
}

uint64_t LocalStorage::bytesOfMembers(const Segment &segment) const {
  return dtrt::memberBytes(planCommon.families[segment.family],
                           shards(segment.side)[segment.shard], segment);
}

std::vector<int64_t> LocalStorage::membersIn(const Segment &segment) const {
  return membersOf(planCommon.families[segment.family],
                   shards(segment.side)[segment.shard], segment);
}

uint64_t LocalStorage::memberBytes(Side side, uint32_t shard,
                                   unsigned state) const {
  const ShardRecord &record = shards(side)[shard];
  const Family &family = planCommon.families[record.family];
  return uint64_t(elementsPerMember(family, record)) *
         uint64_t(byteWidth(dtypeOf(family, state, side)));
}

void LocalStorage::bindMade() {
  for (uint32_t shard = 0; shard < shards(Side::Source).size(); ++shard) {
    const ShardRecord &record = shards(Side::Source)[shard];
    const Family &family = planCommon.families[record.family];
    for (unsigned state : statesOf(record.states)) {
      const StateInfo &info = family.states[state];
      for (int64_t member = 0;
           !info.inSource && member < members(Side::Source, shard); ++member)
        bind(Side::Source, shard, state, member,
             data(Side::Source, shard, unsigned(info.madeFrom), member));
    }
  }
}

Status LocalStorage::create(const Segment &members) {
  count(int64_t(bytesOfMembers(members)));
  return {};
}

Status LocalStorage::release(const Segment &members) {
  count(-int64_t(bytesOfMembers(members)));
  return {};
}

//===----------------------------------------------------------------------===//
// Binding a trainer's tensors
//===----------------------------------------------------------------------===//

namespace {
struct BufferKey {
  std::string tensor, state;
  Side side;
  uint32_t ordinal;
  bool operator<(const BufferKey &o) const {
    return std::tie(tensor, state, side, ordinal) <
           std::tie(o.tensor, o.state, o.side, o.ordinal);
  }
};
struct BufferPlace {
  uint32_t shard;
  unsigned state;
  int64_t member;
};
using BufferMap = std::map<BufferKey, BufferPlace>;

void addBuffers(const LocalStorage &storage, Side side, uint32_t shard,
                BufferMap &buffers) {
  const ShardRecord &record = storage.shards(side)[shard];
  const Family &family = storage.common().families[record.family];
  for (int64_t member = 0; member < storage.members(side, shard); ++member) {
    std::string tensor = family.tensorName(memberIndex(family, record, member));
    for (unsigned state : statesOf(storedStates(family, record.states, side))) {
      BufferKey key = {tensor, family.states[state].name, side, 0};
      while (buffers.count(key))
        ++key.ordinal;
      buffers[key] = {shard, state, member};
    }
  }
}
} // namespace

static BufferMap buffersOf(const LocalStorage &storage) {
  BufferMap buffers;
  for (Side side : {Side::Source, Side::Destination})
    for (uint32_t shard = 0; shard < storage.shards(side).size(); ++shard)
      addBuffers(storage, side, shard, buffers);
  return buffers;
}

std::vector<TensorBinding> expectedTensors(const LocalStorage &storage) {
  std::vector<TensorBinding> expected;
  for (const auto &[key, place] : buffersOf(storage))
    expected.push_back(
        {key.tensor, key.state, key.side, key.ordinal, nullptr,
         storage.memberBytes(key.side, place.shard, place.state)});
  return expected;
}

Status bindTensors(const std::vector<TensorBinding> &tensors,
                   LocalStorage &storage) {
  BufferMap buffers = buffersOf(storage);
  std::set<BufferKey> bound;
  for (const TensorBinding &binding : tensors) {
    BufferKey key = {binding.tensor, binding.state, binding.side,
                     binding.ordinal};
    auto found = buffers.find(key);
    if (found == buffers.end())
      return makeError("the plan has no ", sideName(binding.side), " shard ",
                       binding.ordinal, " of '", binding.tensor, "' state '",
                       binding.state, "' on device ", storage.program().device);
    const BufferPlace &place = found->second;
    uint64_t expected =
        storage.memberBytes(binding.side, place.shard, place.state);
    if (binding.bytes != expected)
      return makeError("tensor '", binding.tensor, "' state '", binding.state,
                       "' has ", binding.bytes, " bytes, the plan expects ",
                       expected);
    if (!bound.insert(key).second)
      return makeError("tensor '", binding.tensor, "' state '", binding.state,
                       "' is bound twice");
    storage.bind(binding.side, place.shard, place.state, place.member,
                 static_cast<std::byte *>(binding.data));
  }
  for (const auto &[key, place] : buffers)
    if (!bound.count(key) &&
        storage.memberBytes(key.side, place.shard, place.state) > 0)
      return makeError("no tensor is bound to the ", sideName(key.side),
                       " shard of '", key.tensor, "' state '", key.state,
                       "' on device ", storage.program().device);
  storage.bindMade();
  return {};
}

//===----------------------------------------------------------------------===//
// Owned memory
//===----------------------------------------------------------------------===//

MemorySource hostMemory() {
  auto allocate = [](uint64_t bytes) {
    bool huge = bytes >= kHugePage;
    uint64_t alignment = huge ? kHugePage : kAlignment;
    uint64_t size = (bytes + alignment - 1) / alignment * alignment;
    void *block = std::aligned_alloc(alignment, size);
#ifdef MADV_HUGEPAGE
    if (block && huge)
      madvise(block, size, MADV_HUGEPAGE); // a wish: strided copies touch
                                           // many pages
#endif
    if (block)
      memset(block, 0, bytes); // maps the pages now, not while bytes move
    return static_cast<std::byte *>(block);
  };
  return {allocate, [](std::byte *block) { std::free(block); }};
}

ArenaStorage::~ArenaStorage() = default;

Result<ArenaStorage::Block> ArenaStorage::allocateBlock(uint64_t bytes) {
  uint64_t size = std::max(aligned(bytes), kAlignment);
  std::byte *block = memory.allocate(size);
  if (!block)
    return makeError("cannot allocate ", size, " bytes");
  return Block(block, memory.free);
}

/// Those with buffers of their own, unlike what is read from another state.
static std::vector<unsigned> ownStates(const LocalStorage &storage, Side side,
                                       uint32_t shard) {
  const ShardRecord &record = storage.shards(side)[shard];
  return statesOf(storedStates(storage.common().families[record.family],
                               record.states, side));
}

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

Status ArenaStorage::allocateMember(Side side, uint32_t shard, unsigned state,
                                    int64_t member) {
  auto block = allocateBlock(memberBytes(side, shard, state));
  DTRT_RETURN_IF_ERROR(block);
  bind(side, shard, state, member, block->get());
  blocks[index(side, shard, state, member)] = std::move(*block);
  return {};
}

/// All members but those that the program creates.
Status ArenaStorage::allocateMembers() {
  blocks.resize(numBuffers());
  std::vector<bool> createdLater(numBuffers());
  for (const Instruction &instruction : program().instructions)
    if (instruction.op == Opcode::Create)
      for (const Segment &segment : instruction.segments)
        for (unsigned state : statesOf(segment.states))
          for (int64_t member : membersIn(segment))
            createdLater[index(segment.side, segment.shard, state, member)] =
                true;
  for (Side side : {Side::Source, Side::Destination})
    for (uint32_t shard = 0; shard < shards(side).size(); ++shard)
      for (unsigned state : ownStates(*this, side, shard))
        for (int64_t m = 0; m < members(side, shard); ++m)
          if (!createdLater[index(side, shard, state, m)])
            DTRT_RETURN_IF_ERROR(allocateMember(side, shard, state, m));
  return {};
}

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
  std::unique_ptr<ArenaStorage> storage(
      new ArenaStorage(common, program, std::move(memory)));
  if (common.summary.mode == MemoryMode::Rollback) {
    DTRT_RETURN_IF_ERROR(storage->allocateArena(Side::Source));
    DTRT_RETURN_IF_ERROR(storage->allocateArena(Side::Destination));
    storage->bindMade();
    return storage;
  }
  DTRT_RETURN_IF_ERROR(storage->allocateMembers());
  storage->bindMade();
  return storage;
}

Status ArenaStorage::create(const Segment &created) {
  for (unsigned state : statesOf(created.states))
    for (int64_t member : membersIn(created))
      DTRT_RETURN_IF_ERROR(
          allocateMember(created.side, created.shard, state, member));
  return LocalStorage::create(created);
}

Status ArenaStorage::release(const Segment &released) {
  for (unsigned state : statesOf(released.states))
    for (int64_t member : membersIn(released)) {
      bind(released.side, released.shard, state, member, nullptr);
      blocks[index(released.side, released.shard, state, member)].reset();
    }
  return LocalStorage::release(released);
}

} // namespace dtrt
