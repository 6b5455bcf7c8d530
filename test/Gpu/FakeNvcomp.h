//===- FakeNvcomp.h - nvCOMP's calls on the fake GPUs -----------*- C++ -*-===//
//
// A stand-in for nvCOMP's ANS codec, whose work is done on the streams of the
// fake GPUs. It is lossless, and gains where few values are frequent, as
// exponents are. Calls against the library's rules are faults.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TEST_FAKENVCOMP_H
#define DTRT_TEST_FAKENVCOMP_H

#include "NvcompApi.h"

namespace dtrt::test {

struct FakeNvcompOptions {
  uint32_t version = 6000;
  size_t tempBytes = 1024; // of either way
  /// Of the call of Compress by which a chunk fails, counted from 0.
  int failingCompress = -1;
  /// Every chunk gains: it becomes its number among all that were coded.
  bool remembers = false;
};

/// Chunks that went through since the last call of this.
struct FakeNvcompCounts {
  uint64_t compressed = 0, decompressed = 0;
};

const NvcompApi &fakeNvcomp(const FakeNvcompOptions &options = {});
FakeNvcompCounts takeFakeNvcompCounts();

} // namespace dtrt::test

#endif // DTRT_TEST_FAKENVCOMP_H
