//===- Interruptible.cpp - Long calls that signals end --------------------===//

#include "Interruptible.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <pybind11/pybind11.h>
#include <thread>

namespace py = pybind11;

namespace dtrt {

namespace {

/// Between two looks for signals.
constexpr std::chrono::milliseconds kLookInterval(50);

/// What a signal handler has raised by now.
std::optional<py::error_already_set> raised() {
  py::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() == 0)
    return std::nullopt;
  return py::error_already_set();
}

/// The exception's name and the first line of its text.
std::string nameOf(const py::error_already_set &error) {
  py::gil_scoped_acquire acquire;
  std::string name = py::str(error.type().attr("__name__"));
  std::string text = py::str(error.value());
  return text.empty() ? name : name + ": " + text.substr(0, text.find('\n'));
}

} // namespace

/// A thread that works when it is asked to. Whoever asked does not wait for its
/// end: a thread that ends has to be given a processor for it.
class Interruptible::Worker {
public:
  Worker() : thread([this] { run(); }) {}
  ~Worker() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      isOver = true;
    }
    wake.notify_all();
    thread.join();
  }
  Worker(const Worker &) = delete;
  Worker &operator=(const Worker &) = delete;

  /// `given` lives until the work has ended.
  void start(const std::function<void()> &given) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      work = &given;
    }
    wake.notify_all();
  }
  /// Whether the work has ended.
  bool waitFor(std::chrono::milliseconds time) {
    std::unique_lock<std::mutex> lock(mutex);
    return done.wait_for(lock, time, [this] { return !work; });
  }

private:
  void run() {
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      wake.wait(lock, [this] { return isOver || work; });
      if (!work)
        return;
      lock.unlock();
      (*work)();
      lock.lock();
      work = nullptr;
      done.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable wake, done;
  const std::function<void()> *work = nullptr;
  bool isOver = false;
  std::thread thread; // last: it uses the others
};

Interruptible::Interruptible() = default;
Interruptible::~Interruptible() = default;

void Interruptible::end() { worker.reset(); }

void Interruptible::run(const std::function<void()> &work,
                        const std::function<void(const Status &why)> &cancel) {
  std::unique_lock<std::mutex> turn(running, std::try_to_lock);
  if (!turn)
    return runInterruptibly(work, cancel);
  std::optional<py::error_already_set> interrupt;
  {
    py::gil_scoped_release release;
    if (!worker)
      worker = std::make_unique<Worker>();
    worker->start(work);
    while (!worker->waitFor(kLookInterval))
      if (!interrupt && (interrupt = raised()))
        cancel(makeError(ErrorCode::Cancelled, "interrupted by ",
                         nameOf(*interrupt)));
  }
  if (interrupt)
    throw *interrupt;
}

void runInterruptibly(const std::function<void()> &work,
                      const std::function<void(const Status &why)> &cancel) {
  Interruptible().run(work, cancel);
}

} // namespace dtrt
