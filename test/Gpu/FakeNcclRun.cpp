//===- FakeNcclRun.cpp - Plans over NCCL's stand-in -----------------------===//
//
//   fake-nccl-run [--one-sided] PLAN...
//
// Every rank as dt-run has it, a thread with a GPU of its own, with every byte
// compared. Fails, and says why, where a byte is wrong, where a call broke a
// rule of NCCL or CUDA, and where anything is left.
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"
#include "FakeKernels.h"
#include "FakeNccl.h"

#include "dtrt/format/PlanReader.h"
#include "dtrt/nccl/NcclRun.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

using namespace dtrt;
using namespace dtrt::test;

namespace {

Status runRanks(const PlanReader &plan, const std::string &store,
                bool oneSided) {
  size_t ranks = plan.devices().size();
  std::vector<Result<LoopbackReport>> reports(
      ranks, Status(makeError("the rank has not run")));
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      NcclRunOptions options;
      options.check = true;
      options.rank = options.localRank = rank;
      options.store = store;
      options.oneSided = oneSided;
      options.api = &fakeNccl();
      reports[rank] = runNcclRank(plan, options);
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const auto &report : reports) {
    DTRT_RETURN_IF_ERROR(report);
    if (report->check.mismatches > 0)
      return makeError(report->check.mismatches, " of ",
                       report->check.bytesChecked, " bytes are wrong");
  }
  for (const auto &faults : {fakeGpuFaults(), fakeNcclFaults()})
    if (!faults.empty())
      return makeError(faults.front());
  return {};
}

Status runPlan(const char *path, bool oneSided) {
  auto plan = PlanReader::open(path);
  DTRT_RETURN_IF_ERROR(plan);
  FakeGpuOptions gpus;
  gpus.gpus = int(plan->devices().size());
  resetFakeGpus(gpus);
  resetFakeNccl();
  std::string store =
      (std::filesystem::temp_directory_path() / "fake-nccl-").string() +
      std::string(6, 'X');
  if (!mkdtemp(store.data()))
    return makeError("cannot make a folder in ", store);
  Status status = runRanks(*plan, store, oneSided);
  std::filesystem::remove_all(store);
  return status;
}

} // namespace

int main(int count, char **arguments) {
  (void)fakeGpuFaults(); // so that the machine outlives all else
  setFakeKernels();
  bool oneSided = count > 1 && strcmp(arguments[1], "--one-sided") == 0;
  for (int i = 1 + oneSided; i < count; ++i) {
    Status status = runPlan(arguments[i], oneSided);
    if (status.ok())
      continue;
    fprintf(stderr, "error: %s: %s\n", arguments[i], status.message().c_str());
    return 1;
  }
  return 0;
}
