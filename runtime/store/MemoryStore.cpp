//===- MemoryStore.cpp - A store for the ranks of one process -------------===//

#include "dtrt/Store.h"

namespace dtrt {

Status MemoryStore::set(const std::string &key, const std::string &value) {
  std::lock_guard<std::mutex> lock(mutex);
  values[key] = value;
  return {};
}

Result<std::optional<std::string>> MemoryStore::get(const std::string &key) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = values.find(key);
  if (found == values.end())
    return std::optional<std::string>();
  return std::optional<std::string>(found->second);
}

} // namespace dtrt
