//===- CpuLimit.h - Processor time that an input takes ----------*- C++ -*-===//

#ifndef DTRT_FUZZ_CPULIMIT_H
#define DTRT_FUZZ_CPULIMIT_H

namespace dtrt::fuzz {

/// Aborts when an input takes more than ten seconds of the processor, which
/// libFuzzer reports with the stack and keeps the input of. Its own -timeout is
/// by the clock, and finds fault with a busy machine. One at a time.
class CpuLimit {
public:
  CpuLimit();
  ~CpuLimit();

  CpuLimit(const CpuLimit &) = delete;
  CpuLimit &operator=(const CpuLimit &) = delete;
};

} // namespace dtrt::fuzz

#endif // DTRT_FUZZ_CPULIMIT_H
