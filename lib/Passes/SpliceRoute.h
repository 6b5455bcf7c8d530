//===- SpliceRoute.h - What goes to who has another's place -----*- C++ -*-===//
//
// Of a plan whose destination has a few other devices than an old one: what
// these get, from whom, in which wave, and what they pass on. All other
// messages stay as they are, and have their ports.
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_PASSES_SPLICEROUTE_H
#define DT_LIB_PASSES_SPLICEROUTE_H

#include "ChangedPlaces.h"
#include "OldPrograms.h"
#include "dt/Routing/OldRoute.h"
#include "dt/Scheduling/WaveProblem.h"

#include "llvm/ADT/DenseSet.h"

namespace dt {

/// How much of the old plan is looked at, and may change.
struct SpliceEffort {
  /// What heirs get comes from devices whose programs change anyhow, where
  /// these have it.
  bool asksFew = false;
  /// Where what heirs got goes the way it went, another way is scheduled too.
  bool comparesRoutes = false;
  /// What heirs get comes from whose ports have time beside all that stays.
  bool looksAtPorts = false;
  /// What heirs and who had their places send goes in other waves, too.
  bool resends = false;
  /// So does what these send.
  std::set<int64_t> resenders;
};

struct SplicedRoute {
  /// What the changed transition has of the wants of these devices alone.
  std::unique_ptr<TransitionInfo> wants;
  std::vector<Move> moves; // by hop
  std::vector<LocalMove> locals;
  /// What the old plan has of it, from and to who has the places now.
  OldMoves old;
  /// Messages of the old plan that are sent as before, in waves of their own:
  /// wave, sender and receiver. They are among `moves`, too.
  std::set<std::tuple<int32_t, int64_t, int64_t>> resent;
  /// Seconds that no plan of the wants goes below.
  double lowerBound = 0;
};

/// Chooses who sends to heirs. Says why that cannot be.
std::optional<std::string> spliceRoute(const TransitionInfo &info,
                                       const ChangedPlaces &places,
                                       OldPrograms &programs,
                                       const SpliceEffort &effort,
                                       SplicedRoute &out);

/// Whether a piece of an old message goes now to another device, or comes from
/// another one.
inline bool isChanged(const ChangedPlaces &places, const OldMessage &message,
                      const OldPiece &piece) {
  return places.heirs.count(message.to) > 0 ||
         (piece.isForward && places.heirs.count(message.from) > 0);
}

/// What goes as it did of an old message, in its wave.
enum class StayingPart { None, Some, All };
inline StayingPart stayingPart(const ChangedPlaces &places,
                               const OldMessage &message) {
  if (places.heirs.count(message.to) > 0)
    return StayingPart::None;
  bool mayChange = message.hasForwards && places.heirs.count(message.from) > 0;
  return mayChange ? StayingPart::Some : StayingPart::All;
}
inline StayingPart stayingPart(const ChangedPlaces &places,
                               const SplicedRoute &route,
                               const OldMessage &message) {
  bool isResent = !route.resent.empty() &&
                  route.resent.count({message.wave, message.from, message.to});
  return isResent ? StayingPart::None : stayingPart(places, message);
}

/// Bytes of it, on the wire.
int64_t stayingBytes(StayingPart part, const ChangedPlaces &places,
                     const TransitionInfo &info, const OldMessage &message);

/// Calls fn(message) for the messages of some devices, each once: where both
/// ends are theirs, as it is sent.
template <typename Fn>
void forEachMessageOf(const std::set<int64_t> &devices, OldPrograms &programs,
                      Fn fn) {
  llvm::DenseSet<int64_t> known(devices.begin(), devices.end());
  for (int64_t device : devices) {
    const OldProgram *program = programs.of(device);
    if (!program)
      continue;
    for (const OldMessage &message : program->sent)
      fn(message);
    for (const OldMessage &message : program->received)
      if (!known.contains(message.from))
        fn(message);
  }
}

/// Some devices of the old plan that are none of `devices`, in all parts of the
/// worlds and at all places in nodes: to see from a few what all do.
std::set<int64_t> someOthers(const OldPrograms &programs,
                             const std::set<int64_t> &devices);

struct SplicedWaves {
  std::vector<ScheduledMove> moves; // of the route
  int32_t firstBehind = 0;          // behind all waves of the old plan
  int64_t bytesInWave = 0;          // of what has kept its wave
  bool hasGaps = false; // waves in which nothing is known to be sent
};

/// Puts the moves into waves beside what else `devices` send and get, or
/// behind. Their programs have been read. Says why that cannot be.
std::optional<std::string>
spliceWaves(const TransitionInfo &info, const ChangedPlaces &places,
            OldPrograms &programs, const std::set<int64_t> &devices,
            const SplicedRoute &route, SplicedWaves &out);

} // namespace dt

#endif // DT_LIB_PASSES_SPLICEROUTE_H
