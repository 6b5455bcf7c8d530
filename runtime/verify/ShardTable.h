//===- ShardTable.h - The shards of all devices -----------------*- C++ -*-===//
//
// What the layouts of both sides are, as far as a plan says: every shard that
// some device has, and who has it.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_VERIFY_SHARDTABLE_H
#define DTRT_LIB_VERIFY_SHARDTABLE_H

#include "DeviceSets.h"
#include "ShardNumbers.h"

#include <memory>

namespace dtrt {

class ShardTable {
public:
  /// A shard and, ascending, the devices that have it.
  struct Row {
    uint32_t number = 0; // by ShardNumbers
    const ShardRecord *shard = nullptr;
    Side side = Side::Source;
    Devices devices;
  };
  /// A shard that some program has: its family and number.
  using Number = std::pair<uint32_t, uint32_t>;

  ShardTable() = default;
  /// With numbers that others have, too; not at the same time.
  explicit ShardTable(std::shared_ptr<ShardNumbers> numbers)
      : numbers(std::move(numbers)) {}

  void add(const RankProgram &program) {
    add(program.device, numbersOf(program));
  }
  void add(ShardTable &&other);
  /// The shards of a program; of any that has the same, too.
  std::vector<Number> numbersOf(const RankProgram &program);
  void add(uint32_t device, const std::vector<Number> &shards);
  /// Makes the rows, of all that was added.
  void sort();

  /// The rows of one family, once they are made; empty where it has none.
  const std::vector<Row> &of(uint32_t family) const;
  /// Intervals of all shards, those that several devices have counted for each.
  uint64_t intervals() const { return numIntervals; }

private:
  Devices &devicesOf(Number shard);

  std::shared_ptr<ShardNumbers> numbers;     // null: of nothing yet
  std::vector<std::vector<Devices>> devices; // by family and number
  std::vector<std::vector<Row>> rows;        // by family
  uint64_t numIntervals = 0;
};

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_SHARDTABLE_H
