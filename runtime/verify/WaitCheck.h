//===- WaitCheck.h - Devices that wait on each other ------------*- C++ -*-===//

#ifndef DTRT_LIB_VERIFY_WAITCHECK_H
#define DTRT_LIB_VERIFY_WAITCHECK_H

#include "ProgramVerifier.h"

namespace dtrt {

/// Matches the ends of messages in the order in which their devices come to
/// them, simulates all groups, and fails when devices wait on each other
/// in a circle: names them and the instructions that they wait in.
Status checkWaiting(const std::vector<UnpairedEnd> &sends,
                    const std::vector<UnpairedEnd> &receives);

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_WAITCHECK_H
