//===- Circulant.cpp - Broadcast in the fewest rounds ---------------------===//

#include "dt/Routing/Circulant.h"

#include <algorithm>

using namespace dt;

namespace {

/// Numbers from `most` down to 0 as a list from which each can be taken out.
class Countdown {
public:
  static constexpr int64_t kEnd = -1;

  explicit Countdown(int64_t most) : before(most + 1), after(most + 1) {
    for (int64_t i = 0; i <= most; ++i) {
      before[i] = i + 1;
      after[i] = i - 1;
    }
    first = most;
  }

  int64_t front() const { return first; }
  int64_t next(int64_t number) const { return after[number]; }
  /// What follows `number` stays known.
  void remove(int64_t number) {
    if (after[number] != kEnd)
      before[after[number]] = before[number];
    if (before[number] < int64_t(after.size()))
      after[before[number]] = after[number];
    else
      first = after[number];
  }

private:
  std::vector<int64_t> before, after;
  int64_t first = kEnd;
};

/// The least skip of a processor's sum; q for the root, which has none.
int64_t baseblockOf(int64_t processor, const std::vector<int64_t> &skips) {
  auto phase = int64_t(skips.size()) - 1;
  for (int64_t k = phase; k-- > 0;) {
    if (skips[k] == processor)
      return k;
    if (skips[k] < processor)
      processor -= skips[k];
  }
  return phase;
}

/// Finds for each k who, between `target` - skips[k + 1] and `target` -
/// skips[k], is the greatest with a baseblock that is not taken yet.
class BlockSearch {
public:
  BlockSearch(int64_t target, const std::vector<int64_t> &skips,
              Countdown &skipsLeft)
      : target(target), skips(skips), skipsLeft(skipsLeft), last(2 * target) {}

  /// Extends the sum `reached` by skips from `skip` downwards.
  void run(int64_t reached, int64_t skip) {
    for (; skip != Countdown::kEnd && !isDone(); skip = skipsLeft.next(skip)) {
      int64_t sum = reached + skips[skip];
      if (!isNear(sum))
        continue;
      if (sum <= nextBorder())
        run(sum, skip);
      if (isDone() || reached > nextBorder())
        return;
      if (!isNear(sum))
        continue;
      last = sum;
      found.push_back(skip);
      skipsLeft.remove(skip);
    }
  }

  std::vector<int64_t> found;

private:
  bool isDone() const { return found.size() + 1 == skips.size(); }
  /// Far enough for this k, and not as far as that of the k before.
  bool isNear(int64_t sum) const {
    return sum <= target - skips[found.size()] && sum < last;
  }
  int64_t nextBorder() const { return target - skips[found.size() + 1]; }

  const int64_t target;
  const std::vector<int64_t> &skips;
  Countdown &skipsLeft;
  int64_t last;
};

} // namespace

CirculantBroadcast::CirculantBroadcast(int64_t size) {
  for (skips = {size}; skips.back() > 1;)
    skips.push_back((skips.back() + 1) / 2);
  std::reverse(skips.begin(), skips.end());
}

/// Sums are looked for around the circle, one turn on, so that none is below 0.
std::vector<int64_t>
CirculantBroadcast::receiveSchedule(int64_t processor) const {
  int64_t size = skips.back(), own = baseblockOf(processor, skips);
  Countdown skipsLeft(phase());
  skipsLeft.remove(own);
  BlockSearch search(size + processor, skips, skipsLeft);
  search.run(0, skipsLeft.front());
  std::vector<int64_t> out = std::move(search.found);
  for (int64_t &block : out)
    block = block == phase() ? own : block - phase();
  return out;
}

/// The first round is that in which the root sends block 0; virtual rounds
/// before it fill the first phase, so that the last one ends with round n - 1 +
/// q. Block numbers beyond the last mean the last, which comes but once.
std::vector<BlockReceipt> CirculantBroadcast::receipts(int64_t blocks) const {
  int64_t size = skips.back(), last = blocks - 1;
  int64_t before = phase() == 0 ? 0 : (phase() - last % phase()) % phase();
  std::vector<BlockReceipt> out;
  for (int64_t receiver = 1; receiver < size; ++receiver) {
    std::vector<int64_t> schedule = receiveSchedule(receiver);
    bool hasLast = false;
    for (int64_t round = 0; round < rounds(blocks); ++round) {
      int64_t turn = round + before, k = turn % phase();
      int64_t block = schedule[k] + turn - k - before;
      if (block < 0 || (block >= last && hasLast))
        continue;
      hasLast |= block >= last;
      int64_t sender = (receiver + size - skips[k]) % size;
      out.push_back({round, sender, receiver, std::min(block, last)});
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const BlockReceipt &a, const BlockReceipt &b) {
                     return a.round < b.round;
                   });
  return out;
}
