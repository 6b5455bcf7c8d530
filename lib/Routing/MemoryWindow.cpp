//===- MemoryWindow.cpp - Which jobs of a flat order may start ------------===//

#include "dt/Routing/MemoryWindow.h"

#include <algorithm>

using namespace dt;

MemoryWindow::MemoryWindow(const FlatOrder &order, const ShardIndex &source,
                           int64_t roomBytes)
    : order(order) {
  std::map<int64_t, int32_t> dense;
  for (const auto &[number, device] : order.devices) {
    dense[number] = int32_t(states.size());
    State &state = states.emplace_back();
    state.device = &device;
    state.unread.resize(device.effects.size());
    // Bytes that nobody reads go before the first job.
    int64_t freed = 0;
    for (const FlatOrder::Effect &effect : device.effects)
      freed += effect.freed;
    state.room =
        std::max(device.source, device.destination) + roomBytes - freed;
  }
  for (uint32_t i = 0; i < order.moves.size(); ++i) {
    const Move &move = order.moves[i];
    int32_t from = dense.at(move.source);
    bool reads = source.find(move.flow, move.source, move.box).has_value();
    sender.push_back(reads ? from : -1);
    if (reads)
      *unreadOf(states[from], order.moveJobs[i]) += move.box.volume();
    receiver.push_back(dense.at(move.destination));
    states[receiver.back()].arriving.push_back(i);
  }
  for (uint32_t i = 0; i < order.locals.size(); ++i) {
    State &state = states[dense.at(order.locals[i].device)];
    *unreadOf(state, order.localJobs[i]) += order.locals[i].box.volume();
    state.copied.push_back(i);
  }
}

int64_t *MemoryWindow::unreadOf(State &state, uint32_t job) {
  const std::vector<FlatOrder::Effect> &effects = state.device->effects;
  auto at =
      std::lower_bound(effects.begin(), effects.end(), job,
                       [](const FlatOrder::Effect &effect, uint32_t wanted) {
                         return effect.job < wanted;
                       });
  return &state.unread[at - effects.begin()];
}

void MemoryWindow::sent(uint32_t move, int64_t elements) {
  if (sender[move] < 0)
    return;
  State &state = states[sender[move]];
  *unreadOf(state, order.moveJobs[move]) -= elements;
  state.changed = true;
}

/// Returns whether copies were done, so that more may be possible.
bool MemoryWindow::advanceOnce(State &state, int32_t next, uint32_t step,
                               std::vector<uint32_t> &opened) {
  const std::vector<FlatOrder::Effect> &effects = state.device->effects;
  for (; state.finished < effects.size() && state.unread[state.finished] == 0;
       ++state.finished)
    state.room += effects[state.finished].freed;
  for (;
       state.open < effects.size() && effects[state.open].created <= state.room;
       ++state.open)
    state.room -= effects[state.open].created;
  uint32_t closed =
      state.open < effects.size() ? effects[state.open].job : UINT32_MAX;
  while (state.nextArriving < state.arriving.size() &&
         order.moveJobs[state.arriving[state.nextArriving]] < closed)
    opened.push_back(state.arriving[state.nextArriving++]);
  size_t before = state.nextCopied;
  while (state.nextCopied < state.copied.size() &&
         order.localJobs[state.copied[state.nextCopied]] < closed) {
    uint32_t local = state.copied[state.nextCopied++];
    *unreadOf(state, order.localJobs[local]) -=
        order.locals[local].box.volume();
    done.push_back({local, next, step});
  }
  return state.nextCopied > before;
}

void MemoryWindow::advance(int32_t next, std::vector<uint32_t> &opened) {
  for (State &state : states) {
    if (!state.changed)
      continue;
    state.changed = false;
    for (uint32_t step = 0; advanceOnce(state, next, step, opened); ++step)
      continue;
  }
}
