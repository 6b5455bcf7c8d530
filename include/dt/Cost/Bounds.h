//===- Bounds.h - What no plan can go below ---------------------*- C++ -*-===//
//
// Bytes and seconds that follow from who holds and who wants what, whoever
// sends it and in whatever waves.
//
//===----------------------------------------------------------------------===//

#ifndef DT_COST_BOUNDS_H
#define DT_COST_BOUNDS_H

#include "dt/Cost/Cluster.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace dt {

/// What no algorithm can go below. The bytes hold for all algorithms. The
/// seconds hold for all that meet both byte bounds, that is, that bring no byte
/// to a device that does not want it and none twice into a node (a relay over
/// idle NICs of bystanders could be faster, at the price of more traffic).
struct Bounds {
  /// Bytes that devices want and do not hold.
  int64_t wireBytes = 0;
  /// Per node, the union of the bytes that its devices want and none holds.
  int64_t interNodeBytes = 0;
  /// One latency and one launch (when anything moves), one more for each round
  /// that has to follow, and the largest of:
  ///   - per device: bytes that its node holds and it lacks, over its island
  ///     port; bytes that it alone in its node wants and the node lacks, over
  ///     its NIC;
  ///   - per node: union of the bytes it lacks, over the NICs of the devices
  ///     that want some;
  ///   - per node: what its devices get inside, over all their island ports:
  ///     what came to one of them from another node, to all others;
  ///   - per set of devices that alone hold some bytes: those bytes that other
  ///     nodes lack, once, over the NICs of the set; and likewise per set
  ///     inside a node, over its island ports;
  ///   - with unequal links, all of these once more, as the seconds for which
  ///     ports are busy: what comes to a device comes over the fastest link
  ///     from one that holds it or also lacks it; what a set sends goes once,
  ///     over the fastest link to one that lacks it; what a site lacks (see
  ///     dtrt/cost/Sites.h) comes from without once, over the NICs of those of
  ///     it who want some.
  ///   - where the channels of a pair do not fill its ports, per device and set
  ///     of devices that alone may send to it (or that alone it may send to):
  ///     those bytes, over these pairs together.
  /// Rounds (include/dt/Cost/SpreadRounds.h, docs/Schedule.md) are counted from
  /// when the last byte has left the ports of a set, or has come to a node, or
  /// when all that crosses between nodes has done so
  /// (include/dt/Cost/SpreadBytes.h). One more comes before where no device has
  /// as much as each NIC of a node gets: then one of these gets two messages,
  /// or one that has been received before.
  ///
  /// Elsewhere a port's rate is that of its fastest link on that level, to or
  /// from a device that lacks something or that holds what another one lacks.
  ///
  /// Where messages may be relayed (Cluster::relays), nothing is said of who
  /// brings what: what a device lacks comes by its ports of both levels, what a
  /// node lacks by all its NICs, what a set of devices alone has leaves by
  /// theirs, each as fast as its level or the fastest link that names it.
  double seconds = 0;
  /// The same as if all came in one round, and nothing were known of what
  /// devices of a node exchange: what solvers aim at.
  double oneRoundSeconds = 0;
  /// For how long a port is busy in any case: without latency, launch and
  /// sites, since what comes to a site may come by any of its ports.
  double portSeconds = 0;
};

/// Is told, set of holders by set of wanters, what they hold and want.
class BoundsBuilder {
public:
  /// The cluster must outlive this.
  explicit BoundsBuilder(const Cluster &cluster) : cluster(cluster) {}

  using Devices = std::vector<int64_t>; // ascending
  using ByNode = std::map<int64_t, Devices>;

  /// Adds `bytes` that all of `holders` hold and all of `wanters` want. Who
  /// holds them already wants nothing more.
  void add(const Devices &holders, const Devices &wanters, int64_t bytes);
  Bounds finish() const;

private:
  /// Bytes by level, device and the devices that it may exchange them with.
  using PairDemand = std::map<std::tuple<bool, int64_t, Devices>, int64_t>;

  /// Bytes that some ports carry, and the fewest rounds that any of them takes
  /// from when it does.
  struct Load {
    int64_t bytes = 0, rounds = std::numeric_limits<int64_t>::max();
    void add(int64_t more, int64_t after) {
      bytes += more;
      rounds = std::min(rounds, after);
    }
  };

  void addNode(const Devices &holders, const Devices &lacking, int64_t bytes);
  void addInside(const Devices &devices, int64_t bytes, int64_t rounds);
  void addPairs(const Devices &holders, const Devices &lacking, int64_t bytes);
  double pairsSeconds() const;
  double relayedSeconds() const;
  double crossingSeconds() const;
  bool isShortOf(const Load &load, size_t nics) const;

  const Cluster &cluster;
  Bounds bounds;
  std::map<int64_t, int64_t> nicIn, islandIn; // per port, bytes
  std::map<int64_t, Load> nodeIn;             // per node, over all its NICs
  Load crossing;                              // into all nodes
  /// What devices hold of that, per device, and the most.
  std::unordered_map<int64_t, int64_t> held;
  int64_t mostHeld = 0;
  std::map<int64_t, std::set<int64_t>> nodeNics; // of those who want them
  /// Bytes that some port of a set must send, over all of them.
  std::map<Devices, Load> nicSets, islandSets;
  /// What devices of a node get inside it, and these devices.
  std::map<int64_t, std::pair<Load, std::set<int64_t>>> insideNodes;
  int64_t mostRounds = 0; // that any byte takes
  // With unequal links only: bytes by who holds and who lacks them; both.
  std::map<std::pair<Devices, Devices>, int64_t> demands;
  // Where channels of pairs do not fill ports.
  PairDemand received, sent;
  std::set<int64_t> devices; // that hold or want anything
  // Where messages may be relayed: bytes that a device lacks; that a set of
  // devices alone has and others lack.
  std::map<int64_t, int64_t> comes;
  std::map<Devices, int64_t> goes;
};

} // namespace dt

#endif // DT_COST_BOUNDS_H
