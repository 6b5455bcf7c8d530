//===- gpu_flat.cpp - Plans of mode flat in a pool of limited size --------===//
//
// All devices of a plan share one GPU and one pool of pages, which has room for
// the larger of each device's two sides and so many bytes more, staging among
// them. Every byte is compared, and the GPU's free memory is looked at while
// the plan runs. One line of JSON each; without a GPU one line says why there
// is none.
//
//===----------------------------------------------------------------------===//

#include "dtrt/cuda/GpuLoopback.h"
#include "dtrt/cuda/GpuMemory.h"
#include "dtrt/cuda/GpuPages.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace {

using namespace dtrt;
using Json = nlohmann::ordered_json;

constexpr const char *kExamples = R"(Example:
  gpu-flat gpt3-1.3b-flat.dtplan --room 1GiB)";
constexpr auto kBetweenLooks = std::chrono::milliseconds(2);

struct Options {
  std::vector<std::string> plans;
  uint64_t room = uint64_t(1) << 30;
  unsigned repeat = 5;
};

/// How much of a GPU's memory is taken at most while this lives, beside what
/// was before.
class MostTaken {
public:
  explicit MostTaken(int gpu) : gpu(gpu), before(freeBytes()) {
    thread = std::thread([this] {
      while (!isOver) {
        look();
        std::this_thread::sleep_for(kBetweenLooks);
      }
    });
  }
  ~MostTaken() { end(); }

  uint64_t end() {
    isOver = true;
    if (thread.joinable()) {
      thread.join();
      look();
    }
    return most;
  }

private:
  uint64_t freeBytes() const {
    auto room = roomOn(gpu);
    return room.ok() ? room->free : 0;
  }
  void look() {
    if (uint64_t now = freeBytes(); now < before)
      most = std::max(most, before - now);
  }

  const int gpu;
  const uint64_t before;
  uint64_t most = 0;
  std::atomic<bool> isOver = false;
  std::thread thread;
};

/// What a plan needs, summed over its devices.
struct Needs {
  uint64_t state = 0; // the larger of both sides
  uint64_t staging = 0;
};

Result<Needs> needsOf(const PlanReader &plan) {
  Needs needs;
  for (uint32_t device : plan.devices()) {
    auto program = plan.program(device);
    DTRT_RETURN_IF_ERROR(program);
    LocalStorage storage(plan.common(), *program);
    uint64_t sides[2] = {};
    for (Side side : {Side::Source, Side::Destination})
      for (uint32_t i = 0; i < storage.shards(side).size(); ++i)
        for (unsigned state : statesOf(storage.shards(side)[i].states))
          sides[side == Side::Source] += uint64_t(
              storage.members(side, i) * storage.memberBytes(side, i, state));
    needs.state += std::max(sides[0], sides[1]);
    needs.staging += program->stagingBytes;
  }
  return needs;
}

Status benchPlan(const std::string &path, const Options &options) {
  auto plan = PlanReader::open(path);
  DTRT_RETURN_IF_ERROR(plan);
  if (plan->common().summary.mode != MemoryMode::Flat)
    return makeError(path, ": expected a plan of mode flat");
  auto needs = needsOf(*plan);
  DTRT_RETURN_IF_ERROR(needs);
  const uint64_t limit = needs->state + options.room;
  if (needs->staging > limit)
    return makeError(path, ": ", needs->staging, " bytes of staging, more than",
                     " the ", limit, " bytes that there are to be");
  MostTaken taken(/*gpu=*/0);
  auto pages = GpuPages::create(/*gpu=*/0, limit - needs->staging);
  DTRT_RETURN_IF_ERROR(pages);
  auto checked = runGpuLoopback(*plan, /*check=*/true, /*gpu=*/0, *pages);
  DTRT_RETURN_IF_ERROR(checked);
  if (checked->check.mismatches > 0)
    return makeError(path, ": ", checked->check.mismatches, " mismatches");
  const uint64_t most = taken.end();
  std::vector<double> samples;
  for (unsigned i = 0; i < options.repeat; ++i) {
    auto report = runGpuLoopback(*plan, /*check=*/false, /*gpu=*/0, *pages);
    DTRT_RETURN_IF_ERROR(report);
    samples.push_back(report->seconds);
  }
  std::sort(samples.begin(), samples.end());
  printf("%s\n", Json{{"bench", "gpu-flat"},
                      {"case", path},
                      {"devices", plan->devices().size()},
                      {"bytes_checked", checked->check.bytesChecked},
                      {"state_bytes", needs->state},
                      {"limit_bytes", limit},
                      {"staging_bytes", needs->staging},
                      {"pages_bytes",
                       (*pages)->counts().mostCreated * (*pages)->page()},
                      {"taken_bytes", most},
                      {"repeat", options.repeat},
                      {"median_s", samples[samples.size() / 2]},
                      {"min_s", samples.front()},
                      {"max_s", samples.back()}}
                     .dump()
                     .c_str());
  return {};
}

Status run(const Options &options) {
  auto gpus = countGpus();
  if (!gpus.ok()) {
    printf("%s\n",
           Json{{"bench", "gpu-flat"}, {"skipped", gpus.status().message()}}
               .dump()
               .c_str());
    return {};
  }
  DTRT_RETURN_IF_ERROR(useGpu(0));
  for (const std::string &plan : options.plans)
    DTRT_RETURN_IF_ERROR(benchPlan(plan, options));
  return {};
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  CLI::App app{"Runs plans of mode flat in a pool of limited size"};
  app.add_option("PLAN", options.plans, "plan files of mode flat")->required();
  app.add_option("--room", options.room,
                 "bytes beside the larger side of each device")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->capture_default_str();
  app.add_option("--repeat", options.repeat, "runs of each, beside a first one")
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
