//===- CompileRequest.cpp - What dt-opt makes of a request ----------------===//

#include "dt/Advise/CompileRequest.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern char **environ;

namespace dt::advise {

namespace {

struct Pipe {
  Pipe() { isOpen = pipe(ends) == 0; }
  ~Pipe() {
    closeEnd(0);
    closeEnd(1);
  }
  Pipe(const Pipe &) = delete;
  void closeEnd(int end) {
    if (isOpen && ends[end] >= 0)
      close(ends[end]);
    ends[end] = -1;
  }

  int ends[2] = {-1, -1};
  bool isOpen = false;
};

/// Reads both pipes until both ends are closed.
void drain(Pipe &out, Pipe &err, std::string &outText, std::string &errText) {
  pollfd waits[2] = {{out.ends[0], POLLIN, 0}, {err.ends[0], POLLIN, 0}};
  std::string *texts[2] = {&outText, &errText};
  int open = 2;
  char buffer[1 << 14];
  while (open > 0) {
    if (poll(waits, 2, -1) < 0 && errno != EINTR)
      return;
    for (int i = 0; i < 2; ++i) {
      if (waits[i].fd < 0 || !waits[i].revents)
        continue;
      ssize_t count = read(waits[i].fd, buffer, sizeof buffer);
      if (count > 0) {
        texts[i]->append(buffer, size_t(count));
      } else if (count == 0 || errno != EINTR) {
        waits[i].fd = -1;
        --open;
      }
    }
  }
}

/// Runs a program to its end; false, with its words, when it fails.
bool runTool(const std::vector<std::string> &command, std::string &output,
             std::string &error) {
  Pipe out, err;
  if (!out.isOpen || !err.isOpen) {
    error = std::string("no pipe: ") + std::strerror(errno);
    return false;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out.ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.ends[1], STDERR_FILENO);
  for (Pipe *pipe : {&out, &err})
    for (int end : pipe->ends)
      posix_spawn_file_actions_addclose(&actions, end);
  std::vector<char *> arguments;
  for (const std::string &word : command)
    arguments.push_back(const_cast<char *>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  int code = posix_spawn(&child, command[0].c_str(), &actions, nullptr,
                         arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (code != 0) {
    error = command[0] + " cannot be run: " + std::strerror(code);
    return false;
  }
  out.closeEnd(1);
  err.closeEnd(1);
  std::string words;
  drain(out, err, output, words);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return true;
  error = words.substr(0, words.find('\n'));
  if (error.empty())
    error = command[0] + " ended with status " + std::to_string(status);
  return false;
}

} // namespace

std::optional<CompiledPlan> compileRequest(const std::string &tools,
                                           const std::string &request,
                                           const std::string &plan,
                                           std::string &error) {
  std::string output, text;
  if (!runTool({tools + "/dt-opt", request, "-o", plan}, output, error) ||
      !runTool({tools + "/dt-plan", "inspect", plan, "--json"}, text, error))
    return std::nullopt;
  nlohmann::json found = nlohmann::json::parse(text, nullptr, false);
  if (found.is_discarded() || !found.contains("bytes") ||
      !found.contains("time") || !found.contains("memory")) {
    error = "dt-plan inspect gave no numbers";
    return std::nullopt;
  }
  CompiledPlan out;
  out.wireBytes = found["bytes"].value("wire", int64_t(0));
  out.seconds = found["time"].value("predicted_s", 0.0);
  out.devicePeak = found["memory"].value("device_peak", int64_t(0));
  out.destinationMost = found["memory"].value("destination_max", int64_t(0));
  return out;
}

} // namespace dt::advise
