//===- KnownMulticastsTest.cpp - Multicasts of known programs -------------===//
//
// A plan makes as many multicasts whatever was known of its programs.
//
//===----------------------------------------------------------------------===//

#include "KnownMulticasts.h"
#include "Mutations.h" // Rng

#include <gtest/gtest.h>

using namespace dtrt;
using namespace dtrt::test;

namespace {

/// What one program passes on and carries.
struct Sent {
  PassedOn passedOn;
  std::shared_ptr<Carried> carried;
};
using Plan = std::vector<Sent>; // by device

/// Some boxes of two small families, to some of these devices.
Sent anySent(Rng &rng, uint32_t device, uint32_t numDevices) {
  Sent out;
  out.carried = std::make_shared<Carried>(device);
  out.carried->items = 1 + rng() % 4;
  for (uint64_t left = rng() % 6; left > 0; --left) {
    Segment segment;
    segment.family = uint32_t(rng() % 2);
    segment.states = 1 + rng() % 3;
    segment.side = rng() % 2 ? Side::Destination : Side::Source;
    for (int dim = 0; dim < 2; ++dim) {
      segment.offset.push_back(int64_t(rng() % 3));
      segment.size.push_back(1 + int64_t(rng() % 2));
    }
    out.passedOn.addSent(segment);
    out.carried->add(segment, uint32_t(rng() % numDevices));
  }
  return out;
}

Plan anySents(Rng &rng) {
  auto numDevices = uint32_t(2 + rng() % 6);
  Plan out;
  for (uint32_t device = 0; device < numDevices; ++device)
    out.push_back(anySent(rng, device, numDevices));
  return out;
}

/// Others in the place of about a third; whether each is the same.
std::vector<bool> replaceSome(Plan &plan, Rng &rng) {
  std::vector<bool> isTaken(plan.size());
  for (uint32_t device = 0; device < plan.size(); ++device) {
    isTaken[device] = rng() % 3 > 0;
    if (!isTaken[device])
      plan[device] = anySent(rng, device, uint32_t(plan.size()));
  }
  return isTaken;
}

KnownMulticasts knownOf(const Plan &plan) {
  std::vector<KnownMulticasts::Program> programs;
  for (const Sent &sent : plan)
    programs.push_back({&sent.passedOn, sent.carried});
  return *KnownMulticasts::of(programs);
}

/// Of a plan of which nothing is known; none where that takes too many steps.
std::optional<uint64_t> countAnew(const Plan &plan,
                                  const KnownMulticasts::MostSteps &mostSteps) {
  PassedOn passedOn;
  for (const Sent &sent : plan)
    passedOn.add(sent.passedOn);
  std::vector<PassedOn::Elements> elements = passedOn.take();
  std::vector<MulticastCounter> counters(1, MulticastCounter(elements));
  for (const Sent &sent : plan)
    if (!counters[0]
             .addCarried(*sent.carried, mostSteps(sent.carried->items))
             .ok())
      return std::nullopt;
  return MulticastCounter::sets(counters).size();
}

/// Of the plan with others in the place of the programs that are not taken.
std::optional<uint64_t>
countKnown(const KnownMulticasts &known, const Plan &plan,
           const std::vector<bool> &isTaken,
           const KnownMulticasts::MostSteps &mostSteps) {
  PassedOn passedOn;
  std::vector<const Carried *> others;
  for (size_t device = 0; device < plan.size(); ++device)
    if (!isTaken[device]) {
      passedOn.add(plan[device].passedOn);
      others.push_back(plan[device].carried.get());
    }
  return known.count(isTaken, std::move(passedOn), others, mostSteps);
}

} // namespace

TEST(KnownMulticasts, AreCountedAsAnew) {
  auto anySteps = [](uint64_t) { return UINT64_MAX; };
  Rng rng(29);
  uint64_t fewer = 0, more = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    Plan plan = anySents(rng);
    KnownMulticasts known = knownOf(plan);
    const auto before = countAnew(plan, anySteps);
    std::vector<bool> isTaken = replaceSome(plan, rng);
    const auto after = countAnew(plan, anySteps);
    // What is known is of the first plan still, whatever was asked.
    for (int time = 0; time < 2; ++time)
      ASSERT_EQ(countKnown(known, plan, isTaken, anySteps), after) << trial;
    fewer += *after < *before;
    more += *after > *before;
  }
  EXPECT_GT(fewer, 100u);
  EXPECT_GT(more, 100u);
}

TEST(KnownMulticasts, TakeNoMoreStepsThanAreAllowed) {
  Rng rng(31);
  int refused = 0, counted = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    const uint64_t most = 1 + rng() % 16;
    auto mostSteps = [&](uint64_t items) { return most * items; };
    Plan plan = anySents(rng);
    KnownMulticasts known = knownOf(plan);
    std::vector<bool> isTaken = replaceSome(plan, rng);
    auto anew = countAnew(plan, mostSteps);
    auto found = countKnown(known, plan, isTaken, mostSteps);
    refused += !anew;
    counted += found.has_value();
    if (found) {
      ASSERT_EQ(found, anew) << trial;
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(counted, 100);
}
