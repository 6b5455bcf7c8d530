//===- SpliceRoute.cpp - What goes to who has another's place -------------===//

#include "SpliceRoute.h"

#include "SpliceGaps.h"
#include "dt/Geometry/Overlaps.h"
#include "dt/Routing/Reroute.h"
#include "dt/Scheduling/Reschedule.h"
#include "dt/Scheduling/RouteSchedule.h"

using namespace mlir;

namespace dt {

namespace {

/// Whether who gets it and has stayed sends it on.
bool isPassedOn(const Move &move, const ChangedPlaces &places,
                OldPrograms &programs) {
  const OldProgram *receiver =
      places.isHeir(move.destination) ? nullptr : programs.of(move.destination);
  if (!receiver)
    return false;
  for (const OldMessage &message : receiver->sent)
    for (const OldPiece &piece : message.pieces)
      if (piece.isForward && piece.flow == move.flow &&
          overlaps(piece.box, move.box))
        return true;
  return false;
}

class RouteSplicer {
public:
  RouteSplicer(const TransitionInfo &info, const ChangedPlaces &places,
               OldPrograms &programs, const SpliceEffort &effort,
               SplicedRoute &out)
      : info(info), places(places), programs(programs), effort(effort),
        out(out) {
    out.old.resize(info.flows.size());
  }

  std::optional<std::string> run();

private:
  void readOld();
  void addOld(const OldMessage &message, const OldPiece &piece);
  void addSupplier(const OldPiece &piece, int64_t device);
  void cutToWants();
  void addWants(uint32_t flow, const Holding &holding,
                std::vector<Box> &wanted);
  Holding ofThoseThatChange(const Holding &holding) const;
  std::vector<Holding> holdingsOf(uint32_t flow,
                                  const std::vector<Box> &wanted) const;
  std::vector<TimedMessage> aroundWants() const;
  std::optional<std::string> solve();
  bool mayBeResent(const OldMessage &message) const;
  void resend(const OldMessage &message);
  void resendAll();

  const TransitionInfo &info;
  const ChangedPlaces &places;
  OldPrograms &programs;
  const SpliceEffort effort;
  SplicedRoute &out;
  std::set<int64_t> changing; // whose programs change, whoever sends to heirs
  std::vector<Move> passedOn; // by heirs, to devices that have stayed
  /// Who has stayed and passed something on to a place that has changed: by
  /// flow, as if it had been there from the start.
  std::map<uint32_t, std::vector<Holding>> suppliers;
};

/// What has come where it goes to is no move any more.
void RouteSplicer::addOld(const OldMessage &message, const OldPiece &piece) {
  OldMove old;
  old.wave = message.wave;
  old.move.flow = piece.flow;
  old.move.source =
      piece.isForward ? places.heirOf(message.from) : message.from;
  old.move.destination = places.heirOf(message.to);
  old.move.box = piece.box;
  if (old.move.source != old.move.destination)
    out.old[piece.flow].push_back(old);
}

void RouteSplicer::addSupplier(const OldPiece &piece, int64_t device) {
  Holding holding;
  holding.shard.numLeading = ParamOp(info.flows[piece.flow].param).numLeading();
  for (unsigned d = 0; d < piece.box.rank(); ++d)
    holding.shard.dims.push_back({piece.box[d]});
  holding.devices = {device};
  suppliers[piece.flow].push_back(std::move(holding));
}

void RouteSplicer::readOld() {
  std::set<int64_t> senders;
  for (auto [device, heir] : places.heirs) {
    changing.insert({device, heir});
    const OldProgram *before = programs.of(device);
    if (!before)
      continue;
    for (const OldMessage &message : before->received)
      senders.insert(message.from);
    for (const OldMessage &message : before->sent)
      for (const OldPiece &piece : message.pieces)
        if (piece.isForward && !places.heirs.count(message.to)) {
          addOld(message, piece);
          changing.insert(message.to);
          passedOn.push_back({piece.flow, 0, heir, message.to, piece.box});
        }
  }
  changing.insert(senders.begin(), senders.end());
  for (int64_t sender : senders) {
    const OldProgram *before = programs.of(sender);
    if (!before)
      continue;
    for (const OldMessage &message : before->sent)
      for (const OldPiece &piece : message.pieces)
        if (places.heirs.count(message.to)) {
          addOld(message, piece);
          if (piece.isForward && !places.heirs.count(sender))
            addSupplier(piece, sender);
        }
  }
}

/// Of a holding, what heirs have of it.
void RouteSplicer::addWants(uint32_t flow, const Holding &holding,
                            std::vector<Box> &wanted) {
  Holding own;
  for (int64_t device : holding.devices)
    if (places.isHeir(device))
      own.devices.push_back(device);
  if (own.devices.empty())
    return;
  own.shard = holding.shard;
  appendRegions(own.shard, info.shapeOf(flow), wanted);
  out.wants->flows[flow].destination.push_back(std::move(own));
}

/// A holding by those of its devices whose programs change anyhow; by all where
/// there are none.
Holding RouteSplicer::ofThoseThatChange(const Holding &holding) const {
  Holding out;
  for (int64_t device : holding.devices)
    if (changing.count(device))
      out.devices.push_back(device);
  if (out.devices.empty())
    return holding;
  out.shard = holding.shard;
  return out;
}

/// Of the holdings of a flow, those that have something of the wanted boxes.
std::vector<Holding>
RouteSplicer::holdingsOf(uint32_t flow, const std::vector<Box> &wanted) const {
  const std::vector<Holding> &all = info.flows[flow].source;
  std::vector<Box> boxes;
  std::vector<size_t> numbers; // of their holdings
  for (size_t i = 0; i < all.size(); ++i) {
    appendRegions(all[i].shard, info.shapeOf(flow), boxes);
    numbers.resize(boxes.size(), i);
  }
  std::set<size_t> wantedOnes;
  for (auto [box, want] : overlappingPairs(boxes, wanted))
    wantedOnes.insert(numbers[box]);
  std::vector<Holding> out;
  for (size_t i : wantedOnes)
    out.push_back(effort.asksFew ? ofThoseThatChange(all[i]) : all[i]);
  return out;
}

/// The transition, cut to what heirs want and who has that.
void RouteSplicer::cutToWants() {
  out.wants = std::make_unique<TransitionInfo>(info.withoutShards());
  for (uint32_t flow = 0; flow < info.flows.size(); ++flow) {
    std::vector<Box> wanted;
    for (const Holding &holding : info.flows[flow].destination)
      addWants(flow, holding, wanted);
    std::vector<Holding> &source = out.wants->flows[flow].source;
    if (!wanted.empty())
      source = holdingsOf(flow, wanted);
    for (Holding &supplier : suppliers[flow])
      source.push_back(std::move(supplier));
  }
}

/// What stays at the ports of all who have something that heirs want.
std::vector<TimedMessage> RouteSplicer::aroundWants() const {
  std::set<int64_t> devices;
  for (const FlowInfo &flow : out.wants->flows)
    for (const auto *side : {&flow.source, &flow.destination})
      for (const Holding &holding : *side)
        devices.insert(holding.devices.begin(), holding.devices.end());
  std::vector<TimedMessage> messages;
  forEachMessageOf(devices, programs, [&](const OldMessage &message) {
    int64_t bytes =
        stayingBytes(stayingPart(places, message), places, info, message);
    if (bytes > 0)
      messages.push_back({message.wave, message.from, message.to, bytes});
  });
  return messages;
}

std::optional<std::string> RouteSplicer::solve() {
  auto cells = out.wants->flowCells();
  if (failed(cells))
    return "the wants of the changed devices have too many pieces";
  RoutingProblem problem(**cells, info.cluster, info.stagingLimit);
  if (problem.hole() || problem.check())
    return "the wants of the changed devices cannot be routed alone";
  RouterOptions options;
  options.old = &out.old;
  if (effort.comparesRoutes)
    options.seconds = [&](const std::vector<Move> &moves) {
      return routeSeconds(problem, moves);
    };
  std::vector<TimedMessage> around;
  if (effort.looksAtPorts) {
    around = aroundWants();
    if (!programs.problem().empty())
      return programs.problem();
    options.around = &around;
  }
  Routing routing;
  if (auto error = reroute(problem, options, routing))
    return error;
  out.moves = std::move(routing.moves);
  out.locals = std::move(routing.locals);
  out.lowerBound = problem.lowerBound();
  return std::nullopt;
}

/// What its sender holds at the source, for who has stayed and does not pass it
/// on.
bool RouteSplicer::mayBeResent(const OldMessage &message) const {
  return std::none_of(
      message.pieces.begin(), message.pieces.end(), [&](const OldPiece &piece) {
        return piece.isForward || isChanged(places, message, piece) ||
               isPassedOn({piece.flow, 0, message.from, message.to, piece.box},
                          places, programs);
      });
}

void RouteSplicer::resend(const OldMessage &message) {
  if (!mayBeResent(message) ||
      !out.resent.insert({message.wave, message.from, message.to}).second)
    return;
  for (const OldPiece &piece : message.pieces) {
    Move move = {piece.flow, 0, message.from, message.to, piece.box};
    out.moves.push_back(move);
    out.old[piece.flow].push_back({move, message.wave});
  }
}

void RouteSplicer::resendAll() {
  std::set<int64_t> resenders = effort.resenders;
  if (effort.resends)
    for (auto [before, now] : places.heirs)
      resenders.insert({before, now});
  for (int64_t device : resenders)
    if (const OldProgram *program = programs.of(device))
      for (const OldMessage &message : program->sent)
        resend(message);
}

std::optional<std::string> RouteSplicer::run() {
  readOld();
  if (!programs.problem().empty())
    return programs.problem();
  cutToWants();
  if (auto error = solve())
    return error;
  resendAll();
  std::stable_sort(out.moves.begin(), out.moves.end(),
                   [](const Move &a, const Move &b) { return a.hop < b.hop; });
  uint32_t last = out.moves.empty() ? 0 : out.moves.back().hop;
  for (Move &move : passedOn) {
    move.hop = last + 1;
    out.moves.push_back(std::move(move));
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Waves
//===----------------------------------------------------------------------===//

/// The first wave in which a device may send a box that it has got, if it has
/// not its first from this route.
int32_t firstWaveFor(const Move &move, const ChangedPlaces &places,
                     OldPrograms &programs) {
  bool isChanged =
      places.heirs.count(move.source) > 0 || places.isHeir(move.source);
  const OldProgram *sender = isChanged ? nullptr : programs.of(move.source);
  int32_t first = 0;
  if (!sender)
    return first;
  for (const OldMessage &message : llvm::reverse(sender->received)) {
    if (message.wave < first)
      continue;
    for (const OldPiece &piece : message.pieces)
      if (piece.flow == move.flow && overlaps(piece.box, move.box))
        first = std::max(first, message.wave + 1);
  }
  return first;
}

} // namespace

int64_t stayingBytes(StayingPart part, const ChangedPlaces &places,
                     const TransitionInfo &info, const OldMessage &message) {
  if (part != StayingPart::Some)
    return part == StayingPart::All ? message.bytes : 0;
  int64_t bytes = 0;
  for (const OldPiece &piece : message.pieces)
    if (!isChanged(places, message, piece))
      bytes +=
          piece.box.volume() * info.flowWidths()[piece.flow].bytesPerElement;
  return bytes;
}

std::optional<std::string> spliceRoute(const TransitionInfo &info,
                                       const ChangedPlaces &places,
                                       OldPrograms &programs,
                                       const SpliceEffort &effort,
                                       SplicedRoute &out) {
  return RouteSplicer(info, places, programs, effort, out).run();
}

std::set<int64_t> someOthers(const OldPrograms &programs,
                             const std::set<int64_t> &devices) {
  constexpr size_t kMost = 64;
  const std::vector<uint32_t> &all = programs.devices();
  std::set<int64_t> out;
  size_t step = std::max<size_t>(all.size() / kMost, 1);
  for (size_t i = 0; i * step < all.size(); ++i) {
    int64_t device = all[std::min(i * step + i % step, all.size() - 1)];
    if (!devices.count(device))
      out.insert(device);
  }
  return out;
}

/// By what stays, as far as some devices show.
static std::vector<bool> usedWaves(const WavesAround &around,
                                   OldPrograms &programs,
                                   const std::set<int64_t> &devices) {
  std::vector<bool> out;
  auto use = [&](int32_t wave) {
    if (size_t(wave) >= out.size())
      out.resize(size_t(wave) + 1);
    out[size_t(wave)] = true;
  };
  for (const TimedMessage &message : around.messages)
    use(message.wave);
  forEachMessageOf(
      someOthers(programs, devices), programs, [&](const OldMessage &message) {
        if (!devices.count(message.from) && !devices.count(message.to))
          use(message.wave);
      });
  return out;
}

std::optional<std::string>
spliceWaves(const TransitionInfo &info, const ChangedPlaces &places,
            OldPrograms &programs, const std::set<int64_t> &devices,
            const SplicedRoute &route, SplicedWaves &out) {
  WaveProblem problem;
  problem.moves = route.moves;
  problem.elementBytes = elementBytes(info.flowWidths());
  problem.cluster = info.cluster;
  problem.stagingBytes = info.stagingLimit;
  WavesAround around;
  forEachMessageOf(devices, programs, [&](const OldMessage &message) {
    int64_t bytes = stayingBytes(stayingPart(places, route, message), places,
                                 info, message);
    around.numWaves =
        std::max(around.numWaves, std::min(message.wave, INT32_MAX - 1) + 1);
    if (bytes > 0)
      around.messages.push_back(
          {message.wave, message.from, message.to, bytes});
  });
  around.firstWave = [&](const Move &move) {
    return firstWaveFor(move, places, programs);
  };
  around.isPassedOn = [&](const Move &move) {
    return isPassedOn(move, places, programs);
  };
  around.isLoose = !route.resent.empty();
  WaveOptions options;
  options.old = &route.old;
  options.around = &around;
  KeptSchedule kept;
  if (auto error = reschedule(problem, options, kept))
    return error;
  out.moves = std::move(kept.schedule.moves);
  out.firstBehind = around.numWaves;
  out.bytesInWave = kept.bytesInWave;
  FilledGaps gaps = fillGaps(usedWaves(around, programs, devices),
                             around.firstWave, out.moves);
  out.hasGaps = gaps.someLeft;
  if (gaps.hasMoved)
    out.bytesInWave = bytesInOldWaves(problem, route.old, out.moves);
  return std::nullopt;
}

} // namespace dt
