//===- Buckets.h - ZeRO-1 buckets of a gradient buffer ----------*- C++ -*-===//
//
// Megatron-Core's distributed optimizer lays the local parameters of a rank
// into one buffer, in reverse registration order, and cuts the buffer into
// buckets. Rank r of n owns the r-th of n equal parts of every bucket,
// whatever parameter borders lie in it:
//
//   3 ranks, one bucket    |  p2  | p1 |       p0        |pad|
//                          | rank 0   | rank 1  | rank 2     |
//
// All numbers are elements.
//
//===----------------------------------------------------------------------===//

#ifndef DT_MEGATRON_BUCKETS_H
#define DT_MEGATRON_BUCKETS_H

#include "dt/Geometry/Box.h"

namespace dt {

/// Every parameter starts at a multiple of this.
constexpr int64_t kBucketParamAlignment = 64;
/// Every bucket ends at a multiple of lcm(number of ranks, this).
constexpr int64_t kBucketEndAlignment = 128;

/// A parameter as one rank stores it, before ZeRO cuts it.
struct BucketParam {
  int64_t size = 0; // local elements, padding included
  /// Has a bucket of its own.
  bool sharedEmbedding = false;
};

/// Where a parameter lies in the buffer.
struct BucketSlot {
  Interval span; // [start, end) in the buffer
  uint32_t bucket = 0;
};

struct BucketLayout {
  int64_t numRanks = 1;
  std::vector<BucketSlot> params; // in registration order
  std::vector<Interval> buckets;  // in buffer order, end padding included

  /// The flat range of the parameter's local elements that `rank` owns; empty
  /// when it owns none.
  Interval ownedRange(size_t param, int64_t rank) const;
  /// The ranks that own some of the parameter's elements: consecutive.
  Interval owners(size_t param) const;
};

/// Megatron-Core's default number of elements at which a bucket closes.
int64_t defaultBucketSize(int64_t numRanks);

/// A bucket size that no buffer reaches.
constexpr int64_t kOneBucket = 0;

/// Lays out one buffer (`params` in registration order) for `numRanks` ranks.
/// A bucket closes once it has `bucketSize` elements; kOneBucket: never.
BucketLayout layOutBuckets(const std::vector<BucketParam> &params,
                           int64_t numRanks, int64_t bucketSize);

} // namespace dt

#endif // DT_MEGATRON_BUCKETS_H
