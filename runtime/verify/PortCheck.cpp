//===- PortCheck.cpp - One message per port and wave ----------------------===//

#include "PortCheck.h"

#include "dtrt/types/DeviceIndex.h"

namespace dtrt {

namespace {

std::string pairText(const UnpairedEnd &message) {
  return std::to_string(message.source) + " -> " +
         std::to_string(message.destination);
}

Status portTwice(const UnpairedEnd &first, const UnpairedEnd &second,
                 bool interNode, bool receives, int64_t port) {
  return makeError("device ", second.source, ", instruction ",
                   second.instruction, " (group): wave ", second.wave,
                   " sends ", pairText(first), " and ", pairText(second),
                   receives ? " into the " : " out of the ",
                   interNode ? "NIC" : "island link", " of device ", port,
                   ", expected one message each way per port and wave");
}

} // namespace

Status checkPorts(const std::vector<UnpairedEnd> &sends,
                  const Cluster &cluster) {
  DeviceIndex numbers;
  // By port and direction: the last message that used it.
  std::vector<const UnpairedEnd *> used;
  for (const UnpairedEnd &send : sends) {
    bool interNode = !cluster.sameNode(send.source, send.destination);
    for (bool receives : {false, true}) {
      int64_t port =
          cluster.port(receives ? send.destination : send.source, interNode);
      size_t place = 4 * size_t(numbers(port)) + 2 * interNode + receives;
      if (place >= used.size())
        used.resize(4 * size_t(numbers.size()), nullptr);
      const UnpairedEnd *&last = used[place];
      if (last && last->wave == send.wave)
        return portTwice(*last, send, interNode, receives, port);
      last = &send;
    }
  }
  return {};
}

} // namespace dtrt
