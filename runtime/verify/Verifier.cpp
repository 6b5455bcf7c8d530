//===- Verifier.cpp - Is a plan right? ------------------------------------===//
//
// Each program is checked by itself; what remains is that the ends of messages
// meet and that the summary tells the truth. Ends meet in the same wave and
// waves ascend in every program, so by induction over the waves no rank waits
// for ever.
//
//===----------------------------------------------------------------------===//

#include "dtrt/verify/Verifier.h"

#include "CollectiveCheck.h"
#include "KnownPrograms.h"
#include "PlanCheck.h"
#include "PortCheck.h"
#include "ProgramVerifier.h"
#include "SummaryCheck.h"
#include "WaitCheck.h"
#include "dtrt/format/Features.h"
#include "dtrt/format/Text.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <tuple>

namespace dtrt {

namespace {

Status unpaired(const UnpairedEnd &end, bool isSend) {
  uint32_t device = isSend ? end.source : end.destination;
  uint32_t peer = isSend ? end.destination : end.source;
  return makeError("device ", device, ", instruction ", end.instruction,
                   " (group): ", isSend ? "sends to" : "receives from",
                   " device ", peer, " in wave ", end.wave, ", but device ",
                   peer, isSend ? " does not receive" : " does not send");
}

Status checkPair(const UnpairedEnd &send, const UnpairedEnd &receive) {
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
    return makeError(where(), "sends other regions than the receiver expects");
  return {};
}

/// Puts the ends of all messages into order.
void sortEnds(const TakenPrograms &taken, ProgramTotals &totals) {
  if (taken.together)
    return taken.together->addEnds(taken.isTaken, totals.sends,
                                   totals.receives);
  sortEnds(totals.sends);
  sortEnds(totals.receives);
}

/// Of ends that are in order.
Status checkPairing(const ProgramTotals &totals) {
  const auto &sends = totals.sends, &receives = totals.receives;
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

/// Every rank of a world has a program that says so. A program names the rank
/// that its device has in the world, if any; so counting them is enough.
Status checkRanks(const PlanCommon &common, const ProgramTotals &totals) {
  auto check = [](const char *side, uint64_t named, size_t world) {
    if (named == world)
      return Status();
    return makeError(named, " programs are ranks of the ", side, " world of ",
                     world);
  };
  DTRT_RETURN_IF_ERROR(
      check("source", totals.sourceRanks, common.sourceDevices.size()));
  return check("destination", totals.destinationRanks,
               common.destinationDevices.size());
}

/// Appends the names of all members of a family, or of a view of it.
template <typename Named>
void appendNames(const Family &family, const Named &named,
                 std::vector<std::string> &names) {
  std::vector<int64_t> member(family.numLeading(), 0);
  for (int64_t left = family.numMembers(); left > 0; --left) {
    names.push_back(named.tensorName(member));
    for (size_t dim = member.size(); dim-- > 0;) {
      if (++member[dim] < family.leading[dim].count)
        break;
      member[dim] = 0;
    }
  }
}

Status checkDifferent(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    return makeError("two tensors have the name '", shortened(*twice), "'");
  return {};
}

/// No two tensors of a side have one name: a trainer could not tell them apart.
Status checkTensorNames(const PlanCommon &common) {
  std::vector<std::string> families;
  for (const Family &family : common.families)
    appendNames(family, family, families);
  DTRT_RETURN_IF_ERROR(checkDifferent(std::move(families)));
  for (Side side : {Side::Source, Side::Destination}) {
    std::vector<bool> isViewed(common.families.size());
    std::vector<std::string> names;
    for (const NamedView &view : common.views)
      if (view.side == side) {
        isViewed[view.family] = true;
        appendNames(common.families[view.family], view, names);
      }
    if (names.empty())
      continue;
    for (size_t i = 0; i < common.families.size(); ++i)
      if (!isViewed[i])
        appendNames(common.families[i], common.families[i], names);
    DTRT_RETURN_IF_ERROR(checkDifferent(std::move(names)));
  }
  return {};
}

/// One per core, no more than there are programs, and no more than kMost: each
/// has a program in memory. To start one takes longer than to check kSmall.
size_t countThreads(const PlanReader &plan, const StoredPrograms &stored) {
  constexpr size_t kMost = 16;
  constexpr uint64_t kSmall = uint64_t(16) << 10; // bytes of the programs
  if (stored.bytes <= kSmall)
    return 1;
  size_t here = std::max(1u, std::thread::hardware_concurrency());
  return std::min({here, kMost, std::max<size_t>(plan.devices().size(), 1)});
}

/// The programs of a plan, read one by one on several threads, as often as
/// they are asked for.
class Programs {
public:
  Programs(const PlanReader &plan, const StoredPrograms &stored)
      : plan(plan), numThreads(countThreads(plan, stored)) {}

  size_t threads() const { return numThreads; }
  /// Calls visit(thread, number) for every program, by its place among the
  /// plan's devices; the error of the first device that has one.
  template <typename Visit> Status forEachNumber(const Visit &visit) const;
  /// Calls visit(thread, program) likewise, but for those that are to be
  /// skipped.
  template <typename Visit>
  Status forEach(const Visit &visit, const std::vector<bool> &skipped) const;
  Result<RankProgram> read(size_t number) const {
    return plan.program(plan.devices()[number]);
  }

private:
  template <typename Visit>
  Status withinMemory(size_t number, const Visit &visit) const;

  const PlanReader &plan;
  size_t numThreads;
};

template <typename Visit>
Status Programs::withinMemory(size_t number, const Visit &visit) const {
  try {
    return visit();
  } catch (const std::bad_alloc &) {
    return makeError("not enough memory to check device ",
                     plan.devices()[number]);
  }
}

template <typename Visit>
Status Programs::forEachNumber(const Visit &visit) const {
  size_t count = plan.devices().size();
  std::atomic<size_t> next{0};
  std::mutex mutex;
  size_t failed = count;
  Status why;
  auto work = [&](size_t thread) {
    for (size_t i; (i = next++) < count;) {
      Status status = withinMemory(i, [&] { return visit(thread, i); });
      if (status.ok())
        continue;
      next = count; // all devices before this one have been taken
      std::lock_guard<std::mutex> lock(mutex);
      if (i < failed)
        failed = i, why = status;
      return;
    }
  };
  std::vector<std::thread> others;
  try {
    for (size_t thread = 1; thread < numThreads; ++thread)
      others.emplace_back(work, thread);
  } catch (const std::system_error &) {
    // Fewer threads do the same work.
  }
  work(0);
  for (std::thread &thread : others)
    thread.join();
  return why;
}

template <typename Visit>
Status Programs::forEach(const Visit &visit,
                         const std::vector<bool> &skipped) const {
  return forEachNumber([&](size_t thread, size_t i) -> Status {
    if (skipped[i])
      return {};
    auto program = read(i);
    DTRT_RETURN_IF_ERROR(program);
    return visit(thread, *program);
  });
}

/// Adds what is known already to `totals`; says which devices that are.
Result<std::vector<bool>> takeKnown(const PlanReader &plan,
                                    KnownPrograms &known,
                                    const ProgramVisitor &visitor,
                                    ProgramTotals &totals) {
  std::vector<bool> taken(plan.devices().size());
  if (!known.isAsked())
    return taken;
  known.reserve(totals);
  for (size_t i = 0; i < taken.size(); ++i) {
    auto shards = known.take(plan.devices()[i], totals);
    DTRT_RETURN_IF_ERROR(shards);
    taken[i] = *shards != nullptr;
    if (visitor && *shards)
      DTRT_RETURN_IF_ERROR(visitor(**shards));
  }
  return taken;
}

/// Each program by itself; `found` gets those that are known.
Result<ProgramTotals> verifyPrograms(const PlanReader &plan,
                                     const Programs &programs,
                                     const MeasureOptions &options,
                                     TakenPrograms &found) {
  constexpr uint64_t kMostCarried = uint64_t(64) << 20; // bytes remembered
  std::atomic<uint64_t> bytesCarried{0};
  std::vector<ProgramTotals> parts(programs.threads());
  KnownPrograms known(plan, options.known);
  parts.front().shards = known.table();
  auto taken = takeKnown(plan, known, options.visit, parts.front());
  DTRT_RETURN_IF_ERROR(taken);
  auto verify = [&](const RankProgram &program, ProgramTotals &out) -> Status {
    out.features |= featuresOf(program);
    size_t before = out.carried.size();
    DTRT_RETURN_IF_ERROR(ProgramVerifier(plan.common(), program, out).verify());
    if (out.carried.size() > before &&
        (bytesCarried += out.carried.back()->bytes()) > kMostCarried)
      out.carried.pop_back();
    return options.visit ? options.visit(program) : Status();
  };
  DTRT_RETURN_IF_ERROR(programs.forEach(
      [&](size_t thread, const RankProgram &program) -> Status {
        if (!known.isAsked() || !options.replacesKnown)
          return verify(program, parts[thread]);
        ProgramTotals own;
        DTRT_RETURN_IF_ERROR(verify(program, own));
        DTRT_RETURN_IF_ERROR(known.add(program, own));
        parts[thread].add(std::move(own));
        return {};
      },
      *taken));
  ProgramTotals totals = std::move(parts.front());
  for (size_t i = 1; i < parts.size(); ++i)
    totals.add(std::move(parts[i]));
  totals.shards.sort();
  found = known.takeTogether();
  return totals;
}

/// Compiled plans take some ten steps per message.
uint64_t mostMulticastSteps(const PlanReader &plan, uint64_t items) {
  constexpr uint64_t kStepsPerItem = 256, kStepsAtLeast = 1 << 20;
  return kStepsPerItem * items + kStepsAtLeast / plan.devices().size() + 1;
}

size_t numberOf(const PlanReader &plan, uint32_t device) {
  const std::vector<uint32_t> &devices = plan.devices();
  return size_t(std::lower_bound(devices.begin(), devices.end(), device) -
                devices.begin());
}

/// By what is known of those that are; none where that is not enough.
std::optional<uint64_t> countKnownMulticasts(const PlanReader &plan,
                                             const ProgramTotals &totals,
                                             const TakenPrograms &taken) {
  size_t remembered = taken.totals.size() + totals.carried.size();
  if (!taken.together || !taken.together->multicasts() ||
      remembered < plan.devices().size())
    return std::nullopt;
  std::vector<const Carried *> others;
  for (const auto &one : totals.carried)
    others.push_back(one.get());
  return taken.together->multicasts()->count(
      taken.isTaken, totals.passedOn, others,
      [&](uint64_t items) { return mostMulticastSteps(plan, items); });
}

/// Goes a second time through what the programs, which are right, send: reads
/// those again of which it was too much to be remembered.
Result<uint64_t> countMulticasts(const PlanReader &plan,
                                 const Programs &programs,
                                 const TakenPrograms &taken,
                                 ProgramTotals &totals) {
  if (auto count = countKnownMulticasts(plan, totals, taken))
    return *count;
  for (const ProgramTotals *known : taken.totals) {
    totals.passedOn.add(known->passedOn);
    totals.carried.insert(totals.carried.end(), known->carried.begin(),
                          known->carried.end());
  }
  if (totals.passedOn.empty())
    return uint64_t(0);
  std::vector<PassedOn::Elements> elements = totals.passedOn.take();
  std::vector<MulticastCounter> parts(programs.threads(),
                                      MulticastCounter(elements));
  std::vector<const Carried *> carried(plan.devices().size());
  for (const auto &one : totals.carried)
    carried[numberOf(plan, one->device)] = one.get();
  DTRT_RETURN_IF_ERROR(programs.forEachNumber([&](size_t thread,
                                                  size_t i) -> Status {
    if (carried[i])
      return parts[thread]
          .addCarried(*carried[i], mostMulticastSteps(plan, carried[i]->items))
          .status();
    auto program = programs.read(i);
    DTRT_RETURN_IF_ERROR(program);
    return parts[thread]
        .addProgram(plan.common(), *program,
                    mostMulticastSteps(plan, Steps::itemsOf(*program)))
        .status();
  }));
  return uint64_t(MulticastCounter::sets(parts).size());
}

template <typename Value, typename Work>
Result<Value> withinMemory(const Work &work) {
  try {
    return work();
  } catch (const std::bad_alloc &) {
    return makeError("not enough memory to verify the plan");
  }
}

/// Does both, the second on a thread of its own where there may be several.
template <typename First, typename Second>
void doBoth(size_t threads, const First &first, const Second &second) {
  std::thread beside;
  try {
    if (threads > 1)
      beside = std::thread(second);
  } catch (const std::system_error &) {
    // One thread does the same work.
  }
  first();
  if (beside.joinable())
    beside.join();
  else
    second();
}

/// What all programs say together, each of which is right, and the plan's
/// numbers but multicasts.
Result<PlanSummary> verifyTogether(const PlanReader &plan,
                                   const TakenPrograms &taken,
                                   ProgramTotals &totals, KnownCells *known) {
  DTRT_RETURN_IF_ERROR(checkRanks(plan.common(), totals));
  // Then the two ends of what one brings are of one collective.
  DTRT_RETURN_IF_ERROR(checkCollectives(plan.common(), totals.collectives));
  sortEnds(taken, totals);
  Status paired = checkPairing(totals);
  if (!paired.ok()) {
    // Ends in different waves may wait on each other: then say so.
    DTRT_RETURN_IF_ERROR(checkWaiting(totals.sends, totals.receives));
    return paired;
  }
  DTRT_RETURN_IF_ERROR(checkPorts(totals.sends, plan.common().cluster));
  return measureTotals(plan.common(), totals, known);
}

/// What a plan was found to be.
struct Verified {
  ProgramTotals totals;
  PlanSummary summary; // as it should be
};

/// Everything but the plan's own summary.
Result<Verified> verifyAll(const PlanReader &plan,
                           const MeasureOptions &options = {}) {
  DTRT_RETURN_IF_ERROR(checkWorlds(plan));
  DTRT_RETURN_IF_ERROR(checkTensorNames(plan.common()));
  auto stored = plan.storedPrograms();
  DTRT_RETURN_IF_ERROR(stored);
  Programs programs(plan, *stored);
  TakenPrograms taken;
  auto verified = verifyPrograms(plan, programs, options, taken);
  DTRT_RETURN_IF_ERROR(verified);
  ProgramTotals &totals = *verified;
  totals.features |= stored->features;
  KnownCells *known = options.known ? &options.known->get().cells : nullptr;
  std::optional<Result<PlanSummary>> summary;
  std::optional<Result<uint64_t>> multicasts;
  doBoth(
      programs.threads(),
      [&] {
        summary = withinMemory<PlanSummary>(
            [&] { return verifyTogether(plan, taken, totals, known); });
      },
      [&] {
        multicasts = withinMemory<uint64_t>(
            [&] { return countMulticasts(plan, programs, taken, totals); });
      });
  DTRT_RETURN_IF_ERROR(*summary);
  DTRT_RETURN_IF_ERROR(*multicasts);
  (*summary)->multicasts = **multicasts;
  return Verified{std::move(totals), **summary};
}

} // namespace

Result<PlanSummary> measurePlan(const PlanReader &plan,
                                const MeasureOptions &options) {
  return withinMemory<PlanSummary>([&]() -> Result<PlanSummary> {
    auto verified = verifyAll(plan, options);
    DTRT_RETURN_IF_ERROR(verified);
    const std::vector<UnpairedEnd> &sends = verified->totals.sends;
    if (options.features)
      *options.features = verified->totals.features;
    if (options.lastWave) // they are sorted by wave
      *options.lastWave = sends.empty() ? -1 : sends.back().wave;
    return verified->summary;
  });
}

ProgramFault verifyProgram(const PlanCommon &common,
                           const RankProgram &program) {
  std::set<uint32_t> devices(common.sourceDevices.begin(),
                             common.sourceDevices.end());
  devices.insert(common.destinationDevices.begin(),
                 common.destinationDevices.end());
  ReadBudget budget = ReadBudget::unbounded();
  Status status =
      checkProgram(common, {devices.begin(), devices.end()}, program, budget);
  if (!status.ok())
    return {status};
  ProgramTotals totals;
  ProgramVerifier verifier(common, program, totals);
  status = verifier.verify();
  return {status, verifier.instruction()};
}

Status verifyPlan(const PlanReader &plan, VerifiedPlan *facts,
                  VerifiedPrograms *known) {
  MeasureOptions options;
  options.known = known;
  auto verified = withinMemory<VerifiedPlan>([&]() -> Result<VerifiedPlan> {
    auto found = verifyAll(plan, options);
    DTRT_RETURN_IF_ERROR(found);
    DTRT_RETURN_IF_ERROR(checkSummary(plan.common().summary, found->summary));
    if (plan.formatMinor() >= kFeaturesSinceMinor)
      DTRT_RETURN_IF_ERROR(
          checkStated(plan.common().features,
                      found->totals.features | featuresOf(plan.common())));
    return VerifiedPlan{found->totals.mostAbove};
  });
  DTRT_RETURN_IF_ERROR(verified);
  if (facts)
    *facts = *verified;
  return {};
}

} // namespace dtrt
