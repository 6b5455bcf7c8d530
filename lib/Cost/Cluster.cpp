//===- Cluster.cpp - The machine that a plan is made for ------------------===//

#include "dt/Cost/Cluster.h"

#include <cmath>

using namespace dt;

namespace {

bool isRate(double bytesPerSecond) {
  return std::isfinite(bytesPerSecond) && bytesPerSecond > 0;
}

std::string found(double value, const char *expected) {
  return std::to_string(value) + ", expected " + expected;
}

} // namespace

std::optional<std::string> Cluster::check() const {
  constexpr const char *kRate = "a rate above 0";
  if (devicesPerNode < 1)
    return "the cluster has " + std::to_string(devicesPerNode) +
           " devices per node, expected at least 1";
  if (devicesPerNic < 1 || devicesPerNode % devicesPerNic != 0)
    return "the cluster has " + std::to_string(devicesPerNic) +
           " devices per NIC, expected a divisor of the " +
           std::to_string(devicesPerNode) + " devices per node";
  if (!isRate(intraBytesPerSecond))
    return "island ports have " + found(intraBytesPerSecond, kRate);
  if (!isRate(interBytesPerSecond))
    return "NICs have " + found(interBytesPerSecond, kRate);
  if (!std::isfinite(latencySeconds) || latencySeconds < 0)
    return "the latency is " + found(latencySeconds, "0 seconds or more");
  for (size_t i = 0; i < links.size(); ++i)
    if (!isRate(links[i].bytesPerSecond))
      return "link " + std::to_string(i) + " has " +
             found(links[i].bytesPerSecond, kRate);
  return std::nullopt;
}
