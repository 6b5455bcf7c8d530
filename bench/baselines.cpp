//===- baselines.cpp - What simpler transfers would take ------------------===//
//
// Routes a request as other systems do and times it with our cost model, each
// at its best: no baseline pays for packing, planning or staging.
//
//   xor       direct sends from the least loaded holder (same node first), one
//             packed message per pair; in round u device i meets i XOR u, for
//             u below the next power of two; rounds are in lock step.
//   unpacked  the same sends, a message per tensor, state and box, all in one
//             group: a port carries its messages one after the other, each
//             with its latency, and never waits for its peers.
//   megatron  Megatron-Core's refit: what a device holds it keeps, else the
//             replica (receiver modulo replicas) sends; batches of 32 tensors,
//             in lock step, ports as above.
//
//   dt-bench-baselines REQUEST.json
//
// Prints one JSON object: seconds, wire bytes and messages of each.
//
//===----------------------------------------------------------------------===//

#include "TransitionInfo.h"
#include "dt/Passes/ImportRequest.h"
#include "dt/Passes/Passes.h"
#include "dt/Routing/CostModel.h"

#include "mlir/Pass/PassManager.h"

#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

using namespace mlir;
using namespace dt;

namespace {

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
    for (auto key : {std::make_tuple(source, inter, false),
                     std::make_tuple(destination, inter, true)}) {
      Port &port = ports[key];
      port.seconds += seconds;
      port.messages += messages;
    }
  }

  /// Until the busiest port is done.
  double seconds() const {
    double most = 0;
    for (const auto &[key, port] : ports) {
      most =
          std::max(most, port.seconds + port.messages * cluster.latencySeconds);
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

Outcome xorRounds(const std::vector<Send> &sends, const Cluster &cluster) {
  std::map<int64_t, Round> rounds;
  std::map<std::pair<int64_t, int64_t>, int64_t> pairs;
  std::map<int64_t, int64_t> dense;
  for (const Send &send : sends) {
    pairs[{send.source, send.destination}] += send.bytes;
    dense[send.source] = dense[send.destination] = 0;
  }
  int64_t count = 0;
  for (auto &[device, number] : dense)
    number = count++;
  for (auto [pair, bytes] : pairs)
    rounds.try_emplace(dense[pair.first] ^ dense[pair.second], cluster)
        .first->second.add(pair.first, pair.second, bytes, /*messages=*/1);
  Outcome out = {0, total(sends), int64_t(pairs.size())};
  for (const auto &[number, round] : rounds)
    out.seconds += round.seconds();
  return out;
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

Outcome oneGroup(const TransitionInfo &info, const std::vector<Send> &sends) {
  Round round(info.cluster);
  Outcome out = {0, total(sends), 0};
  for (const Send &send : sends) {
    int64_t pieces = piecesOf(info, send);
    round.add(send.source, send.destination, send.bytes, pieces);
    out.messages += pieces;
  }
  out.seconds = round.seconds();
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

LogicalResult report(TransitionInfo &info) {
  std::vector<Flow> flows = info.makeFlows(/*computeCells=*/true);
  std::vector<Send> sends = leastLoaded(flows, info.cluster);
  std::cout.precision(9);
  std::cout << "{";
  print("xor", xorRounds(sends, info.cluster), ", ");
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
  OwningOpRef<ModuleOp> module = importRequest(*request, &context);
  PassManager passes(&context);
  passes.addPass(createGroupFamilies());
  if (failed(passes.run(*module)) || failed(forEachTransition(*module, report)))
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
