//===- FakeNccl.cpp - NCCL's calls, on the host's memory ------------------===//

#include "FakeNccl.h"

#include "dtrt/KernelPlans.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>

using namespace dtrt;
using namespace dtrt::test;

namespace {

/// How often a call is "in progress" before it has ended.
constexpr int kBusyLooks = 3;

struct Stream {
  int open = 0; // operations
  bool failed = false;
};

struct World;

struct Comm {
  World *world = nullptr;
  int rank = 0;
  int busy = kBusyLooks;
  int groups = 0;
  ncclResult_t error = ncclSuccess;
  bool finalized = false;
  std::set<void *> registrations;
};

struct Operation {
  Comm *comm;
  bool receive;
  int peer;
  std::byte *data;
  size_t bytes;
  Stream *stream;
};

struct World {
  int size = 0;
  int joined = 0;
  std::map<std::pair<int, int>, std::deque<Operation>> sends, receives;
};

struct Fake {
  std::mutex mutex;
  int nextId = 1;
  std::map<int, World> worlds; // by number in the unique id
  std::set<Comm *> comms;
  std::set<Stream *> streams;
  std::set<void *> memory;
  std::vector<std::string> faults;
  std::map<int, int> breakAfter; // groups, by rank
  int aborts = 0;
};

Fake &fake() {
  static Fake state;
  return state;
}

thread_local std::vector<Operation> tlsGroup;
thread_local bool tlsInGroup = false;

using Lock = std::lock_guard<std::mutex>;

void fault(const std::string &text) { fake().faults.push_back(text); }

Comm *commOf(ncclComm_t handle, const char *call) {
  auto *comm = reinterpret_cast<Comm *>(handle);
  if (fake().comms.count(comm))
    return comm;
  fault(std::string(call) + " of a communicator that is not there");
  return nullptr;
}

/// One end has met the other.
void finish(const Operation &send, const Operation &receive) {
  if (send.bytes != receive.bytes) {
    send.comm->error = receive.comm->error = ncclInvalidUsage;
    return;
  }
  memcpy(receive.data, send.data, send.bytes);
  --send.stream->open;
  --receive.stream->open;
}

void post(const Operation &operation) {
  World &world = *operation.comm->world;
  int self = operation.comm->rank;
  auto pair = operation.receive ? std::make_pair(operation.peer, self)
                                : std::make_pair(self, operation.peer);
  auto &waiting = operation.receive ? world.sends[pair] : world.receives[pair];
  auto &mine = operation.receive ? world.receives[pair] : world.sends[pair];
  if (waiting.empty())
    return mine.push_back(operation);
  Operation other = waiting.front();
  waiting.pop_front();
  operation.receive ? finish(other, operation) : finish(operation, other);
}

/// An aborted rank's operations meet nothing any more.
void withdraw(Comm *comm) {
  for (auto *side : {&comm->world->sends, &comm->world->receives})
    for (auto &[pair, queue] : *side)
      for (size_t i = queue.size(); i-- > 0;)
        if (queue[i].comm == comm) {
          --queue[i].stream->open;
          queue.erase(queue.begin() + long(i));
        }
}

//===----------------------------------------------------------------------===//
// NCCL
//===----------------------------------------------------------------------===//

ncclResult_t getVersion(int *version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t getUniqueId(ncclUniqueId *id) {
  Lock lock(fake().mutex);
  memset(id, 0, sizeof *id);
  int number = fake().nextId++;
  memcpy(id->internal, &number, sizeof number);
  return ncclSuccess;
}

const char *getErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited" : "an error";
}

const char *getLastError(ncclComm_t) { return "detail"; }

ncclResult_t initRank(ncclComm_t *handle, int size, ncclUniqueId id, int rank,
                      ncclConfig_t *config) {
  Lock lock(fake().mutex);
  if (config->blocking != 0)
    fault("a blocking communicator");
  // NCCL_CONFIG_UNDEF_INT, the default, lets NCCL take 64.
  if (config->maxCTAs < 1 || config->maxCTAs > int(kMaxChannels))
    fault("a communicator of more channels than a group may take");
  int number = 0;
  memcpy(&number, id.internal, sizeof number);
  World &world = fake().worlds[number];
  world.size = size;
  ++world.joined;
  auto *comm = new Comm;
  comm->world = &world;
  comm->rank = rank;
  fake().comms.insert(comm);
  *handle = reinterpret_cast<ncclComm_t>(comm);
  return ncclInProgress;
}

ncclResult_t getAsyncError(ncclComm_t handle, ncclResult_t *result) {
  Lock lock(fake().mutex);
  Comm *comm = commOf(handle, "ncclCommGetAsyncError");
  if (!comm)
    return ncclInvalidArgument;
  auto breaks = fake().breakAfter.find(comm->rank);
  if (breaks != fake().breakAfter.end() && comm->groups >= breaks->second)
    comm->error = ncclRemoteError;
  if (comm->busy > 0)
    --comm->busy;
  *result = comm->error != ncclSuccess ? comm->error
            : comm->busy > 0 || comm->world->joined < comm->world->size
                ? ncclInProgress
                : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t drop(ncclComm_t handle, const char *call, bool mustBeFinal) {
  Lock lock(fake().mutex);
  Comm *comm = commOf(handle, call);
  if (!comm)
    return ncclInvalidArgument;
  if (mustBeFinal && (!comm->finalized || comm->busy > 0))
    fault("ncclCommDestroy before the end of ncclCommFinalize");
  if (mustBeFinal && !comm->registrations.empty())
    fault("a communicator is destroyed that has registrations");
  withdraw(comm);
  fake().comms.erase(comm);
  fake().aborts += !mustBeFinal;
  delete comm;
  return ncclSuccess;
}

ncclResult_t commAbort(ncclComm_t handle) {
  return drop(handle, "ncclCommAbort", false);
}

ncclResult_t commDestroy(ncclComm_t handle) {
  return drop(handle, "ncclCommDestroy", true);
}

ncclResult_t commFinalize(ncclComm_t handle) {
  Lock lock(fake().mutex);
  Comm *comm = commOf(handle, "ncclCommFinalize");
  if (!comm || comm->finalized)
    return ncclInvalidArgument;
  comm->finalized = true;
  comm->busy = kBusyLooks;
  return ncclInProgress;
}

ncclResult_t commRegister(const ncclComm_t handle, void *data, size_t,
                          void **registration) {
  Lock lock(fake().mutex);
  Comm *comm = commOf(handle, "ncclCommRegister");
  if (!comm || comm->busy > 0)
    return ncclInvalidArgument;
  comm->registrations.insert(data);
  *registration = data;
  return ncclSuccess;
}

ncclResult_t commDeregister(const ncclComm_t handle, void *registration) {
  Lock lock(fake().mutex);
  Comm *comm = commOf(handle, "ncclCommDeregister");
  if (!comm || !comm->registrations.erase(registration))
    fault("ncclCommDeregister of what is not registered");
  return ncclSuccess;
}

ncclResult_t groupStart() {
  Lock lock(fake().mutex);
  if (tlsInGroup)
    fault("a group inside a group");
  tlsInGroup = true;
  return ncclSuccess;
}

ncclResult_t add(Operation operation) {
  if (!tlsInGroup)
    fault("a message outside a group");
  if (operation.comm->busy > 0)
    fault("a message of a communicator that is busy");
  for (const Operation &other : tlsGroup)
    if (other.peer == operation.peer && other.receive == operation.receive)
      fault("two messages of one ordered pair in a group");
  tlsGroup.push_back(operation);
  return ncclSuccess;
}

ncclResult_t send(const void *data, size_t count, ncclDataType_t type, int peer,
                  ncclComm_t handle, cudaStream_t stream) {
  Lock lock(fake().mutex);
  Comm *comm = commOf(handle, "ncclSend");
  if (!comm || type != ncclUint8 || peer >= comm->world->size)
    return ncclInvalidArgument;
  auto *bytes = static_cast<std::byte *>(const_cast<void *>(data));
  return add(
      {comm, false, peer, bytes, count, reinterpret_cast<Stream *>(stream)});
}

ncclResult_t receive(void *data, size_t count, ncclDataType_t type, int peer,
                     ncclComm_t handle, cudaStream_t stream) {
  Lock lock(fake().mutex);
  Comm *comm = commOf(handle, "ncclRecv");
  if (!comm || type != ncclUint8 || peer >= comm->world->size)
    return ncclInvalidArgument;
  return add({comm, true, peer, static_cast<std::byte *>(data), count,
              reinterpret_cast<Stream *>(stream)});
}

ncclResult_t groupEnd() {
  Lock lock(fake().mutex);
  tlsInGroup = false;
  std::vector<Operation> group;
  group.swap(tlsGroup);
  if (group.empty())
    return ncclSuccess;
  group.front().comm->busy = kBusyLooks;
  ++group.front().comm->groups;
  for (const Operation &operation : group)
    ++operation.stream->open;
  for (const Operation &operation : group)
    post(operation);
  return ncclInProgress;
}

ncclResult_t memAlloc(void **at, size_t bytes) {
  *at = malloc(bytes);
  return ncclSuccess;
}

ncclResult_t memFree(void *at) {
  free(at);
  return ncclSuccess;
}

//===----------------------------------------------------------------------===//
// CUDA
//===----------------------------------------------------------------------===//

cudaError_t makeStream(cudaStream_t *handle) {
  Lock lock(fake().mutex);
  auto *stream = new Stream;
  fake().streams.insert(stream);
  *handle = reinterpret_cast<cudaStream_t>(stream);
  return cudaSuccess;
}

cudaError_t queryStream(cudaStream_t handle) {
  Lock lock(fake().mutex);
  return reinterpret_cast<Stream *>(handle)->open == 0 ? cudaSuccess
                                                       : cudaErrorNotReady;
}

cudaError_t freeStream(cudaStream_t handle) {
  Lock lock(fake().mutex);
  auto *stream = reinterpret_cast<Stream *>(handle);
  if (!fake().streams.erase(stream) || stream->open > 0)
    fault("a stream is freed that is not there, or not idle");
  delete stream;
  return cudaSuccess;
}

cudaError_t allocate(void **at, size_t bytes) {
  Lock lock(fake().mutex);
  *at = malloc(bytes);
  fake().memory.insert(*at);
  return cudaSuccess;
}

cudaError_t release(void *at) {
  Lock lock(fake().mutex);
  if (!fake().memory.erase(at))
    fault("memory is freed that is not there");
  free(at);
  return cudaSuccess;
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
  api.makeStream = makeStream;
  api.queryStream = queryStream;
  api.freeStream = freeStream;
  api.allocate = allocate;
  api.free = release;
  return api;
}

} // namespace

const NcclApi &dtrt::test::fakeNccl() {
  static const NcclApi api = makeApi();
  return api;
}

void dtrt::test::resetFakeNccl() {
  Lock lock(fake().mutex);
  fake().worlds.clear();
  fake().faults.clear();
  fake().breakAfter.clear();
  fake().aborts = 0;
}

std::vector<std::string> dtrt::test::fakeNcclFaults() {
  Lock lock(fake().mutex);
  std::vector<std::string> faults = fake().faults;
  auto leak = [&](size_t count, const char *what) {
    if (count > 0)
      faults.push_back(std::to_string(count) + " " + what + " are left");
  };
  leak(fake().comms.size(), "communicators");
  leak(fake().streams.size(), "streams");
  leak(fake().memory.size(), "blocks of memory");
  return faults;
}

void dtrt::test::breakFakeNccl(int rank, int afterGroups) {
  Lock lock(fake().mutex);
  fake().breakAfter[rank] = afterGroups;
}

int dtrt::test::fakeNcclAborts() {
  Lock lock(fake().mutex);
  return fake().aborts;
}
