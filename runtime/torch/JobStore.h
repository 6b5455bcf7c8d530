//===- JobStore.h - Keys of one attempt of a job ----------------*- C++ -*-===//
//
// A store whose calls all end in time, whatever becomes of its host.
//
// What c10d makes for an attempt, such as the connections of the new world, and
// what the processes say to each other, goes through a store of the attempt's
// own: waits for its keys end with the attempt, and each process removes those
// that it has written.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TORCH_JOBSTORE_H
#define DTRT_TORCH_JOBSTORE_H

#include "dtrt/store/StoreClient.h"

#include <mutex>
#include <set>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace dtrt {

class JobStore : public c10d::Store {
public:
  /// Keys are below `prefix` of the given store, which answers within `answer`.
  /// A wait without a limit of its own ends after `timeout`.
  JobStore(c10::intrusive_ptr<c10d::Store> store, std::string prefix,
           Seconds timeout, Seconds answer);

  /// Ends all waits here, from any thread, and all calls to come.
  void stop(const Status &why) { client.cancel(why); }
  /// Removes the keys that this process has written, stopped or not.
  void removeOwn();

  c10::intrusive_ptr<c10d::Store> clone() override;
  using c10d::Store::compareSet;
  using c10d::Store::set;
  void set(const std::string &key, const std::vector<uint8_t> &value) override;
  std::vector<uint8_t> compareSet(const std::string &key,
                                  const std::vector<uint8_t> &expected,
                                  const std::vector<uint8_t> &desired) override;
  std::vector<uint8_t> get(const std::string &key) override;
  int64_t add(const std::string &key, int64_t amount) override;
  bool deleteKey(const std::string &key) override;
  bool check(const std::vector<std::string> &keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string> &keys) override;
  void wait(const std::vector<std::string> &keys,
            const std::chrono::milliseconds &timeout) override;

private:
  StoreClient::Wait patience() const { return {deadlineIn(answer)}; }
  std::optional<std::string> find(const std::string &key);
  std::string await(const std::string &key, Deadline deadline);
  void note(const std::string &key);

  StoreClient client;
  const std::string prefix;
  const Seconds answer;
  std::mutex mutex;          // of what follows
  std::set<std::string> own; // that this process has written
};

} // namespace dtrt

#endif // DTRT_TORCH_JOBSTORE_H
