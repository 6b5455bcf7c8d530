//===- WorkerLaunch.cpp - A plan as real processes ------------------------===//

#include "dtrt/world/WorkerLaunch.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sys/wait.h>
#include <unistd.h>

namespace dtrt {

namespace {

namespace fs = std::filesystem;

/// Exit codes of the child, beside those of the program that it becomes.
constexpr int kNoTorch = 3;
constexpr int kNoPackage = 4;
constexpr int kNotFound = 127; // as in a shell

constexpr const char *kProbe =
    "import importlib.util as u, sys\n"
    "sys.exit(3 if u.find_spec('torch') is None else\n"
    "         4 if u.find_spec('dynatrain') is None else 0)";

/// The child that runs now, for signals to be passed on to.
std::atomic<pid_t> currentChild{0};

extern "C" void passOn(int signal) {
  if (pid_t child = currentChild)
    kill(child, signal);
}

void setDefault(const char *name, const std::string &value) {
  setenv(name, value.c_str(), /*overwrite=*/0);
}

void setEnvironment(const WorkerOptions &options) {
  // What torch's launcher would choose, with a page of words.
  setDefault("OMP_NUM_THREADS", "1");
  if (options.packages.empty())
    return;
  const char *before = getenv("PYTHONPATH");
  std::string path = options.packages;
  if (before && *before)
    path += ":" + std::string(before);
  setenv("PYTHONPATH", path.c_str(), 1);
}

/// Runs a program to its end.
Result<int> runProgram(const std::vector<std::string> &words) {
  std::vector<char *> argv;
  for (const std::string &word : words)
    argv.push_back(const_cast<char *>(word.c_str()));
  argv.push_back(nullptr);
  pid_t child = fork();
  if (child < 0)
    return makeError(ErrorCode::System,
                     "cannot start a process: ", strerror(errno));
  if (child == 0) {
    execvp(argv[0], argv.data());
    _exit(kNotFound);
  }
  currentChild = child;
  auto before = signal(SIGTERM, passOn);
  auto beforeInterrupt = signal(SIGINT, passOn);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  currentChild = 0;
  signal(SIGTERM, before);
  signal(SIGINT, beforeInterrupt);
  if (WIFSIGNALED(status))
    return makeError(ErrorCode::System, "the run was ended by signal ",
                     WTERMSIG(status));
  return WEXITSTATUS(status);
}

Status probe(const std::string &python) {
  auto code = runProgram({python, "-c", kProbe});
  DTRT_RETURN_IF_ERROR(code);
  switch (*code) {
  case 0:
    return {};
  case kNoTorch:
    return makeError(ErrorCode::System, "'", python,
                     "' has no torch, which this transport needs: "
                     "install it, or name another with --python");
  case kNoPackage:
    return makeError(ErrorCode::System, "'", python,
                     "' has no package dynatrain: run `pip "
                     "install .` in the checkout, or name another with "
                     "--python");
  case kNotFound:
    return makeError(ErrorCode::System, "cannot run '", python,
                     "': no such program");
  }
  return makeError(ErrorCode::System, "'", python, "' failed with exit code ",
                   *code);
}

bool startedByLauncher() { return getenv("RANK") && getenv("WORLD_SIZE"); }

} // namespace

void findPython(WorkerOptions &options) {
  std::error_code ignored;
  fs::path build =
      fs::read_symlink("/proc/self/exe", ignored).parent_path().parent_path();
  fs::path own = build.parent_path() / ".venv/bin/python";
  if (options.python.empty())
    options.python = fs::exists(own, ignored) ? own.string() : "python3";
  if (fs::exists(build / "python/dynatrain", ignored))
    options.packages = (build / "python").string();
}

Result<int> runWorkers(const WorkerOptions &options) {
  setEnvironment(options);
  DTRT_RETURN_IF_ERROR(probe(options.python));
  std::vector<std::string> words = {options.python};
  if (!startedByLauncher())
    words.insert(words.end(),
                 {"-m", "torch.distributed.run", "--standalone",
                  "--nproc-per-node=" + std::to_string(options.devices)});
  words.insert(words.end(), {"-m", "dynatrain.worker", options.plan});
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  return runProgram(words);
}

} // namespace dtrt
