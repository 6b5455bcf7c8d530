//===- FakeNvcomp.cpp - nvCOMP's calls on the fake GPUs -------------------===//
//
// A coded chunk is its 15 most frequent values, the number of its bytes, and
// half a byte for each: which of these it is, or that it stands behind all
// halves. Its last byte is a check sum.
//
//===----------------------------------------------------------------------===//

#include "FakeNvcomp.h"

#include "FakeGpu.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

using namespace dtrt;
using namespace dtrt::test;

namespace {

using Bytes = std::vector<std::byte>;

constexpr size_t kFrequent = 15, kHead = kFrequent + 4;
constexpr size_t kMostChunk = size_t(1) << 24;
constexpr NvcompStatus kInvalid = 10, kCannotDecompress = 12;

FakeNvcompOptions options;
FakeNvcompCounts counts;
int compressCalls = 0;
std::vector<Bytes> remembered;

size_t mostOutput(size_t bytes) { return kHead + (bytes + 1) / 2 + bytes + 1; }

void fault(const std::string &text) { addFakeFault("nvCOMP: " + text); }

std::byte sumOf(const std::byte *data, size_t bytes) {
  unsigned sum = 0x5a;
  for (size_t i = 0; i < bytes; ++i)
    sum = sum * 31 + unsigned(data[i]) + 1;
  return std::byte(sum ^ sum >> 8);
}

Bytes encodeChunk(const std::byte *raw, size_t bytes) {
  if (options.remembers) {
    auto number = uint64_t(remembered.size());
    remembered.emplace_back(raw, raw + bytes);
    Bytes out(sizeof number);
    std::memcpy(out.data(), &number, sizeof number);
    return out;
  }
  std::array<size_t, 256> often = {};
  for (size_t i = 0; i < bytes; ++i)
    ++often[size_t(raw[i])];
  std::array<size_t, 256> order;
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return often[a] > often[b]; });
  Bytes out(kHead + (bytes + 1) / 2);
  std::array<size_t, 256> code;
  code.fill(kFrequent);
  for (size_t i = 0; i < kFrequent; ++i) {
    out[i] = std::byte(order[i]);
    code[order[i]] = i;
  }
  auto length = uint32_t(bytes);
  std::memcpy(out.data() + kFrequent, &length, sizeof length);
  for (size_t i = 0; i < bytes; ++i)
    out[kHead + i / 2] |= std::byte(code[size_t(raw[i])] << (i % 2 * 4));
  for (size_t i = 0; i < bytes; ++i)
    if (code[size_t(raw[i])] == kFrequent)
      out.push_back(raw[i]);
  out.push_back(sumOf(raw, bytes));
  return out;
}

std::optional<Bytes> decodeChunk(const std::byte *in, size_t bytes,
                                 size_t room) {
  if (options.remembers) {
    uint64_t number = 0;
    std::memcpy(&number, in, std::min(bytes, sizeof number));
    bool isKnown = bytes == sizeof number && number < remembered.size() &&
                   remembered[number].size() <= room;
    return isKnown ? std::optional<Bytes>(remembered[number]) : std::nullopt;
  }
  uint32_t length = 0;
  if (bytes < kHead)
    return std::nullopt;
  std::memcpy(&length, in + kFrequent, sizeof length);
  size_t rare = kHead + (size_t(length) + 1) / 2;
  if (length > room || rare > bytes)
    return std::nullopt;
  Bytes out(length);
  for (size_t i = 0; i < length; ++i) {
    size_t code = size_t(in[kHead + i / 2]) >> (i % 2 * 4) & 15;
    if (code == kFrequent && rare >= bytes)
      return std::nullopt;
    out[i] = code == kFrequent ? in[rare++] : in[code];
  }
  if (rare + 1 != bytes || in[rare] != sumOf(out.data(), length))
    return std::nullopt;
  return out;
}

/// What the library asks of all memory that a call names.
void checkPlace(const void *data, const char *what) {
  if (reinterpret_cast<uintptr_t>(data) % kNvcompAlignment)
    fault(std::string(what) + " is not aligned");
}

template <typename Options>
bool isPlain(const Options &given, const char *call) {
  static constexpr Options kPlain;
  bool isSame = given.dataType == kPlain.dataType &&
                !std::memcmp(given.rest, kPlain.rest, sizeof given.rest);
  if (!isSame)
    fault(std::string(call) + " has options that are not known");
  return isSame;
}

template <typename Options>
NvcompStatus tempSize(size_t chunks, size_t mostBytes, Options given,
                      size_t *tempBytes, size_t totalBytes, cudaStream_t) {
  if (!isPlain(given, "a query") || chunks == 0 || mostBytes > kMostChunk ||
      totalBytes > chunks * mostBytes)
    return kInvalid;
  *tempBytes = options.tempBytes;
  return kNvcompSuccess;
}

NvcompStatus maxOutput(size_t mostBytes, NvcompAnsCompress given,
                       size_t *bytes) {
  if (!isPlain(given, "a query") || mostBytes > kMostChunk)
    return kInvalid;
  *bytes = mostOutput(mostBytes);
  return kNvcompSuccess;
}

NvcompStatus compress(const void *const *raw, const size_t *rawBytes,
                      size_t mostBytes, size_t chunks, void *temp,
                      size_t tempBytes, void *const *out, size_t *outBytes,
                      NvcompAnsCompress given, NvcompStatus *statuses,
                      cudaStream_t stream) {
  if (!isPlain(given, "Compress") || tempBytes < options.tempBytes)
    return kInvalid;
  int gpu = fakeGpuOf(stream);
  bool fails = compressCalls++ == options.failingCompress;
  auto work = [=] {
    touchFakeMemory(temp, tempBytes, gpu, "nvCOMP's memory");
    for (const void *list : {(const void *)raw, (const void *)rawBytes,
                             (const void *)out, (const void *)outBytes})
      touchFakeMemory(list, chunks * sizeof(size_t), gpu, "a list of chunks");
    touchFakeMemory(statuses, chunks * sizeof *statuses, gpu, "statuses");
    for (size_t i = 0; i < chunks; ++i) {
      checkPlace(raw[i], "a chunk");
      checkPlace(out[i], "a coded chunk");
      if (rawBytes[i] == 0 || rawBytes[i] > mostBytes)
        fault("a chunk has another size than was said");
      touchFakeMemory(raw[i], rawBytes[i], gpu, "a chunk");
      touchFakeMemory(out[i], mostOutput(rawBytes[i]), gpu, "a coded chunk");
      Bytes coded =
          encodeChunk(static_cast<const std::byte *>(raw[i]), rawBytes[i]);
      std::memcpy(out[i], coded.data(), coded.size());
      outBytes[i] = coded.size();
      statuses[i] = fails && i == 0 ? kInvalid : kNvcompSuccess;
      ++counts.compressed;
    }
    return true;
  };
  bool isPut = putOnFakeStream(stream, "nvCOMP", [=]() -> FakeWork {
                 return work;
               }) == cudaSuccess;
  return isPut ? kNvcompSuccess : kInvalid;
}

NvcompStatus decompress(const void *const *in, const size_t *inBytes,
                        const size_t *room, size_t *rawBytes, size_t chunks,
                        void *temp, size_t tempBytes, void *const *raw,
                        NvcompAnsDecompress given, NvcompStatus *statuses,
                        cudaStream_t stream) {
  if (!isPlain(given, "Decompress") || tempBytes < options.tempBytes)
    return kInvalid;
  int gpu = fakeGpuOf(stream);
  auto work = [=] {
    touchFakeMemory(temp, tempBytes, gpu, "nvCOMP's memory");
    for (const void *list :
         {(const void *)in, (const void *)inBytes, (const void *)room,
          (const void *)rawBytes, (const void *)raw})
      touchFakeMemory(list, chunks * sizeof(size_t), gpu, "a list of chunks");
    touchFakeMemory(statuses, chunks * sizeof *statuses, gpu, "statuses");
    for (size_t i = 0; i < chunks; ++i) {
      checkPlace(in[i], "a coded chunk");
      checkPlace(raw[i], "a chunk");
      touchFakeMemory(in[i], inBytes[i], gpu, "a coded chunk");
      touchFakeMemory(raw[i], room[i], gpu, "a chunk");
      auto decoded = decodeChunk(static_cast<const std::byte *>(in[i]),
                                 inBytes[i], room[i]);
      if (decoded)
        std::memcpy(raw[i], decoded->data(), decoded->size());
      rawBytes[i] = decoded ? decoded->size() : 0;
      statuses[i] = decoded ? kNvcompSuccess : kCannotDecompress;
      ++counts.decompressed;
    }
    return true;
  };
  bool isPut = putOnFakeStream(stream, "nvCOMP", [=]() -> FakeWork {
                 return work;
               }) == cudaSuccess;
  return isPut ? kNvcompSuccess : kInvalid;
}

NvcompStatus getProperties(NvcompProperties *properties) {
  *properties = {options.version, 12000};
  return kNvcompSuccess;
}

} // namespace

const NvcompApi &dtrt::test::fakeNvcomp(const FakeNvcompOptions &given) {
  options = given;
  counts = {};
  compressCalls = 0;
  remembered.clear();
  static const NvcompApi api = {
      getProperties, tempSize<NvcompAnsCompress>,   maxOutput,
      compress,      tempSize<NvcompAnsDecompress>, decompress};
  return api;
}

FakeNvcompCounts dtrt::test::takeFakeNvcompCounts() {
  return std::exchange(counts, {});
}
