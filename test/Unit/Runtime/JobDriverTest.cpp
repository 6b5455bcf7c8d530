//===- JobDriverTest.cpp - Processes of a job, through a store ------------===//
//
// Processes are threads, on stores in memory and in a folder.
//
//===----------------------------------------------------------------------===//

#include "ExpectContains.h"

#include "dtrt/manager/JobDriver.h"
#include "dtrt/store/FileStore.h"
#include "dtrt/store/MemoryStore.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <thread>

using namespace dtrt;
using namespace dtrt::test;

namespace {

/// Longer than any process needs on a loaded machine.
const Seconds kAmple(100);

/// Of processes that nobody takes for lost, however long a loaded machine keeps
/// them from their signs of life.
JobTimes patient(Seconds timeout = kAmple) {
  JobTimes times = *JobTimes::from(timeout);
  times.silentBeats = uint64_t(1) << 40;
  return times;
}

/// Of processes that soon take one for lost: threads of one process, of which
/// none stands still while another beats so often.
JobTimes watchful() {
  JobTimes times = *JobTimes::from(kAmple);
  times.beat = Seconds(0.05);
  times.silentBeats = 200;
  return times;
}

/// One process: a thread that drives, and a trainer that steps.
class Process : public JobWork {
public:
  Process(std::shared_ptr<Store> store, const ProcessName &name,
          const JobTimes &times = patient())
      : driver(std::move(store), name, times, *this), name(name),
        drives([this] { driver.run(); }), trains([this] { train(); }) {}
  ~Process() { stop(); }

  void prepare(const JobRecord &record) override {
    if (failsToPrepare.exchange(false))
      return driver.failed(record.attempt, makeError("no memory"));
    driver.ended(JobAction::What::Prepare, record.attempt);
  }
  void transfer(const JobRecord &record) override {
    stoodAt = steps.load();
    boundary = record.horizon;
    if (hangs)
      return;
    driver.ended(JobAction::What::Transfer, record.attempt);
  }
  void verify(const JobRecord &record) override {
    driver.ended(JobAction::What::Verify, record.attempt);
  }
  void adopt(const JobRecord &record) override {
    std::lock_guard<std::mutex> lock(mutex);
    bool stays = record.world->has(name);
    if (stays)
      steps = record.firstStep;
    layout = record.world->layout;
    epoch = stays ? record.epoch : 0;
  }
  void discard(uint64_t, const Status &reason) override { note(reason); }
  void refused(const Status &reason) override { note(reason); }
  void stopped(JobEnd end, const Status &reason) override {
    note(reason);
    ended = end;
  }

  /// Ends without a word.
  void stop() {
    done = true;
    driver.cancel(makeError(ErrorCode::Cancelled, "the test is over"));
    if (drives.joinable())
      drives.join();
    if (trains.joinable())
      trains.join();
  }
  std::string why() const {
    std::lock_guard<std::mutex> lock(mutex);
    return reasons;
  }

  JobDriver driver;
  const ProcessName name;
  std::atomic<uint64_t> epoch{0}, steps{0}, stoodAt{0}, boundary{0};
  std::atomic<JobEnd> ended{JobEnd::None};
  std::atomic<bool> failsToPrepare{false}, hangs{false};
  std::string layout;

private:
  void train() {
    while (!done) {
      if (driver.mayStep())
        driver.atBoundary(++steps);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void note(const Status &reason) {
    std::lock_guard<std::mutex> lock(mutex);
    reasons += reason.message() + "\n";
  }

  mutable std::mutex mutex;
  std::string reasons;
  std::atomic<bool> done{false};
  std::thread drives, trains;
};

template <typename Condition> void await(Condition condition) {
  while (!condition())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

class JobDrivers : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "dt-job-" + std::string(6, 'X');
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override {
    processes.clear();
    std::filesystem::remove_all(folder);
  }

  std::shared_ptr<Store> open() {
    if (GetParam() == std::string("file"))
      return std::make_shared<FileStore>(folder);
    return memory;
  }
  Process &start(const ProcessName &name, const JobTimes &times = patient()) {
    processes.push_back(std::make_unique<Process>(open(), name, times));
    return *processes.back();
  }
  /// A world of these, who are in it when this returns.
  void found(const std::vector<ProcessName> &names,
             const JobTimes &times = patient()) {
    for (const ProcessName &name : names)
      start(name, times);
    JobRequest request;
    request.join = names;
    processes[0]->driver.ask(request);
    awaitWorld(1);
  }
  void awaitWorld(uint64_t epoch) {
    for (auto &process : processes)
      await([&] {
        return process->epoch == epoch || process->ended != JobEnd::None;
      });
  }

  std::string folder;
  std::shared_ptr<MemoryStore> memory = std::make_shared<MemoryStore>();
  std::vector<std::unique_ptr<Process>> processes;
};

} // namespace

TEST_P(JobDrivers, GoFromWorldToWorldAtOneStep) {
  found({"a", "b", "c"});
  for (uint64_t epoch = 2; epoch <= 4; ++epoch) {
    JobRequest request;
    request.layout = "layout " + std::to_string(epoch);
    processes[epoch % 3]->driver.ask(request);
    awaitWorld(epoch);
    for (auto &process : processes) {
      EXPECT_EQ(process->stoodAt, process->boundary);
      EXPECT_EQ(process->boundary, processes[0]->boundary);
      EXPECT_EQ(process->layout, request.layout);
    }
  }
}

TEST_P(JobDrivers, OneJoinsAndOneLeaves) {
  found({"a", "b"});
  Process &joiner = start("c");
  JobRequest request;
  request.join = {"c"};
  request.leave = {"b"};
  joiner.driver.ask(request);
  awaitWorld(2);
  EXPECT_EQ(joiner.epoch, 2u);
  EXPECT_EQ(processes[0]->epoch, 2u);
  EXPECT_EQ(processes[1]->ended.load(), JobEnd::Left);
}

TEST_P(JobDrivers, AFailureLeavesTheOldWorldAndMayBeTriedAgain) {
  found({"a", "b"});
  processes[1]->failsToPrepare = true;
  JobRequest request;
  request.layout = "x";
  processes[0]->driver.ask(request);
  for (auto &process : processes) {
    await([&] { return !process->why().empty(); });
    EXPECT_EQ(process->why(), "b has ended the attempt: no memory\n");
    EXPECT_EQ(process->epoch, 1u);
  }
  uint64_t step = processes[0]->steps;
  await([&] { return processes[0]->steps > step; });
  processes[0]->driver.ask(request);
  awaitWorld(2);
}

TEST_P(JobDrivers, NobodyWaitsLongerThanTheTimeout) {
  found({"a", "b"}, patient(Seconds(20)));
  processes[1]->hangs = true;
  JobRequest request;
  request.layout = "x";
  processes[0]->driver.ask(request);
  for (auto &process : processes) {
    await([&] { return !process->why().empty(); });
    expectContains(process->why(), "timeout");
    EXPECT_EQ(process->epoch, 1u);
  }
}

TEST_P(JobDrivers, ASilentProcessIsLost) {
  found({"a", "b", "c"}, watchful());
  processes[1]->stop();
  awaitWorld(2);
  EXPECT_EQ(processes[0]->driver.record().world->members,
            (std::vector<ProcessName>{"a", "c"}));
}

INSTANTIATE_TEST_SUITE_P(Runtime, JobDrivers, testing::Values("memory", "file"),
                         [](const auto &info) { return info.param; });

TEST(JobDriver, LeavesFewKeysBehind) {
  auto store = std::make_shared<MemoryStore>();
  Process a(store, "a"), b(store, "b");
  JobRequest request;
  request.join = {"a", "b"};
  for (uint64_t epoch = 1; epoch <= 5; ++epoch) {
    request.layout = std::to_string(epoch);
    a.driver.ask(request);
    await([&] { return a.epoch == epoch && b.epoch == epoch; });
  }
  await([&] {
    return a.driver.record().phase == JobPhase::Released &&
           b.driver.record().phase == JobPhase::Released;
  });
  // Signs of life, the record, and the world that it names.
  auto isSwept = [&] {
    for (const std::string &key : store->keys())
      if (key.find("/alive/") == std::string::npos && key != "dynatrain/job" &&
          key != "dynatrain/world/" + a.driver.record().world->name)
        return false;
    return true;
  };
  await(isSwept);
}

/// Whose work takes no time; its test turns the driver.
struct Prompt : JobWork {
  void prepare(const JobRecord &record) override {
    driver->ended(JobAction::What::Prepare, record.attempt);
  }
  void transfer(const JobRecord &record) override {
    driver->ended(JobAction::What::Transfer, record.attempt);
  }
  void verify(const JobRecord &record) override {
    driver->ended(JobAction::What::Verify, record.attempt);
  }
  void adopt(const JobRecord &record) override { epoch = record.epoch; }
  void discard(uint64_t, const Status &) override {}
  void refused(const Status &) override {}
  void stopped(JobEnd, const Status &) override {}

  JobDriver *driver = nullptr;
  uint64_t epoch = 0;
};

/// In a collective there the trainer would wait for those that have left it.
TEST(JobDriver, NoStepIsTakenInAWorldThatHasBeenLeft) {
  auto store = std::make_shared<MemoryStore>();
  Prompt work;
  JobDriver driver(store, "a", patient(), work);
  work.driver = &driver;
  JobRequest request;
  request.join = {"a"};
  uint64_t step = 0;
  for (uint64_t epoch = 1; epoch <= 3; ++epoch) {
    request.layout = std::to_string(epoch);
    driver.ask(request);
    while (work.epoch != epoch) {
      driver.turn();
      if (!driver.mayStep())
        continue;
      EXPECT_EQ(work.epoch, driver.record().epoch);
      if (driver.isQuiet())
        driver.atBoundary(++step);
    }
  }
}

/// A process that is slow to say so has its word in a counter that was removed.
TEST(JobDriver, WhoHasReadADecisionTooLateLeavesNoCounter) {
  auto store = std::make_shared<MemoryStore>();
  std::map<ProcessName, Prompt> works;
  std::map<ProcessName, std::unique_ptr<JobDriver>> drivers;
  for (const char *name : {"a", "b"}) {
    Prompt &work = works[name];
    drivers[name] = std::make_unique<JobDriver>(store, name, patient(), work);
    work.driver = drivers[name].get();
  }
  auto turn = [&](const ProcessName &name) {
    JobDriver &driver = *drivers[name];
    driver.turn();
    if (driver.mayStep() && driver.isQuiet())
      driver.atBoundary(driver.record().horizon);
  };
  JobRequest request;
  request.join = {"a", "b"};
  drivers["a"]->ask(request);
  while (works["a"].epoch != 1 || works["b"].epoch != 1) {
    turn("a");
    if (works["b"].epoch != 1)
      turn("b");
  }
  // "b" has yet to say that it has read this.
  request.layout = "x";
  drivers["a"]->ask(request);
  while (drivers["a"]->record().attempt != 2 || drivers["a"]->sweeps())
    turn("a");
  while (works["a"].epoch != 2 || works["b"].epoch != 2)
    turn("a"), turn("b");
  auto keys = store->keys();
  EXPECT_EQ(std::count(keys.begin(), keys.end(), "dynatrain/1/read"), 0);
}

TEST(JobDriver, SaysSoUntilTheKeysOfAnAttemptAreGone) {
  auto store = std::make_shared<MemoryStore>();
  Prompt work;
  JobDriver driver(store, "a", patient(), work);
  work.driver = &driver;
  JobRequest request;
  request.join = {"a"};
  driver.ask(request);
  bool hasSwept = false;
  auto isOver = [&] {
    JobRecord record = driver.record();
    return record.epoch == 1 && record.phase == JobPhase::Released;
  };
  while (!isOver() || driver.sweeps()) {
    driver.turn();
    hasSwept |= driver.sweeps();
  }
  EXPECT_TRUE(hasSwept);
  for (const std::string &key : store->keys())
    EXPECT_EQ(key.find("dynatrain/1/"), std::string::npos) << key;
}

TEST(JobDriver, EndsWithItsStoreAndKeepsWhatItHas) {
  auto store = std::make_shared<MemoryStore>();
  Process a(store, "a");
  ASSERT_TRUE(store->set("dynatrain/job", "{").ok());
  await([&] { return a.ended != JobEnd::None; });
  EXPECT_EQ(a.ended.load(), JobEnd::Stranded);
  expectContains(a.why(), "damaged");
}

TEST(JobDriver, SaysWhatCannotBe) {
  auto store = std::make_shared<MemoryStore>();
  Process a(store, "a");
  JobRequest request;
  request.join = {"a"};
  a.driver.ask(request);
  await([&] { return a.epoch == 1; });
  request = {};
  request.leave = {"a"};
  a.driver.ask(request);
  await([&] { return !a.why().empty(); });
  EXPECT_EQ(a.why(), "the world would have no member\n");
  EXPECT_EQ(a.epoch, 1u);
}

TEST(JobDriver, TimesEncloseEachOther) {
  EXPECT_FALSE(JobTimes::from(Seconds(0.5)).ok());
  EXPECT_FALSE(JobTimes::from(Seconds(-1)).ok());
  auto times = JobTimes::from(Seconds(300));
  ASSERT_TRUE(times.ok());
  Seconds suspicion = times->beat * double(times->silentBeats);
  EXPECT_LT(times->beat, suspicion);
  EXPECT_LT(suspicion, times->answer);
  EXPECT_LT(times->answer, times->wait);
  EXPECT_LT(times->wait + times->answer, times->timeout);
}
