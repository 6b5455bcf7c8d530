//===- ShardTable.h - The shards of all devices -----------------*- C++ -*-===//
//
// What the layouts of both sides are, as far as a plan says: every shard that
// some device has, and who has it.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_VERIFY_SHARDTABLE_H
#define DTRT_LIB_VERIFY_SHARDTABLE_H

#include "DeviceSets.h"

#include "dtrt/format/PlanModel.h"

namespace dtrt {

class ShardTable {
public:
  /// A shard and, ascending once all programs are added and `sort` was called,
  /// the devices that have it.
  struct Row {
    ShardRecord shard;
    Side side = Side::Source;
    Devices devices;
  };

  void add(const RankProgram &program);
  void add(ShardTable &&other);
  void sort();

  /// The rows of one family; empty where it has none.
  const std::vector<Row> &of(uint32_t family) const;
  /// Intervals of all shards, those that several devices have counted for each.
  uint64_t intervals() const { return numIntervals; }

private:
  using Key = std::vector<int64_t>;
  struct Hash {
    size_t operator()(const Key &key) const;
  };
  /// Shards are equal when their keys are.
  static void setKey(const ShardRecord &shard, Side side, Key &key);
  Row &rowOf(const ShardRecord &shard, Side side);

  struct Family {
    std::unordered_map<Key, uint32_t, Hash> numbers;
    std::vector<Row> rows;
  };
  std::vector<Family> families;
  uint64_t numIntervals = 0;
  Key scratch;
};

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_SHARDTABLE_H
