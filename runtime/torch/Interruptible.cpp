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

/// Work on a thread of its own.
class Worker {
public:
  explicit Worker(const std::function<void()> &work)
      : thread([this, &work] {
          work();
          std::lock_guard<std::mutex> lock(mutex);
          ended = true;
          wake.notify_all();
        }) {}
  ~Worker() { thread.join(); }
  Worker(const Worker &) = delete;
  Worker &operator=(const Worker &) = delete;

  /// Whether the work has ended.
  bool waitFor(std::chrono::milliseconds time) {
    std::unique_lock<std::mutex> lock(mutex);
    return wake.wait_for(lock, time, [this] { return ended; });
  }

private:
  std::mutex mutex;
  std::condition_variable wake;
  bool ended = false;
  std::thread thread; // last: it uses the others
};

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

void runInterruptibly(const std::function<void()> &work,
                      const std::function<void(const Status &why)> &cancel) {
  std::optional<py::error_already_set> interrupt;
  {
    py::gil_scoped_release release;
    Worker worker(work);
    while (!worker.waitFor(kLookInterval) && !interrupt)
      if ((interrupt = raised()))
        cancel(makeError(ErrorCode::Cancelled, "interrupted by ",
                         nameOf(*interrupt)));
  }
  if (interrupt)
    throw *interrupt;
}

} // namespace dtrt
