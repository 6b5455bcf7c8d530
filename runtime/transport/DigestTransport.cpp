//===- DigestTransport.cpp - Messages compared on arrival -----------------===//

#include "dtrt/transport/DigestTransport.h"

#include "dtrt/core/MessageRegions.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace dtrt {

namespace {

size_t regionsIn(const TransportMessage &message) {
  return message.regions ? message.regions->list.size() : 1;
}

/// Calls visit(region, first byte, bytes) for each.
template <typename Visit>
void forEachRegion(const TransportMessage &message, Visit visit) {
  if (!message.regions)
    return visit(0, 0, message.bytes);
  uint64_t at = 0;
  for (size_t i = 0; i < message.regions->list.size(); ++i) {
    uint64_t bytes = message.regions->list[i].bytes;
    visit(i, at, bytes);
    at += bytes;
  }
}

Status differs(const TransportMessage &message, size_t region, uint64_t at,
               uint64_t bytes) {
  std::string where;
  if (message.regions)
    where = message.regions->name(region) + ", bytes [" + std::to_string(at) +
            ", " + std::to_string(at + bytes) + ") of the message: ";
  return makeError(ErrorCode::System, where, "the ", bytes,
                   " bytes from device ", message.peer,
                   " are not those that it sent");
}

class DigestTransport : public Transport {
public:
  explicit DigestTransport(std::unique_ptr<Transport> inner)
      : inner(std::move(inner)) {}

  uint32_t device() const override { return inner->device(); }
  TransportCaps caps() const override {
    TransportCaps caps;
    caps.usesRegions = true;
    return caps;
  }
  Status connect(const Digest &digest,
                 const std::vector<uint32_t> &peers) override {
    return inner->connect(digest, peers);
  }
  Result<std::byte *> allocateArena(uint64_t bytes) override {
    return inner->allocateArena(bytes);
  }
  Status registerArena(std::byte *data, uint64_t bytes) override {
    return inner->registerArena(data, bytes);
  }
  Status warmUp() override { return inner->warmUp(); }
  void abort(const Status &why) override { inner->abort(why); }
  void leave() override { inner->leave(); }

  Status
  prepareCollectives(const std::vector<std::vector<uint32_t>> &sets) override {
    return inner->prepareCollectives(sets);
  }
  Status collective(const CollectiveCall &call) override {
    DTRT_RETURN_IF_ERROR(inner->collective(call));
    return checkDigests(*call.messages);
  }

  Status group(const std::vector<TransportMessage> &messages) override {
    DTRT_RETURN_IF_ERROR(inner->group(messages));
    return checkDigests(messages);
  }

private:
  Status checkDigests(const std::vector<TransportMessage> &messages) {
    DTRT_RETURN_IF_ERROR(exchangeDigests(messages));
    const XXH128_hash_t *sent = digests.data();
    for (const TransportMessage &message : messages) {
      if (message.receive)
        DTRT_RETURN_IF_ERROR(compare(message, sent));
      sent += regionsIn(message);
    }
    return {};
  }

  Status exchangeDigests(const std::vector<TransportMessage> &messages) {
    size_t count = 0;
    for (const TransportMessage &message : messages)
      count += regionsIn(message);
    digests.resize(count);
    digestMessages.clear();
    XXH128_hash_t *next = digests.data();
    for (const TransportMessage &message : messages) {
      if (!message.receive)
        forEachRegion(message, [&](size_t i, uint64_t at, uint64_t bytes) {
          next[i] = XXH3_128bits(message.data + at, size_t(bytes));
        });
      digestMessages.push_back({message.receive, message.peer,
                                reinterpret_cast<std::byte *>(next),
                                regionsIn(message) * sizeof *next});
      next += regionsIn(message);
    }
    return inner->group(digestMessages);
  }

  static Status compare(const TransportMessage &message,
                        const XXH128_hash_t *sent) {
    Status status;
    forEachRegion(message, [&](size_t i, uint64_t at, uint64_t bytes) {
      if (status.ok() &&
          !XXH128_isEqual(sent[i],
                          XXH3_128bits(message.data + at, size_t(bytes))))
        status = differs(message, i, at, bytes);
    });
    return status;
  }

  std::unique_ptr<Transport> inner;
  // As large as the largest group so far.
  std::vector<XXH128_hash_t> digests;
  std::vector<TransportMessage> digestMessages;
};

} // namespace

std::unique_ptr<Transport>
makeDigestTransport(std::unique_ptr<Transport> inner) {
  return std::make_unique<DigestTransport>(std::move(inner));
}

} // namespace dtrt
