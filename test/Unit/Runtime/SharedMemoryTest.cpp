//===- SharedMemoryTest.cpp - Ends of links inside a host -----------------===//
//
// What the contract of all transports does not say: strangers that connect, and
// aborts while a link is at work. Ranks are threads; the transport within
// brings messages, but no abort of another rank.
//
//===----------------------------------------------------------------------===//

#include "BorrowedTransport.h"
#include "LocalSocket.h"

#include "dtrt/transport/LoopbackTransport.h"
#include "dtrt/transport/SharedMemoryTransport.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <gtest/gtest.h>
#include <set>
#include <sstream>
#include <thread>

using namespace dtrt;
using namespace dtrt::test;

namespace {

/// Longer than any rank needs on a loaded machine.
const std::chrono::duration<double> kAmple(60);
const Digest kPlan = {1, 2};

/// Keeps an abort to itself.
class Deaf : public Borrowed {
public:
  explicit Deaf(Transport &inner, std::function<void()> afterGroup = {})
      : Borrowed(inner), afterGroup(std::move(afterGroup)) {}
  Status group(const std::vector<TransportMessage> &messages) override {
    DTRT_RETURN_IF_ERROR(Borrowed::group(messages));
    if (afterGroup)
      afterGroup();
    return {};
  }
  void abort(const Status &) override {}

private:
  std::function<void()> afterGroup;
};

class Host {
public:
  explicit Host(const std::vector<uint32_t> &devices,
                const std::function<void()> &afterGroup = {})
      : world(devices), secret(*Secret::make()) {
    for (uint32_t device : devices)
      ends[device] = makeSharedMemoryTransport(
          std::make_unique<Deaf>(world.endpoint(device), afterGroup), devices,
          secret, kAmple);
  }
  Transport &operator[](uint32_t device) { return *ends.at(device); }

  /// All ends, each with all others.
  void connect() {
    std::vector<std::future<Status>> connected;
    for (auto &[device, end] : ends) {
      std::vector<uint32_t> peers;
      for (auto &[peer, other] : ends)
        if (peer != device)
          peers.push_back(peer);
      connected.push_back(std::async(std::launch::async, [&end = end, peers] {
        return end->connect(kPlan, peers);
      }));
    }
    for (auto &one : connected) {
      Status status = one.get();
      EXPECT_TRUE(status.ok()) << status.message();
    }
  }

  LoopbackWorld world;
  const Secret secret;
  std::map<uint32_t, std::unique_ptr<Transport>> ends;
};

/// A group of one message.
class OneMessage {
public:
  OneMessage(Transport &end, bool receive, uint32_t peer, size_t bytes)
      : data(bytes) {
    status = std::async(std::launch::async, [=, &end] {
      return end.group({{receive, peer, data.data(), bytes, nullptr}});
    });
  }
  std::string error() { return status.get().message(); }

private:
  std::vector<std::byte> data;
  std::future<Status> status;
};

Status noPatience() {
  return makeError(ErrorCode::Cancelled, "out of patience");
}

void pauseShortly() {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

TEST(SharedMemory, AnAbortInAGroupIsToldAfterIt) {
  Host host({0, 1, 2});
  host.connect();
  // Device 0 waits for device 2, which does not come, and 1 waits for 0.
  std::vector<std::byte> data(100);
  Status begun = host[0].begin({{true, 2, data.data(), 100, nullptr}});
  EXPECT_EQ(begun.message(), "");
  OneMessage waits(host[1], true, 0, 100);
  host[0].abort(noPatience());
  EXPECT_EQ(host[0].end().message(), "out of patience");
  EXPECT_EQ(waits.error(), "out of patience");
}

TEST(SharedMemory, AnAbortBetweenGroupsIsTold) {
  Host host({0, 1});
  host.connect();
  OneMessage waits(host[1], true, 0, 100);
  host[0].abort(noPatience());
  EXPECT_EQ(waits.error(), "out of patience");
  OneMessage late(host[0], false, 1, 100);
  EXPECT_EQ(late.error(), "out of patience");
}

/// The peer cannot be told within a message: it sees the end of the link.
TEST(SharedMemory, AnAbortInAMessageEndsTheLink) {
  Host host({0, 1});
  host.connect();
  constexpr size_t kMuch = 8 << 20; // more than a socket holds
  std::vector<std::byte> data(kMuch);
  Status begun = host[0].begin({{false, 1, data.data(), kMuch, nullptr}});
  EXPECT_EQ(begun.message(), "");
  host[0].abort(noPatience());
  EXPECT_EQ(host[0].end().message(), "out of patience");
  OneMessage receives(host[1], true, 0, kMuch);
  EXPECT_EQ(receives.error(), "lost rank 0 (device 0) while receiving " +
                                  std::to_string(kMuch) +
                                  " bytes: connection closed by peer");
}

TEST(SharedMemory, AnAbortEndsAWaitForAPeersMemory) {
  Host host({0, 1});
  host.connect();
  auto arena = host[0].allocateArena(4096);
  ASSERT_TRUE(arena.ok());
  auto registered = std::async(
      std::launch::async, [&] { return host[0].registerArena(*arena, 4096); });
  pauseShortly();
  host[0].abort(noPatience());
  EXPECT_EQ(registered.get().message(), "out of patience");
}

/// What ranks tell each other first, over the transport within.
struct Hello {
  HostIdentity host = {};
  SocketName socket = {};
};

/// Device 1 says that it is on this host, and answers no more.
TEST(SharedMemory, AnAbortEndsAHandshake) {
  Host host({0, 1});
  Transport &wire = host.world.endpoint(1);
  auto name = makeSocketName();
  ASSERT_TRUE(name.ok());
  auto listener = listenLocally(*name, 4);
  ASSERT_TRUE(listener.ok());
  auto silent = std::async(std::launch::async, [&]() -> Status {
    DTRT_RETURN_IF_ERROR(wire.connect(kPlan, {0}));
    Hello mine, theirs;
    mine.host = hostIdentity();
    mine.socket = *name;
    for (int exchange = 0; exchange < 2; ++exchange)
      DTRT_RETURN_IF_ERROR(
          wire.group({{false, 0, reinterpret_cast<std::byte *>(&mine),
                       sizeof mine, nullptr},
                      {true, 0, reinterpret_cast<std::byte *>(&theirs),
                       sizeof theirs, nullptr}}));
    return {};
  });
  auto connected = std::async(std::launch::async,
                              [&] { return host[0].connect(kPlan, {1}); });
  EXPECT_EQ(silent.get().message(), "");
  pauseShortly();
  host[0].abort(noPatience());
  EXPECT_EQ(connected.get().message(), "out of patience");
}

/// Connects to the sockets of all ranks of this test, as often as it is told
/// to, and says something or nothing.
class Strangers {
public:
  explicit Strangers(size_t times) : times(times) {}
  void connect() {
    std::lock_guard<std::mutex> lock(mutex);
    for (const SocketName &name : names())
      for (size_t i = 0; i < times; ++i)
        if (auto socket = connectLocally(name); socket.ok()) {
          std::vector<std::byte> garbage(kWords[i % 4], std::byte('d'));
          (void)sendSome(*socket, garbage.data(), garbage.size());
          sockets.push_back(std::move(*socket));
        }
  }
  size_t count() const { return sockets.size(); }

private:
  static constexpr size_t kWords[] = {0, 3, 44, 500}; // bytes

  /// As anybody can read them; only of this process, since other tests run on
  /// this host.
  static std::set<SocketName> names() {
    std::set<SocketName> names;
    std::set<std::string> own = ownSockets();
    std::ifstream table("/proc/net/unix");
    const std::string mark = "@dynatrain-";
    for (std::string line; std::getline(table, line);) {
      std::istringstream fields(line);
      std::string skipped, inode, path;
      for (int i = 0; i < 6; ++i)
        fields >> skipped;
      if (!(fields >> inode >> path) || path.rfind(mark, 0) != 0 ||
          own.count("socket:[" + inode + "]") == 0)
        continue;
      SocketName name = {};
      path.copy(name.data(), name.size() - 1, mark.size());
      names.insert(name);
    }
    return names;
  }

  /// As the system writes them: "socket:[INODE]".
  static std::set<std::string> ownSockets() {
    namespace fs = std::filesystem;
    std::set<std::string> own;
    std::error_code gone; // a descriptor may be closed meanwhile
    for (const fs::directory_entry &entry :
         fs::directory_iterator("/proc/self/fd"))
      own.insert(fs::read_symlink(entry.path(), gone).string());
    return own;
  }

  const size_t times;
  std::mutex mutex;
  std::vector<Descriptor> sockets;
};

void expectMessages(Host &host) {
  for (auto &[from, one] : host.ends)
    for (auto &[to, other] : host.ends) {
      if (from == to)
        continue;
      OneMessage sends(*one, false, to, 1000),
          receives(*other, true, from, 1000);
      EXPECT_EQ(sends.error(), "");
      EXPECT_EQ(receives.error(), "");
    }
}

/// They come while groups of the transport within run: those are before,
/// between and after what the ranks connect by.
TEST(SharedMemory, StrangersDoNotHoldUpTheRanks) {
  Strangers strangers(4);
  Host host({0, 1, 2}, [&] { strangers.connect(); });
  host.connect();
  EXPECT_GT(strangers.count(), 0u);
  for (auto &[from, one] : host.ends)
    for (auto &[to, other] : host.ends)
      EXPECT_TRUE(from == to ||
                  one->caps().unpacksFromPeer(to)); // they have a link
  expectMessages(host);
}

/// Where they leave no room, messages go another way.
TEST(SharedMemory, AFloodOfStrangersDoesNotEndTheJob) {
  Strangers strangers(150);
  Host host({0, 1}, [&] { strangers.connect(); });
  host.connect();
  EXPECT_GT(strangers.count(), 100u);
  expectMessages(host);
}

/// Ranks of another switch on the same host.
TEST(SharedMemory, AnotherSecretGetsNoLink) {
  LoopbackWorld world({0, 1});
  std::vector<std::future<Status>> connected;
  std::vector<std::unique_ptr<Transport>> ends;
  for (uint32_t device : {0, 1}) {
    ends.push_back(makeSharedMemoryTransport(
        std::make_unique<Deaf>(world.endpoint(device)), {0, 1}, *Secret::make(),
        std::chrono::duration<double>(0.5)));
    connected.push_back(
        std::async(std::launch::async, [end = ends.back().get(), device] {
          return end->connect(kPlan, {1 - device});
        }));
  }
  EXPECT_NE(connected[0].get().message(), "");
  EXPECT_NE(connected[1].get().message(), "");
  EXPECT_FALSE(ends[0]->caps().unpacksFromPeer(1));
  EXPECT_FALSE(ends[1]->caps().unpacksFromPeer(0));
}

} // namespace
