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

void setCudaCalls(NcclApi &api) {
  api.makeStream = [](cudaStream_t *stream) {
    return cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking);
  };
  api.queryStream = [](cudaStream_t stream) { return cudaStreamQuery(stream); };
  api.freeStream = [](cudaStream_t stream) {
    return cudaStreamDestroy(stream);
  };
  api.allocate = [](void **at, size_t bytes) { return cudaMalloc(at, bytes); };
  api.free = [](void *at) { return cudaFree(at); };
}

Result<NcclApi> load() {
  std::string why;
  void *library = openLibrary(why);
  if (!library)
    return makeError(ErrorCode::System, "cannot load NCCL: ", why);
  NcclApi api;
  const char *missing = nullptr;
#define DTRT_NCCL_LOOKUP(name)                                                 \
  api.name =                                                                   \
      reinterpret_cast<decltype(api.name)>(dlsym(library, "nccl" #name));      \
  missing = api.name ? missing : "nccl" #name;
  DTRT_NCCL_FUNCTIONS(DTRT_NCCL_LOOKUP)
#undef DTRT_NCCL_LOOKUP
  if (missing)
    return makeError(ErrorCode::System, "the NCCL that is loaded has no ",
                     missing, ", expected 2.19 or newer");
  setCudaCalls(api);
  return api;
}

} // namespace

Result<const NcclApi *> loadNccl() {
  static const Result<NcclApi> loaded = load();
  DTRT_RETURN_IF_ERROR(loaded);
  return &*loaded;
}

} // namespace dtrt
