//===- BlockCodec.cpp - Blocks of messages in fewer bytes -----------------===//

#include "BlockCodec.h"

#include "dtrt/core/MessageRegions.h"

#include <cstring>

namespace dtrt {

namespace {

/// Shorter runs are worth neither a measurement nor the sizes of their planes.
constexpr size_t kLeastRun = size_t(1) << 12;
/// Of bytes whose state is not told: no family has this number.
constexpr StateKey kUntold = {UINT32_MAX, 0};

/// A run's part in a block: whole elements between what is cut off.
struct RunPart {
  const ElementRun *run = nullptr;
  uint64_t begin = 0, end = 0; // in the message
  size_t bytes() const { return size_t(end - begin); }
  /// Whether it is encoded, else it is copied.
  bool isEncoded() const { return end - begin >= kLeastRun; }
};

/// Calls visit(part) -> bool, while it is true, for the parts of
/// [begin, end) of a message: the elements of each run that are whole in it,
/// and what is left of those that are not.
template <typename Visit>
bool forEachPart(const std::vector<ElementRun> &runs, uint64_t begin,
                 uint64_t end, Visit visit) {
  auto run = std::upper_bound(
      runs.begin(), runs.end(), begin,
      [](uint64_t at, const ElementRun &r) { return at < r.end; });
  for (; run != runs.end() && run->begin < end; ++run) {
    uint64_t from = std::max(begin, run->begin), to = std::min(end, run->end);
    uint64_t cut = (run->width - (from - run->begin) % run->width) % run->width;
    uint64_t first = std::min(from + cut, to);
    uint64_t last = to - (to - first) % run->width;
    for (auto [b, e] : {std::pair(from, first), {first, last}, {last, to}})
      if (b < e && !visit(RunPart{&*run, b, e}))
        return false;
  }
  return true;
}

void count(CompressionReport::State &state, uint64_t raw, uint64_t sent) {
  state.rawBytes += raw;
  state.sentBytes += sent;
}

} // namespace

std::vector<ElementRun> runsOf(const TransportMessage &message) {
  if (!message.regions)
    return {{kUntold, 1, 0, message.bytes, "bytes"}};
  std::vector<ElementRun> runs;
  uint64_t at = 0;
  for (const MessageRegion &region : message.regions->list) {
    const StateInfo &state =
        message.regions->common->families[region.family].states[region.state];
    StateKey key = {region.family, region.state};
    if (runs.empty() || runs.back().key != key)
      runs.push_back(
          {key, unsigned(byteWidth(wireDType(state))), at, at, state.name});
    at += region.bytes;
    runs.back().end = at;
  }
  return runs;
}

Result<std::unique_ptr<BlockCodec>> BlockCodec::create(uint64_t blockBytes) {
  auto codec = StateCodec::create(size_t(blockBytes));
  DTRT_RETURN_IF_ERROR(codec);
  return std::make_unique<BlockCodec>(blockBytes, std::move(*codec), nullptr,
                                      /*reachesMessages=*/true);
}

BlockCodec::BlockCodec(uint64_t blockBytes, std::unique_ptr<StateCodec> codec,
                       CopyBytes copy, bool reachesMessages)
    : size(blockBytes), codec(std::move(codec)), copy(std::move(copy)),
      reaches(reachesMessages), here(isAway() ? blockBytes : 0) {}

bool BlockCodec::isTooShort(const ElementRun &run) {
  return run.bytes() < kLeastRun;
}

/// Bytes of a message, no more than a block has, where the codec can read them.
Result<const std::byte *> BlockCodec::read(const std::byte *data,
                                           size_t bytes) {
  if (!isAway())
    return data;
  DTRT_RETURN_IF_ERROR(copy(here.data(), data, bytes));
  return here.data();
}

/// Between where the codec reads and writes elements and a frame.
Status BlockCodec::move(std::byte *to, const std::byte *from,
                        size_t bytes) const {
  if (copy && reaches)
    return copy(to, from, bytes);
  std::memcpy(to, from, bytes);
  return {};
}

//===----------------------------------------------------------------------===//
// Whether it pays
//===----------------------------------------------------------------------===//

/// Which planes of a run are compressed for a link; 0: none.
uint8_t BlockCodec::planesFor(const ElementRun &run,
                              double linkBytesPerSecond) const {
  auto known = gains.find(run.key);
  bool pays = known != gains.end() && known->second.isWhole &&
              known->second.gain.paysOn(linkBytesPerSecond);
  return pays ? known->second.gain.planes : 0;
}

Result<CodecGain> BlockCodec::measure(const ElementRun &run,
                                      const TransportMessage &message,
                                      size_t most) {
  most = std::min<size_t>(most, size);
  size_t bytes = std::min<size_t>(run.bytes(), most) / run.width * run.width;
  auto sample = read(message.data + run.begin, bytes);
  DTRT_RETURN_IF_ERROR(sample);
  return codec->measure(*sample, bytes, run.width);
}

/// As far as it takes to know whether it pays on this link.
Status BlockCodec::measureFor(double linkBytesPerSecond, const ElementRun &run,
                              const TransportMessage &message) {
  Measured &known = gains[run.key];
  size_t quick = codec->quickSampleBytes();
  if (!known.isWhole && known.gain.raw == 0 && quick > 0) {
    auto gain = measure(run, message, quick);
    DTRT_RETURN_IF_ERROR(gain);
    known.gain = *gain;
  }
  bool isTold = known.isWhole || (known.gain.raw > 0 &&
                                  !known.gain.mayPayOn(linkBytesPerSecond,
                                                       StateCodec::kMostOff));
  if (isTold)
    return {};
  auto gain = measure(run, message, codec->sampleBytes());
  DTRT_RETURN_IF_ERROR(gain);
  known = {*gain, true};
  return {};
}

Result<bool> BlockCodec::paysOn(double linkBytesPerSecond,
                                const TransportMessage &message,
                                const std::vector<ElementRun> &runs) {
  bool pays = false;
  for (const ElementRun &run : runs) {
    if (isMeasured(run))
      DTRT_RETURN_IF_ERROR(measureFor(linkBytesPerSecond, run, message));
    pays |= !isTooShort(run) && planesFor(run, linkBytesPerSecond) != 0;
  }
  return pays;
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

/// Bytes of the frame; 0: the block is not shorter so.
Result<size_t> BlockCodec::encodeParts(const std::vector<ElementRun> &runs,
                                       uint64_t at, const std::byte *data,
                                       size_t raw, double linkBytesPerSecond,
                                       std::byte *out, PartBytes &parts) {
  size_t used = 0;
  bool gains = false;
  Status status;
  bool fits = forEachPart(runs, at, at + raw, [&](const RunPart &part) {
    const std::byte *from = data + (part.begin - at);
    size_t bytes = part.bytes(), encoded = bytes;
    if (part.isEncoded()) {
      uint8_t planes = planesFor(*part.run, linkBytesPerSecond);
      gains |= planes != 0;
      encoded = codec->encode(from, bytes, part.run->width, planes, out + used,
                              raw - used);
    } else if (raw - used < bytes) {
      encoded = 0;
    } else {
      status = move(out + used, from, bytes);
    }
    used += encoded;
    count(parts[part.run->name], bytes, encoded);
    return encoded != 0 && status.ok();
  });
  DTRT_RETURN_IF_ERROR(status);
  return fits && gains && used < raw ? used : 0;
}

Result<size_t> BlockCodec::encode(const TransportMessage &message,
                                  const std::vector<ElementRun> &runs,
                                  uint64_t at, double linkBytesPerSecond,
                                  std::byte *out) {
  size_t raw = bytesAt(message, at);
  auto data = read(message.data + at, raw);
  DTRT_RETURN_IF_ERROR(data);
  PartBytes parts;
  auto used = encodeParts(runs, at, *data, raw, linkBytesPerSecond, out, parts);
  DTRT_RETURN_IF_ERROR(used);
  if (*used == 0) {
    DTRT_RETURN_IF_ERROR(move(out, *data, raw));
    used = raw;
    parts.clear();
    forEachPart(runs, at, at + raw, [&](const RunPart &part) {
      count(parts[part.run->name], part.bytes(), part.bytes());
      return true;
    });
  }
  for (const auto &[state, bytes] : parts)
    count(totals.states[state], bytes.rawBytes, bytes.sentBytes);
  return used;
}

void BlockCodec::countRaw(const std::vector<ElementRun> &runs) {
  for (const ElementRun &run : runs)
    count(totals.states[run.name], run.bytes(), run.bytes());
}

/// The bytes of the frame that were read.
Result<size_t> BlockCodec::decodeParts(const std::vector<ElementRun> &runs,
                                       uint64_t at, std::byte *data, size_t raw,
                                       const std::byte *in, size_t inBytes) {
  size_t used = 0;
  Status status;
  forEachPart(runs, at, at + raw, [&](const RunPart &part) {
    std::byte *to = data + (part.begin - at);
    size_t bytes = part.bytes();
    if (part.isEncoded()) {
      auto read =
          codec->decode(in + used, inBytes - used, to, bytes, part.run->width);
      status = read.status();
      used += read.ok() ? *read : 0;
    } else if (inBytes - used < bytes) {
      status = makeError(ErrorCode::System,
                         "compressed bytes are damaged: elements are missing");
    } else {
      status = move(to, in + used, bytes);
      used += bytes;
    }
    return status.ok();
  });
  DTRT_RETURN_IF_ERROR(status);
  return used;
}

Status BlockCodec::decode(const TransportMessage &message,
                          const std::vector<ElementRun> &runs, uint64_t at,
                          const std::byte *in, size_t inBytes) {
  size_t raw = bytesAt(message, at);
  std::byte *data = isAway() ? here.data() : message.data + at;
  if (inBytes == raw) {
    DTRT_RETURN_IF_ERROR(move(data, in, raw));
  } else {
    auto used = decodeParts(runs, at, data, raw, in, inBytes);
    DTRT_RETURN_IF_ERROR(used);
    if (*used != inBytes)
      return makeError(ErrorCode::System,
                       "compressed bytes are damaged: ", inBytes - *used,
                       " bytes are left over");
  }
  return isAway() ? copy(message.data + at, data, raw) : Status();
}

} // namespace dtrt
