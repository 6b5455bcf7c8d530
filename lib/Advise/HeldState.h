//===- HeldState.h - Which part of a tensor a rank holds --------*- C++ -*-===//

#ifndef DT_LIB_ADVISE_HELDSTATE_H
#define DT_LIB_ADVISE_HELDSTATE_H

#include "dt/Advise/StateSizes.h"
#include "dt/Geometry/Shard.h"
#include "dt/Megatron/Buckets.h"

#include <map>
#include <tuple>
#include <unordered_map>

namespace dt::advise {

/// A rank's coordinates on both grids; ranks are counted tp-cp-ep-fsdp-dp-pp.
struct Coordinates {
  int64_t stage = 0;
  int64_t tp = 0, fsdp = 0, zero = 0; // dense: place in the ZeRO group
  int64_t etp = 0, ep = 0, efsdp = 0, ezero = 0;
};

/// The parallel sizes with what follows from them.
struct Grid {
  Grid(const ModelShape &model, const Sizes &sizes);

  Coordinates coordinates(int64_t rank) const;

  Sizes sizes;
  bool hasExpertGrid = false;
  int64_t perStage = 1;
  int64_t efsdp = 1;
  int64_t zeroRanks = 1, expertZeroRanks = 1; // 1: nothing is cut
  int64_t expertsPerRank = 0;
  std::vector<int32_t> stageOf, chunkOf; // per layer
};

/// What each place of the ZeRO groups owns, on both grids.
struct ZeroShares {
  std::vector<RankBytes> dense, expert;
};

/// A layout: which tensors each stage holds and how ZeRO cuts them.
class HeldState {
public:
  HeldState(const ModelShape &model, const Sizes &sizes, int64_t vocabMultiple);

  const Grid &grid() const { return gridOf; }
  /// Tensors of a stage and expert coordinate, chunk after chunk, each chunk in
  /// registration order.
  const std::vector<int32_t> &tensorsOf(int64_t stage, int64_t ep);
  bool holds(const Coordinates &at, int32_t tensor) const;
  /// Whether the states besides param and grad of this tensor are cut by ZeRO.
  bool isCut(int32_t tensor) const;
  /// The flat range of the local tensor whose states a rank of the ZeRO group
  /// owns. Only for tensors that the rank `holds` and that are cut.
  Interval owned(const Coordinates &at, int32_t tensor);
  /// What the ranks of a stage's ZeRO groups own; all expert coordinates alike.
  ZeroShares zeroShares(int64_t stage);
  /// Local intervals per dim, before ZeRO cuts; padding rows included.
  const Shard &shard(const Coordinates &at, int32_t tensor);
  /// Elements of `shard`, padding included.
  int64_t elements(const Coordinates &at, int32_t tensor);

  const ModelShape &model;

private:
  bool onExpertGrid(const TensorClass &kind) const {
    return kind.isExpert && gridOf.hasExpertGrid;
  }
  struct Buffers {
    std::unordered_map<int32_t, std::pair<int32_t, int32_t>>
        place; // of a tensor: layout, position
    std::vector<BucketLayout> layouts;
  };
  Buffers &buffersOf(int64_t stage, int64_t ep);
  void layOut(int64_t stage, int64_t ep, int64_t chunk, bool expert,
              Buffers &out);
  int64_t chunkOf(int64_t stage, const ShapeTensor &tensor) const;

  Grid gridOf;
  int64_t vocabMultiple;
  std::map<std::pair<int64_t, int64_t>, std::vector<int32_t>> tensorLists;
  std::map<std::pair<int64_t, int64_t>, Buffers> buffers;
  /// What `buffersOf` gave last: neighbours ask for the same.
  std::pair<int64_t, int64_t> lastKey{-1, -1};
  Buffers *last = nullptr;
  std::map<std::tuple<int32_t, int64_t, int64_t>, Shard> shards;
};

/// Megatron-Core's rule: a multiple of `multiple` x `tp`.
int64_t paddedVocabulary(int64_t vocab, int64_t multiple, int64_t tp);

} // namespace dt::advise

#endif // DT_LIB_ADVISE_HELDSTATE_H
