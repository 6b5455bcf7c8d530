//===- OldMoves.h - Routes as old plans have them ---------------*- C++ -*-===//

#ifndef DT_TEST_UNIT_ROUTING_OLDMOVES_H
#define DT_TEST_UNIT_ROUTING_OLDMOVES_H

#include "dt/Routing/OldRoute.h"

#include <algorithm>
#include <random>

namespace dt::testing {

/// Moves whose waves are their hops.
inline OldMoves oldMovesOf(const std::vector<Move> &moves, size_t numFlows) {
  OldMoves out(numFlows);
  for (const Move &move : moves)
    out[move.flow].push_back({move, int32_t(move.hop)});
  return out;
}

inline int64_t bytesOf(const std::vector<Move> &moves,
                       const std::vector<Flow> &flows) {
  int64_t bytes = 0;
  for (const Move &move : moves)
    bytes += move.box.volume() * flows[move.flow].bytesPerElement;
  return bytes;
}

/// Of the moves, the bytes that have the ends that they had.
inline int64_t bytesAsBefore(const std::vector<Move> &moves,
                             const OldMoves &old,
                             const std::vector<Flow> &flows) {
  OldMoveIndex index(old);
  std::vector<Move> parts;
  for (const Move &move : moves)
    for (const OldMove &part : index.partsOf(move))
      parts.push_back(part.move);
  return bytesOf(parts, flows);
}

/// Puts another device in the place of one owner, in all sets.
inline void replaceDevice(CellSet &cells, std::mt19937 &random) {
  if (cells.ownerSets.empty())
    return;
  int64_t gone = cells.ownerSets[random() % cells.ownerSets.size()].front();
  int64_t next = 40 + int64_t(random() % 8);
  for (std::vector<int64_t> &owners : cells.ownerSets) {
    std::replace(owners.begin(), owners.end(), gone, next);
    std::sort(owners.begin(), owners.end());
  }
}

} // namespace dt::testing

#endif // DT_TEST_UNIT_ROUTING_OLDMOVES_H
