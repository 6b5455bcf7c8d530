//===- SectionDecoder.h - FlatBuffers sections to plan structs --*- C++ -*-===//

#ifndef DTRT_LIB_PLAN_SECTIONDECODER_H
#define DTRT_LIB_PLAN_SECTIONDECODER_H

#include "dtrt/PlanModel.h"
#include "dtrt/Status.h"

#include <cstddef>

namespace dtrt {

/// Run the FlatBuffers verifier and unpack; indices into the section itself
/// are checked here, what they mean in checkCommon and checkProgram.
Result<PlanCommon> decodeCommon(const uint8_t *data, size_t size);
Result<RankProgram> decodeProgram(const uint8_t *data, size_t size);

} // namespace dtrt

#endif // DTRT_LIB_PLAN_SECTIONDECODER_H
