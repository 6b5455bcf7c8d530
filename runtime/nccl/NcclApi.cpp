//===- NcclApi.cpp - Loading NCCL -----------------------------------------===//

#include "NcclApi.h"

#include "SharedLibrary.h"

namespace dtrt {

namespace {

Result<NcclApi> load() {
  // The one that the process or its search path has, else that of the build.
  auto library = loadLibrary("NCCL", {"libnccl.so.2", DT_NCCL_LIBRARY});
  DTRT_RETURN_IF_ERROR(library);
  NcclApi api;
  const char *missing = nullptr;
#define DTRT_NCCL_LOOKUP(name)                                                 \
  findFunction(*library, "nccl" #name, api.name);                              \
  missing = api.name ? missing : "nccl" #name;
  DTRT_NCCL_FUNCTIONS(DTRT_NCCL_LOOKUP)
#undef DTRT_NCCL_LOOKUP
  if (missing)
    return makeError(ErrorCode::System, "the NCCL that is loaded has no ",
                     missing, ", expected 2.19 or newer");
  findFunction(*library, "ncclAlltoAll", api.AlltoAll);
  findFunction(*library, "ncclCommWindowRegister", api.CommWindowRegister);
  findFunction(*library, "ncclCommWindowDeregister", api.CommWindowDeregister);
  findFunction(*library, "ncclPutSignal", api.PutSignal);
  findFunction(*library, "ncclSignal", api.Signal);
  findFunction(*library, "ncclWaitSignal", api.WaitSignal);
  return api;
}

} // namespace

int NcclApi::version() const {
  int code = 0;
  return GetVersion(&code) == ncclSuccess ? code : 0;
}

Result<const NcclApi *> loadNccl() {
  static const Result<NcclApi> loaded = load();
  DTRT_RETURN_IF_ERROR(loaded);
  return &*loaded;
}

} // namespace dtrt
