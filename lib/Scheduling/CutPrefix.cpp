//===- CutPrefix.cpp - The first elements of a box ------------------------===//

#include "CutPrefix.h"

#include <algorithm>

bool dt::takePrefix(Box &box, int64_t elements, bool cutSlices, Box &prefix,
                    std::vector<Box> &between) {
  unsigned dim = 0;
  while (dim + 1 < box.rank() && box[dim].size() == 1)
    ++dim;
  int64_t slice = box.rank() ? box.volume() / box[dim].size() : 1;
  int64_t fits = elements / slice;
  prefix = box;
  if (fits > 0 && box.rank()) {
    int64_t cut = std::min(box[dim].hi, box[dim].lo + fits);
    prefix[dim].hi = cut;
    box[dim].lo = cut;
    return true;
  }
  if (!cutSlices || elements == 0)
    return false;
  Box first = box;
  first[dim].hi = first[dim].lo + 1;
  box[dim].lo += 1;
  std::vector<Box> inner;
  if (!takePrefix(first, elements, true, prefix, inner))
    return false;
  between.insert(between.end(), inner.begin(), inner.end());
  if (!first.empty())
    between.push_back(first);
  return true;
}

std::vector<dt::CutMoves> dt::cutMoves(const std::vector<Move> &moves,
                                       const std::vector<int64_t> &elementBytes,
                                       int64_t most) {
  std::vector<CutMoves> out(1);
  for (const Move &move : moves) {
    const int64_t width = elementBytes[move.flow];
    std::vector<Box> rest = {move.box};
    while (!rest.empty()) {
      Box box = rest.back(), prefix = box;
      rest.pop_back();
      std::vector<Box> between;
      int64_t room = most - out.back().bytes;
      bool isWhole = box.volume() * width <= room;
      if (!isWhole &&
          !takePrefix(box, room / width,
                      /*cutSlices=*/out.back().bytes == 0, prefix, between)) {
        rest.push_back(box);
        out.emplace_back();
        continue;
      }
      if (!isWhole && !box.empty())
        rest.push_back(box);
      rest.insert(rest.end(), between.rbegin(), between.rend());
      Move piece = move;
      piece.box = prefix;
      out.back().pieces.push_back(piece);
      out.back().bytes += prefix.volume() * width;
    }
  }
  return out;
}
