//===- Units.h - Sizes in bytes as people write them ------------*- C++ -*-===//

#ifndef DT_LIB_REQUEST_UNITS_H
#define DT_LIB_REQUEST_UNITS_H

#include "dt/Json/Json.h"

namespace dt::request {

using namespace json;

/// A positive count of bytes: an integer, or a string with a unit.
///   4096 -> 4096, "64KB" -> 64000, "1.5GiB" -> 1610612736
int64_t readBytes(const Json &value, const std::string &path);

} // namespace dt::request

#endif // DT_LIB_REQUEST_UNITS_H
