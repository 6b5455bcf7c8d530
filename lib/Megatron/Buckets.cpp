//===- Buckets.cpp - ZeRO-1 buckets of a gradient buffer ------------------===//

#include "dt/Megatron/Buckets.h"

#include <algorithm>
#include <numeric>

namespace dt {

namespace {

int64_t alignTo(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

} // namespace

Interval BucketLayout::ownedRange(size_t param, int64_t rank) const {
  const BucketSlot &slot = params[param];
  Interval bucket = buckets[slot.bucket];
  int64_t share = bucket.size() / numRanks;
  int64_t start = bucket.lo + rank * share;
  Interval owned = intersect(slot.span, {start, start + share});
  if (owned.empty())
    return {};
  return {owned.lo - slot.span.lo, owned.hi - slot.span.lo};
}

Interval BucketLayout::owners(size_t param) const {
  const BucketSlot &slot = params[param];
  if (slot.span.empty())
    return {};
  Interval bucket = buckets[slot.bucket];
  int64_t share = bucket.size() / numRanks;
  return {(slot.span.lo - bucket.lo) / share,
          (slot.span.hi - 1 - bucket.lo) / share + 1};
}

int64_t defaultBucketSize(int64_t numRanks) {
  return std::max<int64_t>(40000000, 1000000 * numRanks);
}

BucketLayout layOutBuckets(const std::vector<BucketParam> &params,
                           int64_t numRanks, int64_t bucketSize) {
  BucketLayout layout;
  layout.numRanks = numRanks;
  layout.params.resize(params.size());
  int64_t endAlignment = std::lcm(numRanks, kBucketEndAlignment);
  int64_t bucketStart = 0;
  int64_t position = 0; // end of the last parameter
  bool isEmpty = true;  // no parameter in the open bucket yet

  auto closeBucket = [&](int64_t end) {
    position = alignTo(end, endAlignment);
    layout.buckets.push_back({bucketStart, position});
    bucketStart = position;
    isEmpty = true;
  };

  // Gradients become ready in reverse registration order.
  for (size_t i = params.size(); i-- > 0;) {
    const BucketParam &param = params[i];
    position = alignTo(position, kBucketParamAlignment);
    if (param.sharedEmbedding && !isEmpty)
      closeBucket(position);
    BucketSlot &slot = layout.params[i];
    slot.span = {position, position + param.size};
    slot.bucket = uint32_t(layout.buckets.size());
    position = slot.span.hi;
    isEmpty = false;
    bool isFull =
        bucketSize != kOneBucket && position - bucketStart >= bucketSize;
    if (isFull || param.sharedEmbedding)
      closeBucket(position);
  }
  if (!isEmpty)
    closeBucket(position);
  return layout;
}

} // namespace dt
