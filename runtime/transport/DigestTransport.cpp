//===- DigestTransport.cpp - Messages compared on arrival -----------------===//

#include "dtrt/DigestTransport.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace dtrt {

namespace {

XXH128_hash_t digestOf(const TransportMessage &message) {
  return XXH3_128bits(message.data, size_t(message.bytes));
}

class DigestTransport : public Transport {
public:
  explicit DigestTransport(std::unique_ptr<Transport> inner)
      : inner(std::move(inner)) {}

  uint32_t device() const override { return inner->device(); }
  Status connect(const Digest &digest,
                 const std::vector<uint32_t> &peers) override {
    return inner->connect(digest, peers);
  }
  Status registerArena(std::byte *data, uint64_t bytes) override {
    return inner->registerArena(data, bytes);
  }
  void abort(const Status &why) override { inner->abort(why); }
  void leave() override { inner->leave(); }

  Status group(const std::vector<TransportMessage> &messages) override {
    DTRT_RETURN_IF_ERROR(inner->group(messages));
    digests.resize(messages.size());
    digestMessages.resize(messages.size());
    for (size_t i = 0; i < messages.size(); ++i) {
      if (!messages[i].receive)
        digests[i] = digestOf(messages[i]);
      digestMessages[i] = {messages[i].receive, messages[i].peer,
                           reinterpret_cast<std::byte *>(&digests[i]),
                           sizeof digests[i], nullptr};
    }
    DTRT_RETURN_IF_ERROR(inner->group(digestMessages));
    for (size_t i = 0; i < messages.size(); ++i)
      if (messages[i].receive &&
          !XXH128_isEqual(digests[i], digestOf(messages[i])))
        return makeError("the ", messages[i].bytes, " bytes from device ",
                         messages[i].peer, " are not those that it sent");
    return {};
  }

private:
  std::unique_ptr<Transport> inner;
  std::vector<XXH128_hash_t> digests;
  std::vector<TransportMessage> digestMessages;
};

} // namespace

std::unique_ptr<Transport>
makeDigestTransport(std::unique_ptr<Transport> inner) {
  return std::make_unique<DigestTransport>(std::move(inner));
}

} // namespace dtrt
