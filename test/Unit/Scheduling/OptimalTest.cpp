//===- OptimalTest.cpp - Small cases against exact solvers ----------------===//
//
// Routing: with one wanter per piece, what senders must carry is a flow
// problem, whose optimum is the tightest set of senders (max-flow, min-cut):
// all sets are tried. Waves: all ways to put up to six messages into waves are
// tried, with the same cost model. Both at once: all sources, forwards
// included, of up to four deliveries, and all waves for them.
//
//===----------------------------------------------------------------------===//

#include "SolvedWaves.h"
#include "dt/Routing/BestRoute.h"
#include "dt/Routing/ExactRoute.h"
#include "dt/Scheduling/BestSchedule.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

using namespace dt;
using namespace dt::testing;

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

double routedLoad(const std::vector<Row> &rows, int64_t leastPiece) {
  RouterOptions options;
  options.minPieceBytes = leastPiece;
  Routing routing =
      solved(RoutingProblem({flowOf(rows)}, Cluster(), 1 << 20), options);
  std::map<int64_t, int64_t> out, in;
  int64_t busiest = 0;
  for (const Move &move : routing.moves) {
    busiest = std::max(busiest, out[move.source] += move.box.volume());
    busiest = std::max(busiest, in[move.destination] += move.box.volume());
  }
  return busiest;
}

TEST(Optimal, RoutingBalancesSendersLikeMaxFlow) {
  // Pieces stay whole, a 64th of the busiest device's traffic each, where the
  // optimum may cut anywhere: no more than one piece may lie between them.
  constexpr double kFactor = 1 + 1.0 / 64;
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
    double ours = routedLoad(rows, 1024);
    EXPECT_LE(ours, optimal * kFactor);
  }
}

TEST(Optimal, RoutingOfEqualPiecesIsOptimal) {
  // Pieces of a MiB each that cannot be cut: the optimum of the flow is whole.
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int trial = 0; trial < 2000; ++trial) {
    unsigned devices = 3 + random() % 3;
    std::vector<Row> rows(1 + random() % 24);
    for (Row &row : rows) {
      row.units = 1;
      row.wanter = random() % devices;
      do
        row.holders = 1 + random() % ((1u << devices) - 1);
      while (row.holders >> row.wanter & 1);
    }
    double optimal = std::ceil(optimalLoad(rows, devices) / kUnit) * kUnit;
    EXPECT_EQ(routedLoad(rows, kUnit), optimal);
  }
}

//===----------------------------------------------------------------------===//
// Waves
//===----------------------------------------------------------------------===//

/// A message, and those that must come in earlier waves.
struct Piece {
  TimedMessage message;
  std::set<size_t> after;
};

/// Tries every wave for message `next` and those after it.
class WaveSearch {
public:
  WaveSearch(std::vector<Piece> pieces, const Cluster &cluster)
      : pieces(std::move(pieces)), cluster(cluster) {}

  double run() {
    place(0);
    return best;
  }

private:
  bool isWrong(size_t a, size_t b) const {
    const TimedMessage &first = pieces[a].message, &second = pieces[b].message;
    if (pieces[b].after.count(a))
      return first.wave >= second.wave;
    return first.wave == second.wave &&
           cluster.sameNode(first.source, first.destination) ==
               cluster.sameNode(second.source, second.destination) &&
           (first.source == second.source ||
            first.destination == second.destination);
  }

  /// Whether one that it waits for came in its sender's group before.
  bool passesOn(const Piece &piece) const {
    const TimedMessage &own = piece.message;
    int32_t last = -1;
    for (const Piece &other : pieces)
      if ((other.message.source == own.source ||
           other.message.destination == own.source) &&
          other.message.wave < own.wave)
        last = std::max(last, other.message.wave);
    return std::any_of(piece.after.begin(), piece.after.end(), [&](size_t i) {
      return pieces[i].message.wave == last;
    });
  }

  void judge() {
    std::vector<TimedMessage> sorted;
    std::set<int32_t> waves;
    for (Piece &piece : pieces) {
      piece.message.isForward = passesOn(piece);
      sorted.push_back(piece.message);
      waves.insert(piece.message.wave);
    }
    if (*waves.rbegin() + 1 != int32_t(waves.size()))
      return; // an empty wave
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const TimedMessage &a, const TimedMessage &b) {
                       return a.wave < b.wave;
                     });
    best = std::min(best, predictSeconds(sorted, cluster));
  }

  void place(size_t next) {
    if (next == pieces.size())
      return judge();
    for (size_t wave = 0; wave < pieces.size(); ++wave) {
      pieces[next].message.wave = int32_t(wave);
      bool fits = true;
      for (size_t i = 0; i < next && fits; ++i)
        fits = !isWrong(i, next) && !isWrong(next, i);
      if (fits)
        place(next + 1);
    }
  }

  std::vector<Piece> pieces;
  const Cluster &cluster;
  double best = 1e30;
};

/// Random messages between few devices, at most one per pair.
std::vector<Move> randomMoves(std::mt19937 &random, bool equal) {
  int64_t devices = 3 + random() % 3, at = 0;
  std::set<std::pair<int64_t, int64_t>> pairs;
  std::vector<Move> moves;
  for (unsigned i = 2 + random() % 5; i > 0; --i) {
    int64_t source = random() % devices, destination = random() % devices;
    if (source == destination || !pairs.insert({source, destination}).second)
      continue;
    int64_t bytes = kUnit * (equal ? 64 : 16 * (1 + random() % 8));
    if (!equal && random() % 2)
      bytes /= 1024; // latency counts
    moves.push_back(
        {0, 0, source, destination, Box::fromOffsetSize({at}, {bytes})});
    at += bytes;
  }
  return moves;
}

double optimalSeconds(const std::vector<Move> &moves, const Cluster &cluster) {
  std::vector<Piece> pieces;
  for (const Move &move : moves) {
    Piece piece;
    piece.message.source = move.source;
    piece.message.destination = move.destination;
    piece.message.bytes = move.box.volume();
    pieces.push_back(piece);
  }
  return WaveSearch(std::move(pieces), cluster).run();
}

/// As the compiler schedules.
double scheduledSeconds(const WaveProblem &problem) {
  return problem.seconds(solved(problem, scheduleBest).moves);
}

/// As the compiler routes.
Routing routed(const RoutingProblem &problem) {
  RouterOptions options;
  options.seconds = [&](const std::vector<Move> &moves) {
    return routeSeconds(problem, moves);
  };
  return solved(problem, options, routeBest);
}

/// No more than floating point may differ: cutting messages may only help.
constexpr double kRounding = 1 + 1e-9;

void compareWithOptimum(bool equal) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int trial = 0; trial < 200; ++trial) {
    Cluster cluster;
    cluster.devicesPerNode = random() % 2 ? 8 : 2;
    std::vector<Move> moves = randomMoves(random, equal);
    if (!moves.empty()) {
      EXPECT_LE(scheduledSeconds(wavesOf(moves, cluster)),
                optimalSeconds(moves, cluster) * kRounding);
    }
  }
}

TEST(Optimal, WavesOfEqualMessagesAreOptimal) {
  compareWithOptimum(/*equal=*/true);
}

TEST(Optimal, WavesOfUnequalMessagesAreOptimal) {
  compareWithOptimum(/*equal=*/false);
}

//===----------------------------------------------------------------------===//
// Routes and waves
//===----------------------------------------------------------------------===//

/// A box that some devices hold and some want.
struct Share {
  int64_t bytes = 0;
  unsigned holders = 0, wanters = 0; // masks
};

/// Tries every source of every delivery, and every wave.
class JointSearch {
public:
  JointSearch(std::vector<Share> shares, const Cluster &cluster)
      : shares(std::move(shares)), cluster(cluster) {
    for (size_t share = 0; share < this->shares.size(); ++share)
      for (int64_t device = 0; device < 32; ++device)
        if ((this->shares[share].wanters & ~this->shares[share].holders) >>
                device &
            1)
          deliveries.push_back({share, device, -1});
  }

  double run() {
    choose(0);
    return best;
  }
  size_t size() const { return deliveries.size(); }

private:
  struct Delivery {
    size_t share;
    int64_t device, source;
  };

  void choose(size_t next) {
    if (next == deliveries.size()) {
      if (crossings() == leastCrossings())
        judge();
      return;
    }
    Delivery &delivery = deliveries[next];
    const Share &share = shares[delivery.share];
    for (int64_t device = 0; device < 32; ++device) {
      if (!((share.holders | share.wanters) >> device & 1) ||
          device == delivery.device)
        continue;
      delivery.source = device;
      choose(next + 1);
    }
  }

  int64_t crossings() const {
    int64_t count = 0;
    for (const Delivery &delivery : deliveries)
      count += !cluster.sameNode(delivery.source, delivery.device);
    return count;
  }

  /// Nodes that want a share and have no holder of it.
  int64_t leastCrossings() const {
    std::set<std::pair<size_t, int64_t>> nodes;
    for (const Delivery &delivery : deliveries)
      nodes.insert({delivery.share, cluster.node(delivery.device)});
    for (size_t share = 0; share < shares.size(); ++share)
      for (int64_t device = 0; device < 32; ++device)
        if (shares[share].holders >> device & 1)
          nodes.erase({share, cluster.node(device)});
    return int64_t(nodes.size());
  }

  /// A circle of forwards finds no waves, since each has to be later.
  void judge() {
    std::vector<Piece> pieces;
    std::map<std::pair<int64_t, int64_t>, size_t> known;
    std::vector<size_t> pieceOf;
    for (const Delivery &delivery : deliveries) {
      auto [it, isNew] =
          known.try_emplace({delivery.source, delivery.device}, pieces.size());
      if (isNew) {
        Piece piece;
        piece.message.source = delivery.source;
        piece.message.destination = delivery.device;
        pieces.push_back(piece);
      }
      pieces[it->second].message.bytes += shares[delivery.share].bytes;
      pieceOf.push_back(it->second);
    }
    for (size_t i = 0; i < deliveries.size(); ++i)
      for (size_t j = 0; j < deliveries.size(); ++j)
        if (deliveries[i].share == deliveries[j].share &&
            deliveries[i].source == deliveries[j].device)
          pieces[pieceOf[i]].after.insert(pieceOf[j]);
    for (size_t i = 0; i < pieces.size(); ++i)
      if (pieces[i].after.count(i))
        return;
    best = std::min(best, WaveSearch(std::move(pieces), cluster).run());
  }

  std::vector<Share> shares;
  const Cluster &cluster;
  std::vector<Delivery> deliveries;
  double best = 1e30;
};

Flow flowOfShares(const std::vector<Share> &shares) {
  std::vector<HeldBox> source, destination;
  int64_t at = 0;
  for (const Share &share : shares) {
    Box box = Box::fromOffsetSize({at}, {share.bytes});
    at += share.bytes;
    for (int64_t device = 0; device < 32; ++device) {
      if (share.holders >> device & 1)
        source.push_back({device, box, std::nullopt});
      if (share.wanters >> device & 1)
        destination.push_back({device, box, std::nullopt});
    }
  }
  Flow flow;
  flow.bytesPerElement = 1;
  flow.source = overlay(holdingsOf(source, 0), {at});
  flow.destination = overlay(holdingsOf(destination, 0), {at});
  return flow;
}

TEST(Optimal, RoutesAndWavesTogetherAreOptimal) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int compared = 0, forwarding = 0;
  for (int trial = 0; trial < 150; ++trial) {
    Cluster cluster;
    cluster.devicesPerNode = 1 + random() % 4;
    unsigned devices = 3 + random() % 3;
    std::vector<Share> shares(1 + random() % 3);
    for (Share &share : shares) {
      share.bytes = int64_t(1024) << random() % 16;
      share.holders = 1u << random() % devices | (1u << random() % devices);
      share.wanters = 1 + random() % ((1u << devices) - 1);
    }
    JointSearch search(shares, cluster);
    if (search.size() == 0 || search.size() > kExactDeliveries)
      continue;
    std::vector<Flow> flows = {flowOfShares(shares)};
    RoutingProblem problem(flows, cluster, int64_t(8) << 30);
    Routing routing = routed(problem);
    EXPECT_LE(scheduledSeconds(waveProblem(problem, routing.moves)),
              search.run() * kRounding);
    ++compared;
    for (const Move &move : routing.moves)
      forwarding += move.hop > 0;
  }
  EXPECT_GT(compared, 12);
  EXPECT_GT(forwarding, 0);
}

//===----------------------------------------------------------------------===//
// Multicasts
//===----------------------------------------------------------------------===//

/// One holder's data for one device on each of `nodes` other nodes.
RoutingProblem broadcast(int64_t bytes, int64_t nodes,
                         Cluster cluster = Cluster()) {
  cluster.devicesPerNode = 1;
  Share share;
  share.bytes = bytes / 1024;
  share.holders = 1;
  share.wanters = (2u << nodes) - 2;
  Flow flow = flowOfShares({share});
  flow.bytesPerElement = 1024;
  return RoutingProblem({flow}, cluster, int64_t(1) << 30);
}

/// A chain in which each device sends a chunk on two waves after the one that
/// brought it, with the best of some numbers of chunks: the first is packed and
/// the last unpacked, and nothing else shows.
double chainSeconds(double bytes, int64_t nodes, const Cluster &cluster) {
  double best = 1e30;
  for (int chunks = 1; chunks <= 2048; chunks *= 2) {
    double wave = cluster.latencySeconds() +
                  bytes / chunks / cluster.bytesPerSecond(/*interNode=*/true);
    best = std::min(best, double(chunks + 2 * (nodes - 1)) * wave +
                              2 * cluster.packSeconds(int64_t(bytes / chunks)));
  }
  return best;
}

TEST(Optimal, LongBroadcastsHideTheirCopies) {
  Cluster cluster;
  cluster.devicesPerNode = 1;
  for (int64_t nodes : {2, 5, 8}) {
    RoutingProblem problem = broadcast(int64_t(4) << 30, nodes);
    EXPECT_LE(scheduledSeconds(waveProblem(problem, routed(problem).moves)),
              1.005 * chainSeconds(4.0 * (1 << 30), nodes, cluster))
        << nodes << " nodes";
  }
}

TEST(Optimal, LongBroadcastsComeNearTheBound) {
  // Of eight nodes where copies cost next to nothing: else each hop takes a
  // chunk more, which is 1.4 % there.
  for (int64_t nodes : {2, 5, 8}) {
    Cluster cluster;
    if (nodes == 8) {
      cluster.packLaunchUs = 0;
      cluster.packGBps = 1e9;
    }
    RoutingProblem problem = broadcast(int64_t(4) << 30, nodes, cluster);
    EXPECT_LE(scheduledSeconds(waveProblem(problem, routed(problem).moves)),
              1.05 * problem.lowerBound())
        << nodes << " nodes";
  }
}

/// In each wave, all that have the data send it to one more.
double doublingSeconds(int64_t bytes, int64_t nodes, const Cluster &cluster) {
  std::vector<TimedMessage> messages;
  std::vector<int32_t> came = {-1}; // in which wave, by device
  for (int32_t wave = 0; int64_t(came.size()) <= nodes; ++wave)
    for (int64_t from = 0, have = int64_t(came.size());
         from < have && int64_t(came.size()) <= nodes; ++from) {
      messages.push_back({wave, from, int64_t(came.size()), bytes});
      messages.back().isForward = from > 0 && came[size_t(from)] == wave - 1;
      came.push_back(wave);
    }
  return predictSeconds(messages, cluster);
}

TEST(Optimal, ShortBroadcastsTakeNoLongerThanDoubling) {
  // A hop costs an unpack and a pack, so that more waves of fewer hops may be
  // faster.
  Cluster cluster;
  cluster.devicesPerNode = 1;
  for (int64_t nodes = 2; nodes <= 16; ++nodes) {
    RoutingProblem problem = broadcast(8 << 10, nodes);
    EXPECT_LE(scheduledSeconds(waveProblem(problem, routed(problem).moves)),
              doublingSeconds(8 << 10, nodes, cluster) * kRounding)
        << nodes << " nodes";
  }
}

TEST(Optimal, ShortBroadcastsTakeTheFewestWaves) {
  // In each wave, all that have the data can send it to one more; where copies
  // cost next to nothing, nothing is faster.
  Cluster cluster;
  cluster.packLaunchUs = 0;
  for (int64_t nodes = 2; nodes <= 16; ++nodes) {
    RoutingProblem problem = broadcast(8 << 10, nodes, cluster);
    WaveSchedule schedule =
        solved(waveProblem(problem, routed(problem).moves), scheduleBest);
    int32_t rounds = int32_t(std::ceil(std::log2(nodes + 1)));
    EXPECT_EQ(schedule.moves.back().wave + 1, rounds) << nodes << " nodes";
  }
}

} // namespace
