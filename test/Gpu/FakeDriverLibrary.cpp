//===- FakeDriverLibrary.cpp - The stand-in as a libcuda.so.1 -------------===//
//
// For programs that load the driver by its name: its calls, which the program
// itself has (FakeDriver.cpp).
//
//===----------------------------------------------------------------------===//

#include "FakeDriver.h"

using dtrt::test::fakeDriver;

#define FORWARD(name, parameters, arguments)                                   \
  CUresult cu##name parameters { return fakeDriver().name arguments; }

extern "C" {
FORWARD(GetErrorString, (CUresult code, const char **text), (code, text))
FORWARD(MemGetAllocationGranularity,
        (size_t *bytes, const CUmemAllocationProp *kind,
         CUmemAllocationGranularity_flags which),
        (bytes, kind, which))
FORWARD(MemAddressReserve,
        (CUdeviceptr * made, size_t bytes, size_t alignment, CUdeviceptr at,
         unsigned long long flags),
        (made, bytes, alignment, at, flags))
FORWARD(MemAddressFree, (CUdeviceptr at, size_t bytes), (at, bytes))
FORWARD(MemCreate,
        (CUmemGenericAllocationHandle * made, size_t bytes,
         const CUmemAllocationProp *kind, unsigned long long flags),
        (made, bytes, kind, flags))
FORWARD(MemRelease, (CUmemGenericAllocationHandle handle), (handle))
FORWARD(MemMap,
        (CUdeviceptr at, size_t bytes, size_t offset,
         CUmemGenericAllocationHandle handle, unsigned long long flags),
        (at, bytes, offset, handle, flags))
FORWARD(MemUnmap, (CUdeviceptr at, size_t bytes), (at, bytes))
FORWARD(MemSetAccess,
        (CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access,
         size_t count),
        (at, bytes, access, count))
}
