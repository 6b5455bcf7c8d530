//===- Pause.h - How long to wait between two looks -------------*- C++ -*-===//

#ifndef DTRT_STORE_PAUSE_H
#define DTRT_STORE_PAUSE_H

#include "dtrt/store/StoreClient.h"

#include <algorithm>

namespace dtrt {

/// Polling starts quickly, for ranks that come together, and slows down, both
/// less quickly in a large world, so that waiting ranks leave the store to the
/// others.
class Pause {
public:
  /// `world`: how many poll.
  explicit Pause(size_t world)
      : next(std::max(kFirst, kFirstPerRank * double(world))),
        longest(std::max(kLongest, kLongestPerRank * double(world))) {}
  /// Each is at least as long as the one before.
  Seconds take() {
    Seconds pause = next;
    next = std::min(next * 2, longest);
    return pause;
  }
  /// Fails when the client is cancelled.
  Status operator()(StoreClient &client) {
    return client.sleepUntil(deadlineIn(take()));
  }

private:
  static constexpr Seconds kFirst{0.0002};
  static constexpr Seconds kFirstPerRank{0.00001};
  static constexpr Seconds kLongest{0.02};
  static constexpr Seconds kLongestPerRank{0.00005};

  Seconds next;
  Seconds longest;
};

} // namespace dtrt

#endif // DTRT_STORE_PAUSE_H
