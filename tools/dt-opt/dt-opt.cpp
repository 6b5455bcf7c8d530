//===- dt-opt.cpp - The compiler's command line ---------------------------===//
//
// Three uses of one tool: a JSON request becomes a plan file, or a folder of
// them where it is for several; a layout-level module becomes a plan file when
// the output is named *.dtplan or --emit=plan says so, and either keeps of an
// old plan what is right still where --replan names one; anything else is read,
// changed by the passes named and printed, as mlir-opt does, which takes over
// where its own options are used.
//
//===----------------------------------------------------------------------===//

#include "dt/Dialect/Dialect.h"
#include "dt/Passes/CompileSet.h"
#include "dt/Passes/DiagnosticText.h"
#include "dt/Passes/Files.h"
#include "dt/Passes/ImportRequest.h"
#include "dt/Passes/Passes.h"
#include "dt/Passes/Pipelines.h"
#include "dt/Passes/Replan.h"
#include "dt/Passes/Replanner.h"
#include "dt/Passes/Version.h"
#include "dtrt/format/PlanModel.h"
#include "dtrt/report/TerminalProgress.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Support/Timing.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/Threading.h"
#include "llvm/Support/ToolOutputFile.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#ifdef DT_HAS_MIMALLOC
#include <mimalloc.h>
#endif

using namespace mlir;

namespace {

enum class Emit { Auto, Plan, Mlir };

struct Invocation {
  std::string input, output;
  Emit emit = Emit::Auto;
  std::string replan;    // path of the old plan; empty: none
  bool requests = false; // many, a line each, to be replanned from it
  bool chainSet = false;
  bool json = false; // what became of a replan
};

int fail(const llvm::Twine &message) {
  llvm::errs() << "error: " << message << "\n";
  return EXIT_FAILURE;
}

LogicalResult printOnOneLine(Diagnostic &diagnostic) {
  llvm::errs() << dt::lineOf(diagnostic) << "\n";
  return success();
}

/// Prints what is wrong with a module as MLIR does, with its line, but at no
/// great length.
class ModuleDiagnostics : public SourceMgrDiagnosticHandler {
public:
  ModuleDiagnostics(llvm::SourceMgr &sources, MLIRContext *context)
      : SourceMgrDiagnosticHandler(sources, context, llvm::errs()) {
    setHandler([this](Diagnostic &diagnostic) {
      print(diagnostic);
      for (Diagnostic &note : diagnostic.getNotes())
        print(note);
    });
  }

private:
  void print(Diagnostic &part) {
    emitDiagnostic(part.getLocation(), dt::shortText(part), part.getSeverity(),
                   isShort(part.getLocation()));
  }

  /// Whether the line of a location may be shown.
  bool isShort(Location location) {
    constexpr size_t kMostShown = 1000;
    auto place = location->findInstanceOf<FileLineColLoc>();
    const llvm::MemoryBuffer *file =
        place ? getBufferForFile(place.getFilename()) : nullptr;
    if (!file)
      return true;
    llvm::StringRef rest = file->getBuffer();
    for (unsigned line = 1; line < place.getLine() && !rest.empty(); ++line)
      rest = rest.split('\n').second;
    return rest.split('\n').first.size() <= kMostShown;
  }
};

/// Handles diagnostics of requests or of modules.
class Diagnostics {
public:
  Diagnostics(llvm::SourceMgr &sources, bool isJson, MLIRContext *context) {
    if (isJson)
      plain.emplace(context, printOnOneLine);
    else
      withLines.emplace(sources, context);
  }

private:
  std::optional<ScopedDiagnosticHandler> plain;
  std::optional<ModuleDiagnostics> withLines;
};

OwningOpRef<ModuleOp> importOne(const dt::RequestSet &set,
                                const std::string &path, MLIRContext &context) {
  std::string error;
  if (auto request = set.request(0, error))
    return dt::importRequest(*request, path == "-" ? "<stdin>" : path,
                             &context);
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
  if (dt::keepOutput(*file, error))
    return success();
  fail(error);
  return failure();
}

/// Says on a terminal which pass is at work.
class ShowPasses : public PassInstrumentation {
public:
  explicit ShowPasses(dtrt::TerminalProgress &progress) : progress(progress) {}

  void runBeforePass(Pass *pass, Operation *) override {
    if (!pass->getArgument().empty())
      progress.say(pass->getArgument().str());
  }

private:
  dtrt::TerminalProgress &progress;
};

/// Runs the passes; whatever they print, no line of progress is in its way.
LogicalResult runShown(PassManager &passes, ModuleOp module) {
  dtrt::TerminalProgress progress;
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &) {
    progress.hide();
    return failure(); // others print it
  });
  passes.addInstrumentation(std::make_unique<ShowPasses>(progress));
  return passes.run(module);
}

constexpr llvm::StringLiteral kReplansToPlan =
    "--replan makes a plan: neither passes nor IR go with it";

/// Opens the old plan that the command line names; null, with an error, where
/// that cannot be.
std::shared_ptr<dt::Replan> openOld(const std::string &path) {
  auto plan = dtrt::PlanReader::open(path);
  if (plan.ok())
    return std::make_shared<dt::Replan>(
        std::make_shared<dtrt::PlanReader>(std::move(*plan)));
  fail("cannot replan: " + plan.status().message());
  return nullptr;
}

void sayReplanned(const dt::Replan &from, bool json) {
  if (json) {
    llvm::outs() << from.reportJson() << "\n";
    return;
  }
  for (const std::string &line : from.report())
    llvm::errs() << line << "\n";
}

/// Imports, runs the passes named on the command line (or, for a plan, all),
/// and writes IR or the plan. `set` is the request, of which there is none for
/// a module.
int compile(const Invocation &call, std::unique_ptr<llvm::MemoryBuffer> buffer,
            const std::optional<dt::RequestSet> &set,
            const MlirOptMainConfig &config, DialectRegistry &registry) {
  MLIRContext context(registry);
  context.printOpOnDiagnostic(!set); // nobody wrote the op of a request
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  Diagnostics diagnostics(sources, set.has_value(), &context);
  OwningOpRef<ModuleOp> module =
      set ? importOne(*set, call.input, context)
          : parseSourceFile<ModuleOp>(sources, &context);
  if (!module ||
      (config.shouldVerifyRoundtrip() && failed(verifyRoundTrip(*module))))
    return EXIT_FAILURE;
  PassManager passes(&context);
  passes.enableVerifier(config.shouldVerifyPasses());
  if (failed(applyPassManagerCLOptions(passes)))
    return EXIT_FAILURE;
  applyDefaultTimingPassManagerCLOptions(passes);
  if (failed(config.setupPassPipeline(passes)))
    return EXIT_FAILURE;
  bool toPlan =
      call.emit == Emit::Plan || (call.emit == Emit::Auto && passes.empty());
  if (toPlan && call.output == "-" && llvm::outs().is_displayed())
    return fail("a plan is not printed on a terminal: name a file with -o");
  std::shared_ptr<dt::Replan> from;
  if (!call.replan.empty() && !toPlan)
    return fail(kReplansToPlan);
  if (!call.replan.empty() && !(from = openOld(call.replan)))
    return EXIT_FAILURE;
  if (from)
    dt::buildReplanPipeline(passes, from, call.output);
  else if (toPlan)
    dt::buildCompilePipeline(passes, call.output);
  if (failed(runShown(passes, *module)))
    return EXIT_FAILURE;
  if (from)
    sayReplanned(*from, call.json);
  if (!toPlan && failed(printModule(*module, call.output)))
    return EXIT_FAILURE;
  return EXIT_SUCCESS;
}

/// Whether a set can be written as the command line says; else an error.
bool checkSetCall(const Invocation &call, const MlirOptMainConfig &config,
                  MLIRContext &context) {
  PassManager passes(&context);
  if (failed(config.setupPassPipeline(passes)))
    return false;
  const char *problem =
      !call.replan.empty()
          ? "--replan goes with a request for one plan, not for a set"
      : call.emit == Emit::Mlir || !passes.empty()
          ? "a request for a set of plans is compiled as a whole: neither "
            "passes nor IR"
      : call.output == "-"
          ? "a request for a set of plans is written to a folder: name it "
            "with -o"
          : nullptr;
  if (problem)
    fail(problem);
  return !problem;
}

/// Compiles a request for several plans to a folder.
int compileSet(const Invocation &call, const dt::RequestSet &set,
               const MlirOptMainConfig &config, DialectRegistry &registry) {
  bool isParallel = false;
  {
    MLIRContext context(registry);
    if (!checkSetCall(call, config, context))
      return EXIT_FAILURE;
    isParallel = context.isMultithreadingEnabled();
  }
  dt::SetOptions options;
  options.isChained = call.chainSet;
  options.file = call.input == "-" ? "<stdin>" : call.input;
  options.folder = call.output;
  if (isParallel)
    options.threads = llvm::hardware_concurrency().compute_thread_count();
  dtrt::TerminalProgress progress;
  dt::SetOutput output;
  output.say = [&](const std::string &line) {
    progress.hide();
    llvm::errs() << line << "\n";
  };
  output.progress = [&](size_t done, size_t all) {
    progress.say("compiled " + std::to_string(done) + " of " +
                 std::to_string(all) + " plans");
  };
  return succeeded(dt::compileSet(set, options, output)) ? EXIT_SUCCESS
                                                         : EXIT_FAILURE;
}

/// Reads a request, for one plan or for several, and does what is asked.
int runRequest(const Invocation &call,
               std::unique_ptr<llvm::MemoryBuffer> buffer,
               const MlirOptMainConfig &config, DialectRegistry &registry) {
  std::string directory = llvm::sys::path::parent_path(call.input).str();
  std::string error;
  auto set = dt::RequestSet::read(buffer->getBuffer().str(),
                                  directory.empty() ? "." : directory, error);
  if (!set)
    return fail(error);
  if (set->isFamily())
    return compileSet(call, *set, config, registry);
  return compile(call, std::move(buffer), set, config, registry);
}

/// Whether requests can be taken as the command line says; else an error.
bool checkRequestsCall(const Invocation &call, const MlirOptMainConfig &config,
                       MLIRContext &context) {
  PassManager passes(&context);
  if (failed(config.setupPassPipeline(passes)))
    return false;
  const char *problem =
      call.replan.empty() ? "--requests are replanned from a plan: name it "
                            "with --replan"
      : call.input == "-" && call.replan == "-"
          ? "the requests and the old plan are both standard input"
      : call.emit == Emit::Mlir || !passes.empty() ? kReplansToPlan.data()
      : call.chainSet ? "--chain-set is for a request of several plans, and a "
                        "line of --requests asks for one"
      : call.output != "-" ? "each line of --requests names its own output"
                           : nullptr;
  if (problem)
    fail(problem);
  return !problem;
}

std::string tooLongALine() {
  return "the line has more than the limit of " +
         std::to_string(dt::kMaxLineBytes) +
         " bytes: name a file that has the request";
}

/// Has the pages that a request needs before one comes, and keeps those that it
/// frees: to get them costs a fifth of a request's time.
void takeMemoryAhead() {
#ifdef DT_HAS_MIMALLOC
  constexpr size_t kBytes = size_t(512) << 20; // as 1,024 ranks need
#if MI_MALLOC_VERSION < 210
  mi_option_disable(mi_option_allow_decommit);
#else
  mi_option_set(mi_option_purge_delay, /*never=*/-1);
#endif
  constexpr size_t kBlock = size_t(1) << 20;
  std::vector<std::unique_ptr<char[]>> blocks;
  for (size_t bytes = 0; bytes < kBytes; bytes += kBlock)
    blocks.push_back(std::make_unique<char[]>(kBlock)); // zeroed
#endif
}

/// Replans as often as a line asks for it, and answers each with a line.
int answerRequests(const Invocation &call, const MlirOptMainConfig &config,
                   DialectRegistry &registry) {
  auto threading = MLIRContext::Threading::DISABLED;
  {
    MLIRContext context(registry);
    if (!checkRequestsCall(call, config, context))
      return EXIT_FAILURE;
    if (context.isMultithreadingEnabled())
      threading = MLIRContext::Threading::ENABLED;
  }
  std::string error, line;
  auto lines = dt::InputLines::open(call.input, error);
  if (!lines)
    return fail(error);
  auto replanner = dt::Replanner::open(call.replan, threading);
  if (!replanner.ok())
    return fail("cannot replan: " + replanner.status().message());
  takeMemoryAhead();
  auto say = [](llvm::StringRef text) {
    llvm::outs() << text << "\n";
    llvm::outs().flush();
    return !llvm::outs().has_error(); // else the process's end says it
  };
  bool hasFailed = !say(replanner->greeting());
  using Got = dt::InputLines::Got;
  for (Got got;
       (got = lines->next(dt::kMaxLineBytes, line, error)) != Got::End;) {
    if (got == Got::Failure)
      return fail(error);
    if (got == Got::Line && llvm::StringRef(line).trim().empty())
      continue;
    dt::Replanner::Answer answer = got == Got::Line
                                       ? replanner->answer(line)
                                       : replanner->refuse(tooLongALine());
    hasFailed |= answer.isError;
    if (!say(answer.line))
      return EXIT_FAILURE;
  }
  return hasFailed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/// By its name, or by its first character: no module starts with either.
bool readsAsJson(llvm::StringRef path, llvm::StringRef text) {
  text = text.ltrim();
  return path.ends_with(".json") || text.starts_with("{") ||
         text.starts_with("[");
}

/// Whether a module is only to be read, changed and printed.
bool isPlain(const MlirOptMainConfig &config) {
  return config.inputSplitMarker().empty() && config.getIrdlFile().empty() &&
         config.getReproducerFilename().empty() &&
         config.shouldVerifyOnParsing() && !config.shouldVerifyDiagnostics() &&
         !config.shouldAllowUnregisteredDialects() &&
         !config.shouldDumpPassPipeline() && !config.shouldEmitBytecode() &&
         !config.shouldEmitRemarks() && !config.shouldListPasses() &&
         !config.shouldRunReproducer() && !config.shouldShowDialects() &&
         !config.shouldUseExplicitModule();
}

int run(const Invocation &call, DialectRegistry &registry) {
  MlirOptMainConfig config = MlirOptMainConfig::createFromCLOptions();
  std::string error;
  if (call.requests)
    return answerRequests(call, config, registry);
  if (call.input == "-" && call.replan == "-")
    return fail("the request and the old plan are both standard input");
  if (call.json && call.replan.empty())
    return fail("--json says what became of --replan, and goes with it");
  if (call.json && call.output == "-")
    return fail("the plan and what --json prints are both standard output: "
                "name a file with -o");
  auto buffer = dt::readInput(call.input, error);
  if (!buffer)
    return fail(error);
  bool isJson = readsAsJson(call.input, buffer->getBuffer());
  if (!isJson)
    error = dt::problemOfNesting(buffer->getBuffer());
  if (!error.empty())
    return fail(llvm::Twine(call.input) + ": " + error);
  bool namesPlan = llvm::StringRef(call.output).ends_with(".dtplan");
  if (isJson)
    return runRequest(call, std::move(buffer), config, registry);
  if (call.emit == Emit::Plan || (call.emit == Emit::Auto && namesPlan))
    return compile(call, std::move(buffer), std::nullopt, config, registry);
  if (!call.replan.empty())
    return fail(kReplansToPlan);
  if (isPlain(config))
    return compile({call.input, call.output, Emit::Mlir, /*replan=*/"",
                    /*requests=*/false, /*chainSet=*/false, /*json=*/false},
                   std::move(buffer), std::nullopt, config, registry);
  auto file = openOutputFile(call.output, &error);
  if (!file)
    return fail(error);
  if (failed(MlirOptMain(file->os(), std::move(buffer), registry, config)))
    return EXIT_FAILURE;
  return dt::keepOutput(*file, error) ? EXIT_SUCCESS : fail(error);
}

/// What is left for stdout may not fit where it goes.
void checkStdout() {
  llvm::outs().flush();
  if (!llvm::outs().has_error())
    return;
  fail("cannot write standard output: " + llvm::outs().error().message());
  llvm::outs().clear_error();
  _Exit(EXIT_FAILURE);
}

/// What --help shows besides passes and --emit. The rest, of MLIR and of LLVM's
/// code generators, stays with --help-hidden.
constexpr llvm::StringLiteral kShownOptions[] = {
    "emit",
    "help",
    "help-hidden",
    "json",
    "mlir-disable-threading",
    "mlir-print-ir-after-all",
    "mlir-timing",
    "o",
    "pass-pipeline",
    "chain-set",
    "replan",
    "requests",
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

/// Memory that the solver frees is what it asks for next: to hand it back and
/// forth costs up to half of a small plan's time, in page faults.
static void keepFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 16 << 20);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
#endif
#ifdef DT_HAS_MIMALLOC
  constexpr long kKept = 60'000; // milliseconds
#if MI_MALLOC_VERSION < 210
  mi_option_set(mi_option_decommit_delay, kKept);
  mi_option_set(mi_option_segment_decommit_delay, kKept);
#else
  mi_option_set(mi_option_purge_delay, kKept);
#endif
  // Addresses alone: what is not written takes no memory. From there large
  // blocks come too, which would be handed back as soon as they are free, and
  // all in small pages: where a host takes back what its guests have freed,
  // large ones take several times as long to come. Without it, other memory
  // does.
  constexpr size_t kAddresses = size_t(4) << 30;
  (void)mi_reserve_os_memory(kAddresses, /*commit=*/true,
                             /*allow_large=*/false);
#endif
}

int main(int argc, char **argv) {
  keepFreedMemory();
  llvm::outs(); // is there when the check runs
  std::atexit(checkStdout);
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
  static llvm::cl::opt<std::string> replan(
      "replan", llvm::cl::value_desc("old plan"),
      llvm::cl::desc("keep of this plan file what is right still, change the "
                     "rest; says how far the result is from a new plan"));
  static llvm::cl::opt<bool> requests(
      "requests",
      llvm::cl::desc(
          "read and verify the plan of --replan, then take lines "
          "{\"request\": path or object, \"output\": path} and answer "
          "each with a line of JSON"));
  static llvm::cl::opt<bool> chainSet(
      "chain-set",
      llvm::cl::desc("of a request for several plans, make each from the one "
                     "before it where few devices differ"));
  static llvm::cl::opt<bool> json(
      "json", llvm::cl::desc("print as JSON what --replan says"));
  static llvm::cl::extrahelp examples(
      "\nExamples:\n"
      "  dt-opt request.json -o shrink.dtplan\n"
      "  dt-opt request.json --dt-group-families --dt-route\n"
      "  dt-opt --replan shrink.dtplan changed.json -o again.dtplan\n"
      "  dt-opt --replan shrink.dtplan --requests < lines.jsonl\n");
  DialectRegistry registry;
  registry.insert<dt::DTDialect>();
  dt::registerDtPasses();
  dt::registerPipelines();
  std::string overview =
      registerCLIOptions("DynaTrain transition compiler", registry);
  hideOtherOptions();
  auto [input, output] = parseCLIOptions(argc, argv, overview);
  return run({input, output, emit, replan, requests, chainSet, json}, registry);
}
