//===- CopyRunsTest.cpp - Copies past the cache ---------------------------===//
//
// Every way past the cache, also those of other processors, moves what a plain
// copy of each run moves, and nothing beside it.
//
//===----------------------------------------------------------------------===//

#include "CopyRuns.h"

#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <vector>

using namespace dtrt;

namespace {

std::vector<Streaming> everyWay() {
  std::vector<Streaming> ways;
  for (bool asksFirst : {false, true})
    for (bool avx512 : {false, true})
      if (!avx512 || bestStreaming().avx512)
        ways.push_back({avx512, asksFirst});
  return ways;
}

TEST(CopyRuns, EveryWayMovesTheSame) {
  constexpr size_t kBytes = 1 << 18;
  std::mt19937_64 random(7);
  std::vector<std::byte> from(kBytes);
  for (std::byte &byte : from)
    byte = std::byte(random());
  for (int64_t run : {1, 8, 16, 48, 64, 200, 256, 511, 512, 1024, 4096, 5003})
    for (int64_t gap : {0, 24, 64})
      for (size_t skew : {0, 1, 8, 64}) {
        StridedCopy::Dim dim{int64_t(kBytes / 2) / (run + 64), run + 64,
                             run + gap};
        std::vector<std::byte> expected(kBytes);
        for (int64_t i = 0; i < dim.size; ++i)
          memcpy(expected.data() + skew + i * dim.destination,
                 from.data() + 2 * skew + i * dim.source, size_t(run));
        for (const Streaming &way : everyWay()) {
          std::vector<std::byte> to(kBytes);
          copyRuns(to.data() + skew, from.data() + 2 * skew, dim, run, &way);
          finishStreaming();
          ASSERT_EQ(to, expected)
              << "run " << run << ", gap " << gap << ", skew " << skew
              << ", AVX-512 " << way.avx512 << ", first " << way.asksFirst;
        }
      }
}

} // namespace
