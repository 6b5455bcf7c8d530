//===- AnsCodec.h - Elements of one state in fewer bytes, on a GPU -*- C++ -*-//
//
// Byte planes as on CPUs, which lie on a GPU; nvCOMP's entropy coder (ANS) for
// those that gain. A plane is coded in chunks, which a GPU takes side by side.
// Encoded, in the host's memory, a run of elements is
//
//   mask      1 byte: bit p says that plane p is coded
//   sizes     4 bytes, little-endian, for each chunk of these; 0: as it is
//   planes    in order, each as it is or its chunks
//
// or, where the mask is zero, the elements as they are.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_CUDA_ANSCODEC_H
#define DTRT_LIB_CUDA_ANSCODEC_H

#include "NvcompApi.h"

#include "dtrt/transport/StateCodec.h"

#include <memory>

namespace dtrt {

/// Of the bytes above, and of the library's own in them.
constexpr uint8_t kAnsCodecVersion = 1;

/// For runs of up to `mostBytes` on a GPU, in up to `memoryBytes` of its
/// memory; fails where that is not enough. `api` stays.
Result<std::unique_ptr<StateCodec>> makeAnsCodec(const NvcompApi &api, int gpu,
                                                 size_t mostBytes,
                                                 uint64_t memoryBytes);

} // namespace dtrt

#endif // DTRT_LIB_CUDA_ANSCODEC_H
