//===- TransportContract.cpp - What every transport must do ---------------===//

#include "TransportContract.h"

#include "PlanBuilder.h"

#include "dtrt/core/ArenaStorage.h"
#include "dtrt/core/CheckPattern.h"
#include "dtrt/core/Executor.h"
#include "dtrt/transport/SharedPages.h"
#include "dtrt/transport/SharedShards.h"

#include <map>
#include <random>
#include <thread>
#include <unistd.h>

using namespace dtrt;
using namespace dtrt::test;

namespace {

/// Seconds that no rank needs on a loaded machine.
constexpr double kAmple = 60;
/// Where it is the timeout that may end the test: time enough to connect.
constexpr double kShort = 4;

using Body = std::function<Status(Transport &transport)>;

/// Runs the body as every device; the error of each. A rank that fails tells
/// the others, and every rank leaves in the end.
std::map<uint32_t, std::string> runDevices(TransportWorld &world,
                                           const std::vector<uint32_t> &devices,
                                           const Body &body) {
  std::map<uint32_t, std::string> errors;
  for (uint32_t device : devices)
    errors[device] = "";
  std::vector<std::thread> threads;
  for (uint32_t device : devices)
    threads.emplace_back([&, device] {
      Transport &transport = world.endpoint(device);
      Status status = body(transport);
      errors[device] = status.message();
      if (!status.ok())
        transport.abort(status);
      transport.leave();
    });
  for (std::thread &thread : threads)
    thread.join();
  return errors;
}

void expectNoErrors(const std::map<uint32_t, std::string> &errors) {
  for (const auto &[device, error] : errors)
    EXPECT_EQ(error, "") << "device " << device;
}

std::byte valueOf(uint32_t from, uint32_t to, size_t group, size_t at) {
  return std::byte(from * 31 + to * 7 + group * 101 + at * 13 + at / 256);
}

/// The two directions of a pair differ in size, unless they have none.
size_t sizeOf(uint32_t from, size_t bytes) {
  return bytes == 0 ? 0 : bytes + from;
}

/// One group of messages with each of the peers, both ways, and what came.
Status exchange(Transport &transport, const std::vector<uint32_t> &peers,
                size_t group, size_t bytes) {
  uint32_t self = transport.device();
  std::vector<std::vector<std::byte>> sent, got;
  std::vector<TransportMessage> messages;
  for (uint32_t peer : peers) {
    sent.emplace_back(sizeOf(self, bytes));
    for (size_t i = 0; i < sent.back().size(); ++i)
      sent.back()[i] = valueOf(self, peer, group, i);
    got.emplace_back(sizeOf(peer, bytes));
    messages.push_back(
        {false, peer, sent.back().data(), sent.back().size(), nullptr});
    messages.push_back(
        {true, peer, got.back().data(), got.back().size(), nullptr});
  }
  DTRT_RETURN_IF_ERROR(transport.group(messages));
  for (size_t p = 0; p < peers.size(); ++p)
    for (size_t i = 0; i < got[p].size(); ++i)
      if (got[p][i] != valueOf(peers[p], self, group, i))
        return makeError("byte ", i, " from device ", peers[p], " in group ",
                         group, " is wrong");
  return {};
}

std::vector<uint32_t> others(const std::vector<uint32_t> &devices,
                             uint32_t self) {
  std::vector<uint32_t> found;
  for (uint32_t device : devices)
    if (device != self)
      found.push_back(device);
  return found;
}

const Digest kPlan = {1, 2};

/// One collective of a set, and what came.
Status callOnce(Transport &transport, const std::vector<uint32_t> &members,
                uint32_t set, CollectiveKind kind, size_t bytes) {
  uint32_t self = transport.device(), root = members.back();
  bool isRoot = self == root;
  size_t count = members.size();
  std::vector<std::byte> given(bytes * blocksGiven(kind, count, isRoot));
  std::vector<std::byte> got(bytes * blocksGot(kind, count, isRoot));
  std::vector<TransportMessage> messages;
  bool isShared = kind != CollectiveKind::AllToAll;
  for (size_t k = 0; k < count; ++k) {
    if (members[k] == self)
      continue;
    if (!given.empty()) {
      std::byte *block = given.data() + blockFor(kind, k) * bytes;
      for (size_t i = 0; i < bytes; ++i)
        block[i] = valueOf(self, isShared ? 0 : members[k], set, i);
      messages.push_back({false, members[k], block, bytes});
    }
    if (kind != CollectiveKind::Broadcast || members[k] == root)
      messages.push_back(
          {true, members[k], got.data() + blockFrom(kind, k) * bytes, bytes});
  }
  CollectiveCall call = {kind,
                         set,
                         kind == CollectiveKind::Broadcast ? root : 0,
                         bytes,
                         given.empty() ? nullptr : given.data(),
                         got.empty() ? nullptr : got.data(),
                         &messages};
  DTRT_RETURN_IF_ERROR(transport.collective(call));
  for (const TransportMessage &message : messages)
    for (size_t i = 0; message.receive && i < bytes; ++i)
      if (message.data[i] != valueOf(message.peer, isShared ? 0 : self, set, i))
        return makeError("byte ", i, " from device ", message.peer, " in a ",
                         collectiveName(kind), " is wrong");
  return {};
}

Status runCollectives(Transport &transport,
                      const std::vector<uint32_t> &devices,
                      const std::vector<std::vector<uint32_t>> &sets) {
  uint32_t self = transport.device();
  auto peers = others(devices, self);
  DTRT_RETURN_IF_ERROR(transport.connect(kPlan, peers));
  DTRT_RETURN_IF_ERROR(transport.prepareCollectives(sets));
  size_t group = 0;
  for (size_t bytes : {128, 1 << 20, 3})
    for (CollectiveKind kind :
         {CollectiveKind::Broadcast, CollectiveKind::AllGather,
          CollectiveKind::AllToAll}) {
      DTRT_RETURN_IF_ERROR(exchange(transport, peers, group++, bytes));
      for (uint32_t set = 0; set < sets.size(); ++set)
        if (std::binary_search(sets[set].begin(), sets[set].end(), self))
          DTRT_RETURN_IF_ERROR(
              callOnce(transport, sets[set], set, kind, bytes));
    }
  return {};
}

} // namespace

TEST_P(TransportContract, MovesGroupsOfAllSizesInOrder) {
  std::vector<uint32_t> devices = {2, 5, 7};
  auto world = GetParam().make(devices, kAmple);
  expectNoErrors(
      runDevices(*world, devices, [&](Transport &transport) -> Status {
        auto peers = others(devices, transport.device());
        DTRT_RETURN_IF_ERROR(transport.connect(kPlan, peers));
        size_t group = 0;
        for (size_t bytes : {0, 1, 100, 4096, 1 << 20, 3})
          DTRT_RETURN_IF_ERROR(exchange(transport, peers, group++, bytes));
        return {};
      }));
}

TEST_P(TransportContract, RanksNeedNotTakePartInEveryGroup) {
  std::vector<uint32_t> devices = {0, 1, 2, 3};
  auto world = GetParam().make(devices, kAmple);
  // Pairs of two groups; device 3 has none in the first, device 0 in neither.
  expectNoErrors(
      runDevices(*world, devices, [&](Transport &transport) -> Status {
        uint32_t self = transport.device();
        std::vector<uint32_t> first, second;
        if (self == 1 || self == 2)
          first = {3 - self};
        if (self == 1 || self == 3)
          second = {4 - self};
        std::vector<uint32_t> peers = first;
        peers.insert(peers.end(), second.begin(), second.end());
        DTRT_RETURN_IF_ERROR(transport.connect(kPlan, peers));
        if (!first.empty())
          DTRT_RETURN_IF_ERROR(exchange(transport, first, 0, 10000));
        if (!second.empty())
          DTRT_RETURN_IF_ERROR(exchange(transport, second, 1, 20000));
        return {};
      }));
}

/// A library's collectives of all kinds, of two member sets that share two
/// devices, over and over.
TEST_P(TransportContract, RunsCollectives) {
  std::vector<uint32_t> devices = {2, 5, 7};
  const std::vector<std::vector<uint32_t>> sets = {{2, 5, 7}, {5, 7}};
  auto world = GetParam().make(devices, kAmple);
  expectNoErrors(runDevices(*world, devices, [&](Transport &transport) {
    return runCollectives(transport, devices, sets);
  }));
}

namespace {

Status expectDestination(const LocalStorage &storage) {
  CheckReport report;
  for (uint32_t i = 0; i < storage.program().destination.size(); ++i)
    checkDestination(storage, i, report);
  if (report.mismatches > 0)
    return makeError(report.mismatches, " of ", report.bytesChecked,
                     " bytes are wrong: ", report.first.front());
  return {};
}

/// A device's part in the plan. Peers that the transport lets do so read its
/// source shards where they lie in `memory`.
Status runDevice(const PlanReader &plan, Transport &transport,
                 const MemorySource &memory) {
  auto program = plan.program(transport.device());
  DTRT_RETURN_IF_ERROR(program);
  auto storage = ArenaStorage::allocate(plan.common(), *program, memory);
  DTRT_RETURN_IF_ERROR(storage);
  for (uint32_t i = 0; i < program->source.size(); ++i)
    fillSource(**storage, i);
  DTRT_RETURN_IF_ERROR(transport.connect(plan.digest(), peersOf(*program)));
  ExecutionOptions options;
  auto peers = shareShards(plan, **storage, transport, options);
  DTRT_RETURN_IF_ERROR(peers);
  auto executor = Executor::prepare(**storage, transport, options);
  DTRT_RETURN_IF_ERROR(executor);
  DTRT_RETURN_IF_ERROR(
      transport.registerArena(executor->staging(), program->stagingBytes));
  DTRT_RETURN_IF_ERROR(executor->run());
  DTRT_RETURN_IF_ERROR(expectDestination(**storage));
  transport.leave(); // before what it has registered goes
  return {};
}

} // namespace

TEST_P(TransportContract, RunsPlansWithEveryByteInPlace) {
  for (const TestPlan &test :
       {reshapePlan(), forwardingPlan(), reshapePlan(MemoryMode::Flat)}) {
    PlanReader plan = test.reader();
    auto world = GetParam().make(plan.devices(), kAmple);
    expectNoErrors(
        runDevices(*world, plan.devices(), [&](Transport &transport) {
          return runDevice(plan, transport, {});
        }));
  }
}

namespace {

/// Pages that processes of a host share, as trainers have them.
MemorySource sharedPages() {
  SharedPages &pages = SharedPages::ofProcess();
  auto sizes = std::make_shared<std::map<std::byte *, uint64_t>>();
  MemorySource source;
  source.page = uint64_t(sysconf(_SC_PAGESIZE));
  source.allocate = [&, sizes](uint64_t bytes) {
    std::byte *start = pages.reserve(bytes);
    if (start && pages.open(start, bytes))
      (*sizes)[start] = bytes;
    return start;
  };
  source.free = [&, sizes](std::byte *start) {
    pages.free(start, sizes->at(start));
  };
  source.discard = [&](std::byte *start, uint64_t bytes) {
    pages.close(start, bytes);
    pages.open(start, bytes);
  };
  return source;
}

} // namespace

TEST_P(TransportContract, RunsPlansWhosePeersMayReadTheirShards) {
  uint64_t seed = std::random_device()();
  std::mt19937_64 rng(seed);
  std::vector<TestPlan> tests = {reshapePlan(), forwardingPlan(),
                                 collectivePlan(),
                                 reshapePlan(MemoryMode::Flat)};
  for (int i = 0; i < 20; ++i)
    tests.push_back(anyPlan(rng));
  for (const TestPlan &test : tests) {
    PlanReader plan = test.reader();
    auto world = GetParam().make(plan.devices(), kAmple);
    SCOPED_TRACE("seed " + std::to_string(seed));
    expectNoErrors(
        runDevices(*world, plan.devices(), [&](Transport &transport) {
          return runDevice(plan, transport, sharedPages());
        }));
  }
}

TEST_P(TransportContract, APlanOfAnotherDigestIsAnErrorOfAllRanks) {
  if (!GetParam().comparesPlans)
    GTEST_SKIP() << "left to who makes the transport";
  std::vector<uint32_t> devices = {0, 4};
  auto world = GetParam().make(devices, kAmple);
  auto errors = runDevices(*world, devices, [&](Transport &transport) {
    Digest digest = transport.device() == 4 ? Digest{5, 6} : kPlan;
    return transport.connect(digest, others(devices, transport.device()));
  });
  for (const auto &[device, error] : errors) {
    EXPECT_NE(error.find(digestText(kPlan)), std::string::npos) << error;
    EXPECT_NE(error.find(digestText({5, 6})), std::string::npos) << error;
  }
}

TEST_P(TransportContract, AnAbortEndsTheGroupsOfAllRanks) {
  std::vector<uint32_t> devices = {0, 1, 2};
  auto world = GetParam().make(devices, kAmple);
  auto errors =
      runDevices(*world, devices, [&](Transport &transport) -> Status {
        auto peers = others(devices, transport.device());
        DTRT_RETURN_IF_ERROR(transport.connect(kPlan, peers));
        DTRT_RETURN_IF_ERROR(exchange(transport, peers, 0, 100));
        if (transport.device() == 1)
          return makeError("out of patience");
        return exchange(transport, peers, 1, 100);
      });
  for (const auto &[device, error] : errors)
    EXPECT_NE(error.find("out of patience"), std::string::npos) << error;
}

TEST_P(TransportContract, APeerThatLeavesDoesNotHangTheOthers) {
  std::vector<uint32_t> devices = {0, 1};
  auto world = GetParam().make(devices, kShort);
  auto errors =
      runDevices(*world, devices, [&](Transport &transport) -> Status {
        auto peers = others(devices, transport.device());
        DTRT_RETURN_IF_ERROR(transport.connect(kPlan, peers));
        if (transport.device() == 1)
          return {};
        return exchange(transport, peers, 0, 100);
      });
  EXPECT_EQ(errors[1], "");
  EXPECT_NE(errors[0], "");
}
