//===- TensorBinding.cpp - Tensors that a rank is given -------------------===//

#include "dtrt/core/TensorBinding.h"

#include "InPlace.h"
#include "dtrt/format/ShardView.h"
#include "dtrt/format/Text.h"
#include "dtrt/format/Views.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>

namespace dtrt {

namespace {

/// Tensor, state, side and ordinal.
using Key = std::tuple<std::string, std::string, Side, uint32_t>;
using ExpectedMap = std::map<Key, ExpectedTensor>;

template <typename Named> Key keyOf(const Named &tensor) {
  return {tensor.tensor, tensor.state, tensor.side, tensor.ordinal};
}

using Counts = std::map<std::pair<std::string, std::string>, uint32_t>;

void addShard(const LocalStorage &storage, Side side, uint32_t shard,
              Counts &counts, std::vector<ExpectedTensor> &expected) {
  const ShardRecord &record = storage.shards(side)[shard];
  const Family &family = storage.common().families[record.family];
  ExpectedTensor tensor;
  tensor.side = side;
  tensor.shard = shard;
  for (int64_t member = 0; member < storage.members(side, shard); ++member) {
    tensor.member = member;
    tensor.tensor = ownTensorName(storage.common(), record,
                                  memberIndex(family, record, member));
    for (unsigned state : statesOf(storedStates(family, record.states, side))) {
      tensor.stateIndex = state;
      tensor.state = family.states[state].name;
      tensor.ordinal = counts[{tensor.tensor, tensor.state}]++;
      tensor.bytes = storage.memberBytes(side, shard, state);
      expected.push_back(tensor);
    }
  }
}

/// All that the program names.
std::vector<ExpectedTensor> allTensors(const LocalStorage &storage) {
  std::vector<ExpectedTensor> expected;
  for (Side side : {Side::Source, Side::Destination}) {
    Counts counts;
    for (uint32_t shard = 0; shard < storage.shards(side).size(); ++shard)
      addShard(storage, side, shard, counts, expected);
  }
  return expected;
}

ExpectedMap mapOf(const std::vector<ExpectedTensor> &expected) {
  ExpectedMap map;
  for (const ExpectedTensor &tensor : expected)
    map.emplace(keyOf(tensor), tensor);
  return map;
}

/// Marks those, on both sides, that the program leaves as they are.
void markInPlace(const LocalStorage &storage,
                 std::vector<ExpectedTensor> &expected) {
  std::map<Key, ExpectedTensor *> sources;
  for (ExpectedTensor &tensor : expected)
    if (tensor.side == Side::Source)
      sources.emplace(keyOf(tensor), &tensor);
  std::vector<SharedBuffer> shared;
  std::vector<std::pair<ExpectedTensor *, ExpectedTensor *>> pairs;
  for (ExpectedTensor &to : expected) {
    Key key(to.tensor, to.state, Side::Source, to.ordinal);
    auto from =
        to.side == Side::Destination ? sources.find(key) : sources.end();
    if (from == sources.end())
      continue;
    shared.push_back({to.shard, from->second->shard, to.stateIndex, to.member,
                      from->second->member});
    pairs.push_back({from->second, &to});
  }
  std::vector<bool> moved = findMoved(storage, shared);
  for (size_t i = 0; i < moved.size(); ++i)
    pairs[i].first->inPlace = pairs[i].second->inPlace = !moved[i];
}

} // namespace

std::vector<ExpectedTensor> expectedTensors(const LocalStorage &storage) {
  std::vector<ExpectedTensor> expected = allTensors(storage);
  markInPlace(storage, expected);
  return expected;
}

static std::string nameOf(const TensorBinding &tensor) {
  return std::string(sideName(tensor.side)) + " tensor '" +
         shortened(tensor.tensor) + "' state '" + shortened(tensor.state) + "'";
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

/// A tensor that is given for both sides has to stay as it is.
static Status checkTwins(const std::vector<TensorBinding> &tensors,
                         const Twins &twins, const ExpectedMap &expected,
                         const LocalStorage &storage) {
  std::vector<SharedBuffer> shared;
  std::vector<const TensorBinding *> names;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!twins[i])
      continue;
    const ExpectedTensor &to = expected.at(keyOf(tensors[i]));
    const ExpectedTensor &from = expected.at(keyOf(*twins[i]));
    shared.push_back(
        {to.shard, from.shard, to.stateIndex, to.member, from.member});
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

Status bindTensors(const std::vector<TensorBinding> &tensors,
                   LocalStorage &storage) {
  Twins twins = findTwins(tensors);
  DTRT_RETURN_IF_ERROR(checkMemoryApart(tensors, twins));
  ExpectedMap expected = mapOf(allTensors(storage));
  std::set<Key> bound;
  for (const TensorBinding &binding : tensors) {
    Key key = keyOf(binding);
    auto found = expected.find(key);
    if (found == expected.end())
      return makeError("the plan has no ", sideName(binding.side), " shard ",
                       binding.ordinal, " of '", shortened(binding.tensor),
                       "' state '", shortened(binding.state), "' on device ",
                       storage.program().device);
    const ExpectedTensor &tensor = found->second;
    if (binding.bytes != tensor.bytes)
      return makeError("tensor '", shortened(binding.tensor), "' state '",
                       shortened(binding.state), "' has ", binding.bytes,
                       " bytes, the plan expects ", tensor.bytes);
    if (!bound.insert(key).second)
      return makeError("tensor '", shortened(binding.tensor), "' state '",
                       shortened(binding.state), "' is bound twice");
    storage.bind(tensor.side, tensor.shard, tensor.stateIndex, tensor.member,
                 static_cast<std::byte *>(binding.data));
    storage.note(binding, tensor.shard, tensor.stateIndex, tensor.member);
  }
  for (const auto &[key, tensor] : expected)
    if (!bound.count(key) && tensor.bytes > 0)
      return makeError("no tensor is bound to the ", sideName(tensor.side),
                       " shard of '", shortened(tensor.tensor), "' state '",
                       shortened(tensor.state), "' on device ",
                       storage.program().device);
  DTRT_RETURN_IF_ERROR(checkTwins(tensors, twins, expected, storage));
  storage.bindMade();
  return {};
}

} // namespace dtrt
