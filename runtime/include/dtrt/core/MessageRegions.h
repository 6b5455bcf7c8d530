//===- MessageRegions.h - Which tensors a message carries -------*- C++ -*-===//
//
// A region is a run of a message's bytes, as long as can be, of one tensor and
// state. The elements of a message have one order at both ends, so both find
// the same regions however each cuts the message into segments.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_CORE_MESSAGEREGIONS_H
#define DTRT_CORE_MESSAGEREGIONS_H

#include "dtrt/format/PlanModel.h"
#include "dtrt/types/Status.h"

namespace dtrt {

struct MessageRegion {
  uint32_t family = 0;
  unsigned state = 0;
  std::vector<int64_t> member; // leading index in the family
  uint64_t bytes = 0;          // in the packed form
};

/// The regions of one message, in its order, without gaps.
struct MessageRegions {
  const PlanCommon *common = nullptr;
  std::vector<MessageRegion> list;
  /// "tensor 'NAME', state 'STATE'".
  std::string name(size_t region) const;
};

/// By instruction and message; empty for other instructions than groups.
/// `common` must outlive them. Fails where the bytes of a message are not those
/// of whole segments that are packed for it, or unpacked from it.
Result<std::vector<std::vector<MessageRegions>>>
regionsOf(const PlanCommon &common, const RankProgram &program);

} // namespace dtrt

#endif // DTRT_CORE_MESSAGEREGIONS_H
