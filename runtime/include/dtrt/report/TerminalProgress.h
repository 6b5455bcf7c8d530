//===- TerminalProgress.h - What a tool is at, on a terminal ----*- C++ -*-===//
//
// One line on standard error that says what takes long. It comes after a
// second, and only where a person looks: pipes and files get nothing.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_REPORT_TERMINALPROGRESS_H
#define DTRT_REPORT_TERMINALPROGRESS_H

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

namespace dtrt {

class TerminalProgress {
public:
  /// On standard error, if that is a terminal.
  TerminalProgress();
  /// On `out`, once `delay` has gone by; the one above has a second.
  TerminalProgress(FILE *out, std::chrono::milliseconds delay);
  /// Clears the line.
  ~TerminalProgress();

  /// Any thread may say what is done now: "dt-route", "run 3 of 8 devices".
  void say(const std::string &what);
  /// Clears the line until something is said again: before other words are
  /// printed.
  void hide();

private:
  void draw();
  void clear();
  void keepDrawing();

  FILE *const out; // null: nobody looks
  const std::chrono::milliseconds delay;
  const std::chrono::steady_clock::time_point start;
  std::mutex mutex;
  std::condition_variable changed;
  std::string what;
  bool isDrawn = false, isOver = false;
  std::thread clock; // shows that time goes by while nothing is said
};

} // namespace dtrt

#endif // DTRT_REPORT_TERMINALPROGRESS_H
