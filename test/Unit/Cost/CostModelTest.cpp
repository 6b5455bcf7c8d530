//===- CostModelTest.cpp - Seconds, and bounds that hold ------------------===//

#include "dt/Cost/CostModel.h"
#include "SolvedWaves.h"
#include "dtrt/cost/TimedCollectives.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <random>

using namespace dt;
using namespace dt::testing;

namespace {

constexpr int64_t kBytes = 25'000'000; // 1 ms on the NIC

TimedMessage message(int32_t wave, int64_t source, int64_t destination,
                     bool isCopied = false) {
  TimedMessage out;
  out.wave = wave;
  out.source = source;
  out.destination = destination;
  out.bytes = kBytes;
  out.isPacked = out.isUnpacked = isCopied;
  return out;
}

/// Latency and one message of `kBytes` on the NIC.
constexpr double kOnNic = 1e-3 + 10e-6;
/// The same inside a node.
constexpr double kOnIsland = 0.125e-3 + 10e-6;

/// Of a call of 200 KB, a microsecond of an island port, by `members`.
double callSeconds(dtrt::CollectiveKind kind, std::vector<int64_t> members,
                   const Cluster &cluster) {
  dtrt::TimedCollective call;
  call.kind = kind;
  call.members = std::move(members);
  call.blockBytes = 200'000;
  std::vector<TimedMessage> edges;
  dtrt::addCollective(call, cluster, edges);
  dtrt::sortMessages(edges);
  return predictSeconds(edges, cluster);
}

TEST(CostModel, CallsOfANodeTakeARingOrWhatTheClusterSays) {
  using Kind = dtrt::CollectiveKind;
  std::vector<int64_t> node = {0, 1, 2, 3, 4, 5, 6, 7}, two = {0, 1, 8, 9};
  Cluster ring, fast;
  fast.multicastUs = 4;
  fast.copyEngineUs = 3;
  auto saved = [&](Kind kind, const std::vector<int64_t> &members) {
    return callSeconds(kind, members, ring) - callSeconds(kind, members, fast);
  };
  constexpr double kNear = 1e-12;
  EXPECT_NEAR(saved(Kind::Broadcast, node), 66e-6, kNear);
  EXPECT_NEAR(saved(Kind::AllGather, node), 67e-6, kNear); // copy engines
  EXPECT_NEAR(saved(Kind::AllToAll, node), 67e-6, kNear);
  for (Kind kind : {Kind::Broadcast, Kind::AllGather, Kind::AllToAll})
    EXPECT_EQ(saved(kind, two), 0);
  fast.copyEngineUs = 0;
  EXPECT_NEAR(saved(Kind::AllGather, node), 66e-6, kNear);
  EXPECT_EQ(saved(Kind::AllToAll, node), 0);
  fast.multicastUs = 100; // the ring is faster
  EXPECT_EQ(saved(Kind::Broadcast, node), 0);
}

TEST(CostModel, PortsOfOneDeviceRunAtOnce) {
  EXPECT_DOUBLE_EQ(
      predictSeconds({message(0, 0, 8), message(0, 0, 1), message(0, 8, 0)},
                     Cluster()),
      kOnNic);
}

TEST(CostModel, DevicesOfANicTakeTurns) {
  // 0 and 1 to two nodes, to themselves apart: at once, or one by one when the
  // senders or the receivers share a NIC.
  std::vector<TimedMessage> messages = {message(0, 0, 8), message(1, 1, 16)};
  Cluster cluster;
  EXPECT_DOUBLE_EQ(predictSeconds(messages, cluster), kOnNic);
  cluster.devicesPerNic = 2;
  EXPECT_DOUBLE_EQ(predictSeconds(messages, cluster), 2 * kOnNic);
  messages = {message(0, 0, 8), message(1, 2, 9)};
  EXPECT_DOUBLE_EQ(predictSeconds(messages, cluster), 2 * kOnNic);
  // Ports of an island stay their own.
  messages = {message(0, 0, 2), message(1, 1, 3)};
  EXPECT_DOUBLE_EQ(predictSeconds(messages, cluster), kOnIsland);
}

TEST(CostModel, WithPxnMessagesToOnePlaceTakeTurns) {
  // Out of node 0: to place 0 of two nodes; to two places.
  std::vector<TimedMessage> onePlace = {message(0, 0, 8), message(1, 1, 16)};
  std::vector<TimedMessage> twoPlaces = {message(0, 0, 8), message(1, 1, 17)};
  Cluster cluster;
  cluster.pxn = true;
  EXPECT_DOUBLE_EQ(predictSeconds(onePlace, cluster), 2 * kOnNic);
  EXPECT_DOUBLE_EQ(predictSeconds(twoPlaces, cluster), kOnNic);
  EXPECT_DOUBLE_EQ(busiestPorts(onePlace, cluster).nic,
                   2 * busiestPorts(twoPlaces, cluster).nic);
  // Two NICs by a place each, two places of one NIC.
  cluster.devicesPerNic = 2;
  EXPECT_DOUBLE_EQ(predictSeconds(twoPlaces, cluster), 2 * kOnNic);
  twoPlaces = {message(0, 0, 8), message(1, 1, 18)};
  EXPECT_DOUBLE_EQ(predictSeconds(twoPlaces, cluster), kOnNic);
  // Ports of an island stay their own.
  EXPECT_DOUBLE_EQ(
      predictSeconds({message(0, 0, 2), message(1, 1, 3)}, cluster), kOnIsland);
}

TEST(CostModel, AWaveCostsALaunchOnEachOfItsDevices) {
  // 0 and 8 launch twice, whatever 16 and 24 do; messages of one wave share it.
  Cluster cluster;
  cluster.launchUs = 5;
  EXPECT_DOUBLE_EQ(
      predictSeconds({message(0, 0, 8), message(0, 16, 24), message(1, 0, 8)},
                     cluster),
      2 * (kOnNic + 5e-6));
  EXPECT_DOUBLE_EQ(
      predictSeconds({message(0, 0, 8), message(0, 0, 1), message(0, 8, 0)},
                     cluster),
      kOnNic + 5e-6);
}

TEST(CostModel, APairCarriesWhatItsChannelsDo) {
  // Two channels of 5 GB/s carry 10 of a NIC's 25; of 50, 100 of an island
  // port's 200. Four fill the NIC.
  Cluster cluster;
  cluster.channelsPerPeer = 2;
  cluster.intraChannelGBps = 50;
  cluster.interChannelGBps = 5;
  EXPECT_DOUBLE_EQ(predictSeconds({message(0, 0, 8)}, cluster), 2.5e-3 + 10e-6);
  EXPECT_DOUBLE_EQ(predictSeconds({message(0, 0, 1)}, cluster),
                   0.25e-3 + 10e-6);
  cluster.links = {{{false, 0}, {false, 8}, 8}};
  EXPECT_DOUBLE_EQ(predictSeconds({message(0, 0, 8)}, cluster),
                   3.125e-3 + 10e-6);
  cluster.links.clear();
  cluster.channelsPerPeer = 5;
  EXPECT_DOUBLE_EQ(predictSeconds({message(0, 0, 8)}, cluster), kOnNic);
}

TEST(CostModel, MessagesAtOnceShareTheTimeOfTheirPort) {
  // Two pairs of 20 GB/s, one NIC of 25 out of 0; 0 -> 16 alone into 16.
  Cluster cluster;
  cluster.channelsPerPeer = 2;
  cluster.interChannelGBps = 10;
  EXPECT_EQ(cluster.messagesPerPort(true), 2);
  EXPECT_DOUBLE_EQ(
      predictSeconds({message(0, 0, 8), message(0, 0, 16)}, cluster),
      2e-3 + 10e-6);
  EXPECT_DOUBLE_EQ(predictSeconds({message(0, 0, 8)}, cluster),
                   1.25e-3 + 10e-6);
  EXPECT_DOUBLE_EQ(busiestPorts({message(0, 0, 8)}, cluster).nic, 1e-3);
}

TEST(CostModel, NoMoreMessagesAtOnceThanAKernelPlanHolds) {
  Cluster cluster;
  cluster.channelsPerPeer = 1;
  cluster.interChannelGBps = 2.5;
  EXPECT_EQ(cluster.messagesPerPort(true), 3);
  EXPECT_DOUBLE_EQ(cluster.portBytesPerSecond(true), 7.5e9);
  EXPECT_EQ(Cluster().messagesPerPort(true), 1);
}

TEST(CostModel, DevicesOfANicUseItAtOnceWhereAPairDoesNotFillIt) {
  // 0 and 1 share a NIC of 25 GB/s; a pair carries 12.5, or 20.
  Cluster cluster;
  cluster.devicesPerNic = 2;
  cluster.channelsPerPeer = 1;
  cluster.interChannelGBps = 12.5;
  std::vector<TimedMessage> both = {message(0, 0, 8), message(0, 1, 16)};
  EXPECT_DOUBLE_EQ(predictSeconds(both, cluster), 2e-3 + 10e-6);
  cluster.interChannelGBps = 20;
  EXPECT_DOUBLE_EQ(predictSeconds(both, cluster), 2e-3 + 10e-6);
  EXPECT_DOUBLE_EQ(predictSeconds({message(0, 0, 8)}, cluster),
                   1.25e-3 + 10e-6);
  // Those of another wave come after.
  both[1].wave = 1;
  EXPECT_DOUBLE_EQ(predictSeconds(both, cluster), 2 * (1.25e-3 + 10e-6));
}

TEST(CostModel, WithPxnADeviceSendsByTwoNicsAtOnce) {
  // 0 to the places 1 and 2 of another node, each pair 12.5 of 25 GB/s.
  Cluster cluster;
  cluster.pxn = true;
  cluster.channelsPerPeer = 1;
  cluster.interChannelGBps = 20;
  EXPECT_DOUBLE_EQ(
      predictSeconds({message(0, 0, 9), message(0, 0, 10)}, cluster),
      1.25e-3 + 10e-6);
  EXPECT_DOUBLE_EQ(cluster.sendBytesPerSecond(true), 40e9);
  // To one place: by one NIC, which has time for both.
  EXPECT_DOUBLE_EQ(
      predictSeconds({message(0, 0, 9), message(0, 0, 17)}, cluster),
      2e-3 + 10e-6);
  EXPECT_DOUBLE_EQ(
      busiestPorts({message(0, 0, 9), message(0, 1, 17)}, cluster).nic, 2e-3);
}

TEST(CostModel, AGroupWaitsForTheGroupBeforeOnBothEnds) {
  // 8 -> 16 waits for 0 -> 8; 24 -> 32 meets neither.
  EXPECT_DOUBLE_EQ(
      predictSeconds({message(0, 0, 8), message(1, 8, 16), message(1, 24, 32)},
                     Cluster()),
      2 * kOnNic);
  EXPECT_DOUBLE_EQ(
      predictSeconds({message(0, 0, 8), message(1, 24, 32)}, Cluster()),
      kOnNic);
}

TEST(CostModel, PacksShowAtTheEndsOnly) {
  // 0 -> 8 three times: the first pack and the last unpack are not hidden.
  std::vector<TimedMessage> packed = {
      message(0, 0, 8, true), message(1, 0, 8, true), message(2, 0, 8, true)};
  EXPECT_NEAR(predictSeconds(packed, Cluster()),
              3 * kOnNic + 2 * Cluster().packSeconds(kBytes), 1e-12);
  std::vector<TimedMessage> direct = {message(0, 0, 8), message(1, 0, 8),
                                      message(2, 0, 8)};
  EXPECT_NEAR(predictSeconds(direct, Cluster()), 3 * kOnNic, 1e-12);
}

/// 0 -> 8 -> 16 -> 24, each message the forward of the one before it.
std::vector<TimedMessage> chain(bool isCopied) {
  std::vector<TimedMessage> out = {message(0, 0, 8, isCopied),
                                   message(1, 8, 16, isCopied),
                                   message(2, 16, 24, isCopied)};
  out[1].isForward = out[2].isForward = true;
  return out;
}

TEST(CostModel, AForwardIsUnpackedAndPackedBeforeItIsSent) {
  // Each hop packs, sends and unpacks before the next one begins.
  const double copy = Cluster().packSeconds(kBytes);
  EXPECT_NEAR(predictSeconds(chain(true), Cluster()),
              3 * (copy + kOnNic + copy), 1e-12);
  EXPECT_NEAR(predictSeconds(chain(false), Cluster()), 3 * kOnNic, 1e-12);
  // What is sent from its place waits for the unpack alone.
  std::vector<TimedMessage> messages = chain(true);
  messages[1].isPacked = messages[2].isPacked = false;
  EXPECT_NEAR(predictSeconds(messages, Cluster()), 4 * copy + 3 * kOnNic,
              1e-12);
}

TEST(CostModel, AForwardWithAWaveBetweenIsCopiedBesideTheWire) {
  // 8 gets a, and b while a is unpacked and packed; it then sends a on.
  std::vector<TimedMessage> messages = {
      message(0, 0, 8, true), message(1, 0, 8, true), message(2, 8, 16, true)};
  const double copy = Cluster().packSeconds(kBytes);
  EXPECT_NEAR(predictSeconds(messages, Cluster()), copy + 3 * kOnNic + copy,
              1e-12);
  // Were it b, it would wait for an unpack and a pack.
  messages[2].isForward = true;
  EXPECT_NEAR(predictSeconds(messages, Cluster()), 4 * copy + 3 * kOnNic,
              1e-12);
}

TEST(CostModel, OtherPacksDoNotWaitForAForward) {
  // 8 sends on to 16 what came, and to its neighbour what it had: the latter
  // was packed beside the wire.
  std::vector<TimedMessage> messages = {
      message(0, 0, 8, true), message(1, 8, 16, true), message(1, 8, 9, true)};
  messages[1].isForward = true;
  const double copy = Cluster().packSeconds(kBytes);
  EXPECT_NEAR(predictSeconds(messages, Cluster()), 4 * copy + 2 * kOnNic,
              1e-12);
}

TEST(CostModel, WhatADeviceCopiesBetweenGroupsTakesTime) {
  const double copy = Cluster().packSeconds(kBytes);
  std::vector<TimedMessage> direct = {message(0, 0, 8), message(1, 0, 8)};
  auto seconds = [&](const std::vector<TimedMessage> &messages,
                     const std::vector<dtrt::TimedCopy> &copies) {
    return predictSeconds(messages, Cluster(), copies);
  };
  EXPECT_NEAR(seconds(direct, {{1, 8, kBytes}}), copy + 2 * kOnNic, 1e-12);
  EXPECT_NEAR(seconds(direct, {{INT32_MAX, 8, kBytes}}), copy + 2 * kOnNic,
              1e-12);
  // Those of another device go beside, those before one group are one.
  EXPECT_NEAR(seconds(direct, {{1, 9, kBytes}}), 2 * kOnNic, 1e-12);
  EXPECT_NEAR(seconds(direct, {{0, 8, kBytes / 2}, {0, 8, kBytes / 2}}),
              copy + 2 * kOnNic, 1e-12);
  // What has come is unpacked first, what is to be sent is packed beside.
  std::vector<TimedMessage> packed = {message(0, 0, 8, true),
                                      message(1, 0, 8, true)};
  EXPECT_NEAR(seconds(packed, {{1, 8, kBytes}}), 4 * copy + 2 * kOnNic, 1e-12);
  EXPECT_NEAR(seconds(packed, {{1, 0, kBytes}}), 3 * copy + 2 * kOnNic, 1e-12);
}

TEST(CostModel, WhatIsCopiedBesideAGroupTakesTimeWhereItIsLonger) {
  const double copy = Cluster().packSeconds(kBytes);
  std::vector<TimedMessage> direct = {message(0, 0, 8), message(1, 0, 8)};
  auto seconds = [&](const std::vector<TimedMessage> &messages,
                     const std::vector<dtrt::TimedCopy> &copies) {
    return predictSeconds(messages, Cluster(), copies);
  };
  EXPECT_NEAR(seconds(direct, {{0, 8, kBytes, true}, {1, 0, kBytes, true}}),
              2 * kOnNic, 1e-12);
  // 100 times as much is 2.5 ms; the next group waits, and so does the end.
  const double longer = Cluster().packSeconds(100 * kBytes);
  ASSERT_GT(longer, kOnNic);
  EXPECT_NEAR(seconds(direct, {{0, 8, 100 * kBytes, true}}), longer + kOnNic,
              1e-12);
  EXPECT_NEAR(seconds(direct, {{1, 8, 100 * kBytes, true}}), kOnNic + longer,
              1e-12);
  // It comes after what is copied before the group, and after the unpacks.
  EXPECT_NEAR(seconds(direct, {{0, 8, kBytes}, {0, 8, 100 * kBytes, true}}),
              copy + longer + kOnNic, 1e-12);
  std::vector<TimedMessage> packed = {message(0, 0, 8, true),
                                      message(1, 0, 8, true)};
  EXPECT_NEAR(seconds(packed, {{1, 8, 100 * kBytes, true}}),
              copy + kOnNic + copy + longer + copy, 1e-12);
}

TEST(CostModel, ALinkSetsTheRateOfItsPairsOneWay) {
  Cluster cluster;
  cluster.links =
      std::vector<Link>{{{true, 0}, {true, 1}, 50}, {{false, 3}, {true, 1}, 5}};
  EXPECT_EQ(cluster.bytesPerSecond(0, 8), 50e9);
  EXPECT_EQ(cluster.bytesPerSecond(8, 0), 25e9);
  EXPECT_EQ(cluster.bytesPerSecond(3, 9), 5e9);
  EXPECT_EQ(cluster.bytesPerSecond(0, 1), 200e9);
  EXPECT_NEAR(predictSeconds({message(0, 0, 8)}, cluster), 0.5e-3 + 10e-6,
              1e-12);
}

/// A plan as tasks that take their time, and which of them come first: another
/// way to say what the cost model simulates.
class TaskGraph {
public:
  TaskGraph(const std::vector<TimedMessage> &messages, const Cluster &cluster);

  /// Begin and end of each task of a lane, in the order of their waves.
  using Lane = std::vector<std::pair<double, double>>;
  std::map<std::pair<int64_t, dtrt::Lane>, Lane> lanes() const;
  double end() const {
    double latest = 0;
    for (size_t i = 0; i < tasks.size(); ++i)
      latest = std::max(latest, endOf(i));
    return latest;
  }

private:
  struct Task {
    double seconds = 0;
    std::vector<size_t> afterEnd, afterBegin; // of other tasks
    double begin = 0;
  };
  /// What a device does in one of the waves that it has a part in.
  struct Group {
    std::vector<size_t> messages;
    int64_t packBytes = 0, forwardBytes = 0, unpackBytes = 0;
    bool forwards = false;
    std::optional<size_t> pack, forward, unpack;
  };

  double endOf(size_t task) const {
    return tasks[task].begin + tasks[task].seconds;
  }
  size_t add(double seconds) {
    tasks.emplace_back();
    tasks.back().seconds = seconds;
    return tasks.size() - 1;
  }
  /// In the order of the copy engine: what is packed for the next group goes
  /// before what the last one brought is unpacked, unless it is that.
  void addCopies(std::vector<Group> &groups);
  void order(std::vector<Group> &groups);
  void settle();

  std::vector<Task> tasks; // messages first
  std::map<int64_t, std::vector<Group>> groupsOf;
  std::vector<TimedMessage> messages;
  Cluster cluster;
};

TaskGraph::TaskGraph(const std::vector<TimedMessage> &messages,
                     const Cluster &cluster)
    : messages(messages), cluster(cluster) {
  std::map<int64_t, int32_t> lastWave;
  // Of each NIC: its messages of the last wave, and of the one before.
  struct OnNic {
    int32_t wave = -1;
    std::vector<size_t> now, before;
    double seconds = 0; // of this wave, at the port's rate
  };
  std::map<std::pair<int64_t, bool>, OnNic> nics;
  double nicGBps = cluster.interNodeGBps;
  double pairGBps = std::min(nicGBps, cluster.channelsPerPeer > 0
                                          ? double(cluster.channelsPerPeer) *
                                                cluster.interChannelGBps
                                          : nicGBps);
  for (const TimedMessage &m : messages) {
    bool inter = m.source / cluster.devicesPerNode !=
                 m.destination / cluster.devicesPerNode;
    double rate = inter ? cluster.interNodeGBps : cluster.intraNodeGBps;
    if (cluster.channelsPerPeer > 0)
      rate = std::min(rate, double(cluster.channelsPerPeer) *
                                (inter ? cluster.interChannelGBps
                                       : cluster.intraChannelGBps));
    size_t task = add(cluster.latencyUs * 1e-6 + double(m.bytes) / rate / 1e9);
    for (bool receive : {false, true}) {
      int64_t device = receive ? m.destination : m.source;
      std::vector<Group> &groups = groupsOf[device];
      if (groups.empty() || lastWave[device] != m.wave)
        groups.emplace_back();
      lastWave[device] = m.wave;
      groups.back().messages.push_back(task);
      if (!receive) {
        groups.back().forwards |= m.isForward;
        (m.isForward ? groups.back().forwardBytes : groups.back().packBytes) +=
            m.isPacked ? m.bytes : 0;
      }
      groups.back().unpackBytes += receive && m.isUnpacked ? m.bytes : 0;
      // Devices of a NIC take turns on it.
      if (!inter || (cluster.devicesPerNic == 1 && !cluster.pxn))
        continue;
      int64_t place = device;
      if (cluster.pxn && !receive)
        place += m.destination % cluster.devicesPerNode -
                 device % cluster.devicesPerNode;
      OnNic &nic = nics[{place / cluster.devicesPerNic, receive}];
      // They take turns where one fills it; else those of a wave go at once.
      if (nic.wave != m.wave || pairGBps == nicGBps) {
        nic.before = std::exchange(nic.now, {});
        nic.seconds = 0;
      }
      nic.wave = m.wave;
      nic.now.push_back(task);
      nic.seconds += double(m.bytes) / nicGBps / 1e9;
      tasks[task].afterEnd.insert(tasks[task].afterEnd.end(),
                                  nic.before.begin(), nic.before.end());
      for (size_t other : nic.now)
        tasks[other].seconds = std::max(tasks[other].seconds,
                                        cluster.latencyUs * 1e-6 + nic.seconds);
    }
  }
  for (auto &[device, groups] : groupsOf) {
    addCopies(groups);
    order(groups);
  }
  settle();
}

void TaskGraph::addCopies(std::vector<Group> &groups) {
  auto copy = [&](int64_t bytes) {
    return add(cluster.packLaunchUs * 1e-6 +
               double(bytes) / cluster.packGBps / 1e9);
  };
  std::optional<size_t> last;
  auto next = [&](std::optional<size_t> &task, int64_t bytes) {
    if (bytes == 0)
      return;
    task = copy(bytes);
    if (last)
      tasks[*task].afterEnd.push_back(*last);
    last = task;
  };
  for (size_t i = 0; i <= groups.size(); ++i) {
    if (i < groups.size())
      next(groups[i].pack, groups[i].packBytes);
    if (i > 0)
      next(groups[i - 1].unpack, groups[i - 1].unpackBytes);
    if (i < groups.size())
      next(groups[i].forward, groups[i].forwardBytes);
  }
}

/// A group begins when the one before has ended, what it sends is packed, and
/// its slots, those of the group before the last, are unpacked.
void TaskGraph::order(std::vector<Group> &groups) {
  for (size_t i = 0; i < groups.size(); ++i) {
    Group &group = groups[i];
    for (size_t message : group.messages) {
      std::vector<size_t> &after = tasks[message].afterEnd;
      if (i > 0)
        after.insert(after.end(), groups[i - 1].messages.begin(),
                     groups[i - 1].messages.end());
      if (group.pack)
        after.push_back(*group.pack);
      if (i > 1 && groups[i - 2].unpack)
        after.push_back(*groups[i - 2].unpack);
      if (group.forward)
        after.push_back(*group.forward);
      if (i > 0 && group.forwards && groups[i - 1].unpack)
        after.push_back(*groups[i - 1].unpack);
    }
    if (group.forward && i > 0) {
      std::vector<size_t> &after = tasks[*group.forward].afterEnd;
      after.insert(after.end(), groups[i - 1].messages.begin(),
                   groups[i - 1].messages.end());
    }
    if (group.pack && i > 0)
      tasks[*group.pack].afterBegin = groups[i - 1].messages;
    if (group.unpack) {
      std::vector<size_t> &after = tasks[*group.unpack].afterEnd;
      after.insert(after.end(), group.messages.begin(), group.messages.end());
    }
  }
}

/// Everything begins as soon as it may.
void TaskGraph::settle() {
  for (bool moved = true; moved;) {
    moved = false;
    for (Task &task : tasks) {
      double begin = 0;
      for (size_t other : task.afterEnd)
        begin = std::max(begin, endOf(other));
      for (size_t other : task.afterBegin)
        begin = std::max(begin, tasks[other].begin);
      moved = moved || begin > task.begin;
      task.begin = begin;
    }
  }
}

std::map<std::pair<int64_t, dtrt::Lane>, TaskGraph::Lane>
TaskGraph::lanes() const {
  std::map<std::pair<int64_t, dtrt::Lane>, Lane> out;
  auto show = [&](int64_t device, dtrt::Lane lane, size_t task) {
    out[{device, lane}].push_back({tasks[task].begin, endOf(task)});
  };
  for (size_t i = 0; i < messages.size(); ++i) {
    const TimedMessage &m = messages[i];
    bool inter = m.source / cluster.devicesPerNode !=
                 m.destination / cluster.devicesPerNode;
    show(m.source, inter ? dtrt::Lane::NicOut : dtrt::Lane::IslandOut, i);
    show(m.destination, inter ? dtrt::Lane::NicIn : dtrt::Lane::IslandIn, i);
  }
  for (const auto &[device, groups] : groupsOf)
    for (const Group &group : groups) {
      if (group.pack)
        show(device, dtrt::Lane::Pack, *group.pack);
      if (group.forward)
        show(device, dtrt::Lane::Pack, *group.forward);
      if (group.unpack)
        show(device, dtrt::Lane::Unpack, *group.unpack);
    }
  return out;
}

/// Waves of random messages between 16 devices, at most one each way for each.
std::vector<TimedMessage> randomMessages(std::mt19937 &random) {
  std::vector<TimedMessage> messages;
  std::vector<int64_t> to(16);
  std::iota(to.begin(), to.end(), 0);
  for (int32_t wave = 0; wave < 12; ++wave) {
    std::shuffle(to.begin(), to.end(), random);
    for (int64_t from = 0; from < 16; ++from)
      if (to[from] != from && random() % 3)
        messages.push_back(
            {wave, from, to[from], 1 + int64_t(random() % 9'999'999),
             random() % 2 == 0, random() % 2 == 0, random() % 4 == 0});
  }
  return messages;
}

TEST(CostModel, AgreesWithTasksThatWaitForEachOther) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int trial = 0; trial < 100; ++trial) {
    Cluster cluster;
    cluster.devicesPerNode = 4;
    cluster.devicesPerNic = 1 << random() % 3;
    cluster.pxn = random() % 2;
    cluster.latencyUs = 1 + random() % 20;
    cluster.channelsPerPeer = int64_t(random() % 4);
    std::vector<TimedMessage> messages = randomMessages(random);
    TaskGraph graph(messages, cluster);
    ASSERT_NEAR(predictSeconds(messages, cluster), graph.end(), 1e-12);
    auto expected = graph.lanes();
    dtrt::Timeline timeline = dtrt::drawTimeline(messages, cluster);
    for (const auto &[device, line] : timeline.devices)
      for (size_t lane = 0; lane < dtrt::kNumLanes; ++lane) {
        const TaskGraph::Lane &tasks = expected[{device, dtrt::Lane(lane)}];
        const std::vector<dtrt::Span> &spans = line.lanes[lane];
        ASSERT_EQ(spans.size(), tasks.size()) << device << " " << lane;
        for (size_t i = 0; i < spans.size(); ++i) {
          ASSERT_NEAR(spans[i].begin, tasks[i].first, 1e-12);
          ASSERT_NEAR(spans[i].end, tasks[i].second, 1e-12);
        }
      }
  }
}

TEST(CostModel, ATimelineEndsWhenPredictedAndEachLaneDoesOneThingAtATime) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int trial = 0; trial < 100; ++trial) {
    Cluster cluster;
    cluster.devicesPerNode = 4;
    cluster.devicesPerNic = 1 << random() % 3;
    cluster.pxn = random() % 2;
    cluster.latencyUs = 1 + random() % 20;
    cluster.links = std::vector<Link>{{{true, 0}, {true, 1}, 7}};
    cluster.launchUs = random() % 20;
    cluster.channelsPerPeer = int64_t(random() % 4);
    std::vector<TimedMessage> messages = randomMessages(random);
    dtrt::Timeline timeline = dtrt::drawTimeline(messages, cluster);
    EXPECT_EQ(timeline.seconds, predictSeconds(messages, cluster));
    for (const auto &[device, line] : timeline.devices) {
      EXPECT_LE(line.end, timeline.seconds);
      for (const std::vector<dtrt::Span> &lane : line.lanes)
        for (size_t i = 0; i < lane.size(); ++i) {
          EXPECT_LE(lane[i].end, line.end);
          EXPECT_GE(lane[i].begin, i == 0 ? 0 : lane[i - 1].end)
              << "device " << device;
        }
    }
  }
}

/// `shape` rows over `sources` devices from 0 on, to the same number from
/// `first` on.
Flow shifted(int64_t devices, int64_t first) {
  std::vector<int64_t> shape = {devices, kBytes};
  Flow flow;
  flow.bytesPerElement = 1;
  flow.source = overlay(gridHoldings(shape, devices, 1, 1, 0), shape);
  flow.destination = overlay(gridHoldings(shape, devices, 1, 1, first), shape);
  return flow;
}

/// `kBytes` that all of `holders` have, for each of these.
Flow spread(const std::vector<int64_t> &devices,
            const std::vector<int64_t> &holders = {0}) {
  std::vector<int64_t> shape = {1, kBytes};
  Flow flow;
  flow.bytesPerElement = 1;
  std::vector<Holding> held = holdingsOf({{0, Box::whole(shape)}});
  held.front().devices = holders;
  flow.source = overlay(held, shape);
  std::vector<Holding> wanted = holdingsOf({{0, Box::whole(shape)}});
  wanted.front().devices = devices;
  flow.destination = overlay(wanted, shape);
  return flow;
}

TEST(Bounds, SeeTheOneSlowLink) {
  // 3 -> 11 alone takes 5 ms; all other pairs take 1 ms.
  Cluster cluster;
  EXPECT_NEAR(computeBounds({shifted(8, 8)}, cluster).seconds, kOnNic, 1e-12);
  cluster.links = std::vector<Link>{{{false, 3}, {false, 11}, 5}};
  EXPECT_NEAR(computeBounds({shifted(8, 8)}, cluster).seconds, 5e-3 + 10e-6,
              1e-12);
}

TEST(Bounds, AddUpWhatComesToAPortOverUnequalLinks) {
  // Device 8 wants a part from each of 0 and 1, at 25 and at 5 GB/s: a port
  // receives one of them at a time.
  Cluster cluster;
  cluster.links = std::vector<Link>{{{false, 1}, {false, 8}, 5}};
  std::vector<int64_t> shape = {2, kBytes};
  Flow flow;
  flow.bytesPerElement = 1;
  flow.source = overlay(gridHoldings(shape, 2, 1, 1, 0), shape);
  flow.destination = overlay(holdingsOf({{8, Box::whole(shape)}}), shape);
  EXPECT_NEAR(computeBounds({flow}, cluster).seconds, 1e-3 + 5e-3 + 10e-6,
              1e-12);
}

TEST(Bounds, LetWhatIsLackedTwiceComeOverAFastLink) {
  // Devices 1 and 2 want all that 0 and 3 have, which are far from them: it
  // crosses slowly once, half from each, and goes on fast.
  Cluster cluster;
  cluster.devicesPerNode = 1;
  for (int64_t from : {0, 3})
    for (int64_t to : {1, 2})
      cluster.links.push_back({{true, from}, {true, to}, 1});
  EXPECT_NEAR(computeBounds({spread({1, 2}, {0, 3})}, cluster).seconds,
              12.5e-3 + 10e-6, 1e-12);
}

TEST(Bounds, SeeThatAPairDoesNotFillItsPorts) {
  // 5 of 25 GB/s between two devices; of two holders 10.
  Cluster cluster;
  cluster.channelsPerPeer = 1;
  cluster.interChannelGBps = 5;
  EXPECT_NEAR(computeBounds({shifted(8, 8)}, cluster).seconds, 5e-3 + 10e-6,
              1e-12);
  std::vector<int64_t> shape = {1, kBytes};
  Flow flow;
  flow.bytesPerElement = 1;
  std::vector<Holding> held = holdingsOf({{0, Box::whole(shape)}});
  held.front().devices = {0, 1};
  flow.source = overlay(held, shape);
  flow.destination = overlay(holdingsOf({{8, Box::whole(shape)}}), shape);
  EXPECT_NEAR(computeBounds({flow}, cluster).seconds, 2.5e-3 + 10e-6, 1e-12);
}

TEST(Bounds, WithPxnADeviceSendsByAsManyNicsAsItHasMessages) {
  // 0 has 25 MB for each of eight, two pairs of 20 GB/s at once.
  Cluster cluster;
  cluster.pxn = true;
  cluster.channelsPerPeer = 1;
  cluster.interChannelGBps = 20;
  std::vector<int64_t> shape = {8, kBytes};
  Flow flow;
  flow.bytesPerElement = 1;
  flow.source = overlay(gridHoldings(shape, 1, 1, 1, 0), shape);
  flow.destination = overlay(gridHoldings(shape, 8, 1, 1, 8), shape);
  EXPECT_NEAR(computeBounds({flow}, cluster).seconds, 5e-3 + 10e-6, 1e-12);
  cluster.pxn = false;
  EXPECT_NEAR(computeBounds({flow}, cluster).seconds, 8e-3 + 10e-6, 1e-12);
}

/// What some devices have all of, or have a part each of: for others.
Flow cellsFor(const std::vector<BoundsBuilder::Devices> &holders,
              const BoundsBuilder::Devices &wanters, int64_t part) {
  Flow flow;
  flow.bytesPerElement = 1;
  for (const BoundsBuilder::Devices &own : holders) {
    auto number = uint32_t(flow.source.ownerSets.size());
    flow.source.ownerSets.push_back(own);
    flow.source.cells.push_back(
        {Box::fromOffsetSize({number * part}, {part}), number});
  }
  flow.destination.ownerSets = {wanters};
  flow.destination.cells = {{Box::whole({part * int64_t(holders.size())}), 0}};
  return flow;
}

TEST(Bounds, CountWhatCrossesByAllNics) {
  // 1 MiB of eight devices for 56 others, of seven nodes: 36.7 us of a NIC for
  // each of the eight, 3 x (10 + 2 x 1.1). That takes three rounds and 1.1 us,
  // as receivers send too; and three more rounds inside the last node.
  BoundsBuilder::Devices holders, wanters;
  for (int64_t device = 0; device < 64; ++device)
    (device < 8 ? holders : wanters).push_back(device);
  double each = 7 * double(1 << 20) / 8 / 25e9;
  EXPECT_NEAR(
      computeBounds({cellsFor({holders}, wanters, 1 << 20)}, Cluster()).seconds,
      30e-6 + (each / 3 - 10e-6) / 2 + 30e-6, 1e-12);
}

TEST(Bounds, SeeWhoLacksWhatANicGets) {
  // Each of three nodes of one device gets 2 MB by its NIC, of which nobody has
  // more than one.
  Cluster cluster;
  cluster.devicesPerNode = 1;
  Flow flow = cellsFor({{0}, {1}, {2}}, {0, 1, 2}, 1000000);
  EXPECT_NEAR(computeBounds({flow}, cluster).seconds, 80e-6 + 2 * 10e-6, 1e-12);
  // All of it from one that has it takes one message.
  EXPECT_NEAR(computeBounds({cellsFor({{0}}, {1}, 2000000)}, cluster).seconds,
              80e-6 + 10e-6, 1e-12);
}

TEST(Bounds, HaveOneLaunch) {
  Cluster cluster;
  cluster.launchUs = 7;
  EXPECT_NEAR(computeBounds({shifted(8, 8)}, cluster).seconds, kOnNic + 7e-6,
              1e-12);
}

TEST(Bounds, CountNicsAndNotDevices) {
  Cluster cluster;
  for (int64_t devices : {1, 2, 8}) {
    cluster.devicesPerNic = devices;
    EXPECT_NEAR(computeBounds({shifted(8, 8)}, cluster).seconds,
                devices * 1e-3 + 10e-6, 1e-12);
  }
}

TEST(Bounds, CountNicsForWhatCrossesNodesOnly) {
  Cluster cluster;
  auto seconds = [&](const std::vector<int64_t> &devices) {
    return computeBounds({spread(devices)}, cluster).seconds;
  };
  EXPECT_LT(seconds({1}), kOnNic / 2);
  EXPECT_NEAR(seconds({8}), kOnNic, 1e-12);
  EXPECT_NEAR(seconds({1, 8}), kOnNic, 1e-12);
}

TEST(Bounds, LetNeighboursOfAHolderPassOnWhatTheyWantToo) {
  // All of two nodes want what device 0 has: its node has eight NICs for it.
  // Every device gets it by its island port, at 200 GB/s.
  Cluster cluster;
  std::vector<int64_t> all, others;
  for (int64_t device = 1; device < 16; ++device)
    (device < 8 ? all : others).push_back(device);
  // What comes last then takes three rounds in the node.
  constexpr double kInNode = 3 * 10e-6;
  EXPECT_NEAR(computeBounds({spread(others)}, cluster).seconds,
              kOnNic + kInNode, 1e-12);
  all.insert(all.end(), others.begin(), others.end());
  double inIsland = double(kBytes) / 200e9 + 10e-6;
  Bounds toAll = computeBounds({spread(all)}, cluster);
  EXPECT_NEAR(toAll.seconds, inIsland + kInNode, 1e-12);
  EXPECT_NEAR(toAll.oneRoundSeconds, inIsland, 1e-12);
  // Links of the same rate count by themselves.
  cluster.links = {{{false, 0}, {false, 1}, 200}};
  EXPECT_NEAR(computeBounds({spread(all)}, cluster).oneRoundSeconds, inIsland,
              1e-12);
  // Pairs of 5 of 25 GB/s: eight of them would take 0.6 ms.
  cluster.links.clear();
  cluster.channelsPerPeer = 1;
  cluster.interChannelGBps = 5;
  cluster.intraChannelGBps = 200;
  EXPECT_LT(computeBounds({spread(all)}, cluster).seconds, kOnNic / 2);
}

TEST(Bounds, HoldWithUnequalLinksAndSharedNics) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int trial = 0; trial < 300; ++trial) {
    RandomTransition t = randomTransition(random);
    for (unsigned i = random() % 6; i > 0; --i)
      t.cluster.links.push_back({{random() % 2 == 0, int64_t(random() % 4)},
                                 {random() % 2 == 0, int64_t(random() % 4)},
                                 double(1 + random() % 400) * 1e9});
    if (random() % 2)
      t.cluster.devicesPerNic = t.cluster.devicesPerNode;
    t.cluster.pxn = random() % 2;
    if (random() % 2) {
      t.cluster.launchUs = t.cluster.latencyUs / double(1 + random() % 4);
      t.cluster.channelsPerPeer = int64_t(1 + random() % 4);
      t.cluster.intraChannelGBps = t.cluster.intraNodeGBps / 3;
      t.cluster.interChannelGBps = t.cluster.interNodeGBps / 2;
    }
    RoutingProblem problem(t.flows, t.cluster, 1 << 20);
    WaveProblem waves = waveProblem(problem, solved(problem).moves);
    for (ChunkBytes chunks : candidateChunks(waves)) {
      std::vector<ScheduledMove> scheduled = scheduledWith(waves, chunks);
      int64_t sent = 0, wanted = 0;
      for (const ScheduledMove &s : scheduled)
        sent += s.move.box.volume();
      for (const Move &move : waves.moves)
        wanted += move.box.volume();
      EXPECT_EQ(sent, wanted);
      EXPECT_GE(waves.seconds(scheduled) * (1 + 1e-9), problem.lowerBound());
    }
  }
}

} // namespace
