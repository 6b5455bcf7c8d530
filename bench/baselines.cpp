//===- baselines.cpp - What simpler transfers would take ------------------===//
//
// Routes a request as other systems do and times it with our cost model
// (CostModel.h: the same rates, latency and copy lane). None pays for planning,
// and none has a limit on staging.
//
//   xor       direct sends from the least loaded holder (same node first), one
//             packed message per pair, in chunks of a quarter of the staging
//             limit as ours; in round u device i meets i XOR u, for u below the
//             next power of two. Timed as our waves are: packs and unpacks run
//             beside the wire, and no round is a barrier.
//   unpacked  the same sends, a message per tensor, state and box, all in one
//             group. NCCL sends and receives contiguous buffers, so strided
//             boxes are copied, one kernel each: before the group starts, and
//             after it ends. Inside, NCCL's order (src/enqueue.cc,
//             scheduleP2pTasksToPlan): pass k takes the k-th message of each
//             pair, peers in rounds, up to eight messages of a batch at once.
//   megatron  Megatron-Core's refit: what a device holds it keeps, else the
//             replica (receiver modulo replicas) sends; batches of 32 tensors,
//             in lock step, each as above but for the copies.
//
//   dt-bench-baselines REQUEST.json
//
// Prints one JSON object: seconds, wire bytes and messages of each.
//
//===----------------------------------------------------------------------===//

#include "TransitionAnalysis.h"
#include "dt/Passes/ImportRequest.h"
#include "dt/Passes/Passes.h"
#include "dt/Scheduling/ChunkSizes.h"

#include "mlir/Pass/PassManager.h"

#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

using namespace mlir;
using namespace dt;

namespace {

/// Operations of a group that NCCL runs at once.
constexpr int64_t kBatchOperations = 8;
/// Tensors that Megatron-Core's refit moves before all ranks meet again.
constexpr int64_t kBatchTensors = 32;

/// A box that one device sends to another, for all members and states in it.
struct Send {
  uint32_t flow = 0;
  int64_t source = 0, destination = 0;
  Box box;
  int64_t bytes = 0;
};

struct Outcome {
  double seconds = 0;
  int64_t bytes = 0;
  int64_t messages = 0;
};

/// What the ports of a device carry in one lock-step round.
class Round {
public:
  explicit Round(const Cluster &cluster) : cluster(cluster) {}

  void add(int64_t source, int64_t destination, int64_t bytes,
           int64_t messages) {
    double seconds = cluster.wireSeconds(source, destination, bytes);
    bool inter = !cluster.sameNode(source, destination);
    for (auto key :
         {std::make_tuple(cluster.port(source, inter), inter, false),
          std::make_tuple(cluster.port(destination, inter), inter, true)}) {
      Port &port = ports[key];
      port.seconds += seconds;
      port.messages += messages;
    }
  }

  /// Until the busiest port is done.
  double seconds() const {
    double most = 0;
    for (const auto &[key, port] : ports) {
      int64_t batches =
          (port.messages + kBatchOperations - 1) / kBatchOperations;
      most = std::max(most, port.seconds + batches * cluster.latencySeconds());
    }
    return most;
  }

private:
  struct Port {
    double seconds = 0;
    int64_t messages = 0;
  };
  const Cluster &cluster;
  std::map<std::tuple<int64_t, bool, bool>, Port> ports;
};

/// Calls `fn(flow, box, bytes, holders, device)` for every box that a device
/// wants and does not hold.
template <typename Fn>
void forEachMissing(const std::vector<Flow> &flows, Fn fn) {
  for (uint32_t i = 0; i < flows.size(); ++i) {
    const Flow &flow = flows[i];
    for (const CellPair &pair :
         join(flow.source.cells, flow.destination.cells)) {
      const auto &holders =
          flow.source.ownerSets[flow.source.cells[pair.left].owners];
      const auto &wanters =
          flow.destination.ownerSets[flow.destination.cells[pair.right].owners];
      for (int64_t device : wanters)
        if (!std::binary_search(holders.begin(), holders.end(), device))
          fn(i, pair.box, pair.box.volume() * flow.bytesPerElement, holders,
             device);
    }
  }
}

/// The least loaded holder of the same node, else of all.
std::vector<Send> leastLoaded(const std::vector<Flow> &flows,
                              const Cluster &cluster) {
  std::vector<Send> sends;
  std::map<std::pair<int64_t, bool>, double> loads;
  forEachMissing(flows, [&](uint32_t flow, const Box &box, int64_t bytes,
                            const std::vector<int64_t> &holders,
                            int64_t device) {
    std::pair<bool, double> bestCost = {true, 1e300};
    int64_t best = holders.front();
    for (int64_t holder : holders) {
      bool inter = !cluster.sameNode(holder, device);
      std::pair<bool, double> cost = {inter, loads[{holder, inter}]};
      if (cost < bestCost) {
        bestCost = cost;
        best = holder;
      }
    }
    loads[{best, bestCost.first}] += cluster.wireSeconds(best, device, bytes);
    sends.push_back({flow, best, device, box, bytes});
  });
  return sends;
}

std::vector<Send> roundRobin(const std::vector<Flow> &flows) {
  std::vector<Send> sends;
  forEachMissing(flows,
                 [&](uint32_t flow, const Box &box, int64_t bytes,
                     const std::vector<int64_t> &holders, int64_t device) {
                   int64_t sender = holders[device % holders.size()];
                   sends.push_back({flow, sender, device, box, bytes});
                 });
  return sends;
}

int64_t total(const std::vector<Send> &sends) {
  int64_t bytes = 0;
  for (const Send &send : sends)
    bytes += send.bytes;
  return bytes;
}

Outcome xorRounds(const TransitionInfo &info, const std::vector<Send> &sends) {
  std::map<std::pair<int64_t, int64_t>, int64_t> pairs;
  std::map<int64_t, int64_t> dense;
  for (const Send &send : sends) {
    pairs[{send.source, send.destination}] += send.bytes;
    dense[send.source] = dense[send.destination] = 0;
  }
  int64_t count = 0;
  for (auto &[device, number] : dense)
    number = count++;
  int64_t limit = info.stagingLimit / kSlotsPerLevel, mostChunks = 1;
  for (auto [pair, bytes] : pairs)
    mostChunks = std::max(mostChunks, (bytes + limit - 1) / limit);
  std::vector<TimedMessage> messages;
  for (auto [pair, bytes] : pairs) {
    int64_t chunks = (bytes + limit - 1) / limit;
    for (int64_t i = 0; i < chunks; ++i) {
      TimedMessage message;
      int64_t round = dense[pair.first] ^ dense[pair.second];
      message.wave = int32_t(round * mostChunks + i);
      message.source = pair.first;
      message.destination = pair.second;
      message.bytes = bytes * (i + 1) / chunks - bytes * i / chunks;
      messages.push_back(message);
    }
  }
  std::stable_sort(messages.begin(), messages.end(),
                   [](const TimedMessage &a, const TimedMessage &b) {
                     return a.wave < b.wave;
                   });
  return {predictSeconds(messages, info.cluster), total(sends),
          int64_t(messages.size())};
}

/// Messages of a box: one per member and state.
int64_t piecesOf(const TransitionInfo &info, const Send &send) {
  const FlowInfo &flow = info.flows[send.flow];
  ParamOp param = flow.param;
  int64_t pieces = llvm::popcount(flow.states);
  for (unsigned d = 0; d < param.numLeading(); ++d)
    pieces *= send.box[d].size();
  return pieces;
}

/// Copies of strided boxes on each device, on one side.
class Copies {
public:
  Copies(const TransitionInfo &info, bool sends)
      : cluster(info.cluster), isSending(sends) {
    for (uint32_t i = 0; i < info.flows.size(); ++i)
      shards.add(i, sends ? info.flows[i].source : info.flows[i].destination);
  }

  /// `piece` is the box of one member.
  void add(const Send &send, const Box &piece, int64_t pieces) {
    int64_t device = isSending ? send.source : send.destination;
    auto found = shards.findNumber(send.flow, device, piece);
    if (found && isOneRun(*shards.shardsOf(device)[*found].shard, piece))
      return;
    seconds[device] += cluster.packSeconds(send.bytes) +
                       double(pieces - 1) * cluster.packLaunchUs / 1e6;
  }

  double slowest() const {
    double most = 0;
    for (auto [device, busy] : seconds)
      most = std::max(most, busy);
    return most;
  }

private:
  const Cluster &cluster;
  bool isSending;
  ShardIndex shards;
  std::map<int64_t, double> seconds;
};

/// The messages of one group in NCCL's order. A batch of a device starts when
/// its own and its peer's batch before have ended.
class Group {
public:
  Group(const Cluster &cluster, const std::vector<Send> &sends)
      : cluster(cluster) {
    for (const Send &send : sends)
      dense[send.source] = dense[send.destination] = 0;
    int64_t count = 0;
    for (auto &[device, number] : dense)
      number = count++;
  }

  void add(const Send &send, int64_t bytes) {
    int64_t round = dense[send.destination] - dense[send.source];
    round += round < 0 ? int64_t(dense.size()) : 0;
    int64_t pass = passes[{send.source, send.destination}]++;
    batches[{pass, round / kBatchOperations}].push_back(
        {send.source, send.destination, bytes});
  }

  double seconds() const {
    std::map<int64_t, double> ended;
    double latest = 0;
    for (const auto &[key, batch] : batches) {
      std::map<std::tuple<int64_t, bool, bool>, double> ports;
      auto port = [&](const Entry &entry, bool receive) -> double & {
        bool inter = !cluster.sameNode(entry.source, entry.destination);
        int64_t device = receive ? entry.destination : entry.source;
        return ports[{cluster.port(device, inter), receive, inter}];
      };
      for (const Entry &entry : batch)
        for (bool receive : {false, true})
          port(entry, receive) +=
              cluster.wireSeconds(entry.source, entry.destination, entry.bytes);
      std::map<int64_t, double> ends;
      for (const Entry &entry : batch) {
        double end = std::max(ended[entry.source], ended[entry.destination]) +
                     cluster.latencySeconds() +
                     std::max(port(entry, false), port(entry, true));
        for (int64_t device : {entry.source, entry.destination})
          ends[device] = std::max(ends[device], end);
      }
      for (auto [device, end] : ends)
        latest = std::max(latest, ended[device] = end);
    }
    return latest;
  }

private:
  struct Entry {
    int64_t source, destination, bytes;
  };
  const Cluster &cluster;
  std::map<int64_t, int64_t> dense;
  std::map<std::pair<int64_t, int64_t>, int64_t> passes;
  std::map<std::pair<int64_t, int64_t>, std::vector<Entry>> batches;
};

Outcome oneGroup(const TransitionInfo &info, const std::vector<Send> &sends) {
  Group group(info.cluster, sends);
  Copies before(info, /*sends=*/true), after(info, /*sends=*/false);
  std::vector<unsigned> leading = info.numLeading();
  Outcome out = {0, total(sends), 0};
  for (const Send &send : sends) {
    int64_t pieces = piecesOf(info, send);
    Box piece = send.box;
    for (unsigned d = 0; d < leading[send.flow]; ++d)
      piece[d].hi = piece[d].lo + 1;
    before.add(send, piece, pieces);
    after.add(send, piece, pieces);
    for (int64_t i = 0; i < pieces; ++i)
      group.add(send, send.bytes / pieces);
    out.messages += pieces;
  }
  out.seconds = before.slowest() + group.seconds() + after.slowest();
  return out;
}

/// Batches of tensors in registration order, per family: each member and state
/// is a tensor of its own.
Outcome lockstepBatches(const TransitionInfo &info,
                        const std::vector<Send> &sends) {
  std::map<std::pair<uint32_t, int64_t>, Round> batches;
  Outcome out = {0, total(sends), 0};
  for (const Send &send : sends) {
    const FlowInfo &flow = info.flows[send.flow];
    ParamOp param = flow.param;
    int64_t pieces = piecesOf(info, send), perPiece = send.bytes / pieces;
    unsigned leading = param.numLeading();
    std::vector<int64_t> shape = info.shapeOf(send.flow);
    int64_t states = llvm::popcount(flow.states);
    for (int64_t i = 0; i < pieces; ++i) {
      int64_t rest = i / states, member = 0, stride = 1;
      for (unsigned d = leading; d-- > 0;) {
        member += stride * (send.box[d].lo + rest % send.box[d].size());
        rest /= send.box[d].size();
        stride *= shape[d];
      }
      int64_t batch = (member * states + i % states) / kBatchTensors;
      batches.try_emplace({send.flow, batch}, info.cluster)
          .first->second.add(send.source, send.destination, perPiece,
                             /*messages=*/1);
    }
    out.messages += pieces;
  }
  for (const auto &[key, batch] : batches)
    out.seconds += batch.seconds();
  return out;
}

void print(const char *name, const Outcome &outcome, const char *end) {
  std::cout << '"' << name << "\": {\"seconds\": " << outcome.seconds
            << ", \"wire_bytes\": " << outcome.bytes
            << ", \"messages\": " << outcome.messages << "}" << end;
}

LogicalResult report(const TransitionInfo &info) {
  auto found = info.flowCells();
  if (failed(found))
    return failure();
  const std::vector<Flow> &flows = **found;
  std::vector<Send> sends = leastLoaded(flows, info.cluster);
  std::cout.precision(9);
  std::cout << "{";
  print("xor", xorRounds(info, sends), ", ");
  print("unpacked", oneGroup(info, sends), ", ");
  print("megatron", lockstepBatches(info, roundRobin(flows)), "}\n");
  return success();
}

int run(const std::string &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  size_t slash = path.rfind('/');
  std::string error;
  auto request = readRequest(
      text.str(), slash == std::string::npos ? "." : path.substr(0, slash),
      error);
  if (!file || !request) {
    std::cerr << "error: " << (file ? error : "cannot read " + path) << "\n";
    return 1;
  }
  MLIRContext context;
  OwningOpRef<ModuleOp> module = importRequest(*request, path, &context);
  PassManager passes(&context);
  passes.addPass(createGroupFamilies());
  if (failed(passes.run(*module)) ||
      failed(TransitionAnalysis(*module).forEach(report)))
    return 1;
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc == 2 && std::string(argv[1]).rfind("-", 0) != 0)
    return run(argv[1]);
  std::cerr << "usage: dt-bench-baselines REQUEST.json\n";
  return argc == 2 && std::string(argv[1]) == "--help" ? 0 : 1;
}
