//===- GpuPagesTest.cpp - The pool of pages on fake GPUs ------------------===//

#include "FakeDriver.h"
#include "FakeGpu.h"

#include "dtrt/cuda/GpuPages.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <map>
#include <random>

using namespace dtrt;
using namespace dtrt::test;

namespace {

constexpr uint64_t kPage = 4096;

std::shared_ptr<GpuPages> makePool(uint64_t limit = UINT64_MAX) {
  auto pool = GpuPages::create(0, limit, &fakeDriver());
  EXPECT_TRUE(pool.ok()) << pool.status().message();
  return std::move(*pool);
}

/// Work of a test on the GPU.
class TestStream {
public:
  TestStream() { cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); }
  ~TestStream() { cudaStreamDestroy(stream); }
  void copy(std::byte *to, const std::byte *from, uint64_t bytes) {
    cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
  }
  void wait() { cudaStreamSynchronize(stream); }

private:
  cudaStream_t stream = nullptr;
};

} // namespace

TEST(GpuPages, APageThatHasGoneIsMappedWhereTheNextBytesAreDue) {
  auto pool = makePool();
  EXPECT_EQ(pool->page(), kPage);
  std::byte *from = *pool->reserve(3 * kPage), *to = *pool->reserve(2 * kPage);
  EXPECT_EQ(pool->counts().created, 0u);
  ASSERT_TRUE(pool->hold(from, 3 * kPage).ok());
  ASSERT_TRUE(pool->letGo(from + kPage, 2 * kPage).ok());
  EXPECT_EQ(pool->counts().mapped, 1u);
  ASSERT_TRUE(pool->hold(to, 2 * kPage).ok());
  EXPECT_EQ(pool->counts().created, 3u);
  EXPECT_EQ(fakeDriverCounts().creates, 3u);
  EXPECT_EQ(fakeDriverCounts().releases, 0u);
}

TEST(GpuPages, APageIsThereWhileAnyByteOfItIs) {
  auto pool = makePool();
  std::byte *at = *pool->reserve(2 * kPage);
  ASSERT_TRUE(pool->hold(at + 100, kPage).ok()); // on both
  ASSERT_TRUE(pool->hold(at + 100, 50).ok());    // a tied tensor
  ASSERT_TRUE(pool->letGo(at + 100, kPage).ok());
  EXPECT_EQ(pool->counts().mapped, 1u);
  ASSERT_TRUE(pool->letGo(at + 100, 50).ok());
  EXPECT_EQ(pool->counts().mapped, 0u);
  Status status = pool->letGo(at, 1);
  EXPECT_EQ(status.message(), "bytes go that were not there");
}

TEST(GpuPages, ALimitIsKeptAndTheErrorSaysWhoHasTheMemory) {
  auto pool = makePool(2 * kPage + 5);
  std::byte *at = *pool->reserve(4 * kPage);
  ASSERT_TRUE(pool->hold(at, kPage).ok());
  Status status = pool->hold(at + kPage, 2 * kPage);
  EXPECT_TRUE(status.is(ErrorCode::OutOfMemory));
  EXPECT_EQ(status.message(),
            "no page of 4096 bytes more on GPU 0: the pool's limit is 8197 "
            "bytes; the pool has 2 pages, 2 of them in use; 1073733632 of the "
            "GPU's 17179869184 bytes are free, 16106127360 are with others");
  // All or nothing: the page that there was room for is there for others.
  EXPECT_EQ(pool->counts().mapped, 1u);
  EXPECT_TRUE(pool->hold(at + 3 * kPage, kPage).ok());
}

TEST(GpuPages, ADriverWithoutMemoryIsNamed) {
  setFakeDriver({kPage, 1});
  auto pool = makePool();
  std::byte *at = *pool->reserve(2 * kPage);
  Status status = pool->hold(at, 2 * kPage);
  EXPECT_TRUE(status.is(ErrorCode::OutOfMemory));
  EXPECT_NE(status.message().find("the driver gives none: out of memory (2)"),
            std::string::npos)
      << status.message();
  EXPECT_EQ(pool->counts().mapped, 0u);
}

TEST(GpuPages, WhatIsRehearsedIsWhatHappens) {
  constexpr uint64_t kPages = 6;
  uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 50; ++round) {
    auto pool = makePool();
    std::byte *ranges[] = {*pool->reserve(kPages * kPage),
                           *pool->reserve(kPages * kPage)};
    struct Held {
      std::byte *at;
      uint64_t bytes;
    };
    std::vector<Held> held;
    auto step = [&](PageUse &pages, std::vector<Held> &held) {
      if (!held.empty() && random() % 2) {
        size_t i = random() % held.size();
        EXPECT_TRUE(pages.letGo(held[i].at, held[i].bytes).ok());
        held.erase(held.begin() + long(i));
        return;
      }
      uint64_t lo = random() % (kPages * kPage - 1);
      Held own = {ranges[random() % 2] + lo,
                  1 + random() % (kPages * kPage - lo)};
      EXPECT_TRUE(pages.hold(own.at, own.bytes).ok());
      held.push_back(own);
    };
    for (int i = 0; i < 5; ++i)
      step(*pool, held);
    ASSERT_TRUE(pool->trim().ok());
    uint64_t before = pool->counts().mapped;
    auto rehearsal = pool->rehearse();
    auto script = random;
    auto copy = held;
    for (int i = 0; i < 20; ++i)
      step(*rehearsal, copy);
    EXPECT_EQ(pool->counts().mapped, before);
    random = script;
    uint64_t most = before;
    for (int i = 0; i < 20; ++i) {
      step(*pool, held);
      most = std::max(most, pool->counts().mapped);
    }
    EXPECT_EQ(rehearsal->mostMore(), most - before);
  }
}

TEST(GpuPages, PagesThatAreMadeSureOfAreThereWhenTheDriverHasNone) {
  setFakeDriver({kPage, 3});
  auto pool = makePool();
  std::byte *at = *pool->reserve(4 * kPage);
  ASSERT_TRUE(pool->hold(at, kPage).ok());
  ASSERT_TRUE(pool->makeSure(2).ok());
  EXPECT_EQ(pool->counts().created, 3u);
  ASSERT_TRUE(pool->makeSure(2).ok()); // they are there
  Status status = pool->makeSure(3);
  EXPECT_TRUE(status.is(ErrorCode::OutOfMemory));
  EXPECT_EQ(status.message().find("3 pages more are needed than are in use, 2 "
                                  "are spare: no page of 4096 bytes more on "
                                  "GPU 0: the driver gives none"),
            0u)
      << status.message();
  EXPECT_EQ(pool->counts().created, 3u); // no fewer, and no more
  EXPECT_TRUE(pool->hold(at + kPage, 2 * kPage).ok());
}

TEST(GpuPages, WhereNotAllPagesCanBeHadTheDriverGetsThemBack) {
  auto pool = makePool(/*limit=*/3 * kPage);
  std::byte *at = *pool->reserve(4 * kPage);
  ASSERT_TRUE(pool->hold(at, kPage).ok());
  EXPECT_FALSE(pool->makeSure(3).ok());
  EXPECT_EQ(pool->counts().created, 1u);
  EXPECT_TRUE(pool->makeSure(2).ok());
}

// A storage of torch's pool with two tensors, one of them tied, and padding.
TEST(GpuPages, PaddingOfAStorageGoesWithItsFirstTensor) {
  auto pool = makePool();
  std::byte *at = *pool->reserve(6 * kPage);
  ASSERT_TRUE(pool->hold(at, 6 * kPage).ok());
  PooledBytes bytes({{0, kPage}, {0, kPage}, {4 * kPage, 5 * kPage}},
                    6 * kPage);
  ASSERT_TRUE(bytes.release(*pool, at, 0, kPage).ok());
  EXPECT_EQ(pool->counts().mapped, 2u);
  EXPECT_EQ(bytes.live(), 2 * kPage);
  ASSERT_TRUE(bytes.release(*pool, at, 0, kPage).ok());
  ASSERT_TRUE(bytes.create(*pool, at, 5 * kPage, 6 * kPage).ok());
  ASSERT_TRUE(bytes.release(*pool, at, 4 * kPage, 5 * kPage).ok());
  EXPECT_EQ(pool->counts().mapped, 1u);
  EXPECT_EQ(bytes.live(), kPage);
}

TEST(GpuPages, WhatIsFreedLeavesItsPagesToOthersUntilTheyAreTrimmed) {
  auto pool = makePool();
  std::byte *at = *pool->reserve(2 * kPage);
  ASSERT_TRUE(pool->hold(at, 2 * kPage).ok());
  EXPECT_TRUE(pool->has(at + 2 * kPage - 1));
  ASSERT_TRUE(pool->free(at).ok());
  EXPECT_FALSE(pool->has(at));
  EXPECT_FALSE(pool->free(at).ok());
  EXPECT_FALSE(pool->hold(at, 1).ok());
  EXPECT_EQ(pool->counts().created, 2u);
  ASSERT_TRUE(pool->trim().ok());
  EXPECT_EQ(pool->counts().created, 0u);
  EXPECT_EQ(pool->counts().mostCreated, 2u);
}

TEST(GpuPages, BytesOfOthersAreRefused) {
  auto pool = makePool();
  std::byte *at = *pool->reserve(kPage);
  std::byte other{};
  for (Status status : {pool->hold(at, kPage + 1), pool->hold(&other, 1),
                        pool->letGo(&other, 1)})
    EXPECT_EQ(status.message(), "bytes that are not the pool's");
}

TEST(GpuPages, WithoutADriverTheErrorSaysSo) {
  auto pool = GpuPages::create(0);
  if (pool.ok())
    GTEST_SKIP() << "this machine has a CUDA driver";
  EXPECT_NE(pool.status().message().find("cannot load the CUDA driver: "),
            std::string::npos)
      << pool.status().message();
}

//===----------------------------------------------------------------------===//
// Switches
//===----------------------------------------------------------------------===//

namespace {

/// Bytes that a layout has in buffers of any size, each of them in its order.
struct Layout {
  struct Piece {
    std::byte *at = nullptr;
    uint64_t first = 0, bytes = 0; // of the state
  };
  std::vector<std::byte *> buffers;
  std::vector<Piece> pieces;
};

class RandomSwitches {
public:
  RandomSwitches(uint64_t seed, uint64_t bytes)
      : random(seed), state(bytes), pool(makePool()) {
    for (std::byte &byte : state)
      byte = std::byte(random());
  }

  /// A layout without memory.
  Layout makeLayout() {
    Layout layout;
    for (uint64_t first = 0; first < state.size();) {
      uint64_t bytes =
          std::min<uint64_t>(state.size() - first, 1 + random() % (5 * kPage));
      layout.buffers.push_back(*pool->reserve(bytes));
      // Pieces that come and go one by one.
      for (uint64_t lo = 0; lo < bytes;) {
        uint64_t part = std::min<uint64_t>(bytes - lo, 1 + random() % kPage);
        layout.pieces.push_back({layout.buffers.back() + lo, first + lo, part});
        lo += part;
      }
      first += bytes;
    }
    return layout;
  }

  void fill(const Layout &layout) {
    for (const Layout::Piece &piece : layout.pieces) {
      hold(piece);
      stream.copy(piece.at, state.data() + piece.first, piece.bytes);
    }
    stream.wait();
  }

  /// Moves the state in steps: room for a few bytes, their copies, and away
  /// with what has been read.
  void move(const Layout &from, const Layout &to) {
    size_t next = 0; // of the source
    uint64_t window = (1 + random() % 4) * kPage;
    for (size_t i = 0; i < to.pieces.size();) {
      uint64_t end = to.pieces[i].first + window;
      for (; i < to.pieces.size() && to.pieces[i].first < end; ++i) {
        hold(to.pieces[i]);
        copyTo(to.pieces[i], from);
      }
      stream.wait(); // behind the last reader
      uint64_t read = i < to.pieces.size() ? to.pieces[i].first : state.size();
      for (; next < from.pieces.size() &&
             from.pieces[next].first + from.pieces[next].bytes <= read;
           ++next)
        letGo(from.pieces[next]);
    }
    for (std::byte *buffer : from.buffers)
      EXPECT_TRUE(pool->free(buffer).ok());
  }

  void check(const Layout &layout) {
    std::vector<std::byte> found(state.size());
    for (const Layout::Piece &piece : layout.pieces)
      stream.copy(found.data() + piece.first, piece.at, piece.bytes);
    stream.wait();
    EXPECT_EQ(found, state);
  }

  /// What the pool should have had at most: pages with a byte that existed.
  uint64_t most() const { return mostPages; }
  const GpuPages &pages() const { return *pool; }

private:
  void copyTo(const Layout::Piece &to, const Layout &from) {
    for (const Layout::Piece &piece : from.pieces) {
      uint64_t lo = std::max(piece.first, to.first);
      uint64_t hi = std::min(piece.first + piece.bytes, to.first + to.bytes);
      if (lo < hi)
        stream.copy(to.at + (lo - to.first), piece.at + (lo - piece.first),
                    hi - lo);
    }
  }
  void hold(const Layout::Piece &piece) {
    Status status = pool->hold(piece.at, piece.bytes);
    EXPECT_TRUE(status.ok()) << status.message();
    count(piece, 1);
  }
  void letGo(const Layout::Piece &piece) {
    Status status = pool->letGo(piece.at, piece.bytes);
    EXPECT_TRUE(status.ok()) << status.message();
    count(piece, -1);
  }
  /// Byte by byte.
  void count(const Layout::Piece &piece, int sign) {
    for (uint64_t i = 0; i < piece.bytes; ++i) {
      auto page = (reinterpret_cast<uintptr_t>(piece.at) + i) / kPage;
      if ((live[page] += sign) == 0)
        live.erase(page);
    }
    mostPages = std::max<uint64_t>(mostPages, live.size());
  }

  std::mt19937_64 random;
  std::vector<std::byte> state;
  std::shared_ptr<GpuPages> pool;
  TestStream stream;
  std::map<uintptr_t, int> live;
  uint64_t mostPages = 0;
};

} // namespace

TEST(GpuPages, ARandomSequenceOfSwitchesKeepsEveryByteAndThePeak) {
  for (int round = 0; round < 10; ++round) {
    uint64_t seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    resetFakeGpus();
    RandomSwitches switches(seed, 40 * kPage + 123);
    Layout now = switches.makeLayout();
    switches.fill(now);
    for (int i = 0; i < 4; ++i) {
      Layout next = switches.makeLayout();
      switches.move(now, next);
      switches.check(next);
      now = next;
    }
    GpuPageCounts counts = switches.pages().counts();
    EXPECT_EQ(counts.mostCreated, switches.most());
    // Nothing is allocated that was there before, and nothing is freed.
    EXPECT_EQ(counts.created, counts.mostCreated);
    EXPECT_EQ(fakeDriverCounts().releases, 0u);
    EXPECT_GT(fakeDriverCounts().maps, fakeDriverCounts().creates);
  }
}
