//===- Certificate.cpp - Does a plan keep the rules? ----------------------===//

#include "dt/Proof/Certificate.h"

#include "FirstFault.h"
#include "dt/Geometry/Cells.h"
#include "dt/Geometry/Overlaps.h"
#include "dt/Proof/SlotUses.h"
#include "dtrt/types/DeviceIndex.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>
#include <unordered_map>

namespace dt {

namespace {

std::string described(const PlanFlow &flow, const Box &box) {
  return flow.name + toString(box);
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

/// Judges pieces against the shards of both sides.
class Places {
public:
  explicit Places(const std::vector<PlanFlow> &flows)
      : flows(flows), source(indexShards(flows, /*source=*/true)),
        destination(indexShards(flows, /*source=*/false)) {
    for (const PlanFlow &flow : flows)
      shapes.push_back(Box::whole(flow.shape));
  }

  /// Sets `atSource`, and the shards that hold the piece.
  MaybeFault place(PlanPiece &piece, PlanStep::Kind kind) const {
    bool isZero = kind == PlanStep::Kind::Zero;
    uint32_t flow = isZero ? piece.flow - uint32_t(flows.size()) : piece.flow;
    piece.toShard =
        destination.findNumber(flow, piece.to, piece.box).value_or(kUnplaced);
    bool isWanted = piece.toShard != kUnplaced ||
                    !piece.arrives(); // what a relay gets is for another device
    if (isZero) {
      piece.atSource = true;
      if (isWanted && !overlaps(piece.box, shapes[flow]))
        return std::nullopt;
      return Fault{piece.op, "zeroes " + described(flows[flow], piece.box) +
                                 " on device " + std::to_string(piece.to) +
                                 ", which is not padding there"};
    }
    piece.fromShard = kUnplaced;
    if (kind != PlanStep::Kind::Derive)
      piece.fromShard =
          source.findNumber(flow, piece.from, piece.box).value_or(kUnplaced);
    piece.atSource = piece.fromShard != kUnplaced;
    if (!isWanted || !shapes[flow].contains(piece.box))
      return Fault{piece.op, "delivers " + described(flows[flow], piece.box) +
                                 " to device " + std::to_string(piece.to) +
                                 ", which does not want it in one piece"};
    if (piece.relay == RelayHop::Out) // comes from a slot, see checkRelays
      piece.atSource = true;
    if (kind == PlanStep::Kind::Copy && !piece.atSource)
      return Fault{piece.op, "reads " + described(flows[flow], piece.box) +
                                 " on device " + std::to_string(piece.from) +
                                 ", which does not hold it"};
    if (kind == PlanStep::Kind::Derive && !flows[flow].derivedFrom)
      return Fault{piece.op, "makes " + described(flows[flow], piece.box) +
                                 ", which is made from no other state"};
    return std::nullopt;
  }

private:
  const std::vector<PlanFlow> &flows;
  ShardIndex source, destination;
  std::vector<Box> shapes;
};

} // namespace

Wanted wantedOf(const std::vector<PlanFlow> &flows) {
  Wanted out;
  std::vector<Box> boxes;
  auto add = [&](uint32_t flow, const Holding &holding) {
    int64_t volume = 0;
    for (const Box &box : boxes)
      volume += box.volume();
    for (int64_t device : holding.devices)
      out[{flow, device}] += volume;
  };
  auto numFlows = uint32_t(flows.size());
  for (uint32_t flow = 0; flow < numFlows; ++flow)
    for (const Holding &holding : *flows[flow].destination) {
      boxes.clear();
      appendRegions(holding.shard, flows[flow].shape, boxes);
      add(flow, holding);
      boxes = padding(holding.shard, flows[flow].shape);
      if (!boxes.empty())
        add(numFlows + flow, holding);
    }
  return out;
}

ShardIndex indexShards(const std::vector<PlanFlow> &flows, bool source) {
  ShardIndex out;
  for (uint32_t flow = 0; flow < flows.size(); ++flow)
    out.add(flow, source ? *flows[flow].source : *flows[flow].destination);
  return out;
}

MaybeFault placePieces(TransportPlan &plan, const ParallelFor &parallel) {
  Places places(plan.flows);
  // One step may have half of the pieces, so threads share pieces, not steps.
  std::vector<PlanStep::Kind> kinds(plan.pieces.size());
  for (const PlanStep &step : plan.steps)
    if (step.kind != PlanStep::Kind::Create &&
        step.kind != PlanStep::Kind::Release)
      std::fill(kinds.begin() + step.first, kinds.begin() + step.last,
                step.kind);
  return firstFault(plan.pieces.size(), parallel, [&](size_t i) {
    return places.place(plan.pieces[i], kinds[i]);
  });
}

//===----------------------------------------------------------------------===//
// Arrivals
//===----------------------------------------------------------------------===//

Arrivals::Arrivals(const std::vector<PlanPiece> &pieces,
                   const std::vector<PlanFlow> &flows, ParallelFor parallel,
                   const char *clock)
    : pieces(pieces), flows(flows), parallel(std::move(parallel)), clock(clock),
      order(pieces.size()) {
  // One flow after the other; pieces of a flow by their device, and those of a
  // device as they stand.
  std::vector<uint32_t> starts(1, 0); // by flow
  for (const PlanPiece &piece : pieces) {
    if (piece.flow + 2 > starts.size())
      starts.resize(piece.flow + 2, 0);
    starts[piece.flow + 1] += piece.arrives();
  }
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  order.resize(starts.back());
  std::vector<std::pair<int64_t, uint32_t>> keys(order.size()); // device
  std::vector<uint32_t> next = starts;
  for (uint32_t i = 0; i < pieces.size(); ++i)
    if (pieces[i].arrives())
      keys[next[pieces[i].flow]++] = {pieces[i].to, i};
  this->parallel(starts.size() - 1, [&](size_t flow) {
    std::sort(keys.begin() + starts[flow], keys.begin() + starts[flow + 1]);
  });
  for (uint32_t i = 0; i < order.size(); ++i)
    order[i] = keys[i].second;
  for (uint32_t flow = 0; flow + 1 < starts.size(); ++flow)
    for (uint32_t first = starts[flow]; first < starts[flow + 1];) {
      uint32_t last = first;
      while (last < starts[flow + 1] && keys[last].first == keys[first].first)
        ++last;
      groups.emplace_hint(groups.end(), Key{flow, keys[first].first},
                          Range{first, last});
      first = last;
    }
}

Arrivals::Range Arrivals::at(Key key) const {
  auto it = groups.find(key);
  return it == groups.end() ? Range() : it->second;
}

std::string Arrivals::nameOf(uint32_t flow) const {
  return flow < flows.size() ? flows[flow].name
                             : "padding of " + flows[flow - flows.size()].name;
}

Fault Arrivals::twice(const PlanPiece &first, const PlanPiece &second) const {
  bool isZero = second.flow >= flows.size();
  const PlanFlow &flow = flows[second.flow % flows.size()];
  return Fault{second.op,
               (isZero ? "zeroes " : "delivers ") +
                   described(flow, intersect(first.box, second.box)) +
                   (isZero ? " of device " : " to device ") +
                   std::to_string(second.to) + " a second time",
               first.op, "the first time is here"};
}

/// Names a region that a device wants and that nothing brings.
Fault Arrivals::hole(Key key) const {
  bool isZero = key.first >= flows.size();
  const PlanFlow &flow = flows[key.first % flows.size()];
  std::vector<Cell> arriving;
  Range range = at(key);
  for (uint32_t i = range.first; i < range.last; ++i)
    arriving.push_back({pieces[order[i]].box, 0});
  std::vector<Cell> open;
  for (const Holding &holding : *flow.destination)
    if (std::binary_search(holding.devices.begin(), holding.devices.end(),
                           key.second))
      for (const Box &box : isZero ? padding(holding.shard, flow.shape)
                                   : regions(holding.shard, flow.shape))
        open.push_back({box, 0});
  WorkLimit limit(kMaxPieces);
  Fault fault;
  if (auto found = firstUncovered(open, arriving, &limit))
    fault.text = (isZero ? "does not zero the padding " : "does not deliver ") +
                 described(flow, *found) +
                 (isZero ? " of device " : " to device ") +
                 std::to_string(key.second);
  return fault;
}

/// Cuts the pieces into runs that do not touch in `dim`, then each run in the
/// next dim. Pieces that are in one run in every dim are compared.
MaybeFault Arrivals::sweep(Items items, unsigned dim) const {
  if (items.size() < 2)
    return std::nullopt;
  if (dim == pieces[items[0]].box.rank()) {
    std::vector<Box> boxes;
    for (uint32_t item : items)
      boxes.push_back(pieces[item].box);
    auto pair = firstOverlap(boxes);
    if (!pair)
      return std::nullopt;
    return twice(pieces[items[pair->first]], pieces[items[pair->second]]);
  }
  std::vector<std::pair<int64_t, uint32_t>> starts; // with their items
  starts.reserve(items.size());
  for (uint32_t item : items)
    starts.emplace_back(pieces[item].box[dim].lo, item);
  std::sort(starts.begin(), starts.end());
  for (size_t i = 0; i < items.size(); ++i)
    items[i] = starts[i].second;
  size_t start = 0;
  int64_t reach = pieces[items[0]].box[dim].hi;
  for (size_t i = 1; i <= items.size(); ++i) {
    if (i < items.size() && starts[i].first < reach) {
      reach = std::max(reach, pieces[items[i]].box[dim].hi);
      continue;
    }
    if (i - start > 1)
      if (auto fault =
              sweep(Items(items.begin() + start, items.begin() + i), dim + 1))
        return fault;
    if (i < items.size())
      reach = pieces[items[i]].box[dim].hi;
    start = i;
  }
  return std::nullopt;
}

MaybeFault Arrivals::checkCoverage(const Wanted &wanted) const {
  std::vector<Range> ranges;
  for (const auto &[key, range] : groups)
    ranges.push_back(range);
  MaybeFault twice = firstFault(ranges.size(), parallel, [&](size_t i) {
    return sweep(
        Items(order.begin() + ranges[i].first, order.begin() + ranges[i].last),
        0);
  });
  if (twice)
    return twice;
  for (const auto &[key, volume] : wanted) {
    int64_t arriving = 0;
    Range range = at(key);
    for (uint32_t i = range.first; i < range.last; ++i)
      arriving += pieces[order[i]].box.volume();
    if (arriving != volume)
      return hole(key);
  }
  return std::nullopt;
}

/// Checks what one device sends on of one flow, of which `range` arrives there.
/// `fed` is not empty; the fault of the first piece that lacks something.
std::optional<std::pair<uint32_t, Fault>>
Arrivals::checkFed(Range range, const Items &fed) const {
  std::vector<Box> here, sent;
  for (uint32_t i = range.first; i < range.last; ++i)
    here.push_back(pieces[order[i]].box);
  std::vector<int64_t> missing;
  for (uint32_t i : fed) {
    sent.push_back(pieces[i].box);
    missing.push_back(sent.back().volume());
  }
  std::vector<uint32_t> late(fed.size(), Fault::kNoOp); // the first that is
  WorkLimit limit(kMaxPieces);
  for (auto [a, s] : overlappingPairs(here, sent, &limit)) {
    const PlanPiece &arrival = pieces[order[range.first + a]];
    if (arrival.step < pieces[fed[s]].step)
      missing[s] -= intersect(here[a], sent[s]).volume();
    else
      late[s] = std::min(late[s], arrival.op);
  }
  if (limit.isExceeded())
    return std::make_pair(
        fed[0],
        Fault{pieces[fed[0]].op, "forwards more than the limit of " +
                                     std::to_string(kMaxPieces) +
                                     " parts of what arrives on device " +
                                     std::to_string(pieces[fed[0]].from)});
  for (size_t s = 0; s < fed.size(); ++s)
    if (missing[s] > 0)
      return std::make_pair(fed[s], notFed(pieces[fed[s]], late[s]));
  return std::nullopt;
}

Fault Arrivals::notFed(const PlanPiece &piece, uint32_t late) const {
  const PlanFlow &flow = flows[piece.flow];
  if (piece.fedBy != piece.flow)
    return Fault{piece.op, "makes " + described(flow, piece.box) +
                               " on device " + std::to_string(piece.to) +
                               " from " + nameOf(piece.fedBy) +
                               ", which does not arrive there"};
  std::string text = "sends " + described(flow, piece.box) + " from device " +
                     std::to_string(piece.from);
  if (late == Fault::kNoOp)
    return Fault{piece.op, text + ", which does not hold it"};
  return Fault{piece.op,
               text + " in " + clock + " " + std::to_string(piece.wave) +
                   ", before it holds it",
               late, "it arrives here"};
}

/// Pieces by what feeds them, so that each thread looks into its own lists.
MaybeFault Arrivals::checkFeeding() const {
  std::map<Key, Items> fed;
  auto last = fed.end(); // most pieces have the feeder of the one before
  for (uint32_t i = 0; i < pieces.size(); ++i) {
    Key key(pieces[i].fedBy, pieces[i].from);
    if (pieces[i].atSource)
      continue;
    if (last == fed.end() || last->first != key)
      last = fed.try_emplace(key).first;
    last->second.push_back(i);
  }
  std::vector<std::pair<Range, const Items *>> feeders;
  for (const auto &[key, items] : fed)
    feeders.emplace_back(at(key), &items);
  // Of each feeder the first piece that lacks something; of these the first.
  std::vector<std::optional<std::pair<uint32_t, Fault>>> faults(feeders.size());
  parallel(feeders.size(), [&](size_t f) {
    faults[f] = checkFed(feeders[f].first, *feeders[f].second);
  });
  const std::pair<uint32_t, Fault> *first = nullptr;
  for (const auto &fault : faults)
    if (fault && (!first || fault->first < first->first))
      first = &*fault;
  return first ? MaybeFault(first->second) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

namespace {

/// (wave, sender, receiver): what makes a message.
using MessageKey = std::tuple<int64_t, int64_t, int64_t>;

struct MessageSum {
  MessageKey key;
  int64_t bytes = 0;
  uint32_t op = 0;
};

/// Pieces of one ordered pair in one wave are one message.
std::vector<MessageSum> sumMessages(const std::vector<PlanPiece> &pieces,
                                    const ParallelFor &parallel) {
  std::vector<MessageSum> parts;
  for (const PlanPiece &piece : pieces) {
    if (piece.from == piece.to || piece.collective != kNoCollective)
      continue;
    MessageKey key = {piece.wave, piece.from, piece.to};
    if (!parts.empty() && parts.back().key == key)
      parts.back().bytes += piece.bytes;
    else
      parts.push_back({key, piece.bytes, piece.op});
  }
  sortWaves(
      parts, parallel, [](const MessageSum &m) { return std::get<0>(m.key); },
      [](const MessageSum &a, const MessageSum &b) { return a.key < b.key; });
  std::vector<MessageSum> out;
  for (const MessageSum &part : parts) {
    if (!out.empty() && out.back().key == part.key)
      out.back().bytes += part.bytes;
    else
      out.push_back(part);
  }
  return out;
}

MessageKey keyOf(const PlanSlot &slot) {
  return slot.receive ? MessageKey{slot.wave, slot.peer, slot.device}
                      : MessageKey{slot.wave, slot.device, slot.peer};
}

std::string describe(const MessageKey &key) {
  return "the message " + std::to_string(std::get<1>(key)) + " -> " +
         std::to_string(std::get<2>(key)) + " of wave " +
         std::to_string(std::get<0>(key));
}

MaybeFault checkEnds(const std::vector<MessageSum> &messages,
                     const std::vector<PlanSlot> &slots, bool receive,
                     const ParallelFor &parallel) {
  using End = std::pair<MessageKey, const PlanSlot *>;
  std::vector<End> ends;
  ends.reserve(slots.size() / 2);
  for (const PlanSlot &slot : slots)
    if (slot.receive == receive && !slot.isBlocks())
      ends.emplace_back(keyOf(slot), &slot);
  sortWaves(
      ends, parallel, [](const End &end) { return std::get<0>(end.first); },
      std::less<End>());
  const char *end = receive ? "receives" : "sends";
  for (size_t i = 0; i < std::max(ends.size(), messages.size()); ++i) {
    if (i + 1 < ends.size() && ends[i].first == ends[i + 1].first)
      return Fault{ends[i + 1].second->op,
                   std::string(end) + " " + describe(ends[i].first) +
                       " twice: expected one message per ordered pair"};
    if (i >= ends.size() ||
        (i < messages.size() && messages[i].key < ends[i].first))
      return Fault{messages[i].op, "never " + std::string(end) + " " +
                                       describe(messages[i].key)};
    if (i >= messages.size() || ends[i].first < messages[i].key)
      return Fault{ends[i].second->op, std::string(end) + " " +
                                           describe(ends[i].first) +
                                           ", which has no other end"};
    if (ends[i].second->bytes != messages[i].bytes)
      return Fault{ends[i].second->op,
                   std::string(end) + " " +
                       std::to_string(ends[i].second->bytes) + " bytes as " +
                       describe(messages[i].key) + ", expected " +
                       std::to_string(messages[i].bytes)};
  }
  return std::nullopt;
}

MaybeFault checkGroupSizes(const std::vector<MessageSum> &messages) {
  std::unordered_map<int64_t, unsigned> counts; // of one wave, per device
  int64_t wave = -1;
  for (const MessageSum &message : messages) {
    if (std::get<0>(message.key) != wave)
      counts.clear();
    wave = std::get<0>(message.key);
    for (int64_t device : {std::get<1>(message.key), std::get<2>(message.key)})
      if (++counts[device] > kMaxGroupMessages)
        return Fault{message.op,
                     "gives device " + std::to_string(device) + " more than " +
                         std::to_string(kMaxGroupMessages) +
                         " messages in wave " + std::to_string(wave) +
                         ": a group must fit one kernel plan"};
  }
  return std::nullopt;
}

} // namespace

MaybeFault checkMessages(const std::vector<PlanPiece> &pieces,
                         const std::vector<PlanSlot> &slots,
                         const ParallelFor &parallel) {
  std::vector<MessageSum> messages = sumMessages(pieces, parallel);
  if (auto fault = checkEnds(messages, slots, /*receive=*/false, parallel))
    return fault;
  if (auto fault = checkEnds(messages, slots, /*receive=*/true, parallel))
    return fault;
  return checkGroupSizes(messages);
}

//===----------------------------------------------------------------------===//
// Ends without a slot
//===----------------------------------------------------------------------===//

namespace {

class DirectEnds {
public:
  explicit DirectEnds(const TransportPlan &plan)
      : plan(plan), source(indexShards(plan.flows, /*source=*/true)),
        destination(indexShards(plan.flows, /*source=*/false)) {}

  /// The ends of one wave.
  MaybeFault check(const PlanStep &step) const {
    auto isDirect = [](const PlanSlot &slot) { return slot.offset == -1; };
    auto slot = plan.slots.begin() + step.firstSlot;
    const auto last = plan.slots.begin() + step.lastSlot;
    slot = std::find_if(slot, last, isDirect);
    if (slot == last)
      return std::nullopt;
    std::vector<FirstPiece> messages = messagesOf(step);
    for (; slot != last; slot = std::find_if(slot + 1, last, isDirect))
      if (auto fault = check(*slot, messages))
        return fault;
    return std::nullopt;
  }

private:
  /// A message's sender and receiver, and its first piece.
  struct FirstPiece {
    std::pair<int64_t, int64_t> ends;
    size_t piece = 0;
  };

  /// Sorted by sender and receiver, as the pieces of a wave are, and what
  /// comes behind them.
  std::vector<FirstPiece> messagesOf(const PlanStep &step) const {
    std::vector<FirstPiece> out;
    for (size_t i = step.first; i < step.last; ++i) {
      std::pair ends(plan.pieces[i].from, plan.pieces[i].to);
      if (out.empty() || out.back().ends != ends)
        out.push_back({ends, i});
    }
    out.push_back({{INT64_MAX, INT64_MAX}, step.last});
    return out;
  }

  MaybeFault check(const PlanSlot &slot,
                   const std::vector<FirstPiece> &messages) const {
    MessageKey key = keyOf(slot);
    auto wanted = std::make_pair(std::get<1>(key), std::get<2>(key));
    auto at = std::lower_bound(
        messages.begin(), messages.end() - 1, wanted,
        [](const FirstPiece &m, const auto &ends) { return m.ends < ends; });
    bool isOnePiece = at->ends == wanted && at[1].piece - at->piece == 1;
    if (isOnePiece && isOneRun(plan.pieces[at->piece], slot.receive))
      return std::nullopt;
    return Fault{slot.op, std::string("has no slot on device ") +
                              std::to_string(slot.device) + " for " +
                              describe(key) +
                              ", which is not one contiguous run there, of one "
                              "state in its wire dtype"};
  }

  bool isOneRun(const PlanPiece &piece, bool receive) const {
    const PlanFlow &flow = plan.flows[piece.flow];
    if (__builtin_popcountll(flow.states) != 1)
      return false;
    // A forward is read where its own receive put it.
    bool fromSource = !receive && piece.atSource;
    if (fromSource ? flow.sourceConverts : flow.destinationConverts)
      return false;
    int64_t device = receive ? piece.to : piece.from;
    const ShardIndex &index = fromSource ? source : destination;
    uint32_t shard = receive ? piece.toShard
                     : fromSource
                         ? piece.fromShard
                         : index.findNumber(piece.flow, device, piece.box)
                               .value_or(kUnplaced);
    return shard != kUnplaced &&
           dt::isOneRun(*index.shardsOf(device)[shard].shard, piece.box);
  }

  const TransportPlan &plan;
  ShardIndex source, destination;
};

} // namespace

MaybeFault checkDirect(const TransportPlan &plan, const ParallelFor &parallel) {
  DirectEnds ends(plan);
  return firstFault(
      plan.steps.size(), parallel,
      [&](size_t i) {
        const PlanStep &step = plan.steps[i];
        return step.kind == PlanStep::Kind::Wave ? ends.check(step)
                                                 : std::nullopt;
      },
      /*atOnce=*/1);
}

//===----------------------------------------------------------------------===//
// Ports
//===----------------------------------------------------------------------===//

namespace {

/// (device that stands for the port, by NIC, receives).
using Port = std::tuple<int64_t, bool, bool>;

Fault tooMany(const PlanPiece &first, const PlanPiece &second, Port port,
              int64_t most) {
  auto [device, byNic, receives] = port;
  auto ends = [](const PlanPiece &piece) {
    return std::to_string(piece.from) + " -> " + std::to_string(piece.to);
  };
  return Fault{second.op,
               std::string(receives ? "receives" : "sends") + " " +
                   ends(first) + " and " + ends(second) + " over the " +
                   (byNic ? "NIC" : "island port") + " of device " +
                   std::to_string(device) + " in wave " +
                   std::to_string(second.wave) + ": expected " +
                   (most == 1
                        ? "one message"
                        : "at most " + std::to_string(most) + " messages") +
                   " each way per port and wave",
               first.op, "the first of them is here"};
}

} // namespace

MaybeFault checkPorts(const std::vector<PlanPiece> &pieces,
                      const Cluster &cluster) {
  // By port: what uses it, one piece of each message, which count while they
  // are of the wave looked at.
  std::vector<std::vector<const PlanPiece *>> used;
  dtrt::DeviceIndex devices;
  const PlanPiece *last = nullptr;
  for (const PlanPiece &piece : pieces) {
    bool isSameMessage = last && last->wave == piece.wave &&
                         last->from == piece.from && last->to == piece.to;
    if (piece.wave < 0 || isSameMessage || piece.collective != kNoCollective)
      continue;
    last = &piece;
    bool byNic = !cluster.sameNode(piece.from, piece.to);
    int64_t most = cluster.messagesPerPort(byNic);
    for (bool receives : {false, true}) {
      int64_t device = cluster.port(receives ? piece.to : piece.from, byNic);
      size_t port = 4 * size_t(devices(device)) + 2 * byNic + receives;
      if (port >= used.size())
        used.resize(std::max(port + 1, 2 * used.size()));
      std::vector<const PlanPiece *> &known = used[port];
      if (!known.empty() && known.back()->wave != piece.wave)
        known.clear();
      auto isOfMessage = [&](const PlanPiece *other) {
        return other->from == piece.from && other->to == piece.to;
      };
      if (std::any_of(known.begin(), known.end(), isOfMessage))
        continue;
      if (int64_t(known.size()) == most)
        return tooMany(*known.back(), piece, {device, byNic, receives}, most);
      known.push_back(&piece);
    }
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

namespace {

std::string bytesOf(const SlotUse &use) {
  return "staging bytes " + std::to_string(use.begin()) + " to " +
         std::to_string(use.end());
}

/// `ends` are all of one device.
MaybeFault checkDevice(const std::vector<const PlanSlot *> &ends, int64_t limit,
                       const Forwards &forwards) {
  std::vector<SlotUse> uses = slotUses(ends);
  for (const SlotUse &use : uses)
    if (use.begin() < 0 || use.end() > limit)
      return Fault{use.slot->op, "uses " + bytesOf(use) + " on device " +
                                     std::to_string(use.slot->device) +
                                     ", more than the limit of " +
                                     std::to_string(limit)};
  // Slots of most plans do not meet whatever is forwarded.
  if (slotsThatMeet(uses).empty())
    return std::nullopt;
  uses = slotUses(ends, &forwards);
  std::vector<SlotPair> meetings = slotsThatMeet(uses, &forwards);
  if (meetings.empty())
    return std::nullopt;
  const SlotUse &older = uses[meetings.front().first];
  const SlotUse &newer = uses[meetings.front().second];
  return Fault{
      newer.slot->op,
      "reuses " + bytesOf(newer) + " of device " +
          std::to_string(newer.slot->device) + " while they are in flight",
      older.slot->op,
      "they hold the message of wave " + std::to_string(older.slot->wave)};
}

} // namespace

MaybeFault checkSlots(const std::vector<PlanPiece> &pieces,
                      const std::vector<PlanSlot> &slots, int64_t limit,
                      const ParallelFor &parallel) {
  std::unordered_map<int64_t, uint32_t> known;
  std::vector<std::vector<const PlanSlot *>> devices;
  for (const PlanSlot &slot : slots) {
    auto [at, isNew] = known.try_emplace(slot.device, uint32_t(devices.size()));
    if (isNew)
      devices.emplace_back();
    devices[at->second].push_back(&slot);
  }
  std::sort(devices.begin(), devices.end(), [](const auto &a, const auto &b) {
    return a.front()->device < b.front()->device;
  });
  Forwards forwards(pieces);
  return firstFault(devices.size(), parallel, [&](size_t i) {
    return checkDevice(devices[i], limit, forwards);
  });
}

} // namespace dt
