//===- StepTime.h - Predicted time and memory of a step ---------*- C++ -*-===//
//
// A stated model, in closed form, so that layouts can be compared by the
// thousand; docs/Advise.md has the formulas and what they leave out. Times are
// seconds, sizes bytes.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ADVISE_STEPTIME_H
#define DT_ADVISE_STEPTIME_H

#include "dt/Advise/Batches.h"
#include "dt/Advise/Job.h"
#include "dt/Advise/StagePartition.h"
#include "dt/Advise/StateSizes.h"

namespace dt::advise {

/// Slowest rate between neighbours of the groups of each axis, and what part of
/// an all-to-all leaves the node.
struct AxisRates {
  double tp = 0, cp = 0, ep = 0, etp = 0, pp = 0, data = 0, expertData = 0,
         fsdp = 0;
  double epInside = 0;  // rate inside the node
  double epOutside = 0; // share of an all-to-all's bytes that leave the node
};

AxisRates axisRates(const Job &job, const Sizes &sizes);

/// Seconds of one micro-batch in one layer on a device of the fastest kind.
struct LayerTime {
  double forward = 0, backward = 0;
  double total() const { return forward + backward; }
};

struct LayerTimes {
  std::vector<LayerTime> layers;
  LayerTime first, last; // embeddings; loss and prediction layers
  double transfer = 0;   // of activations between two stages, one way
  std::vector<int64_t> activations; // bytes per layer and micro-batch
  int64_t firstActivations = 0;     // per micro-batch in flight
  int64_t lastActivations = 0;      // once: logits
  int64_t working = 0;              // once: what recomputation needs
};

LayerTimes layerTimes(const Job &job, const Sizes &sizes, const Batch &batch,
                      const AxisRates &rates);

/// Slowness is counted in parts of this.
constexpr int64_t kSlownessUnit = 1024;

/// Time of a device's work over the fastest one's, per stage (the slowest
/// device of any replica) and per replica (of any stage).
struct Slowness {
  std::vector<double> stages, replicas;
};
Slowness slownessOf(const Job &job, const Sizes &sizes);

/// Least capacity of the devices of each stage, reserve taken off.
std::vector<int64_t> capacities(const Job &job, const Sizes &sizes);

/// Micro-batches whose activations stage `stage` keeps, in whole stages.
double inFlight(const Sizes &sizes, int64_t stage, int64_t microBatches);

/// Where the time of a step goes.
struct StepTime {
  double total = 0;
  double compute = 0;   // arithmetic of the slowest stage
  double tensor = 0;    // TP, CP and EP communication of the slowest stage
  double bubble = 0;    // filling and draining the pipeline, waiting
  double gradients = 0; // DP and FSDP communication that nothing hides
  double optimizer = 0;
  std::vector<double> stages; // forward and backward of a micro-batch
};

struct DeviceMemory {
  int64_t total = 0;                                 // of the fullest device
  int64_t state = 0, gradients = 0, activations = 0; // of the same device
  int64_t stateMost = 0; // of the device with the most state
  bool fits = false;
};

StepTime stepTime(const Job &job, const Sizes &sizes, const Batch &batch,
                  const LayerTimes &times, const AxisRates &rates,
                  const std::vector<RankBytes> &bytes,
                  const std::vector<ReplicaShare> &shares);

DeviceMemory deviceMemory(const Job &job, const Sizes &sizes,
                          const LayerTimes &times,
                          const std::vector<RankBytes> &bytes,
                          const std::vector<ReplicaShare> &shares);

/// Floating-point operations of a step, forward and backward, nothing
/// recomputed: what Megatron-LM's num_floating_point_operations counts.
double stepFlops(const ModelShape &model, const Batch &batch);

} // namespace dt::advise

#endif // DT_ADVISE_STEPTIME_H
