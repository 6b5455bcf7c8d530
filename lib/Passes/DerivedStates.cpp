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

/// The parts of `wanted` that no cell of `others` covers. `pairs` joins both.
std::vector<Cell> restOf(const std::vector<Cell> &wanted,
                         const std::vector<CellPair> &pairs,
                         WorkLimit *limit) {
  std::vector<std::vector<Cell>> inside(wanted.size());
  std::vector<int64_t> covered(wanted.size(), 0);
  for (const CellPair &pair : pairs) {
    inside[pair.left].push_back({pair.box, 0});
    covered[pair.left] += pair.box.volume();
  }
  std::vector<Cell> out;
  for (size_t i = 0; i < wanted.size(); ++i)
    if (covered[i] != wanted[i].box.volume())
      for (const Box &box : uncovered(wanted[i].box, inside[i], limit))
        out.push_back({box, uint32_t(i)});
  return out;
}

/// Cuts the destination of a flow by where the elements come from: wanted by
/// P, also got as the other state by M, held at the source by S. Of P, those
/// in M and not in S make it themselves.
std::vector<Wanted> splitByOrigin(const TransitionInfo &info, uint32_t index,
                                  WorkLimit *limit) {
  const FlowInfo &flow = info.flows[index];
  std::vector<int64_t> shape = info.shapeOf(index);
  CellSet wanted = overlay(flow.destination, shape, limit);
  CellSet made = overlay(info.flows[*flow.deriveFrom].destination, shape, limit);
  CellSet held = overlay(flow.source, shape, limit);
  std::vector<Wanted> both, out;
  if (limit && limit->isExceeded())
    return out;
  std::vector<Cell> cells;
  auto setMinus = [](const auto &a, const auto &b) {
    std::vector<int64_t> rest;
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(),
                        std::back_inserter(rest));
    return rest;
  };
  auto ownersOf = [](const CellSet &set, uint32_t cell) -> const auto & {
    return set.ownerSets[set.cells[cell].owners];
  };
  std::vector<CellPair> pairs = join(wanted.cells, made.cells, limit);
  for (const CellPair &pair : pairs) {
    const auto &p = ownersOf(wanted, pair.left);
    std::vector<int64_t> sent = setMinus(p, ownersOf(made, pair.right));
    cells.push_back({pair.box, uint32_t(both.size())});
    both.push_back({pair.box, sent, setMinus(p, sent)});
    if (limit && !limit->take(int64_t(p.size())))
      return out;
  }
  for (const Cell &rest : restOf(wanted.cells, pairs, limit))
    out.push_back({rest.box, ownersOf(wanted, rest.owners), {}});
  pairs = join(cells, held.cells, limit);
  for (const CellPair &pair : pairs) {
    const Wanted &part = both[pair.left];
    std::vector<int64_t> derived =
        setMinus(part.derived, ownersOf(held, pair.right));
    std::vector<int64_t> all;
    std::set_union(part.sent.begin(), part.sent.end(), part.derived.begin(),
                   part.derived.end(), std::back_inserter(all));
    if (limit && !limit->take(int64_t(all.size())))
      return out;
    out.push_back({pair.box, setMinus(all, derived), derived});
  }
  for (const Cell &rest : restOf(cells, pairs, limit))
    out.push_back({rest.box, both[rest.owners].sent, both[rest.owners].derived});
  llvm::sort(out,
             [](const Wanted &a, const Wanted &b) { return a.box < b.box; });
  return out;
}

} // namespace

CellSet TransitionInfo::sentCells(uint32_t index, WorkLimit *limit) const {
  const FlowInfo &flow = flows[index];
  if (!flow.deriveFrom)
    return overlay(flow.destination, shapeOf(index), limit);
  CellSet out;
  std::map<std::vector<int64_t>, uint32_t> owners;
  for (Wanted &wanted : splitByOrigin(*this, index, limit)) {
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
  for (const Wanted &wanted : splitByOrigin(*this, flow, nullptr))
    for (int64_t device : wanted.derived)
      out.push_back({flow, device, wanted.box});
  return out;
}

} // namespace dt
