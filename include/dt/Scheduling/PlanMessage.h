//===- PlanMessage.h - What travels as one ----------------------*- C++ -*-===//

#ifndef DT_SCHEDULING_PLANMESSAGE_H
#define DT_SCHEDULING_PLANMESSAGE_H

#include <cstddef>
#include <cstdint>

namespace dt {

/// A slot offset that says: sent from, or received into, the tensor itself.
constexpr int64_t kInPlace = -1;

/// The part of a message in bringing bytes over a third device, which neither
/// holds nor wants them: to that device, or on from there. Both carry the same
/// pieces, in the same order.
enum class RelayHop : uint8_t { None, In, Out };

/// Pieces [first, last) of one pair of devices that travel together in a wave.
struct PlanMessage {
  int32_t wave = 0;
  int64_t source = 0, destination = 0;
  size_t first = 0, last = 0;
  int64_t bytes = 0;
  /// Offsets in the arenas of sender and receiver.
  int64_t sendSlot = kInPlace, receiveSlot = kInPlace;
  RelayHop relay = RelayHop::None;
  /// That it is a part of, by the caller's number; -1: none.
  int32_t collective = -1;
};

} // namespace dt

#endif // DT_SCHEDULING_PLANMESSAGE_H
