//===- LossNote.h - What is gone with a rank, in words ----------*- C++ -*-===//

#ifndef DTRT_LIB_WORLD_LOSSNOTE_H
#define DTRT_LIB_WORLD_LOSSNOTE_H

#include "dtrt/verify/LostRegions.h"

namespace dtrt {

/// One sentence for an error: how much is lost, the largest regions of it, and
/// which ranks have the rest. `devices`: of each rank.
std::string lossNote(const PlanReader &plan, const SeenFailure &failure,
                     const std::vector<uint32_t> &devices);

} // namespace dtrt

#endif // DTRT_LIB_WORLD_LOSSNOTE_H
