//===- Coverage.cpp - Every element once, from a holder -------------------===//

#include "Coverage.h"

#include "dt/Geometry/Overlaps.h"

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

/// Elements that both sets cover; the boxes of each are disjoint. Nullopt where
/// they meet in more parts than the limit.
std::optional<int64_t> sharedVolume(const std::vector<Cell> &a,
                                    const std::vector<Cell> &b) {
  WorkLimit limit(kMaxPieces);
  int64_t volume = 0;
  for (auto [i, j] : overlappingPairs(BoxList(a, &Cell::box),
                                      BoxList(b, &Cell::box), &limit))
    volume += intersect(a[i].box, b[j].box).volume();
  return limit.isExceeded() ? std::nullopt : std::optional<int64_t>(volume);
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
  auto twice = firstOverlap(toCells(pieces));
  if (!twice)
    return success();
  InFlightDiagnostic error = pieces[twice->right].op->emitOpError()
                             << verb << " " << text(twice->box) << where
                             << device << " a second time";
  error.attachNote(pieces[twice->left].op->getLoc())
      << "the first time is here";
  return failure();
}

LogicalResult FlowChecker::refuseTooMany(const Arrivals &pieces) {
  return pieces.front().op->emitOpError()
         << "meets the destination layout in more parts than the limit of "
         << kMaxPieces;
}

/// What arrives at a device is what its destination layout places there.
LogicalResult FlowChecker::checkDelivered(int64_t device) {
  const Arrivals &pieces = arrivals[device];
  if (failed(refuseTwice(pieces, "delivers", " to device ", device)))
    return failure();
  std::vector<Cell> cells = toCells(pieces);
  std::vector<Cell> target = toCells(wanted[device]);
  int64_t volume = volumeOf(cells);
  auto shared = sharedVolume(cells, target);
  if (!shared)
    return refuseTooMany(pieces);
  if (*shared != volume)
    return pieces.front().op->emitOpError()
           << "delivers elements to device " << device
           << " that its destination layout does not place there";
  if (volume == volumeOf(target))
    return success();
  if (auto hole = firstUncovered(target, cells))
    return TransitionOp(info.op).emitOpError()
           << "does not deliver " << text(*hole) << " to device " << device;
  return success();
}

/// What is zeroed on a device is the padding of its destination shards.
LogicalResult FlowChecker::checkPadding(int64_t device) {
  const Arrivals &pieces = zeros[device];
  if (failed(refuseTwice(pieces, "zeroes", " of device ", device)))
    return failure();
  std::vector<Cell> cells = toCells(pieces);
  std::vector<Cell> target = toCells(padded[device]);
  auto shared = sharedVolume(cells, target);
  if (!shared)
    return refuseTooMany(pieces);
  if (*shared != volumeOf(cells))
    return pieces.front().op->emitOpError()
           << "zeroes elements of device " << device
           << " that are no padding of its destination layout";
  if (auto hole = firstUncovered(target, cells))
    return TransitionOp(info.op).emitOpError()
           << "does not zero the padding " << text(*hole) << " of device "
           << device;
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

/// What is read from the source of `device` is there still.
LogicalResult FlowChecker::checkNotReleased(int64_t device,
                                            const Reads &reads) {
  auto it = releases.find(device);
  if (it == releases.end())
    return success();
  std::vector<Box> read;
  for (const Arrival *piece : reads)
    read.push_back(piece->box);
  WorkLimit limit(kMaxPieces);
  std::optional<IndexPair> late; // the first read
  for (IndexPair pair :
       overlappingPairs(read, BoxList(it->second, &Release::box), &limit))
    if (it->second[pair.second].after < reads[pair.first]->time)
      late = late ? std::min(*late, pair) : pair;
  if (limit.isExceeded())
    return it->second.front().op->emitOpError()
           << "releases more than the limit of " << kMaxPieces
           << " parts of what is read";
  if (!late)
    return success();
  const Arrival &piece = *reads[late->first];
  const Release &release = it->second[late->second];
  InFlightDiagnostic error = piece.op->emitOpError()
                             << "reads " << text(piece.box) << " from device "
                             << device << " after its release";
  error.attachNote(release.op->getLoc())
      << "it is released after wave " << release.after;
  return failure();
}

/// Forwards read what has arrived at `device` before.
LogicalResult FlowChecker::checkForwards(int64_t device,
                                         const Reads &forwards) {
  std::vector<Cell> read;
  for (const Arrival *piece : forwards)
    read.push_back({piece->box, 0});
  const Arrivals &arrived = arrivals[device];
  std::vector<std::vector<Cell>> held(forwards.size());
  WorkLimit limit(kMaxPieces);
  for (const CellPair &pair : join(read, toCells(arrived), &limit))
    if (arrived[pair.right].time < forwards[pair.left]->time)
      held[pair.left].push_back({pair.box, 0});
  if (limit.isExceeded())
    return forwards.front()->op->emitOpError()
           << "passes on more than the limit of " << kMaxPieces
           << " parts of what arrives";
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
  std::map<int64_t, Reads> forwards, reads;
  for (const auto &[device, pieces] : arrivals)
    for (const Arrival &piece : pieces) {
      if (piece.time == kMadeTime) {
        if (failed(checkMade(piece)))
          return failure();
      } else if (!source.findNumber(flow, piece.from, piece.box))
        forwards[piece.from].push_back(&piece);
      else
        reads[piece.from].push_back(&piece);
    }
  for (const auto &[device, pieces] : reads)
    if (failed(checkNotReleased(device, pieces)))
      return failure();
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
