//===- GlooTransport.h - Messages over a c10d backend -----------*- C++ -*-===//
//
// Runs groups on point-to-point operations of a c10d backend that
// torch.distributed has made: all receives and sends of a group are posted,
// then waited for. Tags count the messages of an ordered pair, so that both
// ends give a message the same tag. The backend is the transport's own: after
// an error its connections are of no further use.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TORCH_GLOOTRANSPORT_H
#define DTRT_TORCH_GLOOTRANSPORT_H

#include "dtrt/core/Transport.h"
#include "dtrt/store/StoreClient.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace dtrt {

/// `devices`: the plan device of each rank of the backend.
std::unique_ptr<Transport>
makeGlooTransport(c10::intrusive_ptr<c10d::Backend> backend,
                  const std::vector<uint32_t> &devices, Seconds timeout);

} // namespace dtrt

#endif // DTRT_TORCH_GLOOTRANSPORT_H
