//===- NvcompTest.cpp - Messages on a GPU in fewer bytes, and the same ----===//
//
// nvCOMP's codec on a stand-in for its calls, by itself and around messages
// that go over a wire of the host.
//
//===----------------------------------------------------------------------===//

#include "CompressedWorld.h"
#include "ExpectContains.h"
#include "FakeGpu.h"
#include "PlanBuilder.h"

#include "dtrt/core/MessageRegions.h"
#include "dtrt/cuda/GpuCompression.h"

#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <thread>

using namespace dtrt;
using namespace dtrt::test;

namespace {

using Bytes = std::vector<std::byte>;

/// Values of which every width-th byte is one of few, as in exponents.
Bytes elements(size_t count, unsigned width, unsigned seed) {
  std::mt19937_64 rng(seed);
  Bytes out(count * width);
  for (size_t i = 0; i < out.size(); ++i)
    out[i] =
        i % width == width - 1 ? std::byte(0x30 + rng() % 9) : std::byte(rng());
  return out;
}

/// Bytes on GPU 0.
class OnGpu {
public:
  explicit OnGpu(const Bytes &bytes)
      : size(bytes.size()), source(gpuMemory()), data(source.allocate(size)) {
    EXPECT_TRUE(copy(data, bytes.data(), size).ok());
  }
  ~OnGpu() { source.free(data); }
  OnGpu(const OnGpu &) = delete;
  std::byte *get() const { return data; }
  Bytes bytes() const {
    Bytes out(size);
    EXPECT_TRUE(copy(out.data(), data, size).ok());
    return out;
  }

private:
  size_t size;
  MemorySource source;
  CopyBytes copy = gpuCopies();
  std::byte *data;
};

constexpr uint64_t kRoom = uint64_t(64) << 20;

std::unique_ptr<StateCodec> makeCodec(size_t mostBytes,
                                      const FakeNvcompOptions &options = {}) {
  auto made = makeAnsCodec(fakeNvcomp(options), 0, mostBytes, kRoom);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::move(*made);
}

} // namespace

TEST(Nvcomp, RunsComeOutAsTheyWentIn) {
  for (unsigned width : {1u, 2u, 4u, 8u})
    for (size_t count : {1000u, 65536u, 65537u, 150'000u}) {
      Bytes data = elements(count, width, width);
      OnGpu run(data), got((Bytes(data.size())));
      auto codec = makeCodec(data.size());
      CodecGain gain = codec->measure(run.get(), data.size(), width);
      EXPECT_EQ(gain.planes, 1u << (width - 1)) << width;
      EXPECT_LT(gain.encoded, gain.raw);
      for (uint8_t planes : {gain.planes, uint8_t(0)}) {
        Bytes frame(data.size() + 1);
        size_t size = codec->encode(run.get(), data.size(), width, planes,
                                    frame.data(), frame.size());
        ASSERT_GT(size, 0u);
        EXPECT_EQ(size < data.size(), planes != 0);
        auto read =
            codec->decode(frame.data(), size, got.get(), data.size(), width);
        ASSERT_TRUE(read.ok()) << read.status().message();
        EXPECT_EQ(*read, size);
        EXPECT_EQ(got.bytes(), data);
      }
    }
}

TEST(Nvcomp, WhatDoesNotFitIsNotEncoded) {
  Bytes data = elements(100'000, 4, 1);
  OnGpu run(data);
  auto codec = makeCodec(data.size());
  Bytes frame(data.size());
  size_t size =
      codec->encode(run.get(), data.size(), 4, 8, frame.data(), frame.size());
  ASSERT_GT(size, 0u);
  for (size_t room : {size - 1, size / 2, size_t(6), size_t(1)})
    EXPECT_EQ(codec->encode(run.get(), data.size(), 4, 8, frame.data(), room),
              0u);
}

TEST(Nvcomp, AChunkThatFailsGoesAsItIs) {
  Bytes data = elements(150'000, 4, 2);
  OnGpu run(data), got((Bytes(data.size())));
  FakeNvcompOptions options;
  options.failingCompress = 0;
  auto codec = makeCodec(data.size(), options);
  Bytes frame(data.size());
  size_t size =
      codec->encode(run.get(), data.size(), 4, 8, frame.data(), frame.size());
  ASSERT_GT(size, 0u);
  takeFakeNvcompCounts();
  ASSERT_TRUE(
      codec->decode(frame.data(), size, got.get(), data.size(), 4).ok());
  EXPECT_EQ(takeFakeNvcompCounts().decompressed, 2u); // of three
  EXPECT_EQ(got.bytes(), data);
}

TEST(Nvcomp, DamagedBytesAreErrors) {
  Bytes data = elements(100'000, 4, 3);
  OnGpu run(data), got((Bytes(data.size())));
  auto codec = makeCodec(data.size());
  Bytes frame(data.size());
  size_t size =
      codec->encode(run.get(), data.size(), 4, 8, frame.data(), frame.size());
  ASSERT_GT(size, 0u);
  for (size_t shorter = 0; shorter < size; shorter = shorter * 3 / 2 + 1)
    EXPECT_FALSE(
        codec->decode(frame.data(), shorter, got.get(), data.size(), 4).ok())
        << shorter;
  // A coded chunk has a check sum here; a size may say that it has none.
  std::mt19937_64 rng(5);
  for (int i = 0; i < 100; ++i) {
    Bytes spoilt(frame.begin(), frame.begin() + std::ptrdiff_t(size));
    spoilt[rng() % (i % 2 ? 16 : size)] = std::byte(rng());
    (void)codec->decode(spoilt.data(), spoilt.size(), got.get(), data.size(),
                        4);
  }
}

TEST(Nvcomp, ItsMemoryIsWithinWhatPlansCount) {
  Cluster cluster;
  for (uint64_t block : {Compression::kLeastBlock, Compression::kDefaultBlock,
                         uint64_t(8) << 20}) {
    Compression compression = {1, block};
    auto codec = makeAnsCodec(fakeNvcomp(), 0, block,
                              compression.bytesPerDevice(cluster));
    ASSERT_TRUE(codec.ok()) << codec.status().message();
    EXPECT_LE((*codec)->libraryBytes(), compression.bytesPerDevice(cluster));
  }
  FakeNvcompOptions greedy;
  greedy.tempBytes = kRoom;
  expectContains(
      makeAnsCodec(fakeNvcomp(greedy), 0, 1 << 20, kRoom).status().message(),
      "bytes of the GPU for blocks of 1048576, the plan has room for 67108864");
}

TEST(Nvcomp, AnotherVersionIsNotUsed) {
  EXPECT_TRUE(checkNvcompVersion(fakeNvcomp({6105})).ok());
  expectContains(checkNvcompVersion(fakeNvcomp({5300})).message(),
                 "nvCOMP 5.3 is loaded, expected 6.x");
  expectContains(checkNvcompVersion(fakeNvcomp({7000})).message(),
                 "nvCOMP 7.0 is loaded, expected 6.x");
}

TEST(Nvcomp, WhereItIsMissingTheLoaderSaysWhy) {
  std::string why = whyNoNvcomp();
  EXPECT_EQ(why.empty(), bool(gpuCodecMemory(0).makeCodec));
  if (!why.empty())
    expectContains(why, "nvCOMP");
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

namespace {

CodecMemory withoutNvcomp() {
  CodecMemory memory;
  memory.copy = gpuCopies(0);
  return memory;
}

/// A wire of the host, whose bytes are counted.
class HostWire : public Borrowed {
public:
  using Borrowed::Borrowed;
  Status group(const std::vector<TransportMessage> &messages) override {
    for (const TransportMessage &message : messages)
      sent += message.receive ? 0 : message.bytes;
    return Borrowed::group(messages);
  }
  uint64_t sent = 0;
};

/// Both devices send each other what lies on their GPU; bytes on the wire.
std::array<uint64_t, 2> exchange(const Bytes &data, double bytesPerSecond,
                                 const std::array<CodecMemory, 2> &memories) {
  PlanCommon common;
  common.families.push_back(
      makeFamily("w", {}, {1 << 20}, {{"master", DType::F32, DType::F32}}));
  MessageRegions regions = {&common, {{0, 0, {}, data.size()}}};
  LoopbackWorld world({0, 1});
  std::array<uint64_t, 2> sent = {};
  auto run = [&](uint32_t device) {
    uint32_t peer = 1 - device;
    auto wire = std::make_unique<HostWire>(world.endpoint(device));
    HostWire &count = *wire;
    auto transport = compressing(std::move(wire), clusterOf(bytesPerSecond),
                                 1 << 16, memories[device]);
    EXPECT_TRUE(transport->connect({1, 2}, {peer}).ok());
    OnGpu out(data), in((Bytes(data.size())));
    for (int round = 0; round < 2; ++round) {
      Status status = transport->group(
          {{false, peer, out.get(), data.size(), nullptr, &regions},
           {true, peer, in.get(), data.size(), nullptr, &regions}});
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(in.bytes(), data);
    }
    sent[device] = count.sent;
    transport->leave();
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  return sent;
}

} // namespace

TEST(Nvcomp, MessagesOnAGpuArriveInFewerBytes) {
  Bytes data = elements(100'000, 4, 6);
  for (uint64_t sent :
       exchange(data, 1e3, {fakeCodecMemory(), fakeCodecMemory()}))
    EXPECT_LT(sent, 2 * data.size() * 19 / 20);
  FakeNvcompCounts counts = takeFakeNvcompCounts();
  EXPECT_GT(counts.compressed, 0u);
  EXPECT_GT(counts.decompressed, 0u);
}

TEST(Nvcomp, WithAPeerThatHasNoneTheHostCompresses) {
  if (!canCompress())
    GTEST_SKIP() << "built without zstd";
  Bytes data = elements(100'000, 4, 7);
  for (uint64_t sent :
       exchange(data, 1e3, {fakeCodecMemory(), withoutNvcomp()}))
    EXPECT_LT(sent, 2 * data.size() * 19 / 20);
  EXPECT_EQ(takeFakeNvcompCounts().compressed, 0u);
}

TEST(Nvcomp, WhereItNeedsTooMuchMemoryTheHostCompresses) {
  if (!canCompress())
    GTEST_SKIP() << "built without zstd";
  Bytes data = elements(100'000, 4, 8);
  FakeNvcompOptions greedy;
  greedy.tempBytes = kRoom;
  for (uint64_t sent :
       exchange(data, 1e3, {fakeCodecMemory(greedy), fakeCodecMemory(greedy)}))
    EXPECT_LT(sent, 2 * data.size() * 19 / 20);
  EXPECT_EQ(takeFakeNvcompCounts().compressed, 0u);
}

/// Faster than any codec, and yet below the plan's rate: asked once.
TEST(Nvcomp, FastLinksCarryWhatTheyAreGiven) {
  Bytes data = elements(100'000, 4, 9);
  for (uint64_t sent :
       exchange(data, 9e17, {fakeCodecMemory(), fakeCodecMemory()}))
    EXPECT_EQ(sent, 2 * data.size() + 4 + 2); // a word, and which codecs
}

namespace {

/// The messages of the contract lie in vectors.
std::unique_ptr<TransportWorld>
makeCompressed(const std::vector<uint32_t> &devices, double) {
  FakeGpuOptions options;
  options.hostMemory = true;
  resetFakeGpus(options);
  return std::make_unique<CompressedWorld>(devices);
}

} // namespace

INSTANTIATE_TEST_SUITE_P(Nvcomp, TransportContract,
                         testing::Values(TransportCase{
                             "host_staged_compressed", makeCompressed,
                             /*comparesPlans=*/false}),
                         caseName);
