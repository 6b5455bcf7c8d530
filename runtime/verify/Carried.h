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
  size_t bytes() const { return stored.size(); }
  /// Calls fn(segment, peer) for each, in the order in which they were added,
  /// until it returns false. Of a segment, family, states and box are known.
  template <typename Fn> void forEach(const Fn &fn) const;

  uint32_t device;
  uint64_t items = 0; // of the program, Steps::itemsOf

private:
  /// Most numbers are small: seven bits a byte, the low ones first, and the
  /// eighth where more follow.
  void put(uint64_t number);
  static uint64_t take(const uint8_t *&at);

  /// Of each: family, states, peer, rank, offset, size.
  std::vector<uint8_t> stored;
  bool tooMuch = false;
};

inline void Carried::put(uint64_t number) {
  for (; number >= 128; number >>= 7)
    stored.push_back(uint8_t(number | 128));
  stored.push_back(uint8_t(number));
}

inline uint64_t Carried::take(const uint8_t *&at) {
  uint64_t number = 0;
  for (unsigned shift = 0;; shift += 7) {
    number |= uint64_t(*at & 127) << shift;
    if (*at++ < 128)
      return number;
  }
}

inline void Carried::add(const Segment &segment, uint32_t peer) {
  if (tooMuch)
    return;
  for (uint64_t number : {uint64_t(segment.family), segment.states,
                          uint64_t(peer), uint64_t(segment.offset.size())})
    put(number);
  for (int64_t number : segment.offset)
    put(uint64_t(number));
  for (int64_t number : segment.size)
    put(uint64_t(number));
  tooMuch = bytes() > kMost;
  if (tooMuch)
    stored = {};
}

template <typename Fn> void Carried::forEach(const Fn &fn) const {
  Segment segment;
  for (const uint8_t *at = stored.data(), *end = at + stored.size();
       at != end;) {
    segment.family = uint32_t(take(at));
    segment.states = take(at);
    auto peer = uint32_t(take(at));
    auto rank = size_t(take(at));
    segment.offset.resize(rank);
    segment.size.resize(rank);
    for (int64_t &number : segment.offset)
      number = int64_t(take(at));
    for (int64_t &number : segment.size)
      number = int64_t(take(at));
    if (!fn(segment, peer))
      return;
  }
}

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_CARRIED_H
