//===- TransportsTest.cpp - The contract of the host's transports ---------===//

#include "BorrowedTransport.h"
#include "TransportContract.h"

#include "dtrt/transport/AdversarialTransport.h"
#include "dtrt/transport/CompressedTransport.h"
#include "dtrt/transport/DigestTransport.h"
#include "dtrt/transport/HostStagedTransport.h"
#include "dtrt/transport/LoopbackTransport.h"
#include "dtrt/transport/SharedMemoryTransport.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

using namespace dtrt;
using namespace dtrt::test;

namespace {

/// A world whose ends are its own.
template <typename World> class Owned : public TransportWorld {
public:
  template <typename... Arguments>
  explicit Owned(Arguments &&...arguments)
      : world(std::forward<Arguments>(arguments)...) {}
  Transport &endpoint(uint32_t device) override {
    return world.endpoint(device);
  }

private:
  World world;
};

/// Works while the rank does: until `end` the messages' memory is its own. What
/// is received looks wrong until then, what is sent must stay as it was.
class Split : public Borrowed {
public:
  explicit Split(std::unique_ptr<Transport> inner)
      : Borrowed(*inner), owned(std::move(inner)) {}
  TransportCaps caps() const override {
    TransportCaps caps;
    caps.overlaps = true;
    return caps;
  }
  Status begin(const std::vector<TransportMessage> &messages) override {
    underWay = messages;
    before.clear();
    for (const TransportMessage &message : messages) {
      if (message.receive)
        memset(message.data, 0xee, message.bytes);
      before.emplace_back(message.data, message.data + message.bytes);
    }
    return {};
  }
  Status end() override {
    for (size_t i = 0; i < underWay.size(); ++i)
      if (memcmp(underWay[i].data, before[i].data(), before[i].size()) != 0)
        return makeError("memory of a message was written while it was under "
                         "way");
    return group(underWay);
  }

private:
  std::unique_ptr<Transport> owned;
  std::vector<TransportMessage> underWay;
  std::vector<std::vector<std::byte>> before;
};

using Wrap = std::unique_ptr<Transport> (*)(std::unique_ptr<Transport>);

/// Loopback with a transport around each end.
class Wrapped : public TransportWorld {
public:
  Wrapped(const std::vector<uint32_t> &devices, Wrap wrap) : world(devices) {
    for (uint32_t device : devices)
      ends[device] = wrap(std::make_unique<Borrowed>(world.endpoint(device)));
  }
  Transport &endpoint(uint32_t device) override { return *ends.at(device); }

private:
  LoopbackWorld world;
  std::map<uint32_t, std::unique_ptr<Transport>> ends;
};

template <Wrap wrap> TransportCase wrapped(const char *name) {
  return {name, [](const std::vector<uint32_t> &devices, double) {
            return std::make_unique<Wrapped>(devices, wrap);
          }};
}

std::unique_ptr<Transport> digests(std::unique_ptr<Transport> inner) {
  return makeDigestTransport(std::move(inner));
}

std::unique_ptr<Transport> staged(std::unique_ptr<Transport> inner) {
  return makeHostStagedTransport(
      std::move(inner),
      [](std::byte *to, const std::byte *from, uint64_t bytes) -> Status {
        memcpy(to, from, bytes);
        return {};
      });
}

std::unique_ptr<Transport> split(std::unique_ptr<Transport> inner) {
  return std::make_unique<Split>(std::move(inner));
}

/// All links are slow, and work on while the codec does.
std::unique_ptr<Transport> compressed(std::unique_ptr<Transport> inner) {
  Cluster cluster;
  cluster.devicesPerNode = 1;
  cluster.interNodeGBps = 1e-6;
  return makeCompressedTransport(split(std::move(inner)), cluster,
                                 {1, Compression::kLeastBlock});
}

/// A rank is a thread here: all are on one host.
class OneHost : public TransportWorld {
public:
  OneHost(const std::vector<uint32_t> &devices, double timeoutSeconds)
      : world(devices), secret(*Secret::make()) {
    for (uint32_t device : devices)
      ends[device] = makeSharedMemoryTransport(
          std::make_unique<Borrowed>(world.endpoint(device)), devices, secret,
          std::chrono::duration<double>(timeoutSeconds));
  }
  Transport &endpoint(uint32_t device) override { return *ends.at(device); }

private:
  LoopbackWorld world;
  const Secret secret;
  std::map<uint32_t, std::unique_ptr<Transport>> ends;
};

/// Half of the peers do not read this rank's shards: to these it packs.
class PartlyRead : public Borrowed {
public:
  explicit PartlyRead(Transport &inner) : Borrowed(inner) {}
  TransportCaps caps() const override {
    TransportCaps caps = inner.caps();
    auto isBlind = [&](uint32_t peer) { return (peer + device()) % 2 == 0; };
    caps.readBy.erase(
        std::remove_if(caps.readBy.begin(), caps.readBy.end(), isBlind),
        caps.readBy.end());
    return caps;
  }
  Status shareShards(const std::vector<uint64_t> &places) override {
    return inner.shareShards(places);
  }
  const ShardPlaces *placesOf(uint32_t peer) const override {
    return inner.placesOf(peer);
  }
  Result<std::byte *> allocateArena(uint64_t bytes) override {
    return inner.allocateArena(bytes);
  }
  Status registerArena(std::byte *data, uint64_t bytes) override {
    return inner.registerArena(data, bytes);
  }
  Status begin(const std::vector<TransportMessage> &messages) override {
    return inner.begin(messages);
  }
  Status end() override { return inner.end(); }
};

class PartlyReadHost : public TransportWorld {
public:
  PartlyReadHost(const std::vector<uint32_t> &devices, double timeoutSeconds)
      : host(devices, timeoutSeconds) {
    for (uint32_t device : devices)
      ends.emplace(device, host.endpoint(device));
  }
  Transport &endpoint(uint32_t device) override { return ends.at(device); }

private:
  OneHost host;
  std::map<uint32_t, PartlyRead> ends;
};

std::unique_ptr<TransportWorld>
makePartlyRead(const std::vector<uint32_t> &devices, double timeoutSeconds) {
  return std::make_unique<PartlyReadHost>(devices, timeoutSeconds);
}

std::unique_ptr<TransportWorld>
makeOneHost(const std::vector<uint32_t> &devices, double timeoutSeconds) {
  return std::make_unique<OneHost>(devices, timeoutSeconds);
}

std::unique_ptr<TransportWorld>
makeLoopback(const std::vector<uint32_t> &devices, double) {
  return std::make_unique<Owned<LoopbackWorld>>(devices);
}

std::unique_ptr<TransportWorld>
makeAdversarial(const std::vector<uint32_t> &devices, double) {
  Adversary adversary;
  adversary.cutProbability = 0.3;
  return std::make_unique<Owned<AdversarialWorld>>(
      devices, /*perNode=*/2u, adversary, uint64_t(std::random_device()()));
}

} // namespace

INSTANTIATE_TEST_SUITE_P(
    Host, TransportContract,
    testing::Values(TransportCase{"loopback", makeLoopback},
                    TransportCase{"adversarial", makeAdversarial,
                                  /*comparesPlans=*/false},
                    TransportCase{"shared_memory", makeOneHost},
                    TransportCase{"shared_memory_partly_read", makePartlyRead},
                    wrapped<digests>("loopback_digests"),
                    wrapped<split>("loopback_split"),
                    wrapped<compressed>("loopback_compressed"),
                    wrapped<staged>("loopback_host_staged")),
    caseName);
