//===- Explain.h - Why data moves the way it does ---------------*- C++ -*-===//
//
// Sorts what has to move into the patterns that collectives exist for, and
// compares by the cost model: sends from the holders, sends with forwards (a
// receiver passes on what it has; the same tree a multicast builds), and the
// collective at its best. All three put the same bytes into each receiver's
// port; they differ in what senders carry, in latencies, and in what equal
// counts and a meeting of all members cost a collective.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ROUTING_EXPLAIN_H
#define DT_ROUTING_EXPLAIN_H

#include "dt/Cost/Cluster.h"
#include "dt/Routing/Moves.h"

#include <string>

namespace dt {

enum class Pattern : uint8_t {
  Send,
  Scatter,
  Gather,
  AllToAll,
  Broadcast,
  AllGather
};
const char *patternName(Pattern pattern);    // "all-gather"
const char *collectiveName(Pattern pattern); // "ring all-gather", "-" for sends

/// All groups of devices with one pattern, of one size, on one level.
struct PatternRow {
  Pattern pattern = Pattern::Send;
  int64_t devices = 0; // that a group has
  bool interNode = false;
  int64_t groups = 0;
  int64_t bytes = 0; // that arrive, all groups
  /// Seconds of the slowest group, had it the ports to itself.
  double sends = 0, forwards = 0, collective = 0;

  /// What the router takes: forwards where they relieve a sender.
  bool isForwarded() const { return forwards < sends; }
  double chosen() const { return isForwarded() ? forwards : sends; }
};

/// The patterns of a transition, most bytes first.
std::vector<PatternRow> explain(const std::vector<Flow> &flows,
                                const Cluster &cluster);

/// One line per row, for people.
std::string explanation(const PatternRow &row);

} // namespace dt

#endif // DT_ROUTING_EXPLAIN_H
