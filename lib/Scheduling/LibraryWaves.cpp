//===- LibraryWaves.cpp - Library collectives in waves --------------------===//

#include "dt/Scheduling/LibraryWaves.h"

#include "CutPrefix.h"
#include "dtrt/cost/TimedCollectives.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

using namespace dt;
using dtrt::CollectiveKind;

namespace {

/// Calls of more bytes per member are cut, so that packs and unpacks of one are
/// beside the wire of another; as long as the parts are far above a latency.
constexpr int64_t kPartBytes = int64_t(64) << 20;

using DevicePair = std::pair<int64_t, int64_t>;

/// All that goes by calls of one kind, members and root.
class CallCutter {
public:
  CallCutter(const LibraryCall &call, const std::vector<int64_t> &elementBytes,
             int64_t mostBytes)
      : call(call), elementBytes(elementBytes) {
    auto members = int64_t(call.members.size());
    int64_t blocks = call.kind == CollectiveKind::Broadcast ? 1 : members;
    most = std::max<int64_t>(std::min(mostBytes, kPartBytes) / blocks, 1);
    most = std::max<int64_t>(most / kSlotAlignment * kSlotAlignment,
                             std::min(most, kSlotAlignment));
  }

  std::vector<LibraryCall> run();

private:
  /// What each gives: to all alike by a sender, or pair by pair.
  std::map<DevicePair, std::vector<Move>> parts() const;

  const LibraryCall &call;
  const std::vector<int64_t> &elementBytes;
  int64_t most = 0; // bytes of a block
};

std::map<DevicePair, std::vector<Move>> CallCutter::parts() const {
  std::map<DevicePair, std::vector<Move>> out;
  bool isShared = call.kind != CollectiveKind::AllToAll;
  for (const Move &move : call.moves) {
    int64_t first = call.members.front() == move.source ? call.members[1]
                                                        : call.members.front();
    if (!isShared || move.destination == first)
      out[{move.source, move.destination}].push_back(move);
  }
  return out;
}

/// One part of each per round. Whoever has less gives nothing in the last ones.
std::vector<LibraryCall> CallCutter::run() {
  std::vector<LibraryCall> rounds;
  for (const auto &[pair, moves] : parts()) {
    std::vector<CutMoves> cut = cutMoves(moves, elementBytes, most);
    if (rounds.size() < cut.size())
      rounds.resize(cut.size(), {call.kind, call.members, call.root, {}});
    for (size_t r = 0; r < cut.size(); ++r)
      for (Move piece : cut[r].pieces) {
        if (call.kind == CollectiveKind::AllToAll) {
          rounds[r].moves.push_back(piece);
          continue;
        }
        for (int64_t member : call.members) {
          piece.destination = member;
          if (member != piece.source)
            rounds[r].moves.push_back(piece);
        }
      }
  }
  return rounds;
}

/// Calls of one kind, members and root as one.
std::vector<LibraryCall> joinCalls(const std::vector<LibraryCall> &calls) {
  std::map<std::tuple<std::vector<int64_t>, CollectiveKind, int64_t>,
           LibraryCall>
      joined;
  for (const LibraryCall &call : calls) {
    auto [it, isNew] =
        joined.try_emplace({call.members, call.kind, call.root}, call);
    if (!isNew)
      it->second.moves.insert(it->second.moves.end(), call.moves.begin(),
                              call.moves.end());
  }
  std::vector<LibraryCall> out;
  for (auto &[key, call] : joined)
    out.push_back(std::move(call));
  return out;
}

} // namespace

LibraryWaves dt::scheduleCalls(const std::vector<LibraryCall> &calls,
                               const std::vector<int64_t> &elementBytes,
                               int64_t stagingBytes) {
  constexpr int64_t kAreas = 4;
  LibraryWaves waves;
  std::map<int64_t, size_t> next; // first wave that a device is free in
  for (const LibraryCall &call : joinCalls(calls))
    for (LibraryCall &round :
         CallCutter(call, elementBytes, stagingBytes / kAreas).run()) {
      size_t wave = 0;
      for (int64_t member : round.members)
        wave = std::max(wave, next[member]);
      for (int64_t member : round.members)
        next[member] = wave + 1;
      waves.resize(std::max(waves.size(), wave + 1));
      waves[wave].push_back(std::move(round));
    }
  return waves;
}

std::vector<dtrt::TimedMessage>
dt::timedCalls(const LibraryWaves &waves,
               const std::vector<int64_t> &elementBytes,
               const Cluster &cluster) {
  std::vector<dtrt::TimedMessage> out;
  for (size_t w = 0; w < waves.size(); ++w)
    for (const LibraryCall &call : waves[w]) {
      std::map<DevicePair, int64_t> bytes;
      int64_t block = 0;
      for (const Move &move : call.moves) {
        int64_t &own = bytes[{move.source, move.destination}];
        own += move.box.volume() * elementBytes[move.flow];
        block = std::max(block, own);
      }
      dtrt::addCollective(
          {int32_t(w), call.kind, call.members, call.root, alignSlot(block)},
          cluster, out);
    }
  dtrt::sortMessages(out);
  return out;
}
