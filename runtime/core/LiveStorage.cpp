//===- LiveStorage.cpp - A trainer's tensors that come and go -------------===//

#include "dtrt/core/LiveStorage.h"

#include "InPlace.h"
#include "dtrt/format/ShardView.h"
#include "dtrt/format/StayingStates.h"

#include <algorithm>
#include <tuple>

namespace dtrt {

Result<std::unique_ptr<LiveStorage>>
LiveStorage::bind(const PlanCommon &common, const RankProgram &program,
                  const std::vector<TensorBinding> &tensors) {
  std::unique_ptr<LiveStorage> made(new LiveStorage(common, program));
  made->places.resize(made->numBuffers());
  DTRT_RETURN_IF_ERROR(bindTensors(tensors, *made));
  made->findTwins();
  made->findHandOvers();
  if (made->isByTensor())
    DTRT_RETURN_IF_ERROR(made->checkTogether());
  made->findMoving();
  made->bindAddresses();
  DTRT_RETURN_IF_ERROR(made->createOthers());
  return made;
}

void LiveStorage::note(const TensorBinding &tensor, uint32_t shard,
                       unsigned state, int64_t member) {
  if (tensor.memory && tensor.bytes > 0)
    noted.push_back({tensor, shard, state, member});
}

/// The storage that the tensor shares by the plan; empty: none.
const std::string &LiveStorage::groupOf(const Noted &noted) const {
  const ShardRecord &record = shards(noted.tensor.side)[noted.shard];
  return common().families[record.family].storage;
}

/// A tensor that is given for both sides has its memory before and after.
void LiveStorage::findTwins() {
  std::set<std::pair<const LiveMemory *, uint64_t>> sources;
  for (const Noted &own : noted)
    if (own.tensor.side == Side::Source)
      sources.emplace(own.tensor.memory, own.tensor.offset);
  for (const Noted &own : noted)
    if (own.tensor.side == Side::Destination &&
        sources.count({own.tensor.memory, own.tensor.offset}))
      staying.insert(own.tensor.memory);
}

/// Buffers that stay by the plan, and others that it only copies from their own
/// place: layers that a device keeps where its stage gets more of them.
std::vector<SharedBuffer> LiveStorage::unchanged() const {
  if (common().summary.mode != MemoryMode::Flat)
    return {};
  std::vector<SharedBuffer> out, copied;
  for (const StayingState &stays : stayingStates(common(), program()))
    for (int64_t member = 0;
         member < members(Side::Destination, stays.destination); ++member)
      out.push_back(
          {stays.destination, stays.source, stays.state, member, member});
  std::map<std::tuple<std::string, unsigned, uint32_t>, const Noted *> sources;
  for (const Noted &own : noted)
    if (own.tensor.side == Side::Source)
      sources[{own.tensor.tensor, own.state, own.tensor.ordinal}] = &own;
  for (const Noted &own : noted) {
    auto from =
        sources.find({own.tensor.tensor, own.state, own.tensor.ordinal});
    if (own.tensor.side == Side::Destination && from != sources.end())
      copied.push_back({own.shard, from->second->shard, own.state, own.member,
                        from->second->member});
  }
  std::vector<bool> moved = findMoved(*this, copied);
  for (size_t i = 0; i < copied.size(); ++i)
    if (!moved[i])
      out.push_back(copied[i]);
  return out;
}

/// What does not change is handed over where a tensor of either side has all of
/// its memory, and that may go. Where the plan copies it, the memory of both
/// sides that it counts is there once.
void LiveStorage::findHandOvers() {
  std::map<const LiveMemory *, unsigned> users;
  std::map<size_t, const Noted *> known;
  for (const Noted &own : noted) {
    ++users[own.tensor.memory];
    known[indexOf(own)] = &own;
  }
  auto find = [&](Side side, uint32_t shard, unsigned state,
                  int64_t member) -> const Noted * {
    auto found = known.find(index(side, shard, state, member));
    bool isAlone = found != known.end() &&
                   users[found->second->tensor.memory] == 1 &&
                   found->second->tensor.offset == 0 &&
                   !staying.count(found->second->tensor.memory);
    return isAlone ? found->second : nullptr;
  };
  for (const SharedBuffer &own : unchanged()) {
    const Noted *from =
        find(Side::Source, own.source, own.state, own.sourceMember);
    const Noted *to =
        find(Side::Destination, own.destination, own.state, own.member);
    if (!from || !to || !to->tensor.memory->canTake(*from->tensor.memory) ||
        !(isByTensor() || from->tensor.memory->hasPages()))
      continue;
    handOvers.push_back({from->tensor.memory, to->tensor.memory});
    staying.insert({from->tensor.memory, to->tensor.memory});
    LocalStorage::bind(
        Side::Destination, own.destination, own.state, own.member,
        data(Side::Source, own.source, own.state, own.sourceMember));
  }
}

/// Tensors of one memory are those of one storage in the plan.
Status LiveStorage::checkTogether() const {
  auto nameOf = [](const TensorBinding &tensor) {
    return "'" + tensor.tensor + "' state '" + tensor.state + "'";
  };
  std::map<const LiveMemory *, const Noted *> firsts;
  for (const Noted &other : noted) {
    if (staying.count(other.tensor.memory))
      continue;
    const Noted &first =
        *firsts.try_emplace(other.tensor.memory, &other).first->second;
    if (&first == &other)
      continue;
    const std::string &group = groupOf(first);
    bool together = !group.empty() && first.tensor.side == other.tensor.side &&
                    first.tensor.state == other.tensor.state &&
                    groupOf(other) == group;
    if (!together)
      return makeError(
          first.tensor.side == Side::Source ? "source" : "destination",
          " tensors ", nameOf(first.tensor), " and ", nameOf(other.tensor),
          " share a storage, and the plan gives them back one by one, "
          "expected one \"storage\" in its request");
  }
  return {};
}

/// What the program creates or releases, of memory that can come and go so. Of
/// other buffers, creates and releases are counted, and nothing else.
void LiveStorage::findMoving() {
  std::vector<bool> named(places.size());
  for (const Instruction &instruction : program().instructions)
    if (instruction.op == Opcode::Create || instruction.op == Opcode::Release)
      for (const Segment &range : instruction.segments)
        for (const BufferPart &part : partsOf(range))
          named[indexOf(part)] = true;
  for (const Noted &own : noted) {
    const TensorBinding &tensor = own.tensor;
    if (named[indexOf(own)] && !staying.count(tensor.memory) &&
        (isByTensor() || tensor.memory->hasPages()))
      places[indexOf(own)] = {tensor.memory, tensor.offset,
                              tensor.side == Side::Source ? tensor.bytes : 0};
  }
}

/// What has its addresses before its memory.
void LiveStorage::bindAddresses() {
  for (const Noted &own : noted) {
    const Place &place = places[indexOf(own)];
    if (place.memory && place.memory->address())
      LocalStorage::bind(own.tensor.side, own.shard, own.state, own.member,
                         place.memory->address() + place.offset);
  }
}

uint64_t LiveStorage::bytesOn(Side side) const {
  uint64_t bytes = 0;
  for (const ShardRecord &shard : shards(side))
    bytes += shardBytes(common().families[shard.family], shard, side);
  return bytes;
}

/// Memory of the destination that does not come with the program: all of it, or
/// none.
Status LiveStorage::createOthers() {
  std::vector<const TensorBinding *> made;
  for (const Noted &own : noted) {
    const TensorBinding &tensor = own.tensor;
    if (tensor.side == Side::Source || places[indexOf(own)].memory ||
        staying.count(tensor.memory))
      continue;
    uint64_t end = tensor.offset + tensor.bytes;
    auto start = tensor.memory->create(tensor.offset, end);
    if (!start.ok()) {
      for (const TensorBinding *other : made)
        (void)other->memory->release(other->offset,
                                     other->offset + other->bytes);
      return makeError("no memory for the destination beside the source: ",
                       start.status().message(), ", of ",
                       bytesOn(Side::Destination), " in all beside ",
                       bytesOn(Side::Source));
    }
    if (!tensor.data)
      made.push_back(&tensor);
    LocalStorage::bind(Side::Destination, own.shard, own.state, own.member,
                       *start + tensor.offset);
  }
  return {};
}

bool LiveStorage::givesBack() const {
  return !handOvers.empty() ||
         std::any_of(noted.begin(), noted.end(), [&](const Noted &own) {
           return own.tensor.side == Side::Source &&
                  places[indexOf(own)].memory;
         });
}

/// What `clear` gives back.
Status LiveStorage::rehearseClearing(Rehearsals &memories) const {
  for (const Noted &own : noted) {
    const TensorBinding &tensor = own.tensor;
    auto memory = memories.find(places[indexOf(own)].memory);
    if (tensor.side == Side::Source || !tensor.data || memory == memories.end())
      continue;
    auto &[pages, start, bytes] = memory->second;
    DTRT_RETURN_IF_ERROR(bytes.release(*pages, start, tensor.offset,
                                       tensor.offset + tensor.bytes));
  }
  return {};
}

Status LiveStorage::rehearse(const Instruction &instruction,
                             Rehearsals &memories) const {
  bool creates = instruction.op == Opcode::Create;
  if (!creates && instruction.op != Opcode::Release)
    return {};
  for (const Segment &range : instruction.segments)
    for (const BufferPart &part : partsOf(range)) {
      const Place &place = places[indexOf(part)];
      auto memory = memories.find(place.memory);
      if (memory == memories.end())
        continue;
      auto &[pages, start, bytes] = memory->second;
      uint64_t lo = place.offset + uint64_t(part.bytes.lo);
      uint64_t hi = place.offset + uint64_t(part.bytes.hi);
      DTRT_RETURN_IF_ERROR(creates ? bytes.create(*pages, start, lo, hi)
                                   : bytes.release(*pages, start, lo, hi));
    }
  return {};
}

Status LiveStorage::makeSure() const {
  std::map<PagePool *, std::unique_ptr<PageRehearsal>> pools;
  Rehearsals memories;
  for (const Place &place : places) {
    PagePool *pool = place.memory ? place.memory->pool() : nullptr;
    if (!pool || memories.count(place.memory))
      continue;
    auto &pages = pools[pool];
    if (!pages)
      pages = pool->rehearse();
    memories.emplace(place.memory,
                     Rehearsed{pages.get(), place.memory->address(),
                               place.memory->pooled()});
  }
  if (pools.empty())
    return {};
  DTRT_RETURN_IF_ERROR(rehearseClearing(memories));
  for (const Instruction &instruction : program().instructions)
    DTRT_RETURN_IF_ERROR(rehearse(instruction, memories));
  for (const auto &[pool, pages] : pools)
    DTRT_RETURN_IF_ERROR(pool->makeSure(pages->mostMore()));
  return {};
}

Status LiveStorage::clear() {
  for (const Noted &own : noted) {
    const TensorBinding &tensor = own.tensor;
    if (tensor.side == Side::Destination && tensor.data &&
        places[indexOf(own)].memory)
      DTRT_RETURN_IF_ERROR(
          tensor.memory->release(tensor.offset, tensor.offset + tensor.bytes));
  }
  for (const HandOver &own : handOvers)
    own.to->take(*own.from);
  return {};
}

Status LiveStorage::create(const Segment &range) {
  for (const BufferPart &part : partsOf(range)) {
    Place &place = places[indexOf(part)];
    if (!place.memory)
      continue;
    auto start = place.memory->create(place.offset + uint64_t(part.bytes.lo),
                                      place.offset + uint64_t(part.bytes.hi));
    DTRT_RETURN_IF_ERROR(start);
    place.live += uint64_t(part.bytes.size());
    LocalStorage::bind(part.side, part.shard, part.state, part.member,
                       *start + place.offset);
  }
  return LocalStorage::create(range);
}

Status LiveStorage::release(const Segment &range) {
  for (const BufferPart &part : partsOf(range)) {
    Place &place = places[indexOf(part)];
    if (!place.memory)
      continue;
    place.live -= uint64_t(part.bytes.size());
    if (place.live == 0 && !place.memory->address())
      LocalStorage::bind(part.side, part.shard, part.state, part.member,
                         nullptr);
    DTRT_RETURN_IF_ERROR(
        place.memory->release(place.offset + uint64_t(part.bytes.lo),
                              place.offset + uint64_t(part.bytes.hi)));
  }
  return LocalStorage::release(range);
}

} // namespace dtrt
