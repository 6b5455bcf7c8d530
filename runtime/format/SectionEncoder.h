//===- SectionEncoder.h - Plan structs to FlatBuffers sections --*- C++ -*-===//

#ifndef DTRT_LIB_FORMAT_SECTIONENCODER_H
#define DTRT_LIB_FORMAT_SECTIONENCODER_H

#include "dtrt/format/PlanModel.h"
#include "dtrt/types/Status.h"

#include "flatbuffers/flatbuffers.h"

namespace dtrt {

/// Fill `builder` with one finished section.
Status encodeProgram(const RankProgram &program,
                     flatbuffers::FlatBufferBuilder &builder);
/// `features` are those of the whole plan, programs included.
void encodeCommon(const PlanCommon &common, FeatureSet features,
                  flatbuffers::FlatBufferBuilder &builder);

} // namespace dtrt

#endif // DTRT_LIB_FORMAT_SECTIONENCODER_H
