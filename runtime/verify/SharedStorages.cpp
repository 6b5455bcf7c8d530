//===- SharedStorages.cpp - Storages that come and go whole ---------------===//

#include "SharedStorages.h"

#include "dtrt/format/ShardView.h"
#include "dtrt/format/Text.h"

#include <map>
#include <tuple>

namespace dtrt {

namespace {

/// What comes or goes of one storage.
struct Shared {
  uint32_t first = 0, last = 0; // instructions
  uint64_t named = 0, bytes = 0;
};
using Key = std::tuple<Side, std::string, std::string>; // storage, state

/// Calls fn(key, bytes) for every stored state of some members of a family.
template <typename Fn>
void forEachState(const Family &family, uint64_t states, Side side,
                  int64_t elements, Fn fn) {
  for (unsigned state : statesOf(storedStates(family, states, side)))
    fn(Key{side, family.storage, family.states[state].name},
       uint64_t(elements) * uint64_t(byteWidth(dtypeOf(family, state, side))));
}

void addShards(const PlanCommon &common, const RankProgram &program, Side side,
               std::map<Key, Shared> &storages) {
  for (const ShardRecord &shard :
       side == Side::Source ? program.source : program.destination) {
    const Family &family = common.families[shard.family];
    if (!family.storage.empty())
      forEachState(
          family, shard.states, side,
          numMembers(family, shard) * elementsPerMember(family, shard),
          [&](Key key, uint64_t bytes) { storages[key].bytes += bytes; });
  }
}

void addNamed(const PlanCommon &common, const RankProgram &program,
              std::map<Key, Shared> &storages) {
  for (uint32_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction &instruction = program.instructions[i];
    if (instruction.op != Opcode::Create && instruction.op != Opcode::Release)
      continue;
    for (const Segment &segment : instruction.segments) {
      const Family &family = common.families[segment.family];
      if (family.storage.empty())
        continue;
      int64_t elements = segmentMembers(family, segment) *
                         storageRange(family, segment).size();
      forEachState(family, segment.states, segment.side, elements,
                   [&](Key key, uint64_t bytes) {
                     Shared &shared = storages[key];
                     shared.first = shared.named == 0 ? i : shared.first;
                     shared.last = i;
                     shared.named += bytes;
                   });
    }
  }
}

/// Of each instruction, the first of those with the same opcode that it ends.
std::vector<uint32_t> runStarts(const RankProgram &program) {
  std::vector<uint32_t> out(program.instructions.size(), 0);
  for (uint32_t i = 1; i < out.size(); ++i)
    out[i] = program.instructions[i].op == program.instructions[i - 1].op
                 ? out[i - 1]
                 : i;
  return out;
}

} // namespace

Status checkSharedStorages(const PlanCommon &common,
                           const RankProgram &program) {
  if (common.summary.granularity != Granularity::Tensor)
    return {};
  std::map<Key, Shared> storages;
  addShards(common, program, Side::Source, storages);
  addShards(common, program, Side::Destination, storages);
  addNamed(common, program, storages);
  std::vector<uint32_t> starts = runStarts(program);
  for (const auto &[key, shared] : storages) {
    const auto &[side, name, state] = key;
    const char *what = side == Side::Source ? "released" : "created";
    if (shared.named == 0)
      continue;
    if (shared.named != shared.bytes)
      return makeError("storage '", shortened(name), "' of state '",
                       shortened(state), "' is ", what,
                       " in part: ", shared.named, " of ", shared.bytes,
                       " bytes, from instruction ", shared.first, " on");
    uint32_t start = starts[shared.last];
    if (start > shared.first)
      return makeError(
          "storage '", shortened(name), "' of state '", shortened(state),
          "' is ", what, " by instructions ", shared.first, " to ", shared.last,
          ", expected nothing else between them, ", "found instruction ",
          start - 1, " (", opcodeName(program.instructions[start - 1].op), ")");
  }
  return {};
}

} // namespace dtrt
