//===- NcclApi.cpp - Loading NCCL -----------------------------------------===//

#include "NcclApi.h"

#include <dlfcn.h>

namespace dtrt {

namespace {

/// The one that the process or its search path has, else that of the build.
void *openLibrary(std::string &why) {
  for (const char *name : {"libnccl.so.2", DT_NCCL_LIBRARY}) {
    void *library = *name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (library)
      return library;
    if (const char *text = *name ? dlerror() : nullptr)
      why = text;
  }
  return nullptr;
}

template <typename Function>
void find(void *library, const char *name, Function &function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

Result<NcclApi> load() {
  std::string why;
  void *library = openLibrary(why);
  if (!library)
    return makeError(ErrorCode::System, "cannot load NCCL: ", why);
  NcclApi api;
  const char *missing = nullptr;
#define DTRT_NCCL_LOOKUP(name)                                                 \
  find(library, "nccl" #name, api.name);                                       \
  missing = api.name ? missing : "nccl" #name;
  DTRT_NCCL_FUNCTIONS(DTRT_NCCL_LOOKUP)
#undef DTRT_NCCL_LOOKUP
  if (missing)
    return makeError(ErrorCode::System, "the NCCL that is loaded has no ",
                     missing, ", expected 2.19 or newer");
  find(library, "ncclCommWindowRegister", api.CommWindowRegister);
  find(library, "ncclCommWindowDeregister", api.CommWindowDeregister);
  find(library, "ncclPutSignal", api.PutSignal);
  find(library, "ncclSignal", api.Signal);
  find(library, "ncclWaitSignal", api.WaitSignal);
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
