//===- FlatSequenceTest.cpp - Each job brings devices nearest their lines -===//
//
// The order of jobs beside the definition of what is chosen: of the jobs that
// are due next, one of each cohort, the one after which the squares of how far
// its devices are from their lines have grown least.
//
//===----------------------------------------------------------------------===//

#include "FlatSequence.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <map>
#include <random>

using namespace dt;

namespace {

using Amounts = std::array<double, 6>; // created, freed, by port

Amounts amountsOf(const JobEffect &effect) {
  Amounts out = {double(effect.created), double(effect.freed)};
  std::copy(effect.ports.begin(), effect.ports.end(), out.begin() + 2);
  return out;
}

/// So few that all cohorts are compared at each step.
std::vector<CohortJobs> randomCohorts(std::mt19937 &rng, int64_t mostMembers) {
  auto below = [&](int64_t n) { return int64_t(rng() % uint32_t(n)); };
  std::vector<CohortJobs> cohorts(1 + below(20));
  int64_t numDevices = 2 + below(7);
  for (CohortJobs &cohort : cohorts) {
    cohort.members = 1 + below(mostMembers);
    cohort.effects.resize(1 + below(4));
    if (cohort.effects.size() == 1)
      cohort.together = 1 + below(3);
    for (JobEffects &block : cohort.effects)
      for (int64_t device = 0; device < numDevices; ++device)
        if (block.empty() || below(2)) {
          JobEffect &effect = block.emplace_back();
          effect.device = 3 * device;
          effect.created = 1 + below(1000);
          effect.freed = below(2) * below(1000);
          for (int64_t &port : effect.ports)
            port = below(2) * below(1000);
        }
  }
  return cohorts;
}

/// Does jobs, and says what others would do.
class Lines {
public:
  explicit Lines(const std::vector<CohortJobs> &cohorts)
      : cohorts(cohorts), next(cohorts.size(), 0) {
    for (const CohortJobs &cohort : cohorts)
      for (const JobEffects &block : cohort.effects)
        for (const JobEffect &effect : block) {
          for (size_t i = 0; i < 6; ++i)
            total[effect.device][i] +=
                amountsOf(effect)[i] * double(cohort.members);
          all += double((effect.created + effect.freed) * cohort.members);
        }
  }
  bool hasNext(size_t cohort) const {
    return next[cohort] < cohorts[cohort].count();
  }
  int64_t nextOf(size_t cohort) const { return next[cohort]; }

  /// By how much the squares would grow.
  double growth(size_t cohort) const {
    auto [block, members] = jobOf(cohort);
    double share = bytes / all, then = (bytes + bytesOf(cohort)) / all;
    double out = 0;
    for (const JobEffect &effect : *block)
      for (size_t i = 0; i < 6; ++i) {
        double line = total.at(effect.device)[i];
        auto found = done.find(effect.device);
        double now = found == done.end() ? 0 : found->second[i];
        double before = now - line * share;
        double after = now + amountsOf(effect)[i] * members - line * then;
        out += after * after - before * before;
      }
    return out;
  }
  void take(size_t cohort) {
    auto [block, members] = jobOf(cohort);
    bytes += bytesOf(cohort);
    for (const JobEffect &effect : *block)
      for (size_t i = 0; i < 6; ++i)
        done[effect.device][i] += amountsOf(effect)[i] * members;
    ++next[cohort];
  }
  double squareOfAll() const {
    double out = 0;
    for (const auto &[device, line] : total)
      for (double amount : line)
        out += amount * amount;
    return out;
  }

private:
  std::pair<const JobEffects *, double> jobOf(size_t number) const {
    const CohortJobs &cohort = cohorts[number];
    auto numBlocks = int64_t(cohort.effects.size());
    int64_t first = next[number] / numBlocks * cohort.together;
    return {&cohort.effects[size_t(next[number] % numBlocks)],
            double(std::min(cohort.together, cohort.members - first))};
  }
  double bytesOf(size_t number) const {
    auto [block, members] = jobOf(number);
    double sum = 0;
    for (const JobEffect &effect : *block)
      sum += double(effect.created + effect.freed) * members;
    return sum;
  }

  const std::vector<CohortJobs> &cohorts;
  std::map<int64_t, Amounts> total, done; // by device
  double all = 0, bytes = 0;
  std::vector<int64_t> next; // job, by cohort
};

/// Whether blocks are so few beside jobs that pairs of them are multiplied.
bool areBlocksFew(const std::vector<CohortJobs> &cohorts) {
  int64_t blocks = 0, jobs = 0;
  for (const CohortJobs &cohort : cohorts) {
    blocks += int64_t(cohort.effects.size());
    jobs += cohort.count();
  }
  return blocks * blocks <= jobs;
}

TEST(FlatSequence, EachJobBringsItsDevicesNearestToTheirLines) {
  int few = 0, many = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 rng(seed);
    auto cohorts = randomCohorts(rng, /*mostMembers=*/seed % 2 ? 300 : 5);
    ++(areBlocksFew(cohorts) ? few : many);
    Lines lines(cohorts);
    // What sums of products may be off by.
    const double apart = 1e-12 * lines.squareOfAll();
    for (const FlatJob &job : sequenceJobs(cohorts, /*phaseBytes=*/1e6)) {
      ASSERT_TRUE(lines.hasNext(job.cohort));
      ASSERT_EQ(job.number, lines.nextOf(job.cohort));
      double least = lines.growth(job.cohort);
      const double own = least;
      for (size_t other = 0; other < cohorts.size(); ++other)
        if (lines.hasNext(other))
          least = std::min(least, lines.growth(other));
      ASSERT_LE(own, least + apart);
      lines.take(job.cohort);
    }
    for (size_t cohort = 0; cohort < cohorts.size(); ++cohort)
      ASSERT_FALSE(lines.hasNext(cohort));
  }
  EXPECT_GT(few, 50);
  EXPECT_GT(many, 50);
}

} // namespace
