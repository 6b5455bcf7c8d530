//===- Cuda.h - Plans on GPUs -----------------------------------*- C++ -*-===//
//
// The same programs as Executor runs, with shards and staging on a GPU: packs,
// unpacks, copies and zeros are launches over one table of boxes that lies on
// the device, on streams of their own beside the wire's, with events between
// them. No CUDA header is needed to use this.
//
// A GPU is that of the thread which asks for something, then; later calls may
// come from any thread. Nothing here uses the legacy stream, waits for a whole
// GPU, or spoils a capture that another thread has under way.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_CUDA_CUDA_H
#define DTRT_CUDA_CUDA_H

#include "dtrt/core/BoxCopy.h"
#include "dtrt/core/Executor.h"
#include "dtrt/transport/HostStagedTransport.h"
#include "dtrt/transport/StreamTransport.h"
#include "dtrt/world/LoopbackRun.h"
#include "dtrt/world/Switch.h"

namespace dtrt {

/// GPUs of this machine; fails, with the driver's words, when there are none.
Result<int> countGpus();
/// The calling thread's GPU from now on.
Status useGpu(int gpu);
Result<int> currentGpu();
/// Zeroed memory of the thread's GPU, or of the one that is named; from a pool
/// of its own, which goes with the last block.
MemorySource gpuMemory(std::optional<int> gpu = {});
/// Memory of the host that GPUs reach without a copy in between.
MemorySource pinnedMemory();
/// Copies between any two of host and GPU memory, on a stream of their own;
/// done when they return.
CopyBytes gpuCopies(std::optional<int> gpu = {});

/// Box copies of one launch, their table on the device.
class GpuBoxTable {
public:
  static Result<GpuBoxTable> upload(const BoxTable &table);
  /// Waits for the end. At most `blocks` blocks of threads work; 0: as many as
  /// the GPU runs at a time.
  Status run(uint32_t blocks = 0) const;

private:
  struct State;
  std::shared_ptr<const State> state;
};

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

/// Runs one device's program, of a plan of mode rollback, on the GPU that the
/// calling thread uses. With a transport that has streams the whole transfer is
/// enqueued ahead of the GPU; else the host starts each group when what it
/// needs has ended. `group` of the transport gets addresses on the GPU.
class GpuExecutor : public ProgramRunner {
public:
  static Result<std::unique_ptr<GpuExecutor>>
  prepare(LocalStorage &storage, Transport &transport,
          GpuExecutorOptions options = {});
  ~GpuExecutor() override;

  /// The next run starts when all has ended that is on this stream now: the
  /// trainer's, which writes the source. Null: the default stream.
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

/// A transport around a transport: regions of messages are hashed on the GPU at
/// both ends, and compared when the transfer has ended. The error names the
/// first tensor, state and bytes that differ.
std::unique_ptr<StreamTransport>
makeGpuDigestTransport(std::unique_ptr<StreamTransport> inner);

/// The ends of a world whose devices are threads of this process that share one
/// GPU or more. The wire is a copy from memory to memory, behind what the
/// sender has enqueued.
class GpuLoopbackWorld {
public:
  explicit GpuLoopbackWorld(const std::vector<uint32_t> &devices);
  ~GpuLoopbackWorld();
  GpuLoopbackWorld(const GpuLoopbackWorld &) = delete;
  GpuLoopbackWorld &operator=(const GpuLoopbackWorld &) = delete;

  /// On the GPU of the thread that calls its `connect`.
  StreamTransport &endpoint(uint32_t device);

private:
  struct State;
  class Endpoint;
  std::unique_ptr<State> state;
};

/// Every device of a plan on one GPU, a thread each.
Result<LoopbackReport> runGpuLoopback(const PlanReader &plan, bool check,
                                      int gpu = 0);

/// For checked runs, of shards on a GPU: known values in the source, poison in
/// the destination; and the comparison afterwards.
Status fillGpuShards(LocalStorage &storage);
Status checkGpuShards(const LocalStorage &storage, CheckReport &report);

} // namespace dtrt

#endif // DTRT_CUDA_CUDA_H
