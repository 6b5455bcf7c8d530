//===- LibraryChoice.h - A library's calls, or messages ---------*- C++ -*-===//
//
// Where the request leaves the choice, calls are chosen that are at least 2 %
// faster (CollectiveTimer.h).
//
// What switches multicast by themselves saves the senders', not the receivers'
// bytes, and these bound both ways; copy engines save processors, and no time.
// A call has as many latencies as a chain of messages, and one launch. So
// without a launch (`cluster.launch_us`) next to nothing is ever gained, and
// messages are taken unasked.
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
