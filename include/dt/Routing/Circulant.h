//===- Circulant.h - Broadcast in the fewest rounds -------------*- C++ -*-===//
//
// A root has n blocks that p - 1 others want. In a round everybody sends one
// block and receives one. No algorithm takes fewer than n - 1 + ceil(log2 p)
// rounds: the last block leaves the root in round n - 1 at the earliest, and
// who has it doubles at most.
//
// Traeff's schedules take that many, for any p and n (J. L. Traeff, Round-
// optimal n-block broadcast schedules in logarithmic time, arXiv 2312.11236;
// Optimal broadcast schedules in logarithmic time, arXiv 2407.18004; the first
// form is arXiv 2205.10072). With q = ceil(log2 p):
//
//   skips      p is halved, rounded up, until 1: skips[q] = p, skips[0] = 1
//   rounds     in round i processor r sends to r + skips[i mod q] and receives
//              from r - skips[i mod q], modulo p: a circulant graph, the same
//              for all
//   baseblock  every r is a sum of different skips, the largest first; its
//              baseblock is the least of them: the first block that it gets
//   receives   in q rounds it gets its baseblock and the q - 1 others of the
//              phase before; the next q rounds bring each block + q
//
// p = 5, skips 1 2 3 5, n = 3; who gets which block (in brackets: from whom):
//
//   round    0       1       2       3       4
//   1                        2 (0)   1 (4)   0 (3)
//   2        0 (0)                   2 (0)   1 (4)
//   3                1 (0)   0 (2)           2 (0)
//   4                        1 (3)   0 (2)   2 (1)
//
//===----------------------------------------------------------------------===//

#ifndef DT_ROUTING_CIRCULANT_H
#define DT_ROUTING_CIRCULANT_H

#include <cstdint>
#include <vector>

namespace dt {

/// A block that a processor receives.
struct BlockReceipt {
  int64_t round = 0;
  int64_t sender = 0, receiver = 0;
  int64_t block = 0;
};

class CirculantBroadcast {
public:
  /// Of processors 0 to `size` - 1; 0 is the root. `size` is 1 at least.
  explicit CirculantBroadcast(int64_t size);

  /// ceil(log2 p).
  int64_t phase() const { return int64_t(skips.size()) - 1; }
  int64_t rounds(int64_t blocks) const { return blocks - 1 + phase(); }
  /// What a processor receives in rounds k, k + q, ...: of the first, the
  /// number of its block, negative where that would belong to a phase before.
  /// For the root, which receives nothing, as if it did. Time O(log p).
  std::vector<int64_t> receiveSchedule(int64_t processor) const;
  /// Everything that is received, each block once by each but the root: by
  /// round, then by receiver.
  std::vector<BlockReceipt> receipts(int64_t blocks) const;

private:
  std::vector<int64_t> skips;
};

} // namespace dt

#endif // DT_ROUTING_CIRCULANT_H
