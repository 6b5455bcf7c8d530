//===- FlatOrder.h - The order of work in flat memory -----------*- C++ -*-===//
//
// In flat mode no device may hold more than the larger of its source and its
// destination, plus the staging limit. So all devices work through the state in
// one order, and whatever place it has reached, every device has given away and
// received about the same share of its bytes.
//
// The order is one of *jobs*. A job is a block of one tensor, or several small
// tensors: all that travels or is copied of it, by whomever. Blocks cut along
// the rows of both layouts (and along further dims where rows are large): the
// rows between any two neighbouring cuts of either side advance together, so
// that buffers drain and fill by pages on all holders at once, whether a side
// is cut by rows, by columns or by flat ranges. Tensors that are moved alike
// form a *cohort* and follow one another; cohorts advance side by side, spread
// evenly, and where several jobs are due the one that keeps devices nearest to
// their shares goes first.
//
// Where buffers come and go whole, tensors are blocks. What has to do with the
// same shared storages stands together in the order: all of these come with the
// first of its jobs and go with the last.
//
// Neighbouring jobs make a *phase* where all devices have room for all that it
// brings. What travels in a phase may do so in any order, so a phase is
// scheduled like a transition of its own, and what is copied in it may be at
// any time of it.
//
//===----------------------------------------------------------------------===//

#ifndef DT_SCHEDULING_FLATORDER_H
#define DT_SCHEDULING_FLATORDER_H

#include "dt/Geometry/Limits.h"
#include "dt/Geometry/ShardIndex.h"
#include "dt/Scheduling/WaveProblem.h"

#include <functional>
#include <memory>

namespace dt {

struct FlatInput {
  const std::vector<Move> &moves;
  const std::vector<LocalMove> &locals;
  const std::vector<FlatFlow> &flows;
  const ShardIndex &source;
  const ShardIndex &destination;
  /// Storage comes and goes by pages of this size; kWholeBuffers: whole.
  int64_t pageBytes = 0;
  Cluster cluster = {};
  /// Blocks that are put in order, counted as in Limits.h; more are too many.
  int64_t mostEffects = kMaxFlatEffects;
};

/// What is done before the next phase begins, in any order: storage for all of
/// it is there when it begins, and goes when all is done.
struct FlatPhase {
  /// Jobs of one cohort: where they are in `jobs`.
  struct Run {
    uint32_t cohort = 0;
    uint32_t first = 0, last = 0;
  };
  std::vector<Move> moves; // by hop
  uint32_t firstJob = 0, lastJob = 0;
  std::vector<uint32_t> jobs; // by cohort, then in order
  std::vector<Run> cohorts;   // ascending
};

/// What a device copies of one job.
struct FlatCopy {
  uint32_t job = 0;
  int64_t bytes = 0;
};

class FlatJobs;
class FlatStorages;
struct FlatJob;

/// All moves and copies, cut into jobs and put in order.
class FlatOrder {
public:
  /// Jobs bring or free at most about `jobBytes` on each device. The input must
  /// outlive the order.
  FlatOrder(const FlatInput &input, int64_t jobBytes);
  ~FlatOrder();
  FlatOrder(FlatOrder &&);
  FlatOrder &operator=(FlatOrder &&);

  /// Most bytes, above the larger of its source and destination, that any
  /// device holds when jobs run one after the other; INT64_MAX where there are
  /// more jobs than the limit.
  int64_t neededBytes() const;
  /// The longest phases in which no device ever holds `roomBytes`, at least
  /// `neededBytes`, more than the larger of its source and destination.
  std::vector<FlatPhase> phases(int64_t roomBytes) const;

  /// What devices copy in a phase, cohort by cohort, and by job.
  std::map<int64_t, std::vector<FlatCopy>>
  copiesOf(const FlatPhase &phase) const;
  /// Copies of a phase, in that order, cut into parts: the first job of each,
  /// by device. The first part begins with the phase, whatever job is named.
  using Parts = std::map<int64_t, std::vector<uint32_t>>;
  /// Calls fn(copy, part) for all of them.
  void
  forEachCopy(const FlatPhase &phase, const Parts &parts,
              const std::function<void(const LocalMove &, size_t)> &fn) const;

private:
  struct Device {
    int64_t number = 0;
    int64_t source = 0, destination = 0; // bytes held before and after
    int64_t read = 0;                    // of the source, by anyone
  };
  /// What a job does to the memory of a device: destination bytes that exist
  /// when it has begun, source bytes that nobody reads when it is done.
  struct Change {
    uint32_t device = 0; // place in `devices`
    int64_t created = 0, freed = 0;
  };
  struct Copied {
    uint32_t device = 0;
    int64_t bytes = 0;
  };
  /// Part of `changes` or `copies`.
  struct Range {
    uint32_t first = 0, last = 0;
  };
  /// What a block of one tensor of a cohort does.
  struct Block {
    Range changes, copies;
  };
  /// A job of the order: job `number` of its cohort.
  struct Job {
    uint32_t cohort = 0;
    uint32_t block = 0;
    int64_t number = 0;
    int64_t members = 0; // tensors
    Range changes;
    int64_t times = 0; // that it does these changes
  };
  void addDevices(const FlatInput &input);
  uint32_t placeOf(int64_t device) const;
  void addBlocks();
  const Block &blockOf(const Job &job) const;
  Job &add(const FlatJob &job);
  void addAlone(const FlatJob &job);
  void addTogether(const FlatStorages &storages, const FlatJob *first,
                   const FlatJob *last);
  void addOrder(const FlatInput &input, std::vector<FlatJob> order);
  void countRead();
  void countOpen();
  uint32_t endOfTensors(uint32_t first, uint32_t last) const;
  uint32_t extend(std::vector<int64_t> room, uint32_t first) const;
  class JobsByCohort;
  void addMoves(FlatPhase &phase) const;

  std::unique_ptr<FlatJobs> jobs;
  std::vector<Device> devices; // by number
  std::vector<Change> changes;
  std::vector<Copied> copies;
  std::vector<std::vector<Block>> blocks; // by cohort
  std::vector<Job> sequence;
  std::vector<int32_t> open; // before each job, and at the end: tensors
};

/// An order of jobs that leave half of `roomBytes` above the larger of source
/// and destination for others; nullopt when none fit. A 32nd of the room each:
/// with larger ones devices wait for each other, smaller ones only where these
/// do not fit.
std::optional<FlatOrder> orderWithin(const FlatInput &input, int64_t roomBytes);

} // namespace dt

#endif // DT_SCHEDULING_FLATORDER_H
