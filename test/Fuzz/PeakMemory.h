//===- PeakMemory.h - Memory that an input takes ----------------*- C++ -*-===//

#ifndef DTRT_FUZZ_PEAKMEMORY_H
#define DTRT_FUZZ_PEAKMEMORY_H

#include <cstddef>

namespace dtrt::fuzz {

/// The most bytes that were allocated at once since the object was made, beside
/// those that were there before. One at a time.
class PeakMemory {
public:
  PeakMemory();
  size_t bytes() const;

  PeakMemory(const PeakMemory &) = delete;
  PeakMemory &operator=(const PeakMemory &) = delete;
};

} // namespace dtrt::fuzz

#endif // DTRT_FUZZ_PEAKMEMORY_H
