//===- CpuLimit.cpp - Processor time that an input takes ------------------===//

#include "CpuLimit.h"

#include <csignal>
#include <cstdlib>
#include <sys/time.h>
#include <unistd.h>

namespace dtrt::fuzz {

namespace {

constexpr time_t kSeconds = 10;

void tooSlow(int) {
  constexpr char kWhy[] = "an input takes more than 10 s of the processor\n";
  [[maybe_unused]] ssize_t written = write(2, kWhy, sizeof(kWhy) - 1);
  std::abort();
}

/// 0: never.
void alarmIn(time_t seconds) {
  itimerval timer = {};
  timer.it_value.tv_sec = seconds;
  setitimer(ITIMER_PROF, &timer, nullptr);
}

} // namespace

CpuLimit::CpuLimit() {
  std::signal(SIGPROF, tooSlow);
  alarmIn(kSeconds);
}

CpuLimit::~CpuLimit() { alarmIn(0); }

} // namespace dtrt::fuzz
