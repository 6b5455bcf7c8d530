//===- module.cpp - Modules that are no modules ---------------------------===//
//
// Whatever the text, it parses and verifies or is refused; what is accepted
// prints as text that parses again, and compiles or is refused.
//
//===----------------------------------------------------------------------===//

#include "CompileModule.h"
#include "CpuLimit.h"
#include "dt/Passes/Files.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdio>
#include <cstdlib>

using namespace mlir;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  dtrt::fuzz::CpuLimit limit;
  std::string text(reinterpret_cast<const char *>(data), size);
  // Other dialects are MLIR's own, and their parsers not for us to mend.
  if (!dt::problemOfNesting(text).empty() ||
      text.find("dt.") == std::string::npos)
    return 0;
  MLIRContext &context = dt::fuzz::context();
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return 0;
  if (!dt::fuzz::isSmall(*module))
    return 0;
  std::string printed;
  llvm::raw_string_ostream stream(printed);
  module->print(stream);
  if (!parseSourceString<ModuleOp>(printed, &context)) {
    std::fprintf(stderr, "module: does not parse as printed: %s\n",
                 printed.c_str());
    std::abort();
  }
  dt::fuzz::compile(*module);
  return 0;
}
