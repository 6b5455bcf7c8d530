//===- NvcompApi.h - The nvCOMP calls of the codec --------------*- C++ -*-===//
//
// nvCOMP is loaded when it is first used, as NCCL is: what links this starts
// without it, and builds without its header. So what the library declares of
// its ANS codec stands here once more, of version 6; another one is not used.
// Tests put functions of their own into the table.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_CUDA_NVCOMPAPI_H
#define DTRT_LIB_CUDA_NVCOMPAPI_H

#include "dtrt/types/Status.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace dtrt {

constexpr int kNvcompMajor = 6;

/// nvcompStatus_t.
using NvcompStatus = int;
constexpr NvcompStatus kNvcompSuccess = 0;

/// nvcompProperties_t.
struct NvcompProperties {
  uint32_t version = 0; // 1000 x major + 100 x minor + patch
  uint32_t cudaVersion = 0;
};

/// nvcompBatchedANSCompressOpts_t: all zero is rANS of bytes, its defaults.
struct NvcompAnsCompress {
  int type = 0;
  int dataType = 0;
  char rest[56] = {};
};
/// nvcompBatchedANSDecompressOpts_t.
struct NvcompAnsDecompress {
  int backend = 0;
  int dataType = 0; // bytes
  char rest[56] = {};
};
static_assert(sizeof(NvcompAnsCompress) == 64 &&
              sizeof(NvcompAnsDecompress) == 64);

/// What all memory of a call begins on; the library asks for no more.
constexpr size_t kNvcompAlignment = 16;

/// Functions of nvCOMP without their prefixes. Arrays, as chunks, lie on the
/// GPU, and have an entry for each chunk.
struct NvcompApi {
  NvcompStatus (*GetProperties)(NvcompProperties *) = nullptr;
  NvcompStatus (*CompressTempSize)(size_t chunks, size_t mostBytes,
                                   NvcompAnsCompress, size_t *tempBytes,
                                   size_t mostTotalBytes,
                                   cudaStream_t) = nullptr;
  NvcompStatus (*CompressMaxOutput)(size_t mostBytes, NvcompAnsCompress,
                                    size_t *mostOutputBytes) = nullptr;
  NvcompStatus (*Compress)(const void *const *raw, const size_t *rawBytes,
                           size_t mostBytes, size_t chunks, void *temp,
                           size_t tempBytes, void *const *out, size_t *outBytes,
                           NvcompAnsCompress, NvcompStatus *statuses,
                           cudaStream_t) = nullptr;
  NvcompStatus (*DecompressTempSize)(size_t chunks, size_t mostBytes,
                                     NvcompAnsDecompress, size_t *tempBytes,
                                     size_t mostTotalBytes,
                                     cudaStream_t) = nullptr;
  NvcompStatus (*Decompress)(const void *const *in, const size_t *inBytes,
                             const size_t *room, size_t *rawBytes,
                             size_t chunks, void *temp, size_t tempBytes,
                             void *const *raw, NvcompAnsDecompress,
                             NvcompStatus *statuses, cudaStream_t) = nullptr;
};

/// The process's nvCOMP; fails, with the loader's words, where there is none,
/// it is of another version or it lacks a function.
Result<const NvcompApi *> loadNvcomp();

/// Fails where the version is another one than what stands here.
Status checkNvcompVersion(const NvcompApi &api);

} // namespace dtrt

#endif // DTRT_LIB_CUDA_NVCOMPAPI_H
