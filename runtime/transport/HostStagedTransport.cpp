//===- HostStagedTransport.cpp - GPU memory over a host's wire ------------===//

#include "dtrt/transport/HostStagedTransport.h"
#include "dtrt/core/MemorySource.h"

namespace dtrt {

namespace {

class HostStagedTransport : public Transport {
public:
  HostStagedTransport(std::unique_ptr<Transport> inner, CopyBytes copy,
                      MemorySource memory)
      : inner(std::move(inner)), copy(std::move(copy)),
        memory(std::move(memory)), staging(nullptr, this->memory.free) {}

  uint32_t device() const override { return inner->device(); }
  TransportCaps caps() const override {
    TransportCaps caps;
    caps.usesRegions = inner->caps().usesRegions;
    caps.sameHost = inner->caps().sameHost;
    return caps;
  }
  Status connect(const Digest &digest,
                 const std::vector<uint32_t> &peers) override {
    return inner->connect(digest, peers);
  }
  /// Staged messages of a group take no more than the arena.
  Status registerArena(std::byte *data, uint64_t bytes) override {
    return reserve(data ? bytes : 0);
  }
  Status warmUp() override { return inner->warmUp(); }
  Status group(const std::vector<TransportMessage> &messages) override {
    DTRT_RETURN_IF_ERROR(begin(messages));
    return end();
  }
  Status begin(const std::vector<TransportMessage> &messages) override;
  Status end() override;
  Status
  prepareCollectives(const std::vector<std::vector<uint32_t>> &sets) override {
    memberSets = sets;
    return inner->prepareCollectives(sets);
  }
  Status collective(const CollectiveCall &call) override;
  void abort(const Status &why) override { inner->abort(why); }
  void leave() override { inner->leave(); }

private:
  Status reserve(uint64_t bytes) {
    if (bytes <= size)
      return {};
    staging.reset(); // before there is more
    staging.reset(memory.allocate(bytes));
    size = staging ? bytes : 0;
    return staging ? Status()
                   : makeError("cannot allocate ", bytes,
                               " bytes to stage messages in");
  }

  std::unique_ptr<Transport> inner;
  CopyBytes copy;
  MemorySource memory;
  std::unique_ptr<std::byte, std::function<void(std::byte *)>> staging;
  uint64_t size = 0;                           // as the largest group so far
  std::vector<TransportMessage> given, staged; // of the group under way
  std::vector<std::vector<uint32_t>> memberSets;
};

Status
HostStagedTransport::begin(const std::vector<TransportMessage> &messages) {
  uint64_t bytes = 0;
  for (const TransportMessage &message : messages)
    bytes += message.onHost ? 0 : message.bytes;
  DTRT_RETURN_IF_ERROR(reserve(bytes));
  given = staged = messages;
  std::byte *at = staging.get();
  for (TransportMessage &message : staged) {
    if (message.onHost)
      continue;
    if (!message.receive)
      DTRT_RETURN_IF_ERROR(copy(at, message.data, message.bytes));
    message.data = at;
    at += message.bytes;
  }
  return inner->begin(staged);
}

Status HostStagedTransport::end() {
  DTRT_RETURN_IF_ERROR(inner->end());
  for (size_t i = 0; i < given.size(); ++i)
    if (given[i].receive && !given[i].onHost)
      DTRT_RETURN_IF_ERROR(copy(given[i].data, staged[i].data, given[i].bytes));
  return {};
}

/// All blocks are staged.
Status HostStagedTransport::collective(const CollectiveCall &call) {
  size_t members = memberSets[call.members].size();
  bool isRoot = call.root == device();
  uint64_t given = call.blockBytes * blocksGiven(call.kind, members, isRoot);
  uint64_t got = call.blockBytes * blocksGot(call.kind, members, isRoot);
  DTRT_RETURN_IF_ERROR(reserve(given + got));
  CollectiveCall onHost = call;
  onHost.give = given > 0 ? staging.get() : nullptr;
  onHost.get = got > 0 ? staging.get() + given : nullptr;
  if (given > 0)
    DTRT_RETURN_IF_ERROR(copy(onHost.give, call.give, given));
  DTRT_RETURN_IF_ERROR(inner->collective(onHost));
  return got > 0 ? copy(call.get, onHost.get, got) : Status();
}

} // namespace

std::unique_ptr<Transport>
makeHostStagedTransport(std::unique_ptr<Transport> inner, CopyBytes copy,
                        MemorySource staging) {
  return std::make_unique<HostStagedTransport>(
      std::move(inner), std::move(copy), std::move(staging));
}

} // namespace dtrt
