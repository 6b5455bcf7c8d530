//===- SharedStorages.h - Storages that come and go whole -------*- C++ -*-===//

#ifndef DTRT_LIB_VERIFY_SHAREDSTORAGES_H
#define DTRT_LIB_VERIFY_SHAREDSTORAGES_H

#include "dtrt/format/PlanModel.h"
#include "dtrt/types/Status.h"

namespace dtrt {

/// By tensor, families of one storage name share a storage for each side and
/// state (Family::storage). Fails where a program creates or releases a part of
/// one, or does other things between its parts. Storage segments are whole
/// buffers, each named once.
Status checkSharedStorages(const PlanCommon &common,
                           const RankProgram &program);

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_SHAREDSTORAGES_H
