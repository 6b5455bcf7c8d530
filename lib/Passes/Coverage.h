//===- Coverage.h - Every element once, from a holder -----------*- C++ -*-===//
//
// What has to hold of a transition whatever level it is written at: every
// destination region arrives exactly once, everything that is read is held by
// the device that it is read from, and every padding region is zeroed once.
// Works on the ops as written, with code that does not know the router or the
// scheduler.
//
//===----------------------------------------------------------------------===//

#ifndef DT_PASSES_COVERAGE_H
#define DT_PASSES_COVERAGE_H

#include "TransitionInfo.h"

namespace dt {

/// The time of what a device makes from another state: after all transfers.
constexpr int64_t kMadeTime = INT64_MAX;

/// A piece with the op that names it. `time` is the hop or the wave that
/// carries it; local work is done at time -1.
struct Arrival {
  mlir::Operation *op;
  int64_t time;
  int64_t from;
  Box box;
};

/// A region of the source that is gone once time `after` is over.
struct Release {
  mlir::Operation *op;
  int64_t after;
  Box box;
};

/// Checks one flow of a transition.
class FlowChecker {
public:
  FlowChecker(const TransitionInfo &info, uint32_t flow);

  void addArrival(int64_t to, Arrival arrival) {
    arrivals[to].push_back(std::move(arrival));
  }
  void addZero(mlir::Operation *op, int64_t device, const Box &box) {
    zeros[device].push_back({op, /*time=*/-1, device, box});
  }
  void addRelease(int64_t device, Release release) {
    releases[device].push_back(std::move(release));
  }
  /// Emits a diagnostic on failure.
  mlir::LogicalResult check();

private:
  using Boxes = std::vector<Box>;
  using Arrivals = std::vector<Arrival>;
  /// Pieces read from one device.
  using Reads = std::vector<const Arrival *>;

  mlir::LogicalResult checkDelivered(int64_t device);
  mlir::LogicalResult checkPadding(int64_t device);
  mlir::LogicalResult checkReleases(int64_t device);
  mlir::LogicalResult checkReads();
  mlir::LogicalResult checkMade(const Arrival &piece);
  /// Of pieces that the device did not hold all of at the source.
  mlir::LogicalResult checkForwards(int64_t device, const Reads &forwards);
  mlir::LogicalResult checkNotReleased(int64_t device, const Reads &reads);
  mlir::LogicalResult refuseTooMany(const Arrivals &pieces);
  mlir::LogicalResult refuseTwice(const Arrivals &pieces, const char *verb,
                                  const char *where, int64_t device);
  std::string text(const Box &box) const {
    return describe(info.flows[flow], box);
  }

  const TransitionInfo &info;
  uint32_t flow;
  std::vector<int64_t> shape;
  ShardIndex source;
  ShardIndex made; // where the state that this may be made from ends
  std::map<int64_t, Boxes> wanted, padded;
  std::map<int64_t, Arrivals> arrivals, zeros;
  std::map<int64_t, std::vector<Release>> releases;
};

} // namespace dt

#endif // DT_PASSES_COVERAGE_H
