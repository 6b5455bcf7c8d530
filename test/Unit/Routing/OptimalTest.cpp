//===- OptimalTest.cpp - Small cases against exact solvers ----------------===//
//
// Routing: with one wanter per piece, what senders must carry is a flow
// problem, whose optimum is the tightest set of senders (max-flow, min-cut):
// all sets are tried. Waves: all ways to put a few messages into waves are
// tried, with the same cost model.
//
//===----------------------------------------------------------------------===//

#include "dt/Routing/CostModel.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

using namespace dt;

namespace {

//===----------------------------------------------------------------------===//
// Routing
//===----------------------------------------------------------------------===//

constexpr int64_t kUnit = 1 << 20;

/// A row of `units` MiB, held by some devices and wanted by one.
struct Row {
  int64_t units = 0;
  unsigned holders = 0; // mask over the devices
  int64_t wanter = 0;
};

Flow flowOf(const std::vector<Row> &rows) {
  std::vector<HeldBox> source, destination;
  int64_t at = 0;
  for (const Row &row : rows) {
    Box box = Box::fromOffsetSize({at}, {row.units * kUnit});
    at += row.units * kUnit;
    for (int64_t device = 0; row.holders >> device; ++device)
      if (row.holders >> device & 1)
        source.push_back({device, box, std::nullopt});
    destination.push_back({row.wanter, box, std::nullopt});
  }
  Flow flow;
  flow.bytesPerElement = 1;
  flow.source = overlay(holdingsOf(source, 0), {at});
  flow.destination = overlay(holdingsOf(destination, 0), {at});
  return flow;
}

/// Least bytes of the busiest port, sending or receiving.
double optimalLoad(const std::vector<Row> &rows, unsigned devices) {
  double best = 0;
  for (unsigned set = 1; set < 1u << devices; ++set) {
    int64_t received = 0, sent = 0;
    unsigned size = 0;
    for (unsigned device = 0; device < devices; ++device)
      size += set >> device & 1;
    for (const Row &row : rows) {
      sent += (row.holders & ~set) == 0 ? row.units : 0;
      received += set == 1u << row.wanter ? row.units : 0;
    }
    best = std::max({best, double(sent) / size, double(received)});
  }
  return best * kUnit;
}

double routedLoad(const std::vector<Row> &rows) {
  Cluster cluster;
  Routing routing;
  Hole hole;
  RouterOptions options;
  options.minPieceBytes = 1024;
  EXPECT_TRUE(route({flowOf(rows)}, cluster, options, routing, hole));
  std::map<int64_t, int64_t> out, in;
  int64_t busiest = 0;
  for (const Move &move : routing.moves) {
    busiest = std::max(busiest, out[move.source] += move.box.volume());
    busiest = std::max(busiest, in[move.destination] += move.box.volume());
  }
  return busiest;
}

TEST(Optimal, RoutingBalancesSendersLikeMaxFlow) {
  // Pieces stay whole, a 64th of the busiest device's traffic each, and a
  // relief moves one at a time: the optimum may cut them anywhere.
  constexpr double kFactor = 1.05;
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int trial = 0; trial < 2000; ++trial) {
    unsigned devices = 3 + random() % 3;
    std::vector<Row> rows(1 + random() % 8);
    for (Row &row : rows) {
      row.units = 1 + random() % 8;
      row.wanter = random() % devices;
      do
        row.holders = 1 + random() % ((1u << devices) - 1);
      while (row.holders >> row.wanter & 1);
    }
    double optimal = optimalLoad(rows, devices);
    double ours = routedLoad(rows);
    EXPECT_LE(ours, optimal * kFactor);
  }
}

//===----------------------------------------------------------------------===//
// Waves
//===----------------------------------------------------------------------===//

/// Tries every wave for message `next` and those after it.
class WaveSearch {
public:
  WaveSearch(std::vector<Message> messages, const Cluster &cluster)
      : messages(std::move(messages)), cluster(cluster) {}

  double run() {
    place(0);
    return best;
  }

private:
  bool collides(size_t next) const {
    for (size_t i = 0; i < next; ++i)
      if (messages[i].wave == messages[next].wave &&
          (messages[i].source == messages[next].source ||
           messages[i].destination == messages[next].destination))
        return true;
    return false;
  }

  void place(size_t next) {
    if (next == messages.size()) {
      std::vector<Message> sorted = messages;
      std::stable_sort(
          sorted.begin(), sorted.end(),
          [](const Message &a, const Message &b) { return a.wave < b.wave; });
      best = std::min(best, predictSeconds(sorted, cluster));
      return;
    }
    for (size_t wave = 0; wave < messages.size(); ++wave) {
      messages[next].wave = int32_t(wave);
      if (!collides(next))
        place(next + 1);
    }
  }

  std::vector<Message> messages;
  const Cluster &cluster;
  double best = 1e30;
};

/// Random messages between few devices of one node, at most one per pair.
std::vector<Move> randomMoves(std::mt19937 &random, bool equal) {
  int64_t devices = 3 + random() % 3, at = 0;
  std::set<std::pair<int64_t, int64_t>> pairs;
  std::vector<Move> moves;
  for (unsigned i = 2 + random() % 4; i > 0; --i) {
    int64_t source = random() % devices, destination = random() % devices;
    if (source == destination || !pairs.insert({source, destination}).second)
      continue;
    int64_t bytes = kUnit * (equal ? 64 : 16 * (1 + random() % 8));
    moves.push_back(
        {0, 0, source, destination, Box::fromOffsetSize({at}, {bytes})});
    at += bytes;
  }
  return moves;
}

double optimalSeconds(const std::vector<Move> &moves, const Cluster &cluster) {
  std::vector<Message> messages;
  for (const Move &move : moves) {
    Message message;
    message.source = move.source;
    message.destination = move.destination;
    message.bytes = move.box.volume();
    messages.push_back(message);
  }
  return WaveSearch(std::move(messages), cluster).run();
}

/// The best over the candidate chunk sizes, as the compiler takes it.
double scheduledSeconds(const std::vector<Move> &moves,
                        const Cluster &cluster) {
  Flow flow;
  flow.bytesPerElement = 1;
  double best = 1e30;
  for (ChunkBytes chunks :
       candidateChunks(moves, {flow}, cluster, int64_t(8) << 30)) {
    std::vector<ScheduledMove> scheduled;
    int64_t needed = 0;
    EXPECT_TRUE(schedule(moves, {flow}, cluster, chunks, scheduled, needed));
    best = std::min(best, predictSeconds(scheduled, {flow}, cluster));
  }
  return best;
}

void compareWithOptimum(bool equal, double factor) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  Cluster cluster;
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<Move> moves = randomMoves(random, equal);
    if (moves.empty())
      continue;
    double optimal = optimalSeconds(moves, cluster);
    double ours = scheduledSeconds(moves, cluster);
    EXPECT_LE(ours, optimal * factor);
  }
}

TEST(Optimal, WavesOfEqualMessagesAreOptimal) {
  compareWithOptimum(/*equal=*/true, 1 + 1e-9);
}

// Waves are chosen by what is left, not by search.
TEST(Optimal, WavesOfUnequalMessagesAreNearlyOptimal) {
  compareWithOptimum(/*equal=*/false, 1.05);
}

} // namespace
