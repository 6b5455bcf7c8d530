//===- FakeGpu.cpp - GPUs whose work the CPU does -------------------------===//

#include "FakeDriver.h"
#include "FakeMachine.h"
#include "dtrt/core/MemorySource.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <unistd.h>

using namespace dtrt::test;

namespace {

/// Seconds without any progress after which a call that waits gives up.
constexpr std::chrono::seconds kStuck(20);
constexpr size_t kAlignment = 256;
constexpr int kFreed = 0xdd;

using Lock = std::lock_guard<std::recursive_mutex>;

} // namespace

FakeThread &dtrt::test::fakeThread() {
  thread_local FakeThread thread;
  return thread;
}

/// Never destroyed: GPUs go on until the process ends.
FakeMachine &FakeMachine::get() {
  static auto *machine = new FakeMachine;
  return *machine;
}

//===----------------------------------------------------------------------===//
// Faults
//===----------------------------------------------------------------------===//

void FakeMachine::fault(const std::string &text) {
  if (std::find(faults.begin(), faults.end(), text) == faults.end())
    faults.push_back(text);
}

std::vector<std::string> FakeMachine::listFaults() const {
  std::vector<std::string> all = earlierFaults;
  all.insert(all.end(), faults.begin(), faults.end());
  auto leak = [&](size_t count, const char *what) {
    if (count > 0)
      all.push_back(std::to_string(count) + " " + what + " left");
  };
  size_t live = 0;
  for (const auto &[data, block] : blocks)
    live += block.live;
  leak(pending(), "operations on streams");
  leak(streams.size(), "streams");
  leak(events.size(), "events");
  leak(graphs.size(), "graphs");
  leak(executables.size(), "executable graphs");
  leak(pools.size(), "pools");
  leak(live, "blocks of memory");
  for (const std::string &left : fakeDriverLeaks())
    all.push_back(left);
  if (!all.empty())
    all.push_back("(seed " + std::to_string(options.seed) + ")");
  return all;
}

cudaError_t FakeMachine::enter() {
  if (process == 0)
    process = getpid();
  return process == getpid() ? cudaSuccess : cudaErrorInitializationError;
}

cudaError_t FakeMachine::unsafe(const char *call) {
  FakeThread &self = fakeThread();
  if (self.mode == cudaStreamCaptureModeRelaxed)
    return cudaSuccess;
  for (FakeGraph *graph : graphs) {
    if (!graph->origin || graph->mode == cudaStreamCaptureModeRelaxed)
      continue;
    bool own = graph->thread == std::this_thread::get_id();
    bool others = self.mode == cudaStreamCaptureModeGlobal &&
                  graph->mode == cudaStreamCaptureModeGlobal;
    if (!own && !others)
      continue;
    graph->spoiled = true;
    fault(std::string(call) + " spoils a capture that is under way");
    return cudaErrorStreamCaptureUnsupported;
  }
  return cudaSuccess;
}

FakeStream *FakeMachine::streamOf(cudaStream_t handle, const char *call) {
  if (!handle || handle == cudaStreamLegacy || handle == cudaStreamPerThread) {
    fault(std::string(call) +
          " on the legacy stream, or one that waits for it");
    FakeStream *&legacy = legacies[fakeThread().gpu];
    if (!legacy) {
      legacy = new FakeStream;
      legacy->gpu = fakeThread().gpu;
    }
    return legacy;
  }
  auto *stream = reinterpret_cast<FakeStream *>(handle);
  if (streams.count(stream))
    return stream;
  fault(std::string(call) + " of a stream that is not there");
  return nullptr;
}

FakeEvent *FakeMachine::eventOf(cudaEvent_t handle, const char *call) {
  auto *event = reinterpret_cast<FakeEvent *>(handle);
  if (events.count(event))
    return event;
  fault(std::string(call) + " of an event that is not there");
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

void FakeMachine::reset(const FakeGpuOptions &given) {
  for (auto &[data, block] : blocks)
    ::free(const_cast<std::byte *>(data));
  forEachStream([](FakeStream *stream) { delete stream; });
  for (FakeEvent *event : events)
    delete event;
  for (FakeGraph *graph : graphs)
    delete graph;
  for (FakeGraph *graph : executables)
    delete graph;
  blocks.clear();
  streams.clear();
  legacies.clear();
  events.clear();
  graphs.clear();
  executables.clear();
  pools.clear();
  launches.clear();
  for (const std::string &fault : faults)
    earlierFaults.push_back(fault + " (seed " + std::to_string(options.seed) +
                            ")");
  faults.clear();
  paused = false;
  created = process = 0;
  resetFakeDriver();
  options = given;
  if (options.seed == 0)
    options.seed = std::random_device()();
  random.seed(options.seed);
  fakeThread() = {};
}

cudaError_t FakeMachine::put(FakeStream &stream, FakeOperation operation,
                             unsigned blocks) {
  launches.push_back(
      {operation.what, stream.gpu, stream.number, stream.priority, blocks});
  if (stream.graph) {
    FakeGraph &graph = *stream.graph;
    graph.nodes.push_back({operation.what, operation.make, stream.nodes});
    stream.nodes = {graph.nodes.size() - 1};
    return cudaSuccess;
  }
  operation.put = tickFakeTime();
  stream.queue.push_back(std::move(operation));
  more.notify_all();
  // A GPU that is far ahead of the host.
  while (random() % 4 == 0 && step()) {
  }
  return cudaSuccess;
}

cudaError_t FakeMachine::record(FakeStream &stream, FakeEvent &event) {
  if (event.gpu != stream.gpu) {
    fault("an event is recorded on a stream of another GPU");
    return cudaErrorInvalidResourceHandle;
  }
  event.graph = stream.graph;
  event.nodes = stream.nodes;
  event.mark = nullptr;
  if (stream.graph)
    return cudaSuccess;
  event.mark = std::make_shared<FakeMark>();
  FakeOperation operation;
  operation.what = "record";
  operation.reaches = event.mark;
  return put(stream, std::move(operation), 0);
}

cudaError_t FakeMachine::wait(FakeStream &stream, FakeEvent &event) {
  if (event.graph) {
    if (stream.graph && stream.graph != event.graph)
      return cudaErrorStreamCaptureMerge;
    if (!graphs.count(event.graph) || !event.graph->origin) {
      fault("a stream waits for an event of a capture that is over");
      return cudaErrorStreamCaptureIsolation;
    }
    stream.graph = event.graph;
    stream.nodes.insert(stream.nodes.end(), event.nodes.begin(),
                        event.nodes.end());
    return cudaSuccess;
  }
  if (!event.mark) {
    fault("a stream waits for an event that nobody has recorded");
    return cudaSuccess;
  }
  if (stream.graph) {
    fault("a captured stream waits for an event from outside");
    stream.graph->spoiled = true;
    return cudaErrorStreamCaptureIsolation;
  }
  FakeOperation operation;
  operation.what = "wait";
  operation.waits = event.mark;
  return put(stream, std::move(operation), 0);
}

/// Whether the first operation of the stream went on.
bool FakeMachine::advance(FakeStream &stream) {
  FakeOperation &first = stream.queue.front();
  if (first.waits && !first.waits->reached)
    return false;
  if (first.reaches)
    first.reaches->reached = true;
  if (first.make) {
    if (!first.work)
      first.work = first.make();
    // Work may put more on other streams, but never on its own.
    running = first.put;
    if (!first.work())
      return false;
  }
  stream.queue.pop_front();
  return true;
}

bool FakeMachine::step() {
  if (paused)
    return false;
  std::vector<FakeStream *> candidates;
  forEachStream([&](FakeStream *stream) {
    if (!stream->queue.empty())
      candidates.push_back(stream);
  });
  // Handles are addresses, which differ from run to run.
  std::sort(candidates.begin(), candidates.end(),
            [](auto *a, auto *b) { return a->number < b->number; });
  while (!candidates.empty()) {
    std::vector<double> weights;
    for (FakeStream *stream : candidates)
      weights.push_back(stream->haste);
    std::discrete_distribution<size_t> choose(weights.begin(), weights.end());
    size_t chosen = choose(random);
    if (advance(*candidates[chosen]))
      return true;
    candidates.erase(candidates.begin() + long(chosen));
  }
  return false;
}

bool FakeMachine::glance() {
  bool moved = false;
  for (uint64_t steps = random() % 3; steps > 0 && step(); --steps)
    moved = true;
  return moved;
}

bool FakeMachine::runUntil(const std::function<bool()> &done,
                           const char *call) {
  auto last = std::chrono::steady_clock::now();
  Lull lull;
  while (!done()) {
    if (step()) {
      last = std::chrono::steady_clock::now();
      lull = {};
      continue;
    }
    if (std::chrono::steady_clock::now() - last > kStuck) {
      fault(std::string(call) + " waits for ever");
      return false;
    }
    leave(lull.next());
  }
  return true;
}

size_t FakeMachine::pending(std::optional<int> gpu) const {
  size_t count = 0;
  forEachStream([&](FakeStream *stream) {
    if (!gpu || *gpu == stream->gpu)
      count += stream->queue.size();
  });
  return count;
}

//===----------------------------------------------------------------------===//
// Capture
//===----------------------------------------------------------------------===//

cudaError_t FakeMachine::beginCapture(FakeStream &stream,
                                      cudaStreamCaptureMode mode) {
  if (stream.graph)
    return cudaErrorIllegalState;
  auto *graph = new FakeGraph;
  graph->origin = &stream;
  graph->thread = std::this_thread::get_id();
  graph->mode = mode;
  graphs.insert(graph);
  stream.graph = graph;
  stream.nodes.clear();
  return cudaSuccess;
}

cudaError_t FakeMachine::endCapture(FakeStream &stream, FakeGraph *&graph) {
  graph = stream.graph;
  if (!graph || graph->origin != &stream)
    return cudaErrorIllegalState;
  // What the last node of the origin is behind of.
  std::set<size_t> joined;
  std::vector<size_t> open = stream.nodes;
  while (!open.empty()) {
    size_t node = open.back();
    open.pop_back();
    if (joined.insert(node).second)
      open.insert(open.end(), graph->nodes[node].after.begin(),
                  graph->nodes[node].after.end());
  }
  bool all = true;
  for (FakeStream *other : streams)
    if (other->graph == graph) {
      for (size_t node : other->nodes)
        all = all && joined.count(node);
      other->graph = nullptr;
      other->nodes.clear();
    }
  graph->origin = nullptr;
  if (!all)
    fault("a capture ends before all of its streams have joined");
  if (all && !graph->spoiled)
    return cudaSuccess;
  graphs.erase(graph);
  delete graph;
  graph = nullptr;
  return all ? cudaErrorStreamCaptureInvalidated
             : cudaErrorStreamCaptureUnjoined;
}

namespace {

/// One run of a graph, one node at a time.
class GraphRun {
public:
  explicit GraphRun(std::vector<FakeNode> given)
      : nodes(std::move(given)), works(nodes.size()), ended(nodes.size()) {}

  bool operator()(std::mt19937_64 &random) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < nodes.size(); ++i)
      if (!ended[i] && isReady(i))
        ready.push_back(i);
    std::shuffle(ready.begin(), ready.end(), random);
    for (size_t node : ready) {
      if (nodes[node].make && !works[node])
        works[node] = nodes[node].make();
      if (works[node] && !works[node]())
        continue;
      ended[node] = true;
      ++count;
      break;
    }
    return count == nodes.size();
  }

private:
  bool isReady(size_t node) const {
    for (size_t before : nodes[node].after)
      if (!ended[before])
        return false;
    return true;
  }

  std::vector<FakeNode> nodes;
  std::vector<FakeWork> works;
  std::vector<bool> ended;
  size_t count = 0;
};

} // namespace

FakeMake FakeMachine::makeGraphRun(const FakeGraph &graph) {
  return [this, nodes = graph.nodes]() -> FakeWork {
    auto run = std::make_shared<GraphRun>(nodes);
    return [this, run] { return (*run)(random); };
  };
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

void *FakeMachine::allocate(uint64_t bytes, int gpu, bool shared) {
  size_t room = (bytes / kAlignment + 1) * kAlignment;
  void *data = aligned_alloc(kAlignment, room);
  memset(data, kFreed, room); // nothing says that memory is zeroed
  blocks[static_cast<std::byte *>(data)] = {bytes, gpu, shared, true};
  return data;
}

std::map<const std::byte *, FakeBlock>::iterator
FakeMachine::blockOf(const void *data) {
  auto *at = static_cast<const std::byte *>(data);
  auto found = blocks.upper_bound(at);
  if (found == blocks.begin())
    return blocks.end();
  --found;
  uint64_t bytes = std::max<uint64_t>(found->second.bytes, 1);
  return at < found->first + bytes ? found : blocks.end();
}

/// Addresses are not given out again, so that a late use is seen.
bool FakeMachine::free(void *data, const std::string &call) {
  auto found = blocks.find(static_cast<std::byte *>(data));
  if (found == blocks.end() || !found->second.live) {
    fault(call + " of memory that is not there");
    return false;
  }
  found->second.live = false;
  memset(data, kFreed, found->second.bytes);
  return true;
}

//===----------------------------------------------------------------------===//
// FakeGpu.h
//===----------------------------------------------------------------------===//

/// GPUs go on while nobody looks.
static void runInBackground() {
  Lull lull;
  Lock lock(fakeMutex());
  FakeMachine &machine = FakeMachine::get();
  for (;;) {
    if (machine.glance())
      lull = {};
    machine.leave(lull.next());
  }
}

void dtrt::test::resetFakeGpus(const FakeGpuOptions &options) {
  static std::once_flag once;
  std::call_once(once, [] { std::thread(runInBackground).detach(); });
  Lock lock(fakeMutex());
  FakeMachine::get().reset(options);
}

std::vector<std::string> dtrt::test::fakeGpuFaults() {
  Lock lock(fakeMutex());
  return FakeMachine::get().listFaults();
}

void dtrt::test::clearFakeGpuFaults() {
  Lock lock(fakeMutex());
  FakeMachine::get().clearFaults();
}

size_t dtrt::test::fakeGpuPending() {
  Lock lock(fakeMutex());
  return FakeMachine::get().pending();
}

void dtrt::test::pauseFakeGpus(bool paused) {
  Lock lock(fakeMutex());
  FakeMachine::get().paused = paused;
}

std::vector<FakeLaunch> dtrt::test::fakeGpuLaunches() {
  Lock lock(fakeMutex());
  return FakeMachine::get().launches;
}

void dtrt::test::clearFakeGpuLaunches() {
  Lock lock(fakeMutex());
  FakeMachine::get().launches.clear();
}

void dtrt::test::setFakeKernel(const std::string &name, FakeKernel kernel) {
  Lock lock(fakeMutex());
  FakeMachine::get().kernels[name] = std::move(kernel);
}

std::recursive_mutex &dtrt::test::fakeMutex() {
  return FakeMachine::get().mutex;
}

void dtrt::test::addFakeFault(const std::string &text) {
  Lock lock(fakeMutex());
  FakeMachine::get().fault(text);
}

bool dtrt::test::stepFakeGpus() {
  Lock lock(fakeMutex());
  return FakeMachine::get().step();
}

int dtrt::test::fakeGpuOfThread() { return fakeThread().gpu; }

int dtrt::test::fakeGpuOf(cudaStream_t stream) {
  Lock lock(fakeMutex());
  FakeStream *found = FakeMachine::get().streamOf(stream, "a library's call");
  return found ? found->gpu : -1;
}

bool dtrt::test::fakeCapturing(cudaStream_t stream) {
  Lock lock(fakeMutex());
  FakeStream *found = FakeMachine::get().streamOf(stream, "a library's call");
  return found && found->graph;
}

cudaError_t dtrt::test::putOnFakeStream(cudaStream_t stream,
                                        const std::string &what, FakeMake make,
                                        unsigned blocks) {
  Lock lock(fakeMutex());
  FakeMachine &machine = FakeMachine::get();
  FakeStream *found = machine.streamOf(stream, what.c_str());
  if (!found)
    return cudaErrorInvalidResourceHandle;
  FakeOperation operation;
  operation.what = what;
  operation.make = std::move(make);
  return machine.put(*found, std::move(operation), blocks);
}

bool dtrt::test::touchFakeMemory(const void *data, uint64_t bytes, int gpu,
                                 const std::string &who, bool shared) {
  if (bytes == 0)
    return true;
  Lock lock(fakeMutex());
  FakeMachine &machine = FakeMachine::get();
  if (auto there = touchFakePages(data, bytes, gpu, who,
                                  shared ? UINT64_MAX : machine.running))
    return *there;
  auto found = machine.blockOf(data);
  if (found == machine.blocks.end()) {
    if (!machine.options.hostMemory)
      machine.fault(who + " touches memory that is no GPU's");
    return true;
  }
  const FakeBlock &block = found->second;
  auto *end = static_cast<const std::byte *>(data) + bytes;
  if (!block.live)
    machine.fault(who + " touches memory that was freed");
  else if (end > found->first + block.bytes)
    machine.fault(who + " touches bytes behind the end of its memory");
  else if (block.gpu >= 0 && block.gpu != gpu)
    machine.fault(who + " on GPU " + std::to_string(gpu) +
                  " touches memory of GPU " + std::to_string(block.gpu));
  return true;
}

void *dtrt::test::allocateFakeMemory(uint64_t bytes, int gpu, bool shared) {
  Lock lock(fakeMutex());
  return FakeMachine::get().allocate(bytes, gpu, shared);
}

void dtrt::test::freeFakeMemory(void *data, const std::string &call) {
  Lock lock(fakeMutex());
  FakeMachine::get().free(data, call);
}

bool dtrt::test::isFakeShared(const void *data) {
  Lock lock(fakeMutex());
  FakeMachine &machine = FakeMachine::get();
  auto found = machine.blockOf(data);
  return found != machine.blocks.end() && found->second.shared;
}
