//===- FlatSequence.cpp - Jobs of all cohorts, one after another ----------===//
//
// Each cohort is a *series*; of many, those that load the same devices in the
// same proportions follow one another in one series, so that few tensors are
// begun at a time. Series k with n jobs has its job j due at (j + phase of k) /
// n of the whole; phases are spread evenly, so that series do not step at once.
// Of the jobs that are due next, the one goes first that brings the devices it
// touches nearest to their lines: what a device creates, what it frees and what
// goes through each of its ports grow in proportion to the bytes that have been
// created and freed altogether. So any stretch of the order loads ports like
// the whole does.
//
//===----------------------------------------------------------------------===//

#include "FlatSequence.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <utility>

using namespace dt;

namespace {

/// Jobs that are compared at each step: with fewer, what many cohorts load that
/// have to do with few devices each, as with ZeRO, is uneven. So many at most,
/// and no more than have so many effects together, but some.
constexpr size_t kMostChoices = 4096, kChoices = 48, kEffects = 32768;

/// With more cohorts, as with ZeRO, phases have parts of many tensors: then
/// series have several cohorts, and less counts what has been begun, and what
/// is of a series that the phase has.
constexpr size_t kManyCohorts = 256;
constexpr double kLessOfBegun = 0.5, kLessOfPhase = 0.5;

/// Choices are compared so many at a time, in loops that compilers vectorize.
constexpr size_t kLanes = 32;
using Lanes = std::array<double, kLanes>;
constexpr double kNoChoice = std::numeric_limits<double>::infinity();

/// Compiled for wider vectors too. Multiplies and adds stay apart (no "fma"),
/// so that each of them finds the same.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define DT_WIDE_VECTORS __attribute__((target_clones("avx2", "default")))
#else
#define DT_WIDE_VECTORS
#endif

/// The least fixed - share * falling of every kLanes-th place, by lane.
DT_WIDE_VECTORS void leastCosts(const std::vector<double> &fixed,
                                const std::vector<double> &falling,
                                double share, Lanes &least) {
  least.fill(kNoChoice);
  for (size_t i = 0; i < fixed.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) {
      double cost = fixed[i + lane] - share * falling[i + lane];
      least[lane] = cost < least[lane] ? cost : least[lane];
    }
}

/// By halves, which are as wide as vectors are.
double leastOfLanes(Lanes lanes) {
  for (size_t width = kLanes / 2; width > 0; width /= 2)
    for (size_t lane = 0; lane < width; ++lane)
      lanes[lane] = std::min(lanes[lane], lanes[lane + width]);
  return lanes.front();
}

class Sequencer {
public:
  Sequencer(const std::vector<CohortJobs> &cohorts, double phaseBytes)
      : cohorts(cohorts), phaseBytes(phaseBytes) {}
  std::vector<FlatJob> run();

private:
  /// Created, freed, and what goes through each port.
  using Bytes = std::array<double, 6>;
  struct Effect {
    uint32_t device; // dense
    Bytes bytes;
  };
  struct Block {
    uint32_t number = 0; // among those of all cohorts
    const Effect *first = nullptr, *last = nullptr;
    double bytes = 0; // created and freed

    const Effect *begin() const { return first; }
    const Effect *end() const { return last; }
    size_t size() const { return size_t(last - first); }
  };
  /// The next job of a series.
  struct Due {
    double at = 0;
    uint32_t series = 0;
    FlatJob job;
    friend bool operator<(const Due &a, const Due &b) { // for the queue
      return a.at != b.at ? a.at > b.at : a.series > b.series;
    }
  };
  /// Cohorts that are done one after the other.
  struct Series {
    std::vector<uint32_t> cohorts;
    int64_t jobs = 0;   // of all of them
    int64_t before = 0; // that have been taken
    size_t cohort = 0;  // place of the one that has the next job,
    int64_t number = 0; // and which of its jobs that is
    int64_t phase = -1; // the last that has a job of it
  };

  /// A job that is due. With it the squares of how far devices are from their
  /// lines grow, over `changes` c from where they are, now - all * share, by
  ///
  ///   sum (2 (now - all * share) + c) c
  ///     =  sum (2 now c)  +  sum (c c)  -  share  sum (2 all c)
  ///
  /// of which only the first changes, with what is done of its devices. It is
  /// in `fixed` with the second, of which less may count; the third is
  /// `falling`. They have lists of their own: all choices are compared at each
  /// step.
  struct Choice {
    Due due;
    const Block *block = nullptr;
    double step = 0;    // its part of the whole
    double itself = 0;  // sum (c c)
    double counted = 0; // what counts of it
  };
  /// What a choice changes of a device.
  struct Touch {
    uint32_t choice; // its place
    Bytes change;
  };
  /// Of a block that is done, and one that is due: with it, sum (now c) of one
  /// tensor of the latter grows by `bytes`, less its step times `all`.
  struct Product {
    double bytes = 0; // sum (done bytes)
    double all = 0;   // sum (done all), on devices of the latter
  };

  bool areMany() const { return cohorts.size() > kManyCohorts; }
  void index();
  void findProducts();
  std::vector<int64_t> directionOf(const std::vector<Block> &blocks) const;
  void formSeries();
  Due next(uint32_t number);
  void fill(std::priority_queue<Due> &queue);
  size_t best();
  void add(const Due &due);
  double weighed(const Choice &choice) const;
  void countDone(const Effect &effect, size_t at, double members);
  void countDoneByProducts(const Choice &done);
  Due take(size_t at);
  void beginPhase();

  const std::vector<CohortJobs> &cohorts;
  const double phaseBytes;     // that a device creates in a phase, about
  double numPhases = 1;        // about
  int64_t phase = 0;           // the present one, if all take as many bytes
  std::vector<Effect> effects; // of all blocks
  std::vector<std::vector<Block>> blocks; // by cohort
  std::vector<Series> series;
  std::vector<Bytes> total, sofar; // by device
  std::vector<Choice> choices;
  /// The parts of what choices cost; fixed is infinite where a place is free.
  std::vector<double> fixed, falling;
  std::vector<size_t> free;                // places of choices
  std::vector<std::vector<Touch>> touches; // by device, those of choices
  size_t numBlocks = 0;
  std::vector<Product> products; // by block done, then block due; or none
  size_t numChanges = 0;         // of choices
  double allBytes = 0, bytes = 0;
};

/// Effects are in one list: jobs come to them from everywhere.
void Sequencer::index() {
  size_t numEffects = 0;
  for (const CohortJobs &cohort : cohorts)
    for (const JobEffects &own : cohort.effects)
      numEffects += own.size();
  effects.reserve(numEffects); // blocks point into it
  std::map<int64_t, uint32_t> dense;
  for (const CohortJobs &cohort : cohorts) {
    std::vector<Block> &own = blocks.emplace_back();
    own.reserve(cohort.effects.size());
    for (const JobEffects &ofBlock : cohort.effects) {
      Block &block = own.emplace_back();
      block.number = uint32_t(numBlocks++);
      block.first = effects.data() + effects.size();
      for (const JobEffect &effect : ofBlock) {
        uint32_t device =
            dense.try_emplace(effect.device, dense.size()).first->second;
        total.resize(dense.size());
        Bytes bytes = {double(effect.created), double(effect.freed)};
        std::copy(effect.ports.begin(), effect.ports.end(), bytes.begin() + 2);
        effects.push_back({device, bytes});
        block.bytes += double(effect.created + effect.freed);
        for (size_t i = 0; i < bytes.size(); ++i)
          total[device][i] += bytes[i] * double(cohort.members);
      }
      block.last = effects.data() + effects.size();
      allBytes += block.bytes * double(cohort.members);
    }
  }
  sofar.resize(total.size());
  touches.resize(total.size());
  allBytes = std::max(allBytes, 1.0); // all storages may be shared
  for (const Bytes &all : total)
    numPhases = std::max(numPhases, all[0] / phaseBytes);
}

/// Where tensors are many and blocks few, each pair of blocks is looked at once
/// for all of their tensors, and there are no touches.
void Sequencer::findProducts() {
  int64_t numJobs = 0;
  for (const CohortJobs &cohort : cohorts)
    numJobs += cohort.count();
  if (numBlocks * numBlocks > size_t(numJobs))
    return;
  products.resize(numBlocks * numBlocks);
  std::vector<Bytes> done(total.size()); // by device
  for (const std::vector<Block> &cohort : blocks)
    for (const Block &block : cohort) {
      for (const Effect &effect : block)
        done[effect.device] = effect.bytes;
      Product *product = &products[block.number * numBlocks];
      for (const std::vector<Block> &others : blocks)
        for (const Block &other : others) {
          for (const Effect &effect : other)
            for (size_t i = 0; i < effect.bytes.size(); ++i) {
              double bytes = done[effect.device][i];
              product->bytes += bytes * effect.bytes[i];
              product->all += bytes * total[effect.device][i];
            }
          ++product;
        }
      for (const Effect &effect : block)
        done[effect.device] = {};
    }
}

/// What blocks do to each device, in parts of all that they do: where that is
/// about the same, cohorts bring devices from their lines alike.
std::vector<int64_t>
Sequencer::directionOf(const std::vector<Block> &blocks) const {
  constexpr double kParts = 4; // of what a device has on average
  std::map<uint32_t, Bytes> byDevice;
  double all = 0;
  for (const Block &block : blocks)
    for (const Effect &effect : block)
      for (size_t i = 0; i < effect.bytes.size(); ++i) {
        byDevice[effect.device][i] += effect.bytes[i];
        all += effect.bytes[i];
      }
  std::vector<int64_t> out;
  for (const auto &[device, bytes] : byDevice) {
    out.push_back(device);
    for (double part : bytes)
      out.push_back(std::llround(part / std::max(all, 1.0) * kParts *
                                 double(byDevice.size())));
  }
  return out;
}

void Sequencer::formSeries() {
  std::map<std::vector<int64_t>, uint32_t> byDirection;
  for (uint32_t cohort = 0; cohort < cohorts.size(); ++cohort) {
    auto [it, isNew] = byDirection.try_emplace(
        areMany() ? directionOf(blocks[cohort]) : std::vector<int64_t>{cohort},
        series.size());
    if (isNew)
      series.emplace_back();
    series[it->second].cohorts.push_back(cohort);
    series[it->second].jobs += cohorts[cohort].count();
  }
}

/// Takes the next job of a series, which has one.
Sequencer::Due Sequencer::next(uint32_t number) {
  constexpr double kGolden = 0.6180339887498949;
  Series &own = series[number];
  uint32_t cohort = own.cohorts[own.cohort];
  const CohortJobs &jobs = cohorts[cohort];
  double phase = double(number + 1) * kGolden;
  phase -= std::floor(phase);
  Due due;
  due.at = (double(own.before) + phase) / double(own.jobs);
  due.series = number;
  due.job.cohort = cohort;
  due.job.number = own.number;
  auto numBlocks = int64_t(jobs.effects.size());
  due.job.block = own.number % numBlocks;
  due.job.firstMember = own.number / numBlocks * jobs.together;
  due.job.numMembers =
      std::min(jobs.together, jobs.members - due.job.firstMember);
  ++own.before;
  if (++own.number == jobs.count()) {
    ++own.cohort;
    own.number = 0;
  }
  return due;
}

void Sequencer::add(const Due &due) {
  if (free.empty()) {
    for (size_t lane = kLanes; lane-- > 0;)
      free.push_back(choices.size() + lane);
    choices.resize(choices.size() + kLanes);
    falling.resize(choices.size());
    fixed.resize(choices.size(), kNoChoice);
  }
  size_t at = free.back();
  free.pop_back();
  const Block &block = blocks[due.job.cohort][size_t(due.job.block)];
  auto members = double(due.job.numMembers);
  double step = block.bytes * members / allBytes;
  double now = 0, whole = 0, itself = 0;
  for (const Effect &effect : block) {
    const Bytes &all = total[effect.device], &done = sofar[effect.device];
    Touch touch = {uint32_t(at), effect.bytes};
    for (size_t i = 0; i < all.size(); ++i) {
      double &change = touch.change[i];
      change = change * members - all[i] * step;
      now += done[i] * change;
      whole += all[i] * change;
      itself += change * change;
    }
    if (products.empty())
      touches[effect.device].push_back(touch);
  }
  choices[at] = {due, &block, step, itself, 0};
  choices[at].counted = weighed(choices[at]);
  fixed[at] = 2 * now + choices[at].counted;
  falling[at] = 2 * whole;
  numChanges += block.size();
}

/// What a choice costs by itself.
double Sequencer::weighed(const Choice &choice) const {
  double weight = 1;
  if (areMany() && choice.due.job.block > 0)
    weight -= kLessOfBegun;
  if (areMany() && series[choice.due.series].phase == phase)
    weight -= kLessOfPhase;
  return weight * choice.itself;
}

/// Where the order has come to the next phase: it has no series yet.
void Sequencer::beginPhase() {
  auto now = int64_t(bytes / allBytes * numPhases);
  if (now == phase)
    return;
  phase = now;
  for (size_t at = 0; at < choices.size(); ++at)
    if (fixed[at] != kNoChoice) {
      double &counted = choices[at].counted;
      fixed[at] -= std::exchange(counted, weighed(choices[at]));
      fixed[at] += counted;
    }
}

/// What choices cost changes with what is done of one of their devices; of what
/// they change there, only what is done counts. The touch of choice `at`, the
/// one that is done, goes.
void Sequencer::countDone(const Effect &effect, size_t at, double members) {
  // What is done, twice: so it stands in what choices cost.
  std::array<std::pair<size_t, double>, std::tuple_size_v<Bytes>> done;
  size_t numDone = 0;
  for (size_t i = 0; i < effect.bytes.size(); ++i)
    if (effect.bytes[i] != 0)
      done[numDone++] = {i, 2 * effect.bytes[i] * members};
  std::vector<Touch> &own = touches[effect.device];
  size_t place = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    double now = fixed[own[i].choice];
    for (size_t k = 0; k < numDone; ++k)
      now += done[k].second * own[i].change[done[k].first];
    fixed[own[i].choice] = now;
    place = own[i].choice == at ? i : place;
  }
  own[place] = own.back();
  own.pop_back();
}

/// The same for all that is done of all devices, by products.
void Sequencer::countDoneByProducts(const Choice &done) {
  const double twice = 2 * double(done.due.job.numMembers);
  const Product *own = &products[done.block->number * numBlocks];
  for (size_t at = 0; at < choices.size(); ++at) {
    const Choice &choice = choices[at];
    if (fixed[at] == kNoChoice)
      continue;
    const Product &product = own[choice.block->number];
    fixed[at] += twice * (double(choice.due.job.numMembers) * product.bytes -
                          choice.step * product.all);
  }
}

/// Does what the choice does, and frees its place.
Sequencer::Due Sequencer::take(size_t at) {
  const Choice &choice = choices[at];
  auto members = double(choice.due.job.numMembers);
  for (const Effect &effect : *choice.block) {
    for (size_t i = 0; i < effect.bytes.size(); ++i)
      sofar[effect.device][i] += effect.bytes[i] * members;
    if (products.empty())
      countDone(effect, at, members);
  }
  if (!products.empty())
    countDoneByProducts(choice);
  bytes += choice.block->bytes * members;
  numChanges -= choice.block->size();
  fixed[at] = kNoChoice;
  free.push_back(at);
  return choice.due;
}

/// Takes what is due next into the choices.
void Sequencer::fill(std::priority_queue<Due> &queue) {
  for (size_t count = choices.size() - free.size();
       !queue.empty() && count < kMostChoices &&
       (count < kChoices || numChanges < kEffects);
       ++count) {
    add(queue.top());
    queue.pop();
  }
}

/// The one that takes its devices least far from their lines; of several the
/// one that is due first.
size_t Sequencer::best() {
  const double share = bytes / allBytes;
  Lanes leastOf;
  leastCosts(fixed, falling, share, leastOf);
  const double least = leastOfLanes(leastOf);
  // What is found here need not be what vectors have found, to the last bit.
  std::optional<size_t> best;
  double bestCost = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if (leastOf[lane] != least)
      continue;
    for (size_t at = lane; at < fixed.size(); at += kLanes) {
      const double cost = fixed[at] - share * falling[at];
      if (best &&
          (cost > bestCost ||
           (cost == bestCost && !(choices[*best].due < choices[at].due))))
        continue;
      best = at;
      bestCost = cost;
    }
  }
  return *best;
}

std::vector<FlatJob> Sequencer::run() {
  index();
  findProducts();
  formSeries();
  std::priority_queue<Due> queue;
  for (uint32_t i = 0; i < series.size(); ++i)
    queue.push(next(i));
  std::vector<FlatJob> out;
  for (fill(queue); free.size() < choices.size(); fill(queue)) {
    Due chosen = take(best());
    out.push_back(chosen.job);
    beginPhase();
    series[chosen.series].phase = phase;
    if (series[chosen.series].before < series[chosen.series].jobs)
      queue.push(next(chosen.series));
  }
  return out;
}

} // namespace

std::vector<FlatJob> dt::sequenceJobs(const std::vector<CohortJobs> &cohorts,
                                      double phaseBytes) {
  return Sequencer(cohorts, phaseBytes).run();
}
