//===- MemoryWindow.h - Which jobs of a flat order may start ----*- C++ -*-===//
//
// A job may bring bytes to a device when the device could hold all that this
// and every earlier job brings it, with no more freed than what the unbroken
// run of finished jobs has freed. The first job that is not finished satisfies
// this by itself, on every device, when jobs one after the other do
// (FlatOrder::neededBytes): so there is always one that can go on, and no
// device ever holds more than its limit, in whatever order open jobs run.
//
//===----------------------------------------------------------------------===//

#ifndef DT_ROUTING_MEMORYWINDOW_H
#define DT_ROUTING_MEMORYWINDOW_H

#include "dt/Routing/FlatOrder.h"

namespace dt {

class MemoryWindow {
public:
  /// Devices may hold `roomBytes` more than the larger of source and
  /// destination. The order must outlive the window.
  MemoryWindow(const FlatOrder &order, const ShardIndex &source,
               int64_t roomBytes);

  /// A part of a move has left its sender.
  void sent(uint32_t move, int64_t elements);
  /// Appends to `opened` the moves that may be received from wave `next` on,
  /// and does the local copies that may be done before it.
  void advance(int32_t next, std::vector<uint32_t> &opened);

  /// Local copies in the order in which they are done, `before` set. Copies
  /// with the same `step` may be done in any order.
  struct Done {
    uint32_t local = 0;
    int32_t before = 0;
    uint32_t step = 0;
  };
  const std::vector<Done> &copies() const { return done; }

private:
  struct State {
    const FlatOrder::Device *device = nullptr;
    std::vector<int64_t> unread;   // per effect, elements still to be read
    size_t finished = 0, open = 0; // effects
    int64_t room = 0;              // bytes that may still be created
    std::vector<uint32_t> arriving, copied; // moves, locals; by job
    size_t nextArriving = 0, nextCopied = 0;
    bool changed = true;
  };
  bool advanceOnce(State &state, int32_t next, uint32_t step,
                   std::vector<uint32_t> &opened);
  int64_t *unreadOf(State &state, uint32_t job);

  const FlatOrder &order;
  std::vector<State> states;
  std::vector<int32_t> sender;   // per move: state, or -1 where the
                                 // destination's storage is read
  std::vector<int32_t> receiver; // per move
  std::vector<Done> done;
};

} // namespace dt

#endif // DT_ROUTING_MEMORYWINDOW_H
