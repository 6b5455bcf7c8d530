//===- GpuPages.cpp - Pages of a GPU and where they are mapped ------------===//

#include "dtrt/cuda/GpuPages.h"
#include "dtrt/cuda/GpuMemory.h"

#include "DriverApi.h"
#include "Stream.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

namespace dtrt {

namespace {

using Handle = CUmemGenericAllocationHandle;
constexpr Handle kNoHandle = 0;

struct Page {
  Handle handle = kNoHandle; // none: nothing is mapped here
  uint64_t held = 0;         // bytes that exist
};
struct Range {
  uint64_t bytes = 0; // whole pages
  std::vector<Page> pages;
};
using Ranges = std::map<const std::byte *, Range>;

CUdeviceptr pointerTo(const std::byte *at) {
  return reinterpret_cast<CUdeviceptr>(at);
}

Result<Ranges::iterator> find(Ranges &ranges, const std::byte *at,
                              uint64_t bytes) {
  auto found = ranges.upper_bound(at);
  if (found != ranges.begin()) {
    --found;
    uint64_t first = uint64_t(at - found->first);
    if (first <= found->second.bytes && bytes <= found->second.bytes - first)
      return found;
  }
  return makeError("bytes that are not the pool's");
}

/// Calls visit(number of the page, bytes of [at, at + bytes) on it).
template <typename Visit>
void forEachPage(Ranges::iterator range, uint64_t page, const std::byte *at,
                 uint64_t bytes, Visit visit) {
  uint64_t lo = uint64_t(at - range->first), hi = lo + bytes;
  for (uint64_t i = lo / page; i * page < hi; ++i)
    visit(size_t(i), std::min(hi, (i + 1) * page) - std::max(lo, i * page));
}

/// Counts what would be mapped.
class GpuPageRehearsal : public PageRehearsal {
public:
  GpuPageRehearsal(Ranges ranges, uint64_t page)
      : ranges(std::move(ranges)), page(page) {}

  Status hold(std::byte *at, uint64_t bytes) override {
    auto range = find(ranges, at, bytes);
    DTRT_RETURN_IF_ERROR(range);
    forEachPage(*range, page, at, bytes, [&](size_t i, uint64_t part) {
      Page &own = (*range)->second.pages[i];
      more += own.held == 0;
      own.held += part;
    });
    most = std::max(most, more);
    return {};
  }
  Status letGo(std::byte *at, uint64_t bytes) override {
    auto range = find(ranges, at, bytes);
    DTRT_RETURN_IF_ERROR(range);
    bool wereThere = true;
    forEachPage(*range, page, at, bytes, [&](size_t i, uint64_t part) {
      Page &own = (*range)->second.pages[i];
      wereThere &= own.held >= part;
      own.held -= std::min(own.held, part);
      more -= own.held == 0;
    });
    return wereThere ? Status() : makeError("bytes go that were not there");
  }
  uint64_t mostMore() const override { return uint64_t(most); }

private:
  Ranges ranges;
  const uint64_t page;
  int64_t more = 0, most = 0; // than at the beginning
};

} // namespace

struct GpuPages::State {
  State(int gpu, uint64_t limit, const DriverApi &api)
      : gpu(gpu), limit(limit), api(api) {}
  ~State();

  Status open();
  Result<Handle> makePage();
  Result<Handle> takePage();
  Status mapAt(std::byte *at, Page &page);
  Status unmapAt(std::byte *at, Page &page);
  Status allowAccess(Ranges::iterator range, size_t first, size_t last);
  Status mapAll(Ranges::iterator range, const std::vector<size_t> &missing);
  Status freeRange(Ranges::iterator range);
  Status trim(uint64_t keep);
  Status noMemory(const Status &why) const;

  const int gpu;
  const uint64_t limit;
  const DriverApi &api;
  CUmemAllocationProp kind = {};
  uint64_t page = 0;
  mutable std::mutex mutex; // of what follows
  Ranges ranges;
  std::vector<Handle> spare;
  GpuPageCounts counts;
};

//===----------------------------------------------------------------------===//
// Pages
//===----------------------------------------------------------------------===//

Status GpuPages::State::open() {
  UseGpu use(gpu);
  DTRT_RETURN_IF_ERROR(useGpu(gpu)); // the driver's calls need its context
  kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  kind.location.id = gpu;
  size_t bytes = 0;
  DTRT_RETURN_IF_ERROR(
      api.status(api.MemGetAllocationGranularity(
                     &bytes, &kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                 "cannot query the pages of a GPU"));
  page = bytes;
  return {};
}

/// What stands in the way of one more page.
Status GpuPages::State::noMemory(const Status &why) const {
  auto room = roomOn(gpu);
  std::ostringstream others;
  if (room.ok())
    others << "; " << room->free << " of the GPU's " << room->total
           << " bytes are free, "
           << room->total - room->free -
                  std::min(room->total - room->free, counts.created * page)
           << " are with others";
  return makeError(ErrorCode::OutOfMemory, "no page of ", page,
                   " bytes more on GPU ", gpu, ": ", why, "; the pool has ",
                   counts.created, " pages, ", counts.mapped, " of them in use",
                   others.str());
}

Result<Handle> GpuPages::State::makePage() {
  if (counts.created >= limit / page)
    return noMemory(makeError("the pool's limit is ", limit, " bytes"));
  Handle made = kNoHandle;
  Status status =
      api.status(api.MemCreate(&made, page, &kind, 0), "the driver gives none");
  if (!status.ok())
    return noMemory(makeError(status, " (torch.cuda.empty_cache gives back "
                                      "what torch's allocator keeps unused)"));
  ++counts.created;
  counts.mostCreated = std::max(counts.mostCreated, counts.created);
  return made;
}

Result<Handle> GpuPages::State::takePage() {
  if (spare.empty())
    return makePage();
  Handle last = spare.back();
  spare.pop_back();
  return last;
}

Status GpuPages::State::mapAt(std::byte *at, Page &own) {
  auto taken = takePage();
  DTRT_RETURN_IF_ERROR(taken);
  Status status = api.status(api.MemMap(pointerTo(at), page, 0, *taken, 0),
                             "cannot map a page of a GPU");
  if (!status.ok()) {
    spare.push_back(*taken);
    return status;
  }
  own.handle = *taken;
  ++counts.mapped;
  return {};
}

Status GpuPages::State::unmapAt(std::byte *at, Page &own) {
  DTRT_RETURN_IF_ERROR(api.status(api.MemUnmap(pointerTo(at), page),
                                  "cannot unmap a page of a GPU"));
  spare.push_back(own.handle);
  own.handle = kNoHandle;
  --counts.mapped;
  return {};
}

/// Of neighbouring pages [first, last), which are all mapped.
Status GpuPages::State::allowAccess(Ranges::iterator range, size_t first,
                                    size_t last) {
  CUmemAccessDesc access = {};
  access.location = kind.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return api.status(api.MemSetAccess(pointerTo(range->first) + first * page,
                                     (last - first) * page, &access, 1),
                    "cannot make a page of a GPU accessible");
}

/// All of these pages, which are none yet and in order, or none of them.
Status GpuPages::State::mapAll(Ranges::iterator range,
                               const std::vector<size_t> &missing) {
  auto *start = const_cast<std::byte *>(range->first);
  std::vector<Page> &pages = range->second.pages;
  Status status;
  size_t mapped = 0;
  for (; mapped < missing.size() && status.ok(); mapped += status.ok())
    status = mapAt(start + missing[mapped] * page, pages[missing[mapped]]);
  for (size_t i = 0, next = 0; i < mapped && status.ok(); i = next) {
    while (next < mapped && missing[next] - missing[i] == next - i)
      ++next;
    status = allowAccess(range, missing[i], missing[i] + (next - i));
  }
  for (size_t i = 0; i < mapped && !status.ok(); ++i)
    (void)unmapAt(start + missing[i] * page, pages[missing[i]]);
  return status;
}

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

Status GpuPages::State::freeRange(Ranges::iterator range) {
  auto *start = const_cast<std::byte *>(range->first);
  for (size_t i = 0; i < range->second.pages.size(); ++i)
    if (range->second.pages[i].handle != kNoHandle)
      DTRT_RETURN_IF_ERROR(unmapAt(start + i * page, range->second.pages[i]));
  DTRT_RETURN_IF_ERROR(
      api.status(api.MemAddressFree(pointerTo(start), range->second.bytes),
                 "cannot free addresses of a GPU"));
  ranges.erase(range);
  return {};
}

/// Gives back to the driver what is spare, all but so many.
Status GpuPages::State::trim(uint64_t keep) {
  for (; spare.size() > keep; spare.pop_back()) {
    DTRT_RETURN_IF_ERROR(api.status(api.MemRelease(spare.back()),
                                    "cannot give a page of a GPU back"));
    --counts.created;
  }
  return {};
}

GpuPages::State::~State() {
  UseGpu use(gpu);
  while (!ranges.empty() && freeRange(ranges.begin()).ok()) {
  }
  (void)trim(0);
}

//===----------------------------------------------------------------------===//
// The pool
//===----------------------------------------------------------------------===//

Result<std::shared_ptr<GpuPages>> GpuPages::create(int gpu, uint64_t limit,
                                                   const DriverApi *api) {
  if (!api) {
    auto loaded = loadDriver();
    DTRT_RETURN_IF_ERROR(loaded);
    api = *loaded;
  }
  auto state = std::make_unique<State>(gpu, limit, *api);
  DTRT_RETURN_IF_ERROR(state->open());
  return std::shared_ptr<GpuPages>(new GpuPages(std::move(state)));
}

GpuPages::GpuPages(std::unique_ptr<State> state) : state(std::move(state)) {}

GpuPages::~GpuPages() = default;

int GpuPages::gpu() const { return state->gpu; }

uint64_t GpuPages::page() const { return state->page; }

Result<std::byte *> GpuPages::reserve(uint64_t bytes) {
  std::lock_guard<std::mutex> lock(state->mutex);
  UseGpu use(state->gpu);
  bytes = roundUp(std::max<uint64_t>(bytes, 1), state->page);
  CUdeviceptr made = 0;
  DTRT_RETURN_IF_ERROR(state->api.status(
      state->api.MemAddressReserve(&made, bytes, state->page, 0, 0),
      "cannot reserve addresses of a GPU"));
  auto *start = reinterpret_cast<std::byte *>(made);
  state->ranges[start] = {bytes, std::vector<Page>(bytes / state->page)};
  return start;
}

Status GpuPages::hold(std::byte *at, uint64_t bytes) {
  std::lock_guard<std::mutex> lock(state->mutex);
  UseGpu use(state->gpu);
  auto range = find(state->ranges, at, bytes);
  DTRT_RETURN_IF_ERROR(range);
  std::vector<Page> &pages = (*range)->second.pages;
  std::vector<size_t> missing;
  forEachPage(*range, state->page, at, bytes, [&](size_t i, uint64_t) {
    if (pages[i].handle == kNoHandle)
      missing.push_back(i);
  });
  DTRT_RETURN_IF_ERROR(state->mapAll(*range, missing));
  forEachPage(*range, state->page, at, bytes,
              [&](size_t i, uint64_t part) { pages[i].held += part; });
  return {};
}

Status GpuPages::letGo(std::byte *at, uint64_t bytes) {
  std::lock_guard<std::mutex> lock(state->mutex);
  UseGpu use(state->gpu);
  auto range = find(state->ranges, at, bytes);
  DTRT_RETURN_IF_ERROR(range);
  auto *start = const_cast<std::byte *>((*range)->first);
  std::vector<Page> &pages = (*range)->second.pages;
  Status status;
  forEachPage(*range, state->page, at, bytes, [&](size_t i, uint64_t part) {
    if (!status.ok())
      return;
    if (pages[i].held < part) {
      status = makeError("bytes go that were not there");
      return;
    }
    pages[i].held -= part;
    if (pages[i].held == 0)
      status = state->unmapAt(start + i * state->page, pages[i]);
  });
  return status;
}

Status GpuPages::free(std::byte *start) {
  std::lock_guard<std::mutex> lock(state->mutex);
  UseGpu use(state->gpu);
  auto found = state->ranges.find(start);
  if (found == state->ranges.end())
    return makeError("addresses are freed that the pool has not given");
  return state->freeRange(found);
}

std::unique_ptr<PageRehearsal> GpuPages::rehearse() const {
  std::lock_guard<std::mutex> lock(state->mutex);
  return std::make_unique<GpuPageRehearsal>(state->ranges, state->page);
}

Status GpuPages::makeSure(uint64_t pages) {
  std::lock_guard<std::mutex> lock(state->mutex);
  UseGpu use(state->gpu);
  uint64_t before = state->spare.size();
  while (state->spare.size() < pages) {
    auto made = state->makePage();
    if (!made.ok()) {
      (void)state->trim(before);
      return makeError(ErrorCode::OutOfMemory, pages,
                       " pages more are needed than are in use, ", before,
                       " are spare: ", made.status().message());
    }
    state->spare.push_back(*made);
  }
  return {};
}

bool GpuPages::has(const void *at) const {
  std::lock_guard<std::mutex> lock(state->mutex);
  auto *byte = static_cast<const std::byte *>(at);
  auto found = state->ranges.upper_bound(byte);
  return found != state->ranges.begin() &&
         byte < std::prev(found)->first + std::prev(found)->second.bytes;
}

Status GpuPages::trim() {
  std::lock_guard<std::mutex> lock(state->mutex);
  UseGpu use(state->gpu);
  return state->trim(0);
}

GpuPageCounts GpuPages::counts() const {
  std::lock_guard<std::mutex> lock(state->mutex);
  return state->counts;
}

MemorySource pagesOf(std::shared_ptr<GpuPages> pool) {
  auto allocate = [pool](uint64_t bytes) -> std::byte * {
    auto start = pool->reserve(bytes);
    return start.ok() ? *start : nullptr;
  };
  auto free = [pool](std::byte *start) { (void)pool->free(start); };
  MemorySource source{allocate, free, {}, pool->page()};
  source.provide = [pool](std::byte *at, uint64_t bytes) {
    return pool->hold(at, bytes);
  };
  source.takeBack = [pool](std::byte *at, uint64_t bytes) {
    return pool->letGo(at, bytes);
  };
  return source;
}

} // namespace dtrt
