//===- CertificateTest.cpp - Broken rules are found and named -------------===//

#include "dt/Proof/Certificate.h"

#include "gtest/gtest.h"

using namespace dt;

namespace {

const std::vector<std::string> kNames = {"@w", "@v"};

Box row(int64_t lo, int64_t hi) {
  return Box::fromOffsetSize({lo, 0}, {hi - lo, 4});
}

ProofPiece piece(int64_t wave, int64_t from, int64_t to, Box box,
                 bool atSource = true) {
  ProofPiece out;
  out.wave = wave;
  out.from = from;
  out.to = to;
  out.box = box;
  out.bytes = box.volume();
  out.atSource = atSource;
  return out;
}

ProofSlot slot(int64_t wave, int64_t device, int64_t peer, bool receive,
               int64_t offset, int64_t bytes) {
  ProofSlot out;
  out.wave = wave;
  out.device = device;
  out.peer = peer;
  out.receive = receive;
  out.offset = offset;
  out.bytes = bytes;
  return out;
}

std::string textOf(const MaybeFault &fault) { return fault ? fault->text : ""; }

std::string coverage(const std::vector<ProofPiece> &pieces,
                     const Wanted &wanted) {
  return textOf(Arrivals(pieces, kNames).checkCoverage(wanted));
}
std::string feeding(const std::vector<ProofPiece> &pieces) {
  return textOf(Arrivals(pieces, kNames).checkFeeding());
}

} // namespace

TEST(Certificate, CoverageIsExact) {
  Wanted wanted = {{{0, 1}, 16}};
  EXPECT_EQ(
      coverage({piece(0, 0, 1, row(0, 2)), piece(1, 2, 1, row(2, 4))}, wanted),
      "");
  EXPECT_EQ(coverage({piece(0, 0, 1, row(0, 2))}, wanted),
            "delivers 8 elements of @w to device 1, which wants 16");
  EXPECT_EQ(coverage({}, wanted),
            "delivers 0 elements of @w to device 1, which wants 16");
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
  ProofPiece low = piece(0, 0, 1, row(0, 2)), high = piece(1, 0, 1, row(2, 4));
  EXPECT_EQ(feeding({low, high, piece(2, 1, 2, row(0, 4), false)}), "");
  EXPECT_EQ(feeding({low, high, piece(1, 1, 2, row(0, 4), false)}),
            "sends @w[0:4)x[0:4) from device 1 in wave 1, before it holds it");
  EXPECT_EQ(feeding({low, piece(5, 1, 2, row(0, 4), false)}),
            "sends @w[0:4)x[0:4) from device 1 in wave 5, before it holds it");
}

// What a device makes from another flow (fedBy) needs that to arrive.
TEST(Certificate, MadePiecesComeFromTheirOwnDevice) {
  ProofPiece made = piece(INT64_MAX, 1, 1, row(0, 2), false);
  made.flow = 1;
  EXPECT_EQ(feeding({piece(7, 0, 1, row(0, 4)), made}), "");
  EXPECT_EQ(feeding({piece(7, 0, 2, row(0, 4)), made}),
            "makes @v[0:2)x[0:4) on device 1 from @w, which does not arrive "
            "there");
}

TEST(Certificate, MessagesHaveBothEndsOnce) {
  std::vector<ProofPiece> pieces = {piece(3, 0, 1, row(0, 2)),
                                    piece(3, 0, 1, row(2, 4))};
  std::vector<ProofSlot> slots = {slot(3, 0, 1, false, 0, 16),
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
  std::vector<ProofPiece> pieces;
  std::vector<ProofSlot> slots;
  for (int64_t peer = 1; peer <= kMaxGroupMessages + 1; ++peer) {
    pieces.push_back(piece(0, 0, peer, row(0, 1)));
    slots.push_back(slot(0, 0, peer, false, -1, 4));
    slots.push_back(slot(0, peer, 0, true, -1, 4));
  }
  EXPECT_EQ(textOf(checkMessages(pieces, slots)),
            "gives device 0 more than 6 messages in wave 0: a group must fit "
            "one kernel plan");
}

TEST(Certificate, SlotsKeepToFourAreas) {
  // Groups 0, 1, 2 of device 0 are waves 0, 4, 5.
  std::vector<ProofSlot> slots = {
      slot(0, 0, 1, false, 0, 10), slot(4, 0, 1, false, 10, 10),
      slot(5, 0, 1, false, 0, 10), slot(0, 0, 1, true, 20, 10),
      slot(4, 0, 1, true, 30, 10), slot(5, 0, 2, true, 20, 5),
      slot(5, 0, 3, true, 25, 5),
  };
  EXPECT_EQ(textOf(checkSlots(slots, 40)), "");
  EXPECT_EQ(textOf(checkSlots(slots, 39)),
            "uses staging bytes 30 to 40 on device 0, more than the limit of "
            "39");
  auto broken = slots;
  broken[6].offset = 24;
  EXPECT_EQ(textOf(checkSlots(broken, 40)),
            "reuses staging bytes 24 to 29 of device 0 while they are in "
            "flight");
  broken = slots;
  broken[1].offset = 5;
  EXPECT_EQ(textOf(checkSlots(broken, 40)),
            "reuses staging bytes 5 to 15 of device 0 while they are in "
            "flight");
  // In no use at once, and yet in no areas.
  EXPECT_EQ(textOf(checkSlots(
                {slot(0, 0, 1, false, 0, 10), slot(1, 0, 1, false, 10, 10),
                 slot(2, 0, 1, false, 20, 10), slot(3, 0, 1, false, 0, 10)},
                40)),
            "places the slots of device 0 otherwise than in four areas, {send, "
            "receive} x {even, odd group}, which is not proved to be safe");
}
