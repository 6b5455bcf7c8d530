//===- WaveProblem.cpp - What goes in which wave: the question ------------===//

#include "dt/Scheduling/WaveProblem.h"

#include "StoragePeaks.h"
#include "WavePorts.h"
#include "dt/Geometry/Covers.h"
#include "dt/Scheduling/Forwards.h"
#include "dt/Scheduling/Relays.h"
#include "dtrt/types/DeviceIndex.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

using namespace dt;

namespace {

using MaybeError = std::optional<std::string>;
using Boxes = std::vector<Box>;

std::string deviceText(int64_t device) {
  return "device " + std::to_string(device);
}
std::string waveText(int64_t wave) { return "wave " + std::to_string(wave); }
std::string boxText(uint32_t flow, const Box &box) {
  return toString(box) + " of flow " + std::to_string(flow);
}
std::string pairText(int64_t source, int64_t destination) {
  return "from " + deviceText(source) + " to " + deviceText(destination);
}
std::string bytesText(int64_t bytes) {
  return std::to_string(bytes) + " bytes";
}

/// Flow and device.
using Place = std::pair<uint32_t, int64_t>;

//===----------------------------------------------------------------------===//
// Instances
//===----------------------------------------------------------------------===//

/// The flow and the box of a move or a copy.
MaybeError checkBox(const WaveProblem &problem, const std::string &what,
                    uint32_t flow, const Box &box,
                    std::map<uint32_t, unsigned> &ranks) {
  if (flow >= problem.elementBytes.size())
    return what + " is of flow " + std::to_string(flow) + ", and there are " +
           std::to_string(problem.elementBytes.size());
  if (problem.elementBytes[flow] < 1)
    return what + " is of flow " + std::to_string(flow) + ", which has " +
           bytesText(problem.elementBytes[flow]) +
           " per element, expected at least 1";
  unsigned rank = ranks.try_emplace(flow, box.rank()).first->second;
  if (box.rank() != rank)
    return what + " has " + std::to_string(box.rank()) +
           " dims, expected the " + std::to_string(rank) + " of flow " +
           std::to_string(flow);
  for (unsigned dim = 0; dim < rank; ++dim)
    if (box[dim].empty())
      return what + " is empty, " + toString(box);
  return std::nullopt;
}

/// Bytes of a box; beyond 2^53 not exact.
double bytesOf(const Box &box, int64_t width) {
  auto bytes = double(width);
  for (unsigned dim = 0; dim < box.rank(); ++dim)
    bytes *= double(box[dim].hi) - double(box[dim].lo);
  return bytes;
}

MaybeError checkMoves(const WaveProblem &problem) {
  std::map<uint32_t, unsigned> ranks;
  double bytes = 0;
  for (size_t i = 0; i < problem.moves.size(); ++i) {
    const Move &move = problem.moves[i];
    std::string what = "move " + std::to_string(i);
    if (MaybeError error = checkBox(problem, what, move.flow, move.box, ranks))
      return error;
    if (move.source < 0 || move.destination < 0 ||
        move.source == move.destination)
      return what + " goes " + pairText(move.source, move.destination) +
             ", expected two devices";
    if (i > 0 && move.hop < problem.moves[i - 1].hop)
      return what + " has hop " + std::to_string(move.hop) +
             " and stands after one of hop " +
             std::to_string(problem.moves[i - 1].hop) + ", expected by hop";
    bytes += bytesOf(move.box, problem.elementBytes[move.flow]);
  }
  for (size_t i = 0; i < problem.copies.size(); ++i) {
    const LocalMove &copy = problem.copies[i];
    std::string what = "copy " + std::to_string(i);
    if (MaybeError error = checkBox(problem, what, copy.flow, copy.box, ranks))
      return error;
    if (copy.device < 0)
      return what + " is on " + deviceText(copy.device) +
             ", expected 0 or more";
    bytes += bytesOf(copy.box, problem.elementBytes[copy.flow]);
  }
  if (bytes >= 0x1p63)
    return "moves and copies have bytes beyond the limit of 2^63";
  return std::nullopt;
}

/// Nothing comes to a device twice.
MaybeError checkArrivals(const WaveProblem &problem) {
  std::map<Place, Boxes> arrivals;
  for (const Move &move : problem.moves)
    arrivals[{move.flow, move.destination}].push_back(move.box);
  for (const LocalMove &copy : problem.copies)
    arrivals[{copy.flow, copy.device}].push_back(copy.box);
  for (const auto &[place, boxes] : arrivals)
    if (auto twice = firstTwice(boxes))
      return boxText(place.first, *twice) + " comes to " +
             deviceText(place.second) + " twice, expected once";
  return std::nullopt;
}

/// What is forwarded comes at lower hops.
MaybeError checkFeeding(const WaveProblem &problem) {
  std::map<std::tuple<uint32_t, int64_t, uint32_t>, Boxes> forwards;
  std::map<Place, std::vector<const Move *>> arrivals;
  for (const Move &move : problem.moves)
    if (move.hop > 0) {
      forwards[{move.flow, move.source, move.hop}].push_back(move.box);
      arrivals[{move.flow, move.source}];
    }
  if (forwards.empty())
    return std::nullopt;
  for (const Move &move : problem.moves)
    if (auto it = arrivals.find({move.flow, move.destination});
        it != arrivals.end())
      it->second.push_back(&move);
  for (const auto &[key, boxes] : forwards) {
    auto [flow, device, hop] = key;
    Boxes earlier;
    for (const Move *move : arrivals[{flow, device}])
      if (move->hop < hop)
        earlier.push_back(move->box);
    if (auto missing = firstUncovered(boxes, earlier))
      return deviceText(device) + " forwards " + boxText(flow, *missing) +
             " at hop " + std::to_string(hop) +
             ", which no move brings there at a lower hop";
  }
  return std::nullopt;
}

MaybeError checkFlow(const WaveProblem &problem, uint32_t number) {
  const Storage &storage = *problem.storage;
  const FlatFlow &flow = storage.flows[number];
  std::string what = "flow " + std::to_string(number);
  if (flow.readsFrom >= storage.flows.size())
    return what + " reads from flow " + std::to_string(flow.readsFrom) +
           ", and there are " + std::to_string(storage.flows.size());
  for (const auto *side : {&flow.source, &flow.destination})
    for (FlatStates states : *side)
      if (states.width < 1 || states.count < 1)
        return what + " stores " + std::to_string(states.count) +
               " states of " + bytesText(states.width) +
               " per element, expected at least 1 of each";
  if (!std::is_sorted(flow.staying.begin(), flow.staying.end()))
    return what + " stays on devices that do not ascend";
  for (const auto *side :
       {&storage.source[number], &storage.destination[number]})
    for (const Holding &holding : *side) {
      if (holding.shard.numLeading != flow.numLeading ||
          holding.shard.rank() < flow.numLeading)
        return what + " has a shard of " +
               std::to_string(holding.shard.numLeading) +
               " leading dims, expected " + std::to_string(flow.numLeading);
      if (holding.devices.empty() || holding.devices.front() < 0 ||
          !std::is_sorted(holding.devices.begin(), holding.devices.end()))
        return what + " has a shard whose devices are not one or more in "
                      "ascending order";
    }
  return std::nullopt;
}

/// A device has the same of a flow that stays on both sides, and nothing comes.
MaybeError checkStaying(const WaveProblem &problem, const ShardIndex &source,
                        const ShardIndex &destination) {
  auto shardsOf = [](const ShardIndex &index, uint32_t flow, int64_t device) {
    std::set<Shard> out;
    for (uint32_t number : index.numbersOf(flow, device))
      out.insert(*index.shardsOf(device)[number].shard);
    return out;
  };
  const std::vector<FlatFlow> &flows = problem.storage->flows;
  for (uint32_t i = 0; i < flows.size(); ++i) {
    std::string what = "flow " + std::to_string(i) + " stays on ";
    for (int64_t device : flows[i].staying)
      if (shardsOf(source, i, device) != shardsOf(destination, i, device))
        return what + deviceText(device) +
               ", which does not hold the same of it on both sides";
  }
  auto comes = [&](uint32_t flow, int64_t device) -> MaybeError {
    if (!flows[flow].stays(device))
      return std::nullopt;
    return "flow " + std::to_string(flow) + " stays on " + deviceText(device) +
           ", and some of it comes there";
  };
  for (const Move &move : problem.moves)
    if (MaybeError error = comes(move.flow, move.destination))
      return error;
  for (const LocalMove &copy : problem.copies)
    if (MaybeError error = comes(copy.flow, copy.device))
      return error;
  return std::nullopt;
}

/// Every box lies in one shard, where it is read and where it is written.
MaybeError checkShards(const WaveProblem &problem) {
  const Storage &storage = *problem.storage;
  ShardIndex source = shardsOn(storage, /*destination=*/false);
  ShardIndex destination = shardsOn(storage, /*destination=*/true);
  auto isHeld = [&](const ShardIndex &index, uint32_t flow, int64_t device,
                    const Box &box, const char *side) -> MaybeError {
    if (index.findNumber(flow, device, box))
      return std::nullopt;
    return boxText(flow, box) + " is in no single shard that " +
           deviceText(device) + " holds at the " + side;
  };
  for (const Move &move : problem.moves) {
    bool isForward = move.hop > 0;
    if (auto error =
            isHeld(isForward ? destination : source,
                   isForward ? move.flow : storage.flows[move.flow].readsFrom,
                   move.source, move.box, isForward ? "destination" : "source"))
      return error;
    if (auto error = isHeld(destination, move.flow, move.destination, move.box,
                            "destination"))
      return error;
  }
  for (const LocalMove &copy : problem.copies) {
    if (auto error = isHeld(source, storage.flows[copy.flow].readsFrom,
                            copy.device, copy.box, "source"))
      return error;
    if (auto error = isHeld(destination, copy.flow, copy.device, copy.box,
                            "destination"))
      return error;
  }
  return checkStaying(problem, source, destination);
}

MaybeError checkStorage(const WaveProblem &problem) {
  if (!problem.storage)
    return std::nullopt;
  const Storage &storage = *problem.storage;
  if (storage.pageBytes < 1 || storage.limitBytes < 0)
    return "storage has pages of " + bytesText(storage.pageBytes) +
           " and a limit of " + bytesText(storage.limitBytes) +
           ", expected at least 1 and 0";
  size_t flows = problem.elementBytes.size();
  if (storage.flows.size() != flows || storage.source.size() != flows ||
      storage.destination.size() != flows)
    return "storage is of " + std::to_string(storage.flows.size()) +
           " flows, expected " + std::to_string(flows);
  for (uint32_t i = 0; i < flows; ++i)
    if (MaybeError error = checkFlow(problem, i))
      return error;
  return checkShards(problem);
}

//===----------------------------------------------------------------------===//
// Solutions
//===----------------------------------------------------------------------===//

/// The rules of a schedule, one function each. Later ones rely on earlier ones.
class Verifier {
public:
  Verifier(const WaveProblem &problem, const WaveSchedule &schedule)
      : problem(problem), cluster(problem.cluster), schedule(schedule) {}

  MaybeError run() {
    for (MaybeError (Verifier::*rule)() :
         {&Verifier::flows, &Verifier::order, &Verifier::ports,
          &Verifier::relays, &Verifier::cutMoves, &Verifier::cutCopies,
          &Verifier::feeding, &Verifier::slots, &Verifier::storage})
      if (MaybeError error = (this->*rule)())
        return error;
    return std::nullopt;
  }

private:
  MaybeError flows();
  MaybeError order();
  MaybeError ports();
  MaybeError relays();
  MaybeError cutMoves();
  MaybeError cutCopies();
  MaybeError feeding();
  MaybeError slots();
  MaybeError storage();

  const WaveProblem &problem;
  const Cluster &cluster;
  const WaveSchedule &schedule;
  std::vector<TimedMessage> messages;
  std::vector<ScheduledMove> moves;              // what is relayed as one
  std::map<int64_t, int64_t> relaySlots, arenas; // bytes
};

/// What bytes are counted of.
MaybeError Verifier::flows() {
  auto check = [&](const char *what, uint32_t flow) -> MaybeError {
    if (flow < problem.elementBytes.size())
      return std::nullopt;
    return "there is a " + std::string(what) + " of flow " +
           std::to_string(flow) + ", and there are " +
           std::to_string(problem.elementBytes.size()) + " flows";
  };
  for (const ScheduledMove &piece : schedule.moves)
    if (MaybeError error = check("piece", piece.move.flow))
      return error;
  for (const ScheduledCopy &copy : schedule.copies)
    if (MaybeError error = check("copy", copy.move.flow))
      return error;
  return std::nullopt;
}

/// Pieces and copies ascend by wave, and a message of a pair is in one place.
MaybeError Verifier::order() {
  std::set<std::tuple<int32_t, int64_t, int64_t>> known;
  int32_t last = 0;
  MaybeError error;
  forEachMessage(schedule.moves, [&](size_t first, size_t) {
    const auto &[move, wave, relay] = schedule.moves[first];
    if (error)
      return;
    if (wave < last)
      error = waveText(wave) + " stands after wave " + std::to_string(last) +
              ", expected ascending from 0";
    else if (!known.insert({wave, move.source, move.destination}).second)
      error = waveText(wave) + " has two messages " +
              pairText(move.source, move.destination) + ", expected one";
    last = wave;
  });
  if (error)
    return error;
  last = 0;
  for (const ScheduledCopy &copy : schedule.copies) {
    if (copy.wave < last)
      return "copies of " + waveText(copy.wave) +
             " stand after those of wave " + std::to_string(last) +
             ", expected ascending from 0";
    last = copy.wave;
  }
  messages = problem.messages(schedule.moves);
  return std::nullopt;
}

/// "has two messages into the NIC of device 2, with devices 0 and 1, expected
/// one".
std::string tooManyText(const WavePort &port, int64_t last, int64_t next) {
  std::string most = port.most == 1 ? "one" : std::to_string(port.most);
  std::string found = port.most == 1 ? "two" : std::to_string(port.most + 1);
  std::string text = " has " + found + " messages ";
  if (port.kind == WavePort::Device)
    return text + "of " + deviceText(port.device) + ", expected at most " +
           most;
  text += port.kind == WavePort::In ? "into" : "out of";
  return text + (port.inter ? " the NIC of " : " the island port of ") +
         deviceText(port.device) + ", with devices " + std::to_string(last) +
         " and " + std::to_string(next) + ", expected " + most;
}

MaybeError Verifier::ports() {
  std::map<std::pair<int32_t, WavePort>, std::vector<int64_t>> peers;
  for (const TimedMessage &m : messages)
    for (const WavePort &port : portsOf(cluster, m.source, m.destination)) {
      if (port.kind == WavePort::Rail)
        continue;
      int64_t peer = port.kind == WavePort::In ? m.source : m.destination;
      std::vector<int64_t> &known = peers[{m.wave, port}];
      if (int64_t(known.size()) == port.most)
        return waveText(m.wave) + tooManyText(port, known.back(), peer);
      known.push_back(peer);
    }
  return std::nullopt;
}

/// What comes to a relay goes on from there, as it is.
MaybeError Verifier::relays() {
  std::vector<PlanMessage> formed;
  forEachMessage(schedule.moves, [&](size_t first, size_t last) {
    const auto &[move, wave, relay] = schedule.moves[first];
    PlanMessage &message = formed.emplace_back();
    message = {wave, move.source, move.destination, first, last, 0};
    message.bytes = messages[formed.size() - 1].bytes;
    message.relay = relay;
  });
  std::vector<RelayedPair> pairs;
  if (MaybeError error = pairRelays(schedule.moves, formed, pairs))
    return error;
  if (problem.storage && !pairs.empty())
    return "relays messages, which storage is not looked at for";
  moves = withoutRelays(schedule.moves, formed, pairs);
  relaySlots = placeRelays(formed, pairs).bytes;
  return std::nullopt;
}

/// Pieces have each element of the wholes once, and nothing else. `subject` is
/// "device 0 sends" or the like.
MaybeError verifyCut(const std::string &subject, uint32_t flow,
                     const Boxes &pieces, const Boxes &wholes) {
  if (auto twice = firstTwice(pieces))
    return subject + " " + boxText(flow, *twice) + " twice, expected once";
  if (auto other = firstUncovered(pieces, wholes))
    return subject + " " + boxText(flow, *other) + ", which no move has";
  if (auto missing = firstUncovered(wholes, pieces))
    return subject + " no " + boxText(flow, *missing) + ", which a move has";
  return std::nullopt;
}

/// Flow and box as the problem has them: boxes can be compared.
MaybeError verifyForm(uint32_t flow, const Box &box,
                      const std::map<uint32_t, unsigned> &ranks) {
  auto rank = ranks.find(flow);
  if (rank == ranks.end() || rank->second != box.rank() || box.empty())
    return "there is a piece " + boxText(flow, box) + ", which no move has";
  return std::nullopt;
}

MaybeError Verifier::cutMoves() {
  struct Cut {
    Boxes wholes, pieces;
  };
  std::map<std::tuple<uint32_t, uint32_t, int64_t, int64_t>, Cut> cuts;
  std::map<uint32_t, unsigned> ranks;
  auto cutOf = [&](const Move &move) -> Cut & {
    return cuts[{move.flow, move.hop, move.source, move.destination}];
  };
  for (const Move &move : problem.moves) {
    cutOf(move).wholes.push_back(move.box);
    ranks[move.flow] = move.box.rank();
  }
  for (const ScheduledMove &piece : moves) {
    if (auto error = verifyForm(piece.move.flow, piece.move.box, ranks))
      return error;
    cutOf(piece.move).pieces.push_back(piece.move.box);
  }
  for (const auto &[key, cut] : cuts) {
    auto [flow, hop, source, destination] = key;
    if (auto error =
            verifyCut(deviceText(source) + " sends " + deviceText(destination) +
                          " at hop " + std::to_string(hop),
                      flow, cut.pieces, cut.wholes))
      return error;
  }
  return std::nullopt;
}

MaybeError Verifier::cutCopies() {
  std::map<Place, std::pair<Boxes, Boxes>> cuts; // wholes, pieces
  std::map<uint32_t, unsigned> ranks;
  for (const LocalMove &copy : problem.copies) {
    cuts[{copy.flow, copy.device}].first.push_back(copy.box);
    ranks[copy.flow] = copy.box.rank();
  }
  for (const auto &[copy, wave] : schedule.copies) {
    if (auto error = verifyForm(copy.flow, copy.box, ranks))
      return error;
    cuts[{copy.flow, copy.device}].second.push_back(copy.box);
  }
  for (const auto &[place, cut] : cuts)
    if (auto error = verifyCut(deviceText(place.second) + " copies",
                               place.first, cut.second, cut.first))
      return error;
  return std::nullopt;
}

/// What is forwarded has come in earlier waves. That it came once, cutMoves and
/// the instance say.
MaybeError Verifier::feeding() {
  std::map<Place, std::vector<const ScheduledMove *>> forwards, arrivals;
  for (const ScheduledMove &piece : moves)
    if (piece.move.hop > 0)
      forwards[{piece.move.flow, piece.move.source}].push_back(&piece);
  if (forwards.empty())
    return std::nullopt;
  for (const ScheduledMove &piece : moves)
    if (Place place = {piece.move.flow, piece.move.destination};
        forwards.count(place))
      arrivals[place].push_back(&piece);
  auto boxesOf = [](const std::vector<const ScheduledMove *> &pieces) {
    Boxes boxes;
    for (const ScheduledMove *piece : pieces)
      boxes.push_back(piece->move.box);
    return boxes;
  };
  for (const auto &[place, sent] : forwards) {
    const auto &come = arrivals[place];
    Boxes sentBoxes = boxesOf(sent), comeBoxes = boxesOf(come);
    std::vector<int64_t> missing;
    for (const Box &box : sentBoxes)
      missing.push_back(box.volume());
    for (auto [i, j] : overlappingPairs(sentBoxes, comeBoxes))
      if (come[j]->wave < sent[i]->wave)
        missing[i] -= intersect(sentBoxes[i], comeBoxes[j]).volume();
    for (size_t i = 0; i < sent.size(); ++i)
      if (missing[i] > 0)
        return waveText(sent[i]->wave) + " forwards " +
               boxText(place.first, sentBoxes[i]) + " from " +
               deviceText(place.second) +
               ", where not all of it has come in an earlier wave";
  }
  return std::nullopt;
}

MaybeError Verifier::slots() {
  arenas = arenaBytes(messages);
  for (const auto &[device, bytes] : relaySlots)
    arenas[device] += bytes;
  for (const auto &[device, bytes] : arenas)
    if (bytes > problem.stagingBytes)
      return "slots of " + deviceText(device) + " take " + bytesText(bytes) +
             ", more than the limit of " + std::to_string(problem.stagingBytes);
  return std::nullopt;
}

MaybeError Verifier::storage() {
  if (!problem.storage)
    return std::nullopt;
  for (const auto &[device, peak] : storagePeaks(*problem.storage, schedule)) {
    auto arena = arenas.find(device);
    int64_t slots = arena == arenas.end() ? 0 : arena->second;
    if (peak.above() + slots > problem.storage->limitBytes)
      return deviceText(device) + " holds " + bytesText(peak.bytes + slots) +
             " in " + waveText(peak.wave) + ", " +
             std::to_string(peak.above() + slots) +
             " above the larger of its source and its destination, more than "
             "the limit of " +
             std::to_string(problem.storage->limitBytes);
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// The bound
//===----------------------------------------------------------------------===//

/// For each move, when its first element can have come to its sender: after the
/// message of whatever feeds it first, of one element, and what feeds that.
std::vector<double> earliestStarts(const WaveProblem &problem) {
  const std::vector<Move> &moves = problem.moves;
  std::vector<double> starts(moves.size(), 0);
  std::map<Place, std::vector<uint32_t>> forwards, arrivals;
  for (uint32_t i = 0; i < moves.size(); ++i)
    if (moves[i].hop > 0)
      forwards[{moves[i].flow, moves[i].source}].push_back(i);
  for (uint32_t i = 0; i < moves.size(); ++i)
    if (Place place = {moves[i].flow, moves[i].destination};
        forwards.count(place))
      arrivals[place].push_back(i);
  std::vector<std::vector<uint32_t>> feeders(moves.size());
  for (const auto &[place, sent] : forwards) {
    const auto &come = arrivals[place];
    Boxes sentBoxes, comeBoxes;
    for (uint32_t i : sent)
      sentBoxes.push_back(moves[i].box);
    for (uint32_t i : come)
      comeBoxes.push_back(moves[i].box);
    for (auto [i, j] : overlappingPairs(sentBoxes, comeBoxes))
      feeders[sent[i]].push_back(come[j]);
  }
  // Moves stand by hop, so what feeds a move is known before it.
  for (uint32_t i = 0; i < moves.size(); ++i) {
    if (feeders[i].empty())
      continue;
    starts[i] = 1e300;
    for (uint32_t feeder : feeders[i])
      if (moves[feeder].hop < moves[i].hop)
        starts[i] = std::min(
            starts[i], starts[feeder] + problem.cluster.waveSeconds() +
                           problem.cluster.wireSeconds(
                               moves[feeder].source, moves[feeder].destination,
                               problem.elementBytes[moves[feeder].flow]));
  }
  return starts;
}

} // namespace

std::map<int64_t, int64_t>
dt::arenaBytes(const std::vector<TimedMessage> &messages) {
  struct Arena {
    int32_t wave = -1;
    int64_t group = -1;
    int64_t used[2] = {0, 0};              // by this group: to send, received
    int64_t area[2][2] = {{0, 0}, {0, 0}}; // the same, by parity of the group
  };
  std::map<int64_t, Arena> devices;
  for (const TimedMessage &m : messages)
    for (bool receive : {false, true}) {
      Arena &arena = devices[receive ? m.destination : m.source];
      if (arena.wave != m.wave) {
        arena.wave = m.wave;
        ++arena.group;
        arena.used[0] = arena.used[1] = 0;
      }
      // What is relayed has slots of its own.
      bool hasSlot = receive ? m.isUnpacked : m.isPacked;
      arena.used[receive] += hasSlot ? alignSlot(m.bytes) : 0;
      int64_t &area = arena.area[receive][arena.group % 2];
      area = std::max(area, arena.used[receive]);
    }
  std::map<int64_t, int64_t> out;
  for (const auto &[device, arena] : devices) {
    const auto &[sent, received] = arena.area;
    out[device] = sent[0] + sent[1] + received[0] + received[1];
  }
  return out;
}

int64_t dt::pageBytesFor(int64_t limitBytes) {
  int64_t page = 64;
  while (page < (int64_t(2) << 20) && page * 16384 < limitBytes)
    page *= 2;
  return page;
}

std::optional<std::string>
WaveProblem::check(const ParallelFor &parallel) const {
  if (MaybeError error = cluster.check())
    return error;
  if (stagingBytes < 1)
    return "staging has " + bytesText(stagingBytes) + ", expected at least 1";
  if (MaybeError error = checkMoves(*this))
    return error;
  // What they rely on has been checked.
  MaybeError (*const rules[])(const WaveProblem &) = {
      checkArrivals, checkFeeding, checkStorage};
  MaybeError errors[std::size(rules)];
  parallel(std::size(rules), [&](size_t i) { errors[i] = rules[i](*this); });
  for (MaybeError &error : errors)
    if (error)
      return std::move(error);
  return std::nullopt;
}

std::optional<std::string>
WaveProblem::verify(const WaveSchedule &schedule) const {
  return Verifier(*this, schedule).run();
}

double WaveProblem::lowerBound() const {
  struct Pair {
    int64_t bytes = 0;
    double start = 1e300;
  };
  std::map<std::pair<int64_t, int64_t>, Pair> pairs;
  std::vector<double> starts = earliestStarts(*this);
  double bound = 0;
  for (size_t i = 0; i < moves.size(); ++i) {
    const Move &move = moves[i];
    int64_t bytes = move.box.volume() * elementBytes[move.flow];
    bound = std::max(
        bound, starts[i] + cluster.waveSeconds() +
                   cluster.wireSeconds(move.source, move.destination, bytes));
    Pair &pair = pairs[{move.source, move.destination}];
    pair.bytes += bytes;
    pair.start = std::min(pair.start, starts[i]);
  }
  struct Port {
    double seconds = 0, start = 1e300;
    double once = 0; // beside these
  };
  std::map<std::tuple<bool, bool, int64_t>, Port> ports;
  for (const auto &[ends, pair] : pairs) {
    auto [source, destination] = ends;
    bool inter = !cluster.sameNode(source, destination);
    // What is one run may be longer than the staging.
    int64_t messages =
        stored ? 1 : (pair.bytes + stagingBytes - 1) / stagingBytes;
    // Launches of the devices of a NIC may be at the same time.
    bool isOwn = !inter || (cluster.devicesPerNic == 1 && !cluster.pxn);
    double each = isOwn ? cluster.waveSeconds() : cluster.latencySeconds();
    double waves = double(messages) / double(cluster.messagesPerPort(inter));
    for (bool receive : {false, true}) {
      int64_t device = receive ? destination : source;
      bool leaves = inter && !receive;
      // A NIC of several senders may have all that they send at once.
      bool isRail = leaves && cluster.pxn && cluster.messagesPerPort(true) > 1;
      double seconds =
          isRail ? cluster.nicOutSeconds(source, destination, pair.bytes)
                 : waves * each +
                       cluster.portSeconds(source, destination, pair.bytes);
      Port &port = ports[{inter, receive,
                          leaves ? cluster.nicOut(source, destination)
                                 : cluster.port(device, inter)}];
      port.seconds += seconds;
      port.once = isRail ? each : 0;
      port.start = std::min(port.start, pair.start);
    }
  }
  for (const auto &[key, port] : ports)
    bound = std::max(bound, port.start + port.once + port.seconds);
  return bound;
}

double WaveProblem::seconds(const std::vector<ScheduledMove> &scheduled) const {
  return predictSeconds(messages(scheduled), cluster);
}

std::vector<TimedMessage>
WaveProblem::messages(const std::vector<ScheduledMove> &scheduled,
                      const ParallelFor &parallel) const {
  std::vector<TimedMessage> out;
  std::vector<PlanMessage> formed;
  // Memory that is never written costs nothing; to move what there is does.
  out.reserve(scheduled.size());
  formed.reserve(scheduled.size());
  bool forwards = false;
  forEachMessage(scheduled, [&](size_t first, size_t last) {
    const auto &[move, wave, relay] = scheduled[first];
    formed.push_back({wave, move.source, move.destination, first, last, 0});
    formed.back().relay = relay;
    TimedMessage &message = out.emplace_back();
    bool isOne = stored && last - first == 1;
    message.isPacked = relay != RelayHop::Out &&
                       !(isOne && stored->isRun(move, /*atSender=*/true));
    message.isUnpacked = relay != RelayHop::In &&
                         !(isOne && stored->isRun(move, /*atSender=*/false));
    message.wave = wave;
    message.source = move.source;
    message.destination = move.destination;
    for (size_t i = first; i < last; ++i) {
      const Move &piece = scheduled[i].move;
      message.bytes += piece.box.volume() * elementBytes[piece.flow];
      forwards |= piece.hop > 0;
    }
  });
  if (!forwards)
    return out;
  std::vector<CarriedPiece> pieces;
  pieces.reserve(scheduled.size());
  for (const auto &[move, wave, relay] : scheduled)
    pieces.push_back({move.flow, move.flow, move.hop > 0, &move.box});
  std::vector<bool> found = findForwards(formed, pieces, parallel);
  for (size_t i = 0; i < out.size(); ++i)
    out[i].isForward = found[i];
  return out;
}

std::vector<dtrt::TimedCopy>
WaveProblem::timedCopies(const WaveSchedule &schedule) const {
  std::vector<dtrt::TimedCopy> out;
  if (!storage)
    return out;
  // Both ascend by wave: of each device, the last wave that it has a part in.
  dtrt::DeviceIndex devices;
  std::vector<int32_t> lastWave;
  auto lastOf = [&](int64_t device) -> int32_t & {
    uint32_t number = devices(device);
    if (number == lastWave.size())
      lastWave.push_back(-1);
    return lastWave[number];
  };
  size_t next = 0;
  out.reserve(schedule.copies.size());
  for (const auto &[copy, wave] : schedule.copies) {
    for (; next < schedule.moves.size() && schedule.moves[next].wave <= wave;
         ++next) {
      const ScheduledMove &entry = schedule.moves[next];
      for (int64_t device : {entry.move.source, entry.move.destination})
        lastOf(device) = entry.wave;
    }
    out.push_back({wave, copy.device,
                   copy.box.volume() * elementBytes[copy.flow],
                   lastOf(copy.device) == wave});
  }
  return out;
}

/// Sorts short keys, and moves the long records once.
void dt::sortWave(ScheduledMove *first, ScheduledMove *last) {
  using Key = std::tuple<int64_t, int64_t, uint32_t>;
  std::vector<Key> keys;
  keys.reserve(last - first);
  for (ScheduledMove *m = first; m != last; ++m)
    keys.emplace_back(m->move.source, m->move.destination, uint32_t(m - first));
  if (std::is_sorted(keys.begin(), keys.end()))
    return;
  std::sort(keys.begin(), keys.end());
  std::vector<ScheduledMove> given(first, last);
  for (const Key &key : keys)
    *first++ = given[std::get<2>(key)];
}

/// The places of moves, wave by wave.
static std::vector<size_t> placesByWave(const std::vector<ScheduledMove> &moves,
                                        int32_t first, int32_t last) {
  std::vector<size_t> starts(size_t(int64_t(last) - first) + 2), places;
  for (const ScheduledMove &each : moves)
    ++starts[size_t(each.wave - first) + 1];
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  places.resize(moves.size());
  for (size_t i = 0; i < moves.size(); ++i)
    places[starts[size_t(moves[i].wave - first)]++] = i;
  return places;
}

/// Waves mostly ascend already: wave by wave, what is sorted stays in cache.
/// Moves are large: each is moved once.
static void sortByWave(std::vector<ScheduledMove> &moves) {
  auto isEarlier = [](const ScheduledMove &a, const ScheduledMove &b) {
    return a.wave < b.wave;
  };
  if (std::is_sorted(moves.begin(), moves.end(), isEarlier))
    return;
  auto [first, last] =
      std::minmax_element(moves.begin(), moves.end(), isEarlier);
  // A number for each wave, where there are not more of these than moves.
  if (uint64_t(int64_t(last->wave) - first->wave) > moves.size())
    return std::stable_sort(moves.begin(), moves.end(), isEarlier);
  std::vector<ScheduledMove> sorted;
  sorted.reserve(moves.size());
  for (size_t place : placesByWave(moves, first->wave, last->wave))
    sorted.push_back(std::move(moves[place]));
  moves = std::move(sorted);
}

void dt::sortByMessage(std::vector<ScheduledMove> &moves) {
  sortByWave(moves);
  ScheduledMove *end = moves.data() + moves.size();
  for (ScheduledMove *first = moves.data(); first != end;) {
    ScheduledMove *last = first;
    while (last != end && last->wave == first->wave)
      ++last;
    sortWave(first, last);
    first = last;
  }
}
