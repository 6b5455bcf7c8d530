//===- FlatSequence.cpp - Jobs of all cohorts, one after another ----------===//
//
// Cohort k with n jobs has its job j due at (j + phase of k) / n of the whole;
// phases are spread evenly, so that cohorts do not step at once. Of the jobs
// that are due next, the one goes first that brings the devices it touches
// nearest to their lines: what a device creates, what it frees and what goes
// through each of its ports grow in proportion to the bytes that have been
// created and freed altogether. So any stretch of the order loads ports like
// the whole does.
//
//===----------------------------------------------------------------------===//

#include "FlatSequence.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>

using namespace dt;

namespace {

/// Jobs that are compared at each step.
constexpr size_t kChoices = 192;

class Sequencer {
public:
  explicit Sequencer(const std::vector<CohortJobs> &cohorts)
      : cohorts(cohorts) {}
  std::vector<FlatJob> run();

private:
  /// Created, freed, and what goes through each port.
  using Bytes = std::array<double, 6>;
  struct Effect {
    uint32_t device; // dense
    Bytes bytes;
  };
  struct Block {
    std::vector<Effect> effects;
    double bytes = 0; // created and freed
  };
  /// The next job of a cohort.
  struct Due {
    double at = 0;
    uint32_t cohort = 0;
    FlatJob job;
    friend bool operator<(const Due &a, const Due &b) { // for the queue
      return a.at != b.at ? a.at > b.at : a.cohort > b.cohort;
    }
  };

  void index();
  Due dueOf(uint32_t cohort, int64_t number) const;
  double cost(const Due &due) const;
  void apply(const Due &due);

  const std::vector<CohortJobs> &cohorts;
  std::vector<std::vector<Block>> blocks; // by cohort
  std::vector<Bytes> total, sofar;        // by device
  double allBytes = 0, bytes = 0;
};

void Sequencer::index() {
  std::map<int64_t, uint32_t> dense;
  for (const CohortJobs &cohort : cohorts) {
    std::vector<Block> &own = blocks.emplace_back();
    for (const JobEffects &effects : cohort.effects) {
      Block &block = own.emplace_back();
      for (const JobEffect &effect : effects) {
        uint32_t device =
            dense.try_emplace(effect.device, dense.size()).first->second;
        total.resize(dense.size());
        Bytes own = {double(effect.created), double(effect.freed)};
        std::copy(effect.ports.begin(), effect.ports.end(), own.begin() + 2);
        block.effects.push_back({device, own});
        block.bytes += double(effect.created + effect.freed);
        for (size_t i = 0; i < own.size(); ++i)
          total[device][i] += own[i] * double(cohort.members);
      }
      allBytes += block.bytes * double(cohort.members);
    }
  }
  sofar.resize(total.size());
  allBytes = std::max(allBytes, 1.0); // all storages may be shared
}

Sequencer::Due Sequencer::dueOf(uint32_t cohort, int64_t number) const {
  constexpr double kGolden = 0.6180339887498949;
  const CohortJobs &jobs = cohorts[cohort];
  double phase = double(cohort + 1) * kGolden;
  phase -= std::floor(phase);
  Due due;
  due.at = (double(number) + phase) / double(jobs.count());
  due.cohort = cohort;
  due.job.cohort = cohort;
  due.job.number = number;
  auto numBlocks = int64_t(jobs.effects.size());
  due.job.block = number % numBlocks;
  due.job.firstMember = number / numBlocks * jobs.together;
  due.job.numMembers =
      std::min(jobs.together, jobs.members - due.job.firstMember);
  return due;
}

/// How much farther from their lines the job takes its devices, squared.
double Sequencer::cost(const Due &due) const {
  const Block &block = blocks[due.cohort][size_t(due.job.block)];
  auto members = double(due.job.numMembers);
  double share = bytes / allBytes;
  double step = block.bytes * members / allBytes;
  double sum = 0;
  for (const Effect &effect : block.effects) {
    const Bytes &all = total[effect.device], &now = sofar[effect.device];
    for (size_t i = 0; i < all.size(); ++i) {
      double off = now[i] - all[i] * share;
      double change = effect.bytes[i] * members - all[i] * step;
      sum += (2 * off + change) * change;
    }
  }
  return sum;
}

void Sequencer::apply(const Due &due) {
  const Block &block = blocks[due.cohort][size_t(due.job.block)];
  auto members = double(due.job.numMembers);
  for (const Effect &effect : block.effects)
    for (size_t i = 0; i < effect.bytes.size(); ++i)
      sofar[effect.device][i] += effect.bytes[i] * members;
  bytes += block.bytes * members;
}

std::vector<FlatJob> Sequencer::run() {
  index();
  std::priority_queue<Due> queue;
  std::vector<int64_t> next(cohorts.size(), 1);
  for (uint32_t cohort = 0; cohort < cohorts.size(); ++cohort)
    queue.push(dueOf(cohort, 0));
  std::vector<Due> choices;
  std::vector<FlatJob> out;
  while (!queue.empty() || !choices.empty()) {
    while (!queue.empty() && choices.size() < kChoices) {
      choices.push_back(queue.top());
      queue.pop();
    }
    size_t best = 0;
    double least = cost(choices[0]);
    for (size_t i = 1; i < choices.size(); ++i)
      if (double found = cost(choices[i]); found < least) {
        least = found;
        best = i;
      }
    Due chosen = choices[best];
    choices.erase(choices.begin() + best);
    apply(chosen);
    out.push_back(chosen.job);
    if (next[chosen.cohort] < cohorts[chosen.cohort].count())
      queue.push(dueOf(chosen.cohort, next[chosen.cohort]++));
  }
  return out;
}

} // namespace

std::vector<FlatJob> dt::sequenceJobs(const std::vector<CohortJobs> &cohorts) {
  return Sequencer(cohorts).run();
}
