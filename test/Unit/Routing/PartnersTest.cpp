//===- PartnersTest.cpp - Who takes all from one device -------------------===//

#include "Partners.h"
#include "RandomFlows.h"
#include "Solved.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <map>
#include <set>

using namespace dt;
using namespace dt::testing;

namespace {

constexpr int64_t kDevices = 16; // of each side, each a node

Cluster oneDevicePerNode() {
  Cluster cluster;
  cluster.devicesPerNode = 1;
  return cluster;
}

std::vector<int64_t> devicesFrom(int64_t first, int64_t count = kDevices) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i)
    out.push_back(first + i);
  return out;
}

/// `rows` rows of 64 elements that some devices hold and others want.
Flow flowOf(int64_t rows, const std::vector<int64_t> &holders,
            const std::vector<int64_t> &wanters) {
  std::vector<int64_t> shape = {rows, 64};
  auto side = [&](const std::vector<int64_t> &devices) {
    std::vector<Holding> whole = gridHoldings(shape, 1, 1, 1, 0);
    whole.front().devices = devices;
    return overlay(whole, shape);
  };
  Flow flow;
  flow.bytesPerElement = 4;
  flow.source = side(holders);
  flow.destination = side(wanters);
  return flow;
}

Routing routed(std::vector<Flow> flows, const Cluster &cluster) {
  for (size_t i = 0; i < flows.size(); ++i)
    flows[i].param = i;
  RouterOptions options;
  options.minPieceBytes = 1024;
  return solved(RoutingProblem(std::move(flows), cluster, 1 << 20), options);
}

/// Elements by receiver and sender.
using Received = std::map<int64_t, std::map<int64_t, int64_t>>;

Received receivedBy(const Routing &routing) {
  Received out;
  for (const Move &move : routing.moves)
    out[move.destination][move.source] += move.box.volume();
  return out;
}

TEST(Partners, StagesSwapOneToOne) {
  std::vector<Flow> flows;
  for (int64_t rows : {64, 40, 24, 8}) {
    flows.push_back(flowOf(rows, devicesFrom(0), devicesFrom(kDevices)));
    flows.push_back(flowOf(rows, devicesFrom(kDevices), devicesFrom(0)));
  }
  Routing routing = routed(flows, oneDevicePerNode());
  std::set<int64_t> senders;
  for (const auto &[receiver, bySender] : receivedBy(routing)) {
    EXPECT_EQ(bySender.size(), 1u) << "device " << receiver;
    senders.insert(bySender.begin()->first);
  }
  EXPECT_EQ(senders.size(), size_t(2 * kDevices));
  // Nothing is cut that has one way to go.
  EXPECT_EQ(routing.moves.size(), flows.size() * kDevices);
}

TEST(Partners, WhatMoreDevicesHoldComesFromTheSame) {
  // Both stages hold the last flow, which a part of the third one lacks: from
  // the idlest in turn, each of it would get it from a device of its own.
  std::vector<int64_t> wanters = devicesFrom(2 * kDevices);
  Routing routing =
      routed({flowOf(64, devicesFrom(0), wanters),
              flowOf(48, devicesFrom(kDevices), wanters),
              flowOf(2, devicesFrom(0, 2 * kDevices),
                     devicesFrom(2 * kDevices + 4, kDevices - 4))},
             oneDevicePerNode());
  for (const auto &[receiver, bySender] : receivedBy(routing))
    EXPECT_EQ(bySender.size(), 2u) << "device " << receiver;
}

TEST(Partners, OnePieceComesFromAllHolders) {
  // Nodes of two devices: one of each holds it, both of each other node want
  // it. It enters each node once, and each holder sends it once.
  Cluster cluster;
  cluster.devicesPerNode = 2;
  std::vector<int64_t> holders;
  for (int64_t device : devicesFrom(0))
    holders.push_back(2 * device);
  std::map<int64_t, int> sends;
  for (const Move &move :
       routed({flowOf(2, holders, devicesFrom(2 * kDevices, 2 * kDevices))},
              cluster)
           .moves)
    if (!cluster.sameNode(move.source, move.destination))
      ++sends[move.source];
  ASSERT_EQ(sends.size(), holders.size());
  for (auto [device, count] : sends)
    EXPECT_EQ(count, 1) << "device " << device;
}

constexpr int64_t kShared = 40 * 40 * 64; // elements

/// 40 flows that all holders share, for as many receivers, and one more of
/// `rows` rows of each of the first `numBusy` holders, which others want.
Routing routedBeside(int64_t rows, int64_t numBusy) {
  std::vector<Flow> flows;
  for (int i = 0; i < 40; ++i)
    flows.push_back(flowOf(40, devicesFrom(0), devicesFrom(kDevices)));
  for (int64_t device : devicesFrom(0, numBusy))
    flows.push_back(flowOf(rows, {device}, {2 * kDevices + device}));
  return routed(flows, oneDevicePerNode());
}

/// The most that each receiver gets from one sender, in parts of all.
std::vector<double> largestParts(const Routing &routing) {
  std::vector<double> out;
  Received received = receivedBy(routing);
  for (int64_t receiver : devicesFrom(kDevices)) {
    int64_t most = 0;
    for (auto [sender, elements] : received[receiver])
      most = std::max(most, elements);
    out.push_back(double(most) / kShared);
  }
  return out;
}

void expectEvenPorts(const Routing &routing) {
  std::map<int64_t, int64_t> sent;
  for (const Move &move : routing.moves)
    sent[move.source] += move.box.volume();
  for (auto [device, elements] : sent)
    EXPECT_LE(elements, kShared * 1.02) << "device " << device;
}

TEST(Partners, ReceiversPassOnWhatPartnersHaveNoTimeFor) {
  // A twentieth of each holder's time goes to what it alone has.
  Routing routing = routedBeside(80, kDevices);
  expectEvenPorts(routing);
  for (double part : largestParts(routing))
    EXPECT_GE(part, 0.9);
  // Most have a piece from a holder when others have to get it from them.
  std::map<std::pair<uint32_t, Box>, int64_t> fromHolders;
  for (const Move &move : routing.moves) {
    EXPECT_LE(move.hop, 1u);
    fromHolders[{move.flow, move.box}] += move.hop == 0;
  }
  for (const auto &[piece, count] : fromHolders)
    if (piece.first < 40) {
      EXPECT_GE(count, kDevices - 3);
    }
}

/// Devices of a node each: holders, and then receivers.
struct Stage {
  std::vector<Port> nics = std::vector<Port>(2 * kDevices);
  std::vector<Device> devices = std::vector<Device>(2 * kDevices);
  Devices holders;
  std::vector<Devices> receivers, elsewhere;

  Stage() {
    for (int64_t i = 0; i < 2 * kDevices; ++i) {
      devices[i].number = i;
      devices[i].nic = &nics[i];
      if (i < kDevices)
        holders.push_back(&devices[i]);
      else
        receivers.push_back({&devices[i]});
    }
    elsewhere = {receivers.front()};
  }

  static PartnerGroup groupOf(const Devices &holders,
                              const std::vector<Devices> &nodes,
                              double seconds) {
    PartnerGroup group;
    group.holders = &holders;
    group.nodes = &nodes;
    group.isNear.resize(nodes.size());
    group.seconds = seconds;
    return group;
  }

  /// Of holders of which the first `numBusy` send `seconds` to others, partners
  /// for what all of them hold, of 1 s, with 1 s for all: the number of those
  /// that each has.
  std::vector<int> numReceivers(size_t numBusy, double seconds) {
    std::vector<Devices> busy;
    for (size_t i = 0; i < numBusy; ++i)
      busy.push_back({holders[i]});
    std::vector<PartnerGroup> groups = {groupOf(holders, receivers, 1)};
    for (const Devices &holder : busy)
      groups.push_back(groupOf(holder, elsewhere, seconds));
    findPartners(groups, 1);
    std::vector<int> out(kDevices, 0);
    for (const std::vector<Partner> &partners : groups[0].partners)
      for (const Partner &partner : partners)
        if (partner.holder >= 0)
          ++out[partner.holder];
    return out;
  }
};

TEST(Partners, BusyHoldersAreNone) {
  std::vector<int> expected(kDevices, 1);
  EXPECT_EQ(Stage().numReceivers(2, 0.05), expected);
  expected[0] = expected[1] = 0;
  EXPECT_EQ(Stage().numReceivers(2, 0.25), expected);
}

TEST(Partners, WhatIsRoutedCounts) {
  Stage stage;
  stage.nics[3].out = 0.25;
  std::vector<int> expected(kDevices, 1);
  expected[3] = 0;
  EXPECT_EQ(stage.numReceivers(0, 0), expected);
}

TEST(Partners, AreNotTakenWhereMostHoldersAreBusy) {
  EXPECT_EQ(Stage().numReceivers(kDevices - 4, 0.25),
            std::vector<int>(kDevices, 0));
}

TEST(Partners, RandomReplicasGetAllOnce) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  auto number = [&](int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(random);
  };
  for (int trial = 0; trial < 100; ++trial) {
    Cluster cluster;
    cluster.devicesPerNode = number(1, 4);
    if (number(0, 1))
      cluster.devicesPerNic = cluster.devicesPerNode;
    std::vector<Flow> flows;
    for (int64_t i = number(1, 12); i > 0; --i)
      flows.push_back(flowOf(number(1, 60),
                             devicesFrom(number(0, 30), number(1, 24)),
                             devicesFrom(number(0, 60), number(1, 24))));
    routed(flows, cluster); // which verifies it
  }
}

} // namespace
