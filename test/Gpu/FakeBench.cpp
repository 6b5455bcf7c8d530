//===- FakeBench.cpp - A bench of bench/gpu on the stand-ins --------------===//
//
// Linked beside a bench: one GPU before its main begins; calls against the
// rules, and what is left in the end, make the process fail. Its times are
// those of a CPU that plays a GPU, and mean nothing.
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"
#include "FakeKernels.h"
#include "FakeNccl.h"

#include <cstdio>
#include <unistd.h>

using namespace dtrt::test;

namespace {

constexpr int kFailed = 3;

struct Machine {
  Machine() {
    (void)fakeGpuFaults(); // so that the machine outlives this
    resetFakeGpus();
    resetFakeNccl();
    setFakeKernels();
  }
  ~Machine() {
    bool failed = false;
    for (const auto &faults : {fakeGpuFaults(), fakeNcclFaults()})
      for (const std::string &fault : faults) {
        fprintf(stderr, "error: %s\n", fault.c_str());
        failed = true;
      }
    if (failed)
      _exit(kFailed);
  }
} machine;

} // namespace
