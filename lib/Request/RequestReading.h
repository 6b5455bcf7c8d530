//===- RequestReading.h - From parsed JSON to a request ---------*- C++ -*-===//

#ifndef DT_LIB_REQUEST_REQUESTREADING_H
#define DT_LIB_REQUEST_REQUESTREADING_H

#include "ModelFile.h"
#include "States.h"

namespace dt::request {

/// The transition between two layouts: `sides` in place of what `json`, the
/// whole request, has of them, and the model that it names. Throws JsonError.
Request readTransition(const Json &json, const Sides &sides, Model model);

} // namespace dt::request

#endif // DT_LIB_REQUEST_REQUESTREADING_H
