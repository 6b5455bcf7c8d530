//===- GpuBoxTable.cpp - A table of copies on a GPU -----------------------===//

#include "dtrt/cuda/GpuBoxTable.h"
#include "dtrt/core/BoxTable.h"
#include "dtrt/core/MemorySource.h"
#include "dtrt/cuda/GpuMemory.h"

#include "BoxKernels.h"
#include "Stream.h"

namespace dtrt {

struct GpuBoxTable::State {
  int gpu = 0;
  MemorySource memory;
  std::byte *rows = nullptr;
  uint32_t count = 0;
  uint64_t tiles = 0;
  uint32_t blocks = 0;
  Stream stream;

  ~State() {
    if (rows)
      memory.free(rows);
  }
};

Result<GpuBoxTable> GpuBoxTable::upload(const BoxTable &table) {
  auto gpu = currentGpu();
  DTRT_RETURN_IF_ERROR(gpu);
  auto state = std::make_shared<State>();
  state->gpu = *gpu;
  state->memory = gpuMemory(*gpu);
  if (table.copies().size() > UINT32_MAX)
    return makeError("a box table of ", table.copies().size(), " rows");
  state->count = uint32_t(table.copies().size());
  state->tiles = table.tiles();
  auto blocks = fullGrid(*gpu);
  DTRT_RETURN_IF_ERROR(blocks);
  state->blocks = *blocks;
  {
    UseGpu use(*gpu);
    DTRT_RETURN_IF_ERROR(state->stream.create());
  }
  if (state->count > 0) {
    uint64_t bytes = state->count * sizeof(BoxCopy);
    state->rows = state->memory.allocate(bytes);
    if (!state->rows)
      return makeError(ErrorCode::OutOfMemory, "cannot allocate ", bytes,
                       " bytes for a box table");
    auto *from = reinterpret_cast<const std::byte *>(table.copies().data());
    DTRT_RETURN_IF_ERROR(gpuCopies(*gpu)(state->rows, from, bytes));
  }
  GpuBoxTable made;
  made.state = std::move(state);
  return made;
}

Status GpuBoxTable::run(uint32_t blocks) const {
  UseGpu use(state->gpu);
  DTRT_RETURN_IF_ERROR(launchBoxCopies(
      reinterpret_cast<const BoxCopy *>(state->rows), state->count,
      state->tiles, blocks > 0 ? blocks : state->blocks, state->stream.get()));
  return state->stream.synchronize();
}

} // namespace dtrt
