//===- SectionDecoder.h - FlatBuffers sections to plan structs --*- C++ -*-===//

#ifndef DTRT_LIB_FORMAT_SECTIONDECODER_H
#define DTRT_LIB_FORMAT_SECTIONDECODER_H

#include "ReadBudget.h"

#include "dtrt/format/PlanModel.h"

#include <cstddef>

namespace dtrt {

/// Fails where the common section names features that this library does not
/// know; `features` are the header's.
Status checkFeatures(const uint8_t *data, size_t size, FeatureSet features);

/// Run the FlatBuffers verifier and unpack; indices into the section itself
/// are checked here, what they mean in checkCommon and checkProgram. What they
/// unpack is charged to the budget. The data is 8-byte aligned.
Result<PlanCommon> decodeCommon(const uint8_t *data, size_t size,
                                ReadBudget &budget);
Result<RankProgram> decodeProgram(const uint8_t *data, size_t size,
                                  ReadBudget &budget);

} // namespace dtrt

#endif // DTRT_LIB_FORMAT_SECTIONDECODER_H
