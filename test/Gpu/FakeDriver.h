//===- FakeDriver.h - The driver's calls for pages --------------*- C++ -*-===//
//
// Addresses, pages and mappings of the fake machine's GPUs. A page keeps its
// bytes wherever it is mapped. What CUDA forbids is a fault, and so is what
// our pool never does although CUDA allows it: a page under two addresses, or
// one that is given back while it is mapped. Work on a stream may touch what
// was mapped and accessible when it was put there, and still is when it runs.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TEST_FAKEDRIVER_H
#define DTRT_TEST_FAKEDRIVER_H

#include "DriverApi.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtrt::test {

struct FakeDriverOptions {
  uint64_t granularity = 4096; // a page of the host's at least
  uint64_t pages = UINT64_MAX; // that there are on all GPUs
};

/// The table of the fake driver's calls.
const DriverApi &fakeDriver();
/// Of the machine as it is; call it before any other call.
void setFakeDriver(const FakeDriverOptions &options);

struct FakeDriverCounts {
  uint64_t created = 0, mostCreated = 0; // pages now, and at most
  uint64_t creates = 0, releases = 0;    // calls
  uint64_t maps = 0;
  uint64_t bytes = 0; // of the pages now
};
FakeDriverCounts fakeDriverCounts();

//===----------------------------------------------------------------------===//
// For the fake machine
//===----------------------------------------------------------------------===//

void resetFakeDriver();
/// What is left.
std::vector<std::string> fakeDriverLeaks();
/// Whether work that was put on a stream at the time `put` may touch them, else
/// a fault; nothing: these are no reserved addresses.
std::optional<bool> touchFakePages(const void *data, uint64_t bytes, int gpu,
                                   const std::string &who, uint64_t put);
/// The time: how many operations and mappings there were.
uint64_t tickFakeTime();

} // namespace dtrt::test

#endif // DTRT_TEST_FAKEDRIVER_H
