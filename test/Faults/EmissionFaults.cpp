//===- EmissionFaults.cpp - What may go wrong between proof and file ------===//
//
// Stands between the compiler, whose code is unchanged, and the writer of plan
// files (`ld --wrap`), and changes one thing on its way: of a program before it
// is encoded, of its bytes, or of the common part. DT_EMISSION_FAULT names the
// change; "list" prints all names. Says on stderr where it was made.
//
//===----------------------------------------------------------------------===//

#include "dtrt/format/PlanFile.h"

#include "flatbuffers/flatbuffers.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

using namespace dtrt;

// Names of the two functions, and of what takes their places.
#define DT_ENCODE "_ZN4dtrt13encodeSectionERKNS_11RankProgramE"
#define DT_ENCODE_COMMON                                                       \
  "_ZN4dtrt12encodeCommonERKNS_10PlanCommonEmRN11flatbuffers17FlatBufferBuild" \
  "erE"
#define DT_FINISH                                                              \
  "_ZN4dtrt10PlanWriter6finishERKNS_10PlanCommonERKSt8functionIFNS_"           \
  "6ResultIS1_EERKNS_10PlanReaderEEE"

Result<EncodedProgram>
realEncode(const RankProgram &program) asm("__real_" DT_ENCODE);
Result<EncodedProgram>
wrapEncode(const RankProgram &program) asm("__wrap_" DT_ENCODE);
void realEncodeCommon(
    const PlanCommon &common, FeatureSet features,
    flatbuffers::FlatBufferBuilder &builder) asm("__real_" DT_ENCODE_COMMON);
void wrapEncodeCommon(
    const PlanCommon &common, FeatureSet features,
    flatbuffers::FlatBufferBuilder &builder) asm("__wrap_" DT_ENCODE_COMMON);
Status realFinish(PlanWriter *writer, const PlanCommon &common,
                  const PlanWriter::Check &check) asm("__real_" DT_FINISH);
Status wrapFinish(PlanWriter *writer, const PlanCommon &common,
                  const PlanWriter::Check &check) asm("__wrap_" DT_FINISH);

namespace {

/// One kind of change; each says whether it found a place.
struct Fault {
  const char *name;
  std::function<bool(RankProgram &)> program = nullptr;
  std::function<bool(EncodedProgram &)> bytes = nullptr;
  std::function<bool(PlanCommon &)> common = nullptr;
  /// Of the common part after it was checked: 1 as the check returns it, 2 as
  /// it is encoded.
  int late = 0;
};

using Change = std::function<bool(Instruction &)>;

/// The first instruction of a kind that a change takes.
Fault atFirst(const char *name, Opcode op, Change change) {
  return {name, [op, change](RankProgram &program) {
            for (Instruction &instruction : program.instructions)
              if (instruction.op == op && change(instruction))
                return true;
            return false;
          }};
}
Fault atSegment(const char *name, Opcode op,
                std::function<bool(Segment &)> change) {
  return atFirst(name, op, [change](Instruction &instruction) {
    for (Segment &segment : instruction.segments)
      if (change(segment))
        return true;
    return false;
  });
}
Fault atMessage(const char *name, std::function<bool(Message &)> change) {
  return atFirst(name, Opcode::Group, [change](Instruction &instruction) {
    return !instruction.messages.empty() &&
           change(instruction.messages.front());
  });
}
/// A change of the list of instructions, at the first one of a kind.
Fault atPlace(const char *name, Opcode op,
              std::function<bool(std::vector<Instruction> &, size_t)> change) {
  return {name, [op, change](RankProgram &program) {
            auto &list = program.instructions;
            for (size_t i = 0; i < list.size(); ++i)
              if (list[i].op == op && change(list, i))
                return true;
            return false;
          }};
}
Fault dropped(const char *name, Opcode op) {
  return atPlace(name, op, [](std::vector<Instruction> &list, size_t i) {
    list.erase(list.begin() + i);
    return true;
  });
}
Fault doubled(const char *name, Opcode op) {
  return atPlace(name, op, [](std::vector<Instruction> &list, size_t i) {
    list.insert(list.begin() + i, Instruction(list[i]));
    return true;
  });
}

Fault inCommon(const char *name, std::function<bool(PlanCommon &)> change,
               int late = 0) {
  Fault out = {name};
  out.common = std::move(change);
  out.late = late;
  return out;
}
Fault inNumber(const char *name, uint64_t PlanSummary::*number) {
  return inCommon(name, [number](PlanCommon &common) {
    ++(common.summary.*number);
    return true;
  });
}
Fault inText(const char *name, std::string PlanCommon::*text) {
  return inCommon(name, [text](PlanCommon &common) {
    char &first = (common.*text)[0];
    first = first == '1' ? '2' : '1';
    return true;
  });
}

bool moveTo(std::vector<Instruction> &list, size_t from, size_t to) {
  Instruction moved = list[from];
  list.erase(list.begin() + from);
  list.insert(list.begin() + to, moved);
  return from != to;
}

std::vector<Fault> segmentFaults() {
  return {
      atSegment("offset of a pack", Opcode::Pack,
                [](Segment &s) { return ++s.offset.back(); }),
      atSegment(
          "offset of an unpack", Opcode::Unpack,
          [](Segment &s) { return s.offset.back() > 0 && s.offset.back()--; }),
      atSegment(
          "length of a pack", Opcode::Pack,
          [](Segment &s) { return s.size.back() > 1 && s.size.back()--; }),
      atSegment(
          "length of a copy", Opcode::Copy,
          [](Segment &s) { return s.size.back() > 1 && s.size.back()--; }),
      atSegment(
          "length of what is zeroed", Opcode::Zero,
          [](Segment &s) { return s.size.back() > 1 && s.size.back()--; }),
      atSegment("states of an unpack", Opcode::Unpack,
                [](Segment &s) {
                  s.states = s.states == 1 ? 2 : s.states & (s.states - 1);
                  return true;
                }),
      atSegment("side of a pack", Opcode::Pack,
                [](Segment &s) {
                  s.side =
                      s.side == Side::Source ? Side::Destination : Side::Source;
                  return true;
                }),
      atSegment("shard of a copy", Opcode::Copy,
                [](Segment &s) { return ++s.shard; }),
      atSegment("family of an unpack", Opcode::Unpack,
                [](Segment &s) {
                  s.family += s.family ? -1 : 1;
                  return true;
                }),
  };
}

std::vector<Fault> instructionFaults() {
  return {
      atFirst("slot of a pack", Opcode::Pack,
              [](Instruction &i) { return i.slot += 4; }),
      atFirst("slot of an unpack", Opcode::Unpack,
              [](Instruction &i) { return i.slot += 4; }),
      atFirst("bytes of a pack", Opcode::Pack,
              [](Instruction &i) { return i.bytes -= 2; }),
      atFirst("wave of a group", Opcode::Group,
              [](Instruction &i) { return i.wave += 1000; }),
      atFirst("segments in another order", Opcode::Pack,
              [](Instruction &i) {
                if (i.segments.size() < 2)
                  return false;
                std::swap(i.segments[0], i.segments[1]);
                return true;
              }),
      atFirst("a segment is left out", Opcode::Unpack,
              [](Instruction &i) {
                if (i.segments.size() < 2)
                  return false;
                i.segments.pop_back();
                return true;
              }),
      dropped("a copy is left out", Opcode::Copy),
      dropped("a pack is left out", Opcode::Pack),
      dropped("an unpack is left out", Opcode::Unpack),
      dropped("a group is left out", Opcode::Group),
      dropped("zeros are left out", Opcode::Zero),
      doubled("a copy comes twice", Opcode::Copy),
      doubled("an unpack comes twice", Opcode::Unpack),
      doubled("a group comes twice", Opcode::Group),
      doubled("a release comes twice", Opcode::Release),
      doubled("a create comes twice", Opcode::Create),
      atPlace("a pack after its group", Opcode::Pack,
              [](std::vector<Instruction> &list, size_t i) {
                size_t to = i;
                while (to + 1 < list.size() && list[to].op != Opcode::Group)
                  ++to;
                return moveTo(list, i, to);
              }),
      atPlace("an unpack before its group", Opcode::Unpack,
              [](std::vector<Instruction> &list, size_t i) {
                size_t to = i;
                while (to > 0 && list[to].op != Opcode::Group)
                  --to;
                return moveTo(list, i, to);
              }),
      atPlace("a release too early", Opcode::Release,
              [](std::vector<Instruction> &list, size_t i) {
                return moveTo(list, i, 0);
              }),
      atPlace("a create too late", Opcode::Create,
              [](std::vector<Instruction> &list, size_t i) {
                return moveTo(list, i, list.size() - 1);
              }),
      atPlace("two groups in another order", Opcode::Group,
              [](std::vector<Instruction> &list, size_t i) {
                for (size_t k = i + 1; k < list.size(); ++k)
                  if (list[k].op == Opcode::Group) {
                    std::swap(list[i].messages, list[k].messages);
                    return true;
                  }
                return false;
              }),
  };
}

std::vector<Fault> messageFaults() {
  return {
      atMessage("slot of a message", [](Message &m) { return m.slot += 4; }),
      atMessage("bytes of a message", [](Message &m) { return m.bytes -= 2; }),
      atMessage("peer of a message",
                [](Message &m) {
                  m.peer += m.peer ? -1 : 1;
                  return true;
                }),
      atMessage("direction of a message",
                [](Message &m) {
                  m.receive = !m.receive;
                  return true;
                }),
      atFirst("a message is left out", Opcode::Group,
              [](Instruction &i) {
                if (i.messages.size() < 2)
                  return false;
                i.messages.pop_back();
                return true;
              }),
      atFirst("a message comes twice", Opcode::Group,
              [](Instruction &i) {
                i.messages.push_back(Message(i.messages.front()));
                return true;
              }),
  };
}

std::vector<Fault> programFaults() {
  auto bytes = [](const char *name,
                  std::function<bool(EncodedProgram &)> change) {
    Fault out = {name};
    out.bytes = std::move(change);
    return out;
  };
  return {
      {"rank of a program",
       [](RankProgram &program) {
         ++program.sourceRank;
         return true;
       }},
      {"arena of a program",
       [](RankProgram &program) {
         return program.stagingBytes > 0 && (program.stagingBytes -= 2, true);
       }},
      {"size of a source shard",
       [](RankProgram &program) {
         return !program.source.empty() &&
                ++program.source.front().dims.back().back().hi;
       }},
      {"size of a destination shard",
       [](RankProgram &program) {
         return !program.destination.empty() &&
                --program.destination.front().dims.back().back().hi;
       }},
      {"states of a source shard",
       [](RankProgram &program) {
         for (ShardRecord &shard : program.source)
           if (shard.states & (shard.states - 1)) {
             shard.states &= shard.states - 1;
             return true;
           }
         return false;
       }},
      {"program of another device",
       [](RankProgram &program) {
         static std::optional<RankProgram> other;
         if (!other) {
           other = program;
           return false;
         }
         uint32_t device = program.device;
         program = *other;
         program.device = device;
         return true;
       }},
      bytes("a byte of a program",
            [](EncodedProgram &program) {
              program.bytes[program.bytes.size() / 2] ^= 1;
              return true;
            }),
      bytes("checksum of a program",
            [](EncodedProgram &program) {
              program.checksum ^= 1;
              return true;
            }),
      bytes("device of a program",
            [](EncodedProgram &program) {
              program.device += 1000;
              return program.device > 1002; // the last ones
            }),
  };
}

std::vector<Fault> commonFaults() {
  return {
      inCommon("name of a tensor",
               [](PlanCommon &c) {
                 c.families.front().name[0] ^= 1;
                 return true;
               }),
      inCommon("name of a state",
               [](PlanCommon &c) {
                 c.families.front().states.front().name += "s";
                 return true;
               }),
      inCommon("dtype of a state",
               [](PlanCommon &c) {
                 StateInfo &state = c.families.front().states.front();
                 auto other =
                     state.sourceDType == DType::BF16 ? DType::F16 : DType::I32;
                 state.sourceDType = state.destinationDType = other;
                 return true;
               }),
      inCommon("state that another is made from",
               [](PlanCommon &c) {
                 for (Family &family : c.families)
                   if (family.states.size() > 1) {
                     int32_t &from = family.states[0].madeFrom;
                     from = from == 1 ? -1 : 1;
                     return true;
                   }
                 return false;
               }),
      inCommon("tensor that may lack elements",
               [](PlanCommon &c) { return c.families.front().partial = true; }),
      inCommon("numbers of tensors",
               [](PlanCommon &c) {
                 for (Family &family : c.families)
                   if (family.numLeading())
                     return ++family.leading.front().first > 0;
                 return false;
               }),
      inCommon(
          "shape of a tensor",
          [](PlanCommon &c) { return ++c.families.front().shape.front(); }),
      inCommon("devices of a world",
               [](PlanCommon &c) {
                 std::swap(c.sourceDevices.front(), c.sourceDevices.back());
                 return true;
               }),
      inCommon("rate of a link",
               [](PlanCommon &c) { return c.cluster.interNodeGBps *= 2; }),
      inCommon("devices of a node",
               [](PlanCommon &c) { return c.cluster.devicesPerNode += 1; }),
      inCommon("a link that there is not",
               [](PlanCommon &c) {
                 c.cluster.links.push_back({{false, 900}, {false, 901}, 1});
                 return true;
               }),
      inText("hash of the request", &PlanCommon::requestHash),
      inText("fingerprint of the source", &PlanCommon::sourceFingerprint),
      inText("fingerprint of the destination",
             &PlanCommon::destinationFingerprint),
      inText("text of the source layout", &PlanCommon::sourceLayout),
      inText("text of the destination layout", &PlanCommon::destinationLayout),
      inText("version of the compiler", &PlanCommon::compilerVersion),
      inCommon("predicted time",
               [](PlanCommon &c) { return c.summary.timePredicted *= 1.01; }),
      inCommon("lower bound of the time",
               [](PlanCommon &c) { return c.summary.timeLowerBound *= 0.99; }),
  };
}

std::vector<Fault> memoryFaults() {
  return {
      inCommon("memory mode",
               [](PlanCommon &c) {
                 MemoryMode &mode = c.summary.mode;
                 mode = mode == MemoryMode::Flat ? MemoryMode::Rollback
                                                 : MemoryMode::Flat;
                 return true;
               }),
      inCommon("granularity of storage",
               [](PlanCommon &c) {
                 Granularity &granularity = c.summary.granularity;
                 if (granularity != Granularity::Tensor)
                   return false;
                 granularity = Granularity::Page;
                 return true;
               }),
      inCommon("storage that tensors share",
               [](PlanCommon &c) {
                 for (Family &family : c.families)
                   if (!family.storage.empty()) {
                     family.storage.clear();
                     return true;
                   }
                 return false;
               }),
  };
}

std::vector<Fault> summaryFaults() {
  return {
      inNumber("bytes of the destination", &PlanSummary::bytesDestination),
      inNumber("bytes that stay", &PlanSummary::bytesLocal),
      inNumber("bytes that travel", &PlanSummary::bytesWire),
      inNumber("lower bound of bytes", &PlanSummary::bytesWireLowerBound),
      inNumber("limit of staging", &PlanSummary::stagingLimit),
      inNumber("limit of a device", &PlanSummary::deviceLimit),
      inNumber("peak of staging", &PlanSummary::stagingPeak),
      inNumber("peak of a device", &PlanSummary::devicePeak),
      inNumber("number of waves", &PlanSummary::waves),
      inNumber("number of messages", &PlanSummary::messages),
      inNumber("number of multicasts", &PlanSummary::collectives),
      inCommon(
          "a number, after the check",
          [](PlanCommon &c) { return ++c.summary.bytesWire; }, 1),
      inCommon(
          "a name, after the check",
          [](PlanCommon &c) {
            c.families.front().name[0] ^= 1;
            return true;
          },
          1),
      inCommon(
          "a number, as it is stamped",
          [](PlanCommon &c) { return ++c.summary.messages; }, 2),
      inCommon(
          "a name, as it is stamped",
          [](PlanCommon &c) {
            c.families.front().name[0] ^= 1;
            return true;
          },
          2),
      inCommon(
          "claims, as they are stamped",
          [](PlanCommon &c) {
            c.summary.coverage = c.summary.coverage.empty() ? "proved" : "";
            return true;
          },
          2),
  };
}

const std::vector<Fault> &allFaults() {
  static const std::vector<Fault> all = [] {
    std::vector<Fault> out;
    for (auto faults :
         {segmentFaults, instructionFaults, messageFaults, programFaults,
          commonFaults, memoryFaults, summaryFaults})
      for (Fault &fault : faults())
        out.push_back(std::move(fault));
    return out;
  }();
  return all;
}

/// The one that is asked for, if any.
const Fault *chosen() {
  static const Fault *fault = [] {
    const char *name = std::getenv("DT_EMISSION_FAULT");
    for (const Fault &known : allFaults())
      if (name && strcmp(known.name, name) == 0)
        return &known;
    return static_cast<const Fault *>(nullptr);
  }();
  return fault;
}

/// Each is made once.
bool isMade = false;

void note(bool made, const std::string &where) {
  if (!made)
    return;
  isMade = true;
  std::fprintf(stderr, "fault '%s' in %s\n", chosen()->name, where.c_str());
}

const bool listsNames = [] {
  const char *name = std::getenv("DT_EMISSION_FAULT");
  if (!name || strcmp(name, "list") != 0)
    return false;
  for (const Fault &fault : allFaults())
    std::puts(fault.name);
  std::exit(0);
}();

} // namespace

Result<EncodedProgram> wrapEncode(const RankProgram &given) {
  RankProgram program = given;
  auto where = "device " + std::to_string(program.device);
  if (chosen() && chosen()->program && !isMade)
    note(chosen()->program(program), where);
  auto encoded = realEncode(program);
  if (encoded.ok() && chosen() && chosen()->bytes && !isMade)
    note(chosen()->bytes(*encoded), where);
  return encoded;
}

namespace {
/// Whether what is encoded is what the check has returned.
bool isStamping = false;
} // namespace

void wrapEncodeCommon(const PlanCommon &given, FeatureSet features,
                      flatbuffers::FlatBufferBuilder &builder) {
  PlanCommon common = given;
  if (isStamping && chosen() && chosen()->late == 2 && !isMade &&
      !common.summary.verifier.empty())
    note(chosen()->common(common), "the stamp");
  realEncodeCommon(common, features, builder);
}

Status wrapFinish(PlanWriter *writer, const PlanCommon &given,
                  const PlanWriter::Check &check) {
  PlanCommon common = given;
  if (chosen() && chosen()->common && chosen()->late == 0 && !isMade)
    note(chosen()->common(common), "the common part");
  return realFinish(writer, common, [&](const PlanReader &plan) {
    auto checked = check(plan);
    if (checked.ok() && chosen() && chosen()->late == 1)
      note(chosen()->common(*checked), "what the check returned");
    isStamping = true;
    return checked;
  });
}
