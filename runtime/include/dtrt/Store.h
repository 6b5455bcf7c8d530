//===- Store.h - The keys and values that ranks share -----------*- C++ -*-===//
//
// What ranks agree through before and after bytes move: a small map that all of
// them see. A trainer has one already (c10d's stores); `MemoryStore` serves the
// ranks of one process.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_STORE_H
#define DTRT_STORE_H

#include "dtrt/Status.h"

#include <map>
#include <mutex>

namespace dtrt {

class Store {
public:
  virtual ~Store() = default;
  virtual Status set(const std::string &key, const std::string &value) = 0;
  /// Nothing when no rank has set the key yet; never waits for one.
  virtual Result<std::optional<std::string>> get(const std::string &key) = 0;
};

class MemoryStore : public Store {
public:
  Status set(const std::string &key, const std::string &value) override;
  Result<std::optional<std::string>> get(const std::string &key) override;

private:
  std::mutex mutex;
  std::map<std::string, std::string> values;
};

} // namespace dtrt

#endif // DTRT_STORE_H
