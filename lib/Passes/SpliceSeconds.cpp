//===- SpliceSeconds.cpp - What a spliced plan takes at least -------------===//

#include "SpliceSeconds.h"

#include "dt/Cost/CostModel.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <tuple>

namespace dt {

namespace {

/// Messages as the cost model has them; nothing is packed.
class Messages {
public:
  explicit Messages(const TransitionInfo &info) : info(info) {}

  void add(int32_t wave, int64_t from, int64_t to, uint32_t flow,
           const Box &box) {
    pieces.push_back({wave, from, to,
                      box.volume() * info.flowWidths()[flow].bytesPerElement,
                      /*isPacked=*/false, /*isUnpacked=*/false});
  }
  /// Sorted by wave; the pieces of one message are one.
  std::vector<TimedMessage> take();

private:
  static auto keyOf(const TimedMessage &message) {
    return std::make_tuple(message.wave, message.source, message.destination);
  }

  const TransitionInfo &info;
  std::vector<TimedMessage> pieces;
};

std::vector<TimedMessage> Messages::take() {
  llvm::sort(pieces, [](const TimedMessage &a, const TimedMessage &b) {
    return keyOf(a) < keyOf(b);
  });
  size_t count = 0;
  for (const TimedMessage &piece : pieces)
    if (count > 0 && keyOf(pieces[count - 1]) == keyOf(piece))
      pieces[count - 1].bytes += piece.bytes;
    else
      pieces[count++] = piece;
  pieces.resize(count);
  return std::move(pieces);
}

/// What stays as it is.
Messages keptMessages(const TransitionInfo &info, const ChangedPlaces &places,
                      OldPrograms &programs, const std::set<int64_t> &devices,
                      const SplicedRoute &route) {
  Messages messages(info);
  auto addKept = [&](const OldMessage &message) {
    for (const OldPiece &piece : message.pieces)
      if (stays(places, route, message, piece))
        messages.add(message.wave, message.from, message.to, piece.flow,
                     piece.box);
  };
  forEachMessageOf(devices, programs, addKept);
  forEachMessageOf(
      someOthers(programs, devices), programs, [&](const OldMessage &message) {
        if (!devices.count(message.from) && !devices.count(message.to))
          addKept(message);
      });
  return messages;
}

} // namespace

double busiestPortOf(const TransitionInfo &info, const ChangedPlaces &places,
                     OldPrograms &programs, const std::set<int64_t> &devices,
                     const SplicedRoute &route) {
  Messages messages = keptMessages(info, places, programs, devices, route);
  for (const Move &move : route.moves)
    messages.add(/*wave=*/0, move.source, move.destination, move.flow,
                 move.box);
  auto ports = dtrt::busiestPorts(messages.take(), info.cluster);
  return std::max(ports.nic, ports.island);
}

double secondsOf(const TransitionInfo &info, const ChangedPlaces &places,
                 OldPrograms &programs, const std::set<int64_t> &devices,
                 const SplicedRoute &route, const SplicedWaves &waves) {
  Messages messages = keptMessages(info, places, programs, devices, route);
  for (const auto &[move, wave, relay] : waves.moves)
    messages.add(wave, move.source, move.destination, move.flow, move.box);
  return dtrt::predictSeconds(messages.take(), info.cluster);
}

} // namespace dt
