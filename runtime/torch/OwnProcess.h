//===- OwnProcess.h - Objects of one process --------------------*- C++ -*-===//

#ifndef DTRT_TORCH_OWNPROCESS_H
#define DTRT_TORCH_OWNPROCESS_H

#include <memory>
#include <unistd.h>

namespace dtrt {

/// Deletes an object where it was made. A process that is forked has it too,
/// but none of its threads: it would wait for them without end, and tell other
/// ranks that this one has gone. There it is left to the end of the process.
struct InOwnProcess {
  template <typename T> void operator()(T *made) const {
    if (getpid() == process)
      delete made;
  }
  pid_t process = getpid();
};

/// How Python holds what has threads, or is known to other ranks.
template <typename T> using OwnProcessPtr = std::unique_ptr<T, InOwnProcess>;

} // namespace dtrt

#endif // DTRT_TORCH_OWNPROCESS_H
