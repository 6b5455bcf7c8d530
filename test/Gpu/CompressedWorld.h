//===- CompressedWorld.h - Slow links between fake GPUs ---------*- C++ -*-===//
//
// Memory of a GPU over a wire of the host, in fewer bytes: nvCOMP's stand-in
// does that.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TEST_COMPRESSEDWORLD_H
#define DTRT_TEST_COMPRESSEDWORLD_H

#include "AnsCodec.h"
#include "BorrowedTransport.h"
#include "FakeNvcomp.h"
#include "TransportContract.h"

#include "dtrt/cuda/GpuMemory.h"
#include "dtrt/transport/CompressedTransport.h"
#include "dtrt/transport/HostStagedTransport.h"
#include "dtrt/transport/LoopbackTransport.h"

#include <map>

namespace dtrt::test {

/// As `gpuCodecMemory` on a machine with nvCOMP.
inline CodecMemory fakeCodecMemory(const FakeNvcompOptions &options = {}) {
  CodecMemory memory;
  memory.copy = gpuCopies(0);
  const NvcompApi &api = fakeNvcomp(options);
  memory.makeCodec = [&api](size_t blockBytes, uint64_t memoryBytes) {
    return makeAnsCodec(api, 0, blockBytes, memoryBytes);
  };
  memory.codecVersion = kAnsCodecVersion;
  return memory;
}

/// Links between all devices, of so many bytes per second.
inline Cluster clusterOf(double bytesPerSecond) {
  Cluster cluster;
  cluster.devicesPerNode = 1;
  cluster.interNodeGBps = bytesPerSecond / 1e9;
  return cluster;
}

inline std::unique_ptr<Transport> compressing(std::unique_ptr<Transport> wire,
                                              const Cluster &cluster,
                                              uint64_t block,
                                              CodecMemory memory) {
  return makeCompressedTransport(
      makeHostStagedTransport(std::move(wire), gpuCopies(0), pinnedMemory()),
      cluster, {1e9, block}, {}, std::move(memory));
}

/// Every link is slower than any codec, and all bytes gain.
class CompressedWorld : public TransportWorld {
public:
  explicit CompressedWorld(const std::vector<uint32_t> &devices)
      : inner(devices) {
    FakeNvcompOptions options;
    options.remembers = true;
    for (uint32_t device : devices)
      ends[device] = compressing(
          std::make_unique<Borrowed>(inner.endpoint(device)), clusterOf(1e3),
          Compression::kLeastBlock, fakeCodecMemory(options));
  }
  Transport &endpoint(uint32_t device) override { return *ends.at(device); }

private:
  LoopbackWorld inner;
  std::map<uint32_t, std::unique_ptr<Transport>> ends;
};

} // namespace dtrt::test

#endif // DTRT_TEST_COMPRESSEDWORLD_H
