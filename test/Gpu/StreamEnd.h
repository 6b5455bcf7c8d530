//===- StreamEnd.h - Groups of the contract as one-sided waves --*- C++ -*-===//
//
// The contract of all transports hands over groups as they come; one-sided
// waves are known before, and write into arenas. This stands between: each pair
// of devices has a slot each way, each set of messages that a device may have
// is a group of the traffic, and what is sent goes through slots, as large as
// they are.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TEST_STREAMEND_H
#define DTRT_TEST_STREAMEND_H

#include "dtrt/transport/StreamTransport.h"

#include <memory>

namespace dtrt::test {

/// An end of a world of these devices, at most five; it connects only where
/// waves are one-sided. `gpu`: the transport's. Messages lie in the host's
/// memory, so the GPUs must be the stand-in's.
std::unique_ptr<Transport>
makeStreamEnd(StreamTransport &inner, std::vector<uint32_t> devices, int gpu);

} // namespace dtrt::test

#endif // DTRT_TEST_STREAMEND_H
