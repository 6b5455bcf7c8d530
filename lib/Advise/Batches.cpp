//===- Batches.cpp - Micro-batches, weights and numbers of a step ---------===//

#include "dt/Advise/Batches.h"

#include <algorithm>

namespace dt::advise {

namespace {

constexpr int64_t kMostMicroBatches = int64_t(1) << 24;

/// Steele, Lea and Flood's SplitMix64: one step of its output function.
uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

bool check(const BatchProblem &problem, std::string &error) {
  auto text = [](int64_t n) { return std::to_string(n); };
  if (problem.microBatch < 1 || problem.globalBatch < 1 || problem.multiple < 1)
    error = "batch sizes must be at least 1";
  else if (problem.globalBatch % problem.microBatch != 0)
    error = "global batch " + text(problem.globalBatch) +
            " does not divide by micro-batch " + text(problem.microBatch);
  else if (problem.globalBatch / problem.microBatch > kMostMicroBatches)
    error =
        "a step has more than " + text(kMostMicroBatches) + " micro-batches";
  else if (problem.slowness.empty())
    error = "there are no replicas";
  if (!error.empty())
    return false;
  int64_t units = problem.globalBatch / problem.microBatch;
  int64_t replicas = problem.slowness.size();
  if (units % problem.multiple != 0)
    error = text(units) + " micro-batches do not divide by " +
            text(problem.multiple);
  else if (units / problem.multiple < replicas)
    error = text(units) + " micro-batches in parts of " +
            text(problem.multiple) + " are too few for " + text(replicas) +
            " replicas";
  for (int64_t slowness : problem.slowness)
    if (slowness < 1 || slowness > INT64_MAX / kMostMicroBatches)
      error = "slowness " + text(slowness) + " is out of range";
  return error.empty();
}

/// Parts that replicas get done within `limit`, at least one each.
int64_t doneWithin(const std::vector<int64_t> &slowness, int64_t limit) {
  int64_t done = 0;
  for (int64_t slow : slowness)
    done += std::max<int64_t>(1, limit / slow);
  return done;
}

} // namespace

std::optional<std::vector<ReplicaShare>>
dealBatches(const BatchProblem &problem, std::string &error) {
  error.clear();
  if (!check(problem, error))
    return std::nullopt;
  int64_t parts = problem.globalBatch / problem.microBatch / problem.multiple;
  const std::vector<int64_t> &slowness = problem.slowness;
  // The least limit within which all parts can be done.
  int64_t low = *std::max_element(slowness.begin(), slowness.end());
  int64_t high = *std::min_element(slowness.begin(), slowness.end()) * parts;
  high = std::max(low, high);
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (doneWithin(slowness, middle) >= parts)
      high = middle;
    else
      low = middle + 1;
  }
  // What is too much goes, a part at a time, from who would end last.
  std::vector<int64_t> count;
  for (int64_t slow : slowness)
    count.push_back(std::max<int64_t>(1, low / slow));
  int64_t extra = doneWithin(slowness, low) - parts;
  for (; extra > 0; --extra) {
    size_t last = 0;
    for (size_t r = 1; r < count.size(); ++r)
      if (count[r] > 1 &&
          (count[last] == 1 ||
           count[r] * slowness[r] >= count[last] * slowness[last]))
        last = r;
    --count[last];
  }
  std::vector<ReplicaShare> shares;
  int64_t at = 0;
  for (int64_t parts : count) {
    ReplicaShare share;
    share.microBatches = parts * problem.multiple;
    share.firstMicroBatch = at;
    share.samples = share.microBatches * problem.microBatch;
    share.weight = double(share.samples) / double(problem.globalBatch);
    at += share.microBatches;
    shares.push_back(share);
  }
  return shares;
}

uint64_t randomStream(uint64_t seed, int64_t sample, int64_t layer,
                      int64_t tp) {
  uint64_t stream = mix(seed);
  for (int64_t part : {sample, layer, tp})
    stream = mix(stream ^ uint64_t(part));
  return stream;
}

} // namespace dt::advise
