//===- FakeDriver.cpp - The driver's calls for pages, on fake GPUs --------===//

#include "FakeDriver.h"
#include "FakeMachine.h"

#include <cstring>
#include <map>

#include <sys/mman.h>
#include <unistd.h>

using namespace dtrt;
using namespace dtrt::test;

namespace {

using Lock = std::lock_guard<std::recursive_mutex>;
using Handle = CUmemGenericAllocationHandle;

constexpr int kNew = 0xdd; // nothing says that a page is zeroed
/// What all pages of a test are parts of.
constexpr uint64_t kFileBytes = uint64_t(1) << 40;

struct FakePage {
  int gpu = 0;
  uint64_t bytes = 0, offset = 0; // in the file
  const std::byte *mapped = nullptr;
};

struct FakeMapping {
  Handle handle = 0;
  uint64_t bytes = 0;
  uint64_t since = 0; // when it was mapped
  int access = -1;    // the GPU that may touch it
};

struct FakeRange {
  uint64_t bytes = 0;
  std::map<const std::byte *, FakeMapping> mappings;
};

void fault(const std::string &text) { FakeMachine::get().fault(text); }

CUresult refuse(const std::string &text) {
  fault(text);
  return CUDA_ERROR_INVALID_VALUE;
}

class Driver {
public:
  static Driver &get() {
    static auto *driver = new Driver;
    return *driver;
  }

  void reset();
  std::vector<std::string> leaks() const;

  CUresult reserve(CUdeviceptr *made, uint64_t bytes, uint64_t alignment);
  CUresult freeAddresses(CUdeviceptr at, uint64_t bytes);
  CUresult create(Handle *made, uint64_t bytes, int gpu);
  CUresult release(Handle handle);
  CUresult map(CUdeviceptr at, uint64_t bytes, uint64_t offset, Handle handle);
  CUresult unmap(CUdeviceptr at, uint64_t bytes);
  CUresult allow(CUdeviceptr at, uint64_t bytes, const CUmemAccessDesc &access);

  using Ranges = std::map<const std::byte *, FakeRange>;
  /// The range of the bytes; null: they are not of one.
  Ranges::value_type *rangeOf(const void *at, uint64_t bytes);
  std::string whyNot(FakeRange &range, const std::byte *data, uint64_t bytes,
                     int gpu, uint64_t put) const;

  FakeDriverOptions options;
  FakeDriverCounts counts;
  uint64_t time = 0;

private:
  bool isWhole(uint64_t bytes) const {
    return bytes > 0 && bytes % options.granularity == 0;
  }

  int file = memfd_create("fake-gpu-pages", 0);
  uint64_t used = 0; // bytes of the file
  Ranges ranges;
  std::vector<std::pair<const std::byte *, uint64_t>> gone; // freed addresses
  std::map<Handle, FakePage> pages;
  Handle last = 0;
};

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

void *mapNothing(void *at, uint64_t bytes) {
  return mmap(at, bytes, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
                  (at ? MAP_FIXED : 0),
              /*fd=*/-1, 0);
}

std::byte *addressOf(CUdeviceptr at) {
  return reinterpret_cast<std::byte *>(at);
}

void Driver::reset() {
  for (auto &[start, range] : ranges)
    munmap(const_cast<std::byte *>(start), range.bytes);
  for (auto &[start, bytes] : gone)
    munmap(const_cast<std::byte *>(start), bytes);
  ranges.clear();
  gone.clear();
  pages.clear();
  if (ftruncate(file, 0) != 0 || ftruncate(file, off_t(kFileBytes)) != 0)
    fault("the fake driver has no file for its pages");
  used = 0;
  counts = {};
  options = {};
}

std::vector<std::string> Driver::leaks() const {
  std::vector<std::string> all;
  if (!pages.empty())
    all.push_back(std::to_string(pages.size()) + " pages of GPUs left");
  if (!ranges.empty())
    all.push_back(std::to_string(ranges.size()) + " ranges of addresses left");
  return all;
}

Driver::Ranges::value_type *Driver::rangeOf(const void *data, uint64_t bytes) {
  auto *at = static_cast<const std::byte *>(data);
  auto found = ranges.upper_bound(at);
  if (found == ranges.begin())
    return nullptr;
  --found;
  return at + bytes <= found->first + found->second.bytes ? &*found : nullptr;
}

CUresult Driver::reserve(CUdeviceptr *made, uint64_t bytes,
                         uint64_t alignment) {
  if (!isWhole(bytes) || (alignment & (alignment - 1)) != 0)
    return refuse("addresses are reserved that are no whole pages");
  // Aligned as it was asked for.
  uint64_t room = bytes + std::max(alignment, options.granularity);
  auto start = uintptr_t(mapNothing(nullptr, room));
  uintptr_t aligned = (start + options.granularity - 1) / options.granularity *
                      options.granularity;
  munmap(reinterpret_cast<void *>(start), aligned - start);
  munmap(reinterpret_cast<void *>(aligned + bytes),
         start + room - aligned - bytes);
  ranges[reinterpret_cast<std::byte *>(aligned)].bytes = bytes;
  *made = aligned;
  return CUDA_SUCCESS;
}

CUresult Driver::freeAddresses(CUdeviceptr at, uint64_t bytes) {
  auto found = ranges.find(addressOf(at));
  if (found == ranges.end() || found->second.bytes != bytes)
    return refuse("addresses are freed that were not reserved so");
  if (!found->second.mappings.empty())
    return refuse("addresses are freed while memory is mapped there");
  // They are not given out again in this test, so that a late use is seen.
  gone.push_back({found->first, bytes});
  ranges.erase(found);
  return CUDA_SUCCESS;
}

//===----------------------------------------------------------------------===//
// Pages
//===----------------------------------------------------------------------===//

CUresult Driver::create(Handle *made, uint64_t bytes, int gpu) {
  ++counts.creates;
  if (!isWhole(bytes) || gpu < 0 || gpu >= FakeMachine::get().options.gpus)
    return refuse("a page is made of a wrong size, or on no GPU");
  if (counts.created >= options.pages)
    return CUDA_ERROR_OUT_OF_MEMORY;
  ++counts.created;
  counts.mostCreated = std::max(counts.mostCreated, counts.created);
  counts.bytes += bytes;
  pages[++last] = {gpu, bytes, used, nullptr};
  auto *fresh = static_cast<std::byte *>(
      mmap(nullptr, bytes, PROT_WRITE, MAP_SHARED, file, off_t(used)));
  memset(fresh, kNew, bytes);
  munmap(fresh, bytes);
  used += bytes;
  *made = last;
  return CUDA_SUCCESS;
}

CUresult Driver::release(Handle handle) {
  ++counts.releases;
  auto found = pages.find(handle);
  if (found == pages.end())
    return refuse("a page is given back that is not there");
  if (found->second.mapped)
    return refuse("a page is given back while it is mapped");
  counts.bytes -= found->second.bytes;
  pages.erase(found);
  --counts.created;
  return CUDA_SUCCESS;
}

CUresult Driver::map(CUdeviceptr at, uint64_t bytes, uint64_t offset,
                     Handle handle) {
  ++counts.maps;
  std::byte *start = addressOf(at);
  auto page = pages.find(handle);
  auto *range = rangeOf(start, bytes);
  if (page == pages.end() || page->second.bytes != bytes || offset != 0)
    return refuse("a page is mapped that is not there, or not whole");
  if (!range || at % options.granularity != 0)
    return refuse("a page is mapped where no addresses are reserved");
  if (page->second.mapped)
    return refuse("a page is mapped at a second place");
  auto next = range->second.mappings.lower_bound(start);
  bool overlaps =
      next != range->second.mappings.end() && next->first < start + bytes;
  if (next != range->second.mappings.begin()) {
    auto before = std::prev(next);
    overlaps = overlaps || before->first + before->second.bytes > start;
  }
  if (overlaps)
    return refuse("a page is mapped where there is one");
  mmap(start, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file,
       off_t(page->second.offset));
  page->second.mapped = start;
  range->second.mappings[start] = {handle, bytes, ++time, -1};
  return CUDA_SUCCESS;
}

CUresult Driver::unmap(CUdeviceptr at, uint64_t bytes) {
  std::byte *start = addressOf(at);
  auto *range = rangeOf(start, bytes);
  if (!range)
    return refuse("addresses are unmapped that are not reserved");
  auto found = range->second.mappings.find(start);
  if (found == range->second.mappings.end() || found->second.bytes != bytes)
    return refuse("addresses are unmapped that were not mapped so");
  pages[found->second.handle].mapped = nullptr;
  range->second.mappings.erase(found);
  mapNothing(start, bytes);
  return CUDA_SUCCESS;
}

CUresult Driver::allow(CUdeviceptr at, uint64_t bytes,
                       const CUmemAccessDesc &access) {
  std::byte *start = addressOf(at), *end = start + bytes;
  auto *range = rangeOf(start, bytes);
  if (!range)
    return refuse("access is given to addresses that are not reserved");
  for (std::byte *next = start; next < end;) {
    auto found = range->second.mappings.find(next);
    if (found == range->second.mappings.end() ||
        next + found->second.bytes > end)
      return refuse("access is given to addresses without memory");
    found->second.access = access.location.id;
    next += found->second.bytes;
  }
  mprotect(start, bytes, PROT_READ | PROT_WRITE);
  return CUDA_SUCCESS;
}

/// Why work that was put on a stream at this time may not touch the bytes;
/// empty: it may.
std::string Driver::whyNot(FakeRange &range, const std::byte *data,
                           uint64_t bytes, int gpu, uint64_t put) const {
  for (const std::byte *next = data; next < data + bytes;) {
    auto found = range.mappings.upper_bound(next);
    if (found == range.mappings.begin())
      return "addresses without memory";
    --found;
    const FakeMapping &mapping = found->second;
    if (next >= found->first + mapping.bytes)
      return "addresses without memory";
    if (mapping.access != gpu)
      return "memory that its GPU has no access to";
    if (mapping.since > put)
      return "memory that was mapped after the work was put on a stream";
    next = found->first + mapping.bytes;
  }
  return "";
}

/// A call's body, with the machine to itself; it may spoil a capture.
template <typename Body> CUresult call(const char *name, Body body) {
  Lock lock(FakeMachine::get().mutex);
  if (FakeMachine::get().unsafe(name) != cudaSuccess)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return body(Driver::get());
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

DriverApi makeTable() {
  DriverApi api;
  api.GetErrorString = [](CUresult code, const char **text) {
    *text = code == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "an error";
    return CUDA_SUCCESS;
  };
  api.MemGetAllocationGranularity = [](size_t *bytes,
                                       const CUmemAllocationProp *,
                                       CUmemAllocationGranularity_flags) {
    *bytes = Driver::get().options.granularity;
    return CUDA_SUCCESS;
  };
  api.MemAddressReserve = [](CUdeviceptr *made, size_t bytes, size_t alignment,
                             CUdeviceptr, unsigned long long) {
    return call("cuMemAddressReserve", [&](Driver &driver) {
      return driver.reserve(made, bytes, alignment);
    });
  };
  api.MemAddressFree = [](CUdeviceptr at, size_t bytes) {
    return call("cuMemAddressFree", [&](Driver &driver) {
      return driver.freeAddresses(at, bytes);
    });
  };
  api.MemCreate = [](Handle *made, size_t bytes,
                     const CUmemAllocationProp *kind, unsigned long long) {
    return call("cuMemCreate", [&](Driver &driver) {
      return driver.create(made, bytes, kind->location.id);
    });
  };
  api.MemRelease = [](Handle handle) {
    return call("cuMemRelease",
                [&](Driver &driver) { return driver.release(handle); });
  };
  api.MemMap = [](CUdeviceptr at, size_t bytes, size_t offset, Handle handle,
                  unsigned long long) {
    return call("cuMemMap", [&](Driver &driver) {
      return driver.map(at, bytes, offset, handle);
    });
  };
  api.MemUnmap = [](CUdeviceptr at, size_t bytes) {
    return call("cuMemUnmap",
                [&](Driver &driver) { return driver.unmap(at, bytes); });
  };
  api.MemSetAccess = [](CUdeviceptr at, size_t bytes,
                        const CUmemAccessDesc *access, size_t) {
    return call("cuMemSetAccess", [&](Driver &driver) {
      return driver.allow(at, bytes, *access);
    });
  };
  return api;
}

} // namespace

const DriverApi &dtrt::test::fakeDriver() {
  static const DriverApi api = makeTable();
  return api;
}

void dtrt::test::setFakeDriver(const FakeDriverOptions &options) {
  Lock lock(fakeMutex());
  Driver::get().options = options;
}

FakeDriverCounts dtrt::test::fakeDriverCounts() {
  Lock lock(fakeMutex());
  return Driver::get().counts;
}

void dtrt::test::resetFakeDriver() { Driver::get().reset(); }

std::vector<std::string> dtrt::test::fakeDriverLeaks() {
  return Driver::get().leaks();
}

std::optional<bool> dtrt::test::touchFakePages(const void *data, uint64_t bytes,
                                               int gpu, const std::string &who,
                                               uint64_t put) {
  Driver &driver = Driver::get();
  auto *range = driver.rangeOf(data, 0);
  if (!range || data == range->first + range->second.bytes)
    return std::nullopt;
  auto *at = static_cast<const std::byte *>(data);
  std::string why = at + bytes > range->first + range->second.bytes
                        ? "bytes behind the end of its addresses"
                        : driver.whyNot(range->second, at, bytes, gpu, put);
  if (!why.empty())
    fault(who + " touches " + why);
  return why.empty();
}

uint64_t dtrt::test::tickFakeTime() { return ++Driver::get().time; }
