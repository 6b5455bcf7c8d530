//===- Packing.h - Copying strided boxes ------------------------*- C++ -*-===//
//
// Everything that can be computed before the first byte moves is computed when
// a copy is prepared; running it allocates nothing.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_CORE_PACKING_H
#define DTRT_CORE_PACKING_H

#include "dtrt/core/Convert.h"
#include "dtrt/core/Storage.h"
#include "dtrt/format/ShardView.h"

namespace dtrt {

/// Copies of `run` contiguous bytes, repeated over `dims` (outermost first);
/// with `convert`, of `elements` contiguous elements that become `run` bytes.
struct StridedCopy {
  struct Dim {
    int64_t size;
    int64_t source;      // stride in bytes
    int64_t destination; // likewise
  };
  int64_t run = 0;
  int64_t elements = 0;
  ConvertRun convert = nullptr;
  DType from = DType::U8; // with `convert`
  DType to = DType::U8;
  std::vector<Dim> dims;

  void operator()(std::byte *destination, const std::byte *source) const;
};

/// Strides in elements; contiguous dims are merged.
StridedCopy makeStridedCopy(const std::vector<int64_t> &sizes,
                            const std::vector<int64_t> &sourceStrides,
                            const std::vector<int64_t> &destinationStrides,
                            DType from, DType to);

/// One state of a prepared segment.
struct StatePart {
  unsigned state = 0;
  DType type = DType::U8; // as stored
  int64_t offset = 0;     // bytes from the start of a member's buffer
  int64_t boxBytes = 0;   // bytes of one member's box, packed
  uint64_t fill = 0;      // bits of an element of padding, as stored
  StridedCopy toPacked;
  StridedCopy fromPacked;
};

/// A segment, ready to be packed, unpacked or filled any number of times.
struct PreparedSegment {
  Side side = Side::Source;
  uint32_t shard = 0;
  std::vector<int64_t> members;
  std::vector<int64_t> sizes;   // of the box, in elements
  std::vector<int64_t> strides; // of the shard's local tensor
  std::vector<StatePart> parts;
  uint64_t bytes = 0;
};

Result<PreparedSegment> prepareSegment(const PlanCommon &common,
                                       const RankProgram &program,
                                       const Segment &segment);
/// Each returns an error only when a buffer is not bound.
Status pack(const PreparedSegment &segment, const LocalStorage &storage,
            std::byte *packed);
Status unpack(const PreparedSegment &segment, const LocalStorage &storage,
              const std::byte *packed);
/// Writes what padding holds: zeros, or what the view of the shard says.
Status fillPadding(const PreparedSegment &segment, const LocalStorage &storage);
/// Where one member's box of one state starts.
Result<std::byte *> boxData(const PreparedSegment &segment,
                            const StatePart &part, int64_t member,
                            const LocalStorage &storage);
/// Where the bytes of a direct message's segment start.
Result<std::byte *> contiguousData(const PreparedSegment &segment,
                                   const LocalStorage &storage);

/// The bytes of a message, where they lie.
struct MessageView {
  const std::vector<PreparedSegment> *segments = nullptr;
  const LocalStorage *storage = nullptr;
};
/// Copies a message from shards to shards; the packed form is only made where
/// the two sides cut the message in different ways.
Status copyMessage(const MessageView &source, const MessageView &destination);
Status packMessage(const MessageView &source, std::byte *packed);
Status unpackMessage(const MessageView &destination, const std::byte *packed);

/// The same box in two shards, of one device or two.
struct PreparedCopy {
  PreparedSegment source;
  PreparedSegment destination;
  std::vector<StridedCopy> perState;
};

/// Fails when the segments differ in content. A state may come from the one
/// that it is made from.
Result<PreparedCopy> prepareCopy(const PlanCommon &common,
                                 const RankProgram &sourceProgram,
                                 const Segment &source,
                                 const RankProgram &destinationProgram,
                                 const Segment &destination);
Status copy(const PreparedCopy &copy, const LocalStorage &sourceStorage,
            const LocalStorage &destinationStorage);

} // namespace dtrt

#endif // DTRT_CORE_PACKING_H
