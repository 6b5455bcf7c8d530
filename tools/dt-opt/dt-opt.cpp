//===- dt-opt.cpp - The compiler's command line ---------------------------===//
//
// Three uses of one tool: a JSON request becomes a plan file; a layout-level
// module does when the output is named *.dtplan or --emit=plan says so;
// anything else behaves as mlir-opt does.
//
//===----------------------------------------------------------------------===//

#include "dt/Dialect/Dialect.h"
#include "dt/Passes/ImportRequest.h"
#include "dt/Passes/Passes.h"
#include "dt/Passes/Pipelines.h"
#include "dt/Passes/Version.h"
#include "dtrt/PlanModel.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Support/Timing.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;

namespace {

enum class Emit { Auto, Plan, Mlir };

struct Invocation {
  std::string input, output;
  Emit emit = Emit::Auto;
};

int fail(const llvm::Twine &message) {
  llvm::errs() << "error: " << message << "\n";
  return EXIT_FAILURE;
}

/// Requests have no source lines to point at: one line per error, and what is
/// known besides in notes.
LogicalResult printPlainly(Diagnostic &diagnostic) {
  std::string text = diagnostic.str();
  llvm::StringRef message = text;
  if (message.starts_with("'dt."))
    message = message.split("' op ").second;
  bool warns = diagnostic.getSeverity() == DiagnosticSeverity::Warning;
  llvm::errs() << (warns ? "warning: " : "error: ") << message << "\n";
  for (Diagnostic &note : diagnostic.getNotes())
    if (!isa<UnknownLoc>(note.getLocation()))
      llvm::errs() << "note: " << note.str() << "\n";
  return success();
}

/// MLIR itself prints errors only.
LogicalResult printWarning(Diagnostic &diagnostic) {
  if (diagnostic.getSeverity() != DiagnosticSeverity::Warning)
    return failure();
  llvm::errs() << diagnostic.getLocation() << ": warning: " << diagnostic.str()
               << "\n";
  return success();
}

OwningOpRef<ModuleOp> readModule(const llvm::MemoryBuffer &buffer, bool isJson,
                                 const std::string &path,
                                 MLIRContext &context) {
  if (!isJson)
    return parseSourceString<ModuleOp>(buffer.getBuffer(), &context, path);
  std::string directory = llvm::sys::path::parent_path(path).str();
  std::string error;
  auto request = dt::readRequest(buffer.getBuffer().str(),
                                 directory.empty() ? "." : directory, error);
  if (request)
    return dt::importRequest(*request, &context);
  fail(error);
  return nullptr;
}

/// What --verify-roundtrip asks for: the module prints as it parses.
LogicalResult verifyRoundTrip(ModuleOp module) {
  auto print = [](ModuleOp op) {
    std::string text;
    llvm::raw_string_ostream(text) << op;
    return text;
  };
  std::string text = print(module);
  auto again = parseSourceString<ModuleOp>(text, module.getContext());
  if (again && print(*again) == text)
    return success();
  fail("the module does not print as it parses");
  return failure();
}

LogicalResult printModule(ModuleOp module, const std::string &path) {
  std::string error;
  auto file = openOutputFile(path, &error);
  if (!file) {
    fail(error);
    return failure();
  }
  module.print(file->os());
  file->os() << "\n";
  file->keep();
  return success();
}

/// Imports, runs the passes named on the command line (or, for a plan, all),
/// and writes IR or the plan.
int compile(const Invocation &call, const llvm::MemoryBuffer &buffer,
            bool isJson, const MlirOptMainConfig &config,
            DialectRegistry &registry) {
  MLIRContext context(registry);
  ScopedDiagnosticHandler handler(&context,
                                  isJson ? printPlainly : printWarning);
  OwningOpRef<ModuleOp> module =
      readModule(buffer, isJson, call.input, context);
  if (!module ||
      (config.shouldVerifyRoundtrip() && failed(verifyRoundTrip(*module))))
    return EXIT_FAILURE;
  PassManager passes(&context);
  if (failed(applyPassManagerCLOptions(passes)))
    return EXIT_FAILURE;
  applyDefaultTimingPassManagerCLOptions(passes);
  if (failed(config.setupPassPipeline(passes)))
    return EXIT_FAILURE;
  bool toPlan =
      call.emit == Emit::Plan || (call.emit == Emit::Auto && passes.empty());
  if (toPlan && call.output == "-" && llvm::outs().is_displayed())
    return fail("a plan is not printed on a terminal: name a file with -o");
  if (toPlan)
    dt::buildCompilePipeline(passes, call.output);
  if (failed(passes.run(*module)))
    return EXIT_FAILURE;
  if (!toPlan && failed(printModule(*module, call.output)))
    return EXIT_FAILURE;
  return EXIT_SUCCESS;
}

/// By its name, or by its first character: no module starts with either.
bool readsAsJson(llvm::StringRef path, llvm::StringRef text) {
  text = text.ltrim();
  return path.ends_with(".json") || text.starts_with("{") ||
         text.starts_with("[");
}

int run(const Invocation &call, DialectRegistry &registry) {
  MlirOptMainConfig config = MlirOptMainConfig::createFromCLOptions();
  std::string error;
  auto buffer = openInputFile(call.input, &error);
  if (!buffer)
    return fail(error);
  bool isJson = readsAsJson(call.input, buffer->getBuffer());
  bool namesPlan = llvm::StringRef(call.output).ends_with(".dtplan");
  if (isJson || call.emit == Emit::Plan ||
      (call.emit == Emit::Auto && namesPlan))
    return compile(call, *buffer, isJson, config, registry);
  auto file = openOutputFile(call.output, &error);
  if (!file)
    return fail(error);
  if (failed(MlirOptMain(file->os(), std::move(buffer), registry, config)))
    return EXIT_FAILURE;
  file->keep();
  return EXIT_SUCCESS;
}

/// What --help shows besides passes and --emit. The rest, of MLIR and of LLVM's
/// code generators, stays with --help-hidden.
constexpr llvm::StringLiteral kShownOptions[] = {
    "emit",
    "help",
    "help-hidden",
    "mlir-disable-threading",
    "mlir-print-ir-after-all",
    "mlir-timing",
    "o",
    "pass-pipeline",
    "split-input-file",
    "verify-diagnostics",
    "verify-roundtrip",
    "version",
};

void hideOtherOptions() {
  for (auto &entry : llvm::cl::getRegisteredOptions())
    if (!entry.first.starts_with("dt-") &&
        !llvm::is_contained(kShownOptions, entry.first))
      entry.second->setHiddenFlag(llvm::cl::Hidden);
}

} // namespace

int main(int argc, char **argv) {
  llvm::cl::SetVersionPrinter([](llvm::raw_ostream &out) {
    out << dt::kVersion << ", plan format " << dtrt::kFormatMajor << "."
        << dtrt::kFormatMinor << "\n";
  });
  static llvm::cl::opt<Emit> emit(
      "emit", llvm::cl::desc("what to write"), llvm::cl::init(Emit::Auto),
      llvm::cl::values(
          clEnumValN(Emit::Auto, "auto",
                     "a plan for a request without passes, else IR"),
          clEnumValN(Emit::Plan, "plan", "a plan file"),
          clEnumValN(Emit::Mlir, "mlir", "IR")));
  static llvm::cl::extrahelp examples(
      "\nExamples:\n"
      "  dt-opt request.json -o shrink.dtplan\n"
      "  dt-opt request.json --dt-group-families --dt-route\n");
  DialectRegistry registry;
  registry.insert<dt::DTDialect>();
  dt::registerDtPasses();
  dt::registerPipelines();
  std::string overview =
      registerCLIOptions("DynaTrain transition compiler", registry);
  hideOtherOptions();
  auto [input, output] = parseCLIOptions(argc, argv, overview);
  return run({input, output, emit}, registry);
}
