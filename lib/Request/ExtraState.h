//===- ExtraState.h - State that is no weight -------------------*- C++ -*-===//

#ifndef DT_LIB_REQUEST_EXTRASTATE_H
#define DT_LIB_REQUEST_EXTRASTATE_H

#include "dt/Json/Json.h"

#include "dt/Request/Request.h"

namespace dt::request {

using namespace json;

/// Adds the tensors of `extra` and their places to both layouts.
void addExtraState(const Json &json, Request &request);

} // namespace dt::request

#endif // DT_LIB_REQUEST_EXTRASTATE_H
