//===- CopyTable.h - How large a program's table of copies is ---*- C++ -*-===//

#ifndef DTRT_CORE_COPYTABLE_H
#define DTRT_CORE_COPYTABLE_H

#include "dtrt/format/PlanModel.h"
#include "dtrt/types/Status.h"

namespace dtrt {

/// Bytes of the table of packs, unpacks, copies and zeros (BoxCopy.h) that a
/// GPU has of a program.
Result<uint64_t> copyTableBytes(const PlanCommon &common,
                                const RankProgram &program);

} // namespace dtrt

#endif // DTRT_CORE_COPYTABLE_H
