//===- FakeListener.h - What is left after a test ---------------*- C++ -*-===//

#ifndef DTRT_TEST_FAKELISTENER_H
#define DTRT_TEST_FAKELISTENER_H

#include <functional>
#include <string>
#include <vector>

namespace dtrt::test {

/// Those that do not go away: a thread that aborts a communicator ends after
/// the test that began it, on a busy machine.
std::vector<std::string>
lastingFaults(const std::function<std::vector<std::string>()> &faults);

} // namespace dtrt::test

#endif // DTRT_TEST_FAKELISTENER_H
