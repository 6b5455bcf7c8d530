//===- DeviceLists.h - Requests but for where ranks are ---------*- C++ -*-===//
//
// Where a device takes another one's place, `devices` of a side is another list
// and nothing else changes: no tensor is cut in another way, no rank holds
// another part.
//
//===----------------------------------------------------------------------===//

#ifndef DT_LIB_REQUEST_DEVICELISTS_H
#define DT_LIB_REQUEST_DEVICELISTS_H

#include "dt/Json/Json.h"

namespace dt::request {

using namespace json;

/// Whether lists of devices say only where ranks are, in a request for one
/// plan. Not so where shards are listed rank by rank, and not where another
/// file says what its links are like.
bool onlyPlacesRanks(const Json &request);

/// The request with device = rank on both sides.
Json withoutDeviceLists(const Json &request);

} // namespace dt::request

#endif // DT_LIB_REQUEST_DEVICELISTS_H
