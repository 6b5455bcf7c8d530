//===- Packing.cpp - Copying strided boxes --------------------------------===//

#include "dtrt/core/Packing.h"

#include "CopyRuns.h"
#include "dtrt/format/Text.h"
#include "dtrt/format/Views.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

namespace dtrt {

namespace {

/// A matrix whose rows one side has in one piece, and whose columns the other.
bool isTransposed(const StridedCopy::Dim *dim, int64_t run) {
  return (dim[0].source == run && dim[1].destination == run) ||
         (dim[0].destination == run && dim[1].source == run);
}

/// Its square tiles one after the other: each line of memory is used up while
/// it is in the cache.
void copyTiled(std::byte *to, const std::byte *from,
               const StridedCopy::Dim *dim, int64_t run) {
  constexpr int64_t kTile = 32;
  for (int64_t i = 0; i < dim[0].size; i += kTile)
    for (int64_t j = 0; j < dim[1].size; j += kTile) {
      StridedCopy::Dim inner = dim[1];
      inner.size = std::min(kTile, dim[1].size - j);
      for (int64_t row = i; row < std::min(i + kTile, dim[0].size); ++row)
        copyRuns(to + row * dim[0].destination + j * inner.destination,
                 from + row * dim[0].source + j * inner.source, inner, run,
                 /*streaming=*/nullptr);
    }
}

void copyDims(std::byte *to, const std::byte *from, const StridedCopy::Dim *dim,
              size_t count, int64_t run, const Streaming *streaming) {
  if (count == 1)
    return copyRuns(to, from, *dim, run, streaming);
  if (count == 2 && isTransposed(dim, run))
    return copyTiled(to, from, dim, run);
  for (int64_t i = 0; i < dim->size; ++i) {
    copyDims(to, from, dim + 1, count - 1, run, streaming);
    to += dim->destination;
    from += dim->source;
  }
}

std::vector<int64_t> packedStrides(const std::vector<int64_t> &sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    strides[dim] = stride;
    stride *= sizes[dim];
  }
  return strides;
}

Status unbound(const PreparedSegment &segment, const LocalStorage &storage,
               unsigned state, int64_t member) {
  const ShardRecord &shard = storage.shards(segment.side)[segment.shard];
  const Family &family = storage.common().families[shard.family];
  return makeError("no memory is bound to '",
                   shortened(ownTensorName(storage.common(), shard,
                                           memberIndex(family, shard, member))),
                   "' state '", shortened(family.states[state].name), "' (",
                   sideName(segment.side), ") on device ",
                   storage.program().device);
}

/// Calls visit(part, pointer to the box) in packed order.
template <typename Visit>
Status forEachBox(const PreparedSegment &segment, const LocalStorage &storage,
                  Visit visit) {
  for (const StatePart &part : segment.parts)
    for (int64_t member : segment.members) {
      std::byte *data =
          storage.data(segment.side, segment.shard, part.state, member);
      if (!data)
        return unbound(segment, storage, part.state, member);
      visit(part, data + part.offset);
    }
  return {};
}

const ShardRecord &shardOf(const RankProgram &program, const Segment &segment) {
  return segment.side == Side::Source ? program.source[segment.shard]
                                      : program.destination[segment.shard];
}

/// Elements that need not lie at multiples of their size.
template <typename Word>
void fillElements(std::byte *to, int64_t bytes, uint64_t bits) {
  auto word = Word(bits);
  for (int64_t at = 0; at < bytes; at += int64_t(sizeof(Word)))
    memcpy(to + at, &word, sizeof(Word));
}

void fillRun(std::byte *to, int64_t bytes, const StatePart &part) {
  if (part.fill == 0) {
    memset(to, 0, size_t(bytes));
    return;
  }
  switch (byteWidth(part.type)) {
  case 1:
    return fillElements<uint8_t>(to, bytes, part.fill);
  case 2:
    return fillElements<uint16_t>(to, bytes, part.fill);
  case 4:
    return fillElements<uint32_t>(to, bytes, part.fill);
  default:
    return fillElements<uint64_t>(to, bytes, part.fill);
  }
}

void fillDims(std::byte *to, const StatePart &part, size_t dim) {
  const StridedCopy &box = part.fromPacked;
  if (dim == box.dims.size())
    return fillRun(to, box.run, part);
  for (int64_t i = 0; i < box.dims[dim].size; ++i)
    fillDims(to + i * box.dims[dim].destination, part, dim + 1);
}

} // namespace

/// The same loops as copyDims, for elements that change.
static void convertDims(std::byte *to, const std::byte *from,
                        const StridedCopy &copy, size_t dim) {
  if (dim == copy.dims.size()) {
    copy.convert(to, from, copy.elements);
    return;
  }
  for (int64_t i = 0; i < copy.dims[dim].size; ++i)
    convertDims(to + i * copy.dims[dim].destination,
                from + i * copy.dims[dim].source, copy, dim + 1);
}

void StridedCopy::operator()(std::byte *destination,
                             const std::byte *source) const {
  if (convert)
    return convertDims(destination, source, *this, 0);
  int64_t bytes = run;
  for (const Dim &dim : dims)
    bytes *= dim.size;
  const Streaming *streaming =
      bytes >= kStreamBytes ? &bestStreaming() : nullptr;
  if (dims.empty())
    copyRuns(destination, source, {1, 0, 0}, run, streaming);
  else
    copyDims(destination, source, dims.data(), dims.size(), run, streaming);
  if (streaming)
    finishStreaming();
}

StridedCopy makeStridedCopy(const std::vector<int64_t> &sizes,
                            const std::vector<int64_t> &sourceStrides,
                            const std::vector<int64_t> &destinationStrides,
                            DType from, DType to) {
  int64_t width = byteWidth(from), outWidth = byteWidth(to);
  StridedCopy copy;
  copy.elements = 1;
  copy.convert = converterFor(from, to);
  copy.from = from;
  copy.to = to;
  std::vector<StridedCopy::Dim> innerFirst;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    if (sizes[dim] == 1)
      continue;
    int64_t source = sourceStrides[dim] * width;
    int64_t destination = destinationStrides[dim] * outWidth;
    if (innerFirst.empty() && sourceStrides[dim] == copy.elements &&
        destinationStrides[dim] == copy.elements) {
      copy.elements *= sizes[dim];
      continue;
    }
    if (!innerFirst.empty()) {
      StridedCopy::Dim &inner = innerFirst.back();
      if (source == inner.source * inner.size &&
          destination == inner.destination * inner.size) {
        inner.size *= sizes[dim];
        continue;
      }
    }
    innerFirst.push_back({sizes[dim], source, destination});
  }
  copy.run = copy.elements * outWidth;
  copy.dims.assign(innerFirst.rbegin(), innerFirst.rend());
  return copy;
}

Result<PreparedSegment> prepareSegment(const PlanCommon &common,
                                       const RankProgram &program,
                                       const Segment &segment) {
  const Family &family = common.families[segment.family];
  const ShardRecord &shard = shardOf(program, segment);
  auto view = viewOf(family, shard, segment.offset, segment.size);
  DTRT_RETURN_IF_ERROR(view);
  PreparedSegment prepared;
  prepared.side = segment.side;
  prepared.shard = segment.shard;
  prepared.bytes = segmentBytes(family, segment);
  std::vector<int64_t> packed = packedStrides(view->sizes);
  int64_t elements = segmentElements(family, segment);
  for (unsigned state : statesOf(segment.states)) {
    DType stored = dtypeOf(family, state, segment.side);
    DType wire = wireDType(family.states[state]);
    prepared.parts.push_back(
        {state, stored, view->offset * byteWidth(stored),
         elements * byteWidth(wire), fillOf(common, shard, state),
         makeStridedCopy(view->sizes, view->strides, packed, stored, wire),
         makeStridedCopy(view->sizes, packed, view->strides, wire, stored)});
  }
  prepared.members = std::move(view->members);
  prepared.sizes = std::move(view->sizes);
  prepared.strides = std::move(view->strides);
  return prepared;
}

Status pack(const PreparedSegment &segment, const LocalStorage &storage,
            std::byte *packed) {
  return forEachBox(segment, storage,
                    [&](const StatePart &part, const std::byte *box) {
                      part.toPacked(packed, box);
                      packed += part.boxBytes;
                    });
}

Status unpack(const PreparedSegment &segment, const LocalStorage &storage,
              const std::byte *packed) {
  return forEachBox(segment, storage,
                    [&](const StatePart &part, std::byte *box) {
                      part.fromPacked(box, packed);
                      packed += part.boxBytes;
                    });
}

Status fillPadding(const PreparedSegment &segment,
                   const LocalStorage &storage) {
  return forEachBox(
      segment, storage,
      [](const StatePart &part, std::byte *box) { fillDims(box, part, 0); });
}

Result<std::byte *> boxData(const PreparedSegment &segment,
                            const StatePart &part, int64_t member,
                            const LocalStorage &storage) {
  std::byte *data =
      storage.data(segment.side, segment.shard, part.state, member);
  if (!data)
    return unbound(segment, storage, part.state, member);
  return data + part.offset;
}

Result<std::byte *> contiguousData(const PreparedSegment &segment,
                                   const LocalStorage &storage) {
  return boxData(segment, segment.parts.front(), segment.members.front(),
                 storage);
}

//===----------------------------------------------------------------------===//
// Messages between shards that one process can see
//===----------------------------------------------------------------------===//

namespace {

bool sameShape(const PreparedSegment &a, const PreparedSegment &b) {
  if (a.sizes != b.sizes || a.members.size() != b.members.size() ||
      a.parts.size() != b.parts.size())
    return false;
  for (size_t i = 0; i < a.parts.size(); ++i)
    if (a.parts[i].boxBytes != b.parts[i].boxBytes)
      return false;
  return true;
}

bool sameShapes(const MessageView &a, const MessageView &b) {
  return a.segments->size() == b.segments->size() &&
         std::equal(a.segments->begin(), a.segments->end(), b.segments->begin(),
                    sameShape);
}

Status copyThroughBuffer(const MessageView &source,
                         const MessageView &destination) {
  uint64_t bytes = 0;
  for (const PreparedSegment &segment : *source.segments)
    bytes += segment.bytes;
  std::unique_ptr<std::byte[]> buffer(new (std::nothrow) std::byte[bytes]);
  if (!buffer)
    return makeError("cannot allocate ", bytes, " bytes for a message");
  DTRT_RETURN_IF_ERROR(packMessage(source, buffer.get()));
  return unpackMessage(destination, buffer.get());
}

Status copySegment(const PreparedSegment &from, const LocalStorage &source,
                   const PreparedSegment &to, const LocalStorage &destination) {
  PreparedCopy both{from, to, {}};
  for (size_t i = 0; i < from.parts.size(); ++i)
    both.perState.push_back(makeStridedCopy(from.sizes, from.strides,
                                            to.strides, from.parts[i].type,
                                            to.parts[i].type));
  return copy(both, source, destination);
}

} // namespace

Status packMessage(const MessageView &source, std::byte *packed) {
  for (const PreparedSegment &segment : *source.segments) {
    DTRT_RETURN_IF_ERROR(pack(segment, *source.storage, packed));
    packed += segment.bytes;
  }
  return {};
}

Status unpackMessage(const MessageView &destination, const std::byte *packed) {
  for (const PreparedSegment &segment : *destination.segments) {
    DTRT_RETURN_IF_ERROR(unpack(segment, *destination.storage, packed));
    packed += segment.bytes;
  }
  return {};
}

Status copyMessage(const MessageView &source, const MessageView &destination) {
  if (!sameShapes(source, destination))
    return copyThroughBuffer(source, destination);
  for (size_t i = 0; i < source.segments->size(); ++i)
    DTRT_RETURN_IF_ERROR(copySegment((*source.segments)[i], *source.storage,
                                     (*destination.segments)[i],
                                     *destination.storage));
  return {};
}

Result<PreparedCopy> prepareCopy(const PlanCommon &common,
                                 const RankProgram &sourceProgram,
                                 const Segment &source,
                                 const RankProgram &destinationProgram,
                                 const Segment &destination) {
  bool sameStates = __builtin_popcountll(source.states) ==
                    __builtin_popcountll(destination.states);
  if (source.family != destination.family || !sameStates ||
      source.offset != destination.offset || source.size != destination.size)
    return makeError("copy between segments of different content");
  const Family &family = common.families[source.family];
  auto from = viewOf(family, shardOf(sourceProgram, source), source.offset,
                     source.size);
  DTRT_RETURN_IF_ERROR(from);
  auto to = viewOf(family, shardOf(destinationProgram, destination),
                   destination.offset, destination.size);
  DTRT_RETURN_IF_ERROR(to);
  auto preparedSource = prepareSegment(common, sourceProgram, source);
  DTRT_RETURN_IF_ERROR(preparedSource);
  auto preparedDestination =
      prepareSegment(common, destinationProgram, destination);
  DTRT_RETURN_IF_ERROR(preparedDestination);
  PreparedCopy copy;
  copy.source = std::move(*preparedSource);
  copy.destination = std::move(*preparedDestination);
  for (size_t i = 0; i < copy.source.parts.size(); ++i)
    copy.perState.push_back(makeStridedCopy(
        from->sizes, from->strides, to->strides, copy.source.parts[i].type,
        copy.destination.parts[i].type));
  return copy;
}

Status copy(const PreparedCopy &copy, const LocalStorage &sourceStorage,
            const LocalStorage &destinationStorage) {
  const PreparedSegment &from = copy.source, &to = copy.destination;
  for (size_t i = 0; i < from.parts.size(); ++i)
    for (size_t m = 0; m < from.members.size(); ++m) {
      const StatePart &source = from.parts[i], &destination = to.parts[i];
      const std::byte *read = sourceStorage.data(from.side, from.shard,
                                                 source.state, from.members[m]);
      std::byte *write = destinationStorage.data(
          to.side, to.shard, destination.state, to.members[m]);
      if (!read)
        return unbound(from, sourceStorage, source.state, from.members[m]);
      if (!write)
        return unbound(to, destinationStorage, destination.state,
                       to.members[m]);
      if (write != read) // else a tensor stays as it is
        copy.perState[i](write + destination.offset, read + source.offset);
    }
  return {};
}

} // namespace dtrt
