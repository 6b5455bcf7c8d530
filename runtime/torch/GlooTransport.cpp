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
                const std::vector<uint32_t> &devices, Seconds timeout)
      : backend(std::move(backend)), devices(devices), timeout(timeout) {
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
  void abort(const Status &why) override;
  void leave() override {}

private:
  struct Pair {
    int rank = -1;
    int sent = 0;
    int received = 0;
  };
  using Work = c10::intrusive_ptr<c10d::Work>;

  Status post(const TransportMessage &message);
  Status await(const TransportMessage &message, Work &work);
  Status lost(const TransportMessage &message, const std::string &reason);
  Status postAll(const std::vector<TransportMessage> &messages);
  Status awaitAll();
  Status settle(const Status &status);

  c10::intrusive_ptr<c10d::Backend> backend;
  std::vector<uint32_t> devices; // by rank
  Seconds timeout;
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
                  const std::vector<uint32_t> &devices, Seconds timeout) {
  return std::make_unique<GlooTransport>(std::move(backend), devices, timeout);
}

} // namespace dtrt
