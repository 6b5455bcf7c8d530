//===- FakeMachine.h - The state behind the fake GPUs -----------*- C++ -*-===//

#ifndef DTRT_TEST_FAKEMACHINE_H
#define DTRT_TEST_FAKEMACHINE_H

#include "FakeGpu.h"
#include "Lull.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <thread>

namespace dtrt::test {

struct FakeGraph;

/// One record of an event.
struct FakeMark {
  bool reached = false;
};

struct FakeEvent {
  int gpu = 0;
  std::shared_ptr<FakeMark> mark; // none: not recorded yet
  FakeGraph *graph = nullptr;     // recorded while captured into it
  std::vector<size_t> nodes;      // behind these of its nodes
};

struct FakeOperation {
  std::string what;
  uint64_t put = 0; // when it was put on its stream
  FakeMake make;
  FakeWork work;                   // once begun
  std::shared_ptr<FakeMark> waits; // until it is reached
  std::shared_ptr<FakeMark> reaches;
};

struct FakeStream {
  int number = 0;
  int gpu = 0;
  int priority = 0;
  double haste = 1; // how likely it goes on, among others
  std::deque<FakeOperation> queue;
  FakeGraph *graph = nullptr; // that it is captured into
  std::vector<size_t> nodes;  // what is captured next comes behind these
};

struct FakeNode {
  std::string what;
  FakeMake make; // none: an empty node
  std::vector<size_t> after;
};

struct FakeGraph {
  std::vector<FakeNode> nodes;
  FakeStream *origin = nullptr; // while captured
  std::thread::id thread;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  bool spoiled = false;
};

struct FakeBlock {
  uint64_t bytes = 0;
  int gpu = 0; // -1: of the host
  bool shared = false;
  bool live = true;
};

class FakeMachine {
public:
  static FakeMachine &get();

  void reset(const FakeGpuOptions &given);
  void fault(const std::string &text);
  std::vector<std::string> listFaults() const;
  void clearFaults() {
    faults.clear();
    earlierFaults.clear();
  }

  /// Null for handles that are none, which is a fault of `call`.
  FakeStream *streamOf(cudaStream_t handle, const char *call);
  FakeEvent *eventOf(cudaEvent_t handle, const char *call);
  /// Refuses a call that may spoil a capture that is under way.
  cudaError_t unsafe(const char *call);
  /// Counts a call; an error in a process that was forked after the first one.
  cudaError_t enter();

  cudaError_t put(FakeStream &stream, FakeOperation operation, unsigned blocks);
  cudaError_t record(FakeStream &stream, FakeEvent &event);
  cudaError_t wait(FakeStream &stream, FakeEvent &event);
  bool step();
  /// A look at the machine from outside, during which it may or may not go on.
  /// Whether it did.
  bool glance();
  /// Leaves the machine to others for so long, or until one puts more on it.
  void leave(std::chrono::microseconds pause) { more.wait_for(mutex, pause); }
  /// Runs until done() is true; false when nothing goes on for very long.
  bool runUntil(const std::function<bool()> &done, const char *call);
  /// Operations on streams, of one GPU or all.
  size_t pending(std::optional<int> gpu = {}) const;

  cudaError_t beginCapture(FakeStream &stream, cudaStreamCaptureMode mode);
  cudaError_t endCapture(FakeStream &stream, FakeGraph *&graph);
  FakeMake makeGraphRun(const FakeGraph &graph);

  void *allocate(uint64_t bytes, int gpu, bool shared);
  bool free(void *data, const std::string &call);
  std::map<const std::byte *, FakeBlock>::iterator blockOf(const void *data);

  FakeGpuOptions options;
  std::recursive_mutex mutex;
  std::condition_variable_any more; // on a stream
  std::mt19937_64 random;
  bool paused = false;
  std::set<FakeStream *> streams;
  std::set<FakeEvent *> events;
  std::set<FakeGraph *> graphs, executables;
  std::set<void *> pools;
  std::map<const std::byte *, FakeBlock> blocks;
  std::map<const void *, std::string> kernelNames; // by the stub's address
  std::map<std::string, FakeKernel> kernels;
  std::vector<FakeLaunch> launches;
  int created = 0;      // streams
  uint64_t running = 0; // when the work that runs now was put on its stream

private:
  template <typename Visit> void forEachStream(Visit visit) const {
    for (FakeStream *stream : streams)
      visit(stream);
    for (const auto &[gpu, stream] : legacies)
      visit(stream);
  }
  bool advance(FakeStream &stream);

  std::map<int, FakeStream *> legacies;           // by GPU
  std::vector<std::string> faults, earlierFaults; // since and before the reset
  int process = 0;                                // that made the first call
};

/// Of the calling thread.
struct FakeThread {
  int gpu = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  cudaError_t last = cudaSuccess;
};
FakeThread &fakeThread();

} // namespace dtrt::test

#endif // DTRT_TEST_FAKEMACHINE_H
