//===- StoreClient.h - A store that may not answer --------------*- C++ -*-===//
//
// A call of a store can take for ever: the process that hosts it may be stopped
// while its connections stay. Here every call runs on a thread of the client;
// whoever makes it waits no longer than it wants, and not after `cancel`. A
// store that answers at once is called without that thread.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_STORE_STORECLIENT_H
#define DTRT_STORE_STORECLIENT_H

#include "dtrt/store/Store.h"

#include <chrono>
#include <functional>
#include <memory>

namespace dtrt {

using Seconds = std::chrono::duration<double>;
using Deadline = std::chrono::steady_clock::time_point;

/// So far from now.
Deadline deadlineIn(Seconds time);

class StoreClient {
public:
  explicit StoreClient(std::shared_ptr<Store> store);
  /// Does not wait for a call that has not been answered.
  ~StoreClient();
  StoreClient(const StoreClient &) = delete;
  StoreClient &operator=(const StoreClient &) = delete;

  /// Whether a call is given up at `cancel`.
  enum class Heed { Cancel, Nothing };
  /// Until when a call waits for its answer, and what ends that earlier.
  struct Wait {
    Deadline deadline;
    Heed heed = Heed::Cancel;
  };

  /// All fail with StoreLost where the store does not answer, or is gone, and
  /// with the reason of `cancel`.
  Status set(const std::string &key, const std::string &value, Wait wait);
  Result<std::optional<std::string>> get(const std::string &key, Wait wait);
  Result<std::string> compareAndSet(const std::string &key,
                                    const std::string &expected,
                                    const std::string &desired, Wait wait);
  Result<int64_t> add(const std::string &key, int64_t amount, Wait wait);
  Status remove(const std::string &key, Wait wait);

  /// Ends all waits here, from any thread; the first reason stays.
  void cancel(const Status &why);
  /// An error once cancelled: the reason.
  Status cancelled() const;
  /// Returns at the deadline, or with the reason of `cancel`.
  Status sleepUntil(Deadline deadline);

private:
  struct Shared;
  template <typename Answer>
  Answer call(std::function<Answer(Store &)> ask, Wait wait);

  std::shared_ptr<Shared> shared;
};

} // namespace dtrt

#endif // DTRT_STORE_STORECLIENT_H
