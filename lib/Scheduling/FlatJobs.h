//===- FlatJobs.h - Blocks of tensors and what they do to memory *- C++ -*-===//

#ifndef DT_LIB_SCHEDULING_FLATJOBS_H
#define DT_LIB_SCHEDULING_FLATJOBS_H

#include "FlatSequence.h"
#include "dt/Geometry/Limits.h"
#include "dt/Scheduling/FlatOrder.h"

#include <tuple>

namespace dt {

/// A piece of a tensor that travels or is copied, without the leading dims: as
/// all tensors of a cohort have it.
struct FlatShape {
  uint32_t flow, hop;
  int64_t from, to;
  bool local;
  int64_t sourceShard, destinationShard; // number on the device; -1: none
  Box inner;

  auto key() const {
    return std::tie(flow, hop, from, to, local, sourceShard, destinationShard,
                    inner);
  }
  friend bool operator<(const FlatShape &a, const FlatShape &b) {
    return a.key() < b.key();
  }
};

/// Blocks of a cohort's tensors: the cells between neighbouring cuts of an
/// inner dim are divided into `parts` of equal share; part p of all cells
/// together is one step along the dim. The outer inner dims have steps of at
/// most one index per cell, the last one larger ones.
struct Blocking {
  struct Dim {
    std::vector<int64_t> cuts;
    int64_t parts = 1;
    int64_t largestCell() const;
    /// Appends what steps hold of an interval; neighbours joined.
    void meet(const Interval &inner, const Interval &steps,
              std::vector<Interval> &out) const;
  };
  std::vector<Dim> dims;

  int64_t blocks() const;
  /// Blocks that follow one another along the last of `dims`.
  int64_t rowBlocks() const { return dims.empty() ? 1 : dims.back().parts; }
  /// Blocks [first, last) as ranges of steps per dim, those along the last of
  /// `dims` together, appended to `out`.
  void split(int64_t first, int64_t last,
             std::vector<std::vector<Interval>> &out) const;
};

/// What blocks hold of boxes: asked for millions, it keeps its memory.
class BlockParts {
public:
  /// The blocking must outlive this.
  explicit BlockParts(const Blocking &blocking) : blocking(blocking) {}
  /// What steps hold of an inner box; neighbours joined. Until the next call.
  const std::vector<Box> &of(const Box &inner,
                             const std::vector<Interval> &steps);

private:
  const Blocking &blocking;
  std::vector<Box> boxes, next;
  std::vector<Interval> own;
};

/// All moves and copies as jobs: blocks of tensors, or several small tensors.
class FlatJobs {
public:
  /// Jobs bring or free at most about `jobBytes` on each device. The input must
  /// outlive the jobs.
  FlatJobs(const FlatInput &input, int64_t jobBytes);
  /// There are more blocks, or effects of them, than the limit: the jobs are
  /// not all of them.
  bool isTooMany() const { return effects.isExceeded(); }

  const std::vector<CohortJobs> &byCohort() const { return jobs; }
  /// Pieces that are moved or copied in each job of a cohort.
  const std::vector<uint32_t> &shapesOf(uint32_t cohort) const {
    return cohorts[cohort].shapes;
  }
  const FlatShape &shape(uint32_t number) const { return shapes[number]; }
  /// Appends the boxes that jobs [first, last) of a cohort move of a shape.
  void boxesOf(uint32_t cohort, uint32_t shape, int64_t first, int64_t last,
               std::vector<Box> &out) const;

private:
  /// Tensors of one param that are moved alike.
  struct Cohort {
    std::vector<uint32_t> shapes;
    std::vector<int64_t> members; // row-major numbers of the leading dims
    std::vector<int64_t> leading; // extents of these
    Blocking blocking;

    std::vector<int64_t> indexOf(int64_t member) const;
  };
  struct Touch {
    int64_t block;
    Interval elements;
  };
  /// (device, is destination, shard, flow whose widths count)
  using Buffer = std::tuple<int64_t, bool, int64_t, uint32_t>;

  /// Shapes, and boxes whose leading dims name the tensors that have them.
  using Pieces = std::vector<std::pair<uint32_t, const Box *>>;

  uint32_t shapeOf(const Move &move, bool local);
  void addPieces(uint32_t storage, const std::vector<uint32_t> &moves,
                 const std::vector<uint32_t> &locals);
  static std::vector<int64_t> sparseMembers(const std::vector<int64_t> &leading,
                                            const Pieces &pieces,
                                            int64_t numOfTensors);
  void addCohorts(const std::vector<int64_t> &leading, const Pieces &pieces,
                  int64_t numOfTensors);
  Box whole(const Cohort &cohort, const Box &inner) const;
  const Shard &shardOf(const FlatShape &shape, bool destination) const;
  int64_t rowBytes(const Cohort &cohort, unsigned dim) const;
  bool countBlocks(const Cohort &cohort);
  bool block(Cohort &cohort, std::vector<JobEffects> &known);
  std::map<Buffer, std::vector<Touch>> touchesOf(const Cohort &cohort) const;
  class EffectTable;
  std::vector<int64_t> devicesOf(const Cohort &cohort) const;
  void addTraffic(const Cohort &cohort, EffectTable &table) const;
  std::vector<JobEffects> effectsOf(const Cohort &cohort) const;
  void addJobs(Cohort &cohort);
  void addMembers(const Cohort &cohort, int64_t first, int64_t last,
                  const Box &inner, std::vector<Box> &out) const;

  const FlatInput &input;
  int64_t jobBytes;
  WorkLimit effects;
  std::map<FlatShape, uint32_t> known;
  std::vector<FlatShape> shapes;
  std::vector<Cohort> cohorts;
  std::vector<CohortJobs> jobs;
};

/// Bytes per element.
int64_t bytesOf(const std::vector<FlatStates> &states);

} // namespace dt

#endif // DT_LIB_SCHEDULING_FLATJOBS_H
