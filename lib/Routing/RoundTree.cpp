//===- RoundTree.cpp - Blocks from a root to nodes and devices ------------===//

#include "dt/Routing/RoundTree.h"

#include "dt/Routing/Circulant.h"

#include <algorithm>
#include <cmath>

using namespace dt;

namespace {

/// Appends what goes from the first device to the others, which has
/// `blocks[i]` before round `start + i`.
void addSteps(const RoundTree::Devices &devices,
              const std::vector<int64_t> &blocks, int64_t start,
              std::vector<BlockStep> &out) {
  CirculantBroadcast broadcast{int64_t(devices.size())};
  for (const BlockReceipt &receipt : broadcast.receipts(int64_t(blocks.size())))
    out.push_back({blocks[receipt.block], start + receipt.round,
                   devices[receipt.sender], devices[receipt.receiver]});
}

} // namespace

std::vector<BlockStep> RoundTree::steps(int64_t blocks) const {
  std::vector<int64_t> all;
  for (int64_t block = 0; block < blocks; ++block)
    all.push_back(block);
  std::vector<BlockStep> out;
  Devices entries = {root};
  for (const Devices &node : nodes)
    entries.push_back(node.front());
  addSteps(entries, all, /*start=*/0, out);
  size_t numEntering = out.size();
  for (const Devices &node : holding)
    addSteps(node, all, /*start=*/0, out);
  for (const Devices &node : nodes) {
    std::vector<int64_t> arrived;
    int64_t start = 0;
    for (size_t i = 0; i < numEntering; ++i)
      if (out[i].destination == node.front()) {
        start = std::max(start, out[i].round + 1 - int64_t(arrived.size()));
        arrived.push_back(out[i].block);
      }
    addSteps(node, arrived, start, out);
  }
  std::stable_sort(
      out.begin(), out.end(),
      [](const BlockStep &a, const BlockStep &b) { return a.round < b.round; });
  return out;
}

int64_t RoundTree::delay() const {
  int64_t inside = 0; // nodes
  for (const Devices &node : nodes)
    inside = std::max(inside, CirculantBroadcast(node.size()).phase());
  int64_t outside = CirculantBroadcast(nodes.size() + 1).phase();
  int64_t out = outside + inside - (inside == 0);
  for (const Devices &node : holding)
    out = std::max(out, CirculantBroadcast(node.size()).phase() - 1);
  return out;
}

int64_t RoundTree::bestBlocks(int64_t bytes, int64_t most,
                              const Cluster &cluster) const {
  double wire = double(bytes) / cluster.bytesPerSecond(!nodes.empty());
  double latency = cluster.waveSeconds();
  auto seconds = [&](int64_t blocks) {
    return double(blocks + delay()) * (latency + wire / double(blocks));
  };
  // It has one minimum, where delay x wire = blocks^2 x latency.
  double best = std::min(double(most), std::sqrt(double(delay()) * wire /
                                                 std::max(latency, 1e-9)));
  int64_t blocks = std::clamp<int64_t>(int64_t(best), 1, most);
  if (blocks < most && seconds(blocks + 1) < seconds(blocks))
    ++blocks;
  return blocks;
}
