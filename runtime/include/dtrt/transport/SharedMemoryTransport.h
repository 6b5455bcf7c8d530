//===- SharedMemoryTransport.h - Messages inside a host ---------*- C++ -*-===//
//
// Wraps a transport between processes. Peers on this process's host share their
// staging arenas: a receiver copies straight out of the sender's arena, so that
// a message that is packed and unpacked crosses no wire at all. What does not
// lie in an arena goes through a socket of the host. Messages of other hosts'
// peers go over the transport within, which must overlap. This is how MPI's and
// NCCL's own transports inside a host work.
//
// Processes share a host when boot, network and user namespace and the user are
// the same; where sockets or shared memory are refused, the transport within
// carries all. No name is left anywhere, whenever a process ends.
//
// Memory goes to ranks of the switch only: processes of the same user that know
// its secret. It has a fixed size, and a peer can only read it. Processes that
// connect without the secret are let go; they do not hold up the ranks.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TRANSPORT_SHAREDMEMORYTRANSPORT_H
#define DTRT_TRANSPORT_SHAREDMEMORYTRANSPORT_H

#include "dtrt/core/Transport.h"
#include "dtrt/transport/Secret.h"

#include <chrono>
#include <memory>

namespace dtrt {

/// `devices`: the plan device of each rank. `secret`: the same on all ranks.
/// `timeout`: for each group, and for connecting; a peer that does not answer
/// by then is named.
std::unique_ptr<Transport> makeSharedMemoryTransport(
    std::unique_ptr<Transport> inner, const std::vector<uint32_t> &devices,
    const Secret &secret, std::chrono::duration<double> timeout);

} // namespace dtrt

#endif // DTRT_TRANSPORT_SHAREDMEMORYTRANSPORT_H
