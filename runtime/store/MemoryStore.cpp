//===- MemoryStore.cpp - A store for the ranks of one process -------------===//

#include "dtrt/store/MemoryStore.h"

#include <cstdlib>

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

Result<std::string> MemoryStore::compareAndSet(const std::string &key,
                                               const std::string &expected,
                                               const std::string &desired) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = values.find(key);
  std::string now = found == values.end() ? "" : found->second;
  if (now != expected)
    return now;
  values[key] = desired;
  return desired;
}

Result<int64_t> MemoryStore::add(const std::string &key, int64_t amount) {
  std::lock_guard<std::mutex> lock(mutex);
  int64_t sum = strtoll(values[key].c_str(), nullptr, 10) + amount;
  values[key] = std::to_string(sum);
  return sum;
}

Status MemoryStore::remove(const std::string &key) {
  std::lock_guard<std::mutex> lock(mutex);
  values.erase(key);
  return {};
}

std::vector<std::string> MemoryStore::keys() {
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<std::string> keys;
  for (const auto &[key, value] : values)
    keys.push_back(key);
  return keys;
}

} // namespace dtrt
