//===- CompressedTransport.cpp - Slow links in fewer bytes ----------------===//
//
// A message of n blocks takes n + 1 groups of the transport within, its rounds:
// round 0 carries the length of block 0, round k the bytes of block k - 1 and,
// behind them, the length of block k. So each end knows how long the messages
// of a round are before it begins. A rank waits in round k of a wave only for
// ranks to get to that round, and these only for earlier waves and rounds: what
// could not hang before cannot now.
//
// Where nothing of a message pays, round 0 says so, and round 1 carries all of
// it as it is. What it holds is settled then for this pair, which both ends
// know by the same rule: later messages of nothing else take no rounds at all,
// so that a link that turns out fast is as fast as without.
//
//===----------------------------------------------------------------------===//

#include "dtrt/transport/CompressedTransport.h"

#include "BlockCodec.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

namespace dtrt {

namespace {

using Length = uint32_t;
static_assert(sizeof(Length) == Compression::kHeaderBytes);
/// In place of block 0's: the message follows as it is.
constexpr Length kAsItIs = UINT32_MAX;
static_assert(Compression::kMostBlock < kAsItIs);

/// Shorter messages cost more rounds than bytes.
constexpr uint64_t kLeastMessage = uint64_t(1) << 14;

/// One message, as its blocks go by.
class Stream {
public:
  Stream(const TransportMessage &message, std::vector<ElementRun> runs,
         BlockCodec &codec, double bytesPerSecond)
      : message(message), runs(std::move(runs)), codec(&codec),
        blocks((message.bytes + codec.blockBytes() - 1) / codec.blockBytes()),
        bytesPerSecond(bytesPerSecond) {}

  bool receives() const { return message.receive; }
  /// It is one block, which is the message itself.
  bool goesAsItIs() const { return asItIs; }
  uint32_t peer() const { return message.peer; }
  const std::vector<ElementRun> &elements() const { return runs; }
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
    if (asItIs && round == 1)
      return out;
    out.onHost = true;
    out.data = frame(round);
    out.bytes = payload(round) + header(round);
    if (!receives() && round < blocks)
      std::memcpy(out.data + payload(round), &lengthOf(round), sizeof(Length));
    return out;
  }
  /// Sender: before round 0.
  Status choose() {
    auto pays = codec->paysOn(bytesPerSecond, message, runs);
    DTRT_RETURN_IF_ERROR(pays);
    if (*pays)
      return encode(0);
    codec->countRaw(runs);
    setAsItIs();
    return {};
  }
  /// Sender: before the round that announces it.
  Status encode(uint64_t block) {
    auto length = codec->encode(message, runs, block * codec->blockBytes(),
                                bytesPerSecond, frame(block + 1));
    DTRT_RETURN_IF_ERROR(length);
    lengthOf(block) = Length(*length);
    return {};
  }
  /// Receiver: what the round has announced.
  Status readHeader(uint64_t round) {
    if (round >= blocks || asItIs)
      return {};
    Length length = 0;
    std::memcpy(&length, frame(round) + payload(round), sizeof length);
    if (round == 0 && length == kAsItIs) {
      setAsItIs();
      return {};
    }
    uint64_t most = codec->bytesAt(message, round * codec->blockBytes());
    if (length == 0 || length > most)
      return makeError(ErrorCode::System, "device ", message.peer,
                       " announces a block of ", length,
                       " bytes, expected 1 to ", most);
    lengthOf(round) = length;
    return {};
  }
  Status decode(uint64_t block) const {
    Status status = codec->decode(message, runs, block * codec->blockBytes(),
                                  frame(block + 1), lengths[block % 3]);
    return status.ok() ? status
                       : makeError(status, ", from device ", message.peer);
  }

private:
  void setAsItIs() {
    asItIs = true;
    blocks = 1;
    lengthOf(0) = kAsItIs;
  }
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
  BlockCodec *codec;
  uint64_t blocks;
  double bytesPerSecond;
  bool asItIs = false;
  std::array<std::byte *, 3> frames = {};
  std::array<Length, 3> lengths = {};
};

/// What need not be asked of a pair any more, one way.
class SettledStates {
public:
  /// The message has gone as it is, so that nothing of it pays. Of a run that
  /// was too short to be measured, that is said of short runs alone.
  void add(const Stream &stream, const BlockCodec &codec) {
    Pair &pair = pairs[{stream.peer(), stream.receives()}];
    for (const ElementRun &run : stream.elements())
      (codec.isMeasured(run) ? pair.all : pair.shortOnes).insert(run.key);
  }
  /// Whether no run of a message need be asked for.
  bool have(const TransportMessage &message,
            const std::vector<ElementRun> &runs,
            const BlockCodec &codec) const {
    auto found = pairs.find({message.peer, message.receive});
    if (found == pairs.end())
      return false;
    const Pair &pair = found->second;
    return std::all_of(runs.begin(), runs.end(), [&](const ElementRun &run) {
      return BlockCodec::isTooShort(run) || pair.all.count(run.key) > 0 ||
             (!codec.isMeasured(run) && pair.shortOnes.count(run.key) > 0);
    });
  }

private:
  struct Pair {
    std::set<StateKey> all, shortOnes;
  };
  std::map<std::pair<uint32_t, bool>, Pair> pairs; // by peer, whether it sends
};

class CompressedTransport : public Transport {
public:
  CompressedTransport(std::unique_ptr<Transport> inner, const Cluster &cluster,
                      const Compression &compression,
                      std::function<void(const CompressionReport &)> report,
                      CodecMemory memory)
      : inner(std::move(inner)), cluster(cluster), compression(compression),
        report(std::move(report)), memory(std::move(memory)) {}

  uint32_t device() const override { return inner->device(); }
  TransportCaps caps() const override {
    TransportCaps caps = inner->caps();
    caps.usesRegions |= !able.empty();
    return caps;
  }
  Status connect(const Digest &digest,
                 const std::vector<uint32_t> &peers) override;
  Status shareShards(const std::vector<uint64_t> &places) override {
    return inner->shareShards(places);
  }
  const ShardPlaces *placesOf(uint32_t peer) const override {
    return inner->placesOf(peer);
  }
  Result<std::byte *> allocateArena(uint64_t bytes) override {
    return inner->allocateArena(bytes);
  }
  Status registerArena(std::byte *data, uint64_t bytes) override {
    return inner->registerArena(data, bytes);
  }
  Status warmUp() override { return inner->warmUp(); }
  /// A library's collectives travel as they are.
  Status
  prepareCollectives(const std::vector<std::vector<uint32_t>> &sets) override {
    return inner->prepareCollectives(sets);
  }
  Status collective(const CollectiveCall &call) override {
    return inner->collective(call);
  }
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
  /// What a rank says of its codecs: the version of each, 0 for none.
  struct Codecs {
    uint8_t zstd = 0, memory = 0;
  };
  bool mayCompress(const TransportCaps &caps, uint32_t peer) const {
    return (covers(peer, false) || covers(peer, true)) &&
           !caps.isOnSameHost(peer);
  }
  Result<Codecs> makeCodecs();
  Status findPeers(const std::vector<uint32_t> &peers);
  Status open(const TransportMessage &message);
  void giveFrames();
  Status beginRound(uint64_t round);
  Status workBeside(uint64_t round);
  Status endRound(uint64_t round, const Status &worked);
  void tell() const;

  std::unique_ptr<Transport> inner;
  Cluster cluster;
  Compression compression;
  std::function<void(const CompressionReport &)> report;
  CodecMemory memory;
  std::unique_ptr<BlockCodec> onHost, inMemory; // null: there is none
  std::map<uint32_t, BlockCodec *> able;        // of peers that have the same
  SettledStates settled;
  std::vector<std::byte> frames;
  std::vector<Stream> streams;                 // of the group under way
  std::vector<TransportMessage> plain, posted; // likewise
};

Result<CompressedTransport::Codecs> CompressedTransport::makeCodecs() {
  Codecs mine;
  uint64_t block = compression.blockBytes;
  if (canCompress()) {
    auto made = StateCodec::create(size_t(block));
    DTRT_RETURN_IF_ERROR(made);
    onHost = std::make_unique<BlockCodec>(block, std::move(*made), memory.copy,
                                          /*reachesMessages=*/!memory.copy);
    mine.zstd = zstdCodecVersion();
  }
  if (!memory.makeCodec)
    return mine;
  // A codec that cannot be made is one that is not there.
  auto made =
      memory.makeCodec(size_t(block), compression.bytesPerDevice(cluster));
  if (made.ok()) {
    inMemory = std::make_unique<BlockCodec>(
        block, std::move(*made), memory.copy, /*reachesMessages=*/true);
    mine.memory = memory.codecVersion;
  }
  return mine;
}

/// Both ends say which codecs they have; they use one that both have.
Status CompressedTransport::findPeers(const std::vector<uint32_t> &peers) {
  std::vector<uint32_t> asked;
  TransportCaps caps = inner->caps();
  for (uint32_t peer : peers)
    if (mayCompress(caps, peer))
      asked.push_back(peer);
  if (asked.empty())
    return {};
  auto made = makeCodecs();
  DTRT_RETURN_IF_ERROR(made);
  Codecs mine = *made;
  std::vector<Codecs> theirs(asked.size());
  std::vector<TransportMessage> messages;
  for (size_t i = 0; i < asked.size(); ++i)
    for (bool receive : {false, true}) {
      auto *words = reinterpret_cast<std::byte *>(receive ? &theirs[i] : &mine);
      messages.push_back({receive, asked[i], words, sizeof mine});
      messages.back().onHost = true;
    }
  DTRT_RETURN_IF_ERROR(inner->group(messages));
  for (size_t i = 0; i < asked.size(); ++i)
    if (mine.memory != 0 && theirs[i].memory == mine.memory)
      able[asked[i]] = inMemory.get();
    else if (mine.zstd != 0 && theirs[i].zstd == mine.zstd)
      able[asked[i]] = onHost.get();
  if (!able.empty())
    frames.resize(compression.framesPerDevice(cluster) *
                  compression.frameBytes());
  return {};
}

Status CompressedTransport::connect(const Digest &digest,
                                    const std::vector<uint32_t> &peers) {
  DTRT_RETURN_IF_ERROR(inner->connect(digest, peers));
  return findPeers(peers);
}

Status CompressedTransport::open(const TransportMessage &message) {
  auto codec = able.find(message.peer);
  if (message.bytes < kLeastMessage || codec == able.end() ||
      !covers(message.peer, message.receive)) {
    plain.push_back(message);
    return {};
  }
  std::vector<ElementRun> runs = runsOf(message);
  if (settled.have(message, runs, *codec->second)) {
    plain.push_back(message);
    if (!message.receive)
      codec->second->countRaw(runs);
    return {};
  }
  double rate = message.receive
                    ? cluster.bytesPerSecond(message.peer, device())
                    : cluster.bytesPerSecond(device(), message.peer);
  streams.emplace_back(message, std::move(runs), *codec->second, rate);
  return {};
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
    if (stream.goesAsItIs() || !status.ok())
      continue;
    if (!stream.receives() && round + 1 < stream.numBlocks())
      status = stream.encode(round + 1);
    if (stream.receives() && round >= 2 && round - 2 < stream.numBlocks())
      status = stream.decode(round - 2);
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
    DTRT_RETURN_IF_ERROR(open(message));
  if (streams.empty())
    return inner->begin(messages);
  giveFrames();
  for (Stream &stream : streams)
    if (!stream.receives())
      DTRT_RETURN_IF_ERROR(stream.choose());
  DTRT_RETURN_IF_ERROR(beginRound(0));
  Status status = workBeside(0);
  DTRT_RETURN_IF_ERROR(endRound(0, status));
  for (const Stream &stream : streams)
    if (stream.goesAsItIs())
      settled.add(stream, *able.at(stream.peer()));
  return beginRound(1);
}

void CompressedTransport::tell() const {
  if (!report || able.empty())
    return;
  CompressionReport all;
  for (const auto *codec : {onHost.get(), inMemory.get()})
    if (codec)
      for (const auto &[name, state] : codec->report().states) {
        all.states[name].rawBytes += state.rawBytes;
        all.states[name].sentBytes += state.sentBytes;
      }
  report(all);
}

Status CompressedTransport::end() {
  if (streams.empty()) {
    DTRT_RETURN_IF_ERROR(inner->end());
    tell();
    return {};
  }
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
  tell();
  return {};
}

} // namespace

bool canCompress() { return zstdCodecVersion() > 0; }

std::unique_ptr<Transport>
makeCompressedTransport(std::unique_ptr<Transport> inner,
                        const Cluster &cluster, const Compression &compression,
                        std::function<void(const CompressionReport &)> report,
                        CodecMemory memory) {
  return std::make_unique<CompressedTransport>(std::move(inner), cluster,
                                               compression, std::move(report),
                                               std::move(memory));
}

} // namespace dtrt
