//===- Placement.h - How a param is cut over a mesh -------------*- C++ -*-===//
//
// A placement says which mesh axes cut which dims of a param. Every way that
// trainers cut tensors is a sequence of `Split`s on a dim, each applied to
// what the splits before it left over (the *local* extent), and at most one
// flat cut of the local elements afterwards. Whatever no split mentions is
// replicated.
//
//   Megatron row parallel        dim 1: {"tp"}
//   SwiGLU fc1 [gate; up]        dim 0: {"tp" blocks [f, f]}
//   uneven pipeline stages       dim 0: {"pp" cuts [0, 24, 47, 70, 94]}
//   interleaved (VPP) stages     dim 0: {"pp" cuts [0, 2, 4, 6, 8]
//                                             owners [0, 1, 0, 1]}
//   FSDP2 after TP on dim 0      dim 0: {"tp"}, {"fsdp" chunk}
//   vocabulary padded to 129024  dim 0: {"tp" extent 129024}
//   ZeRO-1 state                 ... and a flat cut: one range per member
//
//===----------------------------------------------------------------------===//

#ifndef DT_GEOMETRY_PLACEMENT_H
#define DT_GEOMETRY_PLACEMENT_H

#include "dt/Geometry/Mesh.h"
#include "dt/Geometry/Shard.h"

#include <optional>
#include <tuple>

namespace dt {

/// Cuts the current local extent of one dim over one mesh axis.
struct Split {
  std::string axis;
  /// Piece i is [cuts[i], cuts[i+1]); first 0, last the extent. Empty: equal
  /// pieces, one per axis coordinate (see `chunk`).
  std::vector<int64_t> cuts = {};
  /// Axis coordinate that holds piece i; empty: piece i is coordinate i's.
  /// A coordinate may hold several pieces (VPP), or none (an empty stage).
  /// Owners count on beyond the axis, once around per model chunk: owner v is
  /// coordinate v mod size in chunk v / size, Megatron-Core's virtual stage.
  std::vector<int64_t> owners = {};
  /// Sizes of packed parts, each cut by itself (q, k, v; gate, up); the local
  /// tensor is the concatenation of the pieces of all parts. Empty: one part.
  std::vector<int64_t> blocks = {};
  /// false: equal pieces must divide the extent exactly. true: torch.chunk's
  /// rule, pieces of ceil(extent / n), the last ones shorter or empty.
  bool chunk = false;
  /// Per block, how many coordinates that follow each other hold each piece:
  /// key and value heads that are fewer than the coordinates. A divisor of the
  /// axis; needs equal pieces. Empty: one each.
  std::vector<int64_t> replicas = {};
  friend bool operator==(const Split &a, const Split &b) {
    return std::tie(a.axis, a.cuts, a.owners, a.blocks, a.chunk, a.replicas) ==
           std::tie(b.axis, b.cuts, b.owners, b.blocks, b.chunk, b.replicas);
  }
};

struct DimPlacement {
  std::vector<Split> splits = {};
  /// Padded size that the splits cut; 0: the dim's own size. Elements at and
  /// beyond the dim's size are padding: stored, never part of the VPS.
  int64_t extent = 0;
  friend bool operator==(const DimPlacement &a, const DimPlacement &b) {
    return a.extent == b.extent && a.splits == b.splits;
  }
};

/// Restricts a param to some coordinates of an axis (embedding: pp = 0). They
/// count on beyond the axis like the owners of a split.
struct AxisRestriction {
  std::string axis;
  std::vector<int64_t> coordinates;
  friend bool operator==(const AxisRestriction &a, const AxisRestriction &b) {
    return a.axis == b.axis && a.coordinates == b.coordinates;
  }
};

struct Placement {
  std::vector<DimPlacement> dims; // leading dims first
  std::vector<AxisRestriction> at = {};
  /// Equal flat cut of each member's local elements over these axes, slowest
  /// first (ZeRO-3 / FSDP1 flat params): ceil(n / product) each, tail empty.
  std::vector<std::string> flatAxes = {};
  friend bool operator==(const Placement &a, const Placement &b) {
    return std::tie(a.at, a.dims, a.flatAxes) ==
           std::tie(b.at, b.dims, b.flatAxes);
  }
};

/// What a set of devices hold of a param: replicas share one holding.
struct Holding {
  Shard shard;
  std::vector<int64_t> devices; // sorted
};

/// One explicit region of one device: a box, or a flat range of its elements.
struct HeldBox {
  int64_t device = 0;
  Box box;
  /// Of each member's part of the box, row-major.
  std::optional<Interval> range = {};
};

/// One row of an explicit layout: a rank holds a box, or only elements
/// [range.lo, range.hi) of each member's part of it.
struct RankBox {
  int64_t rank = 0;
  Box box;
  std::optional<Interval> range;
};

/// Explicit regions as holdings, in order of first row; devices that hold the
/// same shard share one holding. The first `numLeading` dims are leading dims.
std::vector<Holding> holdingsOf(const std::vector<HeldBox> &rows,
                                unsigned numLeading = 0);

/// No fewer than the regions of all holdings: INT64_MAX where they cannot be
/// counted. Replicas share theirs.
int64_t mostRegions(const std::vector<Holding> &holdings);

/// All holdings of a param of `shape` (the first `numLeading` dims enumerate
/// its members) under `placement`. Shards that store no element are left out
/// (those that store only padding are not). Dims beyond `placement.dims` are
/// replicated. Deterministic order: by first rank. On a placement that does not
/// fit (unknown axis, an axis of more than one coordinate used twice, uneven
/// without cuts, cuts that do not cover, block sizes that do not add up)
/// returns std::nullopt and sets `error` to one sentence
/// that names the dim and the found and expected sizes.
std::optional<std::vector<Holding>> evaluate(const Placement &placement,
                                             const Mesh &mesh,
                                             const std::vector<int64_t> &shape,
                                             unsigned numLeading,
                                             std::string &error);

/// The intervals of a dim of `size` that coordinate tuple `coords` (one per
/// split) holds, in local order, in padded coordinates; intervals that touch
/// are one. Same errors.
std::optional<std::vector<Interval>>
evaluateDim(const DimPlacement &dim, int64_t size,
            const std::vector<int64_t> &axisSizes,
            const std::vector<int64_t> &coords, std::string &error);

} // namespace dt

#endif // DT_GEOMETRY_PLACEMENT_H
