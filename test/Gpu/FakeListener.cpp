//===- FakeListener.cpp - Every test on GPUs of its own -------------------===//
//
// Before a test the fake machine is new; after it, calls against the rules and
// what is left are failures of the test.
//
//===----------------------------------------------------------------------===//

#include "FakeKernels.h"

#include "FakeGpu.h"

#include <gtest/gtest.h>

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
    for (const std::string &fault : fakeGpuFaults())
      ADD_FAILURE() << fault;
  }
};

[[maybe_unused]] const bool kListens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new Listener);
  return true;
}();

} // namespace
