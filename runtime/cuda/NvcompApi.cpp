//===- NvcompApi.cpp - Loading nvCOMP -------------------------------------===//

#include "NvcompApi.h"

#include "SharedLibrary.h"

namespace dtrt {

namespace {

Result<NvcompApi> load() {
  // The one that the process or its search path has, else that of the build.
  auto library = loadLibrary("nvCOMP", {"libnvcomp.so.6", DT_NVCOMP_LIBRARY});
  DTRT_RETURN_IF_ERROR(library);
  NvcompApi api;
  const char *missing = nullptr;
  auto find = [&](const char *name, auto &function) {
    findFunction(*library, name, function);
    missing = function ? missing : name;
  };
  find("nvcompGetProperties", api.GetProperties);
  if (api.GetProperties)
    DTRT_RETURN_IF_ERROR(checkNvcompVersion(api));
  find("nvcompBatchedANSCompressGetTempSize", api.CompressTempSize);
  find("nvcompBatchedANSCompressGetMaxOutputChunkSize", api.CompressMaxOutput);
  find("nvcompBatchedANSCompressAsync", api.Compress);
  find("nvcompBatchedANSDecompressGetTempSize", api.DecompressTempSize);
  find("nvcompBatchedANSDecompressAsync", api.Decompress);
  if (missing)
    return makeError(ErrorCode::System, "the nvCOMP that is loaded has no ",
                     missing);
  return api;
}

} // namespace

Status checkNvcompVersion(const NvcompApi &api) {
  NvcompProperties found;
  if (api.GetProperties(&found) != kNvcompSuccess)
    return makeError(ErrorCode::System, "nvCOMP does not say its version");
  if (found.version / 1000 == kNvcompMajor)
    return {};
  return makeError(ErrorCode::System, "nvCOMP ", found.version / 1000, ".",
                   found.version % 1000 / 100, " is loaded, expected ",
                   kNvcompMajor, ".x");
}

Result<const NvcompApi *> loadNvcomp() {
  static const Result<NvcompApi> loaded = load();
  DTRT_RETURN_IF_ERROR(loaded);
  return &*loaded;
}

} // namespace dtrt
