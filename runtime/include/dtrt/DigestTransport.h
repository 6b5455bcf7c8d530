//===- DigestTransport.h - Messages compared on arrival ---------*- C++ -*-===//
//
// Wraps a transport: after each group, every message's digest travels the same
// way in a group of its own, and the receiver compares it with the digest of
// what came. The digest depends on the position of every byte. Messages must be
// in the host's memory.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_DIGESTTRANSPORT_H
#define DTRT_DIGESTTRANSPORT_H

#include "dtrt/Transport.h"

#include <memory>

namespace dtrt {

std::unique_ptr<Transport>
makeDigestTransport(std::unique_ptr<Transport> inner);

} // namespace dtrt

#endif // DTRT_DIGESTTRANSPORT_H
