//===- executor_bw.cpp - The loopback executor against memcpy -------------===//
//
// Runs a plan again and again on the loopback transport, and between two runs a
// plain memcpy of as many bytes with as many threads as the executor keeps
// busy. Prints one line of JSON: medians, spread and the ratio of the two.
//
//===----------------------------------------------------------------------===//

#include "dtrt/core/MemorySource.h"
#include "dtrt/world/LoopbackRun.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char *kExamples = R"(Examples:
  executor-bw large.dtplan
  executor-bw --staged --repeat 9 experts.dtplan)";

struct Options {
  std::string plan;
  std::string name;
  bool staged = false;
  unsigned repeat = 7;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
};

/// Of the whole process: on a machine that others use too it says more than
/// the clock on the wall.
double cpuSeconds() { return double(std::clock()) / CLOCKS_PER_SEC; }

/// One contiguous copy, each thread a part of it; pages are mapped before.
class PlainCopy {
public:
  PlainCopy(uint64_t bytes, unsigned threads)
      : bytes(bytes), threads(threads), from(allocate(bytes)),
        to(allocate(bytes)) {}

  double seconds() {
    std::vector<std::thread> pool;
    Clock::time_point begin = Clock::now();
    for (unsigned i = 0; i < threads; ++i)
      pool.emplace_back([this, i] {
        uint64_t lo = bytes / threads * i;
        uint64_t hi = i + 1 == threads ? bytes : bytes / threads * (i + 1);
        memcpy(to.get() + lo, from.get() + lo, hi - lo);
      });
    for (std::thread &thread : pool)
      thread.join();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

private:
  using Block = std::unique_ptr<std::byte, std::function<void(std::byte *)>>;
  /// The same kind of memory as the executor's shards.
  static Block allocate(uint64_t bytes) {
    dtrt::MemorySource memory = dtrt::hostMemory();
    return Block(memory.allocate(bytes), memory.free);
  }

  uint64_t bytes;
  unsigned threads;
  Block from, to;
};

/// The middle of the samples, and how far they reach around it.
struct Spread {
  double median = 0, low = 0, high = 0;
};

Spread spreadOf(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return {samples[samples.size() / 2], samples.front(), samples.back()};
}

nlohmann::ordered_json json(const Spread &seconds, uint64_t bytes) {
  return {{"median_s", seconds.median},
          {"min_s", seconds.low},
          {"max_s", seconds.high},
          {"GBps", double(bytes) / seconds.median / 1e9}};
}

int fail(const dtrt::Status &status) {
  fprintf(stderr, "error: %s\n", status.message().c_str());
  return 1;
}

int run(const Options &options) {
  auto plan = dtrt::PlanReader::open(options.plan);
  if (!plan.ok())
    return fail(plan.status());
  if (plan->common().summary.mode != dtrt::MemoryMode::Rollback)
    return fail(dtrt::makeError("plan of mode flat, expected rollback: only "
                                "such a plan can run twice"));
  dtrt::LoopbackOptions loopback;
  loopback.staged = options.staged;
  auto session = dtrt::LoopbackSession::prepare(*plan, loopback);
  if (!session.ok())
    return fail(session.status());
  auto first = (*session)->run(); // warms up, and says how many bytes move
  if (!first.ok())
    return fail(first.status());
  PlainCopy plain(first->bytesMoved, options.threads);
  plain.seconds();
  std::vector<double> executor, copy, ratios, cpuRatios;
  for (unsigned i = 0; i < options.repeat; ++i) {
    double start = cpuSeconds();
    auto report = (*session)->run();
    double middle = cpuSeconds();
    if (!report.ok())
      return fail(report.status());
    executor.push_back(report->seconds);
    copy.push_back(plain.seconds());
    cpuRatios.push_back((cpuSeconds() - middle) / (middle - start));
    ratios.push_back(copy.back() / executor.back());
  }
  Spread ratio = spreadOf(ratios), cpuRatio = spreadOf(cpuRatios);
  nlohmann::ordered_json out = {
      {"bench", "executor-bw"},
      {"case", options.name.empty() ? options.plan : options.name},
      {"staged", options.staged},
      {"devices", plan->devices().size()},
      {"threads", options.threads},
      {"bytes", first->bytesMoved},
      {"repeat", options.repeat},
      {"executor", json(spreadOf(executor), first->bytesMoved)},
      {"memcpy", json(spreadOf(copy), first->bytesMoved)},
      {"ratio",
       {{"median", ratio.median}, {"min", ratio.low}, {"max", ratio.high}}},
      {"cpu_ratio",
       {{"median", cpuRatio.median},
        {"min", cpuRatio.low},
        {"max", cpuRatio.high}}}};
  printf("%s\n", out.dump().c_str());
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  CLI::App app{"Compares the loopback executor with memcpy"};
  app.add_option("PLAN", options.plan, "plan file of mode rollback")
      ->required();
  app.add_option("--name", options.name, "what to call the case");
  app.add_flag("--staged", options.staged,
               "pack and unpack as the plan says, as other transports do");
  app.add_option("--repeat", options.repeat, "runs of each, after one more")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--threads", options.threads, "threads of the memcpy")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.footer(kExamples);
  CLI11_PARSE(app, argc, argv);
  return run(options);
}
