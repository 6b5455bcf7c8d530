//===- TerminalProgress.cpp - What a tool is at, on a terminal ------------===//

#include "dtrt/report/TerminalProgress.h"

#include <unistd.h>

namespace dtrt {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

/// How often the line says anew how long it takes.
static constexpr milliseconds kPeriod{500};

TerminalProgress::TerminalProgress()
    : TerminalProgress(isatty(STDERR_FILENO) ? stderr : nullptr, seconds(1)) {}

TerminalProgress::TerminalProgress(FILE *out, milliseconds delay)
    : out(out), delay(delay), start(steady_clock::now()) {
  if (out)
    clock = std::thread([this] { keepDrawing(); });
}

TerminalProgress::~TerminalProgress() {
  if (!out)
    return;
  {
    std::lock_guard<std::mutex> lock(mutex);
    isOver = true;
    clear();
  }
  changed.notify_all();
  clock.join();
}

void TerminalProgress::say(const std::string &text) {
  if (!out)
    return;
  std::lock_guard<std::mutex> lock(mutex);
  what = text;
  draw();
}

void TerminalProgress::hide() {
  if (!out)
    return;
  std::lock_guard<std::mutex> lock(mutex);
  what.clear();
  clear();
}

/// The cursor stays at the start, so that other words write over the line.
void TerminalProgress::draw() {
  auto elapsed = steady_clock::now() - start;
  if (what.empty() || elapsed < delay)
    return;
  fprintf(out, "\r%s, %lld s\033[K\r", what.c_str(),
          static_cast<long long>(duration_cast<seconds>(elapsed).count()));
  fflush(out);
  isDrawn = true;
}

void TerminalProgress::clear() {
  if (!isDrawn)
    return;
  fputs("\r\033[K", out);
  fflush(out);
  isDrawn = false;
}

void TerminalProgress::keepDrawing() {
  std::unique_lock<std::mutex> lock(mutex);
  while (!isOver) {
    changed.wait_for(lock, kPeriod);
    if (!isOver)
      draw();
  }
}

} // namespace dtrt
