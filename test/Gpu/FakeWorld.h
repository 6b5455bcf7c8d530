//===- FakeWorld.h - NCCL worlds of threads ---------------------*- C++ -*-===//

#ifndef DTRT_TEST_FAKEWORLD_H
#define DTRT_TEST_FAKEWORLD_H

#include "FakeNccl.h"
#include "GpuPlans.h"
#include "TransportContract.h"

#include "dtrt/nccl/NcclTransport.h"

#include <chrono>
#include <functional>
#include <map>
#include <set>

namespace dtrt::test {

/// Options for one rank on the stand-in. `root`: where its ranks meet in the
/// store.
NcclOptions fakeOptions(uint32_t device, const std::vector<uint32_t> &devices,
                        std::shared_ptr<Store> store, double timeout,
                        const std::string &root = "nccl");

/// A store of one rank, until its process is gone: then nothing that it does is
/// seen by others.
class MortalStore : public Store {
public:
  explicit MortalStore(std::shared_ptr<Store> inner)
      : inner(std::move(inner)) {}
  Status set(const std::string &key, const std::string &value) override {
    return dead ? deadError() : inner->set(key, value);
  }
  Result<std::optional<std::string>> get(const std::string &key) override {
    if (dead)
      return deadError();
    return inner->get(key);
  }
  Result<std::string> compareAndSet(const std::string &key,
                                    const std::string &expected,
                                    const std::string &desired) override {
    if (dead)
      return deadError();
    return inner->compareAndSet(key, expected, desired);
  }
  Result<int64_t> add(const std::string &key, int64_t amount) override {
    if (dead)
      return deadError();
    return inner->add(key, amount);
  }
  Status remove(const std::string &key) override {
    return dead ? deadError() : inner->remove(key);
  }
  std::atomic<bool> dead{false};

private:
  static Status deadError() { return makeError("this process is dead"); }
  std::shared_ptr<Store> inner;
};

/// What became of a rank.
struct RankOutcome {
  std::string error; // empty: none
  double seconds = 0;
};
using Outcomes = std::map<uint32_t, RankOutcome>;

/// Runs the body once per device, each on a thread and a GPU of its own.
Outcomes onDevices(const std::vector<uint32_t> &devices,
                   const std::function<Status(uint32_t device)> &body);
/// Fails where a rank has an error.
void expectAllWell(const Outcomes &outcomes);

struct FakeRun {
  double timeout = 30;
  NcclCalls calls = NcclCalls::Blocking;
  bool graph = false;
  bool oneSided = false;
  bool digests = false;
  /// Null: the stand-in as it is.
  const NcclApi *api = nullptr;
  /// After the warm-up, before the first wave; by every rank.
  std::function<void(uint32_t device)> beforeRun;
};
/// For `beforeRun`: calls `then` once all ranks have warmed up.
std::function<void(uint32_t)> onceAllAreHere(size_t ranks,
                                             std::function<void()> then);
/// The plan on GPUs over NCCL, with every byte compared.
Outcomes runOnFakeNccl(const TestPlan &plan, const FakeRun &how = {});

} // namespace dtrt::test

#endif // DTRT_TEST_FAKEWORLD_H
