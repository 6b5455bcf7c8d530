//===- Units.cpp - Sizes in bytes as people write them --------------------===//

#include "Units.h"

#include "dt/Geometry/Limits.h"

#include <cmath>
#include <cstdlib>

namespace dt::request {

namespace {

/// Bytes of a unit; 0 when there is no such unit.
double unitBytes(const std::string &unit) {
  if (unit.empty() || unit == "B")
    return 1;
  static const std::string prefixes = "KMGTP";
  size_t power = prefixes.find(unit[0]);
  if (power == std::string::npos)
    return 0;
  if (unit.substr(1) == "B")
    return std::pow(1000.0, power + 1);
  if (unit.substr(1) == "iB")
    return std::pow(1024.0, power + 1);
  return 0;
}

} // namespace

int64_t readBytes(const Json &value, const std::string &path) {
  if (!value.isString())
    return asInteger(value, path, 1, kMaxBytes);
  const std::string &text = value.string;
  size_t digits = text.find_first_not_of("0123456789.");
  std::string number = text.substr(0, digits);
  std::string unit =
      digits == std::string::npos ? std::string() : text.substr(digits);
  if (!unit.empty() && unit[0] == ' ')
    unit.erase(0, 1);
  char *end = nullptr;
  double amount = std::strtod(number.c_str(), &end);
  double bytes = amount * unitBytes(unit);
  if (bytes > double(kMaxBytes) && *end == '\0')
    fail(path + " must be at most " + std::to_string(kMaxBytes) +
         " bytes, not the string " + inQuotes(text));
  if (number.empty() || *end != '\0' || !(bytes >= 1))
    fail(path +
         " must be bytes such as 1073741824, \"1GiB\" or \"512MB\", not the "
         "string " +
         inQuotes(text));
  return static_cast<int64_t>(bytes);
}

} // namespace dt::request
