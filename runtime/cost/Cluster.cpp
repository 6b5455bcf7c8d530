//===- Cluster.cpp - The machine that a plan is made for ------------------===//

#include "dtrt/cost/Cluster.h"

#include <cmath>

namespace dtrt {

namespace {

bool isRate(double GBps) { return std::isfinite(GBps) && GBps > 0; }

std::string found(double value, const char *expected) {
  return std::to_string(value) + ", expected " + expected;
}

} // namespace

std::optional<std::string> Cluster::check() const {
  constexpr const char *kRate = "a rate in GB/s above 0";
  if (devicesPerNode < 1)
    return "the cluster has " + std::to_string(devicesPerNode) +
           " devices per node, expected at least 1";
  if (devicesPerNic < 1 || devicesPerNode % devicesPerNic != 0)
    return "the cluster has " + std::to_string(devicesPerNic) +
           " devices per NIC, expected a divisor of the " +
           std::to_string(devicesPerNode) + " devices per node";
  if (!isRate(intraNodeGBps))
    return "island ports have " + found(intraNodeGBps, kRate);
  if (!isRate(interNodeGBps))
    return "NICs have " + found(interNodeGBps, kRate);
  if (!std::isfinite(latencyUs) || latencyUs < 0)
    return "the latency is " + found(latencyUs, "0 us or more");
  if (!std::isfinite(launchUs) || launchUs < 0)
    return "the launch of a wave is " + found(launchUs, "0 us or more");
  for (double us : {multicastUs, copyEngineUs})
    if (!std::isfinite(us) || us < 0)
      return "a library's call takes " + found(us, "0 us or more");
  if (channelsPerPeer < 0 || channelsPerPeer > kMostChannels)
    return "the cluster has " + std::to_string(channelsPerPeer) +
           " channels per peer, expected 0 to " + std::to_string(kMostChannels);
  if (!isRate(intraChannelGBps))
    return "channels inside a node have " + found(intraChannelGBps, kRate);
  if (!isRate(interChannelGBps))
    return "channels between nodes have " + found(interChannelGBps, kRate);
  for (size_t i = 0; i < links.size(); ++i)
    if (!isRate(links[i].GBps))
      return "link " + std::to_string(i) + " has " +
             found(links[i].GBps, kRate);
  return std::nullopt;
}

} // namespace dtrt
