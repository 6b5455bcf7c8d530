//===- CertificateTest.cpp - Broken rules are found and named -------------===//

#include "dt/Proof/Certificate.h"

#include "gtest/gtest.h"

#include <random>

using namespace dt;

namespace {

/// @w and @v, of 4 x 4 elements: device 1 wants all of both.
const std::vector<PlanFlow> &flows() {
  static const std::vector<Holding> none;
  static const std::vector<Holding> all = holdingsOf({{1, Box::whole({4, 4})}});
  static std::vector<PlanFlow> out;
  for (const char *name : {"@w", "@v"}) {
    if (out.size() == 2)
      break;
    PlanFlow flow;
    flow.name = name;
    flow.shape = {4, 4};
    flow.source = &none;
    flow.destination = &all;
    out.push_back(flow);
  }
  return out;
}

Box row(int64_t lo, int64_t hi) {
  return Box::fromOffsetSize({lo, 0}, {hi - lo, 4});
}

PlanPiece piece(int64_t wave, int64_t from, int64_t to, Box box,
                bool atSource = true) {
  PlanPiece out;
  out.wave = int32_t(wave);
  out.step = uint32_t(wave);
  out.from = from;
  out.to = to;
  out.box = box;
  out.bytes = box.volume();
  out.atSource = atSource;
  return out;
}

PlanSlot slot(int64_t wave, int64_t device, int64_t peer, bool receive,
              int64_t offset, int64_t bytes) {
  PlanSlot out;
  out.wave = wave;
  out.device = device;
  out.peer = peer;
  out.receive = receive;
  out.offset = offset;
  out.bytes = bytes;
  return out;
}

std::string textOf(const MaybeFault &fault) { return fault ? fault->text : ""; }

std::string coverage(const std::vector<PlanPiece> &pieces,
                     const Wanted &wanted) {
  return textOf(Arrivals(pieces, flows()).checkCoverage(wanted));
}
std::string feeding(const std::vector<PlanPiece> &pieces) {
  return textOf(Arrivals(pieces, flows()).checkFeeding());
}

} // namespace

TEST(Certificate, CoverageIsExact) {
  Wanted wanted = {{{0, 1}, 16}};
  EXPECT_EQ(
      coverage({piece(0, 0, 1, row(0, 2)), piece(1, 2, 1, row(2, 4))}, wanted),
      "");
  EXPECT_EQ(coverage({piece(0, 0, 1, row(0, 2))}, wanted),
            "does not deliver @w[2:4)x[0:4) to device 1");
  EXPECT_EQ(coverage({}, wanted), "does not deliver @w[0:4)x[0:4) to device 1");
  EXPECT_EQ(
      coverage({piece(0, 0, 1, row(0, 3)), piece(1, 2, 1, row(2, 3))}, wanted),
      "delivers @w[2:3)x[0:4) to device 1 a second time");
}

TEST(Certificate, ScalarsArriveOnce) {
  Wanted wanted = {{{0, 1}, 1}};
  EXPECT_EQ(coverage({piece(0, 0, 1, Box())}, wanted), "");
  EXPECT_EQ(coverage({piece(0, 0, 1, Box()), piece(1, 0, 1, Box())}, wanted),
            "delivers @w[] to device 1 a second time");
}

TEST(Certificate, ForwardsComeAfterWhatFeedsThem) {
  PlanPiece low = piece(0, 0, 1, row(0, 2)), high = piece(1, 0, 1, row(2, 4));
  EXPECT_EQ(feeding({low, high, piece(2, 1, 2, row(0, 4), false)}), "");
  EXPECT_EQ(feeding({low, high, piece(1, 1, 2, row(0, 4), false)}),
            "sends @w[0:4)x[0:4) from device 1 in wave 1, before it holds it");
  EXPECT_EQ(feeding({low, piece(5, 1, 2, row(0, 4), false)}),
            "sends @w[0:4)x[0:4) from device 1, which does not hold it");
}

// Pieces cut in any dims, in as many parts as they like: as found one by one.
TEST(Certificate, FeedingIsFoundInAnyCut) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  auto number = [&](int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(random);
  };
  size_t right = 0, lateOnes = 0;
  for (int round = 0; round < 300; ++round) {
    // What arrives on device 1, in random halves, and what it sends on.
    std::vector<Box> boxes = {Box::whole({12, 15, 10})};
    for (int64_t cuts = number(0, 60); cuts > 0; --cuts) {
      Box &box = boxes[number(0, int64_t(boxes.size()) - 1)];
      unsigned dim = unsigned(number(0, 2));
      if (box[dim].size() == 1)
        continue;
      Box rest = box;
      box[dim].hi = rest[dim].lo = number(box[dim].lo + 1, box[dim].hi - 1);
      boxes.push_back(rest);
    }
    std::vector<PlanPiece> pieces;
    for (const Box &box : boxes)
      pieces.push_back(piece(number(0, 5), 0, 1, box));
    for (int64_t sent = number(1, 60); sent > 0; --sent) {
      Box box(3);
      for (unsigned dim = 0; dim < 3; ++dim) {
        box[dim].lo = number(0, 9);
        box[dim].hi = number(box[dim].lo + 1, 10);
      }
      bool isSlow = number(0, 19) == 0;
      pieces.push_back(
          piece(isSlow ? number(1, 5) : 6, 1, 2, box, /*atSource=*/false));
    }
    std::shuffle(pieces.begin(), pieces.end(), random);
    for (uint32_t i = 0; i < pieces.size(); ++i)
      pieces[i].op = i;
    uint32_t lacking = Fault::kNoOp, late = Fault::kNoOp;
    for (uint32_t i = 0; i < pieces.size() && lacking == Fault::kNoOp; ++i)
      for (uint32_t a = pieces.size(); a-- > 0 && !pieces[i].atSource;)
        if (pieces[a].atSource && pieces[a].wave >= pieces[i].wave &&
            overlaps(pieces[a].box, pieces[i].box))
          lacking = i, late = a;
    MaybeFault fault = Arrivals(pieces, flows()).checkFeeding();
    ASSERT_EQ(fault.has_value(), lacking != Fault::kNoOp);
    ++(fault ? lateOnes : right);
    if (fault) {
      EXPECT_EQ(fault->op, lacking);
      EXPECT_EQ(fault->other, late);
    }
  }
  EXPECT_GT(right, 30u);
  EXPECT_GT(lateOnes, 30u);
}

// What a device makes from another flow (fedBy) needs that to arrive.
TEST(Certificate, MadePiecesComeFromTheirOwnDevice) {
  PlanPiece made = piece(9, 1, 1, row(0, 2), false);
  made.flow = 1;
  EXPECT_EQ(feeding({piece(7, 0, 1, row(0, 4)), made}), "");
  EXPECT_EQ(feeding({piece(7, 0, 2, row(0, 4)), made}),
            "makes @v[0:2)x[0:4) on device 1 from @w, which does not arrive "
            "there");
}

TEST(Certificate, MessagesHaveBothEndsOnce) {
  std::vector<PlanPiece> pieces = {piece(3, 0, 1, row(0, 2)),
                                   piece(3, 0, 1, row(2, 4))};
  std::vector<PlanSlot> slots = {slot(3, 0, 1, false, 0, 16),
                                 slot(3, 1, 0, true, 0, 16)};
  EXPECT_EQ(textOf(checkMessages(pieces, slots)), "");
  auto twice = slots;
  twice.push_back(slots[0]);
  EXPECT_EQ(textOf(checkMessages(pieces, twice)),
            "sends the message 0 -> 1 of wave 3 twice: expected one message "
            "per ordered pair");
  EXPECT_EQ(textOf(checkMessages(pieces, {slots[0]})),
            "never receives the message 0 -> 1 of wave 3");
  slots[1].bytes = 12;
  EXPECT_EQ(textOf(checkMessages(pieces, slots)),
            "receives 12 bytes as the message 0 -> 1 of wave 3, expected 16");
  slots[1] = slot(4, 1, 0, true, 0, 16);
  EXPECT_EQ(textOf(checkMessages(pieces, slots)),
            "never receives the message 0 -> 1 of wave 3");
}

TEST(Certificate, GroupsFitOneKernelPlan) {
  std::vector<PlanPiece> pieces;
  std::vector<PlanSlot> slots;
  auto add = [&](int64_t peer) {
    pieces.push_back(piece(0, 0, peer, row(0, 1)));
    slots.push_back(slot(0, 0, peer, false, -1, 4));
    slots.push_back(slot(0, peer, 0, true, -1, 4));
  };
  for (int64_t peer = 1; peer <= kMaxGroupMessages; ++peer)
    add(peer);
  EXPECT_EQ(textOf(checkMessages(pieces, slots)), "");
  add(kMaxGroupMessages + 1);
  EXPECT_EQ(textOf(checkMessages(pieces, slots)),
            "gives device 0 more than 7 messages in wave 0: a group must fit "
            "one kernel plan");
}

TEST(Certificate, SlotsKeepToFourAreas) {
  // Groups 0, 1, 2 of device 0 are waves 0, 4, 5.
  std::vector<PlanSlot> slots = {
      slot(0, 0, 1, false, 0, 10), slot(4, 0, 1, false, 10, 10),
      slot(5, 0, 1, false, 0, 10), slot(0, 0, 1, true, 20, 10),
      slot(4, 0, 1, true, 30, 10), slot(5, 0, 2, true, 20, 5),
      slot(5, 0, 3, true, 25, 5),
  };
  EXPECT_EQ(textOf(checkSlots({}, slots, 40)), "");
  EXPECT_EQ(textOf(checkSlots({}, slots, 39)),
            "uses staging bytes 30 to 40 on device 0, more than the limit of "
            "39");
  auto broken = slots;
  broken[6].offset = 24;
  EXPECT_EQ(textOf(checkSlots({}, broken, 40)),
            "reuses staging bytes 24 to 29 of device 0 while they are in "
            "flight");
  broken = slots;
  broken[1].offset = 5;
  EXPECT_EQ(textOf(checkSlots({}, broken, 40)),
            "reuses staging bytes 5 to 15 of device 0 while they are in "
            "flight");
}

// Two slots may share bytes wherever they are never in use at once.
TEST(Certificate, SlotsNeedNoAreas) {
  auto check = [](std::vector<PlanSlot> slots) {
    return textOf(checkSlots({}, slots, 40));
  };
  PlanSlot sends[] = {slot(0, 0, 1, false, 0, 10), slot(1, 0, 1, false, 10, 10),
                      slot(2, 0, 1, false, 20, 10),
                      slot(3, 0, 1, false, 0, 10)};
  EXPECT_EQ(check({sends, sends + 4}), "");
  // A send is packed while the group before its own still sends.
  sends[2].offset = 15;
  EXPECT_EQ(check({sends, sends + 4}),
            "reuses staging bytes 15 to 25 of device 0 while they are in "
            "flight");
  // What group 0 received is unpacked while group 1, which has no slot, runs,
  // and what group 2 sends is packed then.
  PlanSlot received = slot(0, 0, 1, true, 0, 10),
           direct = slot(1, 0, 1, false, -1, 10);
  EXPECT_EQ(check({received, direct, slot(2, 0, 1, false, 5, 10)}),
            "reuses staging bytes 5 to 15 of device 0 while they are in "
            "flight");
  EXPECT_EQ(check({received, direct, slot(2, 0, 1, true, 0, 10)}), "");
  EXPECT_EQ(check({received, direct, slot(2, 0, 1, true, 0, 10),
                   slot(3, 0, 1, false, 0, 10)}),
            "reuses staging bytes 0 to 10 of device 0 while they are in "
            "flight");
  EXPECT_EQ(check({received, direct, slot(2, 0, 1, true, 10, 10),
                   slot(3, 0, 1, false, 0, 10)}),
            "");
}

TEST(Certificate, PortsCarryOneMessageEachWayPerWave) {
  Cluster cluster;
  cluster.devicesPerNode = 2;
  // Device 0 sends on both levels and receives on both: no port is shared.
  std::vector<PlanPiece> right = {
      piece(0, 0, 1, row(0, 1)), piece(0, 0, 2, row(1, 2)),
      piece(0, 1, 0, row(2, 3)), piece(0, 3, 0, row(3, 4)),
      piece(1, 0, 3, row(0, 1))};
  EXPECT_EQ(textOf(checkPorts(right, cluster)), "");
  // Pieces of one message share its ports.
  EXPECT_EQ(
      textOf(checkPorts({piece(0, 0, 2, row(0, 1)), piece(0, 0, 2, row(1, 2))},
                        cluster)),
      "");
  EXPECT_EQ(
      textOf(checkPorts({piece(4, 0, 2, row(0, 1)), piece(4, 0, 3, row(1, 2))},
                        cluster)),
      "sends 0 -> 2 and 0 -> 3 over the NIC of device 0 in wave 4: "
      "expected one message each way per port and wave");
  // Of two devices that share a NIC, one may use it.
  std::vector<PlanPiece> shared = {piece(4, 0, 2, row(0, 1)),
                                   piece(4, 1, 4, row(1, 2))};
  EXPECT_EQ(textOf(checkPorts(shared, cluster)), "");
  cluster.devicesPerNic = 2;
  EXPECT_EQ(textOf(checkPorts(shared, cluster)),
            "sends 0 -> 2 and 1 -> 4 over the NIC of device 0 in wave 4: "
            "expected one message each way per port and wave");
}

TEST(Certificate, PortsCarryAsManyMessagesAsFillThem) {
  Cluster cluster;
  cluster.devicesPerNode = 2;
  cluster.channelsPerPeer = 1;
  cluster.interChannelGBps = cluster.interNodeGBps / 2;
  std::vector<PlanPiece> pieces = {piece(4, 0, 2, row(0, 1)),
                                   piece(4, 0, 4, row(1, 2)),
                                   piece(4, 0, 2, row(2, 3))};
  // Two pieces of one message, with another between them.
  EXPECT_EQ(textOf(checkPorts(pieces, cluster)), "");
  pieces[2].to = 6;
  EXPECT_EQ(textOf(checkPorts(pieces, cluster)),
            "sends 0 -> 4 and 0 -> 6 over the NIC of device 0 in wave 4: "
            "expected at most 2 messages each way per port and wave");
  // As many with PXN, by whatever NICs.
  cluster.pxn = true;
  EXPECT_EQ(textOf(checkPorts(pieces, cluster)),
            "sends 0 -> 4 and 0 -> 6 over the NIC of device 0 in wave 4: "
            "expected at most 2 messages each way per port and wave");
  // And of all devices that share a NIC.
  cluster.pxn = false;
  cluster.devicesPerNic = 2;
  pieces = {piece(4, 0, 2, row(0, 1)), piece(4, 1, 4, row(1, 2))};
  EXPECT_EQ(textOf(checkPorts(pieces, cluster)), "");
  pieces.push_back(piece(4, 1, 6, row(2, 3)));
  EXPECT_EQ(textOf(checkPorts(pieces, cluster)),
            "sends 1 -> 4 and 1 -> 6 over the NIC of device 0 in wave 4: "
            "expected at most 2 messages each way per port and wave");
}
