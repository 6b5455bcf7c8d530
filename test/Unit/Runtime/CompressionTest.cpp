//===- CompressionTest.cpp - Fewer bytes over slow links, and the same ----===//

#include "BlockCodec.h"
#include "BorrowedTransport.h"
#include "BytePlanes.h"
#include "ExpectContains.h"
#include "PlanBuilder.h"

#include "dtrt/core/MessageRegions.h"
#include "dtrt/transport/CompressedTransport.h"
#include "dtrt/transport/LoopbackTransport.h"
#include "dtrt/verify/Verifier.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <thread>

using namespace dtrt;
using namespace dtrt::test;

namespace {

using Bytes = std::vector<std::byte>;

/// Values as weights have them: exponents alike, mantissas at random.
Bytes weights(size_t count, unsigned seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> normal(0, 0.02f);
  Bytes out(count * sizeof(float));
  for (size_t i = 0; i < count; ++i) {
    float value = normal(rng);
    std::memcpy(out.data() + i * sizeof value, &value, sizeof value);
  }
  return out;
}

Bytes noise(size_t bytes, unsigned seed) {
  std::mt19937_64 rng(seed);
  Bytes out(bytes);
  for (std::byte &byte : out)
    byte = std::byte(rng());
  return out;
}

/// Slow links between all devices.
Cluster slowCluster() {
  Cluster cluster;
  cluster.devicesPerNode = 1;
  cluster.interNodeGBps = 1e-6; // anything is faster
  return cluster;
}

constexpr Compression kSmall = {1, 1 << 16};

/// A tensor of each of two states, in one message.
PlanCommon twoStates() {
  PlanCommon common;
  common.families.push_back(makeFamily("w", {}, {1 << 20},
                                       {{"master", DType::F32, DType::F32},
                                        {"param", DType::BF16, DType::BF16}}));
  return common;
}

MessageRegions regionsOf(const PlanCommon &common, uint64_t master,
                         uint64_t param) {
  return {&common, {{0, 0, {}, master}, {0, 1, {}, param}}};
}

/// The bytes as they come out of blocks that went through the codec, and how
/// many there were.
Bytes throughCodec(BlockCodec &codec, const TransportMessage &sent,
                   double bytesPerSecond, uint64_t &encoded) {
  Bytes got(sent.bytes), frame(codec.blockBytes());
  TransportMessage received = sent;
  received.data = got.data();
  std::vector<ElementRun> runs = runsOf(sent);
  EXPECT_TRUE(codec.paysOn(bytesPerSecond, sent, runs).ok());
  for (uint64_t at = 0; at < sent.bytes; at += codec.blockBytes()) {
    auto size = codec.encode(sent, runs, at, bytesPerSecond, frame.data());
    EXPECT_TRUE(size.ok());
    EXPECT_GE(*size, 1u);
    EXPECT_LE(*size, codec.bytesAt(sent, at));
    encoded += *size;
    Status status = codec.decode(received, runs, at, frame.data(), *size);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  return got;
}

/// As `weights`, then half as many bytes of bf16, behind an odd head.
struct TwoStates {
  explicit TwoStates(uint64_t head = 4) : data(weights(60'000, 1)) {
    Bytes params(60'000);
    for (size_t i = 0; i < 30'000; ++i)
      std::memcpy(params.data() + 2 * i, data.data() + 4 * i + 2, 2);
    regions = regionsOf(common, data.size(), params.size());
    data.insert(data.end(), params.begin(), params.end());
    regions.list.insert(regions.list.begin(), {0, 1, {}, head});
    data.insert(data.begin(), head, std::byte(7));
    message = {false, 1, data.data(), data.size(), nullptr, &regions};
  }
  TwoStates(const TwoStates &) = delete;

  PlanCommon common = twoStates();
  Bytes data;
  MessageRegions regions;
  TransportMessage message;
};

} // namespace

#define SKIP_WITHOUT_ZSTD()                                                    \
  if (!canCompress())                                                          \
  GTEST_SKIP() << "built without zstd"

TEST(Compression, PlanesComeTogetherAgain) {
  for (unsigned width : {1u, 2u, 4u, 8u})
    for (size_t count : {1u, 7u, 2048u, 2049u, 5000u}) {
      Bytes data = noise(count * width, width), planes(data.size()),
            joined(data.size());
      Planes<std::byte> parts = {};
      Planes<const std::byte> read = {};
      for (unsigned p = 0; p < width; ++p)
        read[p] = parts[p] = planes.data() + p * count;
      splitPlanes(data.data(), count, width, parts);
      for (unsigned p = 0; p < width; ++p)
        EXPECT_EQ(parts[p][count - 1], data[(count - 1) * width + p]);
      joinPlanes(read, count, width, joined.data());
      EXPECT_EQ(joined, data);
    }
}

TEST(Compression, PaysOnlyWhereTheLinkIsSlower) {
  // C = 2 GB/s for the two ends together, r = 1.25: B below C (r - 1) / r.
  CodecGain gain = {0b1000, 1'000'000, 800'000, 0.0003, 0.0002};
  EXPECT_EQ(gain.bytesPerSecond(), 2e9);
  EXPECT_EQ(gain.ratio(), 1.25);
  EXPECT_TRUE(gain.paysOn(0.39e9));
  EXPECT_FALSE(gain.paysOn(0.41e9));
  gain.encoded = gain.raw;
  EXPECT_FALSE(gain.paysOn(1));
}

TEST(Compression, AShortSampleOnlyRulesOutWhatIsFarTooFast) {
  CodecGain gain = {0b1000, 1'000'000, 800'000, 0.0003, 0.0002};
  EXPECT_TRUE(gain.mayPayOn(0.8e9, StateCodec::kMostOff));
  EXPECT_TRUE(gain.mayPayOn(1.1e9, StateCodec::kMostOff));
  EXPECT_FALSE(gain.mayPayOn(1.3e9, StateCodec::kMostOff));
  gain.planes = 0; // too short to tell
  EXPECT_TRUE(gain.mayPayOn(1e15, StateCodec::kMostOff));
}

TEST(Compression, BlocksComeOutAsTheyWentIn) {
  SKIP_WITHOUT_ZSTD();
  for (uint64_t head : {2, 4, 4094}) {
    TwoStates sent(head);
    auto codec = BlockCodec::create(1 << 16);
    ASSERT_TRUE(codec.ok());
    uint64_t encoded = 0;
    EXPECT_EQ(throughCodec(**codec, sent.message, 1, encoded), sent.data);
    EXPECT_LT(encoded, sent.data.size() * 9 / 10);
    // Each state by its own ratio: half of bf16 is exponent.
    auto states = (*codec)->report().states;
    auto ratio = [&](const char *state) {
      return double(states[state].rawBytes) / double(states[state].sentBytes);
    };
    EXPECT_GT(ratio("master"), 1.1);
    EXPECT_GT(ratio("param"), ratio("master"));
  }
}

TEST(Compression, FastLinksAndNoiseGoRaw) {
  SKIP_WITHOUT_ZSTD();
  TwoStates sent;
  auto codec = BlockCodec::create(1 << 16);
  ASSERT_TRUE(codec.ok());
  uint64_t encoded = 0;
  EXPECT_EQ(throughCodec(**codec, sent.message, 1e15, encoded), sent.data);
  EXPECT_EQ(encoded, sent.data.size());

  Bytes random = noise(200'001, 3);
  TransportMessage message = {false, 1, random.data(), random.size()};
  encoded = 0;
  EXPECT_EQ(throughCodec(**codec, message, 1, encoded), random);
  EXPECT_EQ(encoded, random.size());
}

TEST(Compression, DamagedBlocksAreErrors) {
  SKIP_WITHOUT_ZSTD();
  TwoStates sent;
  auto codec = BlockCodec::create(1 << 16);
  ASSERT_TRUE(codec.ok());
  std::vector<ElementRun> runs = runsOf(sent.message);
  Bytes frame(1 << 16), out(sent.data.size());
  ASSERT_TRUE(*(*codec)->paysOn(1, sent.message, runs));
  size_t size = *(*codec)->encode(sent.message, runs, 0, 1, frame.data());
  ASSERT_LT(size, frame.size());
  TransportMessage received = sent.message;
  received.data = out.data();
  for (size_t shorter = 1; shorter < size; shorter = shorter * 3 / 2 + 1)
    EXPECT_FALSE(
        (*codec)->decode(received, runs, 0, frame.data(), shorter).ok())
        << shorter;
  // Whatever a byte becomes, nothing is read or written elsewhere.
  std::mt19937_64 rng(5);
  for (int i = 0; i < 200; ++i) {
    Bytes spoilt(frame.begin(), frame.begin() + std::ptrdiff_t(size));
    spoilt[rng() % (i % 2 ? 64 : size)] = std::byte(rng());
    (void)(*codec)->decode(received, runs, 0, spoilt.data(), spoilt.size());
  }
}

TEST(Compression, TheLibraryKeepsToItsPartOfTheStaging) {
  SKIP_WITHOUT_ZSTD();
  Bytes data = weights(1'000'000, 9);
  auto codec = StateCodec::create(data.size());
  ASSERT_TRUE(codec.ok());
  EXPECT_GT((*codec)->measure(data.data(), data.size(), 4).ratio(), 1.1);
  EXPECT_LE((*codec)->libraryBytes(), Compression::kLibraryBytes);
}

namespace {

/// Counts what goes through.
class Counting : public Borrowed {
public:
  using Borrowed::Borrowed;
  Status group(const std::vector<TransportMessage> &messages) override {
    for (const TransportMessage &message : messages)
      sent += message.receive ? 0 : message.bytes;
    ++groups;
    return Borrowed::group(messages);
  }
  uint64_t sent = 0;
  uint64_t groups = 0;
};

/// What one end has sent of a message: bytes, in so many groups.
struct Sent {
  uint64_t bytes = 0, groups = 0;
};

/// Both devices send each message to each other, one after the other; what one
/// end has sent of each. `compression` null: it cannot, and says so.
std::vector<Sent> exchangeAt(LoopbackWorld &world, uint32_t device,
                             const std::vector<const TwoStates *> &messages,
                             const Cluster &cluster,
                             const Compression *compression) {
  auto counted = std::make_unique<Counting>(world.endpoint(device));
  Counting &count = *counted;
  std::unique_ptr<Transport> transport = std::move(counted);
  if (compression)
    transport =
        makeCompressedTransport(std::move(transport), cluster, *compression);
  uint32_t peer = 1 - device;
  EXPECT_TRUE(transport->connect({1, 2}, {peer}).ok());
  if (!compression) { // as a build without zstd does
    std::array<std::byte, 4> none = {};
    EXPECT_TRUE(transport
                    ->group({{false, peer, none.data(), 2},
                             {true, peer, none.data() + 2, 2}})
                    .ok());
  }
  std::vector<Sent> sent;
  for (const TwoStates *message : messages) {
    Sent before = {count.sent, count.groups};
    Bytes got(message->data.size());
    TransportMessage out = message->message, in = message->message;
    out.peer = in.peer = peer;
    in.receive = true;
    in.data = got.data();
    Status status = transport->group({out, in});
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(got, message->data);
    sent.push_back({count.sent - before.bytes, count.groups - before.groups});
  }
  transport->leave();
  return sent;
}

std::vector<std::vector<Sent>>
exchange(const std::vector<const TwoStates *> &messages,
         std::array<const Compression *, 2> compressions,
         const Cluster &cluster = slowCluster()) {
  LoopbackWorld world({0, 1});
  std::vector<std::vector<Sent>> sent(2);
  std::vector<std::thread> threads;
  for (uint32_t device : {0u, 1u})
    threads.emplace_back([&, device] {
      sent[device] =
          exchangeAt(world, device, messages, cluster, compressions[device]);
    });
  for (std::thread &thread : threads)
    thread.join();
  return sent;
}

} // namespace

TEST(Compression, MessagesArriveInFewerBytes) {
  SKIP_WITHOUT_ZSTD();
  TwoStates message;
  for (const auto &end : exchange({&message}, {&kSmall, &kSmall}))
    EXPECT_LT(end[0].bytes, message.data.size() * 9 / 10);
}

TEST(Compression, APeerThatCannotIsFoundOutBeforeAnythingMoves) {
  TwoStates message;
  for (const auto &end : exchange({&message}, {&kSmall, nullptr})) {
    EXPECT_EQ(end[0].bytes, message.data.size());
    EXPECT_EQ(end[0].groups, 1u);
  }
}

/// No codec is as fast as 1e15 bytes per second.
TEST(Compression, AFastLinkIsAskedOnceAndThenCarriesWhatItIsGiven) {
  SKIP_WITHOUT_ZSTD();
  Cluster fast = slowCluster();
  fast.interNodeGBps = 1e6;
  Compression all = {1e7, kSmall.blockBytes};
  TwoStates first, second(4094);
  for (const auto &end :
       exchange({&first, &first, &second}, {&all, &all}, fast)) {
    // A word of four bytes says so, then all follows in one piece.
    EXPECT_EQ(end[0].bytes, first.data.size() + 4);
    EXPECT_EQ(end[0].groups, 2u);
    EXPECT_EQ(end[1].bytes, first.data.size());
    EXPECT_EQ(end[1].groups, 1u);
    EXPECT_EQ(end[2].bytes, second.data.size());
    EXPECT_EQ(end[2].groups, 1u);
  }
}

TEST(Compression, AStateThatDoesNotPaySettlesNoOther) {
  SKIP_WITHOUT_ZSTD();
  TwoStates both, masters;
  masters.data = noise(200'000, 11);
  masters.regions = regionsOf(masters.common, masters.data.size(), 0);
  masters.regions.list.pop_back();
  masters.message = {
      false,           1, masters.data.data(), masters.data.size(), nullptr,
      &masters.regions};
  for (const auto &end :
       exchange({&masters, &masters, &both}, {&kSmall, &kSmall})) {
    EXPECT_EQ(end[0].bytes, masters.data.size() + 4);
    EXPECT_EQ(end[1].bytes, masters.data.size());
    EXPECT_LT(end[2].bytes, both.data.size());
    EXPECT_GT(end[2].groups, 2u);
  }
}

/// Short runs are not measured, so they settle short ones alone: what comes
/// later may be long enough to find out that it pays.
TEST(Compression, WhatWasNotMeasuredIsSettledForShortRunsAlone) {
  SKIP_WITHOUT_ZSTD();
  TwoStates both, few;
  few.data = weights(5'000, 12);
  few.regions = regionsOf(few.common, 10'000, 10'000);
  few.message.data = few.data.data();
  few.message.bytes = few.data.size();
  for (const auto &end : exchange({&few, &both, &few}, {&kSmall, &kSmall})) {
    EXPECT_EQ(end[0].bytes, few.data.size() + 4);
    EXPECT_LT(end[1].bytes, both.data.size() * 9 / 10);
    EXPECT_EQ(end[2].bytes, few.data.size());
    EXPECT_EQ(end[2].groups, 1u);
  }
}

/// As small messages of slow links have them.
TEST(Compression, RunsOfTwentyThousandBytesAreCompressed) {
  SKIP_WITHOUT_ZSTD();
  TwoStates few;
  few.data = weights(10'000, 13);
  few.regions = regionsOf(few.common, 20'000, 20'000);
  few.message.data = few.data.data();
  few.message.bytes = few.data.size();
  for (const auto &end : exchange({&few}, {&kSmall, &kSmall}))
    EXPECT_LT(end[0].bytes, few.data.size() * 9 / 10);
}

TEST(Compression, ThePlanHasRoomForIt) {
  TestPlan plan = reshapePlan();
  EXPECT_EQ(verifyPlan(plan.reader()).message(), "");
  plan.common.compression = {25.5, 1 << 16};
  uint64_t frames = plan.common.compression.bytesPerDevice(plan.common.cluster);
  EXPECT_EQ(frames, 5 * (65536 + 4) + 65536 + (2 << 20));
  PlanSummary &summary = plan.common.summary;
  summary.stagingLimit = summary.stagingPeak + frames;
  EXPECT_EQ(verifyPlan(plan.reader()).message(), "");
  summary.stagingLimit -= 1;
  expectContains(verifyPlan(plan.reader()).message(),
                 "bytes of staging, more than the limit of");
  summary.stagingLimit += 1;
  summary.deviceLimit = summary.devicePeak + frames;
  EXPECT_EQ(verifyPlan(plan.reader()).message(), "");
  summary.deviceLimit -= 1;
  expectContains(verifyPlan(plan.reader()).message(),
                 "bytes of memory, more than the limit of");
}

TEST(Compression, BlocksHaveLimits) {
  for (uint64_t block : {uint64_t(0), Compression::kLeastBlock - 1,
                         Compression::kMostBlock + 1}) {
    TestPlan plan = reshapePlan();
    plan.common.compression = {1, block};
    auto bytes = plan.encoded();
    ASSERT_TRUE(bytes.ok());
    auto reader = PlanReader::fromBytes(*bytes);
    ASSERT_FALSE(reader.ok());
    expectContains(reader.status().message(), "are compressed, expected");
  }
}
