//===- ShardView.h - Where a box lies in a shard's storage ------*- C++ -*-===//
//
// Sizes, strides and offsets of shards and segments. The functions that return
// a Result trust nothing; the others expect a plan that PlanReader accepted.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_FORMAT_SHARDVIEW_H
#define DTRT_FORMAT_SHARDVIEW_H

#include "dtrt/format/PlanModel.h"
#include "dtrt/types/Status.h"

namespace dtrt {

/// Local extent in each dim of the family: the sums of the interval sizes.
DimVector localShape(const ShardRecord &shard);
/// Members held: product over the leading dims.
int64_t numMembers(const Family &family, const ShardRecord &shard);
/// Stored elements of one member (the range's size when the shard is flat).
int64_t elementsPerMember(const Family &family, const ShardRecord &shard);
/// Bytes of all states and members of the shard.
uint64_t shardBytes(const Family &family, const ShardRecord &shard, Side side);

/// The dtype of a state on one side.
DType dtypeOf(const Family &family, unsigned state, Side side);
/// The states of a mask that have bytes of their own on a side: not those that
/// the source reads from another (StateInfo::inSource).
uint64_t storedStates(const Family &family, uint64_t states, Side side);
/// Bytes of one element in all stored states of the mask.
uint64_t bytesPerElement(const Family &family, uint64_t states, Side side);

/// Members that the segment's box covers, and elements of each.
int64_t segmentMembers(const Family &family, const Segment &segment);
int64_t segmentElements(const Family &family, const Segment &segment);
/// Positions in the shard of the members that a segment covers, row-major.
/// Looks at its leading dims only.
std::vector<int64_t> membersOf(const Family &family, const ShardRecord &shard,
                               const Segment &segment);

// Storage segments: those of Create and Release (Segment in PlanModel.h).

/// The storage segment of elements `range` of the members that the leading
/// dims of `members` name.
Segment storageSegment(const Family &family, const Segment &members,
                       Interval range);
/// Storage segments over all members and states of a shard.
std::vector<Segment> wholeStorage(const Family &family,
                                  const ShardRecord &shard, Side side,
                                  uint32_t index);
/// Fails unless the segment names storage of the shard.
Status checkStorage(const Family &family, const ShardRecord &shard,
                    const Segment &segment);
/// Elements, of each member, that a storage segment names.
Interval storageRange(const Family &family, const Segment &segment);
/// Their bytes in the segment's states, all members together.
uint64_t storageBytes(const Family &family, const Segment &segment);
/// The elements, of each member's storage, from the first to the last that a
/// box touches. The box lies in the shard.
Interval storageHull(const Family &family, const ShardRecord &shard,
                     const Segment &box);
/// The states whose bytes are used for those of a mask: themselves, or those
/// that they are derived from (StateInfo::inSource).
uint64_t resolveDerived(const Family &family, uint64_t states, Side side);

/// Bytes of the segment's packed form, in the dtypes that travel.
uint64_t segmentBytes(const Family &family, const Segment &segment);
/// Bytes of its elements where they are stored.
uint64_t storedBytes(const Family &family, const Segment &segment);

/// Most bytes that the program has allocated at any time: live storage of
/// source and destination shards and the staging arena.
uint64_t peakBytes(const PlanCommon &common, const RankProgram &program);

/// The numbers of the states of a mask, ascending: a range that holds nothing
/// but the mask.
class StateNumbers {
public:
  class Iterator {
  public:
    explicit Iterator(uint64_t rest) : rest(rest) {}
    unsigned operator*() const { return unsigned(__builtin_ctzll(rest)); }
    Iterator &operator++() {
      rest &= rest - 1;
      return *this;
    }
    bool operator!=(const Iterator &o) const { return rest != o.rest; }

  private:
    uint64_t rest;
  };

  explicit StateNumbers(uint64_t mask) : mask(mask) {}
  Iterator begin() const { return Iterator(mask); }
  Iterator end() const { return Iterator(0); }
  size_t size() const { return size_t(__builtin_popcountll(mask)); }
  /// Of a mask that is not empty.
  unsigned front() const { return *begin(); }

private:
  uint64_t mask;
};

inline StateNumbers statesOf(uint64_t mask) { return StateNumbers(mask); }

/// A box inside a shard: a strided view, in elements, of the storage of each
/// member that it covers.
struct ShardView {
  int64_t offset = 0;           // from the start of a member's storage
  std::vector<int64_t> sizes;   // inner dims
  std::vector<int64_t> strides; // of the local tensor
  std::vector<int64_t> members; // positions of the members, row-major
  bool contiguous() const;
};

/// Fails when a dim of the box is not inside one interval of the shard, or the
/// box leaves the shard's flat range.
Result<ShardView> viewOf(const Family &family, const ShardRecord &shard,
                         const DimVector &offset, const DimVector &size);

/// Like `viewOf`, without building a view.
Status checkInside(const Family &family, const ShardRecord &shard,
                   const DimVector &offset, const DimVector &size);

/// The leading index of a member given by its position in the shard.
std::vector<int64_t> memberIndex(const Family &family, const ShardRecord &shard,
                                 int64_t position);

/// The tensor that a segment's error messages name: its first member's.
std::string tensorOf(const Family &family, const DimVector &offset);

/// a * b, or nothing when the product leaves int64 or a factor is negative.
std::optional<int64_t> checkedProduct(int64_t a, int64_t b);

} // namespace dtrt

#endif // DTRT_FORMAT_SHARDVIEW_H
