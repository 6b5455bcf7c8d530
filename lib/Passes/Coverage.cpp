//===- Coverage.cpp - Every element once, from a holder -------------------===//

#include "Coverage.h"

#include <algorithm>

using namespace mlir;

namespace dt {

namespace {

std::vector<Cell> toCells(const std::vector<Box> &boxes) {
  std::vector<Cell> out;
  for (const Box &box : boxes)
    out.push_back({box, 0});
  return out;
}

std::vector<Cell> toCells(const std::vector<Arrival> &pieces) {
  std::vector<Cell> out;
  for (const Arrival &piece : pieces)
    out.push_back({piece.box, 0});
  return out;
}

int64_t volumeOf(const std::vector<Cell> &cells) {
  int64_t volume = 0;
  for (const Cell &cell : cells)
    volume += cell.box.volume();
  return volume;
}

/// Elements that both sets cover; the boxes of each are disjoint.
int64_t sharedVolume(const std::vector<Cell> &a, const std::vector<Cell> &b) {
  int64_t volume = 0;
  for (const CellPair &pair : join(a, b))
    volume += pair.box.volume();
  return volume;
}

} // namespace

FlowChecker::FlowChecker(const TransitionInfo &info, uint32_t flow)
    : info(info), flow(flow), shape(info.shapeOf(flow)) {
  source.add(flow, info.flows[flow].source);
  if (auto from = info.flows[flow].deriveFrom)
    made.add(flow, info.flows[*from].destination);
  for (const Holding &holding : info.flows[flow].destination) {
    Boxes outside = padding(holding.shard, shape);
    for (int64_t device : holding.devices) {
      appendRegions(holding.shard, shape, wanted[device]);
      arrivals[device];
      if (!outside.empty())
        padded[device].insert(padded[device].end(), outside.begin(),
                              outside.end());
    }
  }
}

LogicalResult FlowChecker::refuseTwice(const Arrivals &pieces, const char *verb,
                                       const char *where, int64_t device) {
  std::vector<Cell> cells = toCells(pieces);
  for (const CellPair &pair : join(cells, cells))
    if (pair.left < pair.right) {
      InFlightDiagnostic error = pieces[pair.right].op->emitOpError()
                                 << verb << " " << text(pair.box) << where
                                 << device << " a second time";
      error.attachNote(pieces[pair.left].op->getLoc())
          << "the first time is here";
      return failure();
    }
  return success();
}

/// What arrives at a device is what its destination layout places there.
LogicalResult FlowChecker::checkDelivered(int64_t device) {
  const Arrivals &pieces = arrivals[device];
  if (failed(refuseTwice(pieces, "delivers", " to device ", device)))
    return failure();
  std::vector<Cell> cells = toCells(pieces);
  std::vector<Cell> target = toCells(wanted[device]);
  int64_t volume = volumeOf(cells);
  if (sharedVolume(cells, target) != volume)
    return pieces.front().op->emitOpError()
           << "delivers elements to device " << device
           << " that its destination layout does not place there";
  if (volume == volumeOf(target))
    return success();
  for (const Box &box : wanted[device])
    if (std::vector<Box> holes = uncovered(box, cells); !holes.empty())
      return info.op().emitOpError()
             << "does not deliver " << text(holes.front()) << " to device "
             << device;
  return success();
}

/// What is zeroed on a device is the padding of its destination shards.
LogicalResult FlowChecker::checkPadding(int64_t device) {
  const Arrivals &pieces = zeros[device];
  if (failed(refuseTwice(pieces, "zeroes", " of device ", device)))
    return failure();
  std::vector<Cell> cells = toCells(pieces);
  std::vector<Cell> target = toCells(padded[device]);
  if (sharedVolume(cells, target) != volumeOf(cells))
    return pieces.front().op->emitOpError()
           << "zeroes elements of device " << device
           << " that are no padding of its destination layout";
  for (const Box &box : padded[device])
    if (std::vector<Box> holes = uncovered(box, cells); !holes.empty())
      return info.op().emitOpError()
             << "does not zero the padding " << text(holes.front())
             << " of device " << device;
  return success();
}

LogicalResult FlowChecker::checkReleases(int64_t device) {
  for (const Release &release : releases[device])
    if (!source.find(flow, device, release.box))
      return release.op->emitOpError()
             << "releases " << text(release.box) << " on device " << device
             << ", which does not hold it at the source";
  return success();
}

LogicalResult FlowChecker::checkNotReleased(const Arrival &piece) {
  auto it = releases.find(piece.from);
  if (it == releases.end())
    return success();
  for (const Release &release : it->second) {
    if (release.after >= piece.time || !overlaps(release.box, piece.box))
      continue;
    InFlightDiagnostic error = piece.op->emitOpError()
                               << "reads " << text(piece.box) << " from device "
                               << piece.from << " after its release";
    error.attachNote(release.op->getLoc())
        << "it is released after wave " << release.after;
    return failure();
  }
  return success();
}

/// Forwards read what has arrived at `device` before.
LogicalResult FlowChecker::checkForwards(int64_t device,
                                         const Forwards &forwards) {
  std::vector<Cell> read;
  for (const Arrival *piece : forwards)
    read.push_back({piece->box, 0});
  const Arrivals &arrived = arrivals[device];
  std::vector<std::vector<Cell>> held(forwards.size());
  for (const CellPair &pair : join(read, toCells(arrived)))
    if (arrived[pair.right].time < forwards[pair.left]->time)
      held[pair.left].push_back({pair.box, 0});
  for (size_t i = 0; i < forwards.size(); ++i)
    if (forwards[i]->time <= 0 || !uncovered(forwards[i]->box, held[i]).empty())
      return forwards[i]->op->emitOpError()
             << "reads " << text(forwards[i]->box) << " from device " << device
             << ", which does not hold it";
  return success();
}

LogicalResult FlowChecker::checkMade(const Arrival &piece) {
  if (made.find(flow, piece.from, piece.box))
    return success();
  return piece.op->emitOpError()
         << "makes " << text(piece.box) << " on device " << piece.from
         << ", which does not get the state that it is made from";
}

/// Held at the source and not released yet, or arrived earlier, or made there.
LogicalResult FlowChecker::checkReads() {
  std::map<int64_t, Forwards> forwards;
  for (const auto &[device, pieces] : arrivals)
    for (const Arrival &piece : pieces) {
      if (piece.time == kMadeTime) {
        if (failed(checkMade(piece)))
          return failure();
      } else if (!source.find(flow, piece.from, piece.box))
        forwards[piece.from].push_back(&piece);
      else if (failed(checkNotReleased(piece)))
        return failure();
    }
  for (const auto &[device, pieces] : forwards)
    if (failed(checkForwards(device, pieces)))
      return failure();
  return success();
}

LogicalResult FlowChecker::check() {
  for (const auto &[device, pieces] : arrivals)
    if (failed(checkDelivered(device)))
      return failure();
  for (const auto &[device, boxes] : padded)
    zeros[device];
  for (const auto &[device, pieces] : zeros)
    if (failed(checkPadding(device)))
      return failure();
  for (const auto &[device, pieces] : releases)
    if (failed(checkReleases(device)))
      return failure();
  return checkReads();
}

} // namespace dt
