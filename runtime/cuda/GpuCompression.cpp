//===- GpuCompression.cpp - Messages on a GPU in fewer bytes --------------===//

#include "dtrt/cuda/GpuCompression.h"

#include "AnsCodec.h"

#include "dtrt/cuda/GpuMemory.h"

namespace dtrt {

std::string whyNoNvcomp() {
  auto api = loadNvcomp();
  return api.ok() ? "" : api.status().message();
}

CodecMemory gpuCodecMemory(int gpu) {
  CodecMemory memory;
  memory.copy = gpuCopies(gpu);
  auto api = loadNvcomp();
  if (!api.ok())
    return memory;
  memory.makeCodec = [gpu, table = *api](size_t blockBytes,
                                         uint64_t memoryBytes) {
    return makeAnsCodec(*table, gpu, blockBytes, memoryBytes);
  };
  memory.codecVersion = kAnsCodecVersion;
  return memory;
}

} // namespace dtrt
