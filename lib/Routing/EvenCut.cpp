//===- EvenCut.cpp - Boxes as so many parts of one size -------------------===//

#include "EvenCut.h"

#include <algorithm>

using namespace dt;

namespace {

/// Parts are cut between slices of the outermost dim where each has as many.
constexpr double kSlicesPerPart = 8;

} // namespace

EvenCut::EvenCut(const FlowBoxes &boxes,
                 const std::vector<int64_t> &elementBytes, int64_t parts)
    : parts(double(parts)), contents(parts) {
  auto bytesOf = [&](uint32_t flow, const Box &box) {
    return double(box.volume()) * double(elementBytes[flow]);
  };
  for (const auto &[flow, box] : boxes)
    bytes += bytesOf(flow, box);
  double offset = 0;
  for (const auto &[flow, box] : boxes) {
    cut(flow, box, double(elementBytes[flow]), offset);
    offset += bytesOf(flow, box);
  }
}

int64_t EvenCut::partAt(double offset) const {
  auto part = int64_t(offset * parts / bytes);
  return std::clamp<int64_t>(part, 0, int64_t(contents.size()) - 1);
}

/// Where borders lie inside of the box, whole slices of its outermost dim go to
/// parts; slices that are few are cut by themselves.
void EvenCut::cut(uint32_t flow, const Box &box, double width, double offset) {
  double size = double(box.volume()) * width;
  int64_t first = partAt(offset + width / 2);
  int64_t last = partAt(offset + size - width / 2);
  if (first == last) {
    contents[first].emplace_back(flow, box);
    return;
  }
  unsigned dim = 0;
  while (box[dim].size() == 1)
    ++dim;
  double slice = size / double(box[dim].size());
  if (slice > width && slice * kSlicesPerPart > bytes / parts) {
    for (int64_t at = box[dim].lo; at < box[dim].hi; ++at, offset += slice) {
      Box one = box;
      one[dim] = {at, at + 1};
      cut(flow, one, width, offset);
    }
    return;
  }
  int64_t lo = box[dim].lo;
  for (int64_t part = first; part <= last; ++part) {
    int64_t hi = box[dim].hi;
    if (part < last) {
      auto slices = int64_t((border(part + 1) - offset) / slice + 0.5);
      hi = std::clamp(box[dim].lo + slices, lo, hi);
    }
    if (hi == lo)
      continue;
    Box piece = box;
    piece[dim] = {lo, hi};
    contents[part].emplace_back(flow, piece);
    lo = hi;
  }
}

FlowBoxes dt::joined(const FlowBoxes &boxes) {
  std::map<uint32_t, std::vector<Box>> byFlow;
  for (const auto &[flow, box] : boxes)
    byFlow[flow].push_back(box);
  FlowBoxes out;
  for (auto &[flow, own] : byFlow)
    for (const Box &box : mergeAdjacent(std::move(own)))
      out.emplace_back(flow, box);
  return out;
}

const FlowBoxes &EvenCut::run(int64_t first, int64_t last) {
  auto [known, isNew] = runs.try_emplace({first, last});
  if (!isNew)
    return known->second;
  FlowBoxes all;
  for (int64_t part = first; part < last; ++part)
    all.insert(all.end(), contents[part].begin(), contents[part].end());
  known->second = joined(all);
  return known->second;
}
