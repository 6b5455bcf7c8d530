//===- OldPrograms.cpp - A few programs of an old plan --------------------===//

#include "OldPrograms.h"

#include <unordered_map>

using namespace mlir;

namespace dt {

namespace {

bool isLocal(dtrt::Opcode op) {
  return op == dtrt::Opcode::Copy || op == dtrt::Opcode::Zero;
}

/// Reads the messages of one program in their order.
class MessageReader {
public:
  using Add = llvm::function_ref<bool(const std::vector<dtrt::Segment> &,
                                      OldMessage &)>;
  MessageReader(OldProgram &out, Add add) : out(out), add(add) {}

  /// Whether all of it is what a plan without relays, collectives and flat
  /// memory has.
  bool read();

private:
  bool readGroup(const dtrt::Instruction &group);
  bool readEnd(const dtrt::Instruction &group, const dtrt::Message &message);
  bool readUnpack(const dtrt::Instruction &unpack);

  OldProgram &out;
  Add add;
  std::unordered_map<uint64_t, const dtrt::Instruction *> packed; // by slot
  std::unordered_map<uint64_t, size_t> waiting; // received, by slot
};

bool MessageReader::readEnd(const dtrt::Instruction &group,
                            const dtrt::Message &message) {
  int64_t own = out.program->device, peer = message.peer;
  auto &ends = message.receive ? out.received : out.sent;
  OldMessage &end = ends.emplace_back();
  end.wave = group.wave;
  end.from = message.receive ? peer : own;
  end.to = message.receive ? own : peer;
  if (message.direct)
    return add({message.segment}, end);
  if (message.receive)
    return waiting.emplace(message.slot, ends.size() - 1).second;
  auto pack = packed.find(message.slot);
  return pack != packed.end() && pack->second->bytes == message.bytes &&
         add(pack->second->segments, end);
}

bool MessageReader::readGroup(const dtrt::Instruction &group) {
  for (const dtrt::Message &message : group.messages)
    if (!readEnd(group, message))
      return false;
  packed.clear();
  return !group.collective;
}

/// A message is unpacked by one instruction.
bool MessageReader::readUnpack(const dtrt::Instruction &unpack) {
  auto found = waiting.find(unpack.slot);
  if (found == waiting.end())
    return false;
  OldMessage &end = out.received[found->second];
  waiting.erase(found);
  return add(unpack.segments, end);
}

bool MessageReader::read() {
  const std::vector<dtrt::Instruction> &all = out.program->instructions;
  for (out.firstWave = 0;
       out.firstWave < all.size() && isLocal(all[out.firstWave].op);)
    ++out.firstWave;
  out.lastWave = all.size();
  while (out.lastWave > out.firstWave && isLocal(all[out.lastWave - 1].op))
    --out.lastWave;
  for (size_t i = out.firstWave; i < out.lastWave; ++i) {
    const dtrt::Instruction &instruction = all[i];
    bool isFine = false;
    if (instruction.op == dtrt::Opcode::Pack)
      isFine = packed.emplace(instruction.slot, &instruction).second;
    else if (instruction.op == dtrt::Opcode::Unpack)
      isFine = readUnpack(instruction);
    else if (instruction.op == dtrt::Opcode::Group)
      isFine = readGroup(instruction);
    if (!isFine)
      return false;
  }
  return waiting.empty();
}

} // namespace

FlowNumbers::FlowNumbers(const TransitionInfo &info) {
  llvm::DenseMap<Operation *, uint32_t> families;
  for (auto [i, param] : llvm::enumerate(info.params))
    families[param] = uint32_t(i);
  for (auto [i, flow] : llvm::enumerate(info.flows))
    numbers[{families.lookup(flow.param), flow.states}] = uint32_t(i);
  for (const Flow &flow : info.flowWidths())
    bytesPerElement.push_back(flow.bytesPerElement);
}

std::shared_ptr<const ReadPrograms> readAhead(const TransitionInfo &info,
                                              const Replan &from) {
  OldPrograms programs(info, from);
  auto out = std::make_shared<ReadPrograms>(
      ReadPrograms{programs.flowNumbers(), /*programs=*/{}});
  for (uint32_t device : programs.devices())
    if (auto program = programs.find(device))
      out->programs.emplace(device, std::move(program));
  return out;
}

OldPrograms::OldPrograms(const TransitionInfo &info, const Replan &from)
    : plan(*from.plan), held(from.held.get()), flows(info),
      ahead(from.ahead && from.ahead->flows == flows ? from.ahead.get()
                                                     : nullptr) {}

Box boxOf(const dtrt::Segment &segment) {
  Box box(unsigned(segment.offset.size()));
  for (unsigned dim = 0; dim < box.rank(); ++dim)
    box[dim] = {segment.offset[dim], segment.offset[dim] + segment.size[dim]};
  return box;
}

bool OldPrograms::addPieces(const std::vector<dtrt::Segment> &segments,
                            OldMessage &out) {
  out.pieces.reserve(segments.size());
  for (const dtrt::Segment &segment : segments) {
    auto found = flows.numbers.find({segment.family, segment.states});
    if (found == flows.numbers.end())
      return false;
    uint32_t flow = found->second;
    bool isForward = segment.side == dtrt::Side::Destination;
    const OldPiece &piece =
        out.pieces.emplace_back(OldPiece{flow, boxOf(segment), isForward});
    out.bytes += piece.box.volume() * flows.bytesPerElement[flow];
    out.hasForwards |= isForward;
  }
  return true;
}

std::shared_ptr<const dtrt::RankProgram> OldPrograms::read(uint32_t device) {
  if (held)
    if (auto found = held->find(device); found != held->end())
      return found->second;
  auto program = plan.program(device);
  if (program.ok())
    return std::make_shared<dtrt::RankProgram>(std::move(*program));
  why = program.status().message();
  return nullptr;
}

std::shared_ptr<const OldProgram> OldPrograms::find(int64_t device) {
  if (ahead)
    if (auto known = ahead->programs.find(device);
        known != ahead->programs.end())
      return known->second;
  auto [place, isNew] = programs.try_emplace(device);
  if (!isNew)
    return place->second;
  auto known = llvm::lower_bound(plan.devices(), uint32_t(device));
  if (known == plan.devices().end() || *known != device)
    return nullptr;
  auto out = std::make_shared<OldProgram>();
  out->program = read(uint32_t(device));
  if (!out->program)
    return nullptr;
  auto add = [&](const std::vector<dtrt::Segment> &segments, OldMessage &end) {
    return addPieces(segments, end);
  };
  if (!MessageReader(*out, add).read()) {
    why = "the program of device " + std::to_string(device) +
          " does what this compiler would not";
    return nullptr;
  }
  return place->second = std::move(out);
}

} // namespace dt
