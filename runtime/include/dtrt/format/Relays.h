//===- Relays.h - Messages that a device passes on as they are --*- C++ -*-===//

#ifndef DTRT_FORMAT_RELAYS_H
#define DTRT_FORMAT_RELAYS_H

#include "dtrt/format/PlanModel.h"

namespace dtrt {

/// For each instruction that is a group, and for each of its messages: whether
/// it is sent from, or received into, the slot in which it is relayed, neither
/// packed nor unpacked.
std::vector<std::vector<bool>> findRelays(const RankProgram &program);

} // namespace dtrt

#endif // DTRT_FORMAT_RELAYS_H
