//===- TransportOps.cpp - What waves and their ops must satisfy -----------===//

#include "PieceChecks.h"

#include "dt/Geometry/Limits.h"

using namespace mlir;

namespace dt {

LogicalResult WaveOp::verify() {
  if (failed(verifyWave(*this, "a number", getNumber(), /*least=*/0)))
    return failure();
  RowsAttr slots = getSlotsAttr();
  if (!slots)
    return success();
  if (slots.getNumColumns() != kNumSlotColumns)
    return emitOpError() << "has slots of " << slots.getNumColumns()
                         << " columns, expected " << kNumSlotColumns
                         << ": device, peer, receive, offset, bytes";
  Row lo, hi;
  if (!slots.bounds(lo, hi))
    return success();
  if (lo[kDevice] < 0 || lo[kPeer] < 0)
    return emitOpError() << "expected devices from 0 in its slots, found "
                         << std::min(lo[kDevice], lo[kPeer]);
  if (hi[kDevice] > kMaxDevice || hi[kPeer] > kMaxDevice)
    return emitOpError() << "expected devices up to " << kMaxDevice
                         << " in its slots, found "
                         << std::max(hi[kDevice], hi[kPeer]);
  if (lo[kReceive] < 0 || hi[kReceive] > 1)
    return emitOpError("expected 0 or 1 in column 'receive' of its slots");
  if (lo[kSlotOffset] < -1)
    return emitOpError() << "expected slot offsets from 0, or -1 for none, "
                         << "found " << lo[kSlotOffset];
  if (lo[kBytes] < 1)
    return emitOpError() << "expected slots of at least 1 byte, found "
                         << lo[kBytes];
  if (hi[kSlotOffset] > kMaxBytes || hi[kBytes] > kMaxBytes)
    return emitOpError() << "expected slot offsets and bytes up to "
                         << kMaxBytes << ", found "
                         << std::max(hi[kSlotOffset], hi[kBytes]);
  return success();
}

LogicalResult WaveOp::verifyRegions() {
  for (Operation &op : getBody().front())
    if (!isa<SendrecvOp, CollectiveOp>(op))
      return op.emitOpError(
          "cannot stand in a wave, expected dt.sendrecv or dt.collective");
  return success();
}

LogicalResult SendrecvOp::verify() { return verifyRemote(*this, getPieces()); }

static LogicalResult verifyGroup(CollectiveOp op) {
  ArrayRef<int64_t> devices = op.getDevices();
  if (devices.empty() == !op.getAxesAttr())
    return op.emitOpError("expected a group: either 'among' or 'over'");
  SmallVector<int64_t> sorted(devices);
  llvm::sort(sorted);
  auto *twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    return op.emitOpError() << "lists device " << *twice << " twice";
  if (devices.empty())
    return success();
  for (unsigned column : {PiecesAttr::kFrom, PiecesAttr::kTo})
    for (int64_t device : op.getPieces().getRows().distinct(column))
      if (!std::binary_search(sorted.begin(), sorted.end(), device))
        return op.emitOpError() << "moves pieces of device " << device
                                << ", which is not in its group";
  return success();
}

LogicalResult CollectiveOp::verify() {
  if (failed(verifyGroup(*this)))
    return failure();
  bool rooted = getKind() == CollectiveKind::Broadcast ||
                getKind() == CollectiveKind::Scatter;
  if (!rooted && getRoot() != -1)
    return emitOpError() << "has root " << getRoot()
                         << ", which only broadcast and scatter have";
  if (rooted && !getDevices().empty() &&
      !llvm::is_contained(getDevices(), getRoot()))
    return emitOpError() << "expected its root in its group, found "
                         << getRoot();
  return success();
}

LogicalResult ReleaseOp::verify() {
  if (getAfter() < -1)
    return emitOpError() << "expected a wave from 0, or -1 for before all, "
                         << "found " << getAfter();
  if (failed(verifyWave(*this, "a wave", getAfter(), /*least=*/-1)))
    return failure();
  return verifyLocal(*this, getPieces());
}

} // namespace dt
