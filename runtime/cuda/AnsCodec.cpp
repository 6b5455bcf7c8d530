//===- AnsCodec.cpp - Elements of one state in fewer bytes, on a GPU ------===//

#include "AnsCodec.h"

#include "BoxKernels.h"
#include "Stream.h"

#include "dtrt/cuda/GpuMemory.h"
#include "dtrt/transport/PlaneFrame.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace dtrt {

namespace {

/// Elements are 8 bytes wide at most.
constexpr unsigned kMostWidth = 8;
/// What nvCOMP's header advises: smaller ones pay more for their tables of
/// frequencies, larger ones leave a GPU idle.
constexpr size_t kChunk = size_t(1) << 16;
Status nvcompStatus(NvcompStatus status, const char *what) {
  if (status == kNvcompSuccess)
    return {};
  return makeError(ErrorCode::System, "nvCOMP ", what, ": status ", status);
}

size_t chunksOf(size_t bytes) { return (bytes + kChunk - 1) / kChunk; }

/// Parts of one block of memory, one after the other.
class Layout {
public:
  uint64_t add(uint64_t bytes) {
    uint64_t at = end;
    end += roundUp(bytes, kCacheLine);
    return at;
  }
  uint64_t bytes() const { return end; }

private:
  uint64_t end = 0;
};
static_assert(kCacheLine % kNvcompAlignment == 0);

/// Chunks that the library takes at once: an entry for each, here and in the
/// same order on the GPU.
struct Batch {
  std::vector<void *> raw, coded;
  std::vector<size_t> rawBytes, codedBytes, gotBytes;
  std::vector<NvcompStatus> statuses;

  size_t count() const { return raw.size(); }
  void clear() {
    raw.clear();
    coded.clear();
    rawBytes.clear();
    codedBytes.clear();
  }
  void add(std::byte *chunk, size_t bytes, std::byte *slot, size_t inSlot) {
    raw.push_back(chunk);
    rawBytes.push_back(bytes);
    coded.push_back(slot);
    codedBytes.push_back(inSlot);
  }
};

class AnsCodec : public StateCodec {
public:
  AnsCodec(const NvcompApi &api, int gpu, size_t mostBytes)
      : api(api), gpu(gpu), most(mostBytes),
        mostChunks(chunksOf(mostBytes) + kMostWidth), source(gpuMemory(gpu)) {}
  ~AnsCodec() override {
    UseGpu use(gpu);
    (void)stream.synchronize();
    if (memory)
      source.free(memory);
  }

  Status allocate(uint64_t memoryBytes);
  size_t encode(const std::byte *run, size_t bytes, unsigned width,
                uint8_t planes, std::byte *out, size_t room) override;
  Result<size_t> decode(const std::byte *in, size_t inBytes, std::byte *run,
                        size_t bytes, unsigned width) override;
  size_t sampleBytes() const override { return most; }
  size_t leastSampleBytes() const override { return most / 2; }
  /// A GPU that has little to do takes as long.
  size_t quickSampleBytes() const override { return 0; }
  size_t libraryBytes() const override { return total; }

private:
  std::byte *at(uint64_t offset) const { return memory + offset; }
  std::byte *plane(unsigned p, size_t count) const {
    return at(planesAt) + p * roundUp(count, kNvcompAlignment);
  }
  Status copy(void *to, const void *from, size_t bytes) const {
    return cudaStatus(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream.get()),
        "cannot copy");
  }
  template <typename T>
  Status give(uint64_t offset, const std::vector<T> &list) const {
    return copy(at(offset), list.data(), list.size() * sizeof(T));
  }
  template <typename T> Status take(std::vector<T> &list, uint64_t offset) {
    list.resize(batch.count());
    return copy(list.data(), at(offset), list.size() * sizeof(T));
  }
  template <typename T> T *array(uint64_t offset) const {
    return reinterpret_cast<T *>(at(offset));
  }

  Status split(const std::byte *run, size_t count, unsigned width);
  Status join(std::byte *run, size_t count, unsigned width);
  Status moveBytes(size_t count, unsigned width);
  Status compress(size_t count, unsigned width, uint8_t planes);
  Status decompress();
  Result<size_t> gather(size_t count, unsigned width, uint8_t planes,
                        std::byte *out, size_t room);
  Result<size_t> scatter(const std::byte *in, size_t inBytes, size_t count,
                         unsigned width, uint8_t planes);
  Result<size_t> encodePlanes(const std::byte *run, size_t count,
                              unsigned width, uint8_t planes, std::byte *out,
                              size_t room);
  Result<size_t> decodePlanes(const std::byte *in, size_t inBytes,
                              std::byte *run, size_t count, unsigned width);
  uint8_t planesThatGain(const std::byte *sample, size_t count,
                         unsigned width) override;
  std::byte *sampleRoom(size_t) override { return at(sampleAt); }
  /// A GPU's work counts as long as it is waited for.
  double secondsNow() const override {
    std::chrono::duration<double> time =
        std::chrono::steady_clock::now().time_since_epoch();
    return time.count();
  }

  const NvcompApi &api;
  int gpu;
  size_t most, mostChunks;
  size_t slot = 0; // of a chunk that is coded
  MemorySource source;
  Stream stream;
  uint32_t grid = 1;
  std::byte *memory = nullptr;
  size_t total = 0, tempBytes = 0;
  /// Offsets in it.
  uint64_t rowsAt = 0, planesAt = 0, codedAt = 0, sampleAt = 0, tempAt = 0;
  uint64_t rawList = 0, rawBytesList = 0, codedList = 0, codedBytesList = 0,
           gotBytesList = 0, statusList = 0;
  std::vector<BoxCopy> rows;
  Batch batch;
};

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Status AnsCodec::allocate(uint64_t memoryBytes) {
  UseGpu use(gpu);
  DTRT_RETURN_IF_ERROR(stream.create());
  auto blocks = fullGrid(gpu);
  DTRT_RETURN_IF_ERROR(blocks);
  grid = *blocks;
  size_t mostOutput = 0, compressTemp = 0, decompressTemp = 0;
  size_t inChunks = mostChunks * kChunk;
  DTRT_RETURN_IF_ERROR(
      nvcompStatus(api.CompressMaxOutput(kChunk, {}, &mostOutput),
                   "does not say how long a chunk may get"));
  DTRT_RETURN_IF_ERROR(
      nvcompStatus(api.CompressTempSize(mostChunks, kChunk, {}, &compressTemp,
                                        inChunks, stream.get()),
                   "does not say what memory it needs"));
  DTRT_RETURN_IF_ERROR(nvcompStatus(
      api.DecompressTempSize(mostChunks, kChunk, {}, &decompressTemp, inChunks,
                             stream.get()),
      "does not say what memory it needs"));
  slot = roundUp(mostOutput, kNvcompAlignment);
  tempBytes = std::max(compressTemp, decompressTemp);
  Layout layout;
  rowsAt = layout.add(kMostWidth * sizeof(BoxCopy));
  planesAt = layout.add(most + kMostWidth * kNvcompAlignment);
  codedAt = layout.add(mostChunks * slot);
  sampleAt = layout.add(most);
  tempAt = layout.add(tempBytes);
  for (uint64_t *list : {&rawList, &rawBytesList, &codedList, &codedBytesList,
                         &gotBytesList, &statusList})
    *list = layout.add(mostChunks * sizeof(size_t));
  total = layout.bytes();
  if (total > memoryBytes)
    return makeError("nvCOMP needs ", total, " bytes of the GPU for blocks of ",
                     most, ", the plan has room for ", memoryBytes);
  memory = source.allocate(total);
  return memory ? Status()
                : makeError(ErrorCode::OutOfMemory, "cannot allocate ", total,
                            " bytes of the GPU to compress in");
}

//===----------------------------------------------------------------------===//
// Planes
//===----------------------------------------------------------------------===//

/// A row per plane: from every width-th byte to bytes side by side, or back.
Status AnsCodec::split(const std::byte *run, size_t count, unsigned width) {
  rows.assign(width, BoxCopy());
  for (unsigned p = 0; p < width; ++p) {
    rows[p].from = run + p;
    rows[p].fromStrides[0] = width;
    rows[p].to = plane(p, count);
    rows[p].toStrides[0] = 1;
  }
  return moveBytes(count, width);
}

Status AnsCodec::join(std::byte *run, size_t count, unsigned width) {
  rows.assign(width, BoxCopy());
  for (unsigned p = 0; p < width; ++p) {
    rows[p].from = plane(p, count);
    rows[p].fromStrides[0] = 1;
    rows[p].to = run + p;
    rows[p].toStrides[0] = width;
  }
  return moveBytes(count, width);
}

Status AnsCodec::moveBytes(size_t count, unsigned width) {
  uint64_t tiles = (count + kTileBytes - 1) / kTileBytes;
  for (unsigned p = 0; p < width; ++p) {
    BoxCopy &row = rows[p];
    row.firstTile = p * tiles;
    row.runUnits = Divisor(1);
    row.units = uint32_t(count);
    row.tileUnits = kTileBytes;
    row.numDims = 1;
    row.sizes[0] = Divisor(uint32_t(count));
  }
  DTRT_RETURN_IF_ERROR(give(rowsAt, rows));
  return launchBoxCopies(array<BoxCopy>(rowsAt), width, tiles * width, grid,
                         stream.get());
}

//===----------------------------------------------------------------------===//
// Encoding
//===----------------------------------------------------------------------===//

/// All chunks of these planes, into slots of their own; waits for their sizes.
Status AnsCodec::compress(size_t count, unsigned width, uint8_t planes) {
  batch.clear();
  for (unsigned p = 0; p < width; ++p)
    for (size_t begin = 0; hasPlane(planes, p) && begin < count;
         begin += kChunk)
      batch.add(plane(p, count) + begin, std::min(kChunk, count - begin),
                at(codedAt) + batch.count() * slot, 0);
  DTRT_RETURN_IF_ERROR(give(rawList, batch.raw));
  DTRT_RETURN_IF_ERROR(give(rawBytesList, batch.rawBytes));
  DTRT_RETURN_IF_ERROR(give(codedList, batch.coded));
  DTRT_RETURN_IF_ERROR(nvcompStatus(
      api.Compress(array<const void *>(rawList), array<size_t>(rawBytesList),
                   kChunk, batch.count(), at(tempAt), tempBytes,
                   array<void *>(codedList), array<size_t>(codedBytesList), {},
                   array<NvcompStatus>(statusList), stream.get()),
      "does not compress"));
  DTRT_RETURN_IF_ERROR(take(batch.codedBytes, codedBytesList));
  DTRT_RETURN_IF_ERROR(take(batch.statuses, statusList));
  DTRT_RETURN_IF_ERROR(stream.synchronize());
  // A chunk that is not shorter goes as it is.
  for (size_t i = 0; i < batch.count(); ++i)
    if (batch.statuses[i] != kNvcompSuccess ||
        batch.codedBytes[i] >= batch.rawBytes[i])
      batch.codedBytes[i] = 0;
  return {};
}

/// Sizes and planes to the host; the bytes of both, 0 where there is no room.
Result<size_t> AnsCodec::gather(size_t count, unsigned width, uint8_t planes,
                                std::byte *out, size_t room) {
  size_t sizes = 1, to = 1 + 4 * batch.count(), chunk = 0;
  if (to > room)
    return 0;
  out[0] = std::byte(planes);
  auto append = [&](const void *from, size_t bytes) -> Result<bool> {
    if (room - to < bytes)
      return false;
    DTRT_RETURN_IF_ERROR(copy(out + to, from, bytes));
    to += bytes;
    return true;
  };
  for (unsigned p = 0; p < width; ++p) {
    size_t parts = hasPlane(planes, p) ? chunksOf(count) : 1;
    for (size_t i = 0; i < parts; ++i) {
      const void *from = plane(p, count);
      size_t bytes = count;
      if (hasPlane(planes, p)) {
        size_t coded = batch.codedBytes[chunk];
        from = coded ? batch.coded[chunk] : batch.raw[chunk];
        bytes = coded ? coded : batch.rawBytes[chunk];
        putSize(out + sizes, coded);
        sizes += 4;
        ++chunk;
      }
      auto fits = append(from, bytes);
      DTRT_RETURN_IF_ERROR(fits);
      if (!*fits)
        return 0;
    }
  }
  DTRT_RETURN_IF_ERROR(stream.synchronize());
  return to;
}

Result<size_t> AnsCodec::encodePlanes(const std::byte *run, size_t count,
                                      unsigned width, uint8_t planes,
                                      std::byte *out, size_t room) {
  DTRT_RETURN_IF_ERROR(split(run, count, width));
  DTRT_RETURN_IF_ERROR(compress(count, width, planes));
  return gather(count, width, planes, out, room);
}

size_t AnsCodec::encode(const std::byte *run, size_t bytes, unsigned width,
                        uint8_t planes, std::byte *out, size_t room) {
  UseGpu use(gpu);
  Result<size_t> size = size_t(0);
  if (planes != 0) {
    size = encodePlanes(run, bytes / width, width, planes, out, room);
  } else if (room > bytes) {
    out[0] = std::byte(0);
    Status copied = copy(out + 1, run, bytes);
    size = bytes + 1;
    if (!copied.ok())
      size = copied;
  }
  // Nothing stays under way. A block that cannot be encoded goes raw, and a GPU
  // that does not work will say so when that is copied.
  bool ended = stream.synchronize().ok();
  return ended && size.ok() ? *size : 0;
}

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

Status AnsCodec::decompress() {
  if (batch.count() == 0)
    return {};
  DTRT_RETURN_IF_ERROR(give(rawList, batch.raw));
  DTRT_RETURN_IF_ERROR(give(rawBytesList, batch.rawBytes));
  DTRT_RETURN_IF_ERROR(give(codedList, batch.coded));
  DTRT_RETURN_IF_ERROR(give(codedBytesList, batch.codedBytes));
  DTRT_RETURN_IF_ERROR(nvcompStatus(
      api.Decompress(array<const void *>(codedList),
                     array<size_t>(codedBytesList), array<size_t>(rawBytesList),
                     array<size_t>(gotBytesList), batch.count(), at(tempAt),
                     tempBytes, array<void *>(rawList), {},
                     array<NvcompStatus>(statusList), stream.get()),
      "does not decompress"));
  DTRT_RETURN_IF_ERROR(take(batch.gotBytes, gotBytesList));
  DTRT_RETURN_IF_ERROR(take(batch.statuses, statusList));
  DTRT_RETURN_IF_ERROR(stream.synchronize());
  for (size_t i = 0; i < batch.count(); ++i)
    if (batch.statuses[i] != kNvcompSuccess ||
        batch.gotBytes[i] != batch.rawBytes[i])
      return damagedPlanes("a plane is not what was compressed");
  return {};
}

/// Planes to the GPU: those that are as they are to their place, coded chunks
/// into slots. The encoded bytes that were read.
Result<size_t> AnsCodec::scatter(const std::byte *in, size_t inBytes,
                                 size_t count, unsigned width, uint8_t planes) {
  size_t coded = 0;
  for (unsigned p = 0; p < width; ++p)
    coded += hasPlane(planes, p) ? chunksOf(count) : 0;
  size_t sizes = 1, from = 1 + 4 * coded;
  if (from > inBytes)
    return damagedPlanes("sizes are missing");
  batch.clear();
  for (unsigned p = 0; p < width; ++p) {
    size_t step = hasPlane(planes, p) ? kChunk : count;
    for (size_t begin = 0; begin < count; begin += step) {
      size_t bytes = std::min(step, count - begin), size = 0;
      std::byte *to = plane(p, count) + begin;
      if (hasPlane(planes, p)) {
        size = sizeAt(in + sizes);
        sizes += 4;
      }
      size_t length = size ? size : bytes;
      if (length > inBytes - from)
        return damagedPlanes("a plane is missing");
      if (size > slot)
        return damagedPlanes("a chunk is longer than any can be");
      if (size) {
        std::byte *place = at(codedAt) + batch.count() * slot;
        batch.add(to, bytes, place, size);
        to = place;
      }
      DTRT_RETURN_IF_ERROR(copy(to, in + from, length));
      from += length;
    }
  }
  return from;
}

Result<size_t> AnsCodec::decodePlanes(const std::byte *in, size_t inBytes,
                                      std::byte *run, size_t count,
                                      unsigned width) {
  auto planes = uint8_t(in[0]);
  if (width < kMostWidth && planes >> width)
    return damagedPlanes("there is no such plane");
  auto read = scatter(in, inBytes, count, width, planes);
  DTRT_RETURN_IF_ERROR(read);
  DTRT_RETURN_IF_ERROR(decompress());
  DTRT_RETURN_IF_ERROR(join(run, count, width));
  return read;
}

Result<size_t> AnsCodec::decode(const std::byte *in, size_t inBytes,
                                std::byte *run, size_t bytes, unsigned width) {
  UseGpu use(gpu);
  if (inBytes < 1)
    return damagedPlanes("no byte is left");
  Result<size_t> read = bytes + 1;
  if (in[0] != std::byte(0))
    read = decodePlanes(in, inBytes, run, bytes / width, width);
  else if (inBytes < bytes + 1)
    return damagedPlanes("elements are missing");
  else if (Status copied = copy(run, in + 1, bytes); !copied.ok())
    read = copied;
  Status ended = stream.synchronize();
  DTRT_RETURN_IF_ERROR(read);
  DTRT_RETURN_IF_ERROR(ended);
  return read;
}

//===----------------------------------------------------------------------===//
// Measuring
//===----------------------------------------------------------------------===//

uint8_t AnsCodec::planesThatGain(const std::byte *sample, size_t count,
                                 unsigned width) {
  UseGpu use(gpu);
  auto all = uint8_t((1u << width) - 1);
  bool done =
      split(sample, count, width).ok() && compress(count, width, all).ok();
  if (!stream.synchronize().ok() || !done)
    return 0;
  uint8_t planes = 0;
  size_t chunk = 0;
  for (unsigned p = 0; p < width; ++p) {
    size_t size = 0;
    for (size_t i = 0; i < chunksOf(count); ++i, ++chunk)
      size += batch.codedBytes[chunk] ? batch.codedBytes[chunk]
                                      : batch.rawBytes[chunk];
    if (isGain(size, count))
      planes |= uint8_t(1u << p);
  }
  return planes;
}

} // namespace

Result<std::unique_ptr<StateCodec>> makeAnsCodec(const NvcompApi &api, int gpu,
                                                 size_t mostBytes,
                                                 uint64_t memoryBytes) {
  auto made = std::make_unique<AnsCodec>(api, gpu, mostBytes);
  DTRT_RETURN_IF_ERROR(made->allocate(memoryBytes));
  return std::unique_ptr<StateCodec>(std::move(made));
}

} // namespace dtrt
