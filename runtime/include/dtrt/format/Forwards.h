//===- Forwards.h - What is sent on as soon as it has come ------*- C++ -*-===//
//
// Between two groups of a device there is time to unpack what the first one
// brought and to pack what the second one sends, while one of them is on the
// wire. A message of the second that passes on what the first one brought has
// none of this time: it waits for the first group, its unpacks and then its own
// pack.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_FORMAT_FORWARDS_H
#define DTRT_FORMAT_FORWARDS_H

#include "dtrt/format/PlanModel.h"
#include "dtrt/types/Status.h"

#include <unordered_map>

namespace dtrt {

/// Whether a segment that is read has an element of one that is written, both
/// of one program: only those of destination shards are written.
bool readsWritten(const Segment &read, const Segment &written);

/// Segments that are written, by their shards. They must outlive this.
class WrittenSegments {
public:
  void add(const Segment &segment) {
    std::vector<const Segment *> &own = byShard[segment.shard];
    if (own.empty())
      shards.push_back(segment.shard);
    own.push_back(&segment);
  }
  /// Keeps the memory, for those of the next group.
  void clear() {
    for (uint32_t shard : shards)
      byShard[shard].clear();
    shards.clear();
  }
  /// Whether `read` has an element of one of them. Counts down `looks`, one for
  /// each that it is compared with, and says true when none are left.
  bool meet(const Segment &read, uint64_t &looks) const;

private:
  std::unordered_map<uint32_t, std::vector<const Segment *>> byShard;
  std::vector<uint32_t> shards; // those with any
};

/// For each instruction that is a group, and for each of its messages: whether
/// it sends what the group before it has brought. Fails where that takes longer
/// than in any plan that a compiler makes.
Result<std::vector<std::vector<bool>>> findForwards(const RankProgram &program);

} // namespace dtrt

#endif // DTRT_FORMAT_FORWARDS_H
