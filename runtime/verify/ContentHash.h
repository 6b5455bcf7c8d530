//===- ContentHash.h - What a message carries -------------------*- C++ -*-===//
//
// Sender and receiver describe a message by segments of their own shards. The
// bytes are the same if both describe the same sequence of (family, state,
// box); masks are split into states and boxes that continue each other merged
// before hashing, so that both may cut it in their own way.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_LIB_VERIFY_CONTENTHASH_H
#define DTRT_LIB_VERIFY_CONTENTHASH_H

#include "dtrt/format/PlanReader.h"

namespace dtrt {

class ContentHash {
public:
  void add(const Segment &segment);
  Digest finish();

private:
  void addBox(uint32_t family, unsigned state, const DimVector &offset,
              const DimVector &size);
  bool extend(uint32_t family, unsigned state, const DimVector &offset,
              const DimVector &size);
  void flush();

  std::vector<int64_t> words;
  bool pending = false;
  uint32_t lastFamily = 0;
  unsigned lastState = 0;
  DimVector lastOffset, lastSize;
};

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_CONTENTHASH_H
