//===- LibraryChoice.h - A library's calls, or messages ---------*- C++ -*-===//
//
// Where the request leaves the choice, calls are chosen that are at least 2 %
// faster (CollectiveTimer.h).
//
// A call has as many latencies as a chain of messages, and one launch; and far
// fewer where the request says what one takes in a switch that multicasts, or
// by copy engines (`cluster.multicast_us`, `copy_engine_us`). Bytes take as
// long either way: what a receiver gets goes through its port once. So whole
// requests that say neither get messages unasked.
//
//===----------------------------------------------------------------------===//

#ifndef DT_PASSES_LIBRARYCHOICE_H
#define DT_PASSES_LIBRARYCHOICE_H

#include "CollectiveTimer.h"

namespace dt {

/// Of a collective that has the cluster to itself.
struct CollectiveSeconds {
  double calls = 0, messages = 0;
};

struct LibraryChoice {
  /// Empty: messages.
  std::vector<LibraryCall> calls;
  /// Why there are no calls, or why there are.
  std::string reason;
  /// Where both ways were compared.
  std::optional<CollectiveSeconds> seconds;
};

/// Whether a library has any part in a transition: what it costs to find out is
/// paid only then.
bool mayUseLibrary(const TransitionInfo &info);

/// Whether collectives are looked for in a whole compilation: where a library
/// is asked for, or where the cluster has times of its calls. A launch alone is
/// no reason: what a ring saves of launches has not been measured.
bool looksForCalls(const TransitionInfo &info);

/// Chooses for the collectives of one transition.
class LibraryChooser {
public:
  /// Compares where that decides; `comparesAll`: where it does not, too. `info`
  /// must outlive this.
  explicit LibraryChooser(const TransitionInfo &info, bool comparesAll = false)
      : info(info), comparesAll(comparesAll) {}

  /// For one of flow `number`, which has cells.
  LibraryChoice choose(CollectiveOp op, uint32_t number, const Flow &flow);

private:
  CollectiveSeconds compare(CollectiveOp op, uint32_t number,
                            const std::vector<LibraryCall> &calls);

  const TransitionInfo &info;
  bool comparesAll;
  std::optional<CollectiveTimer> timer; // when first asked for
};

/// "all_gather of @qkv: a library's call, ...", for people.
std::string explanation(CollectiveOp op, const LibraryChoice &choice);

} // namespace dt

#endif // DT_PASSES_LIBRARYCHOICE_H
