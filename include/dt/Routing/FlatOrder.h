//===- FlatOrder.h - The order in which a flat transition advances -*- C++
//-*-===//
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
// What a device holds is known from the jobs that are done: `MemoryWindow`
// tells the scheduler which may start.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ROUTING_FLATORDER_H
#define DT_ROUTING_FLATORDER_H

#include "dt/Routing/Router.h"
#include "dt/Routing/ShardIndex.h"

namespace dt {

/// Buffers of a flow on one side: `count` states of `width` bytes per element.
struct FlatStates {
  int64_t width = 0;
  int64_t count = 0;
};

struct FlatFlow {
  unsigned numLeading = 0;
  std::vector<FlatStates> source, destination;
  /// The flow whose source buffers are read: itself, or the one that its state
  /// is made from.
  uint32_t readsFrom = 0;
};

struct FlatInput {
  const std::vector<Move> &moves;
  const std::vector<LocalMove> &locals;
  const std::vector<FlatFlow> &flows;
  const ShardIndex &source;
  const ShardIndex &destination;
  int64_t pageBytes = 0; // storage comes and goes by pages of this size
};

/// All moves and copies, cut into jobs and put in order.
struct FlatOrder {
  /// Sorted by job; forwards after what feeds them.
  std::vector<Move> moves;
  std::vector<uint32_t> moveJobs;
  std::vector<LocalMove> locals;
  std::vector<uint32_t> localJobs;

  /// What a job does to the memory of a device: destination bytes that exist
  /// when it has begun, source bytes that nobody reads when it is done.
  struct Effect {
    uint32_t job = 0;
    int64_t created = 0, freed = 0;
  };
  struct Device {
    std::vector<Effect> effects;         // by job
    int64_t source = 0, destination = 0; // bytes held before and after
  };
  std::map<int64_t, Device> devices;

  /// Most bytes, above the larger of its source and destination, that any
  /// device holds when jobs run one after the other.
  int64_t neededBytes() const;
};

/// Jobs bring or free at most about `jobBytes` on each device.
FlatOrder orderForFlat(const FlatInput &input, int64_t jobBytes);

/// The largest jobs that leave half of `roomBytes` above the larger of source
/// and destination to run ahead in; nullopt when none fit.
std::optional<FlatOrder> orderWithin(const FlatInput &input, int64_t roomBytes);

} // namespace dt

#endif // DT_ROUTING_FLATORDER_H
