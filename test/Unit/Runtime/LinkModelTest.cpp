//===- LinkModelTest.cpp - All runs of the protocol inside a host ---------===//
//
// The model is explored in full, and the code takes the same steps: links one
// step at a time, with sockets and memory as they are; and whole transports,
// whose ranks end as the model says that they can.
//
//===----------------------------------------------------------------------===//

#include "LinkModel.h"

#include "BorrowedTransport.h"
#include "LocalLink.h"

#include "dtrt/transport/LoopbackTransport.h"
#include "dtrt/transport/SharedMemoryTransport.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <future>
#include <gtest/gtest.h>
#include <set>
#include <sys/mman.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace dtrt;
using namespace dtrt::test;

namespace {

using Fault = ModelScenario::Fault;
using What = ModelStep::What;
using Phase = ModelRank::Phase;

const Fault kFaults[] = {Fault::None, Fault::Abort, Fault::Death, Fault::Pause};

/// Both ways, some from elsewhere than the arena, and a group one way only.
ModelScenario pairScenario(Fault fault = Fault::None) {
  ModelScenario scenario;
  scenario.hosts = {0, 0};
  scenario.groups = {
      {{0, 1}, {1, 0}}, {{0, 1, false}, {1, 0}}, {{1, 0}}, {{0, 1, false}}};
  scenario.fault = fault;
  return scenario;
}

/// Each to the next; then all to one; then two of them alone, and one way.
ModelScenario ringScenario(Fault fault = Fault::None) {
  ModelScenario scenario;
  scenario.ranks = 3;
  scenario.hosts = {0, 0, 0};
  scenario.groups = {{{0, 1}, {1, 2, false}, {2, 0}},
                     {{0, 1}, {2, 1}},
                     {{0, 2}, {2, 0}, {1, 0, false}}};
  scenario.fault = fault;
  return scenario;
}

/// The same with rank 2 on another host.
ModelScenario twoHosts(Fault fault = Fault::None) {
  ModelScenario scenario = ringScenario(fault);
  scenario.hosts = {0, 0, 1};
  return scenario;
}

void expectRight(const ModelScenario &scenario) {
  Exploration found = explore(scenario);
  EXPECT_EQ(found.wrong, "");
  EXPECT_GT(found.states, 10u);
  testing::Test::RecordProperty("states", int(found.states));
  if (scenario.fault == Fault::None) {
    EXPECT_EQ(found.outcomes.size(), 1u);
  }
}

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

TEST(LinkModel, EveryRunEndsRight) {
  for (Fault fault : kFaults)
    for (uint32_t victim : {0u, 1u}) {
      ModelScenario scenario = pairScenario(fault);
      scenario.victim = victim;
      expectRight(scenario);
    }
}

TEST(LinkModel, EveryRunOfThreeEndsRight) {
  for (Fault fault : kFaults)
    for (uint32_t victim : {0u, 1u, 2u}) {
      ModelScenario scenario = ringScenario(fault);
      scenario.victim = victim;
      expectRight(scenario);
    }
}

/// Whether the transport within works on by itself or not.
TEST(LinkModel, EveryRunOfTwoHostsEndsRight) {
  for (bool innerBlocks : {false, true})
    for (Fault fault : kFaults)
      for (uint32_t victim : {0u, 2u}) {
        ModelScenario scenario = twoHosts(fault);
        scenario.victim = victim;
        scenario.innerBlocks = innerBlocks;
        expectRight(scenario);
      }
}

/// That an exploration can fail.
TEST(LinkModel, WrongProtocolsAreFound) {
  ModelScenario scenario = pairScenario();
  scenario.change = ModelScenario::Change::EndsBeforeTaken;
  EXPECT_NE(explore(scenario).wrong.find("after its group"), std::string::npos);
  scenario = ringScenario(Fault::Abort);
  scenario.change = ModelScenario::Change::TellsNobody;
  EXPECT_NE(explore(scenario).wrong.find("waits for ever"), std::string::npos);
}

//===----------------------------------------------------------------------===//
// Links, step by step
//===----------------------------------------------------------------------===//

constexpr size_t kArena = 4096;
constexpr size_t kBytes = 100;

/// Memory of a rank that others can map, with the messages that it sends.
class Arena {
public:
  Arena() : file(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    EXPECT_EQ(ftruncate(file.get(), kArena), 0);
    void *mapped = mmap(nullptr, kArena, PROT_READ | PROT_WRITE, MAP_SHARED,
                        file.get(), 0);
    EXPECT_NE(mapped, MAP_FAILED);
    EXPECT_TRUE(sealSharedMemory(file));
    data = static_cast<std::byte *>(mapped);
  }
  ~Arena() { munmap(data, kArena); }
  Arena(const Arena &) = delete;
  Parcel parcel() const {
    Parcel parcel;
    parcel.number = kArena;
    parcel.attached = Descriptor(dup(file.get()));
    return parcel;
  }
  std::byte *data = nullptr;

private:
  Descriptor file;
};

/// Of the message from one rank to another in a group.
std::byte valueOf(size_t group, uint32_t from, uint32_t to) {
  return std::byte(1 + group * 16 + from * 4 + to);
}

ModelReason reasonOf(const std::string &error) {
  if (error.empty())
    return ModelReason::None;
  if (error == "abort")
    return ModelReason::Abort;
  if (error.find("no answer within") != std::string::npos)
    return ModelReason::Timeout;
  if (error.find("connection") != std::string::npos ||
      error.find("Connection") != std::string::npos ||
      error.find("Broken pipe") != std::string::npos)
    return ModelReason::Lost;
  return ModelReason::Unexpected;
}

/// Links between all ranks of one host, that take the steps of the model.
class Links {
public:
  Links(const ModelScenario &scenario, std::vector<Arena> &arenas)
      : scenario(scenario), arenas(arenas), ranks(scenario.ranks) {
    for (uint32_t a = 0; a < scenario.ranks; ++a)
      for (uint32_t b = a + 1; b < scenario.ranks; ++b) {
        int pair[2];
        EXPECT_EQ(socketpair(AF_UNIX,
                             SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                             pair),
                  0);
        add(a, b, pair[0]);
        add(b, a, pair[1]);
      }
  }

  void take(const ModelStep &step) {
    switch (step.what) {
    case What::Begin:
      return begin(step.rank);
    case What::Progress:
      return settle(step.rank, link(step.rank, step.peer).progress());
    case What::End:
      return end(step.rank);
    case What::Die:
      return ranks[step.rank].links.clear();
    case What::Abort:
      return fail(step.rank, "abort");
    case What::Timeout:
      return fail(step.rank, link(step.rank, step.rank ? 0 : 1)
                                 .timedOut(std::chrono::seconds(1))
                                 .message());
    case What::Pause:
    case What::Resume:
    case What::Hear:
      return;
    }
  }

  /// What differs, if anything does.
  std::string differsFrom(const ModelState &model) const {
    for (uint32_t rank = 0; rank < scenario.ranks; ++rank) {
      std::string who = "rank " + std::to_string(rank);
      if (reasonOf(ranks[rank].error) != model.rank(rank).reason)
        return who + " has the error '" + ranks[rank].error + "'";
      if (model.rank(rank).phase != Phase::Within)
        continue;
      for (const auto &[peer, link] : ranks[rank].links)
        if (link.done() != model.end(rank, peer).isDone())
          return who + " is " + (link.done() ? "" : "not ") +
                 "done with rank " + std::to_string(peer);
    }
    return wrongBytes;
  }

private:
  struct Rank {
    std::map<uint32_t, LocalLink> links; // by peer
    std::map<uint32_t, std::vector<std::byte>> received;
    size_t group = 0;
    std::string error;
  };

  void add(uint32_t rank, uint32_t peer, int socket) {
    LocalLink link("rank " + std::to_string(peer), Descriptor(socket));
    Status mapped = link.mapPeerArena(arenas[peer].parcel());
    EXPECT_TRUE(mapped.ok()) << mapped.message();
    ranks[rank].links.emplace(peer, std::move(link));
  }
  LocalLink &link(uint32_t rank, uint32_t peer) {
    return ranks[rank].links.at(peer);
  }

  void begin(uint32_t rank) {
    Rank &self = ranks[rank];
    std::vector<uint32_t> near;
    for (const ModelMessage &message : scenario.groups[self.group]) {
      if (message.from != rank && message.to != rank)
        continue;
      uint32_t peer = message.from == rank ? message.to : message.from;
      post(self, rank, message);
      if (std::find(near.begin(), near.end(), peer) == near.end())
        near.push_back(peer);
    }
    for (uint32_t peer : near)
      if (self.error.empty())
        settle(rank, link(rank, peer).progress());
  }

  void post(Rank &self, uint32_t rank, const ModelMessage &message) {
    if (message.to == rank) {
      std::vector<std::byte> &into = self.received[message.from];
      into.assign(kBytes, std::byte(0));
      return link(rank, message.from)
          .post({true, message.from, into.data(), kBytes});
    }
    uint64_t slot = (self.group * 4 + message.to) * kBytes;
    std::byte *data = arenas[rank].data + slot;
    memset(data, int(valueOf(self.group, rank, message.to)), kBytes);
    link(rank, message.to)
        .post({false, message.to, data, kBytes},
              message.shared ? SentFrom{SentFrom::Arena, slot} : SentFrom());
  }

  void end(uint32_t rank) {
    Rank &self = ranks[rank];
    for (const ModelMessage &message : scenario.groups[self.group])
      if (message.to == rank)
        for (std::byte value : self.received[message.from])
          if (value != valueOf(self.group, message.from, rank))
            wrongBytes = "rank " + std::to_string(rank) + " has wrong bytes";
    ++self.group;
  }

  void settle(uint32_t rank, const Status &status) {
    if (!status.ok())
      fail(rank, status.message());
  }

  void fail(uint32_t rank, const std::string &why) {
    ranks[rank].error = why;
    for (auto &[peer, link] : ranks[rank].links)
      link.sayAborted(why);
  }

  const ModelScenario &scenario;
  std::vector<Arena> &arenas;
  std::vector<Rank> ranks;
  std::string wrongBytes;
};

/// Takes every way of the model, to every state and over every step.
size_t expectLinksAgree(const ModelScenario &scenario) {
  std::vector<Arena> arenas(scenario.ranks);
  size_t ways = 0;
  std::string differs;
  Exploration found = explore(scenario, [&](const ModelPath &path) {
    if (!differs.empty())
      return;
    ++ways;
    ModelState model(scenario);
    Links links(scenario, arenas);
    std::string text;
    for (const ModelStep &step : path) {
      model.take(step);
      links.take(step);
      text += " " + step.text() + ",";
      differs = links.differsFrom(model);
      if (!differs.empty())
        differs += ", after" + text;
    }
  });
  EXPECT_EQ(found.wrong, "");
  EXPECT_EQ(differs, "");
  return ways;
}

TEST(LinkModel, LinksTakeTheSameSteps) {
  for (Fault fault : kFaults)
    for (uint32_t victim : {0u, 1u}) {
      ModelScenario scenario = pairScenario(fault);
      scenario.victim = victim;
      EXPECT_GT(expectLinksAgree(scenario), 20u);
    }
}

TEST(LinkModel, LinksOfThreeTakeTheSameSteps) {
  for (Fault fault : {Fault::None, Fault::Abort, Fault::Death}) {
    ModelScenario scenario = ringScenario(fault);
    EXPECT_GT(expectLinksAgree(scenario), 500u);
  }
}

//===----------------------------------------------------------------------===//
// Whole transports
//===----------------------------------------------------------------------===//

/// The transport within: works on by itself between begin and end, or not. In
/// the first exchange it takes ranks of other hosts for such.
class Within : public Borrowed {
public:
  Within(Transport &inner, const ModelScenario &scenario)
      : Borrowed(inner), scenario(scenario) {}
  Status group(const std::vector<TransportMessage> &messages) override {
    DTRT_RETURN_IF_ERROR(Borrowed::group(messages));
    for (const TransportMessage &message : messages)
      if (isFirst && message.receive &&
          !scenario.isNear(device(), message.peer))
        memset(message.data, 0, sizeof(HostIdentity));
    isFirst = false;
    return {};
  }
  Status begin(const std::vector<TransportMessage> &messages) override {
    if (scenario.innerBlocks)
      return group(messages);
    underWay = std::async(std::launch::async,
                          [this, messages] { return group(messages); });
    return {};
  }
  Status end() override {
    return scenario.innerBlocks ? Status() : underWay.get();
  }

private:
  const ModelScenario &scenario;
  bool isFirst = true;
  std::future<Status> underWay;
};

class Ranks {
public:
  Ranks(const ModelScenario &scenario, double timeout)
      : scenario(scenario), devices(devicesOf(scenario)), world(devices),
        memory(devices.size()), arenas(devices.size()) {
    Secret secret = *Secret::make();
    for (uint32_t device : devices)
      ends.push_back(makeSharedMemoryTransport(
          std::make_unique<Within>(world.endpoint(device), scenario), devices,
          secret, std::chrono::duration<double>(timeout)));
  }

  /// How the ranks have ended, as `ModelState::outcome`.
  std::string run() {
    std::vector<std::future<std::string>> ended;
    for (uint32_t rank : devices)
      ended.push_back(
          std::async(std::launch::async, [this, rank] { return live(rank); }));
    std::string text;
    for (auto &one : ended)
      text += (text.empty() ? "" : " ") + one.get();
    return text;
  }

private:
  static std::vector<uint32_t> devicesOf(const ModelScenario &scenario) {
    std::vector<uint32_t> devices;
    for (uint32_t rank = 0; rank < scenario.ranks; ++rank)
      devices.push_back(rank);
    return devices;
  }

  static std::string nameOf(const std::string &error) {
    constexpr const char *names[] = {"ok", "abort", "lost", "timeout"};
    ModelReason reason = reasonOf(error);
    return reason == ModelReason::Unexpected ? error : names[size_t(reason)];
  }

  std::string live(uint32_t rank) {
    Transport &end = *ends[rank];
    Status status = prepare(end, rank);
    awaitAll(); // the model begins when all are connected
    for (size_t g = 0; g < scenario.groups.size() && status.ok(); ++g) {
      if (scenario.fault != Fault::None && rank == scenario.victim &&
          g == *scenario.before) {
        if (scenario.fault == Fault::Death) {
          end.leave();
          return "dead";
        }
        status = makeError(ErrorCode::Cancelled, "abort");
        break;
      }
      status = group(end, rank, g);
    }
    if (!status.ok())
      end.abort(status);
    return nameOf(status.message());
  }

  void awaitAll() {
    std::unique_lock<std::mutex> lock(mutex);
    if (++prepared == scenario.ranks)
      allPrepared.notify_all();
    allPrepared.wait(lock, [this] { return prepared == scenario.ranks; });
  }

  Status prepare(Transport &end, uint32_t rank) {
    std::vector<uint32_t> peers = devices;
    peers.erase(peers.begin() + rank);
    DTRT_RETURN_IF_ERROR(end.connect({1, 2}, peers));
    auto arena = end.allocateArena(kArena);
    DTRT_RETURN_IF_ERROR(arena);
    memory[rank].resize(kArena);
    arenas[rank] = *arena ? *arena : memory[rank].data();
    return end.registerArena(arenas[rank], kArena);
  }

  Status group(Transport &end, uint32_t rank, size_t group) {
    std::vector<TransportMessage> messages;
    std::map<uint32_t, std::vector<std::byte>> received, elsewhere;
    for (const ModelMessage &message : scenario.groups[group]) {
      if (message.to == rank) {
        received[message.from].resize(kBytes);
        messages.push_back(
            {true, message.from, received[message.from].data(), kBytes});
      } else if (message.from == rank) {
        elsewhere[message.to].resize(kBytes);
        std::byte *data = message.shared ? arenas[rank] + group * kBytes
                                         : elsewhere[message.to].data();
        memset(data, int(valueOf(group, rank, message.to)), kBytes);
        messages.push_back({false, message.to, data, kBytes});
      }
    }
    DTRT_RETURN_IF_ERROR(end.begin(messages));
    DTRT_RETURN_IF_ERROR(end.end());
    for (auto &[from, bytes] : received)
      for (std::byte value : bytes)
        if (value != valueOf(group, from, rank))
          return makeError("wrong bytes");
    return {};
  }

  const ModelScenario &scenario;
  std::vector<uint32_t> devices;
  LoopbackWorld world;
  std::vector<std::unique_ptr<Transport>> ends;
  std::vector<std::vector<std::byte>> memory; // where no arena is shared
  std::vector<std::byte *> arenas;
  std::mutex mutex; // of what follows
  std::condition_variable allPrepared;
  uint32_t prepared = 0;
};

constexpr int kTries = 5;

void expectModelledEnds(ModelScenario scenario, double timeout) {
  for (size_t before = 0; before < scenario.groups.size(); ++before)
    for (scenario.victim = 0; scenario.victim < scenario.ranks;
         ++scenario.victim) {
      scenario.before = before;
      Exploration found = explore(scenario);
      ASSERT_EQ(found.wrong, "");
      for (int i = 0; i < kTries; ++i) {
        std::string outcome = Ranks(scenario, timeout).run();
        EXPECT_EQ(found.outcomes.count(outcome), 1u) << outcome;
      }
    }
}

/// Longer than any rank needs on a loaded machine.
constexpr double kAmple = 60;

TEST(LinkModel, TransportsEndAsTheModelDoes) {
  for (Fault fault : {Fault::None, Fault::Abort, Fault::Death})
    expectModelledEnds(ringScenario(fault), kAmple);
}

TEST(LinkModel, TransportsOfTwoHostsEndAsTheModelDoes) {
  for (bool innerBlocks : {false, true})
    for (Fault fault : {Fault::None, Fault::Abort}) {
      ModelScenario scenario = twoHosts(fault);
      scenario.innerBlocks = innerBlocks;
      expectModelledEnds(scenario, kAmple);
    }
}

} // namespace
