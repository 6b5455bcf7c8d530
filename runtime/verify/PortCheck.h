//===- PortCheck.h - One message per port and wave --------------*- C++ -*-===//

#ifndef DTRT_LIB_VERIFY_PORTCHECK_H
#define DTRT_LIB_VERIFY_PORTCHECK_H

#include "ProgramVerifier.h"

namespace dtrt {

/// In a wave every port, that is the NIC and the island link of a device,
/// carries at most one message out and one in. Devices that share a NIC share
/// its port. A library's collective shares its ports by itself. The sends are
/// sorted by wave.
Status checkPorts(const std::vector<UnpairedEnd> &sends,
                  const Cluster &cluster);

} // namespace dtrt

#endif // DTRT_LIB_VERIFY_PORTCHECK_H
