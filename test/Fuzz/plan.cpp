//===- plan.cpp - Fuzz target: the plan reader and all who read with it ---===//
//
// Whatever the bytes are, reading, printing, comparing and verifying them ends
// without a fault, in memory that the size of the file bounds. What the
// verifier accepts and is small is run, and every byte must arrive.
//
//===----------------------------------------------------------------------===//

#include "AdversarialMachine.h"
#include "CpuLimit.h"
#include "PeakMemory.h"
#include "PlanMutator.h"

#include "dtrt/format/ShardView.h"
#include "dtrt/report/Deliveries.h"
#include "dtrt/report/Diff.h"
#include "dtrt/report/Draw.h"
#include "dtrt/report/Dump.h"
#include "dtrt/report/Inspect.h"
#include "dtrt/report/OutputFormat.h"
#include "dtrt/verify/Verifier.h"
#include "dtrt/world/LoopbackRun.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ostream>
#include <streambuf>

using namespace dtrt;

namespace {

/// Plans that need no more than this are run.
constexpr uint64_t kMostBytes = 1 << 20;
constexpr size_t kMostDevices = 8;

/// What reading and printing may take: the 64 MiB that members of a section may
/// need, some for what is made of them, and a multiple of the file. Two threads
/// verify.
constexpr size_t kMostMemory = 256 << 20, kMostGrowth = 64;

/// Takes all and keeps nothing.
class Nowhere : public std::streambuf {
  int overflow(int c) override { return c == EOF ? 0 : c; }
  std::streamsize xsputn(const char *, std::streamsize n) override { return n; }
};

[[noreturn]] void fault(const std::string &what) {
  fprintf(stderr, "fault: %s\n", what.c_str());
  abort();
}

void print(const PlanReader &plan) {
  Nowhere nowhere;
  std::ostream out(&nowhere);
  for (OutputFormat format : {OutputFormat::Text, OutputFormat::Json}) {
    (void)writeInspection(plan, std::nullopt, format, out);
    for (uint32_t device : plan.devices()) {
      (void)writeInspection(plan, device, format, out);
      (void)writeProgram(plan, device, format, out);
    }
  }
  (void)writeDeliveries(plan, out);
  (void)writeDrawing(plan, out);
  auto same = writeDifferences(plan, plan, out);
  if (same.ok() && !*same)
    fault("a plan differs from itself");
}

bool isSmall(const PlanReader &plan) {
  uint64_t bytes = 0;
  for (uint32_t device : plan.devices()) {
    auto program = plan.program(device);
    uint64_t own = program.ok() ? peakBytes(plan.common(), *program) : ~0ull;
    if (own > kMostBytes || (bytes += own) > kMostBytes)
      return false;
  }
  return plan.devices().size() <= kMostDevices;
}

void run(const PlanReader &plan) {
  for (bool staged : {true, false}) {
    LoopbackOptions options;
    options.check = true;
    options.staged = staged;
    auto report = runLoopback(plan, options);
    if (!report.ok())
      fault("verified, but does not run: " + report.status().message());
    if (report->check.mismatches > 0)
      fault("verified, but wrong: " + report->check.first.front());
  }
  std::mt19937_64 rng(1);
  auto perNode = uint32_t(
      std::min<int64_t>(plan.common().cluster.devicesPerNode, kMostDevices));
  Status status =
      test::runOnMachine(plan, perNode, test::randomAdversary(rng), 1);
  if (!status.ok())
    fault("verified, but not under an adversary: " + status.message());
}

/// dt-run takes what the reader takes. It may end in an error, but it ends.
void runUnchecked(const PlanReader &plan) {
  for (bool staged : {true, false}) {
    LoopbackOptions options;
    options.staged = staged;
    (void)runLoopback(plan, options);
  }
}

/// Whether the file is read, and whether it is right.
bool accepts(const std::string &bytes, std::optional<PlanReader> &out) {
  fuzz::PeakMemory memory;
  auto plan = PlanReader::fromBytes(bytes);
  if (!plan.ok())
    return false;
  (void)plan->checkSections();
  print(*plan);
  bool right = verifyPlan(*plan).ok();
  if (memory.bytes() > kMostMemory + kMostGrowth * bytes.size())
    fault("took " + std::to_string(memory.bytes()) + " bytes of memory");
  out.emplace(std::move(*plan));
  return right;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::CpuLimit limit;
  std::optional<PlanReader> plan;
  bool right =
      accepts(std::string(reinterpret_cast<const char *>(data), size), plan);
  if (!plan || !isSmall(*plan))
    return 0;
  if (right)
    run(*plan);
  else
    runUnchecked(*plan);
  return 0;
}

namespace {
size_t put(const std::string &text, uint8_t *data) {
  memcpy(data, text.data(), text.size());
  return text.size();
}
std::string textOf(const uint8_t *data, size_t size) {
  return std::string(reinterpret_cast<const char *>(data), size);
}
} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  return put(fuzz::mutatePlan(textOf(data, size), maxSize, seed), data);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *data1, size_t size1,
                                            const uint8_t *data2, size_t size2,
                                            uint8_t *out, size_t maxSize,
                                            unsigned seed) {
  return put(fuzz::crossPlans(textOf(data1, size1), textOf(data2, size2),
                              maxSize, seed),
             out);
}
