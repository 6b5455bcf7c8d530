//===- FakeGpu.h - GPUs whose work the CPU does -----------------*- C++ -*-===//
//
// Streams, events, memory and graph capture of a machine with GPUs, for tests.
// What is put on a stream waits there until a call asks how far streams are;
// then work that no event holds back runs, in an order that a seed chooses, as
// early or as late as CUDA allows. So an event that is not waited for gives
// wrong bytes. Calls against CUDA's rules, or against ours for code beside a
// trainer, are written down as faults. FakeCudart.cpp gives it CUDA's names.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TEST_FAKEGPU_H
#define DTRT_TEST_FAKEGPU_H

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace dtrt::test {

struct FakeGpuOptions {
  int gpus = 1;
  int multiprocessors = 8;
  int driver = 13000;                     // cudaDriverGetVersion's
  uint64_t freeBytes = uint64_t(1) << 30; // without pages, of 16 GiB
  /// 0: a fresh one, which the faults name.
  uint64_t seed = 0;
  /// Whether kernels and groups may touch memory that no call has allocated:
  /// for tests of transports alone, whose messages lie in vectors.
  bool hostMemory = false;
};

/// A machine on which nothing has happened yet, but for calls that broke a rule
/// before: a test may have several machines. No other thread may be in a call.
void resetFakeGpus(const FakeGpuOptions &options = {});
/// Calls that broke a rule, and what is left: memory, streams, events, graphs,
/// and work that has not run.
std::vector<std::string> fakeGpuFaults();
/// Broken rules were meant to be broken.
void clearFakeGpuFaults();
/// Operations on streams that have not run.
size_t fakeGpuPending();
/// While paused, nothing runs on any stream.
void pauseFakeGpus(bool paused);

/// A call that put something on a stream.
struct FakeLaunch {
  std::string what; // "kernel NAME", "copy", "zeros", "group", "record"...
  int gpu = 0;
  int stream = 0;   // the streams count from 1, in the order of creation
  int priority = 0; // the lower, the more urgent
  unsigned blocks = 0;
};
std::vector<FakeLaunch> fakeGpuLaunches();
void clearFakeGpuLaunches();

/// What the CPU does for a piece of work on a stream: called until it returns
/// true. Made afresh each time that the work runs, as graphs run again.
using FakeWork = std::function<bool()>;
using FakeMake = std::function<FakeWork()>;

/// A kernel's work from its arguments, which are gone after the call; `name` is
/// a part of its mangled name.
struct FakeKernelCall {
  unsigned blocks = 0;
  unsigned threads = 0; // of a block
  int gpu = 0;
  void **arguments = nullptr;
};
using FakeKernel = std::function<FakeMake(const FakeKernelCall &call)>;
void setFakeKernel(const std::string &name, FakeKernel kernel);

//===----------------------------------------------------------------------===//
// For stand-ins of libraries
//===----------------------------------------------------------------------===//

/// Of all that the stand-ins know.
std::recursive_mutex &fakeMutex();
void addFakeFault(const std::string &text);
/// Lets some of what is on streams run. Returns whether anything went on.
bool stepFakeGpus();

int fakeGpuOfThread();
int fakeGpuOf(cudaStream_t stream);
/// Whether the stream is being captured.
bool fakeCapturing(cudaStream_t stream);
cudaError_t putOnFakeStream(cudaStream_t stream, const std::string &what,
                            FakeMake make, unsigned blocks = 0);
/// A fault when the bytes are no live memory that the GPU can reach. Whether
/// there is any, so that a test may go on. `shared`: the work is of several
/// streams, and its memory may have been mapped behind some of it.
bool touchFakeMemory(const void *data, uint64_t bytes, int gpu,
                     const std::string &who, bool shared = false);
/// `shared`: memory whose pages other processes can map.
void *allocateFakeMemory(uint64_t bytes, int gpu, bool shared);
void freeFakeMemory(void *data, const std::string &call);
/// Whether it lies in memory that was allocated so.
bool isFakeShared(const void *data);

} // namespace dtrt::test

#endif // DTRT_TEST_FAKEGPU_H
