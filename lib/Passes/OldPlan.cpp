//===- OldPlan.cpp - A plan that was made before --------------------------===//
//
// What moved is read where it was sent: there the program says whether its
// device held it at the source or passed it on, so whose place in which world
// the sender had.
//
//===----------------------------------------------------------------------===//

#include "OldPlan.h"
#include "OldPrograms.h"
#include "Threads.h"

#include "dtrt/format/Text.h"

#include <map>
#include <unordered_map>

using namespace mlir;

namespace dt {

namespace {

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

using Shape = std::vector<int64_t>;
using Shapes = std::map<std::string, Shape>;

std::string shapeText(const Shape &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

/// Calls fn(index) for every index into a grid, row-major.
template <typename Fn> void forEachIndex(const Shape &counts, Fn fn) {
  Shape index(counts.size(), 0);
  for (;;) {
    fn(index);
    size_t dim = counts.size();
    while (dim > 0 && ++index[dim - 1] == counts[dim - 1])
      index[--dim] = 0;
    if (dim == 0)
      return;
  }
}

/// Tensors that a layout must have, by name. Sets of values, such as one for
/// each rank, may differ from plan to plan.
Shapes tensorsOf(const std::vector<dtrt::Family> &families) {
  Shapes out;
  for (const dtrt::Family &family : families) {
    if (family.partial)
      continue;
    Shape counts;
    for (const dtrt::LeadingDim &dim : family.leading)
      counts.push_back(dim.count);
    forEachIndex(counts, [&](const Shape &member) {
      out[family.tensorName(member)] = family.shape;
    });
  }
  return out;
}

Shapes tensorsOf(const std::vector<ParamOp> &params) {
  Shapes out;
  for (ParamOp param : params) {
    if (param.getPartial())
      continue;
    Shape shape = param.getShape().vec();
    Shape counts(shape.begin(), shape.begin() + param.numLeading());
    shape.erase(shape.begin(), shape.begin() + param.numLeading());
    forEachIndex(counts, [&](const Shape &member) {
      out[param.memberName(member)] = shape;
    });
  }
  return out;
}

/// The first tensor that one model has and the other has not, or differently.
std::string difference(const Shapes &now, const Shapes &old) {
  for (const auto &[name, shape] : now) {
    std::string tensor = "tensor '" + dtrt::shortened(name) + "'";
    auto found = old.find(name);
    if (found == old.end())
      return tensor + " is not in it";
    if (found->second != shape)
      return tensor + " is " + shapeText(found->second) + " in it, not " +
             shapeText(shape);
  }
  for (const auto &[name, shape] : old)
    if (!now.count(name))
      return "it has a tensor '" + dtrt::shortened(name) +
             "', and the request has none";
  return "";
}

bool isSameFamily(ParamOp param, const dtrt::Family &family) {
  unsigned leading = param.numLeading();
  ArrayRef<int64_t> shape = param.getShape();
  if (param.nameTemplate() != llvm::StringRef(family.name) ||
      leading != family.leading.size() ||
      shape.drop_front(leading) != ArrayRef<int64_t>(family.shape))
    return false;
  std::vector<Sequence> numbers = param.numbers();
  for (unsigned d = 0; d < leading; ++d)
    if (family.leading[d].first != numbers[d].first ||
        family.leading[d].step != numbers[d].step ||
        family.leading[d].list != numbers[d].list ||
        family.leading[d].count != shape[d])
      return false;
  return true;
}

/// Flows of the transition by family and states of the plan.
class FlowsOfPlan {
public:
  FlowsOfPlan(const TransitionInfo &info, const dtrt::PlanCommon &common);

  /// None where the transition has no such family, or no such group of states.
  std::optional<uint32_t> find(const dtrt::Segment &segment) const {
    auto found = flows.find({segment.family, segment.states});
    if (found == flows.end())
      return std::nullopt;
    return found->second;
  }
  size_t numFamilies() const { return families; }

private:
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> flows;
  size_t families = 0; // that both have
};

/// The states of a param as a mask of a family's; 0 where that lacks one.
uint64_t statesIn(const dtrt::Family &family, StatesAttr states,
                  uint64_t mask) {
  uint64_t out = 0;
  for (auto [i, entry] : llvm::enumerate(states.getEntries())) {
    if (!(mask >> i & 1))
      continue;
    llvm::StringRef name = entry.name.getValue();
    auto same = llvm::find_if(family.states, [&](const dtrt::StateInfo &state) {
      return llvm::StringRef(state.name) == name;
    });
    if (same == family.states.end())
      return 0;
    out |= uint64_t(1) << (same - family.states.begin());
  }
  return out;
}

FlowsOfPlan::FlowsOfPlan(const TransitionInfo &info,
                         const dtrt::PlanCommon &common) {
  // Families of other layers may have the same name.
  llvm::StringMap<std::vector<uint32_t>> byName;
  for (uint32_t i = 0; i < common.families.size(); ++i)
    byName[common.families[i].name].push_back(i);
  for (ParamOp param : info.params) {
    const std::vector<uint32_t> &named = byName[param.nameTemplate()];
    auto found = llvm::find_if(named, [&](uint32_t i) {
      return isSameFamily(param, common.families[i]);
    });
    if (found == named.end())
      continue;
    ++families;
    for (uint32_t flow = 0; flow < info.flows.size(); ++flow)
      if (info.flows[flow].param == param)
        if (uint64_t mask =
                statesIn(common.families[*found], info.flows[flow].allStates(),
                         info.flows[flow].states))
          flows[{*found, mask}] = flow;
  }
}

//===----------------------------------------------------------------------===//
// What moved
//===----------------------------------------------------------------------===//

/// Who has now the place that a device had in one world.
class Places {
public:
  /// The same device where worlds differ in size.
  Places(const std::vector<uint32_t> &before, const std::vector<int64_t> &now) {
    if (before.size() == now.size())
      for (size_t rank = 0; rank < now.size(); ++rank)
        devices[before[rank]] = now[rank];
  }
  int64_t now(uint32_t device) const {
    auto found = devices.find(device);
    return found == devices.end() ? int64_t(device) : found->second;
  }

private:
  std::unordered_map<uint32_t, int64_t> devices;
};

class MoveReader {
public:
  MoveReader(const TransitionInfo &info, const dtrt::PlanReader &plan,
             const FlowsOfPlan &flows)
      : info(info), plan(plan), flows(flows),
        source(plan.common().sourceDevices,
               devicesOf(info.sourceLayout(), tables)),
        destination(plan.common().destinationDevices,
                    devicesOf(info.destinationLayout(), tables)) {}

  /// In the order of devices, whatever threads there are.
  FailureOr<OldMoves> read() const;

private:
  std::vector<OldMove> sentBy(const dtrt::RankProgram &program) const;
  void add(const dtrt::RankProgram &program, uint32_t peer, int32_t wave,
           const dtrt::Segment &segment, std::vector<OldMove> &out) const;

  const TransitionInfo &info;
  const dtrt::PlanReader &plan;
  const FlowsOfPlan &flows;
  SymbolTableCollection tables;
  const Places source, destination;
};

void MoveReader::add(const dtrt::RankProgram &program, uint32_t peer,
                     int32_t wave, const dtrt::Segment &segment,
                     std::vector<OldMove> &out) const {
  auto flow = flows.find(segment);
  if (!flow)
    return;
  bool isForward = segment.side == dtrt::Side::Destination;
  OldMove old;
  old.wave = wave;
  old.move.flow = *flow;
  old.move.source = (isForward ? destination : source).now(program.device);
  old.move.destination = destination.now(peer);
  old.move.box = boxOf(segment);
  if (!old.move.box.empty())
    out.push_back(old);
}

std::vector<OldMove>
MoveReader::sentBy(const dtrt::RankProgram &program) const {
  std::vector<OldMove> out;
  std::unordered_map<uint64_t, const dtrt::Instruction *> packed; // by slot
  for (const dtrt::Instruction &instruction : program.instructions) {
    if (instruction.op == dtrt::Opcode::Pack)
      packed[instruction.slot] = &instruction;
    // What is relayed is not kept: what is best so depends on all else.
    if (instruction.op == dtrt::Opcode::Relay)
      packed.erase(instruction.slot);
    if (instruction.op != dtrt::Opcode::Group)
      continue;
    for (const dtrt::Message &message : instruction.messages) {
      if (message.receive)
        continue;
      if (message.direct) {
        add(program, message.peer, instruction.wave, message.segment, out);
        continue;
      }
      auto pack = packed.find(message.slot);
      if (pack != packed.end() && pack->second->bytes == message.bytes)
        for (const dtrt::Segment &segment : pack->second->segments)
          add(program, message.peer, instruction.wave, segment, out);
    }
  }
  return out;
}

FailureOr<OldMoves> MoveReader::read() const {
  const std::vector<uint32_t> &devices = plan.devices();
  std::vector<std::vector<OldMove>> sent(devices.size());
  std::vector<dtrt::Status> statuses(devices.size());
  forEachOnThreads(info.op().getContext(), devices.size(), [&](size_t i) {
    auto program = plan.program(devices[i]);
    if (program.ok())
      sent[i] = sentBy(*program);
    else
      statuses[i] = program.status();
  });
  OldMoves out(info.flows.size());
  for (size_t i = 0; i < devices.size(); ++i) {
    if (!statuses[i].ok())
      return info.op().emitError()
             << "the old plan is damaged: " << statuses[i].message();
    for (const OldMove &old : sent[i])
      out[old.move.flow].push_back(old);
  }
  return out;
}

} // namespace

FailureOr<OldMoves> readOldMoves(const TransitionInfo &info,
                                 const dtrt::PlanReader &plan) {
  FlowsOfPlan flows(info, plan.common());
  bool areSame = flows.numFamilies() == info.params.size() &&
                 flows.numFamilies() == plan.common().families.size();
  if (!areSame) {
    std::string found =
        difference(tensorsOf(info.params), tensorsOf(plan.common().families));
    if (!found.empty())
      return info.op().emitError()
             << "the old plan is of another model: " << found;
  }
  return MoveReader(info, plan, flows).read();
}

} // namespace dt
