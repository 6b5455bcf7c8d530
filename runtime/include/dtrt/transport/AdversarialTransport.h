//===- AdversarialTransport.h - The worst that a network may do -*- C++ -*-===//
//
// For tests: groups are taken apart as NCCL does it (KernelPlans.h), cut at
// random places on every rank, delayed at random, and nothing is buffered. A
// world in which nothing can happen any more is told so, and does not hang.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TRANSPORT_ADVERSARIALTRANSPORT_H
#define DTRT_TRANSPORT_ADVERSARIALTRANSPORT_H

#include "dtrt/core/Transport.h"
#include "dtrt/cost/KernelPlans.h"

#include <memory>

namespace dtrt {

/// A world of threads that moves real bytes in the same order. Ranks are the
/// devices in ascending order.
class AdversarialWorld {
public:
  AdversarialWorld(const std::vector<uint32_t> &devices, uint32_t perNode,
                   const Adversary &adversary, uint64_t seed);
  ~AdversarialWorld();
  AdversarialWorld(const AdversarialWorld &) = delete;
  AdversarialWorld &operator=(const AdversarialWorld &) = delete;

  Transport &endpoint(uint32_t device);

private:
  struct State;
  class Endpoint;
  std::unique_ptr<State> state;
};

} // namespace dtrt

#endif // DTRT_TRANSPORT_ADVERSARIALTRANSPORT_H
