//===- HostStagedTransport.h - GPU memory over a host's wire ----*- C++ -*-===//
//
// Wraps a transport that only sees the host's memory: what a group sends is
// copied there first, and what it has received is copied back.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TRANSPORT_HOSTSTAGEDTRANSPORT_H
#define DTRT_TRANSPORT_HOSTSTAGEDTRANSPORT_H

#include "dtrt/core/MemorySource.h"
#include "dtrt/core/Storage.h"
#include "dtrt/core/Transport.h"

#include <functional>
#include <memory>

namespace dtrt {

/// How bytes get between the two memories, either way.
using CopyBytes =
    std::function<Status(std::byte *to, const std::byte *from, uint64_t bytes)>;

/// Messages with a view are not for this transport, and those that lie in the
/// host's memory (`onHost`) go as they are. `staging`: where the host's
/// copies of messages lie; memory that a GPU reaches by itself is copied
/// faster.
std::unique_ptr<Transport>
makeHostStagedTransport(std::unique_ptr<Transport> inner, CopyBytes copy,
                        MemorySource staging = hostMemory());

} // namespace dtrt

#endif // DTRT_TRANSPORT_HOSTSTAGEDTRANSPORT_H
