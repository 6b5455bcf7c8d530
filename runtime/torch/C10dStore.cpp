//===- C10dStore.cpp - The trainer's store, both ways ---------------------===//

#include "C10dStore.h"

#include <algorithm>
#include <mutex>
#include <random>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <unistd.h>

namespace dtrt {

std::string reasonOf(const std::exception &error) {
  std::string text = error.what();
  text = text.substr(0, text.find('\n'));
  size_t bracket = text.find("] ");
  text = text.substr(0, text.find(" This is typically caused"));
  if (!text.empty() && text[0] == '[' && bracket != std::string::npos)
    text = text.substr(bracket + 2);
  return text.empty() ? "no reason given" : text;
}

namespace {

/// A value that no key has.
std::string makeNever() {
  std::random_device random;
  std::string text = "never";
  for (int i = 0; i < 4; ++i)
    text.append(1, '-').append(std::to_string(random()));
  return text;
}

bool hasOneConnection(const c10::intrusive_ptr<c10d::Store> &store) {
  c10d::Store *inner = store.get();
  while (auto *prefixed = dynamic_cast<c10d::PrefixStore *>(inner))
    inner = prefixed->getUnderlyingStore().get();
  return dynamic_cast<c10d::TCPStore *>(inner) != nullptr;
}

using C10dPtr = c10::intrusive_ptr<c10d::Store>;

/// Connections of the runtime's own, one for each store of the trainer that has
/// only one itself. A store that goes is not held up by that, nor one by what
/// connecting with another takes.
class Connections {
public:
  C10dPtr of(const C10dPtr &store) {
    if (!hasOneConnection(store))
      return store;
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (C10dPtr known = find(store))
        return known;
    }
    C10dPtr made = store->clone();
    std::lock_guard<std::mutex> lock(mutex);
    // Another thread may have been faster.
    if (C10dPtr known = find(store))
      return known;
    all.push_back({C10dWeakPtr(store), made, getpid()});
    return made;
  }
  void forget(const C10dPtr &store) {
    std::lock_guard<std::mutex> lock(mutex);
    forgetIf([&](const Connection &one) { return one.of.lock() == store; });
  }
  static Connections &ofProcess() {
    // Threads of stores that do not answer may outlive static objects.
    static auto *connections = new Connections();
    return *connections;
  }

private:
  using C10dWeakPtr = c10::weak_intrusive_ptr<c10d::Store>;
  struct Connection {
    C10dWeakPtr of;
    C10dPtr own;
    pid_t process; // a child that was forked off needs others
  };

  C10dPtr find(const C10dPtr &store) {
    forgetIf([](const Connection &one) { return one.of.expired(); });
    for (const Connection &one : all)
      if (one.of.lock() == store && one.process == getpid())
        return one.own;
    return {};
  }

  template <typename If> void forgetIf(If condition) {
    all.erase(std::remove_if(all.begin(), all.end(), condition), all.end());
  }

  std::mutex mutex;
  std::vector<Connection> all;
};

class C10dStore : public Store {
public:
  explicit C10dStore(C10dPtr store)
      : given(std::move(store)), never(makeNever()) {}

  Status set(const std::string &key, const std::string &value) override {
    return run<Status>([&](c10d::Store &store) -> Status {
      store.set(key, bytesOf(value));
      return {};
    });
  }

  /// By an exchange that never happens: `check` and `get` are two calls, and
  /// the second one waits if the key has been removed in between.
  Result<std::optional<std::string>> get(const std::string &key) override {
    using Found = std::optional<std::string>;
    return run<Result<Found>>([&](c10d::Store &store) -> Result<Found> {
      std::string value =
          textOf(store.compareSet(key, bytesOf(never), bytesOf(never)));
      return value == never ? Found() : Found(std::move(value));
    });
  }

  Result<std::string> compareAndSet(const std::string &key,
                                    const std::string &expected,
                                    const std::string &desired) override {
    return run<Result<std::string>>(
        [&](c10d::Store &store) -> Result<std::string> {
          return textOf(
              store.compareSet(key, bytesOf(expected), bytesOf(desired)));
        });
  }

  Result<int64_t> add(const std::string &key, int64_t amount) override {
    return run<Result<int64_t>>([&](c10d::Store &store) -> Result<int64_t> {
      return store.add(key, amount);
    });
  }

  Status remove(const std::string &key) override {
    return run<Status>([&](c10d::Store &store) -> Status {
      store.deleteKey(key);
      return {};
    });
  }

private:
  template <typename Answer, typename Ask> Answer run(Ask ask) {
    try {
      return ask(*Connections::ofProcess().of(given));
    } catch (const c10::NotImplementedError &error) {
      return makeError("this kind of store lacks what a switch needs "
                       "(compare_set, delete_key, add): ",
                       reasonOf(error));
    } catch (const std::exception &error) {
      Connections::ofProcess().forget(given);
      return makeError(ErrorCode::StoreLost, reasonOf(error));
    }
  }

  C10dPtr given;
  const std::string never;
};

[[noreturn]] void fail(const Status &status) {
  C10_THROW_ERROR(DistStoreError, status.message());
}

class AttemptStore : public c10d::Store {
public:
  explicit AttemptStore(std::shared_ptr<Rendezvous> ranks)
      : Store(std::chrono::duration_cast<std::chrono::milliseconds>(
            ranks->patience())),
        ranks(std::move(ranks)) {}

  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<AttemptStore>(ranks);
  }
  using c10d::Store::set;
  void set(const std::string &key, const Bytes &value) override {
    Status status = ranks->share(key, textOf(value));
    if (!status.ok())
      fail(status);
  }
  Bytes get(const std::string &key) override {
    return bytesOf(await(key, timeout_));
  }
  bool check(const std::vector<std::string> &keys) override {
    for (const std::string &key : keys) {
      auto found = ranks->find(key);
      if (!found.ok())
        fail(found.status());
      if (!*found)
        return false;
    }
    return true;
  }
  void wait(const std::vector<std::string> &keys) override {
    wait(keys, timeout_);
  }
  void wait(const std::vector<std::string> &keys,
            const std::chrono::milliseconds &timeout) override {
    for (const std::string &key : keys)
      await(key, timeout);
  }
  int64_t add(const std::string &, int64_t) override { refuse("add"); }
  bool deleteKey(const std::string &) override { refuse("delete_key"); }
  int64_t getNumKeys() override { refuse("num_keys"); }

private:
  [[noreturn]] static void refuse(const char *what) {
    C10_THROW_ERROR(NotImplementedError,
                    std::string("the store of a switch has no ") + what);
  }

  std::string await(const std::string &key,
                    const std::chrono::milliseconds &timeout) {
    auto value = ranks->await(key, deadlineIn(timeout));
    if (!value.ok())
      fail(value.status());
    if (!*value)
      fail(makeError(ErrorCode::Timeout, "timed out waiting for a peer"));
    return std::move(**value);
  }

  std::shared_ptr<Rendezvous> ranks;
};

} // namespace

std::shared_ptr<Store> makeC10dStore(c10::intrusive_ptr<c10d::Store> store) {
  return std::make_shared<C10dStore>(std::move(store));
}

c10::intrusive_ptr<c10d::Store>
makeAttemptStore(std::shared_ptr<Rendezvous> ranks) {
  return c10::make_intrusive<AttemptStore>(std::move(ranks));
}

} // namespace dtrt
