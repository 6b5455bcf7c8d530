//===- JobBinding.cpp - A process's part in an elastic job ----------------===//

#include "JobBinding.h"

#include "C10dStore.h"
#include "Failure.h"
#include "Interruptible.h"
#include "OwnProcess.h"

#include <torch/csrc/utils/pybind.h>
#include <unistd.h>

namespace py = pybind11;

namespace dtrt {

namespace {

/// Between two looks whether the trainer may step, which nobody announces.
constexpr Seconds kLook(0.002);
/// The same of a process that closes.
constexpr Seconds kCloseLook(0.01);

} // namespace

LiveJob::LiveJob(c10::intrusive_ptr<c10d::Store> store, const std::string &name,
                 double timeout, const std::string &root, uint64_t lead)
    : trainers(std::move(store)), root(root),
      limits(take(JobTimes::from(Seconds(timeout)))),
      driver(makeC10dStore(trainers), name, limits, *this, root, lead),
      thread([this] { driver.run(); }) {}

LiveJob::~LiveJob() {
  driver.cancel(makeError(ErrorCode::Cancelled, "it has dropped the job"));
  if (thread.joinable())
    thread.join();
}

//===----------------------------------------------------------------------===//
// Keys of an attempt
//===----------------------------------------------------------------------===//

c10::intrusive_ptr<c10d::Store> LiveJob::store(uint64_t attempt) {
  std::lock_guard<std::mutex> lock(mutex);
  auto &store = stores[attempt];
  if (!store)
    store = c10::make_intrusive<JobStore>(
        trainers, root + "/" + std::to_string(attempt) + "/", limits.wait,
        limits.answer);
  if (attempt <= over)
    store->stop(overWhy);
  return store;
}

void LiveJob::leave(uint64_t attempt) {
  c10::intrusive_ptr<JobStore> store;
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = stores.find(attempt);
    if (found == stores.end())
      return;
    store = std::move(found->second);
    stores.erase(found);
  }
  store->removeOwn();
}

void LiveJob::stopStores(uint64_t upTo, const Status &why) {
  std::lock_guard<std::mutex> lock(mutex);
  over = upTo;
  overWhy = why;
  for (auto &[attempt, store] : stores)
    if (attempt <= upTo)
      store->stop(why);
}

//===----------------------------------------------------------------------===//
// The queue
//===----------------------------------------------------------------------===//

void LiveJob::give(JobTask task) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    tasks.push_back(std::move(task));
  }
  changed.notify_all();
}

void LiveJob::prepare(const JobRecord &record) {
  give({JobTask::What::Prepare, record.attempt, record, {}, JobEnd::None});
}

void LiveJob::transfer(const JobRecord &record) {
  give({JobTask::What::Transfer, record.attempt, record, {}, JobEnd::None});
}

void LiveJob::verify(const JobRecord &record) {
  give({JobTask::What::Verify, record.attempt, record, {}, JobEnd::None});
}

void LiveJob::adopt(const JobRecord &record) {
  give({JobTask::What::Adopt, record.bornOf, record, {}, JobEnd::None});
}

void LiveJob::discard(uint64_t attempt, const Status &why) {
  stopStores(attempt, why);
  give({JobTask::What::Discard, attempt, {}, why, JobEnd::None});
}

void LiveJob::refused(const Status &why) {
  give({JobTask::What::Refused, 0, {}, why, JobEnd::None});
}

void LiveJob::swept(uint64_t attempt) {
  give({JobTask::What::Swept, attempt, {}, {}, JobEnd::None});
}

void LiveJob::stopped(JobEnd end, const Status &why) {
  if (end != JobEnd::Left)
    stopStores(UINT64_MAX, why);
  give({JobTask::What::Stopped, 0, {}, why, end});
}

bool LiveJob::atBoundary(uint64_t step) {
  driver.atBoundary(step);
  std::lock_guard<std::mutex> lock(mutex);
  return tasks.empty() && driver.mayStep();
}

std::optional<JobTask> LiveJob::next(Seconds seconds) {
  Deadline deadline = deadlineIn(seconds);
  std::unique_lock<std::mutex> lock(mutex);
  while (tasks.empty() && !woken && !driver.mayStep() &&
         std::chrono::steady_clock::now() < deadline)
    changed.wait_for(lock, kLook);
  woken = false;
  if (tasks.empty())
    return std::nullopt;
  JobTask task = std::move(tasks.front());
  tasks.pop_front();
  return task;
}

void LiveJob::wake() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    woken = true;
  }
  changed.notify_all();
}

void LiveJob::notify(int file) {
  std::lock_guard<std::mutex> lock(mutex);
  noticeFile = file;
}

/// Where the file is full its reader has yet to look anyway.
void LiveJob::noticed() {
  std::lock_guard<std::mutex> lock(mutex);
  if (noticeFile >= 0 && ::write(noticeFile, "", 1) < 0)
    return;
}

void LiveJob::listen(Seconds seconds) {
  Deadline deadline = deadlineIn(seconds);
  // One may have been under way.
  uint64_t enough = driver.answers() + 2;
  while (std::chrono::steady_clock::now() < deadline) {
    bool isOver = driver.state() == JobMember::State::Stopped;
    bool isHeard = driver.answers() >= enough && driver.isQuiet();
    std::unique_lock<std::mutex> lock(mutex);
    if (isOver ? !tasks.empty() : isHeard)
      return;
    changed.wait_for(lock, kCloseLook);
  }
}

/// Idle, or with no part any more; what it has to remove is removed.
void LiveJob::close(const Status &why, Seconds seconds) {
  Deadline deadline = deadlineIn(seconds);
  while (std::chrono::steady_clock::now() < deadline) {
    JobMember::State now = driver.state();
    bool isOver =
        now == JobMember::State::Idle || now == JobMember::State::Stopped;
    if (isOver && !driver.sweeps())
      break;
    if (!isOver)
      driver.failed(driver.record().attempt, why);
    std::this_thread::sleep_for(kCloseLook);
  }
  driver.cancel(why);
  if (thread.joinable())
    thread.join();
}

//===----------------------------------------------------------------------===//
// Python
//===----------------------------------------------------------------------===//

namespace {

ErrorCode codeNamed(const std::string &name) {
  for (size_t i = 0; i < kNumErrorCodes; ++i)
    if (name == errorCodeName(ErrorCode(i)))
      return ErrorCode(i);
  return ErrorCode::Cancelled;
}

const char *nameOf(JobTask::What what) {
  constexpr const char *names[] = {"prepare", "transfer", "verify", "adopt",
                                   "discard", "refused",  "swept",  "stopped"};
  return names[size_t(what)];
}

const char *nameOf(JobEnd end) {
  constexpr const char *names[] = {"none", "left", "overtaken", "gone",
                                   "stranded"};
  return names[size_t(end)];
}

void ask(LiveJob &job, std::vector<std::string> join,
         std::vector<std::string> leave, std::string layout,
         std::vector<std::string> lost, bool flat, bool recalls) {
  JobRequest request;
  request.join = std::move(join);
  request.leave = std::move(leave);
  request.layout = std::move(layout);
  request.lost = std::move(lost);
  request.flat = flat;
  request.recalls = recalls;
  job.ask(request);
}

void ended(LiveJob &job, const std::string &what, uint64_t attempt,
           std::optional<uint64_t> backTo) {
  job.ended(what == "prepare"    ? JobAction::What::Prepare
            : what == "transfer" ? JobAction::What::Transfer
                                 : JobAction::What::Verify,
            attempt, backTo);
}

void failed(LiveJob &job, uint64_t attempt, const std::string &code,
            const std::string &why) {
  job.failed(attempt, makeError(codeNamed(code), why));
}

std::optional<JobTask> next(LiveJob &job, double seconds) {
  std::optional<JobTask> task;
  runInterruptibly([&] { task = job.next(Seconds(seconds)); },
                   [&](const Status &) { job.wake(); });
  return task;
}

void listen(LiveJob &job, double seconds) { job.listen(Seconds(seconds)); }

void close(LiveJob &job, const std::string &why, double seconds) {
  job.close(makeError(ErrorCode::Cancelled, why), Seconds(seconds));
}

void bindRecord(py::module_ &module) {
  py::class_<JobRecord>(module, "JobRecord")
      .def_readonly("epoch", &JobRecord::epoch)
      .def_readonly("first_step", &JobRecord::firstStep)
      .def_readonly("attempt", &JobRecord::attempt)
      .def_readonly("lost", &JobRecord::lost)
      .def_readonly("horizon", &JobRecord::horizon)
      .def_readonly("by", &JobRecord::by)
      .def_readonly("why", &JobRecord::why)
      .def_readonly("gone", &JobRecord::gone)
      .def_readonly("flat", &JobRecord::flat)
      .def_readonly("parties", &JobRecord::parties)
      .def_property_readonly(
          "phase",
          [](const JobRecord &self) { return jobPhaseName(self.phase); })
      .def_property_readonly("is_open", &JobRecord::isOpen)
      .def_property_readonly("passes", &JobRecord::passes)
      .def_property_readonly(
          "members", [](const JobRecord &self) { return self.world->members; })
      .def_property_readonly(
          "layout", [](const JobRecord &self) { return self.world->layout; })
      .def_property_readonly(
          "target_members",
          [](const JobRecord &self) { return self.target->members; })
      .def_property_readonly("target_layout", [](const JobRecord &self) {
        return self.target->layout;
      });
}

void bindRequest(py::module_ &module) {
  py::class_<JobRequest>(module, "JobRequest")
      .def_readonly("join", &JobRequest::join)
      .def_readonly("leave", &JobRequest::leave)
      .def_readonly("lost", &JobRequest::lost)
      .def_readonly("layout", &JobRequest::layout);
}

void bindTask(py::module_ &module) {
  py::class_<JobTask>(module, "JobTask")
      .def_readonly("attempt", &JobTask::attempt)
      .def_readonly("record", &JobTask::record)
      .def_property_readonly(
          "what", [](const JobTask &self) { return nameOf(self.what); })
      .def_property_readonly(
          "why", [](const JobTask &self) { return self.why.message(); })
      .def_property_readonly(
          "code",
          [](const JobTask &self) { return errorCodeName(self.why.code()); })
      .def_property_readonly(
          "end", [](const JobTask &self) { return nameOf(self.end); });
}

/// For calls of a store whose host may be out of reach: c10d itself waits for
/// ever in some of them.
c10::intrusive_ptr<c10d::Store>
boundedStore(c10::intrusive_ptr<c10d::Store> store, double timeout,
             double answer) {
  return c10::make_intrusive<JobStore>(std::move(store), "", Seconds(timeout),
                                       Seconds(answer));
}

} // namespace

void bindJob(py::module_ &module) {
  bindRecord(module);
  bindRequest(module);
  bindTask(module);
  py::call_guard<py::gil_scoped_release> release;
  module.def("bounded_store", &boundedStore, py::arg("store"),
             py::arg("timeout"), py::arg("answer"), release);
  py::class_<LiveJob, OwnProcessPtr<LiveJob>>(module, "Job")
      .def(py::init<c10::intrusive_ptr<c10d::Store>, std::string, double,
                    std::string, uint64_t>(),
           release)
      .def("ask", &ask, py::arg("join"), py::arg("leave"), py::arg("layout"),
           py::arg("lost") = std::vector<std::string>(),
           py::arg("flat") = false, py::arg("recalls") = false, release)
      .def("at_boundary", &LiveJob::atBoundary, release)
      .def("next", &next)
      .def("notify", &LiveJob::notify, release)
      .def("listen", &listen, release)
      .def("ended", &ended, py::arg("what"), py::arg("attempt"),
           py::arg("back_to") = std::nullopt, release)
      .def("failed", &failed, release)
      .def("store", &LiveJob::store, release)
      .def("leave", &LiveJob::leave, release)
      .def("close", &close, release)
      .def("state",
           [](const LiveJob &self) { return jobStateName(self.state()); })
      .def("record", &LiveJob::record, release)
      .def("queued", &LiveJob::queued, release)
      .def("beat",
           [](const LiveJob &self) { return self.times().beat.count(); })
      .def("answer",
           [](const LiveJob &self) { return self.times().answer.count(); })
      .def("patience",
           [](const LiveJob &self) { return self.times().wait.count(); });
}

} // namespace dtrt
