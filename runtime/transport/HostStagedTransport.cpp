//===- HostStagedTransport.cpp - GPU memory over a host's wire ------------===//

#include "dtrt/HostStagedTransport.h"

namespace dtrt {

namespace {

class HostStagedTransport : public Transport {
public:
  HostStagedTransport(std::unique_ptr<Transport> inner, CopyBytes copy)
      : inner(std::move(inner)), copy(std::move(copy)) {}

  uint32_t device() const override { return inner->device(); }
  TransportCaps caps() const override {
    TransportCaps caps;
    caps.comparesRegions = inner->caps().comparesRegions;
    return caps;
  }
  Status connect(const Digest &digest,
                 const std::vector<uint32_t> &peers) override {
    return inner->connect(digest, peers);
  }
  Status group(const std::vector<TransportMessage> &messages) override;
  void abort(const Status &why) override { inner->abort(why); }
  void leave() override { inner->leave(); }

private:
  std::unique_ptr<Transport> inner;
  CopyBytes copy;
  std::vector<std::byte> staging; // as large as the largest group so far
  std::vector<TransportMessage> staged;
};

Status
HostStagedTransport::group(const std::vector<TransportMessage> &messages) {
  uint64_t bytes = 0;
  for (const TransportMessage &message : messages)
    bytes += message.bytes;
  if (bytes > staging.size())
    staging.resize(bytes);
  staged = messages;
  std::byte *at = staging.data();
  for (TransportMessage &message : staged) {
    if (!message.receive)
      DTRT_RETURN_IF_ERROR(copy(at, message.data, message.bytes));
    message.data = at;
    at += message.bytes;
  }
  DTRT_RETURN_IF_ERROR(inner->group(staged));
  for (size_t i = 0; i < messages.size(); ++i)
    if (messages[i].receive)
      DTRT_RETURN_IF_ERROR(
          copy(messages[i].data, staged[i].data, messages[i].bytes));
  return {};
}

} // namespace

std::unique_ptr<Transport>
makeHostStagedTransport(std::unique_ptr<Transport> inner, CopyBytes copy) {
  return std::make_unique<HostStagedTransport>(std::move(inner),
                                               std::move(copy));
}

} // namespace dtrt
