//===- DigestTransport.h - Messages compared on arrival ---------*- C++ -*-===//
//
// Wraps a transport: after each group, one digest (XXH3, 128 bits) per region
// of every message travels the same way in a group of its own, and the receiver
// compares them with those of what came; its error names the tensor, the state
// and the place in the message. A digest depends on the position of every byte
// in its region. A message whose regions are not told is one region. Messages
// must be in the host's memory.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TRANSPORT_DIGESTTRANSPORT_H
#define DTRT_TRANSPORT_DIGESTTRANSPORT_H

#include "dtrt/core/Transport.h"

#include <memory>

namespace dtrt {

std::unique_ptr<Transport>
makeDigestTransport(std::unique_ptr<Transport> inner);

} // namespace dtrt

#endif // DTRT_TRANSPORT_DIGESTTRANSPORT_H
