//===- NcclRun.cpp - A plan as processes over NCCL ------------------------===//

#include "dtrt/NcclRun.h"

#include "dtrt/Cuda.h"
#include "dtrt/FileStore.h"
#include "dtrt/NcclTransport.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace dtrt {

namespace {

using Clock = std::chrono::steady_clock;

/// What a rank hands in.
std::string recordOf(const LoopbackReport &report) {
  std::ostringstream out;
  out.precision(17);
  out << report.seconds << ' ' << report.bytesMoved << ' ' << report.stagingPeak
      << ' ' << report.devicePeak << ' ' << report.check.bytesChecked << ' '
      << report.check.mismatches;
  return out.str();
}

Result<LoopbackReport> parseRecord(const std::string &record) {
  std::istringstream in(record);
  LoopbackReport report;
  in >> report.seconds >> report.bytesMoved >> report.stagingPeak >>
      report.devicePeak >> report.check.bytesChecked >> report.check.mismatches;
  if (!in)
    return makeError("a rank's report is damaged: '", record, "'");
  return report;
}

/// Seconds and peaks are those of the worst rank.
Result<std::string> addRecords(const std::vector<std::string> &records) {
  LoopbackReport total;
  for (const std::string &record : records) {
    auto one = parseRecord(record);
    DTRT_RETURN_IF_ERROR(one);
    total.seconds = std::max(total.seconds, one->seconds);
    total.bytesMoved += one->bytesMoved;
    total.stagingPeak = std::max(total.stagingPeak, one->stagingPeak);
    total.devicePeak = std::max(total.devicePeak, one->devicePeak);
    total.check.bytesChecked += one->check.bytesChecked;
    total.check.mismatches += one->check.mismatches;
  }
  return recordOf(total);
}

Result<LoopbackReport> moveShards(const PlanReader &plan,
                                  const RankProgram &program,
                                  NcclTransport &transport, bool check) {
  auto storage = ArenaStorage::allocate(plan.common(), program, gpuMemory());
  DTRT_RETURN_IF_ERROR(storage);
  if (check)
    DTRT_RETURN_IF_ERROR(fillGpuShards(**storage));
  auto executor = GpuExecutor::prepare(**storage, transport, {ncclMemory()});
  DTRT_RETURN_IF_ERROR(executor);
  DTRT_RETURN_IF_ERROR(transport.connect(plan.digest(), (*executor)->peers()));
  DTRT_RETURN_IF_ERROR(
      transport.registerArena((*executor)->staging(), program.stagingBytes));
  LoopbackReport report;
  Clock::time_point begin = Clock::now();
  DTRT_RETURN_IF_ERROR((*executor)->run());
  report.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const ExecutionStats &stats = (*executor)->stats();
  report.bytesMoved = stats.bytesReceived + stats.bytesCopied;
  report.stagingPeak = stats.stagingPeak;
  report.devicePeak = stats.devicePeak;
  if (check)
    DTRT_RETURN_IF_ERROR(checkGpuShards(**storage, report.check));
  transport.leave(); // before the arena that it has registered goes
  return report;
}

} // namespace

Result<LoopbackReport> runNcclRank(const PlanReader &plan,
                                   const NcclRunOptions &options) {
  auto gpus = countGpus();
  DTRT_RETURN_IF_ERROR(gpus);
  size_t ranks = plan.devices().size();
  if (options.rank >= ranks)
    return makeError("rank ", options.rank, " of a plan for ", ranks,
                     " devices");
  DTRT_RETURN_IF_ERROR(useGpu(int(options.localRank % size_t(*gpus))));
  auto program = plan.program(plan.devices()[options.rank]);
  DTRT_RETURN_IF_ERROR(program);
  Seconds timeout(options.timeoutSeconds);
  auto all = std::make_shared<Rendezvous>(
      std::make_shared<FileStore>(options.store), uint32_t(options.rank),
      uint32_t(ranks), timeout, "nccl");
  auto transport =
      NcclTransport::create({program->device, plan.devices(), all, timeout});
  DTRT_RETURN_IF_ERROR(transport);
  auto own = moveShards(plan, *program, **transport, options.check);
  if (!own.ok())
    (*transport)->abort(own.status());
  DTRT_RETURN_IF_ERROR(own);
  auto sums = all->agree(Step::Report, recordOf(*own), addRecords);
  DTRT_RETURN_IF_ERROR(sums);
  auto total = parseRecord(*sums);
  DTRT_RETURN_IF_ERROR(total);
  total->check.first = std::move(own->check.first);
  return total;
}

//===----------------------------------------------------------------------===//
// Starting processes
//===----------------------------------------------------------------------===//

namespace {

/// In the child: sets what a rank is told by, and becomes the command.
[[noreturn]] void becomeRank(std::vector<char *> arguments, size_t rank,
                             size_t ranks) {
  std::string number = std::to_string(rank);
  setenv("RANK", number.c_str(), 1);
  setenv("LOCAL_RANK", number.c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
  auto gpus = countGpus();
  if (gpus.ok() && ranks > size_t(*gpus)) {
    if (ncclAllowsSharedGpus())
      setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
    else
      setenv("NCCL_HOSTID", ("dt-run-rank-" + number).c_str(), 0);
  }
  execvp(arguments[0], arguments.data());
  fprintf(stderr, "error: cannot start %s: %s\n", arguments[0],
          strerror(errno));
  _exit(127);
}

int exitCode(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

} // namespace

Result<int> launchNcclRanks(const std::vector<std::string> &command,
                            size_t ranks) {
  std::vector<char *> arguments;
  for (const std::string &argument : command)
    arguments.push_back(const_cast<char *>(argument.c_str()));
  arguments.push_back(nullptr);
  std::vector<pid_t> children;
  Status started;
  for (size_t rank = 0; rank < ranks && started.ok(); ++rank) {
    pid_t child = fork();
    if (child == 0)
      becomeRank(arguments, rank, ranks);
    if (child < 0)
      started = makeError("cannot start rank ", rank, ": ", strerror(errno));
    else
      children.push_back(child);
  }
  int code = 0;
  for (pid_t child : children) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    code = code != 0 ? code : exitCode(status);
  }
  DTRT_RETURN_IF_ERROR(started);
  return code;
}

} // namespace dtrt
