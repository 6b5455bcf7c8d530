//===- Timeline.cpp - What every port does when ---------------------------===//

#include "Timeline.h"

#include "dtrt/format/Collectives.h"
#include "dtrt/format/Forwards.h"
#include "dtrt/format/LocalWork.h"
#include "dtrt/format/Relays.h"

#include <algorithm>
#include <tuple>

namespace dtrt {

namespace {

/// Wave, source and destination of a message, which are its own.
using Key = std::tuple<int32_t, int64_t, int64_t>;

Key keyOf(const TimedMessage &message) {
  return {message.wave, message.source, message.destination};
}

/// A collective by its first member, as messages that take as long.
void addCall(const PlanCommon &common, uint32_t device,
             const Instruction &instruction, std::vector<TimedMessage> &sent) {
  const GroupCollective &call = *instruction.collective;
  if (device == common.memberSets[call.members].front())
    addCollective(timedCollective(common, instruction.wave, call),
                  common.cluster, sent);
}

} // namespace

/// Each message has two ends, each of which says whether it is in place there.
Result<TimedWork> readWork(const PlanReader &plan) {
  TimedWork work;
  std::vector<TimedMessage> &sent = work.messages;
  std::vector<Key> direct; // received in place
  for (uint32_t device : plan.devices()) {
    auto program = plan.program(device);
    DTRT_RETURN_IF_ERROR(program);
    for (const TimedCopy &copy : localWork(plan.common(), *program))
      work.copies.push_back(copy);
    auto forwards = findForwards(*program);
    DTRT_RETURN_IF_ERROR(forwards);
    auto relays = findRelays(*program);
    for (size_t i = 0; i < program->instructions.size(); ++i) {
      const Instruction &instruction = program->instructions[i];
      if (instruction.collective) {
        addCall(plan.common(), device, instruction, sent);
        continue;
      }
      for (size_t m = 0; m < instruction.messages.size(); ++m) {
        const Message &message = instruction.messages[m];
        bool isInPlace = message.direct || relays[i][m];
        if (!message.receive)
          sent.push_back({instruction.wave, device, message.peer,
                          int64_t(message.bytes), !isInPlace,
                          /*isUnpacked=*/true, (*forwards)[i][m]});
        else if (isInPlace)
          direct.push_back({instruction.wave, message.peer, device});
      }
    }
  }
  std::sort(sent.begin(), sent.end(),
            [](const TimedMessage &a, const TimedMessage &b) {
              return keyOf(a) < keyOf(b);
            });
  std::sort(direct.begin(), direct.end());
  for (TimedMessage &message : sent)
    message.isUnpacked =
        !std::binary_search(direct.begin(), direct.end(), keyOf(message));
  // Devices ascend already.
  std::stable_sort(
      work.copies.begin(), work.copies.end(),
      [](const TimedCopy &a, const TimedCopy &b) { return a.wave < b.wave; });
  return work;
}

Result<Timeline> buildTimeline(const PlanReader &plan) {
  auto work = readWork(plan);
  DTRT_RETURN_IF_ERROR(work);
  return drawTimeline(work->messages, plan.common().cluster, work->copies);
}

} // namespace dtrt
