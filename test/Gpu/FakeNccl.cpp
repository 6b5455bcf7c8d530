//===- FakeNccl.cpp - NCCL's calls on the fake GPUs -----------------------===//

#include "FakeNccl.h"
#include "Lull.h"

#include "dtrt/cost/KernelPlans.h"
#include "dtrt/types/Collective.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <tuple>

using namespace dtrt;
using namespace dtrt::test;

namespace {

using Lock = std::unique_lock<std::recursive_mutex>;

/// How often a call is "in progress" before it has ended.
constexpr int kBusyLooks = 3;

struct World;
struct Comm;

struct Operation {
  bool receive = false;
  int peer = 0;
  std::byte *data = nullptr;
  size_t bytes = 0;
  bool registered = false;
  bool done = false;
};

/// A rank's part in a collective.
struct Call {
  CollectiveKind kind = CollectiveKind::Broadcast;
  int root = 0;
  std::byte *give = nullptr, *get = nullptr;
  size_t bytes = 0; // of a block
};

/// A group or a collective on a stream, from its launch on.
struct Kernel {
  std::shared_ptr<Comm> comm;
  cudaStream_t stream = nullptr;
  std::vector<Operation> operations;
  std::vector<Batch> batches;
  size_t batch = 0;
  std::optional<Call> call;
  bool started = false;
  bool done = false; // a collective, for all members
};

struct Comm {
  std::shared_ptr<World> world;
  int rank = 0;
  int process = 0; // the rank in the communicator that it was split off
  int gpu = 0;
  bool blocking = true;
  bool sharesWithSplits = false;
  int graphUsage = NCCL_CONFIG_UNDEF_INT;
  std::shared_ptr<bool> aborted = std::make_shared<bool>(false);
  ncclResult_t error = ncclSuccess;
  std::function<bool()> busy; // until it is true, when there is one
  int looks = 0;
  int calls = 0; // of threads that wait inside
  int groups = 0;
  int launched = 0; // of them, those that no graph has
  int splits = 0;
  std::shared_ptr<Comm> splitting; // what a split will give
  bool finalized = false;
  std::map<void *, size_t> registrations;
  std::set<std::pair<int, bool>> connected;          // peer, receives
  std::set<std::tuple<int, bool, void *>> exchanged; // registrations, by peer
  bool inRing = false;                               // likewise: connected
  std::deque<std::shared_ptr<Kernel>> kernels;
  bool hasWindow = false;
  std::byte *window = nullptr;
  size_t windowBytes = 0;
  bool sendsSignals = false;  // has had its first one-sided operation
  std::map<int, int> signals; // that have come, by their sender
  std::map<int, int> awaited; // by those who shall send them
};

/// What the ranks of a communicator ask of one split.
struct Split {
  std::map<int, std::pair<int, int>> asked;   // color and key, by rank
  std::map<int, std::shared_ptr<World>> made; // by color

  /// Ranks of a color, in the order of their keys.
  std::vector<int> ranksOf(int color) const {
    std::vector<std::pair<int, int>> found;
    for (const auto &[rank, wish] : asked)
      if (wish.first == color)
        found.push_back({wish.second, rank});
    std::sort(found.begin(), found.end());
    std::vector<int> ranks;
    for (const auto &[key, rank] : found)
      ranks.push_back(rank);
    return ranks;
  }
};

/// One collective of a communicator; the first comes first.
using Launch = std::pair<World *, size_t>;

struct World {
  int size = 0;
  std::vector<std::shared_ptr<Comm>> comms;    // by rank; null: not there yet
  std::set<int> gone;                          // aborted, destroyed or killed
  std::set<std::tuple<int, int, bool>> wanted; // from, to, by the receiver
  std::map<int, Split> splits;
  /// The one that this was split off, or itself.
  World *root = nullptr;
  std::vector<Call> calls; // as whoever came first has them
  std::map<int, size_t> callsOf;
  std::set<int> inRing;
  /// Of a root: the collectives of all that was split off, by process.
  std::map<int, std::vector<Launch>> launches;
};

struct Fake {
  FakeNcclOptions options;
  std::mt19937_64 random;
  int nextId = 1;
  std::map<int, std::shared_ptr<World>> worlds; // by number in the unique id
  std::set<std::shared_ptr<Comm>> comms;
  std::vector<std::string> faults;
  std::map<int, int> breakAfter; // groups, by rank
  std::set<int> killed;
  std::map<int, Comm *> running; // by GPU
  std::vector<ncclConfig_t> configs;
  bool mayConnect = true;
  int registrations = 0;
  int aborts = 0;
  int puts = 0;
  std::set<size_t> windowSizes;
  bool putsHalted = false;
};

Fake &fake() {
  static Fake state;
  return state;
}

struct Group {
  bool open = false;
  std::shared_ptr<Comm> comm;
  cudaStream_t stream = nullptr;
  std::vector<Operation> operations;
  bool hasCall = false;
};
thread_local Group tlsGroup;

void fault(const std::string &text) {
  auto &faults = fake().faults;
  if (std::find(faults.begin(), faults.end(), text) == faults.end())
    faults.push_back(text);
}

std::shared_ptr<Comm> commOf(ncclComm_t handle, const char *call) {
  for (const std::shared_ptr<Comm> &comm : fake().comms)
    if (comm.get() == reinterpret_cast<Comm *>(handle))
      return comm;
  fault(std::string(call) + " of a communicator that is not there");
  return nullptr;
}

bool isKilled(const Comm &comm) {
  return fake().killed.count(comm.process) > 0;
}

bool isBroken(const Comm &comm) {
  auto breaks = fake().breakAfter.find(comm.process);
  return breaks != fake().breakAfter.end() && comm.groups >= breaks->second;
}

std::string pairName(int from, int to) {
  return "from rank " + std::to_string(from) + " to rank " + std::to_string(to);
}

/// Lets `done` come true: at once the call's own business where the
/// communicator blocks, else that of later looks.
ncclResult_t finishLater(Lock &lock, const std::shared_ptr<Comm> &comm,
                         std::function<bool()> done) {
  if (!comm->blocking) {
    comm->busy = std::move(done);
    comm->looks = kBusyLooks;
    return ncclInProgress;
  }
  ++comm->calls;
  Lull lull;
  while (!*comm->aborted && !isKilled(*comm) && !done()) {
    lock.unlock();
    std::this_thread::sleep_for(lull.next());
    lock.lock();
  }
  --comm->calls;
  return *comm->aborted || isKilled(*comm) ? ncclInternalError : ncclSuccess;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

bool inBatch(const Kernel &kernel, size_t operation) {
  for (const Work &work : kernel.batches[kernel.batch])
    if (work.send == operation || work.receive == operation)
      return true;
  return false;
}

/// One end has met the other.
void meet(Comm &sender, Operation &send, Comm &receiver, Operation &receive) {
  if (send.bytes != receive.bytes) {
    sender.error = receiver.error = ncclInvalidUsage;
    return;
  }
  if (send.registered != receive.registered) {
    fault("the message " + pairName(sender.rank, receiver.rank) + " of " +
          std::to_string(send.bytes) + " bytes is registered at one end only");
    return; // and never ends
  }
  bool there = touchFakeMemory(send.data, send.bytes, sender.gpu, "a send",
                               /*shared=*/true);
  if (touchFakeMemory(receive.data, receive.bytes, receiver.gpu, "a receive",
                      /*shared=*/true) &&
      there)
    memcpy(receive.data, send.data, send.bytes);
  send.done = receive.done = true;
}

void offer(Kernel &kernel, Operation &operation) {
  Comm &self = *kernel.comm;
  std::shared_ptr<Comm> peer = self.world->comms[size_t(operation.peer)];
  if (!peer || peer->kernels.empty() || isKilled(*peer))
    return;
  Kernel &other = *peer->kernels.front();
  if (!other.started)
    return;
  for (size_t i = 0; i < other.operations.size(); ++i) {
    Operation &theirs = other.operations[i];
    if (theirs.done || theirs.peer != self.rank ||
        theirs.receive == operation.receive || !inBatch(other, i))
      continue;
    return operation.receive ? meet(*peer, theirs, self, operation)
                             : meet(self, operation, *peer, theirs);
  }
}

bool endKernel(Kernel &kernel) {
  auto &kernels = kernel.comm->kernels;
  for (size_t i = kernels.size(); i-- > 0;)
    if (kernels[i].get() == &kernel)
      kernels.erase(kernels.begin() + long(i));
  Comm *&running = fake().running[kernel.comm->gpu];
  if (running == kernel.comm.get())
    running = nullptr;
  return true;
}

/// What NCCL's types.rst says of graphUsageMode: 0, no graphs; 1, one and
/// nothing else; 2, any. Before 2.29 a communicator is not told.
void checkGraphUse(const Comm &comm) {
  if (comm.graphUsage == 0 || (comm.graphUsage == 1 && comm.launched > 0))
    fault("groups are captured that the communicator was not made for");
}

/// The collective's kernels at the front of all members' queues; none, where
/// one has not come to it.
std::vector<Kernel *> partsOf(const Comm &comm) {
  std::vector<Kernel *> parts;
  for (const auto &member : comm.world->comms) {
    if (!member || member->kernels.empty() || isKilled(*member))
      return {};
    Kernel &front = *member->kernels.front();
    if (!front.started || !front.call || front.done)
      return {};
    parts.push_back(&front);
  }
  return parts;
}

void carryOut(const std::vector<Kernel *> &parts) {
  for (size_t to = 0; to < parts.size(); ++to) {
    const Call &own = *parts[to]->call;
    for (size_t from = 0; from < parts.size(); ++from) {
      const Call &theirs = *parts[from]->call;
      bool isShared = own.kind == CollectiveKind::Broadcast;
      if (isShared && int(from) != own.root)
        continue;
      const std::byte *source =
          theirs.give + blockFor(own.kind, to) * own.bytes;
      std::byte *target = own.get + blockFrom(own.kind, from) * own.bytes;
      bool there = touchFakeMemory(source, own.bytes, parts[from]->comm->gpu,
                                   "a collective", /*shared=*/true);
      if (touchFakeMemory(target, own.bytes, parts[to]->comm->gpu,
                          "a collective", /*shared=*/true) &&
          there)
        memmove(target, source, own.bytes);
    }
    parts[to]->done = true;
  }
}

/// What a collective will write is anything from its start on.
void spoil(const Kernel &kernel) {
  const Call &call = *kernel.call;
  bool isBroadcast = call.kind == CollectiveKind::Broadcast;
  if (isBroadcast && kernel.comm->rank == call.root)
    return;
  size_t bytes =
      call.bytes * (isBroadcast ? 1 : kernel.comm->world->comms.size());
  if (touchFakeMemory(call.get, bytes, kernel.comm->gpu, "a collective",
                      /*shared=*/true))
    memset(call.get, 0x5a, bytes);
}

/// All members meet.
bool runCall(Kernel &kernel) {
  if (!kernel.done)
    if (auto parts = partsOf(*kernel.comm); !parts.empty())
      carryOut(parts);
  return kernel.done && endKernel(kernel);
}

/// Whether the kernel has ended.
bool runKernel(Kernel &kernel) {
  Comm &comm = *kernel.comm;
  if (*comm.aborted)
    return endKernel(kernel);
  Comm *&running = fake().running[comm.gpu];
  if (isKilled(comm) || comm.kernels.front().get() != &kernel ||
      (running && running != &comm))
    return false;
  running = &comm;
  if (kernel.call && !kernel.started)
    spoil(kernel);
  kernel.started = true;
  if (kernel.call)
    return runCall(kernel);
  bool all = true;
  for (size_t i = 0; i < kernel.operations.size(); ++i) {
    Operation &operation = kernel.operations[i];
    if (operation.done || !inBatch(kernel, i))
      continue;
    offer(kernel, operation);
    all = all && operation.done;
  }
  if (all)
    ++kernel.batch;
  return kernel.batch == kernel.batches.size() && endKernel(kernel);
}

/// Taken apart as NCCL does, and cut at random.
std::vector<Batch> takeApart(const Comm &comm,
                             const std::vector<Operation> &operations) {
  std::vector<GroupOperation> group;
  for (const Operation &operation : operations)
    group.push_back({operation.receive, uint32_t(operation.peer)});
  Adversary adversary;
  adversary.restartRounds = fake().options.version < NCCL_VERSION(2, 29, 7);
  auto rounds = roundsOf(uint32_t(comm.rank), {uint32_t(comm.world->size)});
  return batchesOf(group, rounds, adversary, fake().random);
}

bool isRegistered(Comm &comm, const Operation &operation) {
  if (operation.bytes <= fake().options.simpleBytes)
    return false;
  for (const auto &[data, bytes] : comm.registrations) {
    auto *start = static_cast<std::byte *>(data);
    if (operation.data < start ||
        operation.data + operation.bytes > start + bytes)
      continue;
    auto key = std::make_tuple(operation.peer, operation.receive, data);
    if (comm.exchanged.insert(key).second && !fake().mayConnect)
      fault("memory is registered with a peer in the middle of a transfer");
    return true;
  }
  return false;
}

/// Else NCCL_GRAPH_REGISTER, which is on unless it is 0, would register it.
bool mayCapture() {
  const char *value = getenv("NCCL_GRAPH_REGISTER");
  return value && std::string(value) == "0";
}

std::string describe(const Comm &comm, const Call &call) {
  return "rank " + std::to_string(comm.process) + " has a " +
         collectiveName(call.kind) + " of " + std::to_string(call.bytes) +
         " bytes from rank " + std::to_string(call.root);
}

/// Members have the same collectives, in one order.
void checkAlike(Comm &comm, const Call &call) {
  World &world = *comm.world;
  size_t index = world.callsOf[comm.rank]++;
  if (index == world.calls.size())
    world.calls.push_back(call);
  const Call &first = world.calls[index];
  if (first.kind != call.kind || first.bytes != call.bytes ||
      first.root != call.root)
    fault("collectives of one communicator differ: " + describe(comm, call) +
          ", another one a " + collectiveName(first.kind) + " of " +
          std::to_string(first.bytes) + " bytes from rank " +
          std::to_string(first.root));
}

/// Two ranks that share two communicators come to their collectives in one
/// order: what the other had before this one, this rank had too.
void checkOrder(Comm &comm) {
  World &world = *comm.world;
  Launch here = {&world, world.callsOf[comm.rank] - 1};
  auto &all = world.root->launches;
  std::vector<Launch> &own = all[comm.process];
  for (const auto &other : world.comms) {
    if (!other || other.get() == &comm)
      continue;
    const std::vector<Launch> &theirs = all[other->process];
    auto same = std::find(theirs.begin(), theirs.end(), here);
    if (same == theirs.end())
      continue;
    for (auto before = theirs.begin(); before != same; ++before) {
      const auto &members = before->first->comms;
      bool isMember =
          std::any_of(members.begin(), members.end(), [&](const auto &one) {
            return one && one->process == comm.process;
          });
      if (isMember && std::find(own.begin(), own.end(), *before) == own.end())
        fault("ranks " + std::to_string(comm.process) + " and " +
              std::to_string(other->process) +
              " come to the collectives of two communicators in two orders");
    }
  }
  own.push_back(here);
}

/// What a stream has, it has in one order; a rank has one for all of them.
void checkOtherComms(const Comm &comm, cudaStream_t stream) {
  for (const std::shared_ptr<Comm> &other : fake().comms)
    if (other.get() != &comm && other->gpu == comm.gpu && !isKilled(*other))
      for (const auto &kernel : other->kernels)
        if (kernel->stream != stream)
          fault("groups of two communicators are under way on one GPU: every "
                "rank would have to launch them in one order");
}

/// A group, or a collective.
void launch(const Kernel &given) {
  std::shared_ptr<Comm> comm = given.comm;
  cudaStream_t stream = given.stream;
  const char *what = given.call ? "collective" : "group";
  checkOtherComms(*comm, stream);
  // Kernels run in the order of their launches; those of a graph in its own.
  auto add = [given] {
    auto kernel = std::make_shared<Kernel>(given);
    Comm &comm = *kernel->comm;
    if (kernel->call) {
      checkAlike(comm, *kernel->call);
      checkOrder(comm);
    } else {
      kernel->batches = takeApart(comm, kernel->operations);
    }
    comm.kernels.push_back(kernel);
    return kernel;
  };
  auto run = [](const std::shared_ptr<Kernel> &kernel) -> FakeWork {
    return [kernel] { return runKernel(*kernel); };
  };
  if (fakeCapturing(stream)) {
    checkGraphUse(*comm);
    if (!mayCapture())
      fault("memory of captured messages is registered at each end for itself");
    putOnFakeStream(stream, what, [add, run] { return run(add()); });
    return;
  }
  ++comm->launched;
  auto kernel = add();
  putOnFakeStream(stream, what, [kernel, run] { return run(kernel); });
}

//===----------------------------------------------------------------------===//
// Communicators
//===----------------------------------------------------------------------===//

ncclResult_t getVersion(int *version) {
  *version = fake().options.version;
  return ncclSuccess;
}

ncclResult_t getUniqueId(ncclUniqueId *id) {
  Lock lock(fakeMutex());
  memset(id, 0, sizeof *id);
  int number = fake().nextId++;
  memcpy(id->internal, &number, sizeof number);
  return ncclSuccess;
}

const char *getErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited" : "an error";
}

const char *getLastError(ncclComm_t) { return "detail"; }

/// What a library takes of a configuration that says its own size.
ncclConfig_t readConfig(const ncclConfig_t *given) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (given->magic != NCCL_API_MAGIC)
    fault("a configuration without NCCL's magic number");
  if (int(given->version) > fake().options.version)
    fault("a configuration of a newer library than this");
  memcpy(&config, given, std::min(given->size, sizeof config));
  // NCCL_CONFIG_UNDEF_INT, the default, lets NCCL take 64.
  if (config.maxCTAs < 1 || config.maxCTAs > int(kMaxChannels))
    fault("a communicator of more channels than a group may take");
  return config;
}

std::shared_ptr<Comm> join(const std::shared_ptr<World> &world, int size,
                           int rank, int gpu, const ncclConfig_t &config) {
  world->size = size;
  world->comms.resize(size_t(size));
  world->root = world->root ? world->root : world.get();
  auto comm = std::make_shared<Comm>();
  comm->world = world;
  comm->rank = comm->process = rank;
  comm->gpu = gpu;
  comm->blocking = config.blocking != 0;
  comm->sharesWithSplits = config.splitShare == 1;
  comm->graphUsage = config.graphUsageMode;
  for (const std::shared_ptr<Comm> &other : world->comms)
    if (other && other->gpu == comm->gpu)
      fault("two ranks of a communicator use one GPU");
  world->comms[size_t(rank)] = comm;
  fake().comms.insert(comm);
  fake().configs.push_back(config);
  return comm;
}

bool allJoined(const World &world) {
  return std::all_of(world.comms.begin(), world.comms.end(),
                     [](const auto &comm) { return comm != nullptr; });
}

ncclResult_t initRank(ncclComm_t *handle, int size, ncclUniqueId id, int rank,
                      ncclConfig_t *given) {
  Lock lock(fakeMutex());
  ncclConfig_t config = readConfig(given);
  if (config.blocking != 0)
    fault("a communicator is made that cannot be given up while it is made");
  int number = 0;
  memcpy(&number, id.internal, sizeof number);
  auto &world = fake().worlds[number];
  if (!world)
    world = std::make_shared<World>();
  auto comm = join(world, size, rank, fakeGpuOfThread(), config);
  *handle = reinterpret_cast<ncclComm_t>(comm.get());
  return finishLater(lock, comm, [world] { return allJoined(*world); });
}

/// What a rank gets of a split that all ranks have asked for.
std::shared_ptr<Comm> joinSplit(Comm &parent, Split &split, int color, int gpu,
                                const ncclConfig_t &config) {
  auto &world = split.made[color];
  if (!world)
    world = std::make_shared<World>();
  world->root = parent.world->root;
  std::vector<int> ranks = split.ranksOf(color);
  auto own = std::find(ranks.begin(), ranks.end(), parent.rank);
  auto comm =
      join(world, int(ranks.size()), int(own - ranks.begin()), gpu, config);
  comm->process = parent.process;
  if (parent.sharesWithSplits)
    comm->aborted = parent.aborted;
  return comm;
}

/// All ranks of the parent take part, whatever their color.
ncclResult_t commSplit(ncclComm_t handle, int color, int key,
                       ncclComm_t *result, ncclConfig_t *given) {
  Lock lock(fakeMutex());
  auto parent = commOf(handle, "ncclCommSplit");
  if (!parent || parent->busy || (color < 0 && color != NCCL_SPLIT_NOCOLOR))
    return ncclInvalidArgument;
  if (isKilled(*parent) || *parent->aborted)
    return ncclInternalError;
  if (!parent->kernels.empty())
    fault("a communicator is split that has groups under way");
  int number = ++parent->splits, gpu = fakeGpuOfThread();
  parent->world->splits[number].asked[parent->rank] = {color, key};
  *result = nullptr;
  return finishLater(lock, parent, [=, config = readConfig(given)] {
    Split &split = parent->world->splits[number];
    if (split.asked.size() < parent->world->comms.size())
      return false;
    if (color == NCCL_SPLIT_NOCOLOR)
      return true;
    if (!parent->splitting)
      parent->splitting = joinSplit(*parent, split, color, gpu, config);
    if (!allJoined(*parent->splitting->world))
      return false;
    *result = reinterpret_cast<ncclComm_t>(parent->splitting.get());
    parent->splitting = nullptr;
    return true;
  });
}

ncclResult_t getAsyncError(ncclComm_t handle, ncclResult_t *result) {
  Lock lock(fakeMutex());
  auto comm = commOf(handle, "ncclCommGetAsyncError");
  if (!comm)
    return ncclInvalidArgument;
  if (isBroken(*comm))
    comm->error = ncclRemoteError;
  *result = isKilled(*comm) ? ncclInternalError : comm->error;
  if (*result != ncclSuccess || !comm->busy)
    return ncclSuccess;
  *result = ncclInProgress;
  if (--comm->looks > 0 || !comm->busy())
    return ncclSuccess;
  comm->busy = nullptr;
  *result = ncclSuccess;
  return ncclSuccess;
}

/// Those that its proxy has connections with.
bool hasPeersLeft(const Comm &comm) {
  std::set<int> peers;
  for (const auto &[peer, receives] : comm.connected)
    peers.insert(peer);
  int size = comm.world->size;
  if (comm.inRing)
    peers.insert({(comm.rank + 1) % size, (comm.rank + size - 1) % size});
  return std::any_of(peers.begin(), peers.end(), [&](int peer) {
    const auto &other = comm.world->comms[size_t(peer)];
    return !comm.world->gone.count(peer) && !(other && isKilled(*other));
  });
}

ncclResult_t end(ncclComm_t handle, const char *call, bool aborts) {
  Lock lock(fakeMutex());
  auto comm = commOf(handle, call);
  if (!comm)
    return ncclInvalidArgument;
  if (!aborts && (!comm->finalized || comm->busy))
    fault("ncclCommDestroy before the end of ncclCommFinalize");
  if (!aborts && !comm->registrations.empty())
    fault("a communicator is destroyed that has registrations");
  if (!aborts && comm->window)
    fault("a communicator is destroyed that has a window");
  if (!aborts && !comm->kernels.empty())
    fault("a communicator is destroyed with groups under way");
  if (aborts) {
    *comm->aborted = true;
    ++fake().aborts;
    if (comm->calls > 0)
      fault("a communicator is freed while another thread is in a call of it");
  }
  comm->busy = nullptr;
  fake().comms.erase(comm->splitting);
  comm->splitting = nullptr;
  comm->world->gone.insert(comm->rank);
  Lull lull;
  while (hasPeersLeft(*comm) && !isKilled(*comm)) {
    lock.unlock();
    std::this_thread::sleep_for(lull.next());
    lock.lock();
  }
  fake().comms.erase(comm);
  return ncclSuccess;
}

ncclResult_t commAbort(ncclComm_t handle) {
  return end(handle, "ncclCommAbort", /*aborts=*/true);
}

ncclResult_t commDestroy(ncclComm_t handle) {
  return end(handle, "ncclCommDestroy", /*aborts=*/false);
}

ncclResult_t commFinalize(ncclComm_t handle) {
  Lock lock(fakeMutex());
  auto comm = commOf(handle, "ncclCommFinalize");
  if (!comm || comm->finalized || *comm->aborted)
    return ncclInvalidArgument;
  comm->finalized = true;
  return finishLater(lock, comm, [comm] { return comm->kernels.empty(); });
}

ncclResult_t commRegister(const ncclComm_t handle, void *data, size_t bytes,
                          void **registration) {
  Lock lock(fakeMutex());
  auto comm = commOf(handle, "ncclCommRegister");
  if (!comm || comm->busy)
    return ncclInvalidArgument;
  ++fake().registrations;
  comm->registrations[data] = bytes;
  *registration = data;
  return ncclSuccess;
}

ncclResult_t commDeregister(const ncclComm_t handle, void *registration) {
  Lock lock(fakeMutex());
  auto comm = commOf(handle, "ncclCommDeregister");
  if (!comm || !comm->registrations.erase(registration))
    fault("ncclCommDeregister of what is not registered");
  return ncclSuccess;
}

//===----------------------------------------------------------------------===//
// One-sided operations
//===----------------------------------------------------------------------===//

/// A rank maps its peers' windows by the size of its own until 2.30.7
/// (symMemoryObtain in src/dev_runtime.cc).
bool mayDiffer() { return fake().options.version >= NCCL_VERSION(2, 30, 7); }

/// rmaTaskAppend in src/enqueue.cc: one-sided operations need CUDA 12.5.
bool driverKnowsPuts() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess && version >= 12050;
}

ncclResult_t windowRegister(ncclComm_t handle, void *data, size_t bytes,
                            NcclWindow *window, int flags) {
  Lock lock(fakeMutex());
  auto comm = commOf(handle, "ncclCommWindowRegister");
  if (!comm || comm->busy || comm->hasWindow || flags != kNcclWindowSymmetric)
    return ncclInvalidArgument;
  if (!isFakeShared(data))
    fault("a window over memory that is not ncclMemAlloc's");
  comm->hasWindow = true;
  comm->window =
      fake().options.oneSided ? static_cast<std::byte *>(data) : nullptr;
  comm->windowBytes = bytes;
  fake().windowSizes.insert(bytes);
  *window = comm->window;
  return finishLater(lock, comm, [comm] {
    for (const auto &other : comm->world->comms)
      if (!other || !other->hasWindow)
        return false;
    for (const auto &other : comm->world->comms)
      if (other->windowBytes != comm->windowBytes && !mayDiffer())
        fault("windows of one communicator differ in size");
    return true;
  });
}

ncclResult_t windowDeregister(ncclComm_t handle, NcclWindow window) {
  Lock lock(fakeMutex());
  auto comm = commOf(handle, "ncclCommWindowDeregister");
  if (!comm || comm->window != window)
    fault("ncclCommWindowDeregister of what is no window");
  else
    comm->window = nullptr;
  return ncclSuccess;
}

/// The first operation sets up those of all ranks, and waits for them.
ncclResult_t startSignals(Lock &lock, const std::shared_ptr<Comm> &comm,
                          cudaStream_t stream) {
  if (!fake().options.oneSided)
    return ncclInvalidArgument;
  if (!driverKnowsPuts())
    return ncclInvalidUsage;
  if (*comm->aborted || isKilled(*comm))
    return ncclInternalError;
  if (isBroken(*comm))
    return ncclRemoteError;
  if (fakeGpuOf(stream) != comm->gpu)
    fault("a signal on a stream of another GPU than its communicator's");
  if (fakeCapturing(stream))
    fault("a one-sided operation is captured");
  if (comm->sendsSignals)
    return ncclSuccess;
  if (!fake().mayConnect)
    fault("one-sided operations are set up in the middle of a transfer");
  comm->sendsSignals = true;
  return finishLater(lock, comm, [world = comm->world] {
    return std::all_of(world->comms.begin(), world->comms.end(),
                       [](const auto &other) { return other->sendsSignals; });
  });
}

/// On a stream: copy engines work for a communicator that was aborted, too.
/// `bytes` go to `offset` of the peer's window.
ncclResult_t putOn(ncclComm_t handle, cudaStream_t stream, int peer,
                   const void *data, size_t bytes, size_t offset) {
  Lock lock(fakeMutex());
  auto comm = commOf(handle, "a signal");
  if (!comm || peer < 0 || peer >= comm->world->size)
    return ncclInvalidArgument;
  ncclResult_t started = startSignals(lock, comm, stream);
  if (started != ncclSuccess)
    return started;
  auto other = comm->world->comms[size_t(peer)];
  auto *from = static_cast<const std::byte *>(data);
  if (bytes > 0 &&
      (from < comm->window || from + bytes > comm->window + comm->windowBytes))
    return ncclInvalidArgument;
  if (bytes > 0 && offset + bytes > other->windowBytes)
    fault("a put behind the end of a window");
  std::byte *to = other->window + offset;
  putOnFakeStream(stream, bytes > 0 ? "put" : "signal", [=]() -> FakeWork {
    return [=] {
      if (isKilled(*comm) || fake().putsHalted)
        return false;
      if (bytes > 0) {
        touchFakeMemory(from, bytes, comm->gpu, "a put", /*shared=*/true);
        touchFakeMemory(to, bytes, other->gpu, "a put", /*shared=*/true);
        memcpy(to, from, bytes);
      }
      ++other->signals[comm->rank];
      return true;
    };
  });
  return ncclSuccess;
}

ncclResult_t putSignal(const void *data, size_t count, ncclDataType_t type,
                       int peer, NcclWindow window, size_t offset, int signal,
                       int context, unsigned flags, ncclComm_t comm,
                       cudaStream_t stream) {
  if (type != ncclUint8 || !window || signal != 0 || context != 0 || flags != 0)
    return ncclInvalidArgument;
  {
    Lock lock(fakeMutex());
    ++fake().puts;
  }
  return putOn(comm, stream, peer, data, count, offset);
}

ncclResult_t sendSignal(int peer, int signal, int context, unsigned flags,
                        ncclComm_t comm, cudaStream_t stream) {
  if (signal != 0 || context != 0 || flags != 0)
    return ncclInvalidArgument;
  return putOn(comm, stream, peer, nullptr, 0, 0);
}

/// What has to come is known when the call is made; nothing ends the wait but
/// that.
ncclResult_t waitSignal(int count, NcclSignalWait *waits, ncclComm_t handle,
                        cudaStream_t stream) {
  Lock lock(fakeMutex());
  auto comm = commOf(handle, "ncclWaitSignal");
  if (!comm || count <= 0)
    return ncclInvalidArgument;
  ncclResult_t started = startSignals(lock, comm, stream);
  if (started != ncclSuccess)
    return started;
  std::map<int, int> expected;
  for (int i = 0; i < count; ++i) {
    if (waits[i].count <= 0 || waits[i].signal != 0 || waits[i].context != 0)
      return ncclInvalidArgument;
    expected[waits[i].peer] = comm->awaited[waits[i].peer] += waits[i].count;
  }
  ++comm->groups;
  putOnFakeStream(stream, "wait", [=]() -> FakeWork {
    return [=] {
      for (const auto &[peer, signals] : expected)
        if (comm->signals[peer] < signals)
          return false;
      return true;
    };
  });
  return ncclSuccess;
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

ncclResult_t groupStart() {
  Lock lock(fakeMutex());
  if (tlsGroup.open)
    fault("a group inside a group");
  tlsGroup.open = true;
  return ncclSuccess;
}

ncclResult_t add(ncclComm_t handle, cudaStream_t stream, ncclDataType_t type,
                 Operation operation) {
  Lock lock(fakeMutex());
  auto comm = commOf(handle, "a message");
  if (!comm || type != ncclUint8 || operation.peer < 0 ||
      operation.peer >= comm->world->size)
    return ncclInvalidArgument;
  if (!tlsGroup.open)
    fault("a message outside a group");
  if (comm->busy)
    fault("a message of a communicator that is busy");
  if (fakeGpuOf(stream) != comm->gpu)
    fault("a message on a stream of another GPU than its communicator's");
  for (const Operation &other : tlsGroup.operations)
    if (other.peer == operation.peer && other.receive == operation.receive)
      fault("two messages of one ordered pair in a group");
  if (tlsGroup.hasCall)
    fault("a collective beside messages in one group");
  tlsGroup.comm = comm;
  tlsGroup.stream = stream;
  tlsGroup.operations.push_back(operation);
  return ncclSuccess;
}

ncclResult_t send(const void *data, size_t count, ncclDataType_t type, int peer,
                  ncclComm_t comm, cudaStream_t stream) {
  auto *bytes = static_cast<std::byte *>(const_cast<void *>(data));
  return add(comm, stream, type, {false, peer, bytes, count});
}

ncclResult_t receive(void *data, size_t count, ncclDataType_t type, int peer,
                     ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream, type,
             {true, peer, static_cast<std::byte *>(data), count});
}

/// What the pair has to be connected by: both of its ends.
std::vector<std::tuple<int, int, bool>>
connectionsOf(Comm &comm, const std::vector<Operation> &operations) {
  std::vector<std::tuple<int, int, bool>> other;
  for (const Operation &operation : operations) {
    if (!comm.connected.insert({operation.peer, operation.receive}).second)
      continue;
    if (!fake().mayConnect)
      fault("a pair is connected in the middle of a transfer");
    int from = operation.receive ? operation.peer : comm.rank;
    int to = operation.receive ? comm.rank : operation.peer;
    comm.world->wanted.insert({from, to, operation.receive});
    other.push_back({from, to, !operation.receive});
  }
  return other;
}

ncclResult_t groupEnd() {
  Lock lock(fakeMutex());
  Group group;
  std::swap(group, tlsGroup);
  if (group.operations.empty())
    return ncclSuccess;
  std::shared_ptr<Comm> comm = group.comm;
  if (*comm->aborted || isKilled(*comm))
    return ncclInternalError;
  if (isBroken(*comm))
    return ncclRemoteError;
  auto needed = connectionsOf(*comm, group.operations);
  auto done = [comm, needed, group] {
    for (const auto &connection : needed)
      if (!comm->world->wanted.count(connection))
        return false;
    ++comm->groups;
    Kernel kernel;
    kernel.comm = comm;
    kernel.stream = group.stream;
    kernel.operations = group.operations;
    for (Operation &operation : kernel.operations)
      operation.registered = isRegistered(*comm, operation);
    launch(kernel);
    return true;
  };
  return finishLater(lock, comm, done);
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// The first of a ring, or of an all-to-all, connects all members.
std::function<bool()> connectionOf(const std::shared_ptr<Comm> &comm,
                                   CollectiveKind kind) {
  World &world = *comm->world;
  bool isNew = false;
  std::vector<std::tuple<int, int, bool>> needed;
  if (kind != CollectiveKind::AllToAll) {
    isNew = world.inRing.insert(comm->rank).second;
    comm->inRing = true;
  } else {
    std::vector<Operation> all;
    for (int peer = 0; peer < world.size; ++peer)
      for (bool receive : {false, true})
        if (peer != comm->rank)
          all.push_back({receive, peer});
    needed = connectionsOf(*comm, all);
  }
  if (isNew && !fake().mayConnect)
    fault("a collective connects its ranks in the middle of a transfer");
  return [=] {
    const World &world = *comm->world;
    for (const auto &connection : needed)
      if (!world.wanted.count(connection))
        return false;
    return kind == CollectiveKind::AllToAll ||
           world.inRing.size() == world.comms.size();
  };
}

ncclResult_t collect(ncclComm_t handle, ncclDataType_t type,
                     cudaStream_t stream, const Call &call) {
  Lock lock(fakeMutex());
  auto comm = commOf(handle, "a collective");
  if (!comm || type != ncclUint8 || call.root < 0 ||
      call.root >= comm->world->size)
    return ncclInvalidArgument;
  if (!tlsGroup.operations.empty())
    fault("a collective beside messages in one group");
  tlsGroup.hasCall = tlsGroup.open;
  if (comm->busy) {
    fault("a collective of a communicator that is busy");
    return ncclInvalidUsage;
  }
  if (fakeGpuOf(stream) != comm->gpu)
    fault("a collective on a stream of another GPU than its communicator's");
  if (*comm->aborted || isKilled(*comm))
    return ncclInternalError;
  if (isBroken(*comm))
    return ncclRemoteError;
  Kernel kernel;
  kernel.comm = comm;
  kernel.stream = stream;
  kernel.call = call;
  return finishLater(lock, comm,
                     [=, connected = connectionOf(comm, call.kind)] {
                       if (!connected())
                         return false;
                       ++comm->groups;
                       launch(kernel);
                       return true;
                     });
}

std::byte *bytesAt(const void *data) {
  return static_cast<std::byte *>(const_cast<void *>(data));
}

ncclResult_t broadcast(const void *from, void *to, size_t count,
                       ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return collect(
      comm, type, stream,
      {CollectiveKind::Broadcast, root, bytesAt(from), bytesAt(to), count});
}

ncclResult_t allGather(const void *from, void *to, size_t count,
                       ncclDataType_t type, ncclComm_t comm,
                       cudaStream_t stream) {
  return collect(
      comm, type, stream,
      {CollectiveKind::AllGather, 0, bytesAt(from), bytesAt(to), count});
}

ncclResult_t allToAll(const void *from, void *to, size_t count,
                      ncclDataType_t type, ncclComm_t comm,
                      cudaStream_t stream) {
  return collect(
      comm, type, stream,
      {CollectiveKind::AllToAll, 0, bytesAt(from), bytesAt(to), count});
}

ncclResult_t memAlloc(void **at, size_t bytes) {
  *at = allocateFakeMemory(bytes, fakeGpuOfThread(), /*shared=*/true);
  return ncclSuccess;
}

ncclResult_t memFree(void *at) {
  freeFakeMemory(at, "ncclMemFree");
  return ncclSuccess;
}

NcclApi makeApi() {
  NcclApi api;
  api.GetVersion = getVersion;
  api.GetUniqueId = getUniqueId;
  api.GetErrorString = getErrorString;
  api.GetLastError = getLastError;
  api.CommInitRankConfig = initRank;
  api.CommGetAsyncError = getAsyncError;
  api.CommAbort = commAbort;
  api.CommFinalize = commFinalize;
  api.CommDestroy = commDestroy;
  api.CommRegister = commRegister;
  api.CommDeregister = commDeregister;
  api.GroupStart = groupStart;
  api.GroupEnd = groupEnd;
  api.Send = send;
  api.Recv = receive;
  api.MemAlloc = memAlloc;
  api.MemFree = memFree;
  api.CommSplit = commSplit;
  api.Broadcast = broadcast;
  api.AllGather = allGather;
  api.AlltoAll = allToAll;
  api.CommWindowRegister = windowRegister;
  api.CommWindowDeregister = windowDeregister;
  api.PutSignal = putSignal;
  api.Signal = sendSignal;
  api.WaitSignal = waitSignal;
  return api;
}

} // namespace

const NcclApi &dtrt::test::fakeNccl() {
  static const NcclApi api = makeApi();
  return api;
}

void dtrt::test::resetFakeNccl(const FakeNcclOptions &options) {
  Lock lock(fakeMutex());
  std::vector<std::string> faults = std::move(fake().faults);
  fake() = Fake();
  fake().faults = std::move(faults);
  fake().options = options;
  fake().random.seed(std::random_device()());
}

std::vector<std::string> dtrt::test::fakeNcclFaults() {
  Lock lock(fakeMutex());
  std::vector<std::string> faults = fake().faults;
  size_t left = 0;
  for (const std::shared_ptr<Comm> &comm : fake().comms)
    left += !isKilled(*comm);
  if (left > 0)
    faults.push_back(std::to_string(left) + " communicators left");
  return faults;
}

void dtrt::test::clearFakeNcclFaults() {
  Lock lock(fakeMutex());
  fake().faults.clear();
}

void dtrt::test::breakFakeNccl(int rank, int afterGroups) {
  Lock lock(fakeMutex());
  fake().breakAfter[rank] = afterGroups;
}

void dtrt::test::killFakeNccl(int rank) {
  Lock lock(fakeMutex());
  fake().killed.insert(rank);
}

void dtrt::test::forbidFakeConnecting() {
  Lock lock(fakeMutex());
  fake().mayConnect = false;
}

int dtrt::test::fakeNcclRegistrations() {
  Lock lock(fakeMutex());
  return fake().registrations;
}

void dtrt::test::haltFakePuts(bool halted) {
  Lock lock(fakeMutex());
  fake().putsHalted = halted;
}

int dtrt::test::fakeNcclPuts() {
  Lock lock(fakeMutex());
  return fake().puts;
}

size_t dtrt::test::fakeWindowSizes() {
  Lock lock(fakeMutex());
  return fake().windowSizes.size();
}

int dtrt::test::fakeNcclAborts() {
  Lock lock(fakeMutex());
  return fake().aborts;
}

std::vector<ncclConfig_t> dtrt::test::fakeNcclConfigs() {
  Lock lock(fakeMutex());
  return fake().configs;
}
