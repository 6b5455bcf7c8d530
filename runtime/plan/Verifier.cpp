//===- Verifier.cpp - Is a plan right? ------------------------------------===//
//
// Each program is checked by itself; what remains is that the ends of messages
// meet and that the summary tells the truth. Ends meet in the same wave and
// waves ascend in every program, so by induction over the waves no rank waits
// for ever.
//
//===----------------------------------------------------------------------===//

#include "dtrt/Verifier.h"

#include "ProgramVerifier.h"
#include "WaitCheck.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>

namespace dtrt {

namespace {

auto pairKey(const MessageEnd &end) {
  return std::make_tuple(end.wave, end.source, end.destination);
}

Status unpaired(const MessageEnd &end, bool isSend) {
  uint32_t device = isSend ? end.source : end.destination;
  uint32_t peer = isSend ? end.destination : end.source;
  return makeError("device ", device, ", instruction ", end.instruction,
                   " (group): ", isSend ? "sends to" : "receives from",
                   " device ", peer, " in wave ", end.wave, ", but device ",
                   peer, isSend ? " does not receive" : " does not send");
}

Status checkPair(const MessageEnd &send, const MessageEnd &receive) {
  auto where = [&] {
    return "device " + std::to_string(send.source) + ", instruction " +
           std::to_string(send.instruction) + " and device " +
           std::to_string(receive.destination) + ", instruction " +
           std::to_string(receive.instruction) + " (group): wave " +
           std::to_string(send.wave) + " ";
  };
  if (send.bytes != receive.bytes)
    return makeError(where(), "sends ", send.bytes, " bytes, expected ",
                     receive.bytes);
  if (send.content != receive.content)
    return makeError(where(),
                     "sends other regions than the receiver takes them for");
  return {};
}

Status checkPairing(ProgramTotals &totals) {
  auto before = [](const MessageEnd &a, const MessageEnd &b) {
    return pairKey(a) < pairKey(b);
  };
  auto &sends = totals.sends, &receives = totals.receives;
  std::sort(sends.begin(), sends.end(), before);
  std::sort(receives.begin(), receives.end(), before);
  size_t s = 0, r = 0;
  while (s < sends.size() || r < receives.size()) {
    if (r == receives.size() ||
        (s < sends.size() && pairKey(sends[s]) < pairKey(receives[r])))
      return unpaired(sends[s], /*isSend=*/true);
    if (s == sends.size() || pairKey(receives[r]) < pairKey(sends[s]))
      return unpaired(receives[r], /*isSend=*/false);
    DTRT_RETURN_IF_ERROR(checkPair(sends[s++], receives[r++]));
  }
  return {};
}

Status checkWorlds(const PlanReader &plan) {
  const PlanCommon &common = plan.common();
  for (const auto *world : {&common.sourceDevices, &common.destinationDevices})
    for (uint32_t device : *world)
      if (!std::binary_search(plan.devices().begin(), plan.devices().end(),
                              device))
        return makeError("device ", device,
                         " is in a world of the plan but has no program");
  return {};
}

uint64_t countWaves(const std::vector<MessageEnd> &sends) {
  uint64_t waves = 0;
  int32_t last = -1;
  for (const MessageEnd &send : sends) { // sorted by wave
    waves += send.wave != last;
    last = send.wave;
  }
  return waves;
}

Status checkSummary(const PlanSummary &summary, const ProgramTotals &totals) {
  struct Row {
    const char *name;
    uint64_t said, found;
  };
  const Row rows[] = {
      {"destination bytes", summary.bytesDestination, totals.bytesDestination},
      {"local bytes", summary.bytesLocal, totals.bytesLocal},
      {"wire bytes", summary.bytesWire, totals.bytesWire},
      {"inter-node bytes", summary.bytesInterNode, totals.bytesInterNode},
      {"staging peak", summary.stagingPeak, totals.stagingPeak},
      {"most source bytes", summary.sourceMax, totals.sourceMax},
      {"most destination bytes", summary.destinationMax, totals.destinationMax},
      {"messages", summary.messages, totals.sends.size()},
      {"waves", summary.waves, countWaves(totals.sends)},
      {"collectives", summary.collectives, totals.collectives},
  };
  for (const Row &row : rows)
    if (row.said != row.found)
      return makeError("summary says ", row.said, " ", row.name,
                       ", the programs have ", row.found);
  // The compiler may count communicator buffers, which no instruction names.
  if (summary.devicePeak < totals.devicePeak)
    return makeError("summary says a device peak of ", summary.devicePeak,
                     " bytes, the programs need ", totals.devicePeak);
  if (summary.deviceLimit > 0 && summary.devicePeak > summary.deviceLimit)
    return makeError("device peak of ", summary.devicePeak,
                     " bytes is more than the limit of ", summary.deviceLimit);
  return {};
}

/// One per core, no more than there are programs, and no more than kMost: each
/// has a program in memory.
size_t countThreads(const PlanReader &plan) {
  constexpr size_t kMost = 16;
  size_t here = std::max(1u, std::thread::hardware_concurrency());
  return std::min({here, kMost, std::max<size_t>(plan.devices().size(), 1)});
}

/// Calls visit(thread, program) for every program, on as many threads; the
/// error of the first device that has one.
template <typename Visit>
Status forEachProgram(const PlanReader &plan, size_t numThreads, Visit visit) {
  const std::vector<uint32_t> &devices = plan.devices();
  std::atomic<size_t> next{0};
  std::mutex mutex;
  size_t failed = devices.size();
  Status why;
  auto work = [&](size_t thread) {
    for (size_t i; (i = next++) < devices.size();) {
      auto program = plan.program(devices[i]);
      Status status = statusOf(program);
      if (status.ok())
        status = visit(thread, *program);
      if (status.ok())
        continue;
      next = devices.size(); // all devices before this one have been taken
      std::lock_guard<std::mutex> lock(mutex);
      if (i < failed)
        failed = i, why = status;
      return;
    }
  };
  std::vector<std::thread> threads;
  for (size_t thread = 1; thread < numThreads; ++thread)
    threads.emplace_back(work, thread);
  work(0);
  for (std::thread &thread : threads)
    thread.join();
  return why;
}

/// Each program by itself.
Result<ProgramTotals> verifyPrograms(const PlanReader &plan) {
  std::vector<ProgramTotals> parts(countThreads(plan));
  DTRT_RETURN_IF_ERROR(forEachProgram(
      plan, parts.size(), [&](size_t thread, const RankProgram &program) {
        return ProgramVerifier(plan.common(), program, parts[thread]).verify();
      }));
  ProgramTotals totals = std::move(parts.front());
  for (size_t i = 1; i < parts.size(); ++i)
    totals.add(std::move(parts[i]));
  return totals;
}

/// Reads the programs, which are right, a second time.
Result<uint64_t> countMulticasts(const PlanReader &plan, PassedOn passedOn) {
  if (passedOn.empty())
    return uint64_t(0);
  std::vector<PassedOn::Elements> elements = passedOn.take();
  std::vector<MulticastCounter> parts(countThreads(plan),
                                      MulticastCounter(elements));
  DTRT_RETURN_IF_ERROR(
      forEachProgram(plan, parts.size(),
                     [&](size_t thread, const RankProgram &program) -> Status {
                       parts[thread].addProgram(plan.common(), program);
                       return {};
                     }));
  return MulticastCounter::count(parts);
}

} // namespace

ProgramFault verifyProgram(const PlanCommon &common,
                           const RankProgram &program) {
  std::set<uint32_t> devices(common.sourceDevices.begin(),
                             common.sourceDevices.end());
  devices.insert(common.destinationDevices.begin(),
                 common.destinationDevices.end());
  Status status =
      checkProgram(common, {devices.begin(), devices.end()}, program);
  if (!status.ok())
    return {status};
  ProgramTotals totals;
  ProgramVerifier verifier(common, program, totals);
  status = verifier.verify();
  return {status, verifier.instruction()};
}

Status verifyPlan(const PlanReader &plan, VerifiedPlan *facts) {
  DTRT_RETURN_IF_ERROR(checkWorlds(plan));
  auto verified = verifyPrograms(plan);
  DTRT_RETURN_IF_ERROR(verified);
  ProgramTotals &totals = *verified;
  Status paired = checkPairing(totals);
  if (!paired.ok()) {
    // Ends in different waves may wait on each other: then say so.
    DTRT_RETURN_IF_ERROR(checkWaiting(totals.sends, totals.receives));
    return paired;
  }
  totals.receives = {};
  auto collectives = countMulticasts(plan, std::move(totals.passedOn));
  DTRT_RETURN_IF_ERROR(collectives);
  totals.collectives = *collectives;
  DTRT_RETURN_IF_ERROR(checkSummary(plan.common().summary, totals));
  if (facts)
    facts->mostAbove = totals.mostAbove;
  return {};
}

} // namespace dtrt
