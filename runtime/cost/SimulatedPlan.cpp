//===- SimulatedPlan.cpp - Programs as they are simulated -----------------===//

#include "dtrt/cost/SimulatedPlan.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace dtrt {

void SimulatedPlan::addDevice(int64_t device,
                              const std::vector<DeviceStep> &steps) {
  Program program = {device, allSteps.size(), 0};
  for (const DeviceStep &step : steps) {
    Step added = {step.kind,      step.afterLocal,  step.wave,
                  step.bytes,     step.unpackBytes, step.localBytes,
                  step.packBytes, open.size(),      0};
    for (const MessageEnd &end : step.messages)
      open.push_back({step.wave, end.receive ? end.peer : device,
                      end.receive ? device : end.peer, end.bytes, end.receive,
                      end.steps});
    added.last = open.size();
    allSteps.push_back(added);
  }
  program.last = allSteps.size();
  allPrograms.push_back(program);
}

namespace {

template <typename End> auto keyOf(const End &end) {
  return std::make_tuple(end.wave, end.source, end.destination);
}

template <typename End> Status lacksOther(const End &end) {
  int64_t device = end.receive ? end.destination : end.source;
  int64_t peer = end.receive ? end.source : end.destination;
  return makeError("device ", device, " ", end.receive ? "receives " : "sends ",
                   end.bytes, " bytes in wave ", end.wave,
                   end.receive ? " from device " : " to device ", peer,
                   ", which has no such message in that wave");
}

} // namespace

/// A message for each send, in the order of `sends`.
Status SimulatedPlan::addMessages(const std::vector<uint32_t> &sends) {
  std::unordered_map<int64_t, uint32_t> numberOf;
  for (size_t i = 0; i < allPrograms.size(); ++i)
    numberOf[allPrograms[i].device] = uint32_t(i);
  for (uint32_t number : sends) {
    const OpenEnd &send = open[number];
    auto receiver = numberOf.find(send.destination);
    if (receiver == numberOf.end() || send.source == send.destination)
      return lacksOther(send);
    messageOf[number] = uint32_t(allMessages.size());
    allMessages.push_back({send.wave, numberOf[send.source], receiver->second,
                           send.bytes, send.steps});
  }
  return {};
}

Status SimulatedPlan::joinReceives(const std::vector<uint32_t> &sends) {
  std::vector<bool> isReceived(sends.size());
  auto before = [&](uint32_t send, const OpenEnd &receive) {
    return keyOf(open[send]) < keyOf(receive);
  };
  for (size_t number = 0; number < open.size(); ++number) {
    const OpenEnd &receive = open[number];
    if (!receive.receive)
      continue;
    auto at = std::lower_bound(sends.begin(), sends.end(), receive, before);
    size_t send = size_t(at - sends.begin());
    if (at == sends.end() || keyOf(open[*at]) != keyOf(receive) ||
        open[*at].bytes != receive.bytes || isReceived[send])
      return lacksOther(receive);
    isReceived[send] = true;
    messageOf[number] = uint32_t(send);
  }
  auto none = std::find(isReceived.begin(), isReceived.end(), false);
  if (none != isReceived.end())
    return lacksOther(open[sends[size_t(none - isReceived.begin())]]);
  return {};
}

Status SimulatedPlan::finish() {
  std::vector<uint32_t> sends;
  for (size_t number = 0; number < open.size(); ++number)
    if (!open[number].receive)
      sends.push_back(uint32_t(number));
  std::sort(sends.begin(), sends.end(), [&](uint32_t a, uint32_t b) {
    return std::make_pair(keyOf(open[a]), a) <
           std::make_pair(keyOf(open[b]), b);
  });
  messageOf.resize(open.size());
  DTRT_RETURN_IF_ERROR(addMessages(sends));
  DTRT_RETURN_IF_ERROR(joinReceives(sends));
  open = {};
  return {};
}

} // namespace dtrt
