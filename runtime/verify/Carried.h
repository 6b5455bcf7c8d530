//===- Carried.h - What the messages of a program carry ---------*- C++ -*-===//
//
// Multicasts are counted by a second look at what all messages carry
// (Multicasts.h). Kept in few bytes, so that mostly no program is read twice.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_VERIFY_CARRIED_H
#define DTRT_LIB_VERIFY_CARRIED_H

#include "dtrt/format/PlanModel.h"

namespace dtrt {

/// Segments that one program sends, as long as they are few enough.
class Carried {
public:
  /// Bytes of a list beyond which it is none.
  static constexpr size_t kMost = size_t(8) << 20;

  explicit Carried(uint32_t device) : device(device) {}
  void add(const Segment &segment, uint32_t peer);
  /// False: too much is sent, and nothing is here.
  bool isWhole() const { return !tooMuch; }
  size_t bytes() const { return words.size() * sizeof(int64_t); }
  /// Calls fn(segment, peer) for each, in the order in which they were added,
  /// until it returns false. Of a segment, family, states and box are known.
  template <typename Fn> void forEach(const Fn &fn) const;

  uint32_t device;
  uint64_t items = 0; // of the program, Steps::itemsOf

private:
  /// Of each: family, rank, states, peer, offset, size.
  static constexpr size_t kHead = 4;
  std::vector<int64_t> words;
  bool tooMuch = false;
};

inline void Carried::add(const Segment &segment, uint32_t peer) {
  size_t rank = segment.offset.size();
  tooMuch |= bytes() + (kHead + 2 * rank) * sizeof(int64_t) > kMost;
  if (tooMuch) {
    words = {};
    return;
  }
  words.insert(words.end(), {int64_t(segment.family), int64_t(rank),
                             int64_t(segment.states), int64_t(peer)});
  words.insert(words.end(), segment.offset.begin(), segment.offset.end());
  words.insert(words.end(), segment.size.begin(), segment.size.end());
}

template <typename Fn> void Carried::forEach(const Fn &fn) const {
  Segment segment;
  for (const int64_t *at = words.data(), *end = at + words.size(); at != end;) {
    int64_t rank = at[1];
    segment.family = uint32_t(at[0]);
    segment.states = uint64_t(at[2]);
    auto peer = uint32_t(at[3]);
    at += kHead;
    segment.offset.assign(at, at + rank);
    segment.size.assign(at + rank, at + 2 * rank);
    at += 2 * rank;
    if (!fn(segment, peer))
      return;
  }
}

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_CARRIED_H
