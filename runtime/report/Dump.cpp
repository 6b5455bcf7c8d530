//===- Dump.cpp - One device's program, readable --------------------------===//

#include "dtrt/report/Dump.h"

#include "ReportText.h"
#include "ShardLines.h"

#include "dtrt/format/LocalWork.h"
#include "dtrt/format/ShardView.h"
#include "dtrt/format/StayingStates.h"
#include "dtrt/format/Text.h"
#include "dtrt/format/Views.h"
#include "dtrt/report/OutputFormat.h"

#include <nlohmann/json.hpp>

#include <ostream>

namespace dtrt {

namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> stateNames(const Family &family, uint64_t states) {
  std::vector<std::string> names;
  for (unsigned state : statesOf(states))
    names.push_back(family.states[state].name);
  return names;
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

/// Per leading dim, the numbers in the names of the tensors held.
Json numbersHeld(const std::vector<LeadingDim> &leading,
                 const ShardRecord &shard) {
  Json numbers = Json::array();
  for (size_t dim = 0; dim < leading.size(); ++dim) {
    Json list = Json::array();
    for (const Interval &interval : shard.dims[dim])
      for (int64_t i = interval.lo; i < interval.hi; ++i)
        list.push_back(leading[dim].number(i));
    numbers.push_back(std::move(list));
  }
  return numbers;
}

Json intervalsJson(const std::vector<std::vector<Interval>> &dims) {
  Json out = Json::array();
  for (const auto &intervals : dims) {
    Json list = Json::array();
    for (const Interval &interval : intervals)
      list.push_back({interval.lo, interval.hi});
    out.push_back(std::move(list));
  }
  return out;
}

/// The side's own tensor: its names' numbers, shape, and what the shard has.
Json viewJson(const PlanCommon &common, const ShardRecord &shard) {
  const NamedView &view = common.views[shard.view];
  OwnPart part = ownPart(common, shard);
  Json out = {{"name", view.name},
              {"numbers", numbersHeld(view.leading, shard)},
              {"shape", part.fullShape},
              {"dims", intervalsJson(part.dims)}};
  if (!view.order.isIdentity())
    out["permute"] = ownDims(view.dims, view.order);
  if (!view.parts.empty())
    out["parts"] = view.parts;
  const Family &family = common.families[view.family];
  for (size_t state = 0; state < view.fill.size(); ++state)
    if (view.fill[state] != 0)
      out["fill"][family.states[state].name] = hexText(view.fill[state]);
  return out;
}

Json shardJson(const PlanCommon &common, const ShardRecord &shard, Side side) {
  const Family &family = common.families[shard.family];
  Json out = {
      {"family", family.name},
      {"numbers", numbersHeld(family.leading, shard)},
      {"states", stateNames(family, storedStates(family, shard.states, side))},
      {"dims", intervalsJson(shard.dims)}};
  if (shard.flat)
    out["range"] = {shard.range.lo, shard.range.hi};
  if (shard.view != kNoView)
    out["view"] = viewJson(common, shard);
  return out;
}

Json segmentJson(const PlanCommon &common, const Segment &segment) {
  const Family &family = common.families[segment.family];
  Json out = {{"family", family.name},
              {"states", stateNames(family, segment.states)}};
  if (segment.shard != kNoShard) {
    out["side"] = sideName(segment.side);
    out["shard"] = segment.shard;
  }
  out["offset"] = segment.offset;
  out["size"] = segment.size;
  return out;
}

Json messageJson(const PlanCommon &common, const Message &message) {
  Json out = {{"kind", message.receive ? "receive" : "send"},
              {"peer", message.peer},
              {"bytes", message.bytes}};
  if (message.direct)
    out["segment"] = segmentJson(common, message.segment);
  else
    out["slot"] = message.slot;
  return out;
}

Json collectiveJson(const PlanCommon &common, const GroupCollective &call) {
  Json out = {{"kind", collectiveName(call.kind)},
              {"members", common.memberSets[call.members]},
              {"block_bytes", call.blockBytes},
              {"give_slot", call.giveSlot},
              {"get_slot", call.getSlot}};
  if (call.kind == CollectiveKind::Broadcast)
    out["root"] = call.root;
  return out;
}

Json instructionJson(const PlanCommon &common, const Instruction &from,
                     const std::vector<uint64_t> &staying) {
  Json out = {{"op", opcodeName(from.op)}, {"wave", from.wave}};
  if (namesStaging(from.op)) {
    out["slot"] = from.slot;
    out["bytes"] = from.bytes;
  }
  if (from.op == Opcode::Copy || from.op == Opcode::Zero)
    out["bytes"] = localBytes(common, from, staying);
  if (from.collective)
    out["collective"] = collectiveJson(common, *from.collective);
  for (const Segment &segment : from.segments)
    out["segments"].push_back(segmentJson(common, segment));
  for (const Message &message : from.messages)
    out["messages"].push_back(messageJson(common, message));
  return out;
}

Json programJson(const PlanCommon &common, const RankProgram &program) {
  Json out = {{"device", program.device},
              {"source_rank", program.sourceRank},
              {"destination_rank", program.destinationRank},
              {"staging_bytes", program.stagingBytes}};
  out["source"] = out["destination"] = out["instructions"] = Json::array();
  std::vector<uint64_t> staying = stayingMasks(common, program);
  for (const ShardRecord &shard : program.source)
    out["source"].push_back(shardJson(common, shard, Side::Source));
  for (size_t i = 0; i < program.destination.size(); ++i) {
    const ShardRecord &shard = program.destination[i];
    Json row = shardJson(common, shard, Side::Destination);
    if (staying[i])
      row["stays"] = stateNames(common.families[shard.family], staying[i]);
    out["destination"].push_back(std::move(row));
  }
  for (const Instruction &instruction : program.instructions)
    out["instructions"].push_back(
        instructionJson(common, instruction, staying));
  return out;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

std::string rangeText(int64_t lo, int64_t hi) {
  return dtrt::rangeText(Interval{lo, hi});
}

std::string boxText(const PlanCommon &common, const Segment &segment) {
  const Family &family = common.families[segment.family];
  std::string text =
      family.name + " " + statesText(family, segment.states) + " ";
  for (size_t dim = 0; dim < segment.size.size(); ++dim)
    text +=
        rangeText(segment.offset[dim], segment.offset[dim] + segment.size[dim]);
  return text;
}

/// What Create and Release name: members, and elements of their storage.
std::string storageText(const PlanCommon &common, const Segment &segment) {
  const Family &family = common.families[segment.family];
  std::string text =
      family.name + " " + statesText(family, segment.states) + " ";
  for (size_t dim = 0; dim < family.numLeading(); ++dim)
    text +=
        rangeText(segment.offset[dim], segment.offset[dim] + segment.size[dim]);
  Interval elements = storageRange(family, segment);
  return text + " elements " + rangeText(elements.lo, elements.hi);
}

std::string placeText(const Segment &segment) {
  if (segment.shard == kNoShard)
    return "of no shard";
  return std::string(sideName(segment.side)) + " #" +
         std::to_string(segment.shard);
}

void writeMessage(const PlanCommon &common, const Message &message,
                  std::ostream &out) {
  out << "       " << (message.receive ? "receive from " : "send to ")
      << message.peer << ": " << message.bytes << " bytes, ";
  if (message.direct)
    out << placeText(message.segment) << " " << boxText(common, message.segment)
        << "\n";
  else
    out << "staging "
        << rangeText(int64_t(message.slot),
                     int64_t(message.slot + message.bytes))
        << "\n";
}

void writeCopies(const PlanCommon &common, const Instruction &copy,
                 const std::vector<uint64_t> &staying, std::ostream &out) {
  for (size_t i = 0; i + 1 < copy.segments.size(); i += 2) {
    const Segment &from = copy.segments[i], &to = copy.segments[i + 1];
    uint64_t stays = to.states & staying[to.shard];
    out << "       " << boxText(common, from) << " " << placeText(from)
        << " -> " << placeText(to);
    if (stays)
      out << ", where " << statesText(common.families[to.family], stays)
          << " stays";
    out << "\n";
  }
}

void writeCall(const PlanCommon &common, const GroupCollective &call,
               std::ostream &out) {
  out << " as a library's "
      << callText(common, call.kind, call.members, call.root) << ", blocks of "
      << call.blockBytes << " bytes";
}

void writeInstruction(const PlanCommon &common, const Instruction &from,
                      const std::vector<uint64_t> &staying, std::ostream &out) {
  out << opcodeName(from.op);
  if (from.wave >= 0)
    out << " wave " << from.wave;
  if (namesStaging(from.op))
    out << " staging "
        << rangeText(int64_t(from.slot), int64_t(from.slot + from.bytes));
  if (from.collective)
    writeCall(common, *from.collective, out);
  out << "\n";
  if (from.op == Opcode::Copy)
    return writeCopies(common, from, staying, out);
  bool isStorage = from.op == Opcode::Create || from.op == Opcode::Release;
  for (const Segment &segment : from.segments)
    out << "       " << placeText(segment) << " "
        << (isStorage ? storageText(common, segment) : boxText(common, segment))
        << "\n";
  for (const Message &message : from.messages)
    writeMessage(common, message, out);
}

} // namespace

void writeProgram(const PlanCommon &common, const RankProgram &program,
                  OutputFormat format, std::ostream &out) {
  if (format == OutputFormat::Json) {
    out << programJson(common, program).dump(2) << "\n";
    return;
  }
  out << "device " << program.device << ": source rank " << program.sourceRank
      << ", destination rank " << program.destinationRank << ", staging "
      << program.stagingBytes << " bytes\n";
  writeShards(common, Side::Source, program.source, out);
  writeShards(common, Side::Destination, program.destination, out);
  std::vector<uint64_t> staying = stayingMasks(common, program);
  out << "program:\n";
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    out << "  " << i << ": ";
    writeInstruction(common, program.instructions[i], staying, out);
  }
}

Status writeProgram(const PlanReader &plan, uint32_t device,
                    OutputFormat format, std::ostream &out) {
  auto program = plan.program(device);
  DTRT_RETURN_IF_ERROR(program);
  writeProgram(plan.common(), *program, format, out);
  return {};
}

Status writePrograms(const PlanReader &plan, OutputFormat format,
                     std::ostream &out) {
  for (uint32_t device : plan.devices())
    DTRT_RETURN_IF_ERROR(writeProgram(plan, device, format, out));
  return {};
}

} // namespace dtrt
