//===- StoreTest.cpp - Stores that ranks share ----------------------------===//
//
// Every call is one step of its own, whoever else changes the key.
//
//===----------------------------------------------------------------------===//

#include "dtrt/store/FileStore.h"
#include "dtrt/store/MemoryStore.h"
#include "dtrt/store/StoreClient.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <thread>

using namespace dtrt;

namespace {

class Stores : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    std::string pattern =
        testing::TempDir() + "dt-store-" + std::string(6, 'X');
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  /// As a rank opens it.
  std::shared_ptr<Store> open() {
    if (GetParam() == std::string("file"))
      return std::make_shared<FileStore>(folder);
    return memory;
  }

  /// In four ranks at once.
  template <typename Body> void inRanks(Body body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 4; ++rank)
      threads.emplace_back([&, rank] { body(rank, *open()); });
    for (std::thread &thread : threads)
      thread.join();
  }

  std::string folder;
  std::shared_ptr<MemoryStore> memory = std::make_shared<MemoryStore>();
};

constexpr int kTimes = 100;

} // namespace

TEST_P(Stores, HoldWhatWasSet) {
  auto store = open();
  EXPECT_FALSE(*store->get("a/b"));
  ASSERT_TRUE(store->set("a/b", "one\n").ok());
  ASSERT_TRUE(store->set("a/b", "two\n").ok());
  EXPECT_EQ(*open()->get("a/b"), "two\n");
  ASSERT_TRUE(store->remove("a/b").ok());
  EXPECT_TRUE(store->remove("a/b").ok());
  EXPECT_FALSE(*open()->get("a/b"));
}

TEST_P(Stores, ExchangeWhatIsExpected) {
  auto store = open();
  EXPECT_EQ(*store->compareAndSet("key", "", "one"), "one");
  EXPECT_EQ(*store->compareAndSet("key", "", "two"), "one");
  EXPECT_EQ(*store->compareAndSet("key", "one", "two"), "two");
}

TEST_P(Stores, CountEveryAddition) {
  inRanks([](int, Store &store) {
    for (int i = 0; i < kTimes; ++i)
      EXPECT_TRUE(store.add("count", 1).ok());
  });
  EXPECT_EQ(*open()->get("count"), std::to_string(4 * kTimes));
}

/// What one rank has set is never lost to the exchange of another.
TEST_P(Stores, LoseNoChange) {
  inRanks([](int rank, Store &store) {
    for (int i = 0; i < kTimes; ++i) {
      if (rank == 0) {
        ASSERT_TRUE(store.set("key", std::to_string(i)).ok());
        continue;
      }
      auto found = store.get("key");
      ASSERT_TRUE(found.ok());
      std::string old = found->value_or("");
      if (old.find('+') != std::string::npos)
        continue;
      EXPECT_TRUE(store.compareAndSet("key", old, old + "+").ok());
    }
  });
  std::string last = std::to_string(kTimes - 1);
  EXPECT_EQ(open()->get("key")->value_or("").substr(0, last.size()), last);
}

/// Notes which thread has called it last.
class Called : public MemoryStore {
public:
  explicit Called(bool atOnce) : atOnce(atOnce) {}
  bool answersAtOnce() const override { return atOnce; }
  Result<int64_t> add(const std::string &key, int64_t amount) override {
    caller = std::this_thread::get_id();
    return MemoryStore::add(key, amount);
  }
  std::thread::id caller;

private:
  bool atOnce;
};

TEST(StoreClient, CallsWhatMayHangOnAnotherThread) {
  for (bool atOnce : {true, false}) {
    auto store = std::make_shared<Called>(atOnce);
    StoreClient client(store);
    StoreClient::Wait wait{deadlineIn(Seconds(100))};
    EXPECT_EQ(*client.add("n", 2, wait), 2);
    EXPECT_EQ(store->caller == std::this_thread::get_id(), atOnce);
    client.cancel(makeError(ErrorCode::Cancelled, "enough"));
    EXPECT_EQ(client.add("n", 1, wait).status().message(), "enough");
    wait.heed = StoreClient::Heed::Nothing;
    EXPECT_EQ(*client.add("n", 1, wait), 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Runtime, Stores, testing::Values("memory", "file"),
                         [](const auto &info) { return info.param; });
