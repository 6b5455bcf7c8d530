//===- DerivedStates.cpp - Elements that their device makes itself --------===//
//
// A state that may be made from another is sent only where that saves nothing:
// a device that gets the other state's element anyway, and does not hold this
// one at the source, makes it when all transfers are done.
//
//===----------------------------------------------------------------------===//

#include "TransitionInfo.h"

#include <algorithm>
#include <iterator>
#include <map>

using namespace mlir;

namespace dt {

namespace {

/// A box that some devices want sent and others make themselves.
struct Wanted {
  Box box;
  std::vector<int64_t> sent, derived;
};

/// The part of `box` that no pair covers, when the pairs do not fill it.
std::vector<Box> restOf(const Box &box, int64_t covered,
                        const std::vector<Cell> &cells) {
  if (covered == box.volume())
    return {};
  return uncovered(box, cells);
}

/// Cuts the destination of a flow by where the elements come from: wanted by
/// P, also got as the other state by M, held at the source by S. Of P, those
/// in M and not in S make it themselves.
std::vector<Wanted> splitByOrigin(const TransitionInfo &info, uint32_t index) {
  const FlowInfo &flow = info.flows[index];
  std::vector<int64_t> shape = info.shapeOf(index);
  CellSet wanted = overlay(flow.destination, shape);
  CellSet made = overlay(info.flows[*flow.deriveFrom].destination, shape);
  CellSet held = overlay(flow.source, shape);
  std::vector<Wanted> both, out;
  std::vector<int64_t> covered(wanted.cells.size(), 0);
  std::vector<Cell> cells;
  auto setMinus = [](const auto &a, const auto &b) {
    std::vector<int64_t> rest;
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(),
                        std::back_inserter(rest));
    return rest;
  };
  for (const CellPair &pair : join(wanted.cells, made.cells)) {
    const auto &p = wanted.ownerSets[wanted.cells[pair.left].owners];
    const auto &m = made.ownerSets[made.cells[pair.right].owners];
    covered[pair.left] += pair.box.volume();
    std::vector<int64_t> sent = setMinus(p, m);
    cells.push_back({pair.box, uint32_t(both.size())});
    both.push_back({pair.box, sent, setMinus(p, sent)});
  }
  for (size_t i = 0; i < covered.size(); ++i)
    for (const Box &box : restOf(wanted.cells[i].box, covered[i], made.cells))
      out.push_back({box, wanted.ownerSets[wanted.cells[i].owners], {}});
  std::vector<int64_t> found(both.size(), 0);
  for (const CellPair &pair : join(cells, held.cells)) {
    const Wanted &part = both[pair.left];
    const auto &s = held.ownerSets[held.cells[pair.right].owners];
    found[pair.left] += pair.box.volume();
    std::vector<int64_t> derived = setMinus(part.derived, s), all;
    std::set_union(part.sent.begin(), part.sent.end(), part.derived.begin(),
                   part.derived.end(), std::back_inserter(all));
    out.push_back({pair.box, setMinus(all, derived), derived});
  }
  for (size_t i = 0; i < both.size(); ++i)
    for (const Box &box : restOf(both[i].box, found[i], held.cells))
      out.push_back({box, both[i].sent, both[i].derived});
  llvm::sort(out,
             [](const Wanted &a, const Wanted &b) { return a.box < b.box; });
  return out;
}

} // namespace

CellSet TransitionInfo::sentCells(uint32_t index) const {
  const FlowInfo &flow = flows[index];
  if (!flow.deriveFrom)
    return overlay(flow.destination, shapeOf(index));
  CellSet out;
  std::map<std::vector<int64_t>, uint32_t> owners;
  for (Wanted &wanted : splitByOrigin(*this, index)) {
    if (wanted.sent.empty())
      continue;
    auto [it, isNew] =
        owners.try_emplace(wanted.sent, uint32_t(out.ownerSets.size()));
    if (isNew)
      out.ownerSets.push_back(wanted.sent);
    out.cells.push_back({wanted.box, it->second});
  }
  return out;
}

std::vector<LocalMove> TransitionInfo::derivedPieces(uint32_t flow) const {
  std::vector<LocalMove> out;
  if (!flows[flow].deriveFrom)
    return out;
  for (const Wanted &wanted : splitByOrigin(*this, flow))
    for (int64_t device : wanted.derived)
      out.push_back({flow, device, wanted.box});
  return out;
}

} // namespace dt
