//===- EvenCut.cpp - Boxes as so many parts of one size -------------------===//

#include "EvenCut.h"

#include <algorithm>
#include <array>

using namespace dt;

namespace {

/// Parts are cut between slices of the outermost dim where each has as many.
constexpr double kSlicesPerPart = 8;

} // namespace

EvenCut::EvenCut(const FlowBoxes &boxes,
                 const std::vector<int64_t> &elementBytes, int64_t parts)
    : parts(double(parts)), contents(parts) {
  auto bytesOf = [&](const FlowBox &item) {
    return double(item.box.volume()) * double(elementBytes[item.flow]);
  };
  for (const FlowBox &item : boxes)
    bytes += bytesOf(item);
  double offset = 0;
  for (const FlowBox &item : boxes) {
    cut(item, double(elementBytes[item.flow]), offset);
    offset += bytesOf(item);
  }
}

int64_t EvenCut::partAt(double offset) const {
  auto part = int64_t(offset * parts / bytes);
  return std::clamp<int64_t>(part, 0, int64_t(contents.size()) - 1);
}

/// Where borders lie inside of the box, whole slices of its outermost dim go to
/// parts; slices that are few are cut by themselves.
void EvenCut::cut(const FlowBox &item, double width, double offset) {
  const Box &box = item.box;
  double size = double(box.volume()) * width;
  int64_t first = partAt(offset + width / 2);
  int64_t last = partAt(offset + size - width / 2);
  if (first == last) {
    contents[first].push_back(item);
    return;
  }
  unsigned dim = 0;
  while (box[dim].size() == 1)
    ++dim;
  double slice = size / double(box[dim].size());
  if (slice > width && slice * kSlicesPerPart > bytes / parts) {
    for (int64_t at = box[dim].lo; at < box[dim].hi; ++at, offset += slice) {
      FlowBox one = item;
      one.box[dim] = {at, at + 1};
      cut(one, width, offset);
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
    FlowBox piece = item;
    piece.box[dim] = {lo, hi};
    contents[part].push_back(std::move(piece));
    lo = hi;
  }
}

FlowBoxes dt::joined(const FlowBoxes &boxes) {
  std::map<std::array<uint32_t, 3>, std::vector<Box>> byCells;
  for (const FlowBox &item : boxes)
    byCells[{item.flow, item.source, item.destination}].push_back(item.box);
  FlowBoxes out;
  for (auto &[key, own] : byCells)
    for (const Box &box : mergeAdjacent(std::move(own)))
      out.push_back({key[0], key[1], key[2], box});
  return out;
}

FlowBoxes dt::joinedArrived(FlowBoxes boxes) {
  for (FlowBox &item : boxes)
    item.source = 0;
  return joined(boxes);
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
