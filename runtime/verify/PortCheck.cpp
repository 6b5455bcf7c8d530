//===- PortCheck.cpp - Few messages per port and wave
//----------------------===//

#include "PortCheck.h"

#include "dtrt/types/DeviceIndex.h"

namespace dtrt {

namespace {

std::string pairText(const UnpairedEnd &message) {
  return std::to_string(message.source) + " -> " +
         std::to_string(message.destination);
}

Status tooMany(const UnpairedEnd &first, const UnpairedEnd &second,
               bool interNode, bool receives, int64_t port, int64_t most) {
  return makeError(
      "device ", second.source, ", instruction ", second.instruction,
      " (group): wave ", second.wave, " sends ", pairText(first), " and ",
      pairText(second), receives ? " into the " : " out of the ",
      interNode ? "NIC" : "island link", " of device ", port, ", expected ",
      most == 1 ? "one message"
                : "at most " + std::to_string(most) + " messages",
      " each way per port and wave");
}

} // namespace

Status checkPorts(const std::vector<UnpairedEnd> &sends,
                  const Cluster &cluster) {
  DeviceIndex numbers;
  // By port and direction: the last message that used it, and how many of its
  // wave have.
  struct Use {
    const UnpairedEnd *message = nullptr;
    int64_t count = 0;
  };
  std::vector<Use> used;
  for (const UnpairedEnd &send : sends) {
    if (send.collective)
      continue;
    bool interNode = !cluster.sameNode(send.source, send.destination);
    int64_t most = cluster.messagesPerPort(interNode);
    for (bool receives : {false, true}) {
      int64_t port =
          cluster.port(receives ? send.destination : send.source, interNode);
      size_t place = 4 * size_t(numbers(port)) + 2 * interNode + receives;
      if (place >= used.size())
        used.resize(4 * size_t(numbers.size()));
      Use &last = used[place];
      if (!last.message || last.message->wave != send.wave)
        last.count = 0;
      if (++last.count > most)
        return tooMany(*last.message, send, interNode, receives, port, most);
      last.message = &send;
    }
  }
  return {};
}

} // namespace dtrt
