//===- Feeds.cpp - What forwards wait for ---------------------------------===//

#include "Feeds.h"

#include <map>

using namespace dt;

std::vector<std::vector<uint32_t>>
dt::findFeeds(const std::vector<Move> &moves) {
  std::vector<std::vector<uint32_t>> feeds(moves.size());
  // Arrivals per (flow, device), only where something is forwarded from.
  std::map<std::pair<uint32_t, int64_t>, std::vector<uint32_t>> arrivals;
  for (const Move &move : moves)
    if (move.hop > 0)
      arrivals[{move.flow, move.source}];
  if (arrivals.empty())
    return feeds;
  std::map<std::pair<uint32_t, int64_t>, std::map<Box, uint32_t>> exact;
  for (uint32_t i = 0; i < moves.size(); ++i) {
    const Move &move = moves[i];
    if (move.hop > 0) {
      auto key = std::make_pair(move.flow, move.source);
      auto same = exact[key].find(move.box);
      if (same != exact[key].end())
        feeds[same->second].push_back(i);
      else
        for (uint32_t other : arrivals[key])
          if (overlaps(moves[other].box, move.box))
            feeds[other].push_back(i);
    }
    auto it = arrivals.find({move.flow, move.destination});
    if (it == arrivals.end())
      continue;
    it->second.push_back(i);
    exact[it->first].emplace(move.box, i);
  }
  return feeds;
}
