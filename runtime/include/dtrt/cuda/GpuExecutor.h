//===- GpuExecutor.h - One device's program on a GPU ------------*- C++ -*-===//
//
// The same programs as Executor runs, with shards and staging on a GPU: packs,
// unpacks, copies and zeros are launches over one table of boxes that lies on
// the device, on streams of their own beside the wire's, with events between
// them.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_CUDA_GPUEXECUTOR_H
#define DTRT_CUDA_GPUEXECUTOR_H

#include "dtrt/core/Executor.h"
#include "dtrt/core/MemorySource.h"
#include "dtrt/cuda/GpuMemory.h"
#include "dtrt/transport/StreamTransport.h"
#include "dtrt/world/Switch.h"

namespace dtrt {

struct GpuExecutorOptions {
  /// For transports with streams: where their peers' ends are found. It must
  /// outlive the executor.
  const PlanReader *plan = nullptr;
  /// Of transports without: where the staging arena comes from.
  MemorySource staging = gpuMemory();
  /// Captures the transfer into a graph where the transport allows it, so that
  /// a run is one launch.
  bool graph = false;
};

/// Runs one device's program on the GPU that the calling thread uses. In mode
/// flat all shards have addresses from the start, as those of GpuPages have.
/// With a transport that has streams the whole transfer is enqueued ahead of
/// the GPU; else the host starts each group when what it needs has ended.
/// `group` of the transport gets addresses on the GPU.
class GpuExecutor : public ProgramRunner {
public:
  static Result<std::unique_ptr<GpuExecutor>>
  prepare(LocalStorage &storage, Transport &transport,
          GpuExecutorOptions options = {});
  ~GpuExecutor() override;

  /// The next run starts when all has ended that is on this stream now: the
  /// trainer's, which writes the source. Null: the default stream. In mode flat
  /// this waits for that.
  Status runAfter(GpuStream stream);
  /// Nothing of it is under way on the GPU when it returns, whether it went
  /// well or not, unless the error says so.
  Status run() override;
  const ExecutionStats &stats() const override;
  std::vector<uint32_t> peers() const override;
  std::byte *staging() const override;

private:
  struct State;
  explicit GpuExecutor(std::shared_ptr<State> state);
  std::shared_ptr<State> state;
};

/// For a switch whose tensors lie on this GPU; `runner` is set once it is made,
/// and lives as long as the switch. The plan must outlive it.
Switch::MakeRunner runOnGpu(const PlanReader &plan, int gpu,
                            GpuExecutor *&runner);

} // namespace dtrt

#endif // DTRT_CUDA_GPUEXECUTOR_H
