//===- dt-run.cpp - Runs a plan -------------------------------------------===//

#include "dtrt/core/Executor.h"
#include "dtrt/cuda/GpuMemory.h"
#include "dtrt/format/OutputFile.h"
#include "dtrt/nccl/NcclRun.h"
#include "dtrt/report/TerminalProgress.h"
#include "dtrt/verify/VerifyOnce.h"
#include "dtrt/world/LoopbackRun.h"
#include "dtrt/world/WorkerLaunch.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <new>
#include <unistd.h>

namespace {

constexpr const char *kExamples = R"(Examples:
  dt-run --check shrink.dtplan
  dt-opt request.json -o - | dt-run --check --json -
  dt-run --transport=gloo --check shrink.dtplan)";

constexpr const char *kVerifies =
    R"(A plan is verified before anything moves, as dt-plan verify does it, once per
host: ~/.cache/dynatrain/verified, or dynatrain/verified in $XDG_CACHE_HOME,
remembers the digests of plans that were found right. A plan that is wrong ends
with an error, and nothing is moved.

)";

struct Options {
  std::string plan;
  std::string transport = "loopback";
  bool check = false;
  bool direct = false;
  bool json = false;
  bool graph = false;
  bool oneSided = false;
  bool printProgram = false;
  std::optional<uint32_t> rank;
  std::string python;
  std::string store;
  double timeout = 60;
};

int fail(const std::string &message) {
  fprintf(stderr, "error: %s\n", message.c_str());
  return 1;
}

/// Runs all devices in this process and says on a terminal how far it is.
dtrt::Result<dtrt::LoopbackReport> runShown(const dtrt::PlanReader &plan,
                                            dtrt::LoopbackOptions options) {
  dtrt::TerminalProgress progress;
  options.progress = [&](const char *phase, size_t done, size_t total) {
    progress.say(std::string(phase) + " " + std::to_string(done) + " of " +
                 std::to_string(total) + " devices");
  };
  return dtrt::runLoopback(plan, options);
}

void printJson(const dtrt::LoopbackReport &report, double gbps) {
  nlohmann::ordered_json out;
  out["ok"] = report.check.mismatches == 0;
  out["bytes_checked"] = report.check.bytesChecked;
  out["mismatches"] = report.check.mismatches;
  out["seconds"] = report.seconds;
  out["GBps"] = gbps;
  out["staging_peak"] = report.stagingPeak;
  printf("%s\n", out.dump().c_str());
}

void printText(const Options &options, const dtrt::LoopbackReport &report,
               double gbps) {
  printf("moved %llu bytes in %.3f s (%.2f GB/s), staging peak %llu bytes, "
         "device peak %llu bytes\n",
         static_cast<unsigned long long>(report.bytesMoved), report.seconds,
         gbps, static_cast<unsigned long long>(report.stagingPeak),
         static_cast<unsigned long long>(report.devicePeak));
  if (options.check)
    printf("checked %llu bytes: %llu mismatches\n",
           static_cast<unsigned long long>(report.check.bytesChecked),
           static_cast<unsigned long long>(report.check.mismatches));
}

/// Standard input as a file that other processes can open; removed at the end.
class PlanCopy {
public:
  PlanCopy() {
    path += std::string(6, 'X'); // which mkstemp replaces
    int file = mkstemp(path.data());
    char buffer[1 << 16];
    ssize_t count = 0;
    ok = file >= 0;
    while (ok && (count = read(STDIN_FILENO, buffer, sizeof buffer)) > 0)
      ok = write(file, buffer, size_t(count)) == count;
    ok = ok && count == 0;
    if (file >= 0)
      close(file);
  }
  ~PlanCopy() { unlink(path.c_str()); }
  bool ok = false;
  std::string path = "/tmp/dt-run-";
};

/// A plan that is right: opened, and verified once per host.
dtrt::Result<dtrt::PlanReader> openVerified(const std::string &path) {
  auto plan = dtrt::PlanReader::open(path);
  DTRT_RETURN_IF_ERROR(plan);
  DTRT_RETURN_IF_ERROR(dtrt::verifyOnce(*plan));
  return plan;
}

int runProcesses(const Options &options, const std::string &path) {
  auto plan = openVerified(path);
  if (!plan.ok())
    return fail(plan.status().message());
  dtrt::WorkerOptions workers;
  workers.plan = path;
  workers.devices = plan->devices().size();
  workers.python = options.python;
  if (options.check)
    workers.arguments.push_back("--check");
  if (options.json)
    workers.arguments.push_back("--json");
  dtrt::findPython(workers);
  auto code = dtrt::runWorkers(workers);
  return code.ok() ? *code : fail(code.status().message());
}

int finish(const Options &options, const dtrt::LoopbackReport &report);

#ifdef DT_HAS_NCCL
/// The number that a launcher has put into the environment, if one has.
std::optional<size_t> launched(const char *name) {
  const char *text = getenv(name);
  if (!text || !*text)
    return std::nullopt;
  return size_t(strtoul(text, nullptr, 10));
}

int runNcclRank(const Options &options, const dtrt::PlanReader &plan,
                size_t rank) {
  size_t world = launched("WORLD_SIZE").value_or(0);
  if (world != plan.devices().size())
    return fail("the plan has " + std::to_string(plan.devices().size()) +
                " devices, WORLD_SIZE is " + std::to_string(world));
  if (options.store.empty())
    return fail("ranks that a launcher has started need --store=FOLDER, which "
                "all of them see");
  dtrt::NcclRunOptions nccl;
  nccl.check = options.check;
  nccl.rank = rank;
  nccl.localRank = launched("LOCAL_RANK").value_or(rank);
  nccl.store = options.store;
  nccl.timeoutSeconds = options.timeout;
  nccl.graph = options.graph;
  nccl.oneSided = options.oneSided;
  auto report = dtrt::runNcclRank(plan, nccl);
  if (!report.ok())
    return fail(report.status().message());
  return rank == 0 ? finish(options, *report) : 0;
}

int runNccl(const Options &options) {
  auto plan = openVerified(options.plan);
  if (!plan.ok())
    return fail(plan.status().message());
  if (auto rank = launched("RANK"))
    return runNcclRank(options, *plan, *rank);
  if (auto gpus = dtrt::countGpus(); !gpus.ok())
    return fail("--transport=nccl: " + gpus.status().message());
  if (options.plan == "-")
    return fail("--transport=nccl needs a plan file, not standard input");
  std::string folder = "/tmp/dt-run-" + std::string(6, 'X');
  if (!mkdtemp(folder.data()))
    return fail("cannot make a folder in /tmp");
  std::vector<std::string> command = {"/proc/self/exe",
                                      options.plan,
                                      "--transport=nccl",
                                      "--store",
                                      folder,
                                      "--timeout",
                                      std::to_string(options.timeout)};
  if (options.check)
    command.push_back("--check");
  if (options.json)
    command.push_back("--json");
  if (options.graph)
    command.push_back("--graph");
  if (options.oneSided)
    command.push_back("--one-sided");
  auto code = dtrt::launchNcclRanks(command, plan->devices().size());
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return code.ok() ? *code : fail(code.status().message());
}
#else
int runNccl(const Options &) {
  return fail("transport 'nccl' is not built into this dt-run; it has: "
              "loopback, gloo");
}
#endif

/// What the ranks that dt-run starts on this host have in common.
dtrt::TransportCaps capsOf(const Options &options,
                           const dtrt::RankProgram &program) {
  dtrt::TransportCaps caps;
  if (options.transport == "loopback") {
    caps.seesPeerMemory = true;
    return caps;
  }
  caps.overlaps = true;
  caps.unpacksFrom = dtrt::peersOf(program);
  return caps;
}

/// To the letter where the bytes are to be checked.
bool isStaged(const Options &options) {
  return options.check && !options.direct;
}

int printProgram(const Options &options) {
  if (options.transport == "nccl")
    return fail("--print-program shows what runs in the host's memory: "
                "--transport loopback or gloo");
  auto plan = dtrt::PlanReader::open(options.plan);
  if (!plan.ok())
    return fail(plan.status().message());
  for (uint32_t device : plan->devices()) {
    if (options.rank.value_or(device) != device)
      continue;
    auto program = plan->program(device);
    if (!program.ok())
      return fail(program.status().message());
    auto execution =
        dtrt::planExecution(plan->common(), *program, capsOf(options, *program),
                            {!isStaged(options)});
    dtrt::writeExecution(*program, execution, std::cout);
  }
  return 0;
}

int run(const Options &options) {
  if (options.printProgram)
    return printProgram(options);
  if (options.transport == "nccl")
    return runNccl(options);
  if (options.transport == "gloo" && options.plan == "-") {
    PlanCopy copy;
    if (!copy.ok)
      return fail("cannot copy standard input to a file in /tmp");
    return runProcesses(options, copy.path);
  }
  if (options.transport == "gloo")
    return runProcesses(options, options.plan);
  auto plan = openVerified(options.plan);
  if (!plan.ok())
    return fail(plan.status().message());
  dtrt::LoopbackOptions loopback;
  loopback.check = options.check;
  loopback.staged = isStaged(options);
  auto report = runShown(*plan, loopback);
  if (!report.ok())
    return fail(report.status().message());
  return finish(options, *report);
}

int finish(const Options &options, const dtrt::LoopbackReport &report) {
  double gbps =
      report.seconds > 0 ? double(report.bytesMoved) / report.seconds / 1e9 : 0;
  if (options.json)
    printJson(report, gbps);
  else
    printText(options, report, gbps);
  dtrt::Status printed = dtrt::flushStandardOutput();
  if (!printed.ok())
    return fail(printed.message());
  for (const std::string &line : report.check.first)
    fprintf(stderr, "mismatch: %s\n", line.c_str());
  if (report.check.mismatches == 0)
    return 0;
  return fail(std::to_string(report.check.mismatches) +
              " elements differ from what the plan promises");
}

std::string versionText() {
  return std::string("dt-run ") + DT_VERSION + ", plan format " +
         std::to_string(dtrt::kFormatMajor) + "." +
         std::to_string(dtrt::kFormatMinor);
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  CLI::App app{"Runs a plan: every device in this process, or as processes"};
  app.add_option("PLAN", options.plan, "plan file, - for standard input")
      ->required();
  app.add_option("--transport", options.transport, "how devices talk")
      ->check(CLI::IsMember({"loopback", "gloo", "nccl"}))
      ->capture_default_str();
  app.add_flag("--check", options.check,
               "fill the source with known values and compare every byte");
  app.add_flag("--direct", options.direct,
               "with --check: copy from shard to shard as unchecked loopback "
               "runs do, instead of packing and unpacking as the plan says");
  app.add_flag("--json", options.json, "print the result as JSON");
  app.add_flag("--graph", options.graph,
               "with --transport=nccl: launch the transfer as one graph");
  app.add_flag(
      "--one-sided", options.oneSided,
      "with --transport=nccl: write into peers' staging where NCCL and "
      "the plan allow it");
  app.add_flag("--print-program", options.printProgram,
               "print what each device would do over this transport, and run "
               "nothing: which instructions are left out, and which run while "
               "messages are under way");
  app.add_option("--rank", options.rank,
                 "with --print-program: of this device only");
  app.add_option("--python", options.python,
                 "with --transport=gloo: the interpreter that has torch and "
                 "dynatrain");
  app.add_option("--store", options.store,
                 "with --transport=nccl under a launcher: a folder that all "
                 "ranks see, empty at the start");
  app.add_option("--timeout", options.timeout,
                 "with --transport=nccl: seconds that a rank waits for another")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.set_version_flag("--version", versionText());
  app.footer(std::string(kVerifies) + kExamples);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0)
      return app.exit(error);
    return fail(error.what());
  }
  try {
    return run(options);
  } catch (const std::bad_alloc &) {
    return fail("not enough memory");
  }
}
