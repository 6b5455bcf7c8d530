//===- FlatMemory.cpp - Programs that free as they go ---------------------===//

#include "dt/Emit/FlatMemory.h"

#include "dtrt/ShardView.h"

#include <algorithm>
#include <map>

using namespace dt;
using dtrt::Instruction;
using dtrt::Opcode;
using dtrt::Segment;
using dtrt::Side;

namespace {

/// A tensor of this device: a member of a shard, all its states.
struct Tensor {
  Side side;
  uint32_t shard;
  std::vector<int64_t> member; // one index per leading dim

  friend bool operator<(const Tensor &a, const Tensor &b) {
    return std::tie(a.side, a.shard, a.member) <
           std::tie(b.side, b.shard, b.member);
  }
};

/// Local work on one tensor: a part of a Copy or Zero instruction.
struct LocalWork {
  Segment from, to; // Zero has no `from`
};

constexpr size_t kNever = SIZE_MAX;

class Flattener {
public:
  Flattener(const std::vector<dtrt::Family> &families,
            dtrt::RankProgram &program)
      : families(families), program(program) {}
  uint64_t run();

private:
  struct Life {
    uint64_t bytes = 0;
    size_t firstWaveWrite = kNever, lastWaveRead = kNever;
    std::vector<LocalWork> copies, zeros; // copies by what is read
    bool created = false;
  };

  const dtrt::ShardRecord &shardOf(Side side, uint32_t shard) const {
    return (side == Side::Source ? program.source : program.destination)[shard];
  }
  uint64_t tensorBytes(Side side, uint32_t shard) const;
  void addTensors(Side side);
  template <typename Fn> void forEachTensor(const Segment &segment, Fn fn);
  void noteWaves();
  void noteLocalWork();
  void create(const Segment &written);
  void create(const Tensor &tensor, Life &life);
  void copyOut(Life &life);
  void release(const Tensor &tensor, Life &life);
  void emitLocalOnly();
  void emitMade();
  void emitWaveInstruction(const Instruction &instruction, size_t index);
  Segment wholeMember(const Tensor &tensor) const;
  void emit(Opcode op, std::vector<Segment> segments);

  const std::vector<dtrt::Family> &families;
  dtrt::RankProgram &program;
  std::map<Tensor, Life> lives;
  std::vector<Instruction> out;
  uint64_t live = 0, peak = 0;
};

uint64_t Flattener::tensorBytes(Side side, uint32_t index) const {
  const dtrt::ShardRecord &shard = shardOf(side, index);
  const dtrt::Family &family = families[shard.family];
  uint64_t elements = 1;
  for (size_t d = family.numLeading(); d < shard.dims.size(); ++d) {
    int64_t extent = 0;
    for (dtrt::Range range : shard.dims[d])
      extent += range.size();
    elements *= extent;
  }
  if (shard.flat)
    elements = shard.range.size();
  return elements * dtrt::bytesPerElement(family, shard.states, side);
}

/// Calls fn(indices) for every tuple of the product of range lists.
template <typename Fn>
void forEachIndex(const std::vector<std::vector<dtrt::Range>> &dims,
                  size_t count, std::vector<int64_t> &index, Fn fn) {
  if (index.size() == count) {
    fn(index);
    return;
  }
  for (dtrt::Range range : dims[index.size()])
    for (int64_t i = range.lo; i < range.hi; ++i) {
      index.push_back(i);
      forEachIndex(dims, count, index, fn);
      index.pop_back();
    }
}

void Flattener::addTensors(Side side) {
  const auto &shards =
      side == Side::Source ? program.source : program.destination;
  for (uint32_t shard = 0; shard < shards.size(); ++shard) {
    uint64_t bytes = tensorBytes(side, shard);
    std::vector<int64_t> index;
    forEachIndex(shards[shard].dims,
                 families[shards[shard].family].numLeading(), index,
                 [&](const std::vector<int64_t> &member) {
                   lives[{side, shard, member}].bytes = bytes;
                   if (side == Side::Source)
                     live += bytes;
                 });
  }
}

template <typename Fn>
void Flattener::forEachTensor(const Segment &segment, Fn fn) {
  size_t leading = families[segment.family].numLeading();
  std::vector<std::vector<dtrt::Range>> dims(leading);
  for (size_t d = 0; d < leading; ++d)
    dims[d] = {{segment.offset[d], segment.offset[d] + segment.size[d]}};
  std::vector<int64_t> index;
  forEachIndex(dims, leading, index, [&](const std::vector<int64_t> &member) {
    Tensor tensor{segment.side, segment.shard, member};
    fn(tensor, lives.at(tensor));
  });
}

/// Finds the first write and the last read of each tensor by waves.
void Flattener::noteWaves() {
  auto note = [&](const Segment &segment, size_t index) {
    forEachTensor(segment, [&](const Tensor &tensor, Life &life) {
      if (tensor.side == Side::Source)
        life.lastWaveRead = index;
      else if (life.firstWaveWrite == kNever)
        life.firstWaveWrite = index;
    });
  };
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction &instruction = program.instructions[i];
    if (instruction.op == Opcode::Pack || instruction.op == Opcode::Unpack)
      for (const Segment &segment : instruction.segments)
        note(segment, i);
    for (const dtrt::Message &message : instruction.messages)
      if (message.direct)
        note(message.segment, i);
  }
}

/// Takes copies and zeros apart, tensor by tensor.
void Flattener::noteLocalWork() {
  auto memberPart = [](Segment segment, const std::vector<int64_t> &member) {
    for (size_t d = 0; d < member.size(); ++d) {
      segment.offset[d] = member[d];
      segment.size[d] = 1;
    }
    return segment;
  };
  for (const Instruction &instruction : program.instructions) {
    const std::vector<Segment> &segments = instruction.segments;
    if (instruction.op == Opcode::Copy)
      for (size_t i = 0; i < segments.size(); i += 2)
        forEachTensor(segments[i], [&](const Tensor &tensor, Life &life) {
          life.copies.push_back({memberPart(segments[i], tensor.member),
                                 memberPart(segments[i + 1], tensor.member)});
        });
    if (instruction.op == Opcode::Zero)
      for (const Segment &segment : segments)
        forEachTensor(segment, [&](const Tensor &tensor, Life &life) {
          life.zeros.push_back({{}, memberPart(segment, tensor.member)});
        });
  }
}

Segment Flattener::wholeMember(const Tensor &tensor) const {
  const dtrt::ShardRecord &shard = shardOf(tensor.side, tensor.shard);
  Segment out;
  out.family = shard.family;
  out.states = shard.states;
  out.side = tensor.side;
  out.shard = tensor.shard;
  out.offset = tensor.member;
  out.size.assign(tensor.member.size(), 1);
  for (size_t d = tensor.member.size(); d < shard.dims.size(); ++d) {
    dtrt::Range hull = shard.dims[d].front();
    for (dtrt::Range range : shard.dims[d])
      hull = {std::min(hull.lo, range.lo), std::max(hull.hi, range.hi)};
    out.offset.push_back(hull.lo);
    out.size.push_back(hull.size());
  }
  return out;
}

/// Appends to the last instruction when that does the same.
void Flattener::emit(Opcode op, std::vector<Segment> segments) {
  if (out.empty() || out.back().op != op || out.back().wave != -1) {
    out.emplace_back();
    out.back().op = op;
  }
  for (Segment &segment : segments)
    out.back().segments.push_back(std::move(segment));
}

void Flattener::create(const Tensor &tensor, Life &life) {
  if (life.created)
    return;
  life.created = true;
  live += life.bytes;
  peak = std::max(peak, live);
  emit(Opcode::Create, {wholeMember(tensor)});
  for (LocalWork &work : life.zeros)
    emit(Opcode::Zero, {std::move(work.to)});
}

void Flattener::create(const Segment &written) {
  if (written.side == Side::Destination)
    forEachTensor(written, [&](const Tensor &tensor, Life &life) {
      create(tensor, life);
    });
}

void Flattener::copyOut(Life &life) {
  for (LocalWork &work : life.copies) {
    create(work.to);
    emit(Opcode::Copy, {std::move(work.from), std::move(work.to)});
  }
  life.copies.clear();
}

void Flattener::release(const Tensor &tensor, Life &life) {
  live -= life.bytes;
  emit(Opcode::Release, {wholeMember(tensor)});
}

/// Tensors that no wave reads: copied to where they are wanted and freed, one
/// after the other, or just freed.
void Flattener::emitLocalOnly() {
  for (bool withCopies : {false, true})
    for (auto &[tensor, life] : lives)
      if (tensor.side == Side::Source && life.lastWaveRead == kNever &&
          life.copies.empty() != withCopies) {
        copyOut(life);
        release(tensor, life);
      }
}

void Flattener::emitWaveInstruction(const Instruction &instruction,
                                    size_t index) {
  std::vector<Segment> touched = instruction.segments;
  for (const dtrt::Message &message : instruction.messages)
    if (message.direct)
      touched.push_back(message.segment);
  for (const Segment &segment : touched)
    create(segment);
  out.push_back(instruction);
  for (const Segment &segment : touched)
    if (segment.side == Side::Source)
      forEachTensor(segment, [&](const Tensor &tensor, Life &life) {
        if (life.lastWaveRead != index)
          return;
        life.lastWaveRead = kNever; // once, however many segments name it
        copyOut(life);
        release(tensor, life);
      });
}

/// When all has arrived: what is made from another state. Not in one
/// instruction with copies that write what is read here.
void Flattener::emitMade() {
  Instruction copy;
  copy.op = Opcode::Copy;
  for (auto &[tensor, life] : lives)
    if (tensor.side == Side::Destination)
      for (LocalWork &work : life.copies) {
        create(work.to);
        copy.segments.push_back(std::move(work.from));
        copy.segments.push_back(std::move(work.to));
      }
  if (!copy.segments.empty())
    out.push_back(std::move(copy));
}

uint64_t Flattener::run() {
  addTensors(Side::Source);
  addTensors(Side::Destination);
  peak = live;
  noteWaves();
  noteLocalWork();
  emitLocalOnly();
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction &instruction = program.instructions[i];
    if (instruction.op != Opcode::Copy && instruction.op != Opcode::Zero)
      emitWaveInstruction(instruction, i);
  }
  emitMade();
  // What holds nothing but padding was written by nobody.
  for (auto &[tensor, life] : lives)
    if (tensor.side == Side::Destination)
      create(tensor, life);
  program.instructions = std::move(out);
  return peak + program.stagingBytes;
}

} // namespace

uint64_t dt::makeFlat(const std::vector<dtrt::Family> &families,
                      dtrt::RankProgram &program) {
  return Flattener(families, program).run();
}
