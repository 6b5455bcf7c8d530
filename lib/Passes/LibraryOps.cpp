//===- LibraryOps.cpp - A library's calls at the routing level ------------===//

#include "LibraryOps.h"

#include "dt/Dialect/Collectives.h"

#include <set>

using namespace mlir;

namespace dt {

using dtrt::CollectiveKind;

namespace {

/// Calls of one kind with other members each: one op.
struct OpCalls {
  std::vector<const LibraryCall *> calls;
  std::set<int64_t> members;
};

std::vector<OpCalls> dealOut(ArrayRef<LibraryCall> calls) {
  std::vector<OpCalls> out;
  for (const LibraryCall &call : calls) {
    auto isIn = [&](const OpCalls &op) {
      return llvm::any_of(call.members, [&](int64_t member) {
        return op.members.count(member) > 0;
      });
    };
    auto at = llvm::find_if(out, [&](const OpCalls &op) {
      return op.calls.front()->kind == call.kind && !isIn(op);
    });
    if (at == out.end())
      at = out.insert(at, OpCalls());
    at->calls.push_back(&call);
    at->members.insert(call.members.begin(), call.members.end());
  }
  return out;
}

void writeOp(CollectiveOp from, const OpCalls &own, OpBuilder &builder) {
  MLIRContext *context = builder.getContext();
  Pattern kind = patternOf(own.calls.front()->kind);
  std::vector<int64_t> members, roots, rows;
  bool isUneven = false, allGive = true;
  for (auto [number, call] : llvm::enumerate(own.calls)) {
    GroupTraffic traffic;
    for (const Move &move : call->moves) {
      traffic.add(move.source, move.destination, move.box.volume(), 0);
      appendRow(rows, move.source, move.destination, move.box);
    }
    isUneven |= traffic.isUneven(kind);
    for (int64_t member : call->members) {
      members.insert(members.end(), {int64_t(number), member});
      if (traffic.first.count(member))
        roots.insert(roots.end(), {int64_t(number), member});
      else
        allGive = false;
    }
  }
  auto rowsOf = [&](std::vector<int64_t> &table) {
    return RowsAttr::get(context,
                         compressRows(table, CollectiveOp::kNumMemberColumns));
  };
  auto flag = [&](bool isSet) {
    return isSet ? builder.getUnitAttr() : UnitAttr();
  };
  auto op = CollectiveOp::create(
      builder, from.getLoc(), kind, flag(isUneven), /*two_level=*/UnitAttr(),
      /*library=*/builder.getUnitAttr(), from.getParamAttr(),
      from.getStatesAttr(), from.getAxesAttr(), from.getMeshAttr(),
      rowsOf(members), allGive ? RowsAttr() : rowsOf(roots));
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&op.getBody());
  auto first = *from.getBody().front().getOps<TransferOp>().begin();
  unsigned rank = first.getPieces().getRank();
  RowSet set = compressRows(rows, PiecesAttr::numColumns(rank));
  TransferOp::create(builder, from.getLoc(), from.getParamAttr(),
                     from.getStatesAttr(),
                     HopPieces{0, PiecesAttr::get(context, set, rank)});
}

} // namespace

void writeLibraryOps(CollectiveOp from, ArrayRef<LibraryCall> calls,
                     OpBuilder &builder) {
  for (const OpCalls &own : dealOut(calls))
    writeOp(from, own, builder);
}

/// The calls of one op, by group.
static void readCalls(CollectiveOp op, uint32_t flow,
                      std::vector<LibraryCall> &out) {
  std::map<int64_t, LibraryCall> calls;
  std::map<int64_t, int64_t> groupOf;
  op.getMembers().forEach([&](ArrayRef<int64_t> row) {
    LibraryCall &call = calls[row[CollectiveOp::kGroup]];
    call.kind = *callKindOf(op.getKind());
    call.members.push_back(row[CollectiveOp::kMember]);
    groupOf[row[CollectiveOp::kMember]] = row[CollectiveOp::kGroup];
  });
  for (auto transfer : op.getBody().front().getOps<TransferOp>())
    transfer.getPieces().forEach([&](int64_t from, int64_t to, const Box &box) {
      LibraryCall &call = calls[groupOf[from]];
      if (call.kind == CollectiveKind::Broadcast)
        call.root = from;
      call.moves.push_back({flow, /*hop=*/0, from, to, box});
    });
  for (auto &[number, call] : calls) {
    llvm::sort(call.members);
    out.push_back(std::move(call));
  }
}

std::vector<LibraryCall> readLibraryCalls(const TransitionInfo &info) {
  std::vector<LibraryCall> out;
  for (auto op : info.op().getBody().front().getOps<CollectiveOp>()) {
    auto transfers = op.getBody().front().getOps<TransferOp>();
    if (!op.getLibrary() || transfers.empty())
      continue;
    if (auto flow = info.flowOf(*transfers.begin()))
      readCalls(op, *flow, out);
  }
  return out;
}

} // namespace dt
