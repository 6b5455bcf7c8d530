//===- StreamEnd.cpp - Groups of the contract as one-sided waves ----------===//

#include "StreamEnd.h"

#include "Stream.h"

#include <algorithm>
#include <cstring>

namespace dtrt::test {

namespace {

/// The largest message of the contract, and a little more.
constexpr uint64_t kSlotBytes = (uint64_t(1) << 20) + 64;

class StreamEnd : public Transport {
public:
  StreamEnd(StreamTransport &inner, std::vector<uint32_t> devices, int gpu)
      : inner(inner), devices(std::move(devices)), gpu(gpu) {}
  ~StreamEnd() override { stream.leak(); } // the stand-in's, with its machine

  uint32_t device() const override { return inner.device(); }
  Status connect(const Digest &digest,
                 const std::vector<uint32_t> &peers) override;
  Status group(const std::vector<TransportMessage> &messages) override;
  Status
  prepareCollectives(const std::vector<std::vector<uint32_t>> &sets) override {
    return inner.prepareCollectives(sets);
  }
  Status collective(const CollectiveCall &call) override {
    return inner.collective(call);
  }
  void abort(const Status &why) override { inner.abort(why); }
  void leave() override { inner.leave(); }

private:
  size_t indexOf(uint32_t of) const {
    auto at = std::find(devices.begin(), devices.end(), of);
    return size_t(at - devices.begin());
  }
  uint64_t slotOf(uint32_t peer, bool receive) const {
    return (2 * indexOf(peer) + receive) * kSlotBytes;
  }
  /// A bit for each message that a group may have.
  size_t bitOf(uint32_t peer, bool receive) const {
    return size_t(1) << (2 * indexOf(peer) + receive);
  }
  std::vector<MessageEnds> groupOf(size_t set) const;
  Status runWave(size_t set);

  StreamTransport &inner;
  const std::vector<uint32_t> devices;
  const int gpu;
  Stream stream;
  std::byte *arena = nullptr;
};

std::vector<MessageEnds> StreamEnd::groupOf(size_t set) const {
  std::vector<MessageEnds> group;
  for (uint32_t peer : devices)
    for (bool receive : {false, true}) {
      if (peer == device() || !(set & bitOf(peer, receive)))
        continue;
      MessageEnds ends;
      ends.receive = receive;
      ends.peer = peer;
      ends.bytes = kSlotBytes;
      ends.own.slot = slotOf(peer, receive);
      ends.other.slot = slotOf(device(), !receive);
      group.push_back(ends);
    }
  return group;
}

Status StreamEnd::connect(const Digest &digest,
                          const std::vector<uint32_t> &peers) {
  DTRT_RETURN_IF_ERROR(inner.connect(digest, peers));
  Traffic traffic;
  traffic.arenaBytes = 2 * devices.size() * kSlotBytes;
  for (size_t set = 0; set < size_t(1) << (2 * devices.size()); ++set)
    traffic.groups.push_back(groupOf(set));
  auto given = inner.prepare(traffic);
  DTRT_RETURN_IF_ERROR(given);
  arena = *given;
  UseGpu use(gpu);
  DTRT_RETURN_IF_ERROR(stream.create(Urgency::Most));
  DTRT_RETURN_IF_ERROR(inner.warmUp());
  return inner.outlastsAbort() ? Status() : makeError("pairs instead of puts");
}

Status StreamEnd::runWave(size_t set) {
  UseGpu use(gpu);
  inner.start([this, set] {
    std::vector<TransportMessage> messages;
    for (const MessageEnds &ends : groupOf(set))
      messages.push_back(
          {ends.receive, ends.peer, arena + ends.own.slot, ends.bytes});
    return inner.enqueue(set, messages, stream.get());
  });
  DTRT_RETURN_IF_ERROR(inner.finish());
  return inner.await(set, [this] {
    auto idle = stream.idle();
    return !idle.ok() || *idle;
  });
}

Status StreamEnd::group(const std::vector<TransportMessage> &messages) {
  size_t set = 0;
  for (const TransportMessage &message : messages) {
    if (message.bytes > kSlotBytes)
      return makeError("a message of ", message.bytes, " bytes");
    set |= bitOf(message.peer, message.receive);
    if (!message.receive && message.bytes > 0)
      memcpy(arena + slotOf(message.peer, false), message.data, message.bytes);
  }
  DTRT_RETURN_IF_ERROR(runWave(set));
  for (const TransportMessage &message : messages)
    if (message.receive && message.bytes > 0)
      memcpy(message.data, arena + slotOf(message.peer, true), message.bytes);
  return {};
}

} // namespace

std::unique_ptr<Transport>
makeStreamEnd(StreamTransport &inner, std::vector<uint32_t> devices, int gpu) {
  return std::make_unique<StreamEnd>(inner, std::move(devices), gpu);
}

} // namespace dtrt::test
