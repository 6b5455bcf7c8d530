//===- nccl_wave.cpp - What a wave costs beside its bytes -----------------===//
//
// Waves of one small message that a rank sends to itself, by the way in which
// they are put on the GPU. One line of JSON each; without a GPU or NCCL one
// line says what is missing.
//
//===----------------------------------------------------------------------===//

#include "Stream.h"

#include "dtrt/cuda/GpuMemory.h"
#include "dtrt/nccl/NcclTransport.h"
#include "dtrt/store/MemoryStore.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>

namespace {

using namespace dtrt;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

constexpr const char *kExamples = R"(Examples:
  nccl-wave
  nccl-wave --waves 1000 --bytes 65536)";

struct Options {
  size_t waves = 1000;
  uint64_t bytes = 65536;
  unsigned repeat = 5;
};

/// How waves come onto the GPU.
enum class Way { Host, Stream, Graph, Puts };

struct Case {
  const char *name;
  Way way;
  NcclCalls calls;
};

constexpr Case kCases[] = {
    {"host waits, non-blocking calls", Way::Host, NcclCalls::Returning},
    {"host waits, blocking calls", Way::Host, NcclCalls::Blocking},
    {"on a stream, non-blocking calls", Way::Stream, NcclCalls::Returning},
    {"on a stream, blocking calls", Way::Stream, NcclCalls::Blocking},
    {"one graph", Way::Graph, NcclCalls::Blocking},
    {"one-sided", Way::Puts, NcclCalls::Blocking}};

/// Each wave from the first to the second half of the arena.
Traffic trafficOf(const Options &options) {
  MessageEnds send, receive;
  send.bytes = receive.bytes = options.bytes;
  receive.receive = true;
  receive.own.slot = send.other.slot = options.bytes;
  Traffic traffic;
  traffic.arenaBytes = 2 * options.bytes;
  traffic.groups.assign(options.waves, {send, receive});
  return traffic;
}

class Bench {
public:
  Bench(const Case &which, const Options &options)
      : which(which), options(options) {}

  /// Seconds of each run; empty where this way is not there.
  Result<std::vector<double>> run();

private:
  Status enqueueAll();
  Status capture();
  Status once();

  const Case &which;
  const Options &options;
  std::unique_ptr<NcclTransport> transport;
  std::vector<TransportMessage> messages;
  Stream stream;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t graphRun = nullptr;
};

Status Bench::enqueueAll() {
  for (size_t wave = 0; wave < options.waves; ++wave)
    DTRT_RETURN_IF_ERROR(transport->enqueue(wave, messages, stream.get()));
  return {};
}

Status Bench::capture() {
  DTRT_RETURN_IF_ERROR(cudaStatus(
      cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeRelaxed),
      "cannot capture"));
  Status status = enqueueAll();
  cudaError_t ended = cudaStreamEndCapture(stream.get(), &graph);
  DTRT_RETURN_IF_ERROR(status);
  DTRT_RETURN_IF_ERROR(cudaStatus(ended, "cannot capture"));
  return cudaStatus(cudaGraphInstantiate(&graphRun, graph, 0),
                    "cannot make a graph");
}

Status Bench::once() {
  if (which.way == Way::Host) {
    for (size_t wave = 0; wave < options.waves; ++wave)
      DTRT_RETURN_IF_ERROR(transport->group(messages));
    return {};
  }
  if (graphRun)
    DTRT_RETURN_IF_ERROR(cudaStatus(cudaGraphLaunch(graphRun, stream.get()),
                                    "cannot launch a graph"));
  else {
    transport->start([this] { return enqueueAll(); });
    DTRT_RETURN_IF_ERROR(transport->finish());
  }
  return stream.synchronize();
}

Result<std::vector<double>> Bench::run() {
  NcclOptions nccl;
  nccl.devices = {0};
  nccl.ranks =
      std::make_shared<Rendezvous>(std::make_shared<MemoryStore>(),
                                   /*rank=*/0, /*size=*/1, nccl.timeout);
  nccl.calls = which.calls;
  nccl.graph = which.way == Way::Graph;
  nccl.oneSided = which.way == Way::Puts;
  auto made = NcclTransport::create(nccl);
  DTRT_RETURN_IF_ERROR(made);
  transport = std::move(*made);
  DTRT_RETURN_IF_ERROR(transport->connect({}, {0}));
  auto arena = transport->prepare(trafficOf(options));
  DTRT_RETURN_IF_ERROR(arena);
  messages = {{false, 0, *arena, options.bytes},
              {true, 0, *arena + options.bytes, options.bytes}};
  DTRT_RETURN_IF_ERROR(transport->warmUp());
  std::vector<double> seconds;
  if (nccl.oneSided && !transport->oneSided())
    return seconds;
  DTRT_RETURN_IF_ERROR(stream.create(Urgency::Most));
  if (nccl.graph) {
    transport->start([this] { return capture(); });
    DTRT_RETURN_IF_ERROR(transport->finish());
  }
  DTRT_RETURN_IF_ERROR(once());
  for (unsigned i = 0; i < options.repeat; ++i) {
    auto begin = Clock::now();
    DTRT_RETURN_IF_ERROR(once());
    seconds.push_back(
        std::chrono::duration<double>(Clock::now() - begin).count());
  }
  if (graphRun)
    cudaGraphExecDestroy(graphRun);
  if (graph)
    cudaGraphDestroy(graph);
  transport->leave();
  return seconds;
}

void print(const Json &row) { printf("%s\n", row.dump().c_str()); }

Status runAll(const Options &options) {
  auto gpus = countGpus();
  if (!gpus.ok()) {
    print({{"bench", "nccl-wave"}, {"skipped", gpus.status().message()}});
    return {};
  }
  for (const Case &which : kCases) {
    auto seconds = Bench(which, options).run();
    DTRT_RETURN_IF_ERROR(seconds);
    if (seconds->empty()) {
      print({{"bench", "nccl-wave"},
             {"way", which.name},
             {"skipped", "not in this NCCL, or not on this machine"}});
      continue;
    }
    std::sort(seconds->begin(), seconds->end());
    double waves = double(options.waves);
    print({{"bench", "nccl-wave"},
           {"way", which.name},
           {"waves", options.waves},
           {"bytes", options.bytes},
           {"repeat", options.repeat},
           {"wave_us", (*seconds)[seconds->size() / 2] / waves * 1e6},
           {"min_us", seconds->front() / waves * 1e6},
           {"max_us", seconds->back() / waves * 1e6}});
  }
  return {};
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  CLI::App app{"Measures what a wave costs beside its bytes"};
  app.add_option("--waves", options.waves, "waves of a run")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--bytes", options.bytes, "bytes of a wave's message")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--repeat", options.repeat, "runs of each way")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.footer(kExamples);
  CLI11_PARSE(app, argc, argv);
  setenv("NCCL_GRAPH_REGISTER", "0", /*overwrite=*/0); // as for dt-run's ranks
  Status status = runAll(options);
  if (status.ok())
    return 0;
  fprintf(stderr, "error: %s\n", status.message().c_str());
  return 1;
}
