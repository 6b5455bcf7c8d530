//===- GpuLoopbackWorld.cpp - Devices that are threads, on GPUs -----------===//
//
// A sender offers its messages behind what is on its stream; the receiver's
// stream waits for that, copies, and the sender's stream waits for the copy.
// The host only brings the two together.
//
//===----------------------------------------------------------------------===//

#include "dtrt/cuda/GpuLoopbackWorld.h"
#include "dtrt/core/MemorySource.h"
#include "dtrt/cuda/GpuMemory.h"

#include "Stream.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

namespace dtrt {

namespace {

/// One message, from its sender to the end of the receiver's copy.
struct Offer {
  const std::byte *data = nullptr;
  uint64_t bytes = 0;
  std::shared_ptr<Event> ready; // the bytes are there
  std::shared_ptr<Event> taken; // and have been read: set by the receiver
};

Result<std::shared_ptr<Event>> recordOn(cudaStream_t stream) {
  auto event = std::make_shared<Event>();
  DTRT_RETURN_IF_ERROR(event->create());
  DTRT_RETURN_IF_ERROR(event->record(stream));
  return event;
}

} // namespace

struct GpuLoopbackWorld::State {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t changes = 0;
  std::map<std::pair<uint32_t, uint32_t>, std::deque<std::shared_ptr<Offer>>>
      offers; // by sender and receiver
  std::map<uint32_t, std::unique_ptr<Endpoint>> ends;
  std::map<uint32_t, uint64_t> waiting; // devices, since which change
  size_t running = 0;                   // devices
  Status stopped;

  using Lock = std::unique_lock<std::mutex>;

  void change() {
    ++changes;
    changed.notify_all();
  }

  /// Until done(); fails when the world was stopped, or nothing is left that
  /// could make it true.
  template <typename Done>
  Status wait(Lock &lock, uint32_t device, const std::string &what, Done done) {
    while (stopped.ok() && !done()) {
      waiting[device] = changes;
      if (allWait()) {
        stopped = makeError("all devices wait for each other: device ", device,
                            " waits ", what);
        change();
      } else {
        changed.wait(lock);
      }
    }
    waiting.erase(device);
    return stopped;
  }

  bool allWait() const {
    if (waiting.size() < running)
      return false;
    for (const auto &[device, since] : waiting)
      if (since != changes)
        return false;
    return true;
  }
};

class GpuLoopbackWorld::Endpoint : public StreamTransport {
public:
  Endpoint(GpuLoopbackWorld::State &world, uint32_t device)
      : world(world), self(device) {}
  ~Endpoint() override {
    if (arena)
      memory.free(arena);
  }

  uint32_t device() const override { return self; }
  Status connect(const Digest &, const std::vector<uint32_t> &) override {
    auto current = currentGpu();
    DTRT_RETURN_IF_ERROR(current);
    gpu = *current;
    memory = gpuMemory(gpu);
    UseGpu use(gpu);
    return own.create();
  }
  Status group(const std::vector<TransportMessage> &messages) override {
    UseGpu use(gpu);
    Status status = exchange(messages, own.get());
    Status ended = own.synchronize(); // in any case
    return status.ok() ? ended : status;
  }
  void abort(const Status &why) override {
    std::lock_guard<std::mutex> lock(world.mutex);
    if (world.stopped.ok())
      world.stopped = why;
    world.change();
  }
  void leave() override {
    std::lock_guard<std::mutex> lock(world.mutex);
    world.running -= !left;
    left = true;
    world.change();
  }

  Result<std::byte *> prepare(const Traffic &traffic) override {
    if (traffic.arenaBytes == 0)
      return nullptr;
    arena = memory.allocate(traffic.arenaBytes);
    if (!arena)
      return makeError(ErrorCode::OutOfMemory, "cannot allocate ",
                       traffic.arenaBytes, " bytes of staging");
    return arena;
  }
  void start(std::function<Status()> enqueueAll) override {
    enqueued = enqueueAll();
  }
  Status enqueue(size_t, const std::vector<TransportMessage> &messages,
                 GpuStream stream) override {
    return exchange(messages, stream);
  }
  /// What a collective brings are messages here.
  Status
  prepareCollectives(const std::vector<std::vector<uint32_t>> &) override {
    return {};
  }
  Status collective(const CollectiveCall &call) override {
    return group(*call.messages);
  }
  Status enqueueCollective(size_t, const CollectiveCall &call,
                           GpuStream stream) override {
    return exchange(*call.messages, stream);
  }
  bool stopped() const override {
    std::lock_guard<std::mutex> lock(world.mutex);
    return !world.stopped.ok();
  }
  /// What has been enqueued ends by itself.
  Status await(size_t, const std::function<bool()> &reached) override {
    while (enqueued.ok() && !reached())
      std::this_thread::yield();
    return enqueued;
  }
  Status finish() override { return enqueued; }
  void leakMemory() override { arena = nullptr; }

private:
  friend class GpuLoopbackWorld;
  using Lock = GpuLoopbackWorld::State::Lock;
  using Offers = std::vector<std::pair<uint32_t, std::shared_ptr<Offer>>>;

  Status exchange(const std::vector<TransportMessage> &messages,
                  cudaStream_t stream);
  Status take(const TransportMessage &message, cudaStream_t stream,
              Offers &taken);

  GpuLoopbackWorld::State &world;
  const uint32_t self;
  int gpu = 0;
  bool left = false;
  Stream own;
  MemorySource memory;
  std::byte *arena = nullptr;
  Status enqueued;
};

/// Makes the stream wait for the sender's bytes and copy them.
Status GpuLoopbackWorld::Endpoint::take(const TransportMessage &message,
                                        cudaStream_t stream, Offers &taken) {
  std::shared_ptr<Offer> offer;
  {
    Lock lock(world.mutex);
    auto &queue = world.offers[{message.peer, self}];
    DTRT_RETURN_IF_ERROR(world.wait(
        lock, self, "for device " + std::to_string(message.peer),
        [&] { return !queue.empty() || world.ends.at(message.peer)->left; }));
    if (queue.empty())
      return makeError("device ", message.peer, " has left");
    offer = queue.front();
    queue.pop_front();
  }
  if (offer->bytes != message.bytes)
    return makeError("device ", message.peer, " sends ", offer->bytes,
                     " bytes, device ", self, " expects ", message.bytes);
  taken.push_back({message.peer, offer});
  DTRT_RETURN_IF_ERROR(offer->ready->orderBefore(stream));
  return cudaStatus(cudaMemcpyAsync(message.data, offer->data, message.bytes,
                                    cudaMemcpyDefault, stream),
                    "cannot copy a message");
}

Status GpuLoopbackWorld::Endpoint::exchange(
    const std::vector<TransportMessage> &messages, cudaStream_t stream) {
  auto ready = recordOn(stream);
  DTRT_RETURN_IF_ERROR(ready);
  Offers sent, taken;
  for (const TransportMessage &message : messages)
    if (!message.receive)
      sent.push_back({message.peer,
                      std::make_shared<Offer>(Offer{message.data, message.bytes,
                                                    *ready, nullptr})});
  {
    Lock lock(world.mutex);
    DTRT_RETURN_IF_ERROR(world.stopped);
    for (auto &[peer, offer] : sent)
      world.offers[{self, peer}].push_back(offer);
    world.change();
  }
  for (const TransportMessage &message : messages)
    if (message.receive)
      DTRT_RETURN_IF_ERROR(take(message, stream, taken));
  auto read = recordOn(stream);
  DTRT_RETURN_IF_ERROR(read);
  Lock lock(world.mutex);
  for (auto &[peer, offer] : taken)
    offer->taken = *read;
  world.change();
  for (auto &[peer, offer] : sent) {
    auto there = [&, peer = peer] {
      return offer->taken || world.ends.at(peer)->left;
    };
    DTRT_RETURN_IF_ERROR(
        world.wait(lock, self, "for device " + std::to_string(peer), there));
    if (!offer->taken)
      return makeError("device ", peer, " has left");
    DTRT_RETURN_IF_ERROR(offer->taken->orderBefore(stream));
  }
  return {};
}

GpuLoopbackWorld::GpuLoopbackWorld(const std::vector<uint32_t> &devices)
    : state(std::make_unique<State>()) {
  for (uint32_t device : devices)
    state->ends[device] = std::make_unique<Endpoint>(*state, device);
  state->running = devices.size();
}

GpuLoopbackWorld::~GpuLoopbackWorld() = default;

StreamTransport &GpuLoopbackWorld::endpoint(uint32_t device) {
  return *state->ends.at(device);
}

} // namespace dtrt
