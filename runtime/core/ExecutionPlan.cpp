//===- ExecutionPlan.cpp - What an executor leaves out and moves ----------===//

#include "dtrt/core/ExecutionPlan.h"

#include "dtrt/core/Overlap.h"

#include <algorithm>
#include <map>
#include <ostream>

namespace dtrt {

namespace {

struct Overlap {
  bool any = false;
  bool exact = false;
};

/// Whether a Create or Release names a member that any of the segments touch,
/// in whatever states and shard: states may share storage.
bool touchesAny(const Instruction &lifetime,
                const std::vector<Segment> &segments,
                const PlanCommon &common) {
  for (const Segment &segment : segments)
    for (const Segment &storage : lifetime.segments) {
      bool touches =
          storage.side == segment.side && storage.family == segment.family;
      unsigned leading = common.families[segment.family].numLeading();
      for (unsigned d = 0; touches && d < leading; ++d)
        touches = storage.offset[d] < segment.offset[d] + segment.size[d] &&
                  segment.offset[d] < storage.offset[d] + storage.size[d];
      if (touches)
        return true;
    }
  return false;
}

/// A message, by place.
struct MessagePlace {
  size_t group, message;
};

/// A pack whose bytes are still in staging, and the messages that take them.
struct OpenPack {
  size_t index = 0;
  std::vector<MessagePlace> sends;
};

/// Packs by slot; no two share a byte, since the later one ends the earlier.
class OpenPacks {
public:
  void add(const Instruction &pack, size_t index) {
    packs[pack.slot] = {pack.slot + pack.bytes, {index, {}}};
  }

  /// Calls fn(pack) for those with bytes of [slot, slot + bytes), which are
  /// open no longer unless fn says true.
  template <typename Fn> void visit(uint64_t slot, uint64_t bytes, Fn fn) {
    auto at = packs.upper_bound(slot);
    if (at != packs.begin() && std::prev(at)->second.end > slot)
      --at;
    while (at != packs.end() && at->first < slot + bytes)
      at = fn(at->second.pack) ? std::next(at) : packs.erase(at);
  }
  template <typename Fn> void visitAll(Fn fn) {
    for (auto &[slot, entry] : packs)
      fn(entry.pack);
  }

private:
  struct Entry {
    uint64_t end = 0;
    OpenPack pack;
  };
  std::map<uint64_t, Entry> packs;
};

Overlap overlapOf(const Instruction &staged, const Message &message) {
  bool isExact = staged.slot == message.slot && staged.bytes == message.bytes;
  return {staged.slot < message.slot + message.bytes &&
              message.slot < staged.slot + staged.bytes,
          isExact};
}

class Planner {
public:
  Planner(const PlanCommon &common, const RankProgram &program,
          const TransportCaps &caps, const ExecutionOptions &options)
      : common(common), instructions(program.instructions), caps(caps),
        options(options), seesAll(options.skipStaging && caps.seesPeerMemory) {
    plan.steps.resize(instructions.size());
    looks = mostLooks(instructions.size());
    for (size_t i = 0; i < instructions.size(); ++i) {
      plan.steps[i].views.resize(instructions[i].messages.size());
      if (instructions[i].op == Opcode::Release)
        releases.push_back(i);
    }
  }

  void leaveOut();
  void overlapGroups(const RankProgram &program);
  ExecutionPlan finish();

private:
  void skipStaging();
  void skipUnpacksOfPeers();
  void skipPacks();
  bool isReadable(const Instruction &pack) const;
  bool isReadByAll(const OpenPack &pack) const;
  bool skip(OpenPack &pack);
  void addSends(size_t index, OpenPacks &open);
  bool staysUntil(size_t pack, size_t later);
  /// Whether that many looks are left; they are taken.
  bool look(uint64_t count) {
    looks = count < looks ? looks - count : 0;
    return looks > 0;
  }
  void skipUnpack(size_t group, size_t message);
  bool usesStaging(size_t index) const;

  const PlanCommon &common;
  const std::vector<Instruction> &instructions;
  const TransportCaps &caps;
  const ExecutionOptions &options;
  const bool seesAll; // whatever devices have is read where it is
  ExecutionPlan plan;
  std::vector<size_t> releases; // ascending
  uint64_t looks = 0;           // left, at other instructions
};

/// Whether what the pack reads is there until the later one. It is not said to
/// be when that takes long to find out: then the pack is done.
bool Planner::staysUntil(size_t pack, size_t later) {
  const std::vector<Segment> &packed = instructions[pack].segments;
  auto release = std::upper_bound(releases.begin(), releases.end(), pack);
  for (; release != releases.end() && *release < later; ++release) {
    const Instruction &released = instructions[*release];
    if (!look(1 + released.segments.size() * packed.size()) ||
        touchesAny(released, packed, common))
      return false;
  }
  return true;
}

/// Whether peers find all that the pack reads.
bool Planner::isReadable(const Instruction &pack) const {
  return seesAll ||
         std::all_of(pack.segments.begin(), pack.segments.end(),
                     [&](const Segment &segment) {
                       return segment.side == Side::Source &&
                              segment.shard < options.readable.size() &&
                              options.readable[segment.shard];
                     });
}

/// Whether all peers to which the pack's bytes go read them where they are.
bool Planner::isReadByAll(const OpenPack &pack) const {
  auto reads = [&](const MessagePlace &send) {
    const Message &message = instructions[send.group].messages[send.message];
    return caps.isReadBy(message.peer);
  };
  return seesAll || std::all_of(pack.sends.begin(), pack.sends.end(), reads);
}

/// Nothing of what is looked at before depends on who the readers are: they
/// come to the same (PeerShards.cpp).
bool Planner::skip(OpenPack &pack) {
  if (!isReadByAll(pack))
    return false;
  plan.steps[pack.index].skipped = true;
  for (const MessagePlace &send : pack.sends)
    plan.steps[send.group].views[send.message] = pack.index;
  return false;
}

/// The messages of a group that take packed bytes, or overwrite them.
void Planner::addSends(size_t index, OpenPacks &open) {
  const std::vector<Message> &messages = instructions[index].messages;
  // A library reads and writes blocks, so that what it gives stays packed.
  if (instructions[index].collective) {
    for (const Message &message : messages)
      open.visit(message.slot, message.bytes, [](OpenPack &) { return false; });
    return;
  }
  for (size_t m = 0; m < messages.size(); ++m) {
    const Message &message = messages[m];
    if (message.direct)
      continue;
    open.visit(message.slot, message.bytes, [&](OpenPack &pack) {
      if (message.receive)
        return skip(pack);
      bool exact = overlapOf(instructions[pack.index], message).exact &&
                   staysUntil(pack.index, index);
      if (exact)
        pack.sends.push_back({index, m});
      return exact;
    });
  }
}

/// A pack can be left out when every message that its bytes go to is just
/// those bytes, and the shards are still there when it leaves.
void Planner::skipPacks() {
  OpenPacks open;
  for (size_t i = 0; i < instructions.size(); ++i) {
    const Instruction &instruction = instructions[i];
    if (instruction.op == Opcode::Pack && instruction.bytes > 0) {
      open.visit(instruction.slot, instruction.bytes,
                 [&](OpenPack &pack) { return skip(pack); });
      if (isReadable(instruction))
        open.add(instruction, i);
    }
    addSends(i, open);
  }
  open.visitAll([&](OpenPack &pack) { skip(pack); });
}

/// An unpack can be left out when it takes just one message, into shards that
/// are there when the message comes.
void Planner::skipUnpack(size_t group, size_t message) {
  std::vector<const Instruction *> creates;
  for (size_t i = group + 1; i < instructions.size() && look(1); ++i) {
    const Instruction &later = instructions[i];
    if (later.op == Opcode::Create)
      creates.push_back(&later);
    if (later.op != Opcode::Unpack)
      continue;
    Overlap overlap = overlapOf(later, instructions[group].messages[message]);
    if (!overlap.any)
      continue;
    bool isThere = std::none_of(
        creates.begin(), creates.end(), [&](const Instruction *create) {
          return !look(create->segments.size() * later.segments.size()) ||
                 touchesAny(*create, later.segments, common);
        });
    if (overlap.exact && isThere) {
      plan.steps[i].skipped = true;
      plan.steps[group].views[message] = i;
    }
    return;
  }
}

/// Where the transport unpacks messages as they come.
void Planner::skipUnpacksOfPeers() {
  for (size_t i = 0; i < instructions.size(); ++i) {
    const std::vector<Message> &messages = instructions[i].messages;
    for (size_t m = 0; m < messages.size(); ++m)
      if (messages[m].receive && !messages[m].direct &&
          !instructions[i].collective && caps.unpacksFromPeer(messages[m].peer))
        skipUnpack(i, m);
  }
}

void Planner::skipStaging() {
  skipPacks();
  for (size_t i = 0; i < instructions.size(); ++i) {
    const Instruction &instruction = instructions[i];
    for (size_t m = 0; m < instruction.messages.size(); ++m)
      if (instruction.messages[m].receive && !instruction.messages[m].direct &&
          !instruction.collective)
        skipUnpack(i, m);
  }
}

void Planner::leaveOut() {
  if (seesAll)
    return skipStaging();
  if (!caps.readBy.empty() && !options.readable.empty())
    skipPacks();
  skipUnpacksOfPeers();
}

void Planner::overlapGroups(const RankProgram &program) {
  std::vector<std::vector<size_t>> found = overlapsOf(program);
  for (size_t i = 0; i < found.size(); ++i) {
    for (size_t other : found[i])
      plan.steps[other].early = true;
    plan.steps[i].meanwhile = std::move(found[i]);
  }
}

/// What a transport unpacks as it comes still needs a place to come to, unless
/// it sees the sender's shards; what is read in this device's shards needs
/// none.
bool Planner::usesStaging(size_t index) const {
  const Instruction &instruction = instructions[index];
  if (isStaged(instruction) && !plan.steps[index].skipped)
    return true;
  for (size_t m = 0; m < instruction.messages.size(); ++m)
    if (!instruction.messages[m].direct &&
        !(plan.steps[index].views[m] &&
          (caps.seesPeerMemory || !instruction.messages[m].receive)))
      return true;
  return false;
}

ExecutionPlan Planner::finish() {
  for (size_t i = 0; i < instructions.size(); ++i)
    plan.needsStaging = plan.needsStaging || usesStaging(i);
  return std::move(plan);
}

} // namespace

ExecutionPlan planExecution(const PlanCommon &common,
                            const RankProgram &program,
                            const TransportCaps &caps,
                            const ExecutionOptions &options) {
  Planner planner(common, program, caps, options);
  planner.leaveOut();
  if (caps.overlaps)
    planner.overlapGroups(program);
  return planner.finish();
}

//===----------------------------------------------------------------------===//
// For people
//===----------------------------------------------------------------------===//

static std::string listOf(const std::vector<size_t> &numbers) {
  std::string text;
  for (size_t number : numbers)
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

static std::string stagingText(uint64_t slot, uint64_t bytes) {
  return "staging [" + std::to_string(slot) + ":" +
         std::to_string(slot + bytes) + ")";
}

static void writeMessages(const Instruction &group, const PlannedStep &step,
                          std::ostream &out) {
  for (size_t m = 0; m < group.messages.size(); ++m) {
    const Message &message = group.messages[m];
    out << "       " << (message.receive ? "receive from " : "send to ")
        << message.peer << ": " << message.bytes << " bytes, ";
    if (message.direct)
      out << "in its shard\n";
    else if (step.views[m])
      out << "in the shards of " << *step.views[m] << "\n";
    else
      out << stagingText(message.slot, message.bytes) << "\n";
  }
}

static void writeStep(const Instruction &instruction, const PlannedStep &step,
                      std::ostream &out) {
  out << opcodeName(instruction.op);
  if (instruction.collective)
    out << " as " << collectiveName(instruction.collective->kind)
        << " of member set " << instruction.collective->members;
  if (instruction.wave >= 0)
    out << " wave " << instruction.wave;
  if (step.skipped)
    out << ": left out";
  else if (step.early)
    out << ": while a group is under way";
  else if (isStaged(instruction))
    out << " " << stagingText(instruction.slot, instruction.bytes);
  if (!step.meanwhile.empty())
    out << ", meanwhile " << listOf(step.meanwhile);
  out << "\n";
  writeMessages(instruction, step, out);
}

void writeExecution(const RankProgram &program, const ExecutionPlan &execution,
                    std::ostream &out) {
  const std::vector<Instruction> &instructions = program.instructions;
  size_t skipped = std::count_if(execution.steps.begin(), execution.steps.end(),
                                 [](auto &step) { return step.skipped; });
  out << "device " << program.device << ": " << instructions.size()
      << " instructions, " << skipped << " left out, staging "
      << (execution.needsStaging ? program.stagingBytes : 0) << " bytes\n";
  for (size_t i = 0; i < instructions.size(); ++i) {
    out << "  " << i << ": ";
    writeStep(instructions[i], execution.steps[i], out);
  }
}

} // namespace dtrt
