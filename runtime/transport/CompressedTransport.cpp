//===- CompressedTransport.cpp - Slow links in fewer bytes ----------------===//
//
// A message of n blocks takes n + 1 groups of the transport within, its rounds:
// round 0 carries the length of block 0, round k the bytes of block k - 1 and,
// behind them, the length of block k. So each end knows how long the messages
// of a round are before it begins. A rank waits in round k of a wave only for
// ranks to get to that round, and these only for earlier waves and rounds: what
// could not hang before cannot now.
//
//===----------------------------------------------------------------------===//

#include "dtrt/transport/CompressedTransport.h"

#include "BlockCodec.h"

#include <array>
#include <cstring>
#include <set>

namespace dtrt {

namespace {

using Length = uint32_t;
static_assert(sizeof(Length) == Compression::kHeaderBytes);

/// Shorter messages cost more rounds than bytes.
constexpr uint64_t kLeastMessage = uint64_t(1) << 14;

/// One message, as its blocks go by.
class Stream {
public:
  Stream(const TransportMessage &message, uint64_t blockBytes,
         double bytesPerSecond)
      : message(message), runs(runsOf(message)),
        blocks((message.bytes + blockBytes - 1) / blockBytes),
        blockBytes(blockBytes), bytesPerSecond(bytesPerSecond) {}

  bool receives() const { return message.receive; }
  uint64_t numBlocks() const { return blocks; }
  uint64_t numFrames() const {
    return receives() ? Compression::kFramesIn : Compression::kFramesOut;
  }
  void setFrames(std::byte *first, uint64_t frameBytes) {
    for (uint64_t i = 0; i < numFrames(); ++i)
      frames[i] = first + i * frameBytes;
  }

  /// Whether a round has anything of this message.
  bool isIn(uint64_t round) const { return round <= blocks; }
  TransportMessage messageOf(uint64_t round) {
    TransportMessage out = message;
    out.regions = nullptr;
    out.view = nullptr;
    out.data = frame(round);
    out.bytes = payload(round) + header(round);
    if (!receives() && round < blocks)
      std::memcpy(out.data + payload(round), &lengthOf(round), sizeof(Length));
    return out;
  }
  /// Sender: before the round that announces it.
  void encode(uint64_t block, BlockCodec &codec) {
    lengthOf(block) = Length(codec.encode(message, runs, block * blockBytes,
                                          bytesPerSecond, frame(block + 1)));
  }
  /// Receiver: what the round has announced.
  Status readHeader(uint64_t round) {
    if (round >= blocks)
      return {};
    Length length = 0;
    std::memcpy(&length, frame(round) + payload(round), sizeof length);
    uint64_t most = std::min(blockBytes, message.bytes - round * blockBytes);
    if (length == 0 || length > most)
      return makeError(ErrorCode::System, "device ", message.peer,
                       " announces a block of ", length,
                       " bytes, expected 1 to ", most);
    lengthOf(round) = length;
    return {};
  }
  Status decode(uint64_t block, BlockCodec &codec) const {
    Status status = codec.decode(message, runs, block * blockBytes,
                                 frame(block + 1), lengths[block % 3]);
    return status.ok() ? status
                       : makeError(status, ", from device ", message.peer);
  }

private:
  /// Block k lies in the frame of round k + 1, which carries it.
  std::byte *frame(uint64_t round) const { return frames[round % numFrames()]; }
  Length &lengthOf(uint64_t block) { return lengths[block % 3]; }
  uint64_t payload(uint64_t round) const {
    return round == 0 ? 0 : lengths[(round - 1) % 3];
  }
  uint64_t header(uint64_t round) const {
    return round < blocks ? sizeof(Length) : 0;
  }

  TransportMessage message;
  std::vector<ElementRun> runs;
  uint64_t blocks, blockBytes;
  double bytesPerSecond;
  std::array<std::byte *, 3> frames = {};
  std::array<Length, 3> lengths = {};
};

class CompressedTransport : public Transport {
public:
  CompressedTransport(std::unique_ptr<Transport> inner, const Cluster &cluster,
                      const Compression &compression,
                      std::function<void(const CompressionReport &)> report)
      : inner(std::move(inner)), cluster(cluster), compression(compression),
        report(std::move(report)) {}

  uint32_t device() const override { return inner->device(); }
  TransportCaps caps() const override {
    TransportCaps caps = inner->caps();
    caps.usesRegions |= codec != nullptr;
    return caps;
  }
  Status connect(const Digest &digest,
                 const std::vector<uint32_t> &peers) override;
  Result<std::byte *> allocateArena(uint64_t bytes) override {
    return inner->allocateArena(bytes);
  }
  Status registerArena(std::byte *data, uint64_t bytes) override {
    return inner->registerArena(data, bytes);
  }
  Status warmUp() override { return inner->warmUp(); }
  Status begin(const std::vector<TransportMessage> &messages) override;
  Status end() override;
  Status group(const std::vector<TransportMessage> &messages) override {
    DTRT_RETURN_IF_ERROR(begin(messages));
    return end();
  }
  void abort(const Status &why) override { inner->abort(why); }
  void leave() override { inner->leave(); }

private:
  bool covers(uint32_t peer, bool receive) const {
    return receive ? compression.covers(cluster, peer, device())
                   : compression.covers(cluster, device(), peer);
  }
  Status findPeers(const std::vector<uint32_t> &peers);
  void open(const TransportMessage &message);
  void giveFrames();
  Status beginRound(uint64_t round);
  Status workBeside(uint64_t round);
  Status endRound(uint64_t round, const Status &worked);

  std::unique_ptr<Transport> inner;
  Cluster cluster;
  Compression compression;
  std::function<void(const CompressionReport &)> report;
  std::unique_ptr<BlockCodec> codec; // null: no link is compressed
  std::set<uint32_t> able;           // peers that have the codec
  std::vector<std::byte> frames;
  std::vector<Stream> streams;                 // of the group under way
  std::vector<TransportMessage> plain, posted; // likewise
};

/// Both ends say which codec they have; only those that agree use it.
Status CompressedTransport::findPeers(const std::vector<uint32_t> &peers) {
  std::vector<uint32_t> asked;
  for (uint32_t peer : peers)
    if (covers(peer, false) || covers(peer, true))
      asked.push_back(peer);
  if (asked.empty())
    return {};
  if (canCompress()) {
    auto made = BlockCodec::create(compression.blockBytes);
    DTRT_RETURN_IF_ERROR(made);
    codec = std::move(*made);
  }
  uint32_t mine = codecVersion();
  std::vector<uint32_t> theirs(asked.size());
  std::vector<TransportMessage> messages;
  for (size_t i = 0; i < asked.size(); ++i)
    for (bool receive : {false, true})
      messages.push_back(
          {receive, asked[i],
           reinterpret_cast<std::byte *>(receive ? &theirs[i] : &mine),
           sizeof mine});
  DTRT_RETURN_IF_ERROR(inner->group(messages));
  for (size_t i = 0; i < asked.size(); ++i)
    if (codec && theirs[i] == mine)
      able.insert(asked[i]);
  if (able.empty())
    codec.reset();
  if (codec)
    frames.resize(compression.framesPerDevice(cluster) *
                  compression.frameBytes());
  return {};
}

Status CompressedTransport::connect(const Digest &digest,
                                    const std::vector<uint32_t> &peers) {
  DTRT_RETURN_IF_ERROR(inner->connect(digest, peers));
  return findPeers(peers);
}

void CompressedTransport::open(const TransportMessage &message) {
  if (message.bytes < kLeastMessage || !able.count(message.peer) ||
      !covers(message.peer, message.receive))
    return plain.push_back(message);
  streams.emplace_back(message, compression.blockBytes,
                       cluster.bytesPerSecond(device(), message.peer));
}

/// The plan has room in its staging for those of its own groups.
void CompressedTransport::giveFrames() {
  uint64_t count = 0;
  for (const Stream &stream : streams)
    count += stream.numFrames();
  if (frames.size() < count * compression.frameBytes())
    frames.resize(count * compression.frameBytes());
  std::byte *next = frames.data();
  for (Stream &stream : streams) {
    stream.setFrames(next, compression.frameBytes());
    next += stream.numFrames() * compression.frameBytes();
  }
}

Status CompressedTransport::beginRound(uint64_t round) {
  posted.clear();
  if (round == 1)
    posted = plain;
  for (Stream &stream : streams)
    if (stream.isIn(round))
      posted.push_back(stream.messageOf(round));
  return inner->begin(posted);
}

/// While a round is on the wire: the block after the next, and the last one.
Status CompressedTransport::workBeside(uint64_t round) {
  Status status;
  for (Stream &stream : streams) {
    if (!stream.receives() && round + 1 < stream.numBlocks())
      stream.encode(round + 1, *codec);
    if (stream.receives() && status.ok() && round >= 2 &&
        round - 2 < stream.numBlocks())
      status = stream.decode(round - 2, *codec);
  }
  return status;
}

Status CompressedTransport::endRound(uint64_t round, const Status &worked) {
  if (!worked.ok())
    inner->abort(worked);
  Status ended = inner->end();
  DTRT_RETURN_IF_ERROR(worked);
  DTRT_RETURN_IF_ERROR(ended);
  for (Stream &stream : streams)
    if (stream.receives())
      DTRT_RETURN_IF_ERROR(stream.readHeader(round));
  return {};
}

/// Round 0 is over when it returns, round 1 is on the wire.
Status
CompressedTransport::begin(const std::vector<TransportMessage> &messages) {
  streams.clear();
  plain.clear();
  for (const TransportMessage &message : messages)
    open(message);
  if (streams.empty())
    return inner->begin(messages);
  giveFrames();
  for (Stream &stream : streams)
    if (!stream.receives())
      stream.encode(0, *codec);
  DTRT_RETURN_IF_ERROR(beginRound(0));
  Status status = workBeside(0);
  DTRT_RETURN_IF_ERROR(endRound(0, status));
  return beginRound(1);
}

Status CompressedTransport::end() {
  if (streams.empty())
    return inner->end();
  uint64_t last = 0;
  for (const Stream &stream : streams)
    last = std::max(last, stream.numBlocks());
  for (uint64_t round = 1; round <= last; ++round) {
    if (round > 1)
      DTRT_RETURN_IF_ERROR(beginRound(round));
    Status status = workBeside(round);
    DTRT_RETURN_IF_ERROR(endRound(round, status));
  }
  DTRT_RETURN_IF_ERROR(workBeside(last + 1));
  if (report)
    report(codec->report());
  return {};
}

} // namespace

bool canCompress() { return codecVersion() > 0; }

std::unique_ptr<Transport>
makeCompressedTransport(std::unique_ptr<Transport> inner,
                        const Cluster &cluster, const Compression &compression,
                        std::function<void(const CompressionReport &)> report) {
  return std::make_unique<CompressedTransport>(std::move(inner), cluster,
                                               compression, std::move(report));
}

} // namespace dtrt
