//===- GpuBoxTable.h - A table of copies on a GPU ---------------*- C++ -*-===//

#ifndef DTRT_CUDA_GPUBOXTABLE_H
#define DTRT_CUDA_GPUBOXTABLE_H

#include "dtrt/core/BoxTable.h"

#include <memory>

namespace dtrt {

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

} // namespace dtrt

#endif // DTRT_CUDA_GPUBOXTABLE_H
