//===- Certificate.cpp - Coverage, feeding and pairing --------------------===//

#include "FirstFault.h"
#include "dt/Geometry/Overlaps.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>
#include <unordered_map>

namespace dt {

namespace {

std::string number(int64_t value) { return std::to_string(value); }

} // namespace

//===----------------------------------------------------------------------===//
// Arrivals
//===----------------------------------------------------------------------===//

Arrivals::Arrivals(const std::vector<ProofPiece> &pieces,
                   const std::vector<std::string> &flowNames,
                   ParallelFor parallel)
    : pieces(pieces), flowNames(flowNames), parallel(std::move(parallel)),
      order(pieces.size()) {
  // One flow after the other; pieces of a flow by their device, and those of a
  // device as they stand.
  std::vector<uint32_t> starts(1, 0); // by flow
  for (const ProofPiece &piece : pieces) {
    if (piece.flow + 2 > starts.size())
      starts.resize(piece.flow + 2, 0);
    ++starts[piece.flow + 1];
  }
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  std::vector<std::pair<int64_t, uint32_t>> keys(pieces.size()); // device
  std::vector<uint32_t> next = starts;
  for (uint32_t i = 0; i < pieces.size(); ++i)
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

/// Cuts the pieces into runs that do not touch in `dim`, then each run in the
/// next dim. Pieces that are in one run in every dim are compared.
MaybeFault Arrivals::sweep(Items items, unsigned dim) const {
  if (items.size() < 2)
    return std::nullopt;
  if (dim == pieces[items[0]].box.rank()) {
    std::vector<Box> boxes;
    for (uint32_t item : items)
      boxes.push_back(pieces[item].box);
    auto twice = firstOverlap(boxes);
    if (!twice)
      return std::nullopt;
    const ProofPiece &a = pieces[items[twice->first]];
    const ProofPiece &b = pieces[items[twice->second]];
    return Fault{b.op,
                 "delivers " + flowNames[b.flow] +
                     toString(intersect(a.box, b.box)) + " to device " +
                     number(b.to) + " a second time",
                 a.op, "delivered here"};
  }
  std::sort(items.begin(), items.end(), [&](uint32_t a, uint32_t b) {
    return std::make_pair(pieces[a].box[dim].lo, a) <
           std::make_pair(pieces[b].box[dim].lo, b);
  });
  size_t start = 0;
  int64_t reach = pieces[items[0]].box[dim].hi;
  for (size_t i = 1; i <= items.size(); ++i) {
    if (i < items.size() && pieces[items[i]].box[dim].lo < reach) {
      reach = std::max(reach, pieces[items[i]].box[dim].hi);
      continue;
    }
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
    if (arriving != volume) {
      Fault fault;
      fault.text = "delivers " + number(arriving) + " elements of " +
                   flowNames[key.first] + " to device " + number(key.second) +
                   ", which wants " + number(volume);
      return fault;
    }
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
    const ProofPiece &arrival = pieces[order[range.first + a]];
    if (arrival.wave < pieces[fed[s]].wave)
      missing[s] -= intersect(here[a], sent[s]).volume();
    else
      late[s] = std::min(late[s], arrival.op);
  }
  if (limit.isExceeded())
    return std::make_pair(
        fed[0], Fault{pieces[fed[0]].op,
                      "passes on more than the limit of " + number(kMaxPieces) +
                          " parts of what arrives on device " +
                          number(pieces[fed[0]].from)});
  for (size_t s = 0; s < fed.size(); ++s)
    if (missing[s] > 0)
      return std::make_pair(fed[s], notFed(pieces[fed[s]], late[s]));
  return std::nullopt;
}

Fault Arrivals::notFed(const ProofPiece &piece, uint32_t late) const {
  if (piece.fedBy != piece.flow)
    return Fault{piece.op,
                 "makes " + flowNames[piece.flow] + toString(piece.box) +
                     " on device " + number(piece.to) + " from " +
                     flowNames[piece.fedBy] + ", which does not arrive there"};
  std::string text = "sends " + flowNames[piece.flow] + toString(piece.box) +
                     " from device " + number(piece.from) + " in wave " +
                     number(piece.wave) + ", before it holds it";
  return Fault{piece.op, text, late, "it arrives here"};
}

/// Pieces by what feeds them, so that each thread looks into its own lists.
MaybeFault Arrivals::checkFeeding() const {
  std::map<Key, Items> fed;
  for (uint32_t i = 0; i < pieces.size(); ++i)
    if (!pieces[i].atSource)
      fed[{pieces[i].fedBy, pieces[i].from}].push_back(i);
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
std::vector<MessageSum> sumMessages(const std::vector<ProofPiece> &pieces,
                                    const ParallelFor &parallel) {
  std::vector<MessageSum> parts;
  parts.reserve(pieces.size());
  for (const ProofPiece &piece : pieces)
    if (piece.from != piece.to)
      parts.push_back(
          {{piece.wave, piece.from, piece.to}, piece.bytes, piece.op});
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

MessageKey keyOf(const ProofSlot &slot) {
  return slot.receive ? MessageKey{slot.wave, slot.peer, slot.device}
                      : MessageKey{slot.wave, slot.device, slot.peer};
}

std::string describe(const MessageKey &key) {
  return "the message " + number(std::get<1>(key)) + " -> " +
         number(std::get<2>(key)) + " of wave " + number(std::get<0>(key));
}

MaybeFault checkEnds(const std::vector<MessageSum> &messages,
                     const std::vector<ProofSlot> &slots, bool receive,
                     const ParallelFor &parallel) {
  using End = std::pair<MessageKey, const ProofSlot *>;
  std::vector<End> ends;
  ends.reserve(slots.size() / 2);
  for (const ProofSlot &slot : slots)
    if (slot.receive == receive)
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
                   std::string(end) + " " + number(ends[i].second->bytes) +
                       " bytes as " + describe(messages[i].key) +
                       ", expected " + number(messages[i].bytes)};
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
        return Fault{message.op, "gives device " + number(device) +
                                     " more than " + number(kMaxGroupMessages) +
                                     " messages in wave " + number(wave) +
                                     ": a group must fit one kernel plan"};
  }
  return std::nullopt;
}

} // namespace

MaybeFault checkMessages(const std::vector<ProofPiece> &pieces,
                         const std::vector<ProofSlot> &slots,
                         const ParallelFor &parallel) {
  std::vector<MessageSum> messages = sumMessages(pieces, parallel);
  if (auto fault = checkEnds(messages, slots, /*receive=*/false, parallel))
    return fault;
  if (auto fault = checkEnds(messages, slots, /*receive=*/true, parallel))
    return fault;
  return checkGroupSizes(messages);
}

} // namespace dt
