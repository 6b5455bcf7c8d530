//===- StateCodec.cpp - Elements of one state in fewer bytes --------------===//

#include "dtrt/transport/StateCodec.h"

#include "BytePlanes.h"

#include "dtrt/transport/PlaneFrame.h"

#ifdef DT_HAS_ZSTD
#define ZSTD_STATIC_LINKING_ONLY // for ZSTD_c_literalCompressionMode
#include <zstd.h>
#endif

#include <algorithm>
#include <cstring>
#include <ctime>
#include <vector>

namespace dtrt {

namespace {

/// The shorter of two times is the one that nobody has disturbed.
constexpr int kRounds = 2;

} // namespace

CodecGain StateCodec::measure(const std::byte *sample, size_t bytes,
                              unsigned width) {
  CodecGain gain;
  gain.raw = gain.encoded = bytes;
  std::vector<std::byte> encoded(bytes);
  gain.planes = planesThatGain(sample, bytes / width, width);
  for (int round = 0; gain.planes != 0 && round < kRounds; ++round) {
    double begin = secondsNow();
    size_t size = encode(sample, bytes, width, gain.planes, encoded.data(),
                         encoded.size());
    double between = secondsNow();
    if (size == 0 ||
        !decode(encoded.data(), size, sampleRoom(bytes), bytes, width).ok()) {
      gain.planes = 0;
      break;
    }
    double end = secondsNow();
    gain.encoded = size;
    if (round == 0 || between - begin < gain.encodeSeconds)
      gain.encodeSeconds = between - begin;
    if (round == 0 || end - between < gain.decodeSeconds)
      gain.decodeSeconds = end - between;
  }
  return gain;
}

#ifdef DT_HAS_ZSTD

namespace {

/// Exponents gain by their frequencies, not by repeats: these are looked for in
/// few places, in a table that stays in the cache. Twice as fast as level 1,
/// and as small.
constexpr int kLevel = 1, kWindowLog = 17, kHashLog = 12, kStep = 1024;
/// The clock's steps do not count beside it.
constexpr size_t kSample = size_t(1) << 16, kLeastSample = kSample / 4,
                 kQuickSample = kSample / 8;

struct FreeContext {
  void operator()(ZSTD_CCtx *context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx *context) const { ZSTD_freeDCtx(context); }
};

class ZstdCodec : public StateCodec {
public:
  explicit ZstdCodec(size_t mostBytes)
      : compressor(ZSTD_createCCtx()), decompressor(ZSTD_createDCtx()),
        sorted(mostBytes) {}

  bool isWhole() const { return compressor && decompressor; }
  Status configure();
  size_t encode(const std::byte *run, size_t bytes, unsigned width,
                uint8_t planes, std::byte *out, size_t room) override;
  Result<size_t> decode(const std::byte *in, size_t inBytes, std::byte *run,
                        size_t bytes, unsigned width) override;
  size_t sampleBytes() const override { return kSample; }
  size_t leastSampleBytes() const override { return kLeastSample; }
  size_t quickSampleBytes() const override { return kQuickSample; }
  size_t libraryBytes() const override {
    return ZSTD_sizeof_CCtx(compressor.get()) +
           ZSTD_sizeof_DCtx(decompressor.get());
  }

private:
  size_t compress(const std::byte *plane, size_t bytes, std::byte *out,
                  size_t room) {
    size_t size = ZSTD_compress2(compressor.get(), out, room, plane, bytes);
    return ZSTD_isError(size) ? 0 : size;
  }
  uint8_t planesThatGain(const std::byte *sample, size_t count,
                         unsigned width) override;
  std::byte *sampleRoom(size_t bytes) override {
    decoded.resize(bytes);
    return decoded.data();
  }
  /// Of this thread's work: what else the machine does is not the codec's.
  double secondsNow() const override {
    timespec time = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
  }

  std::unique_ptr<ZSTD_CCtx, FreeContext> compressor;
  std::unique_ptr<ZSTD_DCtx, FreeContext> decompressor;
  std::vector<std::byte> sorted;  // planes of one run
  std::vector<std::byte> decoded; // a sample
};

Status ZstdCodec::configure() {
  for (auto [parameter, value] :
       {std::make_pair(ZSTD_c_compressionLevel, kLevel),
        {ZSTD_c_windowLog, kWindowLog},
        {ZSTD_c_hashLog, kHashLog},
        {ZSTD_c_strategy, int(ZSTD_fast)},
        {ZSTD_c_targetLength, kStep},
        {ZSTD_c_literalCompressionMode, int(ZSTD_ps_enable)},
        {ZSTD_c_contentSizeFlag, 0}})
    if (size_t code =
            ZSTD_CCtx_setParameter(compressor.get(), parameter, value);
        ZSTD_isError(code))
      return makeError(ErrorCode::System, "zstd: ", ZSTD_getErrorName(code));
  return {};
}

size_t ZstdCodec::encode(const std::byte *run, size_t bytes, unsigned width,
                         uint8_t planes, std::byte *out, size_t room) {
  size_t count = bytes / width;
  if (planes == 0) {
    if (room < bytes + 1)
      return 0;
    out[0] = std::byte(0);
    std::memcpy(out + 1, run, bytes);
    return bytes + 1;
  }
  Planes<std::byte> parts = {};
  for (unsigned p = 0; p < width; ++p)
    parts[p] = sorted.data() + p * count;
  splitPlanes(run, count, width, parts);
  // Planes whose compressed form is longer than they are stay as they are.
  size_t sizes = 1, at = 1;
  for (unsigned p = 0; p < width; ++p)
    at += hasPlane(planes, p) ? 4 : 0;
  uint8_t mask = 0;
  for (unsigned p = 0; p < width; ++p) {
    if (at >= room)
      return 0;
    size_t size = 0;
    if (hasPlane(planes, p))
      size = compress(parts[p], count, out + at, std::min(room - at, count));
    bool isCompressed = size > 0;
    if (!isCompressed) {
      if (room - at < count)
        return 0;
      std::memcpy(out + at, parts[p], count);
      size = count;
    }
    if (hasPlane(planes, p)) {
      putSize(out + sizes, isCompressed ? size : 0);
      sizes += 4;
      mask |= uint8_t(1u << p);
    }
    at += size;
  }
  out[0] = std::byte(mask);
  return at;
}

Result<size_t> ZstdCodec::decode(const std::byte *in, size_t inBytes,
                                 std::byte *run, size_t bytes, unsigned width) {
  if (inBytes < 1)
    return damagedPlanes("no byte is left");
  auto mask = uint8_t(in[0]);
  if (mask == 0) {
    if (inBytes < bytes + 1)
      return damagedPlanes("elements are missing");
    std::memcpy(run, in + 1, bytes);
    return bytes + 1;
  }
  if (mask >> width)
    return damagedPlanes("there is no such plane");
  size_t count = bytes / width, sizes = 1, at = 1;
  for (unsigned p = 0; p < width; ++p)
    at += hasPlane(mask, p) ? 4 : 0;
  if (at > inBytes)
    return damagedPlanes("sizes are missing");
  Planes<const std::byte> parts = {};
  for (unsigned p = 0; p < width; ++p) {
    size_t size = 0; // as it is
    if (hasPlane(mask, p)) {
      size = sizeAt(in + sizes);
      sizes += 4;
    }
    bool isCompressed = size > 0;
    if (!isCompressed)
      size = count;
    if (size > inBytes - at)
      return damagedPlanes("a plane is missing");
    parts[p] = in + at;
    if (isCompressed) {
      std::byte *plane = sorted.data() + p * count;
      size_t got =
          ZSTD_decompressDCtx(decompressor.get(), plane, count, in + at, size);
      if (ZSTD_isError(got) || got != count)
        return damagedPlanes("a plane is not what was compressed");
      parts[p] = plane;
    }
    at += size;
  }
  joinPlanes(parts, count, width, run);
  return at;
}

uint8_t ZstdCodec::planesThatGain(const std::byte *sample, size_t count,
                                  unsigned width) {
  std::vector<std::byte> room(count);
  Planes<std::byte> parts = {};
  for (unsigned p = 0; p < width; ++p)
    parts[p] = sorted.data() + p * count;
  splitPlanes(sample, count, width, parts);
  uint8_t planes = 0;
  for (unsigned p = 0; p < width; ++p) {
    size_t size = compress(parts[p], count, room.data(), room.size());
    if (size > 0 && isGain(size, count))
      planes |= uint8_t(1u << p);
  }
  return planes;
}

} // namespace

uint8_t zstdCodecVersion() { return 1; }

Result<std::unique_ptr<StateCodec>> StateCodec::create(size_t mostBytes) {
  auto made = std::make_unique<ZstdCodec>(mostBytes);
  if (!made->isWhole())
    return makeError(ErrorCode::OutOfMemory, "not enough memory for zstd");
  DTRT_RETURN_IF_ERROR(made->configure());
  return std::unique_ptr<StateCodec>(std::move(made));
}

#else

uint8_t zstdCodecVersion() { return 0; }

Result<std::unique_ptr<StateCodec>> StateCodec::create(size_t) {
  return makeError("this build has no zstd");
}

#endif

} // namespace dtrt
