//===- dt-run.cpp - Runs a plan -------------------------------------------===//

#include "dtrt/LoopbackRun.h"
#include "dtrt/WorkerLaunch.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <mutex>
#include <unistd.h>

namespace {

constexpr const char *kExamples = R"(Examples:
  dt-run --check shrink.dtplan
  dt-opt request.json -o - | dt-run --check --json -
  dt-run --transport=gloo --check shrink.dtplan)";

struct Options {
  std::string plan;
  std::string transport = "loopback";
  bool check = false;
  bool direct = false;
  bool json = false;
  std::string python;
};

int fail(const std::string &message) {
  fprintf(stderr, "error: %s\n", message.c_str());
  return 1;
}

/// Rewrites one line of the terminal.
void showProgress(const char *phase, size_t done, size_t total) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  fprintf(stderr, "\r%-10s %zu of %zu devices\033[K", phase, done, total);
}

void printJson(const Options &options, const dtrt::LoopbackReport &report,
               double gbps) {
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

int runProcesses(const Options &options, const std::string &path) {
  auto plan = dtrt::PlanReader::open(path);
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

int run(const Options &options) {
  if (options.transport == "nccl")
    return fail("transport 'nccl' is not built into this dt-run; it has: "
                "loopback, gloo");
  if (options.transport == "gloo" && options.plan == "-") {
    PlanCopy copy;
    if (!copy.ok)
      return fail("cannot copy standard input to a file in /tmp");
    return runProcesses(options, copy.path);
  }
  if (options.transport == "gloo")
    return runProcesses(options, options.plan);
  auto plan = dtrt::PlanReader::open(options.plan);
  if (!plan.ok())
    return fail(plan.status().message());
  dtrt::LoopbackOptions loopback;
  loopback.check = options.check;
  loopback.staged = options.check && !options.direct;
  bool terminal = isatty(STDERR_FILENO);
  if (terminal)
    loopback.progress = showProgress;
  auto report = dtrt::runLoopback(*plan, loopback);
  if (terminal)
    fprintf(stderr, "\r\033[K");
  if (!report.ok())
    return fail(report.status().message());
  double gbps = report->seconds > 0
                    ? double(report->bytesMoved) / report->seconds / 1e9
                    : 0;
  if (options.json)
    printJson(options, *report, gbps);
  else
    printText(options, *report, gbps);
  for (const std::string &line : report->check.first)
    fprintf(stderr, "mismatch: %s\n", line.c_str());
  if (report->check.mismatches == 0)
    return 0;
  return fail(std::to_string(report->check.mismatches) +
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
  app.add_option("--python", options.python,
                 "with --transport=gloo: the interpreter that has torch and "
                 "dynatrain");
  app.set_version_flag("--version", versionText());
  app.footer(kExamples);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0)
      return app.exit(error);
    return fail(error.what());
  }
  return run(options);
}
