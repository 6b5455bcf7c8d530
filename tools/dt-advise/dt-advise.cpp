//===- dt-advise.cpp - Which layout next ----------------------------------===//

#include "dt/Advise/Folder.h"
#include "dt/Advise/Report.h"
#include "dt/Advise/Solve.h"
#include "dtrt/format/OutputFile.h"

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <unistd.h>

using namespace dt::advise;

namespace {

constexpr const char *kExamples = R"(Examples:
  dt-advise job.json --lost node:3 -o advice
  dt-advise --solve stages.json)";

struct Options {
  std::string job, problem, folder, profile;
  std::vector<std::string> lost, devices;
  AdviceOptions advice;
  size_t compiled = 3;
  bool noCompile = false;
  bool keepPlans = false;
  bool json = false;
};

int fail(const std::string &message) {
  fprintf(stderr, "error: %s\n", message.c_str());
  return 1;
}

bool readText(const std::string &path, std::string &text, std::string &error) {
  if (path == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
    return true;
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream stream;
  if (!file || !(stream << file.rdbuf())) {
    error = path + ": " + std::strerror(errno ? errno : EISDIR);
    return false;
  }
  text = stream.str();
  return true;
}

bool readNumber(const std::string &text, int64_t &out) {
  if (text.empty() || text.size() > 9 ||
      text.find_first_not_of("0123456789") != std::string::npos)
    return false;
  out = std::stoll(text);
  return true;
}

/// "0-6", "9": ranges and single devices.
bool readDevices(const std::vector<std::string> &parts,
                 std::vector<int64_t> &out, std::string &error) {
  constexpr int64_t kMostDevices = 65536;
  for (const std::string &part : parts) {
    size_t dash = part.find('-');
    int64_t from = 0, to = 0;
    bool isRange = dash != std::string::npos;
    bool isRead = readNumber(part.substr(0, dash), from) &&
                  (!isRange || readNumber(part.substr(dash + 1), to));
    to = isRange ? to : from;
    if (!isRead || from > to || to >= kMostDevices) {
      error = "--devices must have numbers and ranges such as 0-6, not \"" +
              part + "\"";
      return false;
    }
    for (int64_t device = from; device <= to; ++device)
      out.push_back(device);
  }
  return true;
}

/// Rewrites one line of the terminal.
void showProgress(const char *phase, size_t done, size_t total) {
  fprintf(stderr, "\r%-8s %zu of %zu\033[K", phase, done, total);
}

/// Where dt-opt is: beside this tool.
std::string toolsFolder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error)
      .parent_path()
      .string();
}

int finishPrinting() {
  dtrt::Status printed = dtrt::flushStandardOutput();
  return printed.ok() ? 0 : fail(printed.message());
}

int solve(const Options &options) {
  std::string text, error;
  if (!readText(options.problem, text, error))
    return fail(error);
  auto answer = solveText(text, error);
  if (!answer)
    return fail(error);
  std::cout << *answer;
  return finishPrinting();
}

int run(const Options &options) {
  std::string text, error;
  JobChanges changes;
  changes.lost = options.lost;
  if (!readText(options.job, text, error) ||
      !readDevices(options.devices, changes.devices, error) ||
      (!options.profile.empty() &&
       !readText(options.profile, changes.profile, error)))
    return fail(error);
  std::string directory =
      std::filesystem::path(options.job).parent_path().string();
  auto job = readJob(text, directory.empty() ? "." : directory, changes, error);
  if (!job)
    return fail(error);
  bool isTerminal = isatty(STDERR_FILENO);
  Progress progress = isTerminal ? Progress(showProgress) : Progress();
  auto advice = advise(*job, options.advice, progress, error);
  bool isGood = advice.has_value();
  if (isGood && !options.folder.empty()) {
    FolderOptions folder;
    folder.folder = options.folder;
    folder.tools = toolsFolder();
    folder.compiled = options.noCompile ? 0 : options.compiled;
    folder.keepPlans = options.keepPlans;
    isGood = writeFolder(*job, folder, *advice, progress, error);
  }
  if (isTerminal)
    fprintf(stderr, "\r\033[K");
  if (!isGood)
    return fail(error);
  for (const std::string &note : advice->notes)
    fprintf(stderr, "note: %s\n", note.c_str());
  if (options.json)
    std::cout << rowsJson(*job, *advice);
  else
    writeTable(std::cout, *job, *advice);
  return finishPrinting();
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  CLI::App app("Says which layout a training job should change to.");
  app.footer(kExamples);
  app.set_version_flag("--version", std::string("dt-advise ") + DT_VERSION);
  auto *job = app.add_option("JOB", options.job, "job file, or - for stdin");
  auto *problem = app.add_option("--solve", options.problem,
                                 "solve one problem instead: a file, or -");
  job->excludes(problem);
  app.add_option("-o,--output", options.folder,
                 "folder for requests, advice.json and advice.html");
  app.add_option("--lost", options.lost, "a device, or node:N; may be repeated")
      ->take_all();
  app.add_option("--devices", options.devices,
                 "devices that remain, such as 0-63,72")
      ->delimiter(',');
  app.add_option("--profile", options.profile, "what was measured");
  app.add_option("--rows", options.advice.rows, "most rows of the answer")
      ->check(CLI::Range(1, 1000));
  app.add_option("--compile", options.compiled,
                 "rows whose transition is compiled (default 3)")
      ->check(CLI::Range(0, 1000));
  app.add_option("--pack", options.advice.packWithin,
                 "also the fewest devices within this many times the best step")
      ->check(CLI::Range(1.0, 1e6));
  app.add_flag("--no-compile", options.noCompile,
               "count bytes, compile nothing");
  app.add_flag("--plans", options.keepPlans,
               "keep the plans that were compiled");
  app.add_flag("--json", options.json, "print the rows as JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return error.get_exit_code() == 0 ? app.exit(error) : fail(error.what());
  }
  if (!options.problem.empty())
    return solve(options);
  if (options.job.empty())
    return fail("give a job file, or --solve; see --help");
  options.advice.finalists =
      std::max(options.advice.finalists, options.advice.rows);
  return run(options);
}
