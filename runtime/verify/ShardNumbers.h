//===- ShardNumbers.h - Shards by number ------------------------*- C++ -*-===//
//
// Of one family, equal shards of one side have one number, which stays theirs
// however many plans are read.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_VERIFY_SHARDNUMBERS_H
#define DTRT_LIB_VERIFY_SHARDNUMBERS_H

#include "dtrt/format/PlanModel.h"

#include <deque>
#include <unordered_map>

namespace dtrt {

class ShardNumbers {
public:
  struct Entry {
    ShardRecord shard;
    Side side = Side::Source;
    uint64_t intervals = 0; // of all its dims
  };

  /// Among those of the shard's family.
  uint32_t numberOf(const ShardRecord &shard, Side side);
  /// Stays where it is.
  const Entry &get(uint32_t family, uint32_t number) const {
    return families[family].entries[number];
  }
  /// That are remembered, about.
  size_t bytes() const { return numBytes; }

private:
  using Key = std::vector<int64_t>;
  struct Hash {
    size_t operator()(const Key &key) const;
  };
  /// Shards are equal when their keys are.
  static void setKey(const ShardRecord &shard, Side side, Key &key);

  struct Family {
    std::unordered_map<Key, uint32_t, Hash> numbers;
    std::deque<Entry> entries;
  };
  std::vector<Family> families;
  size_t numBytes = 0;
  Key scratch;
};

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_SHARDNUMBERS_H
