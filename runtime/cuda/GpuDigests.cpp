//===- GpuDigests.cpp - Messages compared on the GPU ----------------------===//
//
// Behind every wave, on its stream: the regions of what was sent and of what
// came are hashed where they lie, and the senders' hashes travel as a wave of
// their own. They are compared once the transfer has ended, before it counts.
//
//===----------------------------------------------------------------------===//

#include "dtrt/cuda/GpuDigests.h"
#include "dtrt/cuda/GpuMemory.h"

#include "BoxKernels.h"
#include "HashKernels.h"
#include "RegionHash.h"
#include "Stream.h"

#include "dtrt/core/MemorySource.h"
#include "dtrt/core/MessageRegions.h"

namespace dtrt {

namespace {

/// Where hashes start behind the arena.
constexpr uint64_t kAlignment = 256;

/// One message's hashes, by their first byte in the inner arena.
struct Hashes {
  uint64_t own = 0;   // of what lies here
  uint64_t other = 0; // of a receive: what its sender has found
};

class GpuDigests : public StreamTransport {
public:
  explicit GpuDigests(std::unique_ptr<StreamTransport> inner)
      : inner(std::move(inner)) {}

  uint32_t device() const override { return inner->device(); }
  TransportCaps caps() const override {
    TransportCaps caps;
    caps.usesRegions = true;
    return caps;
  }
  Status connect(const Digest &digest,
                 const std::vector<uint32_t> &peers) override {
    auto current = currentGpu();
    DTRT_RETURN_IF_ERROR(current);
    gpu = *current;
    return inner->connect(digest, peers);
  }
  Status
  prepareCollectives(const std::vector<std::vector<uint32_t>> &sets) override {
    return inner->prepareCollectives(sets);
  }
  Status warmUp() override { return inner->warmUp(); }
  Status group(const std::vector<TransportMessage> &messages) override {
    return inner->group(messages);
  }
  void abort(const Status &why) override { inner->abort(why); }
  void leave() override { inner->leave(); }

  Result<std::byte *> prepare(const Traffic &traffic) override;
  void start(std::function<Status()> enqueueAll) override {
    inner->start(std::move(enqueueAll));
  }
  Status enqueue(size_t group, const std::vector<TransportMessage> &messages,
                 GpuStream stream) override;
  Status enqueueCollective(size_t group, const CollectiveCall &call,
                           GpuStream stream) override;
  bool stopped() const override { return inner->stopped(); }
  Status await(size_t group, const std::function<bool()> &reached) override {
    return inner->await(2 * group, reached);
  }
  Status finish() override { return inner->finish(); }
  Status check() override;
  uint64_t leastBytesFor(const PlanCommon &common,
                         const RankProgram &program) const override {
    return inner->leastBytesFor(common, program);
  }
  bool capturable() const override { return inner->capturable(); }
  bool outlastsAbort() const override { return inner->outlastsAbort(); }
  void leakMemory() override {
    inner->leakMemory();
    rows = staged = nullptr;
  }
  ~GpuDigests() override {
    if (rows)
      memory.free(reinterpret_cast<std::byte *>(rows));
    if (staged)
      hostMemory.free(reinterpret_cast<std::byte *>(staged));
  }

private:
  void addGroup(const std::vector<MessageEnds> &messages);
  Status enqueueHashes(size_t group,
                       const std::vector<TransportMessage> &messages,
                       GpuStream stream);
  Status addRows(size_t group, const std::vector<TransportMessage> &messages,
                 GpuStream stream);
  Status compare(const TransportMessage &message, const Hashes &where,
                 const std::vector<RegionHash> &found) const;

  std::unique_ptr<StreamTransport> inner;
  int gpu = 0;
  Traffic inside; // ours, each group followed by that of its hashes
  std::vector<std::vector<Hashes>> places; // by group and message
  uint64_t first = 0, end = 0;             // bytes of the arena with hashes
  std::byte *arena = nullptr;

  MemorySource memory, hostMemory;
  HashRow *rows = nullptr;      // on the GPU, of all groups
  HashRow *staged = nullptr;    // of the host, which the GPU copies from
  std::vector<size_t> firstRow; // by group; and one more
  uint32_t blocks = 1;
  std::vector<std::vector<TransportMessage>> sent; // groups that were enqueued
};

/// A region at least, where nobody has told.
uint64_t hashesOf(const MessageEnds &message) {
  return std::max<uint64_t>(message.regions, 1);
}

void GpuDigests::addGroup(const std::vector<MessageEnds> &messages) {
  std::vector<MessageEnds> hashes;
  places.emplace_back();
  firstRow.push_back(firstRow.back());
  for (const MessageEnds &message : messages) {
    uint64_t bytes = hashesOf(message) * sizeof(RegionHash);
    Hashes place;
    place.own = end;
    end += bytes;
    if (message.receive) {
      place.other = end;
      end += bytes;
    }
    MessageEnds wave;
    wave.receive = message.receive;
    wave.peer = message.peer;
    wave.bytes = message.bytes > 0 ? bytes : 0;
    wave.own.slot = message.receive ? place.other : place.own;
    hashes.push_back(wave);
    places.back().push_back(place);
    firstRow.back() += hashesOf(message);
  }
  inside.groups.push_back(messages);
  inside.groups.push_back(std::move(hashes));
}

Result<std::byte *> GpuDigests::prepare(const Traffic &traffic) {
  first = end = (traffic.arenaBytes + kAlignment - 1) / kAlignment * kAlignment;
  firstRow = {0};
  for (const auto &group : traffic.groups)
    addGroup(group);
  for (const auto &[group, call] : traffic.calls)
    inside.calls[2 * group] = call;
  inside.arenaBytes = end;
  inside.knowsOtherSlots = false;
  sent.resize(traffic.groups.size());
  UseGpu use(gpu);
  auto grid = fullGrid(gpu);
  DTRT_RETURN_IF_ERROR(grid);
  blocks = std::max(1u, *grid / 4); // as copies beside a wave
  memory = gpuMemory(gpu);
  hostMemory = pinnedMemory();
  uint64_t bytes = firstRow.back() * sizeof(HashRow);
  if (bytes > 0) {
    rows = reinterpret_cast<HashRow *>(memory.allocate(bytes));
    staged = reinterpret_cast<HashRow *>(hostMemory.allocate(bytes));
    if (!rows || !staged)
      return makeError(ErrorCode::OutOfMemory, "cannot allocate ", bytes,
                       " bytes for a table of regions");
  }
  auto given = inner->prepare(inside);
  DTRT_RETURN_IF_ERROR(given);
  arena = *given;
  return given;
}

/// The regions of a group, and the launch that hashes them.
Status GpuDigests::addRows(size_t group,
                           const std::vector<TransportMessage> &messages,
                           GpuStream stream) {
  for (size_t m = 0; m < messages.size(); ++m) {
    const MessageRegions *regions = messages[m].regions;
    if (regions && regions->list.size() > hashesOf(inside.groups[2 * group][m]))
      return makeError("group ", group, " has more regions than were said");
  }
  uint64_t tiles = 0;
  size_t row = firstRow[group];
  for (size_t m = 0; m < messages.size(); ++m) {
    const TransportMessage &message = messages[m];
    auto *sum = reinterpret_cast<RegionHash *>(arena + places[group][m].own);
    const std::byte *data = message.data;
    auto add = [&](uint64_t bytes) {
      staged[row++] = {data, bytes, tiles, sum++};
      tiles += hashTilesOf(bytes);
      data += bytes;
    };
    if (!message.regions)
      add(message.bytes);
    else
      for (const MessageRegion &region : message.regions->list)
        add(region.bytes);
  }
  size_t count = row - firstRow[group];
  HashRow *there = rows + firstRow[group];
  DTRT_RETURN_IF_ERROR(cudaStatus(
      cudaMemcpyAsync(there, &staged[firstRow[group]], count * sizeof(HashRow),
                      cudaMemcpyDefault, stream),
      "cannot copy a table of regions"));
  return launchHashes(there, uint32_t(count), tiles, blocks, stream);
}

Status GpuDigests::enqueue(size_t group,
                           const std::vector<TransportMessage> &messages,
                           GpuStream stream) {
  DTRT_RETURN_IF_ERROR(inner->enqueue(2 * group, messages, stream));
  return enqueueHashes(group, messages, stream);
}

/// What a collective brings is compared as messages are.
Status GpuDigests::enqueueCollective(size_t group, const CollectiveCall &call,
                                     GpuStream stream) {
  DTRT_RETURN_IF_ERROR(inner->enqueueCollective(2 * group, call, stream));
  return enqueueHashes(group, *call.messages, stream);
}

Status GpuDigests::enqueueHashes(size_t group,
                                 const std::vector<TransportMessage> &messages,
                                 GpuStream stream) {
  sent[group] = messages;
  if (messages.empty())
    return {};
  const auto &own = places[group];
  std::byte *begin = arena + own.front().own;
  uint64_t bytes = 0;
  std::vector<TransportMessage> hashes;
  for (size_t m = 0; m < messages.size(); ++m) {
    const MessageEnds &ends = inside.groups[2 * group + 1][m];
    uint64_t one = hashesOf(inside.groups[2 * group][m]) * sizeof(RegionHash);
    bytes += ends.receive ? 2 * one : one;
    hashes.push_back(
        {ends.receive, ends.peer, arena + ends.own.slot, ends.bytes});
  }
  DTRT_RETURN_IF_ERROR(cudaStatus(cudaMemsetAsync(begin, 0, bytes, stream),
                                  "cannot set hashes to zero"));
  DTRT_RETURN_IF_ERROR(addRows(group, messages, stream));
  return inner->enqueue(2 * group + 1, hashes, stream);
}

Status GpuDigests::compare(const TransportMessage &message, const Hashes &where,
                           const std::vector<RegionHash> &found) const {
  const RegionHash *own = &found[(where.own - first) / sizeof(RegionHash)];
  const RegionHash *other = &found[(where.other - first) / sizeof(RegionHash)];
  size_t count = message.regions ? message.regions->list.size() : 1;
  uint64_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    uint64_t bytes =
        message.regions ? message.regions->list[i].bytes : message.bytes;
    if (!(own[i] == other[i]))
      return makeError(ErrorCode::System,
                       message.regions ? message.regions->name(i) + ": " : "",
                       "bytes [", at, ", ", at + bytes,
                       ") of the message from device ", message.peer,
                       " are not those that it sent");
    at += bytes;
  }
  return {};
}

Status GpuDigests::check() {
  DTRT_RETURN_IF_ERROR(inner->check());
  std::vector<RegionHash> found((end - first) / sizeof(RegionHash));
  if (found.empty())
    return {};
  DTRT_RETURN_IF_ERROR(gpuCopies(gpu)(
      reinterpret_cast<std::byte *>(found.data()), arena + first, end - first));
  for (size_t group = 0; group < sent.size(); ++group)
    for (size_t m = 0; m < sent[group].size(); ++m)
      if (sent[group][m].receive && sent[group][m].bytes > 0)
        DTRT_RETURN_IF_ERROR(compare(sent[group][m], places[group][m], found));
  return {};
}

} // namespace

std::unique_ptr<StreamTransport>
makeGpuDigestTransport(std::unique_ptr<StreamTransport> inner) {
  return std::make_unique<GpuDigests>(std::move(inner));
}

} // namespace dtrt
