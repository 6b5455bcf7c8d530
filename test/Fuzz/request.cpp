//===- request.cpp - Requests that are no requests ------------------------===//
//
// Whatever the text, the reader ends with a request or with one line that says
// why not; what it has read becomes a module that verifies; and that compiles
// or is refused.
//
//===----------------------------------------------------------------------===//

#include "CompileModule.h"
#include "CpuLimit.h"
#include "dt/Passes/ImportRequest.h"

#include "mlir/IR/Verifier.h"

#include <cstdio>
#include <cstdlib>

namespace {

void require(bool holds, const char *what, const std::string &text) {
  if (holds)
    return;
  std::fprintf(stderr, "request: %s: %s\n", what, text.c_str());
  std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  dtrt::fuzz::CpuLimit limit;
  std::string text(reinterpret_cast<const char *>(data), size), error;
  // No folder: model files are not for inputs to choose.
  auto request = dt::readRequest(text, "/nonexistent", error);
  if (!request) {
    require(!error.empty() && error.find('\n') == error.npos &&
                error.size() < 1500,
            "no one line says what is wrong", error);
    return 0;
  }
  mlir::MLIRContext &context = dt::fuzz::context();
  auto module = dt::importRequest(*request, "request.json", &context);
  require(mlir::succeeded(mlir::verify(*module)),
          "what was read is no right module", text);
  if (dt::fuzz::isSmall(*module))
    dt::fuzz::compile(*module);
  return 0;
}
