//===- LinkRates.h - The rates of a cluster's links -------------*- C++ -*-===//

#ifndef DTRT_COST_LINKRATES_H
#define DTRT_COST_LINKRATES_H

#include "dtrt/cost/Cluster.h"

#include <map>
#include <set>
#include <utility>

namespace dtrt {

/// What Cluster says of the rates of pairs, without a look at every link for
/// each: a file may have any number of both.
class LinkRates {
public:
  /// The cluster must outlive this.
  explicit LinkRates(const Cluster &cluster);

  double bytesPerSecond(int64_t from, int64_t to) const;
  double linkBytesPerSecond(int64_t from, int64_t to) const;
  double portBytesPerSecond(int64_t from, int64_t to) const;
  double sendBytesPerSecond(int64_t from, int64_t to) const;
  double nicOutBytesPerSecond(int64_t from, int64_t to) const;
  /// Whether a link names the device, or its node, as where it starts; or as
  /// where it ends.
  bool isNamed(int64_t device, bool asSource) const;
  /// Whether one names the device itself.
  bool isNamedAlone(int64_t device) const;

private:
  using End = std::pair<bool, int64_t>; // whether it is a node, and its number
  End end(bool isNode, int64_t device) const {
    return {isNode, isNode ? cluster.node(device) : device};
  }

  const Cluster &cluster;
  std::map<std::pair<End, End>, size_t> last; // of links with the same ends
  std::set<End> sources, targets;
};

} // namespace dtrt

#endif // DTRT_COST_LINKRATES_H
