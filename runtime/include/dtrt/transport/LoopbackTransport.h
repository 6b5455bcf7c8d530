//===- LoopbackTransport.h - All devices in one process ---------*- C++ -*-===//
//
// A thread per device; the receiver copies straight from the sender's memory.
// The world knows which threads wait for what: when all that are left wait, and
// nothing can wake one, every rank gets an error that says who waits for whom.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TRANSPORT_LOOPBACKTRANSPORT_H
#define DTRT_TRANSPORT_LOOPBACKTRANSPORT_H

#include "dtrt/core/Transport.h"
#include "dtrt/transport/HostStagedTransport.h"

#include <memory>

namespace dtrt {

class LoopbackWorld {
public:
  /// At most `running` devices run at a time, between `connect` and `leave`:
  /// more threads than cores only evict each other's data. Without `copy` all
  /// memory is the host's.
  explicit LoopbackWorld(const std::vector<uint32_t> &devices,
                         size_t running = SIZE_MAX, CopyBytes copy = {});
  ~LoopbackWorld();
  LoopbackWorld(const LoopbackWorld &) = delete;
  LoopbackWorld &operator=(const LoopbackWorld &) = delete;

  /// The end of one of the devices that the world was made of.
  Transport &endpoint(uint32_t device);

private:
  struct State;
  class Endpoint;
  std::unique_ptr<State> state;
};

} // namespace dtrt

#endif // DTRT_TRANSPORT_LOOPBACKTRANSPORT_H
