//===- SpliceSeconds.cpp - What a spliced plan takes at least -------------===//

#include "SpliceSeconds.h"

#include "dt/Cost/CostModel.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace dt {

namespace {

auto keyOf(const TimedMessage &message) {
  return std::make_tuple(message.wave, message.source, message.destination);
}

bool isBefore(const TimedMessage &a, const TimedMessage &b) {
  return keyOf(a) < keyOf(b);
}

/// As the cost model has it; nothing is packed.
TimedMessage timed(int32_t wave, int64_t from, int64_t to, int64_t bytes) {
  return {wave, from, to, bytes, /*isPacked=*/false, /*isUnpacked=*/false};
}

int64_t bytesOf(const TransitionInfo &info, uint32_t flow, const Box &box) {
  return box.volume() * info.flowWidths()[flow].bytesPerElement;
}

/// The pieces of one message are one; they are sorted.
void addUp(std::vector<TimedMessage> &pieces) {
  size_t count = 0;
  for (const TimedMessage &piece : pieces)
    if (count > 0 && keyOf(pieces[count - 1]) == keyOf(piece))
      pieces[count - 1].bytes += piece.bytes;
    else
      pieces[count++] = piece;
  pieces.resize(count);
}

std::vector<TimedMessage> withPieces(const std::vector<TimedMessage> &kept,
                                     std::vector<TimedMessage> pieces) {
  llvm::sort(pieces, isBefore);
  std::vector<TimedMessage> all;
  all.reserve(kept.size() + pieces.size());
  std::merge(kept.begin(), kept.end(), pieces.begin(), pieces.end(),
             std::back_inserter(all), isBefore);
  addUp(all);
  return all;
}

} // namespace

std::vector<TimedMessage> keptMessages(const TransitionInfo &info,
                                       const ChangedPlaces &places,
                                       OldPrograms &programs,
                                       const std::set<int64_t> &devices,
                                       const SplicedRoute &route) {
  std::vector<TimedMessage> out;
  auto addKept = [&](const OldMessage &message) {
    int64_t bytes = stayingBytes(stayingPart(places, route, message), places,
                                 info, message);
    if (bytes > 0)
      out.push_back(timed(message.wave, message.from, message.to, bytes));
  };
  forEachMessageOf(devices, programs, addKept);
  forEachMessageOf(
      someOthers(programs, devices), programs, [&](const OldMessage &message) {
        if (!devices.count(message.from) && !devices.count(message.to))
          addKept(message);
      });
  llvm::sort(out, isBefore);
  addUp(out);
  return out;
}

double busiestPortOf(const TransitionInfo &info,
                     const std::vector<TimedMessage> &kept,
                     const SplicedRoute &route) {
  std::vector<TimedMessage> pieces;
  for (const Move &move : route.moves)
    pieces.push_back(timed(/*wave=*/0, move.source, move.destination,
                           bytesOf(info, move.flow, move.box)));
  auto ports =
      dtrt::busiestPorts(withPieces(kept, std::move(pieces)), info.cluster);
  return std::max(ports.nic, ports.island);
}

std::set<int64_t> lateSenders(const TransitionInfo &info,
                              const SplicedWaves &waves) {
  // Each that is freed changes the programs of a few others.
  constexpr double kMostOfIt = 0.9;
  std::map<int64_t, double> seconds; // by sender
  double left = 0;
  for (const auto &[move, wave, relay] : waves.moves)
    if (wave >= waves.firstBehind) {
      double own = double(bytesOf(info, move.flow, move.box)) /
                   info.cluster.bytesPerSecond(move.source, move.destination);
      seconds[move.source] += own;
      left += kMostOfIt * own;
    }
  std::vector<std::pair<int64_t, double>> senders(seconds.begin(),
                                                  seconds.end());
  std::stable_sort(
      senders.begin(), senders.end(),
      [](const auto &a, const auto &b) { return a.second > b.second; });
  std::set<int64_t> out;
  for (auto [sender, own] : senders) {
    if (left <= 0)
      break;
    left -= own;
    out.insert(sender);
  }
  return out;
}

double secondsOf(const TransitionInfo &info,
                 const std::vector<TimedMessage> &kept,
                 const SplicedWaves &waves) {
  std::vector<TimedMessage> pieces;
  for (const auto &[move, wave, relay] : waves.moves)
    pieces.push_back(timed(wave, move.source, move.destination,
                           bytesOf(info, move.flow, move.box)));
  return dtrt::predictSeconds(withPieces(kept, std::move(pieces)),
                              info.cluster);
}

} // namespace dt
