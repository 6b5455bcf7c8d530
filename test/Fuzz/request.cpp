//===- request.cpp - Requests that are no requests ------------------------===//
//
// Whatever the text, the reader ends with requests, one or several, or with one
// line that says why not; what it has read becomes modules that verify; and
// these compile or are refused.
//
//===----------------------------------------------------------------------===//

#include "CompileModule.h"
#include "CpuLimit.h"
#include "dt/Passes/ImportRequest.h"
#include "dt/Request/RequestSet.h"

#include "mlir/IR/Verifier.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace {

void require(bool holds, const char *what, const std::string &text) {
  if (holds)
    return;
  std::fprintf(stderr, "request: %s: %s\n", what, text.c_str());
  std::abort();
}

void requireOneLine(const std::string &error) {
  require(!error.empty() && error.find('\n') == error.npos &&
              error.size() < 1500,
          "no one line says what is wrong", error);
}

void compile(const dt::Request &request, const std::string &text) {
  mlir::MLIRContext &context = dt::fuzz::context();
  auto module = dt::importRequest(request, "request.json", &context);
  require(mlir::succeeded(mlir::verify(*module)),
          "what was read is no right module", text);
  if (dt::fuzz::isSmall(*module))
    dt::fuzz::compile(*module);
}

/// Of a set. One text may ask for thousands.
constexpr size_t kMostPlans = 4;

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  dtrt::fuzz::CpuLimit limit;
  std::string text(reinterpret_cast<const char *>(data), size), error;
  // No folder: model files are not for inputs to choose.
  auto set = dt::RequestSet::read(text, "/nonexistent", error);
  if (!set)
    requireOneLine(error);
  for (size_t i = 0; set && i < std::min(set->size(), kMostPlans); ++i) {
    if (auto request = set->request(i, error))
      compile(*request, text);
    else
      requireOneLine(error);
  }
  return 0;
}
