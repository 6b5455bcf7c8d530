//===- Storage.cpp - Where a device keeps its shards ----------------------===//

#include "dtrt/Storage.h"

#include "InPlace.h"
#include "dtrt/ShardView.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

namespace dtrt {

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
        live -= bytesOf(segment);
  peak = live;
}

uint64_t LocalStorage::bytesOf(const Segment &range) const {
  return storageBytes(planCommon.families[range.family], range);
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

Status LocalStorage::create(const Segment &range) {
  count(int64_t(bytesOf(range)));
  return {};
}

Status LocalStorage::release(const Segment &range) {
  count(-int64_t(bytesOf(range)));
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

static std::string nameOf(const TensorBinding &tensor) {
  return std::string(sideName(tensor.side)) + " tensor '" + tensor.tensor +
         "' state '" + tensor.state + "'";
}

/// Per tensor the source tensor, of the same name and state, that it is: null
/// but for destinations that are given in place.
using Twins = std::vector<const TensorBinding *>;

static Twins findTwins(const std::vector<TensorBinding> &tensors) {
  using Key = std::tuple<std::string, std::string, void *, uint64_t>;
  auto keyOf = [](const TensorBinding &tensor) {
    return Key(tensor.tensor, tensor.state, tensor.data, tensor.bytes);
  };
  std::map<Key, const TensorBinding *> sources;
  for (const TensorBinding &tensor : tensors)
    if (tensor.side == Side::Source && tensor.data && tensor.bytes > 0)
      sources.emplace(keyOf(tensor), &tensor);
  Twins twins;
  for (const TensorBinding &tensor : tensors) {
    auto found = tensor.side == Side::Destination ? sources.find(keyOf(tensor))
                                                  : sources.end();
    twins.push_back(found == sources.end() ? nullptr : found->second);
  }
  return twins;
}

/// Sources may share memory, since they are only read, and so are destinations
/// that are their own source. No plan is proved for a destination that lies
/// over anything else.
static Status checkMemoryApart(const std::vector<TensorBinding> &tensors,
                               const Twins &twins) {
  std::vector<const TensorBinding *> byStart;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].bytes > 0 && tensors[i].data && !twins[i])
      byStart.push_back(&tensors[i]);
  auto start = [](const TensorBinding *tensor) {
    return reinterpret_cast<uintptr_t>(tensor->data);
  };
  std::sort(byStart.begin(), byStart.end(), [&](auto *a, auto *b) {
    return std::pair(start(a), a->side) < std::pair(start(b), b->side);
  });
  auto reachesInto = [&](const TensorBinding *before, const TensorBinding *at) {
    return before && start(before) + before->bytes > start(at);
  };
  auto keepLonger = [&](const TensorBinding *&longest,
                        const TensorBinding *tensor) {
    if (!longest ||
        start(tensor) + tensor->bytes > start(longest) + longest->bytes)
      longest = tensor;
  };
  // Of those that start earlier, the ones that reach furthest.
  const TensorBinding *any = nullptr, *written = nullptr;
  for (const TensorBinding *tensor : byStart) {
    bool isWritten = tensor->side == Side::Destination;
    const TensorBinding *before = isWritten ? any : written;
    if (reachesInto(before, tensor))
      return makeError(nameOf(*tensor), " shares memory with ",
                       nameOf(*before));
    keepLonger(any, tensor);
    if (isWritten)
      keepLonger(written, tensor);
  }
  return {};
}

static BufferKey keyOf(const TensorBinding &tensor) {
  return {tensor.tensor, tensor.state, tensor.side, tensor.ordinal};
}

/// A tensor that is given for both sides has to stay as it is.
static Status checkTwins(const std::vector<TensorBinding> &tensors,
                         const Twins &twins, const BufferMap &buffers,
                         const LocalStorage &storage) {
  std::vector<SharedBuffer> shared;
  std::vector<const TensorBinding *> names;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!twins[i])
      continue;
    const BufferPlace &to = buffers.at(keyOf(tensors[i]));
    const BufferPlace &from = buffers.at(keyOf(*twins[i]));
    shared.push_back({to.shard, from.shard, to.state, to.member});
    names.push_back(&tensors[i]);
  }
  std::vector<bool> moved = findMoved(storage, shared);
  for (size_t i = 0; i < moved.size(); ++i)
    if (moved[i])
      return makeError(nameOf(*names[i]),
                       " shares memory with its source, and the plan does not "
                       "leave it as it is");
  return {};
}

std::vector<TensorBinding> tensorsInPlace(const LocalStorage &storage) {
  BufferMap buffers = buffersOf(storage);
  std::vector<SharedBuffer> shared;
  std::vector<TensorBinding> tensors;
  for (const auto &[key, to] : buffers) {
    auto from =
        buffers.find({key.tensor, key.state, Side::Source, key.ordinal});
    if (key.side != Side::Destination || from == buffers.end() ||
        from->second.member != to.member)
      continue;
    shared.push_back({to.shard, from->second.shard, to.state, to.member});
    tensors.push_back({key.tensor, key.state, key.side, key.ordinal, nullptr,
                       storage.memberBytes(key.side, to.shard, to.state)});
  }
  std::vector<bool> moved = findMoved(storage, shared);
  size_t kept = 0;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!moved[i])
      tensors[kept++] = tensors[i];
  tensors.resize(kept);
  return tensors;
}

Status bindTensors(const std::vector<TensorBinding> &tensors,
                   LocalStorage &storage) {
  Twins twins = findTwins(tensors);
  DTRT_RETURN_IF_ERROR(checkMemoryApart(tensors, twins));
  BufferMap buffers = buffersOf(storage);
  std::set<BufferKey> bound;
  for (const TensorBinding &binding : tensors) {
    BufferKey key = keyOf(binding);
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
    storage.note(binding, place.shard, place.state, place.member);
  }
  for (const auto &[key, place] : buffers)
    if (!bound.count(key) &&
        storage.memberBytes(key.side, place.shard, place.state) > 0)
      return makeError("no tensor is bound to the ", sideName(key.side),
                       " shard of '", key.tensor, "' state '", key.state,
                       "' on device ", storage.program().device);
  DTRT_RETURN_IF_ERROR(checkTwins(tensors, twins, buffers, storage));
  storage.bindMade();
  return {};
}

} // namespace dtrt
