//===- Views.h - Tensors of one side, in their own coordinates --*- C++ -*-===//
//
// Programs name boxes of families. What a trainer has are its own tensors,
// which may be views of them (NamedView in PlanModel.h). Here shards and boxes
// are told in the names and coordinates of those.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_FORMAT_VIEWS_H
#define DTRT_FORMAT_VIEWS_H

#include "dtrt/format/PlanModel.h"
#include "dtrt/types/Status.h"

#include <optional>

namespace dtrt {

/// The name of the tensor that a member of a shard is a part of; `member` holds
/// one index per leading dim.
std::string ownTensorName(const PlanCommon &common, const ShardRecord &shard,
                          const DimVector &member);

/// What a shard holds of each tensor that it is a part of.
struct OwnPart {
  std::vector<int64_t> fullShape;          // in elements
  std::vector<std::vector<Interval>> dims; // in local order
};
/// Of a shard that PlanReader accepted.
OwnPart ownPart(const PlanCommon &common, const ShardRecord &shard);

/// No fewer than the intervals of dims of that which are several of the
/// view's: UINT64_MAX where they cannot be counted. Of a shard that
/// `checkInView` accepted, of a view.
uint64_t mostFlattenedIntervals(const PlanCommon &common,
                                const ShardRecord &shard);

/// A box of a family as a box of one tensor of a side.
struct OwnBox {
  const NamedView *view = nullptr;
  std::vector<int64_t> offset, size; // inner dims that the tensor has
  /// Not empty: it is no box of the tensor itself, which has several dims in
  /// one, but of one reshaped so.
  std::vector<int64_t> reshape;
};
/// Nothing where the side has no view that has all of the box.
std::optional<OwnBox> ownBox(const PlanCommon &common, Side side,
                             uint32_t family, const DimVector &offset,
                             const DimVector &size);

/// The bits of an element of a shard's padding, in the dtype of the state.
uint64_t fillOf(const PlanCommon &common, const ShardRecord &shard,
                unsigned state);

/// A view's family, name, numbers, intervals and fill.
Status checkView(const std::vector<Family> &families, const NamedView &view);
/// Fails unless the intervals of a shard lie in its view and follow each other
/// as they do there. Takes time in the number of intervals of both.
Status checkInView(const PlanCommon &common, const ShardRecord &shard,
                   Side side);

} // namespace dtrt

#endif // DTRT_FORMAT_VIEWS_H
