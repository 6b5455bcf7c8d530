//===- Worker.h - A thread for calls that may block -------------*- C++ -*-===//

#ifndef DTRT_LIB_NCCL_WORKER_H
#define DTRT_LIB_NCCL_WORKER_H

#include "dtrt/types/Status.h"

#include <chrono>
#include <functional>
#include <memory>

namespace dtrt {

/// Runs one job after the other on a thread of its own. Whoever waits for a job
/// does so with a limit; a job that never returns keeps the thread, and what it
/// holds, but nobody else.
class Worker {
public:
  Worker();
  /// Lets go of a thread that is in a job.
  ~Worker();
  Worker(const Worker &) = delete;
  Worker &operator=(const Worker &) = delete;

  /// What is put behind a job that does not return never runs.
  void post(std::function<void()> job);
  /// Whether all that was posted has run, after this long at most.
  bool idleWithin(std::chrono::duration<double> limit);

private:
  struct State;
  static void run(std::shared_ptr<State> state);
  std::shared_ptr<State> state;
};

} // namespace dtrt

#endif // DTRT_LIB_NCCL_WORKER_H
