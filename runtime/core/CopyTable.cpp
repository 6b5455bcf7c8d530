//===- CopyTable.cpp - How large a program's table of copies is -----------===//

#include "dtrt/core/CopyTable.h"

#include "dtrt/core/BoxTable.h"
#include "dtrt/core/MemorySource.h"
#include "dtrt/core/Storage.h"
#include "dtrt/format/ShardView.h"
#include "dtrt/format/StayingStates.h"

namespace dtrt {

namespace {

/// Addresses of buffers, one behind the other; nothing is read or written
/// there. What stays has one place.
void placeBuffers(LocalStorage &storage) {
  uintptr_t next = kCacheLine;
  for (Side side : {Side::Source, Side::Destination})
    for (uint32_t shard = 0; shard < storage.shards(side).size(); ++shard)
      for (unsigned state : statesOf(storage.shards(side)[shard].states))
        for (int64_t m = 0; m < storage.members(side, shard); ++m) {
          storage.bind(side, shard, state, m,
                       reinterpret_cast<std::byte *>(next));
          next += roundUp(storage.memberBytes(side, shard, state), kCacheLine);
        }
  storage.bindMade();
  for (const StayingState &own :
       stayingStates(storage.common(), storage.program()))
    for (int64_t m = 0; m < storage.members(Side::Destination, own.destination);
         ++m)
      storage.bind(Side::Destination, own.destination, own.state, m,
                   storage.data(Side::Source, own.source, own.state, m));
}

Status addCopies(const LocalStorage &storage, const Instruction &instruction,
                 BoxTable &table) {
  for (size_t i = 0; i + 1 < instruction.segments.size(); i += 2) {
    auto copy = prepareCopy(storage.common(), storage.program(),
                            instruction.segments[i], storage.program(),
                            instruction.segments[i + 1]);
    DTRT_RETURN_IF_ERROR(copy);
    DTRT_RETURN_IF_ERROR(table.addCopy(*copy, storage));
  }
  return {};
}

Status addBoxes(const LocalStorage &storage, const Instruction &instruction,
                BoxTable &table) {
  auto *packed = reinterpret_cast<std::byte *>(kCacheLine) + instruction.slot;
  for (const Segment &segment : instruction.segments) {
    auto prepared =
        prepareSegment(storage.common(), storage.program(), segment);
    DTRT_RETURN_IF_ERROR(prepared);
    if (instruction.op == Opcode::Pack)
      DTRT_RETURN_IF_ERROR(table.addPack(*prepared, storage, packed));
    else if (instruction.op == Opcode::Unpack)
      DTRT_RETURN_IF_ERROR(table.addUnpack(*prepared, storage, packed));
    else
      DTRT_RETURN_IF_ERROR(table.addFill(*prepared, storage));
    packed += prepared->bytes;
  }
  return {};
}

} // namespace

Result<uint64_t> copyTableBytes(const PlanCommon &common,
                                const RankProgram &program) {
  LocalStorage storage(common, program);
  placeBuffers(storage);
  uint64_t rows = 0;
  for (const Instruction &instruction : program.instructions) {
    BoxTable table;
    Status added;
    if (instruction.op == Opcode::Copy)
      added = addCopies(storage, instruction, table);
    else if (instruction.op == Opcode::Pack ||
             instruction.op == Opcode::Unpack || instruction.op == Opcode::Zero)
      added = addBoxes(storage, instruction, table);
    DTRT_RETURN_IF_ERROR(added);
    rows += table.copies().size();
  }
  return rows * sizeof(BoxCopy);
}

} // namespace dtrt
