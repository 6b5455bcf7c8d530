//===- MemoryStore.h - A store for the ranks of one process -----*- C++ -*-===//

#ifndef DTRT_STORE_MEMORYSTORE_H
#define DTRT_STORE_MEMORYSTORE_H

#include "dtrt/store/Store.h"

#include <map>
#include <mutex>
#include <vector>

namespace dtrt {

/// A map of this process, behind a lock.
class MemoryStore : public Store {
public:
  Status set(const std::string &key, const std::string &value) override;
  Result<std::optional<std::string>> get(const std::string &key) override;
  Result<std::string> compareAndSet(const std::string &key,
                                    const std::string &expected,
                                    const std::string &desired) override;
  Result<int64_t> add(const std::string &key, int64_t amount) override;
  Status remove(const std::string &key) override;
  bool answersAtOnce() const override { return true; }
  /// All keys, ascending.
  std::vector<std::string> keys();

private:
  std::mutex mutex;
  std::map<std::string, std::string> values;
};

} // namespace dtrt

#endif // DTRT_STORE_MEMORYSTORE_H
