//===- PagesOnGpuTest.cpp - The pool of pages on a real GPU ---------------===//

#include "dtrt/cuda/GpuMemory.h"
#include "dtrt/cuda/GpuPages.h"

#include <gtest/gtest.h>
#include <random>

using namespace dtrt;

TEST(PagesOnGpu, APageKeepsItsBytesAndItsRoomWhenItIsMappedElsewhere) {
  auto gpus = countGpus();
  if (!gpus.ok())
    GTEST_SKIP() << gpus.status().message();
  auto pool = GpuPages::create(0);
  ASSERT_TRUE(pool.ok()) << pool.status().message();
  GpuPages &pages = **pool;
  uint64_t bytes = 8 * pages.page();
  std::vector<std::byte> written(bytes), found(bytes);
  std::mt19937_64 random(1);
  for (std::byte &byte : written)
    byte = std::byte(random());
  CopyBytes copy = gpuCopies(0);
  std::byte *from = *pages.reserve(bytes), *to = *pages.reserve(bytes);
  ASSERT_TRUE(pages.hold(from, bytes).ok());
  ASSERT_TRUE(copy(from, written.data(), bytes).ok());
  // Page by page to the other addresses, with one page beside.
  for (uint64_t at = 0; at < bytes; at += pages.page()) {
    Status held = pages.hold(to + at, pages.page());
    ASSERT_TRUE(held.ok()) << held.message();
    ASSERT_TRUE(copy(to + at, from + at, pages.page()).ok());
    ASSERT_TRUE(pages.letGo(from + at, pages.page()).ok());
  }
  ASSERT_TRUE(copy(found.data(), to, bytes).ok());
  EXPECT_EQ(found, written);
  EXPECT_EQ(pages.counts().mostCreated, 9u);
}
