//===- NcclRun.cpp - A plan as processes over NCCL ------------------------===//

#include "dtrt/nccl/NcclRun.h"

#include "dtrt/cuda/GpuExecutor.h"
#include "dtrt/cuda/GpuLoopback.h"
#include "dtrt/cuda/GpuMemory.h"
#include "dtrt/nccl/NcclTransport.h"
#include "dtrt/store/FileStore.h"

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

/// NCCL cuts what it sends through the network into pieces of 128 KiB.
constexpr const char *kNetChunkBytes = "524288";

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
                                  NcclTransport &transport,
                                  const NcclRunOptions &options) {
  auto storage =
      allocateGpuShards(plan.common(), program, nullptr, options.driver);
  DTRT_RETURN_IF_ERROR(storage);
  if (options.check)
    DTRT_RETURN_IF_ERROR(fillGpuShards(**storage));
  DTRT_RETURN_IF_ERROR(transport.connect(plan.digest(), peersOf(program)));
  GpuExecutorOptions how;
  how.plan = &plan;
  how.graph = options.graph;
  auto executor = GpuExecutor::prepare(**storage, transport, how);
  DTRT_RETURN_IF_ERROR(executor);
  DTRT_RETURN_IF_ERROR(transport.warmUp());
  LoopbackReport report;
  Clock::time_point begin = Clock::now();
  DTRT_RETURN_IF_ERROR((*executor)->run());
  report.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const ExecutionStats &stats = (*executor)->stats();
  report.bytesMoved = stats.bytesReceived + stats.bytesCopied;
  report.stagingPeak = stats.stagingPeak;
  report.devicePeak = stats.devicePeak;
  if (options.check)
    DTRT_RETURN_IF_ERROR(checkGpuShards(**storage, report.check));
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
  NcclOptions how;
  how.device = program->device;
  how.devices = plan.devices();
  how.ranks = all;
  how.timeout = timeout;
  how.api = options.api;
  how.graph = options.graph;
  how.oneSided = options.oneSided;
  auto transport = NcclTransport::create(how);
  DTRT_RETURN_IF_ERROR(transport);
  auto own = moveShards(plan, *program, **transport, options);
  if (!own.ok())
    (*transport)->abort(own.status());
  (*transport)->leave();
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

using Settings = std::vector<std::pair<std::string, std::string>>;

/// What the environment of a rank adds to that of this process. It is decided
/// here: a child of a process that has used a GPU cannot ask for GPUs.
Settings settingsOf(size_t rank, size_t ranks, bool sharesGpus,
                    bool librarySharesGpus) {
  std::string number = std::to_string(rank);
  Settings settings = {{"RANK", number},
                       {"LOCAL_RANK", number},
                       {"WORLD_SIZE", std::to_string(ranks)}};
  auto unlessSet = [&](const char *name, const std::string &value) {
    if (!getenv(name))
      settings.push_back({name, value});
  };
  if (sharesGpus && librarySharesGpus)
    unlessSet("NCCL_MULTI_RANK_GPU_ENABLE", "1");
  if (sharesGpus && !librarySharesGpus)
    unlessSet("NCCL_HOSTID", "dt-run-rank-" + number);
  unlessSet("NCCL_P2P_NET_CHUNKSIZE", kNetChunkBytes);
  // Else a message leaves by the NIC of its receiver's place in the node, and
  // neither the plan's waves nor its time hold.
  unlessSet("NCCL_PXN_DISABLE", "1");
  unlessSet("NCCL_GRAPH_REGISTER", "0");
  return settings;
}

/// NAME=VALUE of this process, and of the settings.
std::vector<std::string> environmentWith(const Settings &settings) {
  std::vector<std::string> lines;
  for (char **line = environ; *line; ++line) {
    std::string text = *line;
    bool replaced =
        std::any_of(settings.begin(), settings.end(), [&](const auto &setting) {
          return text.compare(0, setting.first.size() + 1,
                              setting.first + "=") == 0;
        });
    if (!replaced)
      lines.push_back(text);
  }
  for (const auto &[name, value] : settings)
    lines.push_back(name + "=" + value);
  return lines;
}

std::vector<char *> pointersTo(const std::vector<std::string> &texts) {
  std::vector<char *> pointers;
  for (const std::string &text : texts)
    pointers.push_back(const_cast<char *>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// Allocates nothing in the child, where another thread may have held a lock.
Result<pid_t> startRank(const std::vector<std::string> &command, size_t rank,
                        const Settings &settings) {
  std::vector<std::string> environment = environmentWith(settings);
  std::vector<char *> arguments = pointersTo(command);
  std::vector<char *> variables = pointersTo(environment);
  pid_t child = fork();
  if (child == 0) {
    execvpe(arguments[0], arguments.data(), variables.data());
    fprintf(stderr, "error: cannot start %s: %s\n", arguments[0],
            strerror(errno));
    _exit(127);
  }
  if (child < 0)
    return makeError("cannot start rank ", rank, ": ", strerror(errno));
  return child;
}

int exitCode(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

} // namespace

Result<int> launchNcclRanks(const std::vector<std::string> &command,
                            size_t ranks, const NcclApi *api) {
  auto gpus = countGpus();
  DTRT_RETURN_IF_ERROR(gpus);
  bool sharesGpus = ranks > size_t(*gpus);
  bool librarySharesGpus = sharesGpus && ncclAllowsSharedGpus(api);
  std::vector<pid_t> children;
  Status started;
  for (size_t rank = 0; rank < ranks && started.ok(); ++rank) {
    auto child = startRank(
        command, rank, settingsOf(rank, ranks, sharesGpus, librarySharesGpus));
    started = statusOf(child);
    if (child.ok())
      children.push_back(*child);
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
