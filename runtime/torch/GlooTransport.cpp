//===- GlooTransport.cpp - Messages over a c10d backend -------------------===//

#include "GlooTransport.h"

#include "C10dStore.h"

#include <map>
#include <mutex>

namespace dtrt {

namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

bool isTimeout(const std::string &reason) {
  return reason.find("imed out") != std::string::npos ||
         reason.find("imeout") != std::string::npos;
}

class GlooTransport : public Transport {
public:
  GlooTransport(c10::intrusive_ptr<c10d::Backend> backend,
                const std::vector<uint32_t> &devices, Seconds timeout,
                SplitBackend split)
      : backend(std::move(backend)), devices(devices), timeout(timeout),
        split(std::move(split)) {
    for (uint32_t rank = 0; rank < devices.size(); ++rank)
      pairs[devices[rank]].rank = int(rank);
  }

  uint32_t device() const override { return devices[backend->getRank()]; }
  Status connect(const Digest &digest,
                 const std::vector<uint32_t> &peers) override;
  Status group(const std::vector<TransportMessage> &messages) override;
  TransportCaps caps() const override {
    TransportCaps caps;
    caps.overlaps = true;
    return caps;
  }
  Status begin(const std::vector<TransportMessage> &messages) override;
  Status end() override;
  Status
  prepareCollectives(const std::vector<std::vector<uint32_t>> &sets) override;
  Status collective(const CollectiveCall &call) override;
  void abort(const Status &why) override;
  void leave() override {}

private:
  struct Pair {
    int rank = -1;
    int sent = 0;
    int received = 0;
  };
  using Work = c10::intrusive_ptr<c10d::Work>;

  /// Ranks that do collectives together.
  struct MemberSet {
    std::vector<uint32_t> devices;
    c10::intrusive_ptr<c10d::Backend> backend; // null: this is none of them
  };

  Status makeBackend(uint32_t number, MemberSet &set);
  Work start(const MemberSet &set, const CollectiveCall &call) const;
  Status awaitCall(const MemberSet &set, Work work);
  Status lost(const MemberSet &set, const std::string &reason);
  Status post(const TransportMessage &message);
  Status await(const TransportMessage &message, Work &work);
  Status lost(const TransportMessage &message, const std::string &reason);
  Status postAll(const std::vector<TransportMessage> &messages);
  Status awaitAll();
  Status settle(const Status &status);

  c10::intrusive_ptr<c10d::Backend> backend;
  std::vector<uint32_t> devices; // by rank
  Seconds timeout;
  SplitBackend split;
  std::vector<MemberSet> memberSets;
  std::map<uint32_t, Pair> pairs;       // by device
  std::vector<TransportMessage> posted; // of the group under way
  Clock::time_point deadline;           // of its end
  std::mutex mutex;                     // of what follows
  std::vector<Work> works;
  std::optional<Status> aborted;
};

Status GlooTransport::lost(const TransportMessage &message,
                           const std::string &reason) {
  std::ostringstream peer;
  peer << "rank " << pairs[message.peer].rank << " (device " << message.peer
       << ") while " << (message.receive ? "receiving " : "sending ")
       << message.bytes << " bytes";
  if (isTimeout(reason))
    return makeError(ErrorCode::Timeout, "no answer within ", timeout.count(),
                     " s from ", peer.str());
  return makeError(ErrorCode::PeerLost,
                   GoneRanks{{uint32_t(pairs[message.peer].rank)}}, "lost ",
                   peer.str(), ": ", reason);
}

Status GlooTransport::post(const TransportMessage &message) {
  Pair &pair = pairs[message.peer];
  std::vector<at::Tensor> tensors = {
      at::from_blob(message.data, {int64_t(message.bytes)}, at::kByte)};
  try {
    Work work = message.receive
                    ? backend->recv(tensors, pair.rank, pair.received++)
                    : backend->send(tensors, pair.rank, pair.sent++);
    std::lock_guard<std::mutex> lock(mutex);
    works.push_back(std::move(work));
  } catch (const std::exception &error) {
    return lost(message, reasonOf(error));
  }
  return {};
}

Status GlooTransport::await(const TransportMessage &message, Work &work) {
  auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now());
  std::string reason = "the operation was aborted";
  try {
    // Zero would mean no limit.
    if (work->wait(std::max(left, Milliseconds(1))))
      return {};
  } catch (const std::exception &error) {
    reason = reasonOf(error);
  }
  std::lock_guard<std::mutex> lock(mutex);
  if (aborted)
    return *aborted;
  return lost(message, reason);
}

Status GlooTransport::postAll(const std::vector<TransportMessage> &messages) {
  deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout);
  posted.clear();
  for (bool receive : {true, false})
    for (const TransportMessage &message : messages)
      if (message.receive == receive && message.bytes > 0) {
        DTRT_RETURN_IF_ERROR(post(message));
        posted.push_back(message);
      }
  return {};
}

Status GlooTransport::awaitAll() {
  for (size_t i = 0; i < posted.size(); ++i) {
    Work work;
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (aborted)
        return *aborted;
      work = works[i];
    }
    DTRT_RETURN_IF_ERROR(await(posted[i], work));
  }
  return {};
}

/// Lets go of the buffers.
Status GlooTransport::settle(const Status &status) {
  std::vector<Work> done;
  std::lock_guard<std::mutex> lock(mutex);
  done.swap(works);
  return status;
}

Status GlooTransport::begin(const std::vector<TransportMessage> &messages) {
  Status status = postAll(messages);
  return status.ok() ? status : settle(status);
}

Status GlooTransport::end() { return settle(awaitAll()); }

Status GlooTransport::group(const std::vector<TransportMessage> &messages) {
  DTRT_RETURN_IF_ERROR(begin(messages));
  return end();
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

Status GlooTransport::lost(const MemberSet &set, const std::string &reason) {
  std::ostringstream members;
  for (uint32_t member : set.devices)
    members << (member == set.devices.front() ? "" : ", ") << member;
  if (isTimeout(reason))
    return makeError(ErrorCode::Timeout, "a collective of devices ",
                     members.str(), " has not ended within ", timeout.count(),
                     " s");
  return makeError(ErrorCode::PeerLost, "a collective of devices ",
                   members.str(), " failed: ", reason);
}

Status GlooTransport::makeBackend(uint32_t number, MemberSet &set) {
  std::vector<int> ranks;
  bool isMember = false;
  for (uint32_t member : set.devices) {
    auto known = pairs.find(member);
    if (known == pairs.end())
      return makeError("device ", member, " of member set ", number,
                       " is not in this world");
    ranks.push_back(known->second.rank);
    isMember |= known->second.rank == backend->getRank();
  }
  if (!isMember)
    return {};
  try {
    set.backend = split(number, ranks);
  } catch (const std::exception &error) {
    return lost(set, reasonOf(error));
  }
  return {};
}

/// One after the other, in one order on all ranks: whoever is in several sets
/// keeps none of the others waiting for ever.
Status GlooTransport::prepareCollectives(
    const std::vector<std::vector<uint32_t>> &sets) {
  if (!sets.empty() && !split)
    return Transport::prepareCollectives(sets);
  memberSets.clear();
  for (uint32_t number = 0; number < sets.size(); ++number)
    DTRT_RETURN_IF_ERROR(makeBackend(
        number, memberSets.emplace_back(MemberSet{sets[number], {}})));
  return {};
}

GlooTransport::Work GlooTransport::start(const MemberSet &set,
                                         const CollectiveCall &call) const {
  auto members = int64_t(set.devices.size());
  auto block = int64_t(call.blockBytes);
  auto tensor = [](std::byte *data, int64_t bytes) {
    return at::from_blob(data, {bytes}, at::kByte);
  };
  switch (call.kind) {
  case CollectiveKind::Broadcast: {
    std::vector<at::Tensor> one = {
        tensor(call.give ? call.give : call.get, block)};
    c10d::BroadcastOptions options;
    options.rootRank =
        std::lower_bound(set.devices.begin(), set.devices.end(), call.root) -
        set.devices.begin();
    return set.backend->broadcast(one, options);
  }
  case CollectiveKind::AllGather: {
    at::Tensor all = tensor(call.get, members * block);
    at::Tensor own = tensor(call.give, block);
    return set.backend->_allgather_base(all, own);
  }
  case CollectiveKind::AllToAll: {
    at::Tensor got = tensor(call.get, members * block);
    at::Tensor given = tensor(call.give, members * block);
    std::vector<int64_t> even; // blocks of one size
    return set.backend->alltoall_base(got, given, even, even);
  }
  }
  return {};
}

Status GlooTransport::awaitCall(const MemberSet &set, Work work) {
  std::string reason = "the operation was aborted";
  try {
    if (work->wait(std::chrono::ceil<Milliseconds>(timeout)))
      return {};
  } catch (const std::exception &error) {
    reason = reasonOf(error);
  }
  std::lock_guard<std::mutex> lock(mutex);
  return aborted ? *aborted : lost(set, reason);
}

Status GlooTransport::collective(const CollectiveCall &call) {
  const MemberSet &set = memberSets[call.members];
  Work work;
  try {
    work = start(set, call);
    std::lock_guard<std::mutex> lock(mutex);
    if (aborted)
      return *aborted;
    works.push_back(work);
  } catch (const std::exception &error) {
    return lost(set, reasonOf(error));
  }
  return settle(awaitCall(set, std::move(work)));
}

void GlooTransport::abort(const Status &why) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!aborted)
    aborted = why;
  for (Work &work : works)
    try {
      work->abort();
    } catch (const std::exception &) {
      // A work that has ended needs no abort.
    }
}

/// A first exchange with every peer: shows who cannot be reached, or has
/// another plan, before the transfer depends on it.
Status GlooTransport::connect(const Digest &digest,
                              const std::vector<uint32_t> &peers) {
  Digest mine = digest;
  std::vector<Digest> theirs(peers.size());
  std::vector<TransportMessage> messages;
  for (size_t i = 0; i < peers.size(); ++i)
    for (bool receive : {false, true})
      messages.push_back(
          {receive, peers[i],
           reinterpret_cast<std::byte *>(receive ? &theirs[i] : &mine),
           sizeof mine, nullptr});
  DTRT_RETURN_IF_ERROR(group(messages));
  for (size_t i = 0; i < peers.size(); ++i)
    if (theirs[i] != digest)
      return makeError(ErrorCode::Mismatch, "rank ", pairs[peers[i]].rank,
                       " (device ", peers[i], ") has plan ",
                       digestText(theirs[i]), ", this one has ",
                       digestText(digest));
  return {};
}

} // namespace

std::unique_ptr<Transport>
makeGlooTransport(c10::intrusive_ptr<c10d::Backend> backend,
                  const std::vector<uint32_t> &devices, Seconds timeout,
                  SplitBackend split) {
  return std::make_unique<GlooTransport>(std::move(backend), devices, timeout,
                                         std::move(split));
}

} // namespace dtrt
