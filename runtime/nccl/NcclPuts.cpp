//===- NcclPuts.cpp - Waves without pairs ---------------------------------===//

#include "NcclPuts.h"

#include <algorithm>

namespace dtrt {

namespace {

/// The only ones that NCCL has.
constexpr int kSignal = 0, kContext = 0;
constexpr unsigned kFlags = 0;

/// Runs calls as one group, which ends in any case: it is the thread's state.
template <typename Calls>
ncclResult_t asGroup(const NcclApi &api, Calls calls) {
  ncclResult_t started = api.GroupStart();
  if (started != ncclSuccess)
    return started;
  ncclResult_t result = calls();
  ncclResult_t ended = api.GroupEnd();
  return result == ncclSuccess ? ended : result;
}

/// One signal of each peer.
ncclResult_t awaitSignals(const NcclApi &api, ncclComm_t handle,
                          const std::vector<int> &peers, cudaStream_t stream) {
  std::vector<NcclSignalWait> waits;
  for (int peer : peers)
    waits.push_back({/*count=*/1, peer, kSignal, kContext});
  if (waits.empty())
    return ncclSuccess;
  return api.WaitSignal(int(waits.size()), waits.data(), handle, stream);
}

} // namespace

bool NcclPuts::known(const NcclApi &api) {
  return api.CommWindowRegister && api.CommWindowDeregister && api.PutSignal &&
         api.Signal && api.WaitSignal;
}

ncclResult_t NcclPuts::open(const NcclApi &api, ncclComm_t handle,
                            std::byte *memory, uint64_t bytes) {
  arena = memory;
  return api.CommWindowRegister(handle, memory, bytes, &window,
                                kNcclWindowSymmetric);
}

void NcclPuts::close(const NcclApi &api, ncclComm_t handle) {
  if (window)
    (void)api.CommWindowDeregister(handle, window);
  window = nullptr;
}

ncclResult_t NcclPuts::start(const NcclApi &api, ncclComm_t handle, int rank,
                             int ranks, cudaStream_t stream) const {
  int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  ncclResult_t result =
      api.Signal(next, kSignal, kContext, kFlags, handle, stream);
  if (result != ncclSuccess)
    return result;
  return awaitSignals(api, handle, {before}, stream);
}

ncclResult_t NcclPuts::wave(const NcclApi &api, ncclComm_t handle,
                            const std::vector<NcclPut> &messages,
                            cudaStream_t stream) const {
  std::vector<int> senders, receivers;
  for (const NcclPut &message : messages)
    (message.receive ? senders : receivers).push_back(message.peer);
  ncclResult_t result = asGroup(api, [&] {
    ncclResult_t sent = ncclSuccess;
    for (size_t i = 0; i < senders.size() && sent == ncclSuccess; ++i)
      sent = api.Signal(senders[i], kSignal, kContext, kFlags, handle, stream);
    return sent;
  });
  if (result == ncclSuccess)
    result = awaitSignals(api, handle, receivers, stream);
  if (result == ncclSuccess)
    result = asGroup(api, [&] {
      ncclResult_t put = ncclSuccess;
      for (const NcclPut &message : messages)
        if (!message.receive && put == ncclSuccess)
          put = api.PutSignal(arena + message.ownSlot, message.bytes, ncclUint8,
                              message.peer, window, message.otherSlot, kSignal,
                              kContext, kFlags, handle, stream);
      return put;
    });
  return result == ncclSuccess ? awaitSignals(api, handle, senders, stream)
                               : result;
}

} // namespace dtrt
