//===- DriverApi.h - The driver calls of the pool of pages ------*- C++ -*-===//
//
// The CUDA driver is loaded when it is first used, as NCCL is: what links this
// starts without it. Tests put functions of their own into the table.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_CUDA_DRIVERAPI_H
#define DTRT_LIB_CUDA_DRIVERAPI_H

#include "dtrt/types/Status.h"

#include <cuda.h>

namespace dtrt {

/// Functions of the driver without their prefix.
#define DTRT_DRIVER_FUNCTIONS(apply)                                           \
  apply(GetErrorString) apply(MemGetAllocationGranularity)                     \
      apply(MemAddressReserve) apply(MemAddressFree) apply(MemCreate)          \
          apply(MemRelease) apply(MemMap) apply(MemUnmap) apply(MemSetAccess)

struct DriverApi {
#define DTRT_DRIVER_POINTER(name) decltype(&::cu##name) name = nullptr;
  DTRT_DRIVER_FUNCTIONS(DTRT_DRIVER_POINTER)
#undef DTRT_DRIVER_POINTER

  /// With the driver's words for the code.
  Status status(CUresult code, const char *what) const;
};

/// The process's driver; fails, with the loader's words, where there is none or
/// it lacks a function.
Result<const DriverApi *> loadDriver();

} // namespace dtrt

#endif // DTRT_LIB_CUDA_DRIVERAPI_H
