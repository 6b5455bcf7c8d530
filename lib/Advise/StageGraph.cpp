//===- StageGraph.cpp - The work of a pipelined step as a graph -----------===//

#include "dt/Advise/StageGraph.h"

#include <algorithm>
#include <numeric>

namespace dt::advise {

namespace {

constexpr int64_t kMostOperations = 4'000'000;

/// One virtual stage's work for one micro-batch.
struct Task {
  bool isBackward = false;
  int64_t chunk = 0;
  int64_t microBatch = 0;
};

class Schedule {
public:
  Schedule(int64_t stages, int64_t chunks, int64_t microBatches)
      : stages(stages), chunks(chunks), microBatches(microBatches) {}

  /// What a stage runs, in order.
  std::vector<Task> of(int64_t stage) const {
    int64_t total = microBatches * chunks;
    int64_t warm = stages - stage - 1;
    if (chunks > 1)
      warm = 2 * warm + (chunks - 1) * stages;
    warm = std::min(warm, total);
    std::vector<Task> tasks;
    int64_t forward = 0, backward = 0;
    while (forward < warm)
      tasks.push_back(task(forward++, false));
    while (forward < total) {
      tasks.push_back(task(forward++, false));
      tasks.push_back(task(backward++, true));
    }
    while (backward < total)
      tasks.push_back(task(backward++, true));
    return tasks;
  }

private:
  /// Interleaved stages take as many micro-batches as there are stages through
  /// one chunk, then the same through the next.
  Task task(int64_t number, bool isBackward) const {
    if (chunks == 1)
      return {isBackward, 0, number};
    int64_t inRound = number % (stages * chunks);
    int64_t chunk = inRound / stages;
    return {isBackward, isBackward ? chunks - 1 - chunk : chunk,
            number / (stages * chunks) * stages + inRound % stages};
  }

  int64_t stages, chunks, microBatches;
};

bool check(const PipelineTimes &times, std::string &error) {
  size_t stages = times.forward.size();
  size_t chunks = stages ? times.forward.front().size() : 0;
  bool fits = stages > 0 && chunks > 0 && times.backward.size() == stages;
  for (size_t s = 0; fits && s < stages; ++s)
    fits =
        times.forward[s].size() == chunks && times.backward[s].size() == chunks;
  if (!fits)
    error = "forward and backward must have one time per stage and chunk";
  else if (times.microBatches < 1)
    error = "a step has no micro-batch";
  else if (chunks > 1 && times.microBatches % int64_t(stages) != 0)
    error = std::to_string(times.microBatches) +
            " micro-batches do not divide by " + std::to_string(stages) +
            " interleaved stages";
  else if (times.microBatches > kMostOperations ||
           2 * int64_t(stages * chunks) > kMostOperations / times.microBatches)
    error = "a step has more than " + std::to_string(kMostOperations) +
            " operations";
  return error.empty();
}

/// Finds a topological order and names operations by their place in it.
StageGraph sorted(const StageGraph &graph) {
  size_t n = graph.operations.size();
  std::vector<std::vector<int32_t>> next(n);
  std::vector<int32_t> waits(n, 0), order, place(n);
  for (const StageEdge &edge : graph.edges) {
    next[edge.from].push_back(edge.to);
    ++waits[edge.to];
  }
  for (size_t i = 0; i < n; ++i)
    if (waits[i] == 0)
      order.push_back(int32_t(i));
  for (size_t i = 0; i < order.size(); ++i)
    for (int32_t to : next[order[i]])
      if (--waits[to] == 0)
        order.push_back(to);
  StageGraph out;
  for (size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = int32_t(i);
    out.operations.push_back(graph.operations[order[i]]);
  }
  for (StageEdge edge : graph.edges)
    out.edges.push_back({place[edge.from], place[edge.to], edge.delay});
  std::stable_sort(
      out.edges.begin(), out.edges.end(),
      [](const StageEdge &a, const StageEdge &b) { return a.from < b.from; });
  return out;
}

/// Operations by (stage, chunk, micro-batch, way).
class Numbers {
public:
  Numbers(int64_t stages, int64_t chunks, int64_t microBatches)
      : stages(stages), microBatches(microBatches),
        numbers(2 * stages * chunks * microBatches, -1) {}
  int32_t &at(int64_t stage, const Task &task) {
    int64_t virtualStage = task.chunk * stages + stage;
    return numbers[(virtualStage * microBatches + task.microBatch) * 2 +
                   task.isBackward];
  }

private:
  int64_t stages, microBatches;
  std::vector<int32_t> numbers;
};

/// Times this near are equal.
constexpr double kRounding = 1e-9;

/// When each operation ends, all as early as they can.
std::vector<double> finishTimes(const StageGraph &graph,
                                const std::vector<double> &factor) {
  std::vector<double> finished(graph.operations.size(), 0); // starts, at first
  size_t edge = 0;
  for (size_t i = 0; i < graph.operations.size(); ++i) {
    finished[i] +=
        graph.operations[i].seconds * (factor.empty() ? 1 : factor[i]);
    for (; edge < graph.edges.size() && graph.edges[edge].from == int32_t(i);
         ++edge) {
      double &start = finished[graph.edges[edge].to];
      start = std::max(start, finished[i] + graph.edges[edge].delay);
    }
  }
  return finished;
}

/// Which operations could end later with all done by `end`.
std::vector<bool> haveSlack(const StageGraph &graph,
                            const std::vector<double> &factor, double end) {
  std::vector<double> finished = finishTimes(graph, factor);
  std::vector<double> latest(graph.operations.size(), end);
  for (size_t e = graph.edges.size(); e-- > 0;) {
    const StageEdge &edge = graph.edges[e];
    double start = latest[edge.to] -
                   graph.operations[edge.to].seconds * factor[edge.to] -
                   edge.delay;
    latest[edge.from] = std::min(latest[edge.from], start);
  }
  std::vector<bool> out;
  for (size_t i = 0; i < finished.size(); ++i)
    out.push_back(latest[i] - finished[i] > 1e3 * kRounding * end);
  return out;
}

} // namespace

std::optional<StageGraph> buildStageGraph(const PipelineTimes &times,
                                          std::string &error) {
  error.clear();
  if (!check(times, error))
    return std::nullopt;
  int64_t stages = times.forward.size(), chunks = times.forward[0].size();
  Schedule schedule(stages, chunks, times.microBatches);
  Numbers numbers(stages, chunks, times.microBatches);
  StageGraph graph;
  for (int64_t stage = 0; stage < stages; ++stage) {
    int32_t before = -1;
    for (const Task &task : schedule.of(stage)) {
      int32_t number = int32_t(graph.operations.size());
      numbers.at(stage, task) = number;
      const auto &seconds = task.isBackward ? times.backward : times.forward;
      graph.operations.push_back({task.isBackward, int32_t(stage),
                                  int32_t(task.chunk), int32_t(task.microBatch),
                                  seconds[stage][task.chunk]});
      if (before >= 0)
        graph.edges.push_back({before, number, 0});
      before = number;
    }
  }
  // Virtual stage v is chunk v / stages of stage v mod stages.
  for (int64_t v = 0; v < stages * chunks; ++v)
    for (int64_t m = 0; m < times.microBatches; ++m) {
      int32_t forward = numbers.at(v % stages, {false, v / stages, m});
      int32_t backward = numbers.at(v % stages, {true, v / stages, m});
      if (v + 1 == stages * chunks) {
        graph.edges.push_back({forward, backward, 0});
        continue;
      }
      int64_t w = v + 1;
      double delay = stages > 1 ? times.transfer : 0;
      graph.edges.push_back(
          {forward, numbers.at(w % stages, {false, w / stages, m}), delay});
      graph.edges.push_back(
          {numbers.at(w % stages, {true, w / stages, m}), backward, delay});
    }
  return sorted(graph);
}

double makespan(const StageGraph &graph, const std::vector<double> &factor) {
  std::vector<double> finished = finishTimes(graph, factor);
  return finished.empty() ? 0
                          : *std::max_element(finished.begin(), finished.end());
}

std::vector<double> freeSlowdowns(const StageGraph &graph, double most) {
  int32_t stages = 0;
  for (const StageOperation &operation : graph.operations)
    stages = std::max(stages, operation.stage + 1);
  std::vector<double> work(stages, 0);
  for (const StageOperation &operation : graph.operations)
    work[operation.stage] += operation.seconds;
  std::vector<int32_t> order(stages);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return work[a] < work[b]; });
  constexpr int kHalvings = 20;
  std::vector<double> factor(graph.operations.size(), 1);
  double bound = makespan(graph) * (1 + kRounding);
  for (int32_t stage : order) {
    std::vector<bool> isSlack = haveSlack(graph, factor, bound);
    auto set = [&](double value) {
      for (size_t i = 0; i < factor.size(); ++i)
        if (graph.operations[i].stage == stage && isSlack[i])
          factor[i] = value;
    };
    double low = 1, high = std::max(1.0, most);
    for (int i = 0; i < kHalvings; ++i) {
      double middle = (low + high) / 2;
      set(middle);
      (makespan(graph, factor) <= bound ? low : high) = middle;
    }
    set(low);
  }
  return factor;
}

} // namespace dt::advise
