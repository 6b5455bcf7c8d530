//===- BlockCodec.cpp - Blocks of messages in fewer bytes -----------------===//

#include "BlockCodec.h"

#include "dtrt/core/MessageRegions.h"

#include <cstring>

namespace dtrt {

namespace {

/// Shorter runs are worth neither a measurement nor the sizes of their planes.
constexpr size_t kLeastRun = size_t(1) << 12;
/// Long enough that the clock's steps do not count, and short beside the run: a
/// link waits for the first ones. Half a block is enough.
constexpr size_t kSample = size_t(1) << 16;

/// A run's part in a block: whole elements between what is cut off.
struct RunPart {
  const ElementRun *run = nullptr;
  uint64_t begin = 0, end = 0; // in the message
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

} // namespace

std::vector<ElementRun> runsOf(const TransportMessage &message) {
  if (!message.regions)
    return {{0, 0, 1, 0, message.bytes, "bytes"}};
  std::vector<ElementRun> runs;
  uint64_t at = 0;
  for (const MessageRegion &region : message.regions->list) {
    const StateInfo &state =
        message.regions->common->families[region.family].states[region.state];
    if (runs.empty() || runs.back().family != region.family ||
        runs.back().state != region.state)
      runs.push_back({region.family, region.state,
                      unsigned(byteWidth(wireDType(state))), at, at,
                      state.name});
    at += region.bytes;
    runs.back().end = at;
  }
  return runs;
}

Result<std::unique_ptr<BlockCodec>> BlockCodec::create(uint64_t blockBytes) {
  auto codec = StateCodec::create(size_t(blockBytes));
  DTRT_RETURN_IF_ERROR(codec);
  return std::unique_ptr<BlockCodec>(
      new BlockCodec(blockBytes, std::move(*codec)));
}

/// Which planes of a run are compressed for a link; 0: none.
uint8_t BlockCodec::planesFor(const ElementRun &run, const std::byte *data,
                              size_t bytes, double linkBytesPerSecond) {
  auto known = gains.find({run.family, run.state});
  if (known == gains.end()) {
    if (bytes < std::min(kSample, size_t(size) / 2))
      return 0;
    size_t sample = std::min(bytes, kSample) / run.width * run.width;
    CodecGain gain = codec->measure(data, sample, run.width);
    known = gains.emplace(std::pair(run.family, run.state), gain).first;
  }
  const CodecGain &gain = known->second;
  return gain.paysOn(linkBytesPerSecond) ? gain.planes : 0;
}

size_t BlockCodec::encode(const TransportMessage &message,
                          const std::vector<ElementRun> &runs, uint64_t at,
                          double linkBytesPerSecond, std::byte *out) {
  size_t raw = bytesAt(message, at), used = 0;
  std::map<std::string, std::pair<uint64_t, uint64_t>> parts;
  bool gains = false;
  bool fits = forEachPart(runs, at, at + raw, [&](const RunPart &part) {
    const std::byte *data = message.data + part.begin;
    size_t bytes = part.end - part.begin, size = bytes;
    if (part.isEncoded()) {
      uint8_t planes = planesFor(*part.run, data, bytes, linkBytesPerSecond);
      gains |= planes != 0;
      size = codec->encode(data, bytes, part.run->width, planes, out + used,
                           raw - used);
      if (size == 0)
        return false;
    } else {
      if (raw - used < bytes)
        return false;
      std::memcpy(out + used, data, bytes);
    }
    used += size;
    parts[part.run->name].first += bytes;
    parts[part.run->name].second += size;
    return true;
  });
  bool isShorter = fits && gains && used < raw;
  if (!isShorter) {
    std::memcpy(out, message.data + at, raw);
    used = raw;
    parts.clear();
    forEachPart(runs, at, at + raw, [&](const RunPart &part) {
      parts[part.run->name].first += part.end - part.begin;
      parts[part.run->name].second += part.end - part.begin;
      return true;
    });
  }
  for (const auto &[state, bytes] : parts) {
    totals.states[state].rawBytes += bytes.first;
    totals.states[state].sentBytes += bytes.second;
  }
  return used;
}

Status BlockCodec::decode(const TransportMessage &message,
                          const std::vector<ElementRun> &runs, uint64_t at,
                          const std::byte *in, size_t inBytes) {
  size_t raw = bytesAt(message, at), used = 0;
  if (inBytes == raw) {
    std::memcpy(message.data + at, in, raw);
    return {};
  }
  Status status;
  forEachPart(runs, at, at + raw, [&](const RunPart &part) {
    std::byte *data = message.data + part.begin;
    size_t bytes = part.end - part.begin;
    if (part.isEncoded()) {
      auto read = codec->decode(in + used, inBytes - used, data, bytes,
                                part.run->width);
      status = read.status();
      used += read.ok() ? *read : 0;
    } else if (inBytes - used < bytes) {
      status = makeError(ErrorCode::System,
                         "compressed bytes are damaged: elements are missing");
    } else {
      std::memcpy(data, in + used, bytes);
      used += bytes;
    }
    return status.ok();
  });
  if (status.ok() && used != inBytes)
    status = makeError(ErrorCode::System,
                       "compressed bytes are damaged: ", inBytes - used,
                       " bytes are left over");
  return status;
}

} // namespace dtrt
