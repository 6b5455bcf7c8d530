//===- Interruptible.h - Long calls that signals end ------------*- C++ -*-===//
//
// Python runs its signal handlers on the main thread, between two steps of the
// interpreter: never while that thread waits in here. So the wait itself is on
// another thread, and the caller looks for signals meanwhile.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TORCH_INTERRUPTIBLE_H
#define DTRT_TORCH_INTERRUPTIBLE_H

#include "dtrt/types/Status.h"

#include <functional>
#include <memory>
#include <mutex>

namespace dtrt {

/// Has one thread for all that it runs, from the first time on until `end`.
class Interruptible {
public:
  Interruptible();
  ~Interruptible();

  /// Runs `work` without the GIL, which the caller holds, until it has ended.
  /// Where a signal handler raises an exception, calls `cancel` with its name,
  /// after which `work` must end soon, and then throws it (error_already_set).
  void run(const std::function<void()> &work,
           const std::function<void(const Status &why)> &cancel);
  /// Of the thread: it starts again when it is needed.
  void end();

private:
  class Worker;
  std::mutex running; // who else comes has a thread of its own
  std::unique_ptr<Worker> worker;
};

/// The same, once.
void runInterruptibly(const std::function<void()> &work,
                      const std::function<void(const Status &why)> &cancel);

} // namespace dtrt

#endif // DTRT_TORCH_INTERRUPTIBLE_H
