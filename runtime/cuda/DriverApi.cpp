//===- DriverApi.cpp - Loading the CUDA driver ----------------------------===//

#include "DriverApi.h"

#include "SharedLibrary.h"

namespace dtrt {

namespace {

Result<DriverApi> loadApi() {
  auto library = loadLibrary("the CUDA driver", {"libcuda.so.1"});
  DTRT_RETURN_IF_ERROR(library);
  DriverApi api;
  const char *missing = nullptr;
#define DTRT_DRIVER_LOOKUP(name)                                               \
  findFunction(*library, "cu" #name, api.name);                                \
  missing = api.name ? missing : "cu" #name;
  DTRT_DRIVER_FUNCTIONS(DTRT_DRIVER_LOOKUP)
#undef DTRT_DRIVER_LOOKUP
  if (missing)
    return makeError(ErrorCode::System,
                     "the CUDA driver that is loaded has no ", missing,
                     ", expected that of CUDA 10.2 or newer");
  return api;
}

} // namespace

Status DriverApi::status(CUresult code, const char *what) const {
  if (code == CUDA_SUCCESS)
    return {};
  const char *text = nullptr;
  if (GetErrorString(code, &text) != CUDA_SUCCESS || !text)
    text = "an error without words";
  return makeError(code == CUDA_ERROR_OUT_OF_MEMORY ? ErrorCode::OutOfMemory
                                                    : ErrorCode::System,
                   what, ": ", text, " (", int(code), ")");
}

Result<const DriverApi *> loadDriver() {
  static const Result<DriverApi> loaded = loadApi();
  DTRT_RETURN_IF_ERROR(loaded);
  return &*loaded;
}

} // namespace dtrt
