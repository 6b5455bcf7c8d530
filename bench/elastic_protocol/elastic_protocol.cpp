//===- elastic_protocol.cpp - What a switch costs the store ---------------===//
//
// Simulated worlds: processes that only speak to the store, each a `JobDriver`
// with its own client, served by a few threads. A world is founded, then
// switched again and again: to another layout, and with one process replaced.
// At last one falls silent, and the others go on without it. Work takes no
// time, so that all time is the protocol's. Before that nothing happens for two
// seconds: what a member costs by itself. Prints a table, or lines of JSON.
//
//===----------------------------------------------------------------------===//

#include "dtrt/manager/JobDriver.h"
#include "dtrt/store/MemoryStore.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <ctime>
#include <functional>
#include <thread>

using namespace dtrt;

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char *kExamples = R"(Examples:
  elastic-protocol
  elastic-protocol --members 256 1024 --switches 9 --json)";

constexpr std::chrono::seconds kIdle(2);

struct Options {
  std::vector<size_t> members{4, 64, 256, 1024};
  unsigned switches = 5;
  double timeout = 30;
  bool mayHang = false;
  bool json = false;
};

/// Of one process: counts its calls of the store that all share.
class CountingStore : public Store {
public:
  CountingStore(std::shared_ptr<MemoryStore> store, bool mayHang)
      : store(std::move(store)), mayHang(mayHang) {}
  bool answersAtOnce() const override { return !mayHang; }
  Status set(const std::string &key, const std::string &value) override {
    ++calls;
    return store->set(key, value);
  }
  Result<std::optional<std::string>> get(const std::string &key) override {
    ++calls;
    return store->get(key);
  }
  Result<std::string> compareAndSet(const std::string &key,
                                    const std::string &expected,
                                    const std::string &desired) override {
    ++calls;
    return store->compareAndSet(key, expected, desired);
  }
  Result<int64_t> add(const std::string &key, int64_t amount) override {
    ++calls;
    return store->add(key, amount);
  }
  Status remove(const std::string &key) override {
    ++calls;
    return store->remove(key);
  }
  std::atomic<uint64_t> calls{0};

private:
  std::shared_ptr<MemoryStore> store;
  bool mayHang;
};

/// A process whose work is over at once, and whose trainer steps only where a
/// boundary lies ahead.
class Process : public JobWork {
public:
  Process(const std::shared_ptr<MemoryStore> &shared, const ProcessName &name,
          const JobTimes &times, bool mayHang)
      : name(name), store(std::make_shared<CountingStore>(shared, mayHang)),
        driver(store, name, times, *this) {}

  void prepare(const JobRecord &record) override {
    driver.ended(JobAction::What::Prepare, record.attempt);
  }
  void transfer(const JobRecord &record) override {
    driver.ended(JobAction::What::Transfer, record.attempt);
  }
  void verify(const JobRecord &record) override {
    driver.ended(JobAction::What::Verify, record.attempt);
  }
  void adopt(const JobRecord &record) override {
    step = record.firstStep;
    epoch = record.world->has(name) ? record.epoch : 0;
  }
  void discard(uint64_t, const Status &why) override {
    fprintf(stderr, "%s: %s\n", name.c_str(), why.message().c_str());
  }
  void refused(const Status &why) override { discard(0, why); }
  void stopped(JobEnd, const Status &) override { isSilent = true; }

  /// As threads of its own would.
  void run() {
    next = driver.turn();
    if (epoch == 0 || !driver.mayStep())
      return;
    JobRecord record = driver.record();
    if (record.phase == JobPhase::Transferring && step < record.horizon)
      driver.atBoundary(++step);
  }

  const ProcessName name;
  std::shared_ptr<CountingStore> store;
  std::atomic<uint64_t> epoch{0}; // of its world; 0: in none
  std::atomic<bool> isSilent{false};

private:
  uint64_t step = 0;

public:
  Deadline next{}; // of its thread
  JobDriver driver;
};

/// Of all threads of this process, so far.
double cpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

struct Measured {
  double seconds = 0; // from the request until all are in the new world
  double cpu = 0;     // seconds of it, of all processes together
  double calls = 0;   // of the store, per process
  double most = 0;    // of one process
};

/// A world of so many processes, and some that wait outside.
class Simulation {
public:
  Simulation(const Options &options, size_t members, const JobTimes &times)
      : size(members), store(std::make_shared<MemoryStore>()) {
    size_t spares = options.switches;
    for (size_t i = 0; i < members + spares; ++i)
      processes.push_back(std::make_unique<Process>(
          store, "process-" + std::to_string(i), times, options.mayHang));
    size_t count = std::max(1u, std::thread::hardware_concurrency());
    for (size_t first = 0; first < count; ++first)
      threads.emplace_back([this, first, count] { serve(first, count); });
  }
  ~Simulation() {
    done = true;
    for (std::thread &thread : threads)
      thread.join();
  }

  Measured found() {
    JobRequest request;
    for (size_t i = 0; i < size; ++i)
      request.join.push_back(processes[i]->name);
    return measure(processes[0].get(), request);
  }
  /// One member asks for another layout.
  Measured layOut(size_t number) {
    JobRequest request;
    request.layout = "layout " + std::to_string(number);
    return measure(processes[gone + number % size].get(), request);
  }
  /// A process that waits outside asks to take the place of a member.
  Measured replace() {
    Process *joiner = processes[gone + size].get();
    JobRequest request;
    request.join = {joiner->name};
    request.leave = {processes[gone++]->name};
    return measure(joiner, request);
  }
  /// Nobody asks for anything.
  Measured idle() {
    return measure([] { std::this_thread::sleep_for(kIdle); });
  }
  /// A member falls silent; the others find out and go on without it.
  Measured lose() {
    processes[gone++]->isSilent = true;
    --size;
    return measure(nullptr, {});
  }

private:
  void serve(size_t first, size_t count) {
    while (!done) {
      Deadline earliest = deadlineIn(Seconds(0.001));
      for (size_t i = first; i < processes.size(); i += count) {
        Process &process = *processes[i];
        if (process.isSilent)
          continue;
        if (Clock::now() >= process.next)
          process.run();
        earliest = std::min(earliest, process.next);
      }
      std::this_thread::sleep_until(earliest);
    }
  }
  bool allAreIn(uint64_t world) const {
    for (size_t i = gone; i < gone + size; ++i)
      if (processes[i]->epoch != world)
        return false;
    return true;
  }

  Measured measure(Process *asking, const JobRequest &request) {
    return measure([&] {
      if (asking)
        asking->driver.ask(request);
      while (!allAreIn(epoch + 1))
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      ++epoch;
    });
  }

  Measured measure(const std::function<void()> &happens) {
    std::vector<uint64_t> before;
    for (const auto &process : processes)
      before.push_back(process->store->calls);
    Measured measured;
    double cpu = cpuSeconds();
    Clock::time_point begin = Clock::now();
    happens();
    measured.seconds = Seconds(Clock::now() - begin).count();
    measured.cpu = cpuSeconds() - cpu;
    for (size_t i = 0; i < processes.size(); ++i) {
      double calls = double(processes[i]->store->calls - before[i]);
      measured.calls += calls / double(size);
      measured.most = std::max(measured.most, calls);
    }
    return measured;
  }

  size_t size;
  size_t gone = 0; // processes that are not in the world any more: the first
  uint64_t epoch = 0;
  std::shared_ptr<MemoryStore> store;
  std::vector<std::unique_ptr<Process>> processes;
  std::vector<std::thread> threads;
  std::atomic<bool> done{false};
};

Measured medianOf(const std::vector<Measured> &all) {
  auto middle = [&](double Measured::*field) {
    std::vector<double> values;
    for (const Measured &one : all)
      values.push_back(one.*field);
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  };
  return {middle(&Measured::seconds), middle(&Measured::cpu),
          middle(&Measured::calls), middle(&Measured::most)};
}

void print(const Options &options, size_t members, const char *what,
           const Measured &measured) {
  if (options.json) {
    nlohmann::json line = {{"members", members},
                           {"switch", what},
                           {"seconds", measured.seconds},
                           {"cpu_seconds", measured.cpu},
                           {"calls_per_member", measured.calls},
                           {"most_calls", measured.most}};
    printf("%s\n", line.dump().c_str());
  } else {
    printf("%7zu  %-8s %8.3f %6.2f %13.1f %12.0f\n", members, what,
           measured.seconds, measured.cpu, measured.calls, measured.most);
  }
  fflush(stdout);
}

void simulate(const Options &options, size_t members, const JobTimes &times) {
  Simulation world(options, members, times);
  print(options, members, "found", world.found());
  std::vector<Measured> layouts, replacements;
  for (unsigned i = 0; i < options.switches; ++i)
    layouts.push_back(world.layOut(i));
  print(options, members, "layout", medianOf(layouts));
  for (unsigned i = 0; i < options.switches; ++i)
    replacements.push_back(world.replace());
  print(options, members, "replace", medianOf(replacements));
  print(options, members, "idle", world.idle());
  print(options, members, "loss", world.lose());
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  CLI::App app{"What a switch costs the store, in simulated worlds"};
  app.footer(kExamples);
  app.add_option("--members", options.members, "processes of each world")
      ->check(CLI::Range(size_t(2), size_t(1) << 20));
  app.add_option("--switches", options.switches,
                 "of each kind, of which the medians are printed")
      ->check(CLI::PositiveNumber);
  app.add_option("--timeout", options.timeout, "of the job, in seconds");
  app.add_flag("--may-hang", options.mayHang,
               "calls of the store on a thread of each process, as where it "
               "may not answer");
  app.add_flag("--json", options.json, "a line of JSON for each row");
  CLI11_PARSE(app, argc, argv);
  auto times = JobTimes::from(Seconds(options.timeout));
  if (!times.ok()) {
    fprintf(stderr, "error: %s\n", times.status().message().c_str());
    return 1;
  }
  if (!options.json)
    printf("members  switch    seconds    cpu calls/process  most of one\n");
  for (size_t members : options.members)
    simulate(options, members, *times);
}
