//===- Destinations.h - Layouts that a job could change to ------*- C++ -*-===//

#ifndef DT_ADVISE_DESTINATIONS_H
#define DT_ADVISE_DESTINATIONS_H

#include "dt/Advise/StepTime.h"

#include <functional>

namespace dt::advise {

/// One layout with what is predicted of it.
struct Destination {
  Sizes sizes;
  Batch batch;
  std::vector<ReplicaShare> shares; // per data-parallel replica
  StepTime time;
  DeviceMemory memory;
  bool isExactPartition = true; // of layers; see ChunkPartition.h
};

/// Told now and then how far a search is.
using Progress =
    std::function<void(const char *phase, size_t done, size_t total)>;

/// Numbers of devices that are looked at, largest first.
std::vector<int64_t> worldsOf(const Job &job, bool all);

/// `world` of the devices that are left, in order of rank, such that each
/// tensor-parallel group stands on one node (one island of measured links).
/// Empty when there are too few.
std::vector<int64_t> chooseDevices(const Job &job, int64_t world,
                                   int64_t tensorParallel, int64_t order);
/// Orders that `chooseDevices` knows for this cluster.
int64_t deviceOrders(const Job &job);

/// What is predicted of the sizes, their layers dealt out as well as can be;
/// devices and batch are given, blocks are not. With `isExact` the bytes are
/// those of every rank, else of every layer. nullopt, with a reason, where the
/// model, the batch or the memory does not fit.
std::optional<Destination> predict(const Job &job, Sizes sizes,
                                   const Batch &batch, bool isExact,
                                   std::string &error);
/// The same for layers that are dealt out already (`sizes.blocks`); memory that
/// is too small is said in the answer.
std::optional<Destination> predictAsIs(const Job &job, const Sizes &sizes,
                                       const Batch &batch, std::string &error);

/// The best `most` layouts on `world` devices by predicted time, the fastest
/// first; bytes by layer.
std::vector<Destination> fastestOn(const Job &job, int64_t world, size_t most,
                                   const Progress &progress);

/// The same sizes with layers dealt out by count, as predicted.
std::optional<Destination> evenly(const Job &job, const Destination &of);

/// The layers of a destination dealt out so that the fewest bytes move from
/// today's layout within job.time.slack of the fastest, and ranks given to
/// nodes likewise. Never slower than the slack allows.
Destination nearToday(const Job &job, const Destination &destination);

} // namespace dt::advise

#endif // DT_ADVISE_DESTINATIONS_H
