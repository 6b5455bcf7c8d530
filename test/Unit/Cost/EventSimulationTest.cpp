//===- EventSimulationTest.cpp - Transitions, event by event --------------===//

#include "dtrt/cost/EventSimulation.h"

#include "dtrt/cost/FairShares.h"
#include "dtrt/cost/Simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <utility>

using namespace dtrt;

namespace {

using Kind = DeviceStep::Kind;

constexpr int64_t kBytes = 25'000'000; // 1 ms on the NIC
constexpr double kLatency = 10e-6;
constexpr double kOnNic = 1e-3 + kLatency;

TimedMessage message(int32_t wave, int64_t source, int64_t destination,
                     int64_t bytes = kBytes, bool isCopied = false) {
  return {wave, source, destination, bytes, isCopied, isCopied};
}

/// The programs that move these messages, with packs one group early and
/// unpacks one group late, as executors run them, unless a forward is between.
std::map<int64_t, std::vector<DeviceStep>>
programsOf(const std::vector<TimedMessage> &messages) {
  struct Copies {
    int64_t pack = 0, forward = 0, unpack = 0;
    bool forwards = false;
  };
  std::map<int64_t, std::vector<DeviceStep>> groups;
  std::map<int64_t, std::vector<Copies>> copies;
  auto groupOf = [&](int64_t device, int32_t wave) -> DeviceStep & {
    std::vector<DeviceStep> &own = groups[device];
    if (own.empty() || own.back().wave != wave) {
      own.emplace_back();
      own.back().wave = wave;
      copies[device].emplace_back();
    }
    return own.back();
  };
  for (const TimedMessage &m : messages) {
    groupOf(m.source, m.wave)
        .messages.push_back({false, m.destination, m.bytes});
    Copies &sent = copies[m.source].back();
    sent.forwards |= m.isForward;
    (m.isForward ? sent.forward : sent.pack) += m.isPacked ? m.bytes : 0;
    groupOf(m.destination, m.wave)
        .messages.push_back({true, m.source, m.bytes});
    copies[m.destination].back().unpack += m.isUnpacked ? m.bytes : 0;
  }
  std::map<int64_t, std::vector<DeviceStep>> programs;
  auto addCopy = [](std::vector<DeviceStep> &steps, Kind kind, int64_t bytes) {
    if (bytes == 0)
      return;
    steps.emplace_back();
    steps.back().kind = kind;
    steps.back().bytes = bytes;
  };
  for (auto &[device, own] : groups) {
    const std::vector<Copies> &of = copies[device];
    std::vector<DeviceStep> &steps = programs[device];
    addCopy(steps, Kind::Pack, of.front().pack + of.front().forward);
    for (size_t i = 0; i < own.size(); ++i) {
      if (i > 0 && of[i].forwards) {
        addCopy(steps, Kind::Unpack, of[i - 1].unpack);
        addCopy(steps, Kind::Pack, of[i].forward);
      }
      own[i].unpackBytes = i > 0 && !of[i].forwards ? of[i - 1].unpack : 0;
      own[i].packBytes = i + 1 < own.size() ? of[i + 1].pack : 0;
      steps.push_back(own[i]);
    }
    addCopy(steps, Kind::Unpack, of.back().unpack);
  }
  return programs;
}

SimulatedPlan
planOf(const std::map<int64_t, std::vector<DeviceStep>> &devices) {
  SimulatedPlan plan;
  for (const auto &[device, steps] : devices)
    plan.addDevice(device, steps);
  Status status = plan.finish();
  EXPECT_TRUE(status.ok()) << status.message();
  return plan;
}

SimulationResult run(const SimulatedPlan &plan,
                     const Cluster &cluster = Cluster(),
                     const SimulationOptions &options = {}) {
  auto result = simulateEvents(plan, cluster, options);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? *result : SimulationResult();
}

SimulationResult run(const std::vector<TimedMessage> &messages,
                     const Cluster &cluster = Cluster(),
                     const SimulationOptions &options = {}) {
  return run(planOf(programsOf(messages)), cluster, options);
}

const DeviceSeconds &of(const SimulationResult &result, int64_t device) {
  auto at = std::find_if(
      result.devices.begin(), result.devices.end(),
      [&](const DeviceSeconds &one) { return one.device == device; });
  EXPECT_NE(at, result.devices.end());
  return *at;
}

TEST(FairShares, RaiseAllUntilAResourceIsFull) {
  FairShares shares(2);
  uint32_t both = shares.add(0, 1, 1);
  EXPECT_EQ(shares.share(both), 1);
  uint32_t first = shares.add(0, FairShares::kNone, 1);
  uint32_t second = shares.add(1, FairShares::kNone, 1);
  uint32_t third = shares.add(1, FairShares::kNone, 1);
  // Resource 1 is full with a third each; what that leaves of 0 is taken.
  EXPECT_NEAR(shares.share(both), 1.0 / 3, 1e-15);
  EXPECT_NEAR(shares.share(second), 1.0 / 3, 1e-15);
  EXPECT_NEAR(shares.share(third), 1.0 / 3, 1e-15);
  EXPECT_NEAR(shares.share(first), 2.0 / 3, 1e-15);
  // One that wants less leaves the rest to the others.
  shares.remove(third);
  uint32_t modest = shares.add(1, FairShares::kNone, 0.1);
  EXPECT_NEAR(shares.share(modest), 0.1, 1e-15);
  EXPECT_NEAR(shares.share(second), 0.45, 1e-15);
  EXPECT_NEAR(shares.share(both), 0.45, 1e-15);
  EXPECT_NEAR(shares.share(first), 0.55, 1e-15);
  shares.remove(second);
  EXPECT_NEAR(shares.share(both), 0.5, 1e-15);
  EXPECT_NEAR(shares.share(first), 0.5, 1e-15);
}

/// Whoever gets less than it wants is on a full resource where nobody gets
/// more than it: the definition of max-min fairness.
TEST(FairShares, NobodyGetsMoreAtTheCostOfOneThatHasLess) {
  constexpr uint32_t kResources = 6;
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    FairShares shares(kResources);
    struct User {
      uint32_t number, a, b;
      double most;
    };
    std::vector<User> users;
    for (int change = 0; change < 20; ++change) {
      if (!users.empty() && random() % 3 == 0) {
        size_t which = random() % users.size();
        shares.remove(users[which].number);
        users.erase(users.begin() + long(which));
      } else {
        uint32_t a = random() % kResources;
        uint32_t b = random() % kResources;
        b = a == b ? FairShares::kNone : b;
        double most = random() % 2 ? 1 : 0.05 * double(1 + random() % 19);
        users.push_back({shares.add(a, b, most), a, b, most});
      }
      double used[kResources] = {}, greatest[kResources] = {};
      for (const User &user : users)
        for (uint32_t resource : {user.a, user.b})
          if (resource != FairShares::kNone) {
            double share = shares.share(user.number);
            used[resource] += share;
            greatest[resource] = std::max(greatest[resource], share);
          }
      for (double part : used)
        ASSERT_LE(part, 1 + 1e-9);
      for (const User &user : users) {
        double share = shares.share(user.number);
        auto holdsBack = [&](uint32_t resource) {
          return resource != FairShares::kNone && used[resource] > 1 - 1e-9 &&
                 share > greatest[resource] - 1e-9;
        };
        ASSERT_TRUE(std::abs(share - user.most) < 1e-9 || holdsBack(user.a) ||
                    holdsBack(user.b))
            << "round " << round << ", share " << share;
      }
    }
  }
}

TEST(EventSimulation, PortsOfOneDeviceRunAtOnce) {
  SimulationResult result =
      run({message(0, 0, 8), message(0, 0, 1), message(0, 8, 0)});
  EXPECT_NEAR(result.seconds, kOnNic, 1e-12);
  EXPECT_NEAR(result.spent.wire, 1e-3, 1e-12);
  EXPECT_NEAR(result.spent.latency, kLatency, 1e-12);
  ASSERT_EQ(result.waves.size(), 1u);
  EXPECT_EQ(result.waves[0].messages, 3u);
  EXPECT_EQ(result.waves[0].bytes, 3 * kBytes);
}

TEST(EventSimulation, MessagesShareANic) {
  Cluster cluster;
  cluster.devicesPerNic = 2;
  // Two of 1 ms, each at half the rate.
  SimulationResult equal = run({message(0, 0, 8), message(1, 1, 16)}, cluster);
  EXPECT_NEAR(equal.seconds, 2e-3 + kLatency, 1e-12);
  EXPECT_NEAR(equal.spent.sharing, 1e-3, 1e-12);
  // The short one is done after 1 ms, with half of the long one left.
  SimulationResult unequal =
      run({message(0, 0, 8), message(1, 1, 16, kBytes / 2)}, cluster);
  EXPECT_NEAR(unequal.seconds, 1.5e-3 + kLatency, 1e-12);
  EXPECT_NEAR(unequal.spent.wire, 1e-3, 1e-12);
  EXPECT_NEAR(unequal.spent.sharing, 0.5e-3, 1e-12);
  EXPECT_NEAR(of(unequal, 1).end, 1e-3 + kLatency, 1e-12);
  // Island ports stay a device's own.
  SimulationResult island = run({message(0, 0, 2), message(1, 1, 3)}, cluster);
  EXPECT_NEAR(island.seconds, 0.125e-3 + kLatency, 1e-12);
}

TEST(EventSimulation, AChainWaitsForBothEnds) {
  SimulationResult result = run({message(0, 0, 8), message(1, 8, 16),
                                 message(1, 32, 40), message(2, 16, 24)});
  EXPECT_NEAR(result.seconds, 3 * kOnNic, 1e-12);
  EXPECT_NEAR(of(result, 40).end, kOnNic, 1e-12); // no barrier between waves
  EXPECT_NEAR(of(result, 24).waiting, 2 * kOnNic, 1e-12);
  EXPECT_EQ(of(result, 24).waitedFor, 16);
  EXPECT_NEAR(of(result, 16).keptWaiting, 2 * kOnNic, 1e-12);
  EXPECT_NEAR(of(result, 16).carrying, 2 * kOnNic, 1e-12);
  EXPECT_EQ(of(result, 0).waitedFor, -1);
  ASSERT_EQ(result.path.size(), 3u);
  EXPECT_EQ(result.path[1].device, 8);
  EXPECT_EQ(result.path[1].peer, 16);
  EXPECT_EQ(result.path[2].wave, 2);
  EXPECT_NEAR(result.waves[1].onPath.total(), kOnNic, 1e-12);
}

TEST(EventSimulation, CopiesGoBesideTheWireButForTheEnds) {
  double pack = Cluster().packSeconds(kBytes);
  SimulationResult result =
      run({message(0, 0, 8, kBytes, true), message(1, 0, 8, kBytes, true),
           message(2, 0, 8, kBytes, true)});
  EXPECT_NEAR(result.seconds, 3 * kOnNic + 2 * pack, 1e-12);
  EXPECT_NEAR(result.spent.copies, 2 * pack, 1e-12);
  EXPECT_NEAR(of(result, 0).copying, 3 * pack, 1e-12);
  EXPECT_EQ(result.path.front().kind, Kind::Pack);
  EXPECT_EQ(result.path.back().kind, Kind::Unpack);
}

/// What is passed on is unpacked and packed between its waves. The formula
/// packs it beside the wave that brings it, and so lacks both.
TEST(EventSimulation, AForwardUnpacksBeforeItPacks) {
  double pack = Cluster().packSeconds(kBytes);
  std::vector<TimedMessage> messages = {message(0, 0, 8, kBytes, true),
                                        message(1, 8, 16, kBytes, true)};
  auto devices = programsOf(messages);
  std::vector<DeviceStep> &forwarder = devices[8];
  ASSERT_EQ(forwarder.size(), 2u);
  DeviceStep copy;
  copy.kind = Kind::Unpack;
  copy.bytes = std::exchange(forwarder[1].unpackBytes, 0);
  forwarder.insert(forwarder.begin() + 1, copy);
  copy.kind = Kind::Pack;
  copy.bytes = std::exchange(forwarder[0].packBytes, 0);
  forwarder.insert(forwarder.begin() + 2, copy);
  SimulationResult result = run(planOf(devices));
  EXPECT_NEAR(result.seconds, 2 * kOnNic + 4 * pack, 1e-12);
  EXPECT_NEAR(result.seconds - predictSeconds(messages, Cluster()), 2 * pack,
              1e-12);
}

TEST(EventSimulation, LocalWorkSharesTheCopyEngine) {
  double alone = Cluster().packSeconds(kBytes);
  auto devices = programsOf({message(0, 0, 8, kBytes, true)});
  DeviceStep local;
  local.kind = Kind::Local;
  local.bytes = kBytes;
  devices[0].insert(devices[0].begin(), local);
  SimulationResult result = run(planOf(devices));
  EXPECT_NEAR(result.seconds, kOnNic + 3 * alone, 1e-12);
  EXPECT_NEAR(result.spent.sharing, alone, 1e-12);
  // Who waits for it, waits until it is done, and is alone then.
  devices[0][1].afterLocal = true;
  EXPECT_NEAR(run(planOf(devices)).seconds, kOnNic + 3 * alone, 1e-12);
  EXPECT_NEAR(run(planOf(devices)).spent.sharing, 0, 1e-12);
  // After the last step it is waited for, too.
  devices = programsOf({message(0, 0, 8, 1)});
  devices[0].insert(devices[0].begin(), local);
  EXPECT_NEAR(run(planOf(devices)).seconds, alone, 1e-12);
}

TEST(EventSimulation, WhatIsCopiedBesideAGroupFollowsItsUnpack) {
  std::vector<TimedMessage> messages = {message(0, 0, 8, kBytes, true),
                                        message(1, 0, 8, kBytes, true)};
  auto devices = programsOf(messages);
  const double copy = Cluster().packSeconds(kBytes);
  std::vector<DeviceStep> &receiver = devices[8];
  ASSERT_EQ(receiver.size(), 3u);
  receiver[1].localBytes = kBytes;
  EXPECT_NEAR(run(planOf(devices)).seconds, copy + 2 * kOnNic + copy, 1e-12);
  // The group ends when it has, and then the last message is unpacked.
  receiver[1].localBytes = 100 * kBytes;
  const double longer = Cluster().packSeconds(100 * kBytes);
  ASSERT_GT(copy + longer, kOnNic);
  SimulationResult result = run(planOf(devices));
  EXPECT_NEAR(result.seconds, copy + kOnNic + copy + longer + copy, 1e-12);
  EXPECT_NEAR(predictSeconds(messages, Cluster(), {{1, 8, 100 * kBytes, true}}),
              result.seconds, 1e-12);
  ASSERT_EQ(result.path.size(), 5u);
  EXPECT_EQ(result.path[2].kind, Kind::Unpack);
  EXPECT_EQ(result.path[3].kind, Kind::Local);
  EXPECT_EQ(result.path[3].wave, 1);
}

TEST(EventSimulation, EveryGroupIsLaunched) {
  SimulationOptions options;
  options.launchUs = 30;
  options.latencyUs = 0;
  SimulationResult result =
      run({message(0, 0, 8), message(1, 0, 8)}, Cluster(), options);
  EXPECT_NEAR(result.seconds, 2 * (1e-3 + 30e-6), 1e-12);
  EXPECT_NEAR(result.spent.launch, 60e-6, 1e-12);
  EXPECT_EQ(result.spent.latency, 0);
}

TEST(EventSimulation, ASlowDeviceSlowsItsMessagesAndCopies) {
  SimulationOptions options;
  options.slowDevices = {{8, 2}};
  options.launchUs = 10;
  double pack = Cluster().packSeconds(kBytes);
  std::vector<TimedMessage> messages = {message(0, 0, 8, kBytes, true),
                                        message(0, 1, 16, kBytes, true)};
  SimulationResult result = run(messages, Cluster(), options);
  // 8 offers after 20 us, long before 0 has packed.
  EXPECT_NEAR(result.seconds, 10e-6 + 2e-3 + kLatency + 3 * pack, 1e-12);
  EXPECT_NEAR(result.spent.slow, 1e-3 + pack, 1e-12);
  EXPECT_NEAR(of(result, 16).end, 10e-6 + kOnNic + 2 * pack, 1e-12);
  options.slowDevices.clear();
  options.slowLinks = {{0, 8, 3}, {16, 1, 50}};
  EXPECT_NEAR(run(messages, Cluster(), options).seconds,
              10e-6 + 3e-3 + kLatency + 2 * pack, 1e-12);
  // What a slow device cannot use of a NIC is another's.
  Cluster shared;
  shared.devicesPerNic = 2;
  SimulationOptions slow;
  slow.slowDevices = {{0, 4}};
  SimulationResult both =
      run({message(0, 0, 8), message(1, 1, 16)}, shared, slow);
  EXPECT_NEAR(of(both, 1).end, 1e-3 / 0.75 + kLatency, 1e-12);
  EXPECT_NEAR(both.seconds, 4e-3 + kLatency, 1e-12);
}

TEST(EventSimulation, JitterFollowsItsSeed) {
  std::vector<TimedMessage> messages;
  for (int32_t wave = 0; wave < 200; ++wave)
    messages.push_back(message(wave, 0, 8));
  SimulationOptions options;
  options.jitter = 0.05;
  SimulationResult first = run(messages, Cluster(), options);
  EXPECT_EQ(first.seconds, run(messages, Cluster(), options).seconds);
  std::set<double> drawn;
  for (const PathStep &step : first.path) {
    EXPECT_GE(step.end - step.begin, 0.95e-3 + kLatency - 1e-12);
    EXPECT_LE(step.end - step.begin, 1.05e-3 + kLatency + 1e-12);
    drawn.insert(step.spent.jitter);
  }
  EXPECT_EQ(drawn.size(), 200u);
  EXPECT_LT(*drawn.begin(), -0.045e-3);
  EXPECT_GT(*drawn.rbegin(), 0.045e-3);
  EXPECT_NEAR(first.spent.jitter, 0, 200 * 0.01e-3);
  options.seed = 2;
  EXPECT_NE(first.seconds, run(messages, Cluster(), options).seconds);
}

TEST(EventSimulation, NothingTakesNoTime) {
  SimulatedPlan none;
  ASSERT_TRUE(none.finish().ok());
  EXPECT_EQ(run(none).seconds, 0);
  SimulationResult idle = run(planOf({{3, {}}}));
  EXPECT_EQ(idle.seconds, 0);
  EXPECT_TRUE(idle.path.empty());
  EXPECT_EQ(of(idle, 3).end, 0);
  // Neither do groups without messages, and of a message without bytes its
  // latency stays.
  EXPECT_EQ(run(planOf({{3, {DeviceStep(), DeviceStep()}}})).seconds, 0);
  EXPECT_NEAR(run({message(0, 0, 8, 0)}).seconds, kLatency, 1e-12);
}

TEST(EventSimulation, MessagesWithoutTheirOtherEndAreRefused) {
  DeviceStep group;
  group.wave = 4;
  auto errorOf = [&](std::vector<MessageEnd> first,
                     std::vector<MessageEnd> second) {
    SimulatedPlan plan;
    group.messages = std::move(first);
    plan.addDevice(2, {group});
    group.messages = std::move(second);
    plan.addDevice(5, {group});
    Status status = plan.finish();
    return status.ok() ? "" : status.message();
  };
  EXPECT_EQ(errorOf({{false, 5, 9}}, {{true, 2, 9}}), "");
  EXPECT_EQ(errorOf({{false, 5, 9}}, {}),
            "device 2 sends 9 bytes in wave 4 to device 5, which has no such "
            "message in that wave");
  EXPECT_EQ(errorOf({{true, 5, 9}}, {}),
            "device 2 receives 9 bytes in wave 4 from device 5, which has no "
            "such message in that wave");
  EXPECT_NE(errorOf({{false, 5, 9}}, {{true, 2, 8}}), "");
  EXPECT_NE(errorOf({{false, 5, 9}}, {{true, 2, 9}, {true, 2, 9}}), "");
  EXPECT_NE(errorOf({{false, 5, 9}, {false, 5, 9}}, {{true, 2, 9}}), "");
  EXPECT_NE(errorOf({{false, 7, 9}}, {}), "");
  EXPECT_NE(errorOf({{false, 2, 9}}, {}), "");
}

TEST(EventSimulation, AWaitForEverIsAnError) {
  auto programs = programsOf({message(0, 0, 1), message(1, 0, 1)});
  std::swap(programs[1][0], programs[1][1]);
  auto result = simulateEvents(planOf(programs), Cluster(), {});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().message(),
            "device 0 waits for ever in wave 0 for device 1");
}

/// Per wave a random matching of some devices: each port sends one message and
/// receives one.
std::vector<TimedMessage> randomMessages(std::mt19937 &random, bool isCopied) {
  std::vector<int64_t> targets(24);
  std::iota(targets.begin(), targets.end(), 0);
  std::vector<TimedMessage> out;
  for (int32_t wave = 0; wave < 12; ++wave) {
    std::shuffle(targets.begin(), targets.end(), random);
    for (int64_t source = 0; source < 24; ++source)
      if (random() % 3 != 0 && targets[size_t(source)] != source) {
        out.push_back(message(wave, source, targets[size_t(source)],
                              int64_t(1 + random() % (4 * kBytes)),
                              isCopied && random() % 4 != 0));
        out.back().isForward = wave > 0 && random() % 4 == 0;
      }
  }
  return out;
}

Cluster randomCluster(std::mt19937 &random) {
  Cluster cluster;
  cluster.devicesPerNode = 1 << random() % 4;
  cluster.latencyUs = double(random() % 100);
  if (random() % 2)
    cluster.links = {{{true, 0}, {true, 1}, 10}, {{false, 3}, {false, 4}, 90}};
  cluster.launchUs = double(random() % 20);
  cluster.channelsPerPeer = int64_t(random() % 4);
  return cluster;
}

/// Nothing is shared and nothing copied: both models say the same.
TEST(EventSimulation, IsTheFormulaWhereItsAssumptionsHold) {
  std::mt19937 random(11);
  for (int round = 0; round < 100; ++round) {
    Cluster cluster = randomCluster(random);
    SimulationOptions options;
    options.latencyUs = cluster.latencyUs;
    options.launchUs = cluster.launchUs;
    auto messages = randomMessages(random, false);
    SimulationResult result = run(messages, cluster, options);
    double predicted = predictSeconds(messages, cluster);
    ASSERT_NEAR(result.seconds, predicted, 1e-9 * predicted) << round;
    ASSERT_NEAR(result.spent.total(), result.seconds, 1e-9) << round;
  }
}

/// With copies the formula packs no earlier than the group before has begun at
/// both ends; a device does when it comes to that group.
TEST(EventSimulation, LiesBetweenTheBusiestPortAndTheFormula) {
  std::mt19937 random(12);
  size_t less = 0;
  for (int round = 0; round < 100; ++round) {
    Cluster cluster = randomCluster(random);
    SimulationOptions options;
    options.latencyUs = cluster.latencyUs;
    options.launchUs = cluster.launchUs;
    cluster.packGBps = round % 2 ? 1000 : 20;
    auto messages = randomMessages(random, true);
    double seconds = run(messages, cluster, options).seconds;
    double predicted = predictSeconds(messages, cluster);
    PortSeconds ports = busiestPorts(messages, cluster);
    ASSERT_GE(seconds, std::max(ports.nic, ports.island)) << round;
    ASSERT_LE(seconds, predicted * (1 + 1e-9)) << round;
    less += seconds < predicted * (1 - 1e-9);
  }
  EXPECT_GT(less, 0u);
}

/// Pairs that do not fill a port share it, and leave what they cannot use.
TEST(EventSimulation, PairsHaveTheirChannels) {
  Cluster cluster;
  cluster.devicesPerNode = 1;
  cluster.channelsPerPeer = 2;
  cluster.interChannelGBps = 5; // 10 of 25
  SimulationOptions options;
  options.latencyUs = 0;
  constexpr int64_t kSize = 25'000'000;
  auto seconds = [&](int64_t receivers) {
    std::vector<TimedMessage> messages;
    for (int64_t to = 1; to <= receivers; ++to)
      messages.push_back(message(0, 0, to, kSize, false));
    return run(messages, cluster, options).seconds;
  };
  EXPECT_NEAR(seconds(1), 2.5e-3, 1e-12);
  EXPECT_NEAR(seconds(2), 2.5e-3, 1e-12);
  EXPECT_NEAR(seconds(3), 3e-3, 1e-12);
  EXPECT_NEAR(predictSeconds({message(0, 0, 1, kSize, false),
                              message(0, 0, 2, kSize, false),
                              message(0, 0, 3, kSize, false)},
                             cluster) -
                  cluster.latencySeconds(),
              3e-3, 1e-12);
}

/// However NICs are shared, they carry no more than they can.
TEST(EventSimulation, SharedNicsKeepTheirRate) {
  std::mt19937 random(13);
  for (int round = 0; round < 50; ++round) {
    Cluster cluster;
    cluster.devicesPerNode = 4;
    cluster.devicesPerNic = round % 3 ? 4 : 1;
    cluster.pxn = round % 3 != 1;
    cluster.channelsPerPeer = int64_t(random() % 4);
    auto messages = randomMessages(random, round % 2 == 0);
    PortSeconds ports = busiestPorts(messages, cluster);
    SimulationResult result = run(messages, cluster);
    ASSERT_GE(result.seconds, ports.nic * (1 - 1e-9)) << round;
    ASSERT_NEAR(result.spent.total(), result.seconds, 1e-9) << round;
  }
}

} // namespace
