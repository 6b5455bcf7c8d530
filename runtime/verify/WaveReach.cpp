//===- WaveReach.cpp - How far each device can be -------------------------===//

#include "WaveReach.h"

#include <algorithm>

namespace dtrt {

namespace {

/// Calls fn(wave, from, to) for both directions of each message.
template <typename Edges, typename Fn>
void forEachEnd(Edges begin, Edges end, Fn fn) {
  for (Edges edge = begin; edge != end; ++edge) {
    fn(edge->wave, edge->source, edge->destination);
    fn(edge->wave, edge->destination, edge->source);
  }
}

} // namespace

std::vector<Reach> findReach(std::vector<WaveEdge> &edges, size_t count,
                             uint32_t self, Moment wave, bool isInGroup) {
  std::sort(
      edges.begin(), edges.end(),
      [](const WaveEdge &a, const WaveEdge &b) { return a.wave < b.wave; });
  // The latest group that a device has surely begun: it has ended those before.
  // What has ended its last group has begun none after it, but might have.
  std::vector<Moment> begun(count, kBeforeWaves);
  begun[self] = isInGroup || wave == kForever ? wave : wave + 1;
  forEachEnd(edges.rbegin(), edges.rend(),
             [&](Moment at, uint32_t from, uint32_t to) {
               if (begun[from] > at)
                 begun[to] = std::max(begun[to], at);
             });
  // The group that a device cannot end. Its other messages in there may be done
  // all the same, so that their peers go on.
  std::vector<Moment> stuck(count, kForever);
  stuck[self] = wave;
  forEachEnd(edges.begin(), edges.end(),
             [&](Moment at, uint32_t from, uint32_t to) {
               if (stuck[from] < at)
                 stuck[to] = std::min(stuck[to], at);
             });
  auto before = [](Moment at) { return at == kForever ? at : at - 1; };
  std::vector<Reach> reach(count);
  for (size_t i = 0; i < count; ++i)
    reach[i] = {before(begun[i]), before(stuck[i])};
  if (isInGroup || wave == kForever)
    return reach;
  // It is somewhere behind its group.
  reach[self] = {before(wave), wave};
  return reach;
}

} // namespace dtrt
