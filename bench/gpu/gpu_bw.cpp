//===- gpu_bw.cpp - Box copies and plans on one GPU -----------------------===//
//
// Without a plan: packs of single shapes against a device-to-device copy of as
// many bytes. With plans: each runs with all its devices on one GPU. One line
// of JSON each; without a GPU one line says why there is none.
//
//===----------------------------------------------------------------------===//

#include "dtrt/core/BoxTable.h"
#include "dtrt/core/MemorySource.h"
#include "dtrt/cuda/GpuBoxTable.h"
#include "dtrt/cuda/GpuLoopback.h"
#include "dtrt/cuda/GpuMemory.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>

namespace {

using namespace dtrt;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

constexpr const char *kExamples = R"(Examples:
  gpu-bw
  gpu-bw qwen3-30b-slice.dtplan gpt3-1.3b.dtplan)";

struct Options {
  std::vector<std::string> plans;
  unsigned repeat = 7;
  /// What one launch of the shape cases moves.
  int64_t bytes = int64_t(1) << 30;
};

struct Shape {
  const char *name;
  int64_t run;       // bytes
  int64_t pitch;     // of the strided side
  size_t misaligned; // bytes that the packed side is off
};

/// Whole shards; TP of dim 1; gate and up; experts cut thin; unaligned.
constexpr Shape kShapes[] = {
    {"contiguous", 16 << 20, 16 << 20, 0},
    {"tp-dim1", 2048, 8192, 0},
    {"gate-up", 7 << 20, 14 << 20, 0},
    {"thin-64B", 64, 512, 0},
    {"thin-16B", 16, 128, 0},
    {"thin-8B", 8, 64, 0},
    {"misaligned-2B", 2048, 8192, 2},
};

double secondsOf(const std::function<Status()> &work, Status &status) {
  Clock::time_point begin = Clock::now();
  status = work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Median, lowest and highest of the runs after a first one.
Result<Json> measure(unsigned repeat, const std::function<Status()> &work) {
  std::vector<double> samples;
  Status status = work();
  for (unsigned i = 0; status.ok() && i < repeat; ++i)
    samples.push_back(secondsOf(work, status));
  DTRT_RETURN_IF_ERROR(status);
  std::sort(samples.begin(), samples.end());
  return Json{{"median_s", samples[samples.size() / 2]},
              {"min_s", samples.front()},
              {"max_s", samples.back()}};
}

using Block = std::unique_ptr<std::byte, std::function<void(std::byte *)>>;

Result<Block> allocate(uint64_t bytes) {
  MemorySource memory = gpuMemory();
  Block block(memory.allocate(bytes), memory.free);
  if (!block)
    return makeError("cannot allocate ", bytes, " bytes on the GPU");
  return block;
}

Status benchShape(const Shape &shape, const Options &options) {
  int64_t runs = std::max<int64_t>(options.bytes / shape.run, 1);
  int64_t bytes = runs * shape.run;
  auto strided = allocate(uint64_t(runs * shape.pitch));
  DTRT_RETURN_IF_ERROR(strided);
  auto packed = allocate(uint64_t(bytes) + 16);
  DTRT_RETURN_IF_ERROR(packed);
  BoxTable table;
  StridedCopy copy;
  copy.run = shape.run;
  copy.dims = {{runs, shape.pitch, shape.run}};
  table.add(packed->get() + shape.misaligned, strided->get(), copy);
  auto uploaded = GpuBoxTable::upload(table);
  DTRT_RETURN_IF_ERROR(uploaded);
  auto kernel = measure(options.repeat, [&] { return uploaded->run(); });
  DTRT_RETURN_IF_ERROR(kernel);
  CopyBytes copyOnGpu = gpuCopies();
  auto plain = measure(options.repeat, [&] {
    return copyOnGpu(packed->get(), strided->get(), uint64_t(bytes));
  });
  DTRT_RETURN_IF_ERROR(plain);
  double ratio = double((*plain)["median_s"]) / double((*kernel)["median_s"]);
  printf("%s\n", Json{{"bench", "gpu-bw"},
                      {"case", shape.name},
                      {"bytes", bytes},
                      {"repeat", options.repeat},
                      {"kernel", *kernel},
                      {"device_to_device", *plain},
                      {"ratio", ratio}}
                     .dump()
                     .c_str());
  return {};
}

Status benchPlan(const std::string &path, unsigned repeat) {
  auto plan = PlanReader::open(path);
  DTRT_RETURN_IF_ERROR(plan);
  std::vector<double> samples;
  uint64_t bytes = 0;
  for (unsigned i = 0; i < repeat; ++i) {
    auto report = runGpuLoopback(*plan, /*check=*/i == 0);
    DTRT_RETURN_IF_ERROR(report);
    if (report->check.mismatches > 0)
      return makeError(path, ": ", report->check.mismatches, " mismatches");
    bytes = report->bytesMoved;
    samples.push_back(report->seconds);
  }
  std::sort(samples.begin(), samples.end());
  auto from = allocate(bytes / 2);
  DTRT_RETURN_IF_ERROR(from);
  auto to = allocate(bytes / 2);
  DTRT_RETURN_IF_ERROR(to);
  // In two halves, as large plans leave no room for a third copy.
  CopyBytes copyOnGpu = gpuCopies();
  auto plain = measure(repeat, [&] {
    DTRT_RETURN_IF_ERROR(copyOnGpu(to->get(), from->get(), bytes / 2));
    return copyOnGpu(to->get(), from->get(), bytes / 2);
  });
  DTRT_RETURN_IF_ERROR(plain);
  double median = samples[samples.size() / 2];
  printf("%s\n", Json{{"bench", "gpu-bw"},
                      {"case", path},
                      {"devices", plan->devices().size()},
                      {"bytes", bytes},
                      {"repeat", repeat},
                      {"median_s", median},
                      {"min_s", samples.front()},
                      {"max_s", samples.back()},
                      {"device_to_device", *plain},
                      {"ratio", double((*plain)["median_s"]) / median}}
                     .dump()
                     .c_str());
  return {};
}

Status run(const Options &options) {
  auto gpus = countGpus();
  if (!gpus.ok()) {
    printf("%s\n",
           Json{{"bench", "gpu-bw"}, {"skipped", gpus.status().message()}}
               .dump()
               .c_str());
    return {};
  }
  for (const std::string &plan : options.plans)
    DTRT_RETURN_IF_ERROR(benchPlan(plan, options.repeat));
  if (options.plans.empty())
    for (const Shape &shape : kShapes)
      DTRT_RETURN_IF_ERROR(benchShape(shape, options));
  return {};
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  CLI::App app{"Measures box copies and plans on one GPU"};
  app.add_option("PLAN", options.plans, "plan files of mode rollback");
  app.add_option("--repeat", options.repeat, "runs of each")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--bytes", options.bytes, "bytes of a shape")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.footer(kExamples);
  CLI11_PARSE(app, argc, argv);
  Status status = run(options);
  if (status.ok())
    return 0;
  fprintf(stderr, "error: %s\n", status.message().c_str());
  return 1;
}
