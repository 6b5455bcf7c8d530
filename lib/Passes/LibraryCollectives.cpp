//===- LibraryCollectives.cpp - Collectives as calls of a library ---------===//

#include "LibraryCollectives.h"

#include "dt/Dialect/Collectives.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <set>

using namespace mlir;

namespace dt {

namespace {

using dtrt::CollectiveChoice;
using dtrt::CollectiveKind;

/// A call has to save this part of the time.
constexpr double kMargin = 0.02;
/// Blocks may be this much larger than what is in them, on average.
constexpr int64_t kMostPadding = 2;

/// Elements of one group with the same holders, that the same members lack.
struct Share {
  std::vector<int64_t> holders, lacking; // members, ascending
  std::vector<int64_t> all;              // devices that hold it
  Box box;
};

struct SharingGroup {
  std::vector<int64_t> members; // ascending
  std::vector<Share> shares;
};

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// The groups of an op, with what each of their members lacks.
std::vector<SharingGroup> groupsOf(CollectiveOp op, const Flow &flow) {
  std::map<int64_t, int64_t> groupOf;
  std::vector<SharingGroup> groups;
  op.getMembers().forEach([&](ArrayRef<int64_t> row) {
    auto number = size_t(row[CollectiveOp::kGroup]);
    groups.resize(std::max(groups.size(), number + 1));
    groups[number].members.push_back(row[CollectiveOp::kMember]);
    groupOf[row[CollectiveOp::kMember]] = int64_t(number);
  });
  for (SharingGroup &group : groups)
    llvm::sort(group.members);
  for (const CellPair &pair : join(flow.source.cells, flow.destination.cells)) {
    const auto &holders =
        flow.source.ownerSets[flow.source.cells[pair.left].owners];
    const auto &wanters =
        flow.destination.ownerSets[flow.destination.cells[pair.right].owners];
    std::map<int64_t, Share> shares; // by group
    for (int64_t device : wanters)
      if (!std::binary_search(holders.begin(), holders.end(), device))
        if (auto at = groupOf.find(device); at != groupOf.end())
          shares[at->second].lacking.push_back(device);
    for (auto &[number, share] : shares) {
      SharingGroup &group = groups[size_t(number)];
      std::set_intersection(holders.begin(), holders.end(),
                            group.members.begin(), group.members.end(),
                            std::back_inserter(share.holders));
      llvm::sort(share.lacking);
      share.all.assign(holders.begin(), holders.end());
      share.box = pair.box;
      group.shares.push_back(std::move(share));
    }
  }
  return groups;
}

/// Makes the calls of one group, or says why there is none.
class CallMaker {
public:
  CallMaker(const SharingGroup &group, uint32_t flow, int64_t width,
            const Cluster &cluster)
      : group(group), flow(flow), width(width), cluster(cluster) {}

  bool run(CollectiveKind kind);
  std::vector<LibraryCall> calls;
  std::string why;

private:
  bool fail(const char *reason) {
    why = reason;
    return false;
  }
  bool broadcast();
  bool allGather();
  bool allToAll();
  void give(LibraryCall &call, int64_t from, const Share &share) {
    for (int64_t to : share.lacking) {
      call.moves.push_back({flow, /*hop=*/0, from, to, share.box});
      crosses |= !cluster.sameNode(from, to) &&
                 llvm::any_of(share.all, [&](int64_t holder) {
                   return cluster.sameNode(holder, to);
                 });
    }
  }
  int64_t bytesOf(const Share &share) const {
    return share.box.volume() * width;
  }

  const SharingGroup &group;
  uint32_t flow;
  int64_t width; // bytes per element
  const Cluster &cluster;
  bool crosses = false; // to a node that has it
};

/// From the first device that holds all of it.
bool CallMaker::broadcast() {
  std::vector<int64_t> roots = group.shares.front().holders;
  for (const Share &share : group.shares) {
    std::vector<int64_t> common;
    std::set_intersection(roots.begin(), roots.end(), share.holders.begin(),
                          share.holders.end(), std::back_inserter(common));
    roots = std::move(common);
    if (share.lacking != group.shares.front().lacking)
      return fail("some members lack what others hold");
  }
  if (roots.empty())
    return fail("no member holds all of it");
  LibraryCall &call = calls.emplace_back();
  call.kind = CollectiveKind::Broadcast;
  call.root = roots.front();
  call.members = group.shares.front().lacking;
  call.members.insert(llvm::upper_bound(call.members, call.root), call.root);
  for (const Share &share : group.shares)
    give(call, call.root, share);
  return true;
}

/// Parts of much different size are broadcast by who has them.
bool CallMaker::allGather() {
  std::map<int64_t, int64_t> bytes;
  for (const Share &share : group.shares) {
    if (share.holders.size() != 1 ||
        share.lacking.size() + 1 != group.members.size())
      return fail("some parts are held by several members");
    bytes[share.holders.front()] += bytesOf(share);
  }
  int64_t most = 0, all = 0;
  for (auto [device, own] : bytes) {
    most = std::max(most, own);
    all += own;
  }
  bool isEven = most * int64_t(group.members.size()) <= kMostPadding * all;
  std::map<int64_t, size_t> callOf; // by root
  for (const Share &share : group.shares) {
    int64_t root = isEven ? -1 : share.holders.front();
    auto [at, isNew] = callOf.try_emplace(root, calls.size());
    if (isNew)
      calls.push_back(
          {isEven ? CollectiveKind::AllGather : CollectiveKind::Broadcast,
           group.members,
           root,
           {}});
    give(calls[at->second], share.holders.front(), share);
  }
  return true;
}

/// Each part from a holder of its node, if there is one, that has given least.
bool CallMaker::allToAll() {
  LibraryCall &call = calls.emplace_back();
  call.kind = CollectiveKind::AllToAll;
  call.members = group.members;
  std::map<int64_t, int64_t> given;
  std::map<std::pair<int64_t, int64_t>, int64_t> pairs;
  int64_t most = 0, all = 0;
  for (const Share &share : group.shares) {
    if (share.lacking.size() != 1 || share.holders.empty())
      return fail("several members lack the same part");
    auto cost = [&](int64_t holder) {
      return std::make_pair(!cluster.sameNode(holder, share.lacking.front()),
                            given[holder]);
    };
    int64_t from = *llvm::min_element(
        share.holders, [&](int64_t a, int64_t b) { return cost(a) < cost(b); });
    given[from] += bytesOf(share);
    int64_t &own = pairs[{from, share.lacking.front()}];
    own += bytesOf(share);
    most = std::max(most, own);
    all += bytesOf(share);
    give(call, from, share);
  }
  auto members = int64_t(group.members.size());
  if (most > kMostPadding * all / (members * (members - 1)))
    return fail("its parts differ too much in size for blocks of one");
  return true;
}

bool CallMaker::run(CollectiveKind kind) {
  if (group.shares.empty())
    return fail("a group lacks nothing");
  bool isMade = kind == CollectiveKind::Broadcast   ? broadcast()
                : kind == CollectiveKind::AllGather ? allGather()
                                                    : allToAll();
  if (isMade && crosses)
    return fail("some parts would cross the network to nodes that hold them");
  return isMade;
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

/// Bytes of a call, by pair.
struct CallBytes {
  explicit CallBytes(const LibraryCall &call, int64_t width) {
    std::map<std::pair<int64_t, int64_t>, int64_t> pairs;
    for (const Move &move : call.moves)
      pairs[{move.source, move.destination}] += move.box.volume() * width;
    std::map<int64_t, int64_t> got, given, peers;
    for (auto [pair, bytes] : pairs) {
      block = std::max(block, bytes);
      mostGot = std::max(mostGot, got[pair.second] += bytes);
      mostGiven = std::max(mostGiven, given[pair.first] += bytes);
      mostPeers =
          std::max({mostPeers, ++peers[pair.first], ++peers[-1 - pair.second]});
    }
  }
  int64_t block = 0, mostGot = 0, mostGiven = 0, mostPeers = 0;
};

void addCosts(const LibraryCall &call, int64_t width, const Cluster &cluster,
              double &library, double &messages) {
  CallBytes bytes(call, width);
  auto members = int64_t(call.members.size());
  bool isInter = !cluster.sameNode(call.members.front(), call.members.back());
  double rate = cluster.bytesPerSecond(isInter);
  double launch = cluster.launchUs * 1e-6;
  double step = cluster.latencySeconds(), wave = step + launch;
  auto others = double(members - 1);
  double blocks = call.kind == CollectiveKind::Broadcast ? 1 : others;
  library += blocks * double(bytes.block) / rate + others * step + launch;
  double got = double(bytes.mostGot) / rate;
  switch (call.kind) {
  case CollectiveKind::Broadcast:
    messages += std::min(got + others * wave,
                         std::ceil(std::log2(double(members))) * (got + wave));
    break;
  case CollectiveKind::AllGather:
    messages += got + others * wave;
    break;
  case CollectiveKind::AllToAll:
    messages += std::max(got, double(bytes.mostGiven) / rate) +
                double(bytes.mostPeers) * wave;
    break;
  }
}

LibraryChoice noCalls(const Twine &reason) {
  LibraryChoice out;
  out.reason = reason.str();
  return out;
}

} // namespace

bool mayUseLibrary(const TransitionInfo &info) {
  CollectiveChoice choice = info.cluster.collectives;
  return !info.isFlat() &&
         (choice == CollectiveChoice::Library ||
          (choice == CollectiveChoice::Auto && info.cluster.launchUs > 0));
}

LibraryChoice chooseLibrary(CollectiveOp op, const TransitionInfo &info,
                            uint32_t number, const Flow &flow) {
  auto kind = callKindOf(op.getKind());
  if (!kind)
    return noCalls("no library call does this");
  if (info.isFlat())
    return noCalls("flat memory has messages alone");
  if (info.cluster.collectives == CollectiveChoice::Messages)
    return noCalls("the cluster asks for messages");
  LibraryChoice out;
  for (const SharingGroup &group : groupsOf(op, flow)) {
    CallMaker maker(group, number, flow.bytesPerElement, info.cluster);
    if (!maker.run(*kind))
      return noCalls(maker.why);
    double library = 0, messages = 0;
    for (LibraryCall &call : maker.calls) {
      addCosts(call, flow.bytesPerElement, info.cluster, library, messages);
      out.calls.push_back(std::move(call));
    }
    out.librarySeconds = std::max(out.librarySeconds, library);
    out.messagesSeconds = std::max(out.messagesSeconds, messages);
  }
  if (info.cluster.collectives == CollectiveChoice::Library) {
    out.reason = "the cluster asks for a library";
    return out;
  }
  bool isFaster = out.librarySeconds < (1 - kMargin) * out.messagesSeconds;
  out.reason =
      isFaster ? "it is at least 2 % faster" : "a library is not 2 % faster";
  if (!isFaster)
    out.calls.clear();
  return out;
}

std::string explanation(CollectiveOp op, const LibraryChoice &choice) {
  std::string text = llvm::formatv(
      "{0} of @{1}: {2}", keywordOf(op.getKind()), op.getParamAttr().getValue(),
      choice.calls.empty() ? "messages" : "a library's call");
  text += ", " + choice.reason;
  if (choice.librarySeconds > 0)
    text += llvm::formatv(" (call {0:F3} ms, messages {1:F3} ms)",
                          choice.librarySeconds * 1e3,
                          choice.messagesSeconds * 1e3);
  return text;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

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
                     from.getStatesAttr(), PiecesAttr::get(context, set, rank),
                     /*hop=*/0);
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
