//===- FuseCollectives.cpp - Transfers that are collectives ---------------===//
//
// Per flow, devices that exchange any of it form groups. What the owners of
// both layouts say of a group, and how many elements go between its members,
// tell what it does:
//
//   elements          each goes to   and                           kind
//   of one device     one            there are several receivers   scatter
//   of several        one            there is one receiver         gather
//   of several        one            each sends to each receiver   all-to-all
//   that senders all  all            all others get all of them    broadcast
//   have
//   of several        all            all then have all of them     all-gather
//
// Groups of one flow that do the same side by side are one op. Its body are
// their transfers as they were, whole classes where these lie in one op.
//
//===----------------------------------------------------------------------===//

#include "LibraryChoice.h"
#include "dt/Dialect/Collectives.h"
#include "dt/Passes/Passes.h"

#include <set>

using namespace mlir;

namespace dt {
#define GEN_PASS_DEF_FUSECOLLECTIVES
#include "dt/Passes/Passes.h.inc"

namespace {

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

/// Devices that exchange data of one flow.
struct Group {
  std::set<int64_t> members;
  GroupTraffic traffic;
  bool passesOn = false;
  int64_t elements = 0;            // that travel, each once
  std::map<int64_t, int64_t> held; // of these, by member

  std::optional<Pattern> kind() const;
  bool isTwoLevel(const Cluster &cluster) const;

private:
  std::optional<Pattern> kindOfShared() const;
  std::optional<Pattern> kindOfUnshared() const;
  int64_t heldBy(int64_t device) const {
    auto it = held.find(device);
    return it == held.end() ? 0 : it->second;
  }
  int64_t receivedBy(int64_t device) const {
    auto it = traffic.received.find(device);
    return it == traffic.received.end() ? 0 : it->second;
  }
};

/// A group of two that sends one way is a transfer, and one that sends both
/// ways an exchange: neither is worth a name.
constexpr size_t kLeastMembers = 3;

std::optional<Pattern> Group::kindOfUnshared() const {
  if (members.size() < kLeastMembers)
    return std::nullopt;
  const auto &[received, first, pairs] = traffic;
  if (first.size() == 1)
    return Pattern::Scatter;
  if (received.size() == 1)
    return Pattern::Gather;
  for (const auto &[sender, sent] : first)
    for (const auto &[receiver, got] : received)
      if (sender != receiver && !pairs.count({sender, receiver}))
        return std::nullopt;
  return Pattern::AllToAll;
}

std::optional<Pattern> Group::kindOfShared() const {
  bool haveAll = llvm::all_of(members, [&](int64_t device) {
    return traffic.first.count(device) ? heldBy(device) == elements
                                       : receivedBy(device) == elements;
  });
  if (haveAll)
    return Pattern::Broadcast;
  bool getRest = llvm::all_of(members, [&](int64_t device) {
    return heldBy(device) + receivedBy(device) == elements;
  });
  if (getRest && traffic.first.size() > 1)
    return Pattern::AllGather;
  return std::nullopt;
}

std::optional<Pattern> Group::kind() const {
  int64_t received = 0;
  for (const auto &[device, count] : traffic.received)
    received += count;
  return received == elements ? kindOfUnshared() : kindOfShared();
}

bool Group::isTwoLevel(const Cluster &cluster) const {
  std::set<int64_t> nodes;
  for (int64_t device : members)
    nodes.insert(cluster.node(device));
  return passesOn && nodes.size() > 1 && nodes.size() < members.size();
}

/// Finds the groups of one flow.
class GroupFinder {
public:
  GroupFinder(ArrayRef<TransferOp> transfers) : transfers(transfers) {}

  /// By their least member. `flow` has cells.
  std::vector<Group> run(const Flow &flow);
  /// The group of a device that sends or receives.
  uint32_t numberOf(int64_t device) { return numbers.at(rootOf(device)); }

private:
  int64_t rootOf(int64_t device) {
    parent.try_emplace(device, device);
    while (parent[device] != device)
      device = parent[device] = parent[parent[device]];
    return device;
  }
  void addDemands(const Flow &flow, std::vector<Group> &groups);

  ArrayRef<TransferOp> transfers;
  std::map<int64_t, int64_t> parent; // the least of a group stands for it
  std::map<int64_t, uint32_t> numbers;
};

/// What travels of each class of elements with the same holders and wanters.
void GroupFinder::addDemands(const Flow &flow, std::vector<Group> &groups) {
  std::map<std::pair<uint32_t, uint32_t>, int64_t> volumes;
  for (const CellPair &pair : join(flow.source.cells, flow.destination.cells))
    volumes[{flow.source.cells[pair.left].owners,
             flow.destination.cells[pair.right].owners}] += pair.box.volume();
  for (auto [owners, volume] : volumes) {
    const auto &holders = flow.source.ownerSets[owners.first];
    const auto &wanters = flow.destination.ownerSets[owners.second];
    // Several groups may have it, each from holders of its own.
    std::set<uint32_t> getting;
    for (int64_t device : wanters)
      if (!std::binary_search(holders.begin(), holders.end(), device) &&
          parent.count(device))
        getting.insert(numberOf(device));
    for (uint32_t number : getting) {
      Group &group = groups[number];
      group.elements += volume;
      for (int64_t holder : holders)
        if (group.members.count(holder))
          group.held[holder] += volume;
    }
  }
}

std::vector<Group> GroupFinder::run(const Flow &flow) {
  for (TransferOp transfer : transfers)
    forEachPair(transfer.getPieces(), [&](int64_t from, int64_t to, int64_t) {
      int64_t a = rootOf(from), b = rootOf(to);
      parent[std::max(a, b)] = std::min(a, b);
    });
  for (const auto &[device, above] : parent)
    numbers.try_emplace(rootOf(device), numbers.size());
  std::vector<Group> groups(numbers.size());
  for (TransferOp transfer : transfers)
    for (const HopPieces &part : transfer.byHop())
      forEachPair(part.pieces, [&](int64_t from, int64_t to, int64_t elements) {
        Group &group = groups[numberOf(from)];
        group.members.insert({from, to});
        group.passesOn |= part.hop > 0;
        group.traffic.add(from, to, elements, part.hop);
      });
  addDemands(flow, groups);
  return groups;
}

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

/// Along which axes of a mesh the members of groups lie.
class AxesFinder {
public:
  explicit AxesFinder(MeshOp mesh) : axes(mesh.getMesh().getAxes()) {
    ArrayRef<int64_t> devices = mesh.getMesh().getDevices();
    for (const AxisEntry &axis : axes)
      size *= axis.size;
    for (auto [rank, device] : llvm::enumerate(devices))
      rankOf[device] = rank;
    isIota = devices.empty();
  }

  /// Names of axes such that each group is all ranks that differ in these
  /// alone; empty where there are none.
  SmallVector<Attribute> find(ArrayRef<const Group *> groups) const;

private:
  std::optional<SmallVector<int64_t>> coordinates(int64_t device) const;
  /// A bit for each axis on which members differ; nullopt where one is not in
  /// the mesh, or some in between are not members.
  std::optional<uint64_t> axesOf(const Group &group) const;

  ArrayRef<AxisEntry> axes;
  llvm::DenseMap<int64_t, int64_t> rankOf;
  int64_t size = 1;
  bool isIota = false;
};

std::optional<SmallVector<int64_t>>
AxesFinder::coordinates(int64_t device) const {
  int64_t rank = device;
  if (!isIota) {
    auto it = rankOf.find(device);
    if (it == rankOf.end())
      return std::nullopt;
    rank = it->second;
  }
  if (rank >= size)
    return std::nullopt;
  SmallVector<int64_t> out(axes.size());
  for (size_t i = axes.size(); i-- > 0; rank /= axes[i].size)
    out[i] = rank % axes[i].size;
  return out;
}

std::optional<uint64_t> AxesFinder::axesOf(const Group &group) const {
  constexpr size_t kMostAxes = 64;
  auto first = coordinates(*group.members.begin());
  if (!first || axes.size() > kMostAxes)
    return std::nullopt;
  uint64_t differ = 0;
  for (int64_t device : group.members) {
    auto own = coordinates(device);
    if (!own)
      return std::nullopt;
    for (size_t i = 0; i < axes.size(); ++i)
      differ |= uint64_t((*own)[i] != (*first)[i]) << i;
  }
  int64_t expected = 1;
  for (size_t i = 0; i < axes.size(); ++i)
    expected *= differ >> i & 1 ? axes[i].size : 1;
  if (expected != int64_t(group.members.size()))
    return std::nullopt;
  return differ;
}

SmallVector<Attribute> AxesFinder::find(ArrayRef<const Group *> groups) const {
  std::optional<uint64_t> common;
  for (const Group *group : groups) {
    std::optional<uint64_t> own = axesOf(*group);
    if (!own || (common && own != common))
      return {};
    common = own;
  }
  SmallVector<Attribute> out;
  for (size_t i = 0; common && i < axes.size(); ++i)
    if (*common >> i & 1)
      out.push_back(axes[i].name);
  return out;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// What groups must have in common to be one op.
using BucketKey = std::tuple<Pattern, bool, bool, size_t, size_t>;

/// The rows of a transfer, dealt out to collectives: whole classes where all of
/// their groups are in one.
class RowDealer {
public:
  /// `bucketOf` a sender; -1: none.
  RowDealer(PiecesAttr pieces, llvm::function_ref<int(int64_t)> bucketOf)
      : pieces(pieces), numColumns(pieces.getRows().getNumColumns()) {
    for (const RowClass &rowClass : pieces.getRows().decodeClasses())
      deal(rowClass, bucketOf);
    std::map<int, std::vector<int64_t>> singles;
    ArrayRef<int64_t> table = pieces.getRows().getTable();
    for (size_t at = 0; at < table.size(); at += numColumns) {
      ArrayRef<int64_t> row = table.slice(at, numColumns);
      llvm::append_range(singles[bucketOf(row[PiecesAttr::kFrom])], row);
    }
    for (auto &[bucket, rows] : singles)
      llvm::append_range(at(bucket).table, rows);
  }

  /// Null where a collective gets none.
  PiecesAttr of(int bucket) {
    auto it = dealt.find(bucket);
    if (it == dealt.end())
      return {};
    if (dealt.size() == 1)
      return pieces;
    return PiecesAttr::get(pieces.getContext(), it->second, pieces.getRank());
  }

private:
  RowSet &at(int bucket) {
    RowSet &out = dealt[bucket];
    out.numColumns = numColumns;
    return out;
  }
  void deal(const RowClass &rowClass,
            llvm::function_ref<int(int64_t)> bucketOf) {
    std::set<int> buckets;
    forEachPair(rowClass, pieces.getRank(),
                [&](int64_t from, int64_t, int64_t) {
                  buckets.insert(bucketOf(from));
                });
    if (buckets.size() == 1) {
      at(*buckets.begin()).classes.push_back(rowClass);
      return;
    }
    std::map<int, std::vector<int64_t>> rows;
    std::vector<int64_t> all = expandRows({numColumns, {rowClass}, {}});
    for (size_t i = 0; i < all.size(); i += numColumns)
      llvm::append_range(rows[bucketOf(all[i + PiecesAttr::kFrom])],
                         ArrayRef(all).slice(i, numColumns));
    for (auto &[bucket, own] : rows) {
      RowSet set = compressRows(own, numColumns);
      llvm::append_range(at(bucket).classes, set.classes);
      llvm::append_range(at(bucket).table, set.table);
    }
  }

  PiecesAttr pieces;
  unsigned numColumns;
  std::map<int, RowSet> dealt;
};

/// Rows of (group, device).
RowsAttr memberRows(MLIRContext *context, ArrayRef<const Group *> groups,
                    bool roots) {
  std::vector<int64_t> rows;
  for (auto [number, group] : llvm::enumerate(groups))
    for (int64_t device : group->members)
      if (!roots || group->traffic.first.count(device))
        rows.insert(rows.end(), {int64_t(number), device});
  return RowsAttr::get(context,
                       compressRows(rows, CollectiveOp::kNumMemberColumns));
}

/// Fuses the transfers of one flow.
class FlowFuser {
public:
  FlowFuser(const TransitionInfo &info, ArrayRef<TransferOp> transfers)
      : info(info), transfers(transfers), finder(transfers),
        builder(info.op().getContext()) {
    builder.setInsertionPointToEnd(&info.op().getBody().front());
  }

  /// Transfers stand in order at the end of the body when this is done.
  void run(const Flow &flow);
  int64_t numCollectives = 0, numGroups = 0, fused = 0, left = 0;

private:
  void fillBuckets(const Flow &flow);
  void addAxes(CollectiveOp op, ArrayRef<const Group *> groups);
  CollectiveOp makeOp(const BucketKey &key, ArrayRef<const Group *> groups);
  void dealOut(MutableArrayRef<CollectiveOp> ops);

  const TransitionInfo &info;
  ArrayRef<TransferOp> transfers; // by hop
  GroupFinder finder;
  OpBuilder builder;
  std::vector<Group> groups;
  std::vector<int> bucketOf; // per group; -1: none
  std::vector<std::pair<BucketKey, std::vector<const Group *>>> buckets;
};

/// Buckets come in the order of their first groups.
void FlowFuser::fillBuckets(const Flow &flow) {
  groups = finder.run(flow);
  bucketOf.assign(groups.size(), -1);
  std::map<BucketKey, int> known;
  for (auto [number, group] : llvm::enumerate(groups)) {
    std::optional<Pattern> kind = group.kind();
    if (!kind)
      continue;
    bool isShared = *kind == Pattern::Broadcast || *kind == Pattern::AllGather;
    BucketKey key = {*kind, group.traffic.isUneven(*kind),
                     isShared && group.isTwoLevel(info.cluster),
                     group.members.size(), group.traffic.first.size()};
    auto [it, isNew] = known.try_emplace(key, int(buckets.size()));
    if (isNew)
      buckets.push_back({key, {}});
    buckets[it->second].second.push_back(&group);
    bucketOf[number] = it->second;
  }
}

/// The mesh of the destination first: that is where the data goes.
void FlowFuser::addAxes(CollectiveOp op, ArrayRef<const Group *> groups) {
  SymbolTableCollection tables;
  for (LayoutOp layout : {info.destinationLayout(), info.sourceLayout()}) {
    if (!layout.getMeshes())
      continue;
    for (auto name : layout.getMeshesAttr().getAsRange<FlatSymbolRefAttr>()) {
      MeshOp mesh = layout.lookupMesh(tables, name);
      SmallVector<Attribute> axes = AxesFinder(mesh).find(groups);
      if (axes.empty())
        continue;
      op.setAxesAttr(builder.getArrayAttr(axes));
      op.setMeshAttr(name);
      return;
    }
  }
}

CollectiveOp FlowFuser::makeOp(const BucketKey &key,
                               ArrayRef<const Group *> groups) {
  auto [kind, isUneven, isTwoLevel, numMembers, numRoots] = key;
  TransferOp first = transfers.front();
  MLIRContext *context = builder.getContext();
  auto flag = [&](bool isSet) {
    return isSet ? builder.getUnitAttr() : UnitAttr();
  };
  RowsAttr roots;
  if (numRoots < numMembers)
    roots = memberRows(context, groups, /*roots=*/true);
  auto op = CollectiveOp::create(
      builder, info.op().getLoc(), kind, flag(isUneven), flag(isTwoLevel),
      /*library=*/UnitAttr(), first.getParamAttr(), first.getStatesAttr(),
      ArrayAttr(), FlatSymbolRefAttr(),
      memberRows(context, groups, /*roots=*/false), roots);
  op.getBody().emplaceBlock();
  addAxes(op, groups);
  return op;
}

/// Writes the rows of each transfer into the collectives of their groups. What
/// is left stays, behind them.
void FlowFuser::dealOut(MutableArrayRef<CollectiveOp> ops) {
  Block &body = info.op().getBody().front();
  for (TransferOp transfer : transfers) {
    std::vector<SmallVector<HopPieces>> parts(ops.size());
    SmallVector<HopPieces> rest;
    for (const HopPieces &part : transfer.byHop()) {
      RowDealer rows(part.pieces, [&](int64_t sender) {
        return bucketOf[finder.numberOf(sender)];
      });
      for (size_t bucket = 0; bucket < ops.size(); ++bucket)
        if (PiecesAttr pieces = rows.of(int(bucket))) {
          parts[bucket].push_back({part.hop, pieces});
          fused += pieces.numElements();
        }
      if (PiecesAttr pieces = rows.of(-1)) {
        rest.push_back({part.hop, pieces});
        left += pieces.numElements();
      }
    }
    for (auto [op, own] : llvm::zip_equal(ops, parts)) {
      if (own.empty())
        continue;
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToEnd(&op.getBody().front());
      TransferOp::create(builder, transfer.getLoc(), transfer.getParamAttr(),
                         transfer.getStatesAttr(), own);
    }
    if (rest.empty()) {
      transfer.erase();
      continue;
    }
    transfer.setByHop(rest);
    transfer->moveBefore(&body, body.end());
  }
}

void FlowFuser::run(const Flow &flow) {
  fillBuckets(flow);
  std::vector<CollectiveOp> ops;
  for (const auto &[key, own] : buckets) {
    ops.push_back(makeOp(key, own));
    numGroups += int64_t(own.size());
  }
  numCollectives += int64_t(ops.size());
  dealOut(ops);
}

struct FuseCollectivesPass : impl::FuseCollectivesBase<FuseCollectivesPass> {
  using FuseCollectivesBase::FuseCollectivesBase;

  LogicalResult fuse(const TransitionInfo &info) {
    std::vector<SmallVector<TransferOp>> byFlow(info.flows.size());
    for (auto transfer : info.op().getBody().front().getOps<TransferOp>()) {
      auto flow = info.flowOf(transfer);
      if (!flow)
        return transfer.emitOpError("names states that are not one flow, "
                                    "expected exactly those of one layout");
      byFlow[*flow].push_back(transfer);
    }
    auto cells = info.flowCells();
    if (failed(cells))
      return failure();
    for (auto [number, transfers] : llvm::enumerate(byFlow)) {
      if (transfers.empty())
        continue;
      llvm::stable_sort(transfers, [](TransferOp a, TransferOp b) {
        return a.byHop().front().hop < b.byHop().front().hop;
      });
      FlowFuser fuser(info, transfers);
      fuser.run((**cells)[number]);
      numCollectives += fuser.numCollectives;
      numGroups += fuser.numGroups;
      elementsFused += fuser.fused;
      elementsLeft += fuser.left;
    }
    return success();
  }

  void runOnOperation() override {
    bool leavesAll = true;
    if (failed(getAnalysis<TransitionAnalysis>().forEach(
            [&](const TransitionInfo &info) {
              if (forLibrary && !looksForCalls(info))
                return success();
              leavesAll = false;
              return fuse(info);
            })))
      return signalPassFailure();
    if (leavesAll)
      return markAllAnalysesPreserved();
    markAnalysesPreserved<TransitionAnalysis>();
  }
};

} // namespace
} // namespace dt
