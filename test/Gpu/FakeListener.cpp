//===- FakeListener.cpp - Every test on GPUs of its own -------------------===//
//
// Before a test the fake machine is new; after it, calls against the rules and
// what is left are failures of the test.
//
//===----------------------------------------------------------------------===//

#include "FakeListener.h"
#include "FakeGpu.h"
#include "FakeKernels.h"
#include "Stopwatch.h"

#include <gtest/gtest.h>
#include <thread>

std::vector<std::string> dtrt::test::lastingFaults(
    const std::function<std::vector<std::string>()> &faults) {
  constexpr double kPatience = 5; // seconds
  std::vector<std::string> found = faults();
  for (Stopwatch watch; !found.empty() && watch.seconds() < kPatience;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    found = faults();
  }
  return found;
}

namespace {

using namespace dtrt::test;

class Listener : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo &) override {
    FakeGpuOptions options;
    options.gpus = 8;
    clearFakeGpuFaults();
    resetFakeGpus(options);
    setFakeKernels();
  }
  void OnTestEnd(const testing::TestInfo &) override {
    for (const std::string &fault : lastingFaults(fakeGpuFaults))
      ADD_FAILURE() << fault;
  }
};

[[maybe_unused]] const bool kListens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new Listener);
  return true;
}();

} // namespace
