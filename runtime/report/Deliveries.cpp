//===- Deliveries.cpp - Every region that arrives -------------------------===//

#include "dtrt/report/Deliveries.h"
#include "dtrt/format/ShardView.h"
#include "dtrt/format/Views.h"

#include <nlohmann/json.hpp>

#include <iterator>
#include <ostream>

namespace dtrt {

namespace {

/// Who sent the bytes and when.
struct Carrier {
  uint32_t source = 0;
  int32_t wave = -1;
  const GroupCollective *call = nullptr; // of a library, that brought them
};

std::string numbersFrom(const DimVector &numbers, unsigned from) {
  std::string text = "[";
  for (size_t i = from; i < numbers.size(); ++i)
    text += (i > from ? ", " : "") + std::to_string(numbers[i]);
  return text + "]";
}

class DeliveryWriter {
public:
  DeliveryWriter(const PlanCommon &common, const RankProgram &program,
                 std::ostream &out)
      : common(common), program(program), out(out) {}

  Status write() {
    for (const Instruction &instruction : program.instructions) {
      if (instruction.op == Opcode::Copy)
        for (size_t i = 1; i < instruction.segments.size(); i += 2)
          deliver(instruction.segments[i], {program.device, -1});
      else if (instruction.op == Opcode::Group)
        receive(instruction);
      else if (instruction.op == Opcode::Unpack ||
               instruction.op == Opcode::Relay)
        DTRT_RETURN_IF_ERROR(take(instruction));
    }
    return {};
  }

private:
  struct Arrival {
    uint64_t end = 0;
    Carrier carrier;
  };

  void receive(const Instruction &group) {
    for (const Message &message : group.messages) {
      Carrier carrier = {message.peer, group.wave,
                         group.collective ? &*group.collective : nullptr};
      if (message.receive && message.direct)
        deliver(message.segment, carrier);
      else if (message.receive)
        arrive(message.slot, message.slot + message.bytes, carrier);
    }
  }

  /// A message takes the place of all that came there before it.
  void arrive(uint64_t slot, uint64_t end, const Carrier &carrier) {
    auto first = arrivals.upper_bound(slot);
    if (first != arrivals.begin() && std::prev(first)->second.end > slot)
      --first;
    arrivals.erase(first, arrivals.lower_bound(end));
    arrivals[slot] = {end, carrier};
  }

  /// What is unpacked, or comes to be sent on.
  Status take(const Instruction &instruction) {
    const bool isRelay = instruction.op == Opcode::Relay;
    uint64_t at = instruction.slot;
    for (const Segment &segment : instruction.segments) {
      uint64_t end =
          at + segmentBytes(common.families[segment.family], segment);
      auto arrival = arrivals.upper_bound(at);
      if (arrival == arrivals.begin() || (--arrival)->second.end < end)
        return makeError("device ", program.device,
                         isRelay ? " relays" : " unpacks", " bytes [", at, ", ",
                         end, ") that no message brought");
      deliver(segment, arrival->second.carrier, isRelay);
      at = end;
    }
    return {};
  }

  /// One line per state and member of the segment.
  void deliver(const Segment &segment, const Carrier &carrier,
               bool isRelayed = false) {
    const Family &family = common.families[segment.family];
    unsigned leading = family.numLeading();
    std::string tail = ", \"src\": " + std::to_string(carrier.source) +
                       ", \"dst\": " + std::to_string(program.device) +
                       ", \"offset\": " + numbersFrom(segment.offset, leading) +
                       ", \"size\": " + numbersFrom(segment.size, leading) +
                       ", \"wave\": " + std::to_string(carrier.wave) +
                       (isRelayed ? ", \"relayed\": true" : "");
    if (carrier.call)
      tail += ", \"collective\": \"" +
              std::string(collectiveName(carrier.call->kind)) + "\"";
    auto before = ownOf(segment, Side::Source);
    auto after = ownOf(segment, Side::Destination);
    DimVector member(segment.offset.begin(), segment.offset.begin() + leading);
    std::vector<std::string> states;
    for (unsigned state : statesOf(segment.states))
      states.push_back(nlohmann::json(family.states[state].name).dump());
    do {
      std::string tensor = nlohmann::json(family.tensorName(member)).dump();
      std::string own = ownText("source", before, member) +
                        ownText("destination", after, member) + "}\n";
      for (const std::string &state : states)
        out << "{\"tensor\": " << tensor << ", \"state\": " << state << tail
            << own;
    } while (advance(member, segment));
  }

  /// The segment in a side's own tensor, where that is a view.
  std::optional<OwnBox> ownOf(const Segment &segment, Side side) const {
    return ownBox(common, side, segment.family, segment.offset, segment.size);
  }

  static std::string ownText(const char *side, const std::optional<OwnBox> &box,
                             const DimVector &member) {
    if (!box)
      return "";
    std::string tensor = nlohmann::json(box->view->tensorName(member)).dump();
    return std::string(", \"") + side + "\": {\"tensor\": " + tensor +
           ", \"offset\": " + numbersFrom(box->offset, 0) +
           ", \"size\": " + numbersFrom(box->size, 0) +
           (box->reshape.empty()
                ? ""
                : ", \"reshape\": " + numbersFrom(box->reshape, 0)) +
           "}";
  }

  /// Next member of the segment's leading box, row-major.
  static bool advance(DimVector &member, const Segment &segment) {
    for (size_t dim = member.size(); dim-- > 0;) {
      if (++member[dim] < segment.offset[dim] + segment.size[dim])
        return true;
      member[dim] = segment.offset[dim];
    }
    return false;
  }

  const PlanCommon &common;
  const RankProgram &program;
  std::ostream &out;
  std::map<uint64_t, Arrival> arrivals;
};

} // namespace

Status writeDeliveries(const PlanReader &plan, std::ostream &out) {
  for (uint32_t device : plan.devices()) {
    auto program = plan.program(device);
    DTRT_RETURN_IF_ERROR(program);
    DTRT_RETURN_IF_ERROR(DeliveryWriter(plan.common(), *program, out).write());
  }
  return {};
}

} // namespace dtrt
