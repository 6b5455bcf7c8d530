//===- SplicePrograms.cpp - Programs of the devices that change -----------===//
//
// As any plan is emitted, of the messages that these devices have a part in.
// Who keeps its place keeps its local work, as the old program has it.
//
//===----------------------------------------------------------------------===//

#include "SplicePrograms.h"

#include "Threads.h"
#include "TransportReading.h"
#include "dt/Scheduling/Staging.h"

#include <tuple>

using namespace mlir;

namespace dt {

namespace {

/// What one message carries: new pieces [first, last), or what stays of an old
/// one.
struct MessagePart {
  int32_t wave = 0;
  int64_t source = 0, destination = 0;
  size_t first = 0, last = 0;
  const OldMessage *old = nullptr; // null: new pieces
  bool isWhole = true;             // all of the old one

  auto message() const { return std::tie(wave, source, destination); }
};

class ProgramSplicer {
public:
  ProgramSplicer(const TransitionInfo &info, const ChangedPlaces &places,
                 OldPrograms &programs, const std::set<int64_t> &devices,
                 const SplicedRoute &route)
      : info(info), places(places), programs(programs), devices(devices),
        route(route), part(info.withoutShards()) {}

  std::optional<std::string> run(const SplicedWaves &waves,
                                 std::map<int64_t, dtrt::RankProgram> &out);

private:
  using Kind = PlanStep::Kind;

  void cutToDevices();
  std::vector<ScheduledMove> inPackingOrder(const SplicedWaves &waves) const;
  std::vector<MessagePart> partsOf(const std::vector<ScheduledMove> &news);
  std::vector<ScheduledMove> collect(const SplicedWaves &waves);
  std::optional<std::string> assign(const std::vector<ScheduledMove> &moves);
  void addLocals();
  void addDerived();
  PlanPiece pieceOf(uint32_t flow, int64_t from, int64_t to,
                    const Box &box) const;
  void addStep(Kind kind, size_t firstPiece, size_t firstSlot,
               int32_t wave = -1);
  void addLocalStep(Kind kind, std::vector<PlanPiece> pieces);
  void addWaves(const std::vector<ScheduledMove> &moves,
                const std::vector<PlanMessage> &messages);
  bool addOldWork(int64_t device, dtrt::RankProgram &program);

  const TransitionInfo &info;
  const ChangedPlaces &places;
  OldPrograms &programs;
  const std::set<int64_t> &devices;
  const SplicedRoute &route;
  TransitionInfo part; // what the devices have
  StoredFlows stored;  // of it
  TransportPlan plan;
};

/// What each side has on the devices.
void ProgramSplicer::cutToDevices() {
  auto cut = [&](const std::vector<Holding> &all, std::vector<Holding> &out) {
    for (const Holding &holding : all) {
      Holding own;
      for (int64_t device : holding.devices)
        if (devices.count(device))
          own.devices.push_back(device);
      if (own.devices.empty())
        continue;
      own.shard = holding.shard;
      out.push_back(std::move(own));
    }
  };
  for (uint32_t i = 0; i < info.flows.size(); ++i) {
    cut(info.flows[i].source, part.flows[i].source);
    cut(info.flows[i].destination, part.flows[i].destination);
  }
}

std::vector<ScheduledMove>
ProgramSplicer::inPackingOrder(const SplicedWaves &waves) const {
  std::vector<ScheduledMove> out = waves.moves;
  auto key = [&](const ScheduledMove &piece) {
    int64_t width = info.flowWidths()[piece.move.flow].bytesPerElement;
    return std::make_tuple(piece.wave, piece.move.source,
                           piece.move.destination,
                           narrowness(piece.move.box.volume() * width));
  };
  std::stable_sort(out.begin(), out.end(),
                   [&](const ScheduledMove &a, const ScheduledMove &b) {
                     return key(a) < key(b);
                   });
  return out;
}

/// By message, of each what is new first.
std::vector<MessagePart>
ProgramSplicer::partsOf(const std::vector<ScheduledMove> &news) {
  std::vector<MessagePart> out;
  for (size_t i = 0; i < news.size(); ++i) {
    const auto &[move, wave, relay] = news[i];
    MessagePart part = {wave, move.source, move.destination, i, i};
    if (out.empty() || out.back().message() != part.message())
      out.push_back(part);
    out.back().last = i + 1;
  }
  forEachMessageOf(devices, programs, [&](const OldMessage &message) {
    StayingPart stays = stayingPart(places, route, message);
    if (stays != StayingPart::None)
      out.push_back({message.wave, message.from, message.to, 0,
                     message.pieces.size(), &message,
                     stays == StayingPart::All});
  });
  std::stable_sort(out.begin(), out.end(),
                   [](const MessagePart &a, const MessagePart &b) {
                     return a.message() < b.message();
                   });
  return out;
}

/// All messages of the devices: those that are new in packing order, the others
/// as they were.
std::vector<ScheduledMove> ProgramSplicer::collect(const SplicedWaves &waves) {
  std::vector<ScheduledMove> news = inPackingOrder(waves), out;
  std::vector<MessagePart> parts = partsOf(news);
  size_t most = 0;
  for (const MessagePart &part : parts)
    most += part.last - part.first;
  out.reserve(most);
  for (const MessagePart &part : parts) {
    if (!part.old) {
      std::move(news.begin() + long(part.first), news.begin() + long(part.last),
                std::back_inserter(out));
      continue;
    }
    for (const OldPiece &piece : part.old->pieces)
      if (part.isWhole || !isChanged(places, *part.old, piece))
        out.push_back(
            {{piece.flow, 0, part.source, part.destination, piece.box},
             part.wave});
  }
  return out;
}

PlanPiece ProgramSplicer::pieceOf(uint32_t flow, int64_t from, int64_t to,
                                  const Box &box) const {
  PlanPiece out;
  out.flow = out.fedBy = flow;
  out.step = uint32_t(plan.steps.size());
  out.from = from;
  out.to = to;
  out.bytes = box.volume() * info.flowWidths()[flow].bytesPerElement;
  out.box = box;
  out.atSource = stored.source.findNumber(flow, from, box).has_value();
  return out;
}

/// Of the pieces and slots from these on.
void ProgramSplicer::addStep(Kind kind, size_t firstPiece, size_t firstSlot,
                             int32_t wave) {
  PlanStep &step = plan.steps.emplace_back();
  step.kind = kind;
  step.wave = wave;
  step.first = firstPiece;
  step.last = plan.pieces.size();
  step.firstSlot = firstSlot;
  step.lastSlot = plan.slots.size();
}

void ProgramSplicer::addLocalStep(Kind kind, std::vector<PlanPiece> pieces) {
  size_t first = plan.pieces.size();
  std::move(pieces.begin(), pieces.end(), std::back_inserter(plan.pieces));
  addStep(kind, first, plan.slots.size());
}

/// What heirs copy, and the padding that they zero.
void ProgramSplicer::addLocals() {
  std::vector<PlanPiece> copies, zeros;
  for (const LocalMove &local : route.locals)
    copies.push_back(
        pieceOf(local.flow, local.device, local.device, local.box));
  addLocalStep(Kind::Copy, std::move(copies));
  auto numFlows = uint32_t(info.flows.size());
  for (uint32_t flow = 0; flow < numFlows; ++flow)
    for (const Holding &holding : route.wants->flows[flow].destination)
      for (const Box &box : padding(holding.shard, info.shapeOf(flow)))
        for (int64_t device : holding.devices) {
          zeros.push_back(pieceOf(flow, device, device, box));
          zeros.back().flow = numFlows + flow;
        }
  addLocalStep(Kind::Zero, std::move(zeros));
}

/// What heirs make of what they have got.
void ProgramSplicer::addDerived() {
  for (uint32_t flow = 0; flow < info.flows.size(); ++flow) {
    std::vector<PlanPiece> pieces;
    for (const LocalMove &made : route.wants->derivedPieces(flow)) {
      pieces.push_back(pieceOf(flow, made.device, made.device, made.box));
      pieces.back().fedBy = info.flows[flow].derivedFrom.value_or(flow);
    }
    addLocalStep(Kind::Derive, std::move(pieces));
  }
}

void ProgramSplicer::addWaves(const std::vector<ScheduledMove> &moves,
                              const std::vector<PlanMessage> &messages) {
  for (size_t first = 0, last = 0; first < messages.size(); first = last) {
    int32_t wave = messages[first].wave;
    while (last < messages.size() && messages[last].wave == wave)
      ++last;
    size_t firstPiece = plan.pieces.size(), firstSlot = plan.slots.size();
    for (size_t m = first; m < last; ++m) {
      const PlanMessage &message = messages[m];
      for (size_t i = message.first; i < message.last; ++i) {
        const Move &move = moves[i].move;
        plan.pieces.push_back(
            pieceOf(move.flow, move.source, move.destination, move.box));
        plan.pieces.back().wave = wave;
      }
      plan.slots.push_back({0, wave, message.source, message.destination,
                            /*receive=*/false, message.sendSlot,
                            message.bytes});
      plan.slots.push_back({0, wave, message.destination, message.source,
                            /*receive=*/true, message.receiveSlot,
                            message.bytes});
    }
    addStep(Kind::Wave, firstPiece, firstSlot, wave);
  }
}

/// Who has kept its place has the copies, derived states and padding that it
/// had; its shards are numbered as they were.
bool ProgramSplicer::addOldWork(int64_t device, dtrt::RankProgram &program) {
  const OldProgram *before = programs.of(device);
  if (!before || !haveSameShards(*before->program, program))
    return false;
  const std::vector<dtrt::Instruction> &old = before->program->instructions;
  std::vector<dtrt::Instruction> all(old.begin(),
                                     old.begin() + long(before->firstWave));
  for (dtrt::Instruction &instruction : program.instructions)
    all.push_back(std::move(instruction));
  all.insert(all.end(), old.begin() + long(before->lastWave), old.end());
  program.instructions = std::move(all);
  return true;
}

std::optional<std::string>
ProgramSplicer::run(const SplicedWaves &waves,
                    std::map<int64_t, dtrt::RankProgram> &out) {
  cutToDevices();
  stored = part.stored();
  plan.flows = planFlowsOf(part);
  std::vector<ScheduledMove> moves = collect(waves);
  plan.pieces.reserve(moves.size() + route.locals.size());
  std::vector<PlanMessage> messages = formMessages(moves, info.flowWidths());
  for (auto [device, bytes] : assignSlots(runsOf(moves, stored), messages))
    if (devices.count(device) && bytes > info.stagingLimit)
      return "the changed devices need more staging than there is";
  addLocals();
  addWaves(moves, messages);
  addDerived();
  Worlds worlds = worldsOf(info);
  ProgramBuilder builder(plan, worlds);
  std::vector<int64_t> made;
  for (int64_t device : builder.devices())
    if (devices.count(device))
      made.push_back(device);
  std::vector<dtrt::RankProgram> built(made.size());
  forEachOnThreads(info.op().getContext(), made.size(),
                   [&](size_t i) { built[i] = builder.build(made[i]); });
  for (size_t i = 0; i < made.size(); ++i) {
    bool isOld =
        worlds.destinationRank.count(made[i]) > 0 && !places.isHeir(made[i]);
    if (isOld && !addOldWork(made[i], built[i]))
      return "device " + std::to_string(made[i]) +
             " has other shards than it had";
    out[made[i]] = std::move(built[i]);
  }
  return std::nullopt;
}

bool isSameShard(const dtrt::ShardRecord &a, const dtrt::ShardRecord &b) {
  return a.family == b.family && a.states == b.states && a.dims == b.dims &&
         a.flat == b.flat && (!a.flat || a.range == b.range) &&
         a.view == b.view && a.order == b.order;
}

} // namespace

bool haveSameShards(const dtrt::RankProgram &a, const dtrt::RankProgram &b) {
  return a.sourceRank == b.sourceRank &&
         a.destinationRank == b.destinationRank &&
         std::equal(a.source.begin(), a.source.end(), b.source.begin(),
                    b.source.end(), isSameShard) &&
         std::equal(a.destination.begin(), a.destination.end(),
                    b.destination.begin(), b.destination.end(), isSameShard);
}

std::optional<std::string>
splicePrograms(const TransitionInfo &info, const ChangedPlaces &places,
               OldPrograms &programs, const std::set<int64_t> &devices,
               const SplicedRoute &route, const SplicedWaves &waves,
               std::map<int64_t, dtrt::RankProgram> &out) {
  return ProgramSplicer(info, places, programs, devices, route).run(waves, out);
}

} // namespace dt
