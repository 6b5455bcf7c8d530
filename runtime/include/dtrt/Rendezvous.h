//===- Rendezvous.h - All ranks agree, or all learn why not -----*- C++ -*-===//
//
// In a phase every rank hands in a record; rank 0 judges them all, and every
// rank gets its verdict. A rank that does not come in time, or that has stopped
// with an error, is named in the error of every other rank. Nothing here waits
// without a limit.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_RENDEZVOUS_H
#define DTRT_RENDEZVOUS_H

#include "dtrt/Store.h"

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

namespace dtrt {

using Seconds = std::chrono::duration<double>;

class Rendezvous {
public:
  /// Keys start with `prefix`, which no two transitions of a store share.
  Rendezvous(std::shared_ptr<Store> store, std::string prefix, uint32_t rank,
             uint32_t size, Seconds timeout);

  /// The records in rank order; what it returns goes to every rank.
  using Judge =
      std::function<Result<std::string>(const std::vector<std::string> &)>;
  Result<std::string> agree(const std::string &phase, const std::string &record,
                            const Judge &judge);
  /// Hands in a record and does not wait for the verdict.
  Status submit(const std::string &phase, const std::string &record);

  /// The ranks that do not call this too within the limit.
  Result<std::vector<uint32_t>> rollCall(const std::string &phase,
                                         Seconds limit);

  /// Tells all ranks that this one stops; only the first reason stays.
  void stop(const Status &why);
  /// Fails when another rank has stopped, with its reason.
  Status checkStopped();
  /// The reason of the rank that stopped first, else `failure` itself: a rank
  /// tells all why it stops before it closes its connections, so that a lost
  /// connection is a cause only where nobody gave another.
  Status causeOf(const Status &failure);

  uint32_t rank() const { return self; }
  uint32_t size() const { return world; }
  Seconds timeout() const { return limit; }

private:
  using Clock = std::chrono::steady_clock;

  std::string recordKey(const std::string &phase, uint32_t rank) const;
  Result<std::optional<std::string>> read(const std::string &key);
  Result<std::string> await(const std::string &key, Clock::time_point deadline);
  Result<std::vector<std::string>> collect(const std::string &phase,
                                           Clock::time_point deadline);
  Result<std::string> decide(const std::string &phase, const Judge &judge,
                             Clock::time_point deadline);
  Result<std::string> awaitVerdict(const std::string &phase,
                                   Clock::time_point deadline);
  Status missing(const std::string &phase);
  Result<std::vector<uint32_t>> absent(const std::string &phase);

  std::shared_ptr<Store> store;
  std::string prefix;
  uint32_t self;
  uint32_t world;
  Seconds limit;
};

/// "ranks 0-2 and 5".
std::string rankNames(const std::vector<uint32_t> &ranks);

} // namespace dtrt

#endif // DTRT_RENDEZVOUS_H
