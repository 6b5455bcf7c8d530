//===- TransportOps.cpp - What waves and their ops must satisfy -----------===//

#include "PieceChecks.h"

#include "dt/Dialect/Collectives.h"
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
    if (!isa<SendrecvOp, LibraryCollectiveOp>(op))
      return op.emitOpError("is not allowed in a wave, expected dt.sendrecv or "
                            "dt.library_collective");
  return success();
}

LogicalResult LibraryCollectiveOp::verify() {
  return verifyCall([&] { return emitOpError(); }, getKind(), getMembers(),
                    getRoot());
}

LogicalResult LibraryCollectiveOp::verifyRegions() {
  if (getBody().front().empty())
    return emitOpError("moves nothing, expected at least one dt.sendrecv");
  for (Operation &inner : getBody().front()) {
    auto op = dyn_cast<SendrecvOp>(inner);
    if (!op)
      return inner.emitOpError("is not allowed in a library's collective, "
                               "expected dt.sendrecv");
    if (op.getToRelay() || op.getFromRelay())
      return op.emitOpError("is relayed in a library's collective");
    std::optional<std::pair<int64_t, int64_t>> stray;
    forEachPair(op.getPieces(), [&](int64_t from, int64_t to, int64_t) {
      if (!llvm::is_contained(getMembers(), from) ||
          !llvm::is_contained(getMembers(), to))
        stray = stray.value_or(std::make_pair(from, to));
    });
    if (stray)
      return op.emitOpError()
             << "goes from device " << stray->first << " to " << stray->second
             << ", which are not both members";
  }
  return success();
}

LogicalResult SendrecvOp::verify() {
  if (getToRelay() && getFromRelay())
    return emitOpError("goes to a relay and on from one, expected either");
  return verifyRemote(*this, getPieces());
}

template <typename Op> static LogicalResult verifyStorage(Op op) {
  if (op.getShard() < 0 || op.getShard() > UINT32_MAX)
    return op.emitOpError() << "expected a shard from 0 to " << UINT32_MAX
                            << ", found " << op.getShard();
  return verifyLocal(op, op.getPieces());
}

LogicalResult CreateOp::verify() { return verifyStorage(*this); }
LogicalResult ReleaseOp::verify() { return verifyStorage(*this); }

} // namespace dt
