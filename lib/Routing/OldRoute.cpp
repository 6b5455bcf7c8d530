//===- OldRoute.cpp - What of an old route is right still -----------------===//
//
// Invariant of `Keeper`: pieces of nodes that are not dropped are fed by
// holders, or by pieces of nodes that are not dropped. To drop a node may leave
// others unfed; that ends when no node is dropped any more.
//
//===----------------------------------------------------------------------===//

#include "dt/Routing/OldRoute.h"

#include "dt/Geometry/Overlaps.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

using namespace dt;

OldMoveIndex::OldMoveIndex(const OldMoves &old) {
  for (const std::vector<OldMove> &flow : old)
    for (const OldMove &piece : flow)
      moves[{piece.move.flow, piece.move.source, piece.move.destination}]
          .push_back(&piece);
}

std::vector<OldMove> OldMoveIndex::partsOf(const Move &move) const {
  std::vector<OldMove> parts;
  auto found = moves.find({move.flow, move.source, move.destination});
  if (found == moves.end())
    return parts;
  for (const OldMove *old : found->second)
    if (overlaps(old->move.box, move.box))
      parts.push_back({move, old->wave}),
          parts.back().move.box = intersect(old->move.box, move.box);
  return parts;
}

OldRoute::OldRoute(const std::vector<OldMove> &old,
                   const std::vector<Box> &boxes)
    : boxes(boxes), parts(boxes.size()) {
  std::vector<Box> oldBoxes;
  for (const OldMove &piece : old)
    oldBoxes.push_back(piece.move.box);
  for (auto [box, piece] : overlappingPairs(boxes, oldBoxes)) {
    OldMove part = old[piece];
    part.move.box = intersect(boxes[box], oldBoxes[piece]);
    parts[box].push_back(part);
  }
  for (std::vector<OldMove> &list : parts)
    std::sort(list.begin(), list.end(), [](const OldMove &a, const OldMove &b) {
      return std::tie(a.wave, a.move.source, a.move.destination, a.move.box) <
             std::tie(b.wave, b.move.source, b.move.destination, b.move.box);
    });
}

namespace {

class Keeper {
public:
  Keeper(const Box &box, const std::vector<OldMove> &pieces,
         const Demanded &demanded, const Cluster &cluster);

  OldRoute::Kept run();

private:
  bool isWhole(size_t node) const;
  bool dropUnfed();
  int64_t hopOf(const OldMove &piece) const;

  const Box &box;
  const std::vector<OldMove> &pieces; // by wave
  const Demanded &demanded;
  const Cluster &cluster;
  std::unordered_map<int64_t, size_t> nodeOf; // of wanters
  std::unordered_map<int64_t, std::vector<uint32_t>> arrivals;
  std::vector<bool> served;
  std::vector<int64_t> hops; // by piece
};

Keeper::Keeper(const Box &box, const std::vector<OldMove> &pieces,
               const Demanded &demanded, const Cluster &cluster)
    : box(box), pieces(pieces), demanded(demanded), cluster(cluster),
      served(demanded.wanters.size()), hops(pieces.size()) {
  for (size_t node = 0; node < demanded.wanters.size(); ++node)
    for (int64_t device : demanded.wanters[node])
      nodeOf[device] = node;
  for (uint32_t i = 0; i < pieces.size(); ++i)
    if (nodeOf.count(pieces[i].move.destination))
      arrivals[pieces[i].move.destination].push_back(i);
}

/// Whether all wanters of a node get all of the box, which enters the node as
/// often as it has to.
bool Keeper::isWhole(size_t node) const {
  const std::vector<int64_t> &wanters = demanded.wanters[node];
  int64_t volume = box.volume(), entered = 0;
  for (int64_t device : wanters) {
    auto found = arrivals.find(device);
    if (found == arrivals.end())
      return false;
    int64_t got = 0;
    std::vector<Box> boxes;
    for (uint32_t i : found->second) {
      boxes.push_back(pieces[i].move.box);
      got += boxes.back().volume();
      if (!cluster.sameNode(pieces[i].move.source, device))
        entered += boxes.back().volume();
    }
    if (got != volume || firstOverlap(boxes))
      return false;
  }
  bool isInside = std::any_of(
      demanded.holders.begin(), demanded.holders.end(), [&](int64_t holder) {
        return cluster.sameNode(holder, wanters.front());
      });
  return entered == (isInside ? 0 : volume);
}

/// The hop of a piece whose node is served; -1: its sender does not have it.
int64_t Keeper::hopOf(const OldMove &piece) const {
  int64_t sender = piece.move.source;
  if (std::binary_search(demanded.holders.begin(), demanded.holders.end(),
                         sender))
    return 0;
  auto node = nodeOf.find(sender);
  auto found = arrivals.find(sender);
  if (node == nodeOf.end() || !served[node->second] || found == arrivals.end())
    return -1;
  int64_t hop = 0, missing = piece.move.box.volume();
  for (uint32_t i : found->second) {
    if (pieces[i].wave >= piece.wave)
      break;
    int64_t fed = intersect(pieces[i].move.box, piece.move.box).volume();
    missing -= fed;
    if (fed > 0)
      hop = std::max(hop, hops[i] + 1);
  }
  return missing == 0 ? hop : -1;
}

/// Drops nodes that get what their senders do not have; whether there are any.
bool Keeper::dropUnfed() {
  bool anyDropped = false;
  for (size_t i = 0; i < pieces.size(); ++i) {
    auto node = nodeOf.find(pieces[i].move.destination);
    if (node == nodeOf.end() || !served[node->second])
      continue;
    hops[i] = hopOf(pieces[i]);
    if (hops[i] >= 0)
      continue;
    served[node->second] = false;
    anyDropped = true;
  }
  return anyDropped;
}

/// Waves cut what goes from one device to another at one hop: it is one move
/// again, or few.
std::vector<Move> merged(const std::vector<Move> &moves) {
  using Key = std::tuple<uint32_t, int64_t, int64_t>; // hop, source, receiver
  std::map<Key, std::vector<Box>> boxes;
  for (const Move &move : moves)
    boxes[{move.hop, move.source, move.destination}].push_back(move.box);
  std::vector<Move> out;
  for (auto &[key, list] : boxes)
    for (const Box &box : mergeAdjacent(std::move(list)))
      out.push_back({moves.front().flow, std::get<0>(key), std::get<1>(key),
                     std::get<2>(key), box});
  return out;
}

OldRoute::Kept Keeper::run() {
  for (size_t node = 0; node < served.size(); ++node)
    served[node] = !pieces.empty() && isWhole(node);
  while (dropUnfed())
    continue;
  std::vector<Move> moves;
  for (size_t i = 0; i < pieces.size(); ++i) {
    auto node = nodeOf.find(pieces[i].move.destination);
    if (node == nodeOf.end() || !served[node->second])
      continue;
    moves.push_back(pieces[i].move);
    moves.back().hop = uint32_t(hops[i]);
  }
  return {merged(moves), std::move(served)};
}

} // namespace

OldRoute::Kept OldRoute::keep(size_t number, const Demanded &demanded,
                              const Cluster &cluster) const {
  return Keeper(boxes[number], parts[number], demanded, cluster).run();
}
