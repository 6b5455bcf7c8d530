//===- SharedMemoryTransport.cpp - Messages inside a host -----------------===//

#include "dtrt/transport/SharedMemoryTransport.h"

#include "dtrt/transport/SharedPages.h"

#include "LocalHandshake.h"
#include "LocalLink.h"
#include "PeerPages.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

namespace dtrt {

namespace {

using Clock = std::chrono::steady_clock;
using Timeout = std::chrono::duration<double>;

/// What peers tell each other first, over the transport within.
struct Hello {
  HostIdentity host = {};
  SocketName socket = {};
};

/// This rank's staging, where peers can map it.
class SharedArena {
public:
  ~SharedArena() {
    if (start)
      munmap(start, bytes);
  }

  /// Null where the system refuses: the caller has memory of its own then.
  std::byte *allocate(uint64_t size) {
    file = Descriptor(
        memfd_create("dynatrain-staging", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file || ftruncate(file.get(), off_t(size)) != 0)
      return nullptr;
    void *mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_POPULATE, file.get(), 0);
    if (mapped == MAP_FAILED)
      return nullptr;
    if (!sealSharedMemory(file)) {
      munmap(mapped, size);
      return nullptr;
    }
    start = static_cast<std::byte *>(mapped);
    bytes = size;
    return start;
  }

  bool isAt(const std::byte *data) const { return start && start == data; }
  int descriptor() const { return file.get(); }
  uint64_t size() const { return bytes; }
  /// Where memory lies in it.
  std::optional<uint64_t> offsetOf(const std::byte *data,
                                   uint64_t length) const {
    if (!start || data < start || data + length > start + bytes)
      return std::nullopt;
    return uint64_t(data - start);
  }

private:
  Descriptor file;
  std::byte *start = nullptr;
  uint64_t bytes = 0;
};

class SharedMemoryTransport : public Transport {
public:
  SharedMemoryTransport(std::unique_ptr<Transport> inner,
                        const std::vector<uint32_t> &devices,
                        const Secret &secret, Timeout timeout)
      : inner(std::move(inner)), timeout(timeout), secret(secret),
        wake(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    for (uint32_t rank = 0; rank < devices.size(); ++rank)
      ranks[devices[rank]] = rank;
  }

  uint32_t device() const override { return inner->device(); }
  TransportCaps caps() const override;
  Status connect(const Digest &digest,
                 const std::vector<uint32_t> &peers) override;
  Result<std::byte *> allocateArena(uint64_t bytes) override {
    if (links.empty())
      return nullptr;
    return arena.allocate(bytes);
  }
  Status shareShards(const std::vector<uint64_t> &places) override;
  const ShardPlaces *placesOf(uint32_t peer) const override {
    auto found = peerPages.find(peer);
    return found == peerPages.end() ? nullptr : &found->second.places();
  }
  Status registerArena(std::byte *data, uint64_t bytes) override;
  Status begin(const std::vector<TransportMessage> &messages) override;
  Status end() override;
  Status group(const std::vector<TransportMessage> &messages) override {
    DTRT_RETURN_IF_ERROR(begin(messages));
    return end();
  }
  /// A library's collective has no use for links.
  Status
  prepareCollectives(const std::vector<std::vector<uint32_t>> &sets) override {
    return inner->prepareCollectives(sets);
  }
  Status collective(const CollectiveCall &call) override {
    DTRT_RETURN_IF_ERROR(enter());
    return leaveGroup(inner->collective(call));
  }
  void abort(const Status &why) override;
  void leave() override;

private:
  using Peers = std::vector<uint32_t>;

  Status exchange(const Peers &peers, const std::vector<Hello> &mine,
                  std::vector<Hello> &theirs);
  Result<Peers> peersHere(LocalHandshake &handshake, const Peers &peers,
                          std::vector<Hello> &theirs);
  Status linkTo(LocalHandshake &handshake, const Peers &near,
                const std::vector<Hello> &theirs);
  Status shakeHands(LocalHandshake &handshake);
  std::string nameOf(uint32_t device) const;
  Status waitForParcel(const Descriptor &socket, Parcel &parcel);
  Status exchangePages(const std::vector<uint64_t> &places);
  SentFrom placeOf(const TransportMessage &message) const;
  Status post(const std::vector<TransportMessage> &messages);
  Status awaitLinks();
  Status await();
  Status await(const Descriptor &socket) {
    polled = {{socket.get(), POLLIN, 0}};
    return await();
  }
  Status enter();
  Status leaveGroup(const Status &status);
  void tellPeers();
  void setDeadline() {
    deadline =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout);
  }

  std::unique_ptr<Transport> inner;
  Timeout timeout;
  const Secret secret;
  std::map<uint32_t, uint32_t> ranks; // by device
  Descriptor wake;                    // readable once aborted
  SharedArena arena;
  std::map<uint32_t, LocalLink> links; // by device
  std::map<uint32_t, PeerPages> peerPages;
  Peers readBy;
  Clock::time_point deadline;
  std::vector<TransportMessage> far; // of the group under way
  std::vector<LocalLink *> near;     // likewise, with messages left
  std::vector<pollfd> polled;        // what is waited for
  std::mutex mutex;                  // of what follows
  bool busy = false;                 // the streams are the group's
  std::optional<Status> aborted;
};

//===----------------------------------------------------------------------===//
// Who is here
//===----------------------------------------------------------------------===//

Status SharedMemoryTransport::exchange(const Peers &peers,
                                       const std::vector<Hello> &mine,
                                       std::vector<Hello> &theirs) {
  std::vector<TransportMessage> messages;
  for (size_t i = 0; i < peers.size(); ++i)
    for (bool receive : {false, true}) {
      const Hello *hello = receive ? &theirs[i] : &mine[i];
      messages.push_back(
          {receive, peers[i],
           reinterpret_cast<std::byte *>(const_cast<Hello *>(hello)),
           sizeof *hello});
    }
  return inner->group(messages);
}

/// Those with whom this rank may share memory; empty where nothing listens.
Result<SharedMemoryTransport::Peers>
SharedMemoryTransport::peersHere(LocalHandshake &handshake, const Peers &peers,
                                 std::vector<Hello> &theirs) {
  Hello mine;
  if (auto name = handshake.listen(peers.size()); name.ok() && wake) {
    mine.socket = *name;
    mine.host = hostIdentity();
  }
  std::vector<Hello> all(peers.size(), mine);
  DTRT_RETURN_IF_ERROR(exchange(peers, all, theirs));
  Peers near;
  std::vector<Hello> nearHellos;
  for (size_t i = 0; i < peers.size(); ++i)
    if (mine.host[0] && theirs[i].host == mine.host) {
      near.push_back(peers[i]);
      nearHellos.push_back(theirs[i]);
    }
  theirs = std::move(nearHellos);
  return near;
}

std::string SharedMemoryTransport::nameOf(uint32_t device) const {
  return "rank " + std::to_string(ranks.at(device)) + " (device " +
         std::to_string(device) + ")";
}

/// The lower device of a pair connects. A second exchange tells the other
/// whether it could, so that both ends agree on what goes where.
Status SharedMemoryTransport::linkTo(LocalHandshake &handshake,
                                     const Peers &near,
                                     const std::vector<Hello> &theirs) {
  std::vector<Hello> mine(near.size()), answers(near.size());
  for (size_t i = 0; i < near.size(); ++i) {
    bool connects = near[i] > device();
    if (!connects || handshake.connect(near[i], theirs[i].socket).ok())
      mine[i].host[0] = 1;
  }
  DTRT_RETURN_IF_ERROR(exchange(near, mine, answers));
  for (size_t i = 0; i < near.size(); ++i)
    if (near[i] < device() && answers[i].host[0])
      handshake.expect(near[i]);
  return shakeHands(handshake);
}

TransportCaps SharedMemoryTransport::caps() const {
  TransportCaps caps;
  caps.overlaps = true;
  caps.usesRegions = inner->caps().usesRegions;
  for (const auto &[peer, link] : links)
    caps.unpacksFrom.push_back(peer);
  caps.sameHost = caps.unpacksFrom;
  for (const auto &[peer, pages] : peerPages)
    caps.readsFrom.push_back(peer);
  caps.readBy = readBy;
  return caps;
}

Status SharedMemoryTransport::shakeHands(LocalHandshake &handshake) {
  while (true) {
    DTRT_RETURN_IF_ERROR(handshake.progress());
    if (handshake.done())
      break;
    polled.clear();
    handshake.addTo(polled);
    DTRT_RETURN_IF_ERROR(await());
  }
  for (auto &[peer, socket] : handshake.takeLinks())
    links.emplace(peer, LocalLink(nameOf(peer), std::move(socket),
                                  GoneRanks{{ranks.at(peer)}}));
  return {};
}

Status SharedMemoryTransport::connect(const Digest &digest,
                                      const Peers &peers) {
  DTRT_RETURN_IF_ERROR(inner->connect(digest, peers));
  if (peers.empty())
    return {};
  setDeadline();
  LocalHandshake handshake(device(), secret);
  std::vector<Hello> theirs(peers.size());
  auto near = peersHere(handshake, peers, theirs);
  DTRT_RETURN_IF_ERROR(near);
  DTRT_RETURN_IF_ERROR(enter());
  return leaveGroup(linkTo(handshake, *near, theirs));
}

Status SharedMemoryTransport::waitForParcel(const Descriptor &socket,
                                            Parcel &parcel) {
  for (;;) {
    auto got = receiveParcel(socket);
    DTRT_RETURN_IF_ERROR(got);
    if (*got) {
      parcel = std::move(**got);
      return {};
    }
    DTRT_RETURN_IF_ERROR(await(socket));
  }
}

/// Every rank hands its pages to its links, or says that it has none, and says
/// whose it can read. Where the system refuses to map them, messages are
/// packed.
Status
SharedMemoryTransport::exchangePages(const std::vector<uint64_t> &places) {
  SharedTable table(places);
  for (auto &[peer, link] : links)
    DTRT_RETURN_IF_ERROR(
        sendParcel(link.socket(), table.offset(), table.descriptor()));
  for (auto &[peer, link] : links) {
    Parcel parcel;
    DTRT_RETURN_IF_ERROR(waitForParcel(link.socket(), parcel));
    if (parcel.attached) {
      auto pages = PeerPages::map(parcel);
      if (pages.ok())
        link.readPages(
            peerPages.emplace(peer, std::move(*pages)).first->second.places());
      else if (!pages.status().is(ErrorCode::System))
        return makeError(pages.status().code(), nameOf(peer), ": ",
                         pages.status().message());
    }
    DTRT_RETURN_IF_ERROR(sendParcel(link.socket(), peerPages.count(peer), -1));
  }
  for (auto &[peer, link] : links) {
    Parcel answer;
    DTRT_RETURN_IF_ERROR(waitForParcel(link.socket(), answer));
    if (answer.number)
      readBy.push_back(peer);
  }
  return {};
}

Status SharedMemoryTransport::shareShards(const std::vector<uint64_t> &places) {
  DTRT_RETURN_IF_ERROR(inner->shareShards(places));
  DTRT_RETURN_IF_ERROR(enter());
  setDeadline();
  return leaveGroup(exchangePages(places));
}

/// Every rank hands its arena to its links, or says that it has none.
Status SharedMemoryTransport::registerArena(std::byte *data, uint64_t bytes) {
  DTRT_RETURN_IF_ERROR(inner->registerArena(data, bytes));
  DTRT_RETURN_IF_ERROR(enter());
  setDeadline();
  bool shared = arena.isAt(data);
  Status status;
  for (auto &[peer, link] : links)
    if (status.ok())
      status = sendParcel(link.socket(), shared ? arena.size() : 0,
                          shared ? arena.descriptor() : -1);
  for (auto &[peer, link] : links) {
    if (!status.ok())
      break;
    Parcel parcel;
    status = waitForParcel(link.socket(), parcel);
    if (!status.ok())
      break;
    status = link.mapPeerArena(parcel);
  }
  return leaveGroup(status);
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

/// Between `enter` and `leaveGroup` no other thread writes to the links.
Status SharedMemoryTransport::enter() {
  std::lock_guard<std::mutex> lock(mutex);
  if (aborted)
    return *aborted;
  busy = true;
  return {};
}

Status SharedMemoryTransport::leaveGroup(const Status &status) {
  std::lock_guard<std::mutex> lock(mutex);
  busy = false;
  near.clear();
  if (aborted)
    tellPeers();
  return aborted && !status.ok() ? *aborted : status;
}

/// Waits for events of `polled`, for an abort or for the deadline.
Status SharedMemoryTransport::await() {
  polled.push_back({wake.get(), POLLIN, 0});
  auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  int ready = poll(polled.data(), nfds_t(polled.size()),
                   int(std::max<int64_t>(left.count(), 0)));
  bool stopped = polled.back().revents != 0;
  polled.pop_back();
  if (stopped)
    return makeError(ErrorCode::Cancelled, "aborted");
  if (ready == 0 && Clock::now() >= deadline)
    return near.empty() ? makeError(ErrorCode::Timeout,
                                    "no answer from a process of this host "
                                    "within ",
                                    timeout.count(), " s")
                        : near.front()->timedOut(timeout);
  return {};
}

/// Where a message lies that its receiver can copy.
SentFrom SharedMemoryTransport::placeOf(const TransportMessage &message) const {
  if (message.receive || message.view)
    return {};
  if (auto at = arena.offsetOf(message.data, message.bytes))
    return {SentFrom::Arena, *at};
  if (std::binary_search(readBy.begin(), readBy.end(), message.peer))
    if (auto at =
            SharedPages::ofProcess().offsetOf(message.data, message.bytes))
      return {SentFrom::Pages, *at};
  return {};
}

Status
SharedMemoryTransport::post(const std::vector<TransportMessage> &messages) {
  far.clear();
  for (const TransportMessage &message : messages) {
    auto link = links.find(message.peer);
    if (link == links.end()) {
      far.push_back(message);
      continue;
    }
    if (message.bytes == 0)
      continue;
    link->second.post(message, placeOf(message));
    if (std::find(near.begin(), near.end(), &link->second) == near.end())
      near.push_back(&link->second);
  }
  for (LocalLink *link : near)
    DTRT_RETURN_IF_ERROR(link->progress());
  return {};
}

Status
SharedMemoryTransport::begin(const std::vector<TransportMessage> &messages) {
  DTRT_RETURN_IF_ERROR(enter());
  setDeadline();
  Status status = post(messages);
  if (status.ok() && !far.empty())
    status = inner->begin(far);
  return status.ok() ? status : leaveGroup(status);
}

Status SharedMemoryTransport::awaitLinks() {
  for (;;) {
    near.erase(std::remove_if(near.begin(), near.end(),
                              [](LocalLink *link) { return link->done(); }),
               near.end());
    if (near.empty())
      return {};
    polled.clear();
    for (LocalLink *link : near)
      polled.push_back({link->socket().get(), link->events(), 0});
    DTRT_RETURN_IF_ERROR(await());
    for (size_t i = 0; i < polled.size(); ++i)
      if (polled[i].revents)
        DTRT_RETURN_IF_ERROR(near[i]->progress());
  }
}

Status SharedMemoryTransport::end() {
  Status status = awaitLinks();
  if (!far.empty()) {
    if (!status.ok())
      inner->abort(status);
    Status ended = inner->end();
    if (status.ok())
      status = ended;
  }
  return leaveGroup(status);
}

//===----------------------------------------------------------------------===//
// Ends
//===----------------------------------------------------------------------===//

/// With the mutex held, and no group under way.
void SharedMemoryTransport::tellPeers() {
  for (auto &[peer, link] : links)
    link.sayAborted(aborted->message());
}

void SharedMemoryTransport::abort(const Status &why) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (aborted)
      return;
    aborted = why;
    uint64_t one = 1;
    (void)!write(wake.get(), &one, sizeof one);
    if (!busy)
      tellPeers();
  }
  inner->abort(why);
}

void SharedMemoryTransport::leave() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    links.clear();
  }
  inner->leave();
}

} // namespace

std::unique_ptr<Transport> makeSharedMemoryTransport(
    std::unique_ptr<Transport> inner, const std::vector<uint32_t> &devices,
    const Secret &secret, std::chrono::duration<double> timeout) {
  return std::make_unique<SharedMemoryTransport>(std::move(inner), devices,
                                                 secret, timeout);
}

} // namespace dtrt
