//===- Matching.h - Who meets whom in a wave --------------------*- C++ -*-===//
//
// Preemptive open shop with a cost per wave. A wave lasts D seconds. When each
// port is done in time, no port may have more left after it than the busiest
// port has now, less D; so a port that is behind needs a message of that
// length, and others may idle. For D small enough such a matching exists
// (Gonzalez and Sahni 1976); the longest D that has one costs the fewest waves
// (bottleneck matching, as circuit switches are scheduled: Liu et al.,
// Scheduling techniques for hybrid circuit/packet networks, CoNEXT 2015).
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_SCHEDULING_MATCHING_H
#define DT_LIB_SCHEDULING_MATCHING_H

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace dt {

/// Ports of device d: 4 d + 2 l sends on level l, the next one receives.
inline uint32_t sendPort(uint32_t device, bool inter) {
  return 4 * device + 2 * inter;
}

/// What one ordered pair of devices still has to exchange, in seconds of its
/// ports. Searches read hundreds of thousands of them: half a cache line each.
struct alignas(32) Pair {
  double most = 0;    // longest message
  double ready = 0;   // at the sender
  double left = 0;    // ready or still to come to the sender
  uint32_t chain = 0; // hops that wait for the next box
  uint32_t order = 0; // of the next box; lower goes first
};

/// A pair that meets in a wave, and for how long at most.
struct Meeting {
  uint32_t pair = 0;
  double seconds = 0;
};

class Matching {
public:
  /// `latency`: seconds that a wave costs beside its bytes.
  Matching(uint32_t numPorts, double latency);

  /// A pair with nothing left between two ports.
  uint32_t add(uint32_t sender, uint32_t receiver, double most);
  const Pair &operator[](uint32_t pair) const { return pairs[pair]; }
  /// Replaces what a pair has left and what its next box is like.
  void set(uint32_t pair, const Pair &now);

  /// Makes the first and the last wave last `seconds` at most, or about that.
  void shortenEnds(double seconds) { ends = seconds; }

  /// Makes no wave much shorter than the one before it only to make more of its
  /// time: what is left at the end is sent in few waves.
  void endSoon() { endsSoon = true; }

  /// The next wave; empty when nothing is ready.
  std::vector<Meeting> choose();

private:
  double need(uint32_t port) const {
    double behind = remaining[port] - (busiest - duration);
    return behind > 0 ? behind * kShort : 0;
  }
  double message(const Pair &pair) const;
  bool isWorth(const Pair &pair) const;
  /// Long enough for both its ends.
  bool serves(const Pair &pair, uint32_t a, uint32_t b) const {
    return isWorth(pair) && message(pair) >= std::max(need(a), need(b));
  }
  /// Seconds that the receiver will send and does not have yet, where the next
  /// box brings some: who has little to pass on is fed first.
  double starving(const Pair &pair, uint32_t receiver) const {
    uint32_t device = receiver / 4;
    return pair.chain == 0 ? 0
                           : missing[sendPort(device, false)] +
                                 missing[sendPort(device, true)];
  }
  uint32_t partner(uint32_t pair, uint32_t port) const {
    return ports[pair][ports[pair][0] == port];
  }
  /// A pair as one of its ports sees it: most pairs that a search passes are
  /// settled by who the partner is.
  struct Link {
    uint32_t pair = 0;
    uint32_t partner = 0; // port
  };
  double longestNow() const;
  void start(double seconds);
  void noteMove(uint32_t port);
  void sortPorts();
  void match(uint32_t pair);
  bool cover(uint32_t port, bool isCritical);
  bool augment(uint32_t port);
  bool coverCritical(bool isStrict);
  void coverRest();
  double efficiency() const;
  bool findFull();
  void findBest();
  void dropFinished();

  /// A message that is shorter than needed by this factor is as good: boxes do
  /// not cut anywhere.
  static constexpr double kShort = 63.0 / 64;

  double latency;
  std::vector<Pair> pairs;
  std::vector<std::array<uint32_t, 2>> ports; // per pair: sender's, receiver's
  std::vector<std::vector<Link>> linksOf;     // per port
  std::vector<double> remaining;              // per port, seconds
  std::vector<double> missing;                // of these, not at the sender
  std::vector<uint32_t> feeding; // per port, pairs whose next box others await
  std::vector<uint32_t> order;   // ports that have pairs, busiest first
  std::vector<uint32_t> moved;   // ports that have to be put into it anew
  std::vector<bool> hasMoved;    // per port
  double busiest = 0;
  double longest = 0; // that any pair may send
  double ends = 0;    // the first and last wave; 0: as all others
  bool endsSoon = false;
  bool takesTrickles = false;

  // One attempt.
  double duration = 0;
  std::vector<int32_t> matched; // per port: pair or -1
  std::vector<uint32_t> visited;
  uint32_t stamp = 0;
  uint32_t hardest = 0; // port that was not covered
  uint32_t wave = 0;
};

} // namespace dt

#endif // DT_LIB_SCHEDULING_MATCHING_H
