//===- Cuda.h - Plans on GPUs -----------------------------------*- C++ -*-===//
//
// The same programs as Executor runs, with shards and staging on a GPU: every
// pack, unpack, copy and zero is one launch over a box table that lies on the
// device. Packs of the next wave and unpacks of the last one run while a wave
// is on the wire. No CUDA header is needed to use this.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_CUDA_H
#define DTRT_CUDA_H

#include "dtrt/BoxCopy.h"
#include "dtrt/Executor.h"
#include "dtrt/LoopbackRun.h"

namespace dtrt {

/// GPUs of this machine; fails, with the driver's words, when there are none.
Result<int> countGpus();
/// The calling thread's GPU from now on.
Status useGpu(int gpu);
Result<int> currentGpu();
/// Memory of the GPU that is in use when it is asked for.
MemorySource gpuMemory();
/// Between any two of host and GPU memory; done when it returns.
Status copyBytesOnGpu(std::byte *to, const std::byte *from, uint64_t bytes);

/// Box copies of one launch, their table on the device.
class GpuBoxTable {
public:
  static Result<GpuBoxTable> upload(const BoxTable &table);
  /// On the legacy default stream, and waits.
  Status run() const;

private:
  friend class GpuExecutor;
  std::shared_ptr<std::byte> rows; // freed with the last copy of this
  uint32_t count = 0;
  uint64_t tiles = 0;
};

struct GpuExecutorOptions {
  /// Where the staging arena comes from; a transport may have its own.
  MemorySource staging = gpuMemory();
};

/// Runs one device's program, of a plan of mode rollback, on the GPU that the
/// calling thread uses. `group` of the transport gets addresses on the GPU.
class GpuExecutor : public ProgramRunner {
public:
  static Result<std::unique_ptr<GpuExecutor>>
  prepare(LocalStorage &storage, Transport &transport,
          GpuExecutorOptions options = {});
  ~GpuExecutor() override;

  /// Waits first for all that the trainer has under way on this GPU.
  Status run() override;
  const ExecutionStats &stats() const override;
  std::vector<uint32_t> peers() const override;
  std::byte *staging() const override;

private:
  struct State;
  explicit GpuExecutor(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

/// Every device of a plan on one GPU, a thread each; the wire is a copy from
/// GPU memory to GPU memory.
Result<LoopbackReport> runGpuLoopback(const PlanReader &plan, bool check,
                                      int gpu = 0);

/// For checked runs, of shards on a GPU: known values in the source, poison in
/// the destination; and the comparison afterwards.
Status fillGpuShards(LocalStorage &storage);
Status checkGpuShards(const LocalStorage &storage, CheckReport &report);

} // namespace dtrt

#endif // DTRT_CUDA_H
