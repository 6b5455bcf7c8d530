//===- GlooTransport.h - Messages over a c10d backend -----------*- C++ -*-===//
//
// Runs groups on point-to-point operations of a c10d backend that
// torch.distributed has made: all receives and sends of a group are posted,
// then waited for. Tags count the messages of an ordered pair, so that both
// ends give a message the same tag. The backend is the transport's own: after
// an error its connections are of no further use. Library collectives are
// c10d's, each on a backend of its members.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TORCH_GLOOTRANSPORT_H
#define DTRT_TORCH_GLOOTRANSPORT_H

#include "dtrt/core/Transport.h"
#include "dtrt/store/StoreClient.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <functional>

namespace dtrt {

/// Makes the backend of some ranks, of which this is one, on all of them; each
/// has another number. Throws what c10d throws.
using SplitBackend = std::function<c10::intrusive_ptr<c10d::Backend>(
    uint32_t number, const std::vector<int> &ranks)>;

/// `devices`: the plan device of each rank of the backend. Without `split` it
/// has no library collectives.
std::unique_ptr<Transport>
makeGlooTransport(c10::intrusive_ptr<c10d::Backend> backend,
                  const std::vector<uint32_t> &devices, Seconds timeout,
                  SplitBackend split = nullptr);

} // namespace dtrt

#endif // DTRT_TORCH_GLOOTRANSPORT_H
