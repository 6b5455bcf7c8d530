//===- Store.h - The keys and values that ranks share -----------*- C++ -*-===//
//
// What ranks agree through before and after bytes move: a small map that all of
// them see. A trainer has one already (c10d's stores); `MemoryStore` serves the
// ranks of one process. Every call is one step of its own: no rank sees a part
// of what another does.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_STORE_STORE_H
#define DTRT_STORE_STORE_H

#include "dtrt/types/Status.h"

#include <cstdint>
#include <optional>
#include <string>

namespace dtrt {

class Store {
public:
  virtual ~Store() = default;
  virtual Status set(const std::string &key, const std::string &value) = 0;
  /// Nothing when no rank has set the key yet; never waits for one.
  virtual Result<std::optional<std::string>> get(const std::string &key) = 0;
  /// Sets the key to `desired` if its value is `expected`, where a key that is
  /// not there counts as empty. Returns the value that the key has then.
  virtual Result<std::string> compareAndSet(const std::string &key,
                                            const std::string &expected,
                                            const std::string &desired) = 0;
  /// Adds to a counter, which starts at 0, and returns its new value. `get`
  /// gives it in decimal digits.
  virtual Result<int64_t> add(const std::string &key, int64_t amount) = 0;
  /// A key that is not there is no error.
  virtual Status remove(const std::string &key) = 0;
  /// Whether no call ever waits, whatever has become of other processes.
  virtual bool answersAtOnce() const { return false; }
};

} // namespace dtrt

#endif // DTRT_STORE_STORE_H
