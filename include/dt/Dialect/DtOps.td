//===- DtOps.td - All of the dialect, for tablegen ---------*- tablegen -*-===//

#ifndef DT_DIALECT_DTOPS_TD
#define DT_DIALECT_DTOPS_TD

include "dt/Dialect/LayoutOps.td"
include "dt/Dialect/ProgramOps.td"
include "dt/Dialect/RoutingOps.td"
include "dt/Dialect/TransportOps.td"

#endif // DT_DIALECT_DTOPS_TD
