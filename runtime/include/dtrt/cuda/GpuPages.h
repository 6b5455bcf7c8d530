//===- GpuPages.h - Pages of a GPU and where they are mapped ----*- C++ -*-===//
//
// Addresses come first, and pages of the GPU's memory are mapped under them
// when their first byte is due. A page whose last byte has gone is unmapped,
// and the same page is mapped under the next bytes that are due: nothing is
// freed or allocated while a plan runs.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_CUDA_GPUPAGES_H
#define DTRT_CUDA_GPUPAGES_H

#include "dtrt/core/MemorySource.h"
#include "dtrt/core/PagePool.h"

#include <memory>

namespace dtrt {

struct DriverApi;

struct GpuPageCounts {
  uint64_t created = 0;     // pages that the driver has given and not got back
  uint64_t mostCreated = 0; // the same, at most so far
  uint64_t mapped = 0;      // those under addresses
};

/// A pool of pages of one GPU. Any thread may call it. Who lets go of bytes has
/// waited for all that reads or writes them on the GPU.
class GpuPages : public PagePool {
public:
  /// At most `limit` bytes of pages. `api`: a driver's; null: the process's.
  static Result<std::shared_ptr<GpuPages>>
  create(int gpu, uint64_t limit = UINT64_MAX, const DriverApi *api = nullptr);
  /// Gives all pages and addresses back.
  ~GpuPages() override;

  int gpu() const;
  /// Bytes of a page.
  uint64_t page() const;

  /// Addresses without memory, which start on a page.
  Result<std::byte *> reserve(uint64_t bytes);
  /// Bytes [at, at + bytes) of reserved addresses exist from now on, with any
  /// content where they did not; they may do so several times. All of them, or
  /// after an error none that did not before.
  Status hold(std::byte *at, uint64_t bytes) override;
  /// Once less. Pages without a byte that exists are there for others.
  Status letGo(std::byte *at, uint64_t bytes) override;
  std::unique_ptr<PageRehearsal> rehearse() const override;
  Status makeSure(uint64_t pages) override;
  /// Ends what `reserve` has given, whatever exists there.
  Status free(std::byte *start);
  /// Whether these are addresses of the pool.
  bool has(const void *at) const;
  /// Gives pages back to the driver that are under no addresses.
  Status trim();
  GpuPageCounts counts() const;

private:
  struct State;
  explicit GpuPages(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

/// Blocks of the pool's addresses; their pages come and go.
MemorySource pagesOf(std::shared_ptr<GpuPages> pool);

} // namespace dtrt

#endif // DTRT_CUDA_GPUPAGES_H
