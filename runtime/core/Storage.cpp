//===- Storage.cpp - Where a device keeps its shards ----------------------===//

#include "dtrt/core/Storage.h"

#include "dtrt/format/ShardView.h"
#include "dtrt/format/StayingStates.h"
#include "dtrt/format/Text.h"

namespace dtrt {

LocalStorage::LocalStorage(const PlanCommon &common, const RankProgram &program)
    : planCommon(common), rankProgram(program) {
  size_t total = 0;
  for (Side side : {Side::Source, Side::Destination})
    for (const ShardRecord &shard : shards(side)) {
      ShardLayout layout;
      layout.first = total;
      layout.members = numMembers(common.families[shard.family], shard);
      layout.states = shard.states;
      total +=
          size_t(layout.members) * size_t(__builtin_popcountll(shard.states));
      layouts[size_t(side)].push_back(layout);
    }
  pointers.resize(total);
  for (Side side : {Side::Source, Side::Destination})
    for (const ShardRecord &shard : shards(side))
      live += shardBytes(common.families[shard.family], shard, side);
  live -= stayingBytes(common, program);
  for (const Instruction &instruction : program.instructions)
    if (instruction.op == Opcode::Create)
      for (const Segment &segment : instruction.segments)
        live -= bytesOf(segment);
  peak = live;
}

uint64_t LocalStorage::bytesOf(const Segment &range) const {
  return storageBytes(planCommon.families[range.family], range);
}

std::vector<LocalStorage::BufferPart>
LocalStorage::partsOf(const Segment &range) const {
  const Family &family = planCommon.families[range.family];
  Interval elements = storageRange(family, range);
  std::vector<int64_t> members =
      membersOf(family, shards(range.side)[range.shard], range);
  std::vector<BufferPart> parts;
  for (unsigned state :
       statesOf(storedStates(family, range.states, range.side))) {
    int64_t width = byteWidth(dtypeOf(family, state, range.side));
    Interval bytes = {elements.lo * width, elements.hi * width};
    for (int64_t member : members)
      parts.push_back({range.side, range.shard, state, member, bytes});
  }
  return parts;
}

uint64_t LocalStorage::memberBytes(Side side, uint32_t shard,
                                   unsigned state) const {
  const ShardRecord &record = shards(side)[shard];
  const Family &family = planCommon.families[record.family];
  return uint64_t(elementsPerMember(family, record)) *
         uint64_t(byteWidth(dtypeOf(family, state, side)));
}

void LocalStorage::bindMade() {
  for (uint32_t shard = 0; shard < shards(Side::Source).size(); ++shard) {
    const ShardRecord &record = shards(Side::Source)[shard];
    const Family &family = planCommon.families[record.family];
    for (unsigned state : statesOf(record.states)) {
      const StateInfo &info = family.states[state];
      for (int64_t member = 0;
           !info.inSource && member < members(Side::Source, shard); ++member)
        bind(Side::Source, shard, state, member,
             data(Side::Source, shard, unsigned(info.derivedFrom), member));
    }
  }
}

Status LocalStorage::create(const Segment &range) {
  count(int64_t(bytesOf(range)));
  return {};
}

Status LocalStorage::release(const Segment &range) {
  count(-int64_t(bytesOf(range)));
  return {};
}

} // namespace dtrt
