//===- CopyRuns.cpp - Inner loops of strided copies -----------------------===//

#include "CopyRuns.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace dtrt {

namespace {

/// Copies `dim.size` runs of a size that the compiler knows.
template <int64_t Run>
void copyFixedRuns(std::byte *to, const std::byte *from,
                   const StridedCopy::Dim &dim) {
  for (int64_t i = 0; i < dim.size; ++i) {
    memcpy(to, from, Run);
    to += dim.destination;
    from += dim.source;
  }
}

void copyCachedRuns(std::byte *to, const std::byte *from,
                    const StridedCopy::Dim &dim, int64_t run) {
  switch (run) {
  case 1:
    return copyFixedRuns<1>(to, from, dim);
  case 2:
    return copyFixedRuns<2>(to, from, dim);
  case 4:
    return copyFixedRuns<4>(to, from, dim);
  case 8:
    return copyFixedRuns<8>(to, from, dim);
  case 16:
    return copyFixedRuns<16>(to, from, dim);
  case 32:
    return copyFixedRuns<32>(to, from, dim);
  case 64:
    return copyFixedRuns<64>(to, from, dim);
  }
  for (int64_t i = 0; i < dim.size; ++i) {
    memcpy(to, from, size_t(run));
    to += dim.destination;
    from += dim.source;
  }
}

#ifdef __SSE2__

constexpr int64_t kLine = 64;
/// Below this a run is mostly partial lines, for which streaming is slow.
constexpr int64_t kMinStreamedRun = 256;
/// How far ahead of the loads of a contiguous copy lines are asked for.
constexpr int64_t kAhead = 8 * kLine;

/// How many bytes of runs, at least, are copied between asking for a run's
/// lines and reading them: the time that memory takes to answer.
constexpr int64_t kAheadBytes = 4096;
constexpr int64_t kAheadLines = kAheadBytes / kLine;

__m128i load(const std::byte *from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i *>(from));
}

void stream(std::byte *to, __m128i value) {
  _mm_stream_si128(reinterpret_cast<__m128i *>(to), value);
}

bool isAligned(const std::byte *at, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(at) % uintptr_t(bytes) == 0;
}

// What __builtin_prefetch is told of lines: that they go through the caches, or
// past them as they are read once.
constexpr int kCached = 3, kOnce = 0;

/// Copies whole lines, to line-aligned addresses. `next` is what will be read
/// later: lines of its first `asked` bytes are asked for while this run is
/// copied, as the machine's own prefetching stops at run ends.
template <int Locality>
void streamLines(std::byte *to, const std::byte *from, int64_t bytes,
                 const std::byte *next, int64_t asked) {
  for (int64_t at = 0; at < bytes; at += kLine) {
    if (at < asked)
      __builtin_prefetch(next + at, 0, Locality);
    __m128i a = load(from + at), b = load(from + at + 16);
    __m128i c = load(from + at + 32), d = load(from + at + 48);
    stream(to + at, a);
    stream(to + at + 16, b);
    stream(to + at + 32, c);
    stream(to + at + 48, d);
  }
}

/// Likewise, a line with one store.
template <int Locality>
__attribute__((target("avx512f"))) void
streamLines512(std::byte *to, const std::byte *from, int64_t bytes,
               const std::byte *next, int64_t asked) {
  for (int64_t at = 0; at < bytes; at += kLine) {
    if (at < asked)
      __builtin_prefetch(next + at, 0, Locality);
    _mm512_stream_si512(reinterpret_cast<__m512i *>(to + at),
                        _mm512_loadu_si512(from + at));
  }
}

/// Runs of one line each.
template <int Locality>
__attribute__((target("avx512f"))) void
streamLineRuns512(std::byte *to, const std::byte *from,
                  const StridedCopy::Dim &dim) {
  for (int64_t i = 0; i < dim.size; ++i) {
    const std::byte *next =
        from + std::min(kAheadLines, dim.size - 1 - i) * dim.source;
    __builtin_prefetch(next, 0, Locality);
    _mm512_stream_si512(reinterpret_cast<__m512i *>(to),
                        _mm512_loadu_si512(from));
    to += dim.destination;
    from += dim.source;
  }
}

/// How much of a later run is asked for where only its first lines are.
constexpr int64_t kFirst = 8 * kLine;

template <int Locality>
void streamRun(std::byte *to, const std::byte *from, int64_t run,
               const std::byte *next, int64_t asked, bool avx512) {
  int64_t head =
      int64_t(-reinterpret_cast<uintptr_t>(to) & uintptr_t(kLine - 1));
  memcpy(to, from, size_t(head));
  int64_t lines = (run - head) / kLine * kLine;
  auto *copy = avx512 ? streamLines512<Locality> : streamLines<Locality>;
  copy(to + head, from + head, lines, next + head, asked);
  int64_t at = head + lines;
  memcpy(to + at, from + at, size_t(run - at));
}

void streamRunsAskingFirst(std::byte *to, const std::byte *from,
                           const StridedCopy::Dim &dim, int64_t run,
                           bool avx512) {
  for (int64_t i = 0; i < dim.size; ++i) {
    bool more = i + 1 < dim.size;
    streamRun<kCached>(to, from, run, from + dim.source, more ? kFirst : 0,
                       avx512);
    to += dim.destination;
    from += dim.source;
  }
}

void streamRunsAskingAll(std::byte *to, const std::byte *from,
                         const StridedCopy::Dim &dim, int64_t run,
                         bool avx512) {
  int64_t ahead = (kAheadBytes + run - 1) / run; // runs
  for (int64_t i = 0; i < dim.size; ++i) {
    bool more = i + ahead < dim.size;
    streamRun<kOnce>(to, from, run, from + (more ? ahead * dim.source : kAhead),
                     run, avx512);
    to += dim.destination;
    from += dim.source;
  }
}

/// Runs that lie next to each other at the destination and are a multiple of
/// 16 bytes: their stores fill whole lines.
void streamPieces(std::byte *to, const std::byte *from,
                  const StridedCopy::Dim &dim, int64_t run) {
  for (int64_t i = 0; i < dim.size; ++i) {
    for (int64_t at = 0; at < run; at += 16)
      stream(to + at, load(from + at));
    to += run;
    from += dim.source;
  }
}

/// Likewise for runs of 8 bytes, two at a time.
void streamPairs(std::byte *to, const std::byte *from,
                 const StridedCopy::Dim &dim) {
  int64_t pairs = dim.size / 2;
  for (int64_t i = 0; i < pairs; ++i) {
    int64_t low = 0, high = 0;
    memcpy(&low, from, 8);
    memcpy(&high, from + dim.source, 8);
    stream(to, _mm_set_epi64x(high, low));
    to += 16;
    from += 2 * dim.source;
  }
  if (dim.size % 2)
    memcpy(to, from, 8);
}

/// False when ordinary stores are better.
bool streamRuns(std::byte *to, const std::byte *from,
                const StridedCopy::Dim &dim, int64_t run,
                const Streaming &how) {
  if (run >= kMinStreamedRun) {
    auto *copy = how.asksFirst ? streamRunsAskingFirst : streamRunsAskingAll;
    copy(to, from, dim, run, how.avx512);
    return true;
  }
  bool lines =
      run == kLine && isAligned(to, kLine) && dim.destination % kLine == 0;
  if (lines && how.avx512) {
    auto *copy =
        how.asksFirst ? streamLineRuns512<kCached> : streamLineRuns512<kOnce>;
    copy(to, from, dim);
    return true;
  }
  if (lines) {
    for (int64_t i = 0; i < dim.size; ++i)
      for (int64_t at = 0; at < kLine; at += 16)
        stream(to + i * dim.destination + at, load(from + i * dim.source + at));
    return true;
  }
  if (dim.destination != run || !isAligned(to, 16))
    return false;
  if (run % 16 == 0)
    streamPieces(to, from, dim, run);
  else if (run == 8)
    streamPairs(to, from, dim);
  else
    return false;
  return true;
}

#else

bool streamRuns(std::byte *, const std::byte *, const StridedCopy::Dim &,
                int64_t, const Streaming &) {
  return false;
}

#endif

Streaming streamingOfProcessor() {
#ifdef __SSE2__
  __builtin_cpu_init();
  return {bool(__builtin_cpu_supports("avx512f")),
          bool(__builtin_cpu_is("intel"))};
#else
  return {false, false};
#endif
}

} // namespace

const Streaming &bestStreaming() {
  static const Streaming best = streamingOfProcessor();
  return best;
}

void copyRuns(std::byte *to, const std::byte *from, const StridedCopy::Dim &dim,
              int64_t run, const Streaming *streaming) {
  if (!streaming || !streamRuns(to, from, dim, run, *streaming))
    copyCachedRuns(to, from, dim, run);
}

void finishStreaming() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

} // namespace dtrt
