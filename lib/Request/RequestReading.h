//===- RequestReading.h - From parsed JSON to a request ---------*- C++ -*-===//

#ifndef DT_LIB_REQUEST_REQUESTREADING_H
#define DT_LIB_REQUEST_REQUESTREADING_H

#include "Cluster.h"
#include "ModelFile.h"
#include "States.h"

namespace dt::request {

/// The transition between two layouts: `sides` in place of what `json`, the
/// whole request, has of them, the model that it names, and what is measured of
/// its cluster. Throws JsonError.
Request readTransition(const Json &json, const Sides &sides, Model model,
                       const Cluster &measured);

} // namespace dt::request

#endif // DT_LIB_REQUEST_REQUESTREADING_H
