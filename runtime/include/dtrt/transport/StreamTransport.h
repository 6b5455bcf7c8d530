//===- StreamTransport.h - Groups on a GPU's queue --------------*- C++ -*-===//
//
// A transport whose groups are put on a stream: the host enqueues a whole
// transfer ahead of the GPU, and only looks on. No CUDA header is needed here.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TRANSPORT_STREAMTRANSPORT_H
#define DTRT_TRANSPORT_STREAMTRANSPORT_H

#include "dtrt/core/Transport.h"
#include "dtrt/format/PlanModel.h"
#include "dtrt/transport/Traffic.h"

#include <functional>

struct CUstream_st;

namespace dtrt {

/// CUDA's cudaStream_t.
using GpuStream = CUstream_st *;

/// The calls come in the order in which they stand here. None waits without a
/// limit for another rank; what fails, or is aborted, is known to all ranks
/// before anything else is done about it.
class StreamTransport : public Transport {
public:
  StreamTransport *onStreams() override { return this; }

  /// Bytes of the GPU's memory that a program's messages cost beside the arena,
  /// at least.
  virtual uint64_t leastBytesFor(const PlanCommon &,
                                 const RankProgram &) const {
    return 0;
  }
  /// Collective, after `connect`: the groups to come. Gives the staging arena,
  /// zeroed, which stays the transport's; null where the traffic needs none.
  virtual Result<std::byte *> prepare(const Traffic &traffic) = 0;
  /// A transfer: runs `enqueueAll`, in which `enqueue` is called, where it may
  /// block, and returns at once.
  virtual void start(std::function<Status()> enqueueAll) = 0;
  /// In `enqueueAll`: group number `group` of the traffic comes behind all that
  /// is on the stream. Its messages have the order of the traffic's.
  virtual Status enqueue(size_t group,
                         const std::vector<TransportMessage> &messages,
                         GpuStream stream) = 0;
  /// The same of a group that is a collective.
  virtual Status enqueueCollective(size_t /*group*/,
                                   const CollectiveCall & /*call*/,
                                   GpuStream /*stream*/) {
    return makeError("this transport has no library's collectives");
  }
  /// Whether the transfer has failed on some rank, or was aborted; from any
  /// thread.
  virtual bool stopped() const = 0;
  /// While the transfer runs, waits until reached(), which is cheap, says that
  /// the group has ended.
  virtual Status await(size_t group, const std::function<bool()> &reached) = 0;
  /// Waits for the end of `enqueueAll`, and gives what it returned.
  virtual Status finish() = 0;
  /// After a transfer whose streams are idle: what was found wrong with what
  /// came.
  virtual Status check() { return {}; }
  /// Whether `enqueue` may be captured into a graph.
  virtual bool capturable() const { return false; }
  /// Whether what is on streams may go on, at any time, after an abort.
  virtual bool outlastsAbort() const { return false; }
  /// Work that uses the transport's memory may never end: it stays for good.
  virtual void leakMemory() {}
};

} // namespace dtrt

#endif // DTRT_TRANSPORT_STREAMTRANSPORT_H
