//===- LibraryCalls.cpp - Which calls a collective is ---------------------===//

#include "LibraryCalls.h"

#include "dt/Dialect/Collectives.h"

using namespace mlir;

namespace dt {

namespace {

using dtrt::CollectiveKind;

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

} // namespace

LibraryCalls callsOf(CollectiveOp op, uint32_t number, const Flow &flow,
                     const Cluster &cluster) {
  auto kind = callKindOf(op.getKind());
  if (!kind)
    return {{}, "no library call does this"};
  LibraryCalls out;
  for (const SharingGroup &group : groupsOf(op, flow)) {
    CallMaker maker(group, number, flow.bytesPerElement, cluster);
    if (!maker.run(*kind))
      return {{}, maker.why};
    for (LibraryCall &call : maker.calls)
      out.calls.push_back(std::move(call));
  }
  return out;
}

} // namespace dt
