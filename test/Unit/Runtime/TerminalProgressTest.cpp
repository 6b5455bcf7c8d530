//===- TerminalProgressTest.cpp - The line that says what takes long ------===//

#include "dtrt/report/TerminalProgress.h"

#include <gtest/gtest.h>

using namespace dtrt;
using std::chrono::hours;
using std::chrono::milliseconds;

namespace {

/// What `use` of a progress with this delay has written, at its end.
template <typename Use> std::string shown(milliseconds delay, Use use) {
  FILE *file = tmpfile();
  {
    TerminalProgress progress(file, delay);
    use(progress);
  }
  std::string text(size_t(ftell(file)), ' ');
  rewind(file);
  EXPECT_EQ(fread(text.data(), 1, text.size(), file), text.size());
  fclose(file);
  return text;
}

} // namespace

TEST(TerminalProgress, SaysAndClears) {
  std::string text = shown(milliseconds(0), [](TerminalProgress &progress) {
    progress.say("dt-route");
    progress.say("dt-schedule");
  });
  size_t route = text.find("\rdt-route, ");
  size_t schedule = text.find("\rdt-schedule, ");
  EXPECT_EQ(route, 0u) << text;
  EXPECT_NE(schedule, std::string::npos) << text;
  ASSERT_GE(text.size(), 4u);
  EXPECT_EQ(text.substr(text.size() - 4), "\r\033[K");
}

TEST(TerminalProgress, HidesBeforeOtherWords) {
  std::string text = shown(milliseconds(0), [](TerminalProgress &progress) {
    progress.say("dt-route");
    progress.hide();
  });
  EXPECT_EQ(text.substr(text.size() - 4), "\r\033[K");
}

TEST(TerminalProgress, WhatIsShortSaysNothing) {
  EXPECT_EQ(shown(hours(1),
                  [](TerminalProgress &progress) { progress.say("dt-route"); }),
            "");
}

TEST(TerminalProgress, NobodyLooksAtAFile) {
  TerminalProgress progress(nullptr, milliseconds(0));
  progress.say("dt-route");
  progress.hide();
}
