//===- Collectives.cpp - What collectives must satisfy --------------------===//
//
// The body is read class by class: what matters are the pairs of devices that
// a class names, and how many elements go between them. Whether the elements
// are those that the kind speaks of is a fact of both layouts, which
// --dt-verify-routing checks of the transfers themselves.
//
//===----------------------------------------------------------------------===//

#include "dt/Dialect/Collectives.h"

#include "PieceChecks.h"

#include "dt/Geometry/Limits.h"

#include <set>

using namespace mlir;

namespace dt {

StringRef keywordOf(Pattern pattern) {
  switch (pattern) {
  case Pattern::Send:
    return "send";
  case Pattern::Scatter:
    return "scatter";
  case Pattern::Gather:
    return "gather";
  case Pattern::AllToAll:
    return "all_to_all";
  case Pattern::Broadcast:
    return "broadcast";
  case Pattern::AllGather:
    return "all_gather";
  }
  llvm_unreachable("a kind of collective");
}

std::optional<Pattern> patternOf(StringRef keyword) {
  for (Pattern pattern : {Pattern::Scatter, Pattern::Gather, Pattern::AllToAll,
                          Pattern::Broadcast, Pattern::AllGather})
    if (keyword == keywordOf(pattern))
      return pattern;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Calls of a library
//===----------------------------------------------------------------------===//

std::optional<dtrt::CollectiveKind> callKindOf(Pattern pattern) {
  switch (pattern) {
  case Pattern::Broadcast:
    return dtrt::CollectiveKind::Broadcast;
  case Pattern::AllGather:
    return dtrt::CollectiveKind::AllGather;
  case Pattern::AllToAll:
    return dtrt::CollectiveKind::AllToAll;
  default:
    return std::nullopt;
  }
}

Pattern patternOf(dtrt::CollectiveKind kind) {
  switch (kind) {
  case dtrt::CollectiveKind::Broadcast:
    return Pattern::Broadcast;
  case dtrt::CollectiveKind::AllGather:
    return Pattern::AllGather;
  case dtrt::CollectiveKind::AllToAll:
    return Pattern::AllToAll;
  }
  llvm_unreachable("a call of a library");
}

LogicalResult verifyCall(llvm::function_ref<InFlightDiagnostic()> emitError,
                         Pattern kind, ArrayRef<int64_t> members,
                         int64_t root) {
  if (!callKindOf(kind))
    return emitError() << "is a " << keywordOf(kind)
                       << ", expected a broadcast, an all_gather or an "
                          "all_to_all";
  if (members.size() < 2)
    return emitError() << "has " << members.size()
                       << " members, expected two or more";
  if (members.front() < 0 || members.back() > kMaxDevice)
    return emitError() << "has members from " << members.front() << " to "
                       << members.back() << ", expected 0 to " << kMaxDevice;
  for (size_t i = 1; i < members.size(); ++i)
    if (members[i] <= members[i - 1])
      return emitError() << "has member " << members[i] << " after "
                         << members[i - 1] << ", expected ascending ones";
  bool isRooted = kind == Pattern::Broadcast;
  if (isRooted ? !llvm::is_contained(members, root) : root != -1)
    return emitError() << "is from " << root
                       << (isRooted ? ", expected a member"
                                    : ", which only a broadcast is");
  return success();
}

//===----------------------------------------------------------------------===//
// Traffic of pieces
//===----------------------------------------------------------------------===//

namespace {
/// Ranges of a class of pieces: those that lead to other devices are walked,
/// the others only counted.
class TrafficReader {
public:
  TrafficReader(const RowClass &rowClass, unsigned rank, PairFn fn)
      : rowClass(rowClass), rank(rank), fn(fn), row(rowClass.base) {
    for (auto [r, stride] : llvm::enumerate(rowClass.strides)) {
      bool leads =
          stride[PiecesAttr::kFrom] != 0 || stride[PiecesAttr::kTo] != 0;
      bool resizes = false;
      for (unsigned d = 0; d < rank; ++d)
        resizes |= stride[PiecesAttr::kOffset + rank + d] != 0;
      if (leads || resizes)
        walked.push_back(r);
      else
        alike *= rowClass.counts[r];
    }
  }

  void run(size_t next = 0) {
    if (next == walked.size()) {
      int64_t elements = alike;
      for (unsigned d = 0; d < rank; ++d)
        elements *= row[PiecesAttr::kOffset + rank + d];
      return fn(row[PiecesAttr::kFrom], row[PiecesAttr::kTo], elements);
    }
    const Row &stride = rowClass.strides[walked[next]];
    int64_t count = rowClass.counts[walked[next]];
    for (int64_t i = 0; i < count; ++i) {
      run(next + 1);
      for (size_t c = 0; c < row.size(); ++c)
        row[c] += stride[c];
    }
    for (size_t c = 0; c < row.size(); ++c)
      row[c] -= stride[c] * count;
  }

private:
  const RowClass &rowClass;
  unsigned rank;
  PairFn fn;
  Row row;
  SmallVector<size_t> walked;
  int64_t alike = 1; // pieces that one walked row stands for
};
} // namespace

void forEachPair(const RowClass &rowClass, unsigned rank, PairFn fn) {
  TrafficReader(rowClass, rank, fn).run();
}

void forEachPair(PiecesAttr pieces, PairFn fn) {
  unsigned rank = pieces.getRank();
  RowsAttr rows = pieces.getRows();
  for (const RowClass &rowClass : rows.decodeClasses())
    forEachPair(rowClass, rank, fn);
  ArrayRef<int64_t> table = rows.getTable();
  for (size_t at = 0; at < table.size(); at += rows.getNumColumns()) {
    ArrayRef<int64_t> row = table.slice(at, rows.getNumColumns());
    int64_t elements = 1;
    for (unsigned d = 0; d < rank; ++d)
      elements *= row[pieces.sizeColumn() + d];
    fn(row[PiecesAttr::kFrom], row[PiecesAttr::kTo], elements);
  }
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

void GroupTraffic::add(int64_t from, int64_t to, int64_t elements,
                       int64_t hop) {
  received[to] += elements;
  pairs[{from, to}] += elements;
  if (hop > 0)
    return;
  first[from] += elements;
}

static bool areEqual(const std::map<int64_t, int64_t> &counts) {
  return llvm::all_of(counts, [&](const auto &entry) {
    return entry.second == counts.begin()->second;
  });
}

bool GroupTraffic::isUneven(Pattern kind) const {
  switch (kind) {
  case Pattern::Gather:
    return !areEqual(first);
  case Pattern::AllToAll:
    return llvm::any_of(pairs, [&](const auto &entry) {
      return entry.second != pairs.begin()->second;
    });
  default:
    return !areEqual(received);
  }
}

namespace {
/// The groups of a collective as its rows say, and what goes between members.
struct Groups {
  llvm::DenseMap<int64_t, int64_t> groupOf; // by member
  std::vector<std::set<int64_t>> members, roots;
  std::vector<GroupTraffic> traffic;
};
} // namespace

static LogicalResult
readRows(CollectiveOp op, RowsAttr rows, StringRef what,
         llvm::function_ref<LogicalResult(int64_t group, int64_t device)> fn) {
  if (rows.getNumColumns() != CollectiveOp::kNumMemberColumns)
    return op.emitOpError()
           << "has " << what << " of " << rows.getNumColumns()
           << " columns, expected " << CollectiveOp::kNumMemberColumns
           << ": group, device";
  Row lo, hi;
  if (!rows.bounds(lo, hi))
    return op.emitOpError() << "has no " << what << ", expected some";
  for (int64_t column : {CollectiveOp::kGroup, CollectiveOp::kMember})
    if (lo[column] < 0 || hi[column] > kMaxDevice)
      return op.emitOpError() << "expected groups and devices from 0 to "
                              << kMaxDevice << " in its " << what << ", found "
                              << (lo[column] < 0 ? lo[column] : hi[column]);
  LogicalResult result = success();
  rows.forEach([&](ArrayRef<int64_t> row) {
    if (succeeded(result))
      result = fn(row[CollectiveOp::kGroup], row[CollectiveOp::kMember]);
  });
  return result;
}

static LogicalResult readGroups(CollectiveOp op, Groups &groups) {
  std::map<int64_t, std::set<int64_t>> byNumber;
  if (failed(readRows(op, op.getMembers(), "members",
                      [&](int64_t group, int64_t device) -> LogicalResult {
                        if (!groups.groupOf.try_emplace(device, group).second)
                          return op.emitOpError()
                                 << "has device " << device
                                 << " as a member twice, expected once";
                        byNumber[group].insert(device);
                        return success();
                      })))
    return failure();
  for (auto &[number, members] : byNumber) {
    if (number != int64_t(groups.members.size()))
      return op.emitOpError()
             << "has a group " << number << " but none "
             << groups.members.size() << ", expected groups from 0 on";
    if (members.size() < 2)
      return op.emitOpError()
             << "has a group " << number << " of " << members.size()
             << " member, expected 2 or more";
    groups.members.push_back(std::move(members));
  }
  groups.traffic.resize(groups.members.size());
  groups.roots = groups.members;
  if (!op.getRootsAttr())
    return success();
  groups.roots.assign(groups.members.size(), {});
  return readRows(op, op.getRootsAttr(), "devices in 'from'",
                  [&](int64_t group, int64_t device) -> LogicalResult {
                    auto it = groups.groupOf.find(device);
                    if (it == groups.groupOf.end() || it->second != group)
                      return op.emitOpError()
                             << "is from device " << device << " of group "
                             << group << ", which is no member of it";
                    groups.roots[group].insert(device);
                    return success();
                  });
}

LogicalResult CollectiveOp::verify() {
  if (getTwoLevel() && getKind() != Pattern::Broadcast &&
      getKind() != Pattern::AllGather)
    return emitOpError() << "is a " << keywordOf(getKind())
                         << ", of which nothing is passed on: expected no "
                            "'two_level'";
  if (bool(getAxesAttr()) != bool(getMeshAttr()))
    return emitOpError("expected axes and a mesh, or neither");
  Groups groups;
  return readGroups(*this, groups);
}

//===----------------------------------------------------------------------===//
// The body
//===----------------------------------------------------------------------===//

/// What goes at one hop, between members of one group.
static LogicalResult addTraffic(TransferOp transfer, const HopPieces &part,
                                Groups &groups) {
  std::optional<std::pair<int64_t, int64_t>> stray;
  forEachPair(part.pieces, [&](int64_t from, int64_t to, int64_t elements) {
    auto a = groups.groupOf.find(from);
    auto b = groups.groupOf.find(to);
    bool isInside = a != groups.groupOf.end() && b != groups.groupOf.end() &&
                    a->second == b->second;
    if (!isInside)
      stray = stray.value_or(std::make_pair(from, to));
    else
      groups.traffic[a->second].add(from, to, elements, part.hop);
  });
  if (!stray)
    return success();
  return transfer.emitOpError()
         << "goes from device " << stray->first << " to " << stray->second
         << ", which are not members of one group";
}

/// Transfers of what the collective is of, between members of one group.
static LogicalResult readBody(CollectiveOp op, Groups &groups) {
  if (op.getBody().front().empty())
    return op.emitOpError("has no transfers, expected at least one");
  for (Operation &inner : op.getBody().front()) {
    auto transfer = dyn_cast<TransferOp>(inner);
    if (!transfer)
      return inner.emitOpError(
          "is not allowed in a collective, expected dt.transfer");
    if (transfer.getParamAttr() != op.getParamAttr() ||
        transfer.getStatesAttr() != op.getStatesAttr())
      return transfer.emitOpError()
             << "is of another param or other states than the collective "
                "around it, which is of "
             << op.getParamAttr();
    for (const HopPieces &part : transfer.byHop())
      if (failed(addTraffic(transfer, part, groups)))
        return failure();
  }
  return success();
}

/// Who sends and who receives in one group, as the kind says.
static LogicalResult verifyGroup(CollectiveOp op, const Groups &groups,
                                 size_t number) {
  const GroupTraffic &traffic = groups.traffic[number];
  const std::set<int64_t> &members = groups.members[number];
  const std::set<int64_t> &roots = groups.roots[number];
  auto fail = [&]() -> InFlightDiagnostic {
    return op.emitOpError() << "is a " << keywordOf(op.getKind())
                            << ", but in its group " << number << " ";
  };
  for (const auto &[device, elements] : traffic.first)
    if (!roots.count(device))
      return fail() << "device " << device
                    << " sends at hop 0 and is not in 'from'";
  for (int64_t root : roots)
    if (!traffic.first.count(root) && op.getKind() != Pattern::Broadcast)
      return fail() << "device " << root << " in 'from' sends nothing";
  for (int64_t device : members)
    if (!roots.count(device) && !traffic.received.count(device))
      return fail() << "device " << device << " neither has nor gets anything";
  bool isShared =
      op.getKind() == Pattern::Broadcast || op.getKind() == Pattern::AllGather;
  for (const auto &[pair, elements] : traffic.pairs)
    if (!isShared && !roots.count(pair.first))
      return fail() << "device " << pair.first << " passes on what it got";
  switch (op.getKind()) {
  case Pattern::Broadcast:
    for (int64_t root : roots)
      if (traffic.received.count(root))
        return fail() << "device " << root
                      << " in 'from' receives, expected that it has all";
    break;
  case Pattern::Scatter:
    if (roots.size() != 1 || traffic.received.count(*roots.begin()))
      return fail() << roots.size()
                    << " devices are in 'from', expected one, which receives "
                       "nothing";
    break;
  case Pattern::Gather:
    if (traffic.received.size() != 1)
      return fail() << traffic.received.size()
                    << " devices receive, expected one";
    break;
  case Pattern::AllGather:
    if (roots.size() < 2)
      return fail() << "one device is in 'from', expected 2 or more";
    break;
  case Pattern::AllToAll:
    for (int64_t root : roots)
      for (const auto &[device, elements] : traffic.received)
        if (device != root && !traffic.pairs.count({root, device}))
          return fail() << "device " << root << " sends nothing to device "
                        << device;
    break;
  case Pattern::Send:
    break;
  }
  return success();
}

LogicalResult CollectiveOp::verifyRegions() {
  Groups groups;
  if (failed(readGroups(*this, groups)) || failed(readBody(*this, groups)))
    return failure();
  bool isUneven = false, forwards = false;
  for (size_t number = 0; number < groups.members.size(); ++number) {
    if (failed(verifyGroup(*this, groups, number)))
      return failure();
    isUneven |= groups.traffic[number].isUneven(getKind());
  }
  for (auto transfer : getBody().front().getOps<TransferOp>())
    forwards |= transfer.lastHop() > 0;
  if (getLibrary() && forwards)
    return emitOpError("passes something on, which a library's does not");
  if (getTwoLevel() && !forwards)
    return emitOpError("passes nothing on, expected no 'two_level'");
  if (getKind() == Pattern::Broadcast && isUneven)
    return emitOpError("is a broadcast, but some devices get more than others");
  if (isUneven != getUneven())
    return emitOpError() << (isUneven ? "has parts of several sizes, expected "
                                      : "has parts of one size, expected no ")
                         << "'uneven'";
  return success();
}

LogicalResult CollectiveOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto param = findParam(*this, getParamAttr(), tables);
  if (failed(param))
    return failure();
  if (*param && failed(verifyStates(*this, getStatesAttr(), *param)))
    return failure();
  if (!getMeshAttr())
    return success();
  auto mesh = tables.lookupNearestSymbolFrom<MeshOp>(*this, getMeshAttr());
  if (!mesh)
    return emitOpError() << "is over axes of " << getMeshAttr()
                         << ", which is not a dt.mesh";
  for (auto name : getAxesAttr().getAsRange<StringAttr>())
    if (llvm::none_of(mesh.getMesh().getAxes(),
                      [&](const AxisEntry &axis) { return axis.name == name; }))
      return emitOpError() << "is over axis " << name << ", which mesh @"
                           << mesh.getSymName() << " does not have";
  return success();
}

} // namespace dt
