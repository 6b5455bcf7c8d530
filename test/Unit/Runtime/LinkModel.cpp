//===- LinkModel.cpp - The protocol inside a host, as a model -------------===//

#include "LinkModel.h"

#include <algorithm>

namespace dtrt::test {

using What = ModelStep::What;
using Phase = ModelRank::Phase;
using Kind = ModelFrame::Kind;
using Fault = ModelScenario::Fault;
using Change = ModelScenario::Change;

static const char *nameOf(ModelReason reason) {
  constexpr const char *names[] = {"ok", "abort", "lost", "timeout",
                                   "unexpected"};
  return names[size_t(reason)];
}

std::string ModelStep::text() const {
  constexpr const char *names[] = {"begin",  "progress", "end",
                                   "abort",  "die",      "pause",
                                   "resume", "timeout",  "hear"};
  std::string text = names[size_t(what)] + (" " + std::to_string(rank));
  return what == What::Progress ? text + "-" + std::to_string(peer) : text;
}

ModelState::ModelState(const ModelScenario &scenario)
    : scenario(&scenario), ranks(scenario.ranks),
      ends(scenario.ranks * scenario.ranks),
      sockets(scenario.ranks * scenario.ranks) {}

//===----------------------------------------------------------------------===//
// What can be done
//===----------------------------------------------------------------------===//

bool ModelState::isFinished(uint32_t rank) const {
  return ranks[rank].phase == Phase::Between &&
         ranks[rank].group == scenario->groups.size();
}

bool ModelState::canProgress(uint32_t rank, uint32_t peer) const {
  const ModelEnd &mine = end(rank, peer);
  bool reads = mine.incoming || mine.outgoing;
  bool hears = !socket(peer, rank).empty() || ranks[peer].phase == Phase::Dead;
  return mine.head || mine.owesTaken || (reads && hears);
}

bool ModelState::nearIsDone(uint32_t rank) const {
  for (uint32_t peer = 0; peer < scenario->ranks; ++peer)
    if (!end(rank, peer).isDone())
      return false;
  return true;
}

/// One that has failed in the group may have moved its bytes before.
bool ModelState::hasBegun(uint32_t rank, size_t group) const {
  return ranks[rank].group > group ||
         (ranks[rank].group == group && ranks[rank].phase != Phase::Between);
}

bool ModelState::farIsDone(uint32_t rank) const {
  size_t group = ranks[rank].group;
  for (const ModelMessage &message : scenario->groups[group]) {
    bool isMine = message.from == rank || message.to == rank;
    uint32_t peer = message.from == rank ? message.to : message.from;
    if (isMine && !scenario->isNear(rank, peer) && !hasBegun(peer, group))
      return false;
  }
  return true;
}

/// A rank that is neither stopped nor at its end.
bool ModelState::mayFail(uint32_t rank) const {
  const ModelRank &self = ranks[rank];
  return !self.paused && !isFinished(rank) && self.phase != Phase::Failed &&
         self.phase != Phase::Dead;
}

void ModelState::addRankSteps(uint32_t rank,
                              std::vector<ModelStep> &steps) const {
  const ModelRank &self = ranks[rank];
  if (!mayFail(rank))
    return;
  if (self.phase == Phase::Between)
    return steps.push_back({What::Begin, rank});
  bool farDone = farIsDone(rank);
  size_t before = steps.size();
  for (uint32_t peer = 0; peer < scenario->ranks; ++peer)
    if ((farDone || !scenario->innerBlocks) && canProgress(rank, peer))
      steps.push_back({What::Progress, rank, peer});
  if (farDone && nearIsDone(rank))
    steps.push_back({What::End, rank});
  bool anyPaused = std::any_of(ranks.begin(), ranks.end(),
                               [](const ModelRank &one) { return one.paused; });
  if (anyPaused && steps.size() == before)
    steps.push_back({What::Timeout, rank});
}

void ModelState::addFaults(std::vector<ModelStep> &steps) const {
  uint32_t victim = scenario->victim;
  const ModelRank &self = ranks[victim];
  if (self.paused)
    steps.push_back({What::Resume, victim});
  bool isHere = !scenario->before || (self.phase == Phase::Between &&
                                      self.group == *scenario->before);
  if (hasStruck || !isHere || self.phase == Phase::Failed)
    return;
  if (scenario->fault == Fault::Abort)
    steps.push_back({What::Abort, victim});
  if (scenario->fault == Fault::Death)
    steps.push_back({What::Die, victim});
  if (scenario->fault == Fault::Pause)
    steps.push_back({What::Pause, victim});
}

std::vector<ModelStep> ModelState::steps() const {
  std::vector<ModelStep> steps;
  for (uint32_t rank = 0; rank < scenario->ranks; ++rank)
    addRankSteps(rank, steps);
  addFaults(steps);
  bool anyFar =
      std::any_of(scenario->hosts.begin(), scenario->hosts.end(),
                  [&](uint32_t host) { return host != scenario->hosts[0]; });
  bool anyFailed =
      std::any_of(ranks.begin(), ranks.end(), [](const ModelRank &one) {
        return one.phase == Phase::Failed || one.phase == Phase::Dead;
      });
  // Within a host a failure is heard of by links alone.
  for (uint32_t rank = 0; anyFar && anyFailed && rank < scenario->ranks; ++rank)
    if (mayFail(rank))
      steps.push_back({What::Hear, rank});
  return steps;
}

//===----------------------------------------------------------------------===//
// What is done: LocalLink
//===----------------------------------------------------------------------===//

ModelReason ModelState::write(uint32_t rank, uint32_t peer) {
  ModelEnd &mine = endOf(rank, peer);
  while (mine.head || mine.owesTaken) {
    if (ranks[peer].phase == Phase::Dead) {
      ModelReason heard = read(rank, peer);
      return heard == ModelReason::None ? ModelReason::Lost : heard;
    }
    ModelFrame frame{Kind::Taken, ranks[rank].group};
    if (mine.head) {
      for (const ModelMessage &message : scenario->groups[frame.group])
        if (message.from == rank && message.to == peer)
          frame.kind = message.shared ? Kind::Shared : Kind::Inline;
      mine.outgoing = frame.kind == Kind::Shared &&
                      scenario->change != Change::EndsBeforeTaken;
      mine.head = false;
    } else {
      mine.owesTaken = false;
    }
    socket(rank, peer).push_back(frame);
  }
  return ModelReason::None;
}

ModelReason ModelState::read(uint32_t rank, uint32_t peer) {
  std::vector<ModelFrame> &frames = socket(peer, rank);
  ModelEnd &mine = endOf(rank, peer);
  while (mine.incoming || mine.outgoing) {
    if (frames.empty())
      return ranks[peer].phase == Phase::Dead ? ModelReason::Lost
                                              : ModelReason::None;
    ModelFrame frame = frames.front();
    frames.erase(frames.begin());
    ModelReason reason = handle(rank, peer, frame);
    if (reason != ModelReason::None)
      return reason;
  }
  return ModelReason::None;
}

ModelReason ModelState::handle(uint32_t rank, uint32_t peer,
                               const ModelFrame &frame) {
  ModelEnd &mine = endOf(rank, peer);
  if (frame.kind == Kind::Aborted)
    return frame.reason;
  if (frame.kind == Kind::Taken) {
    if (!mine.outgoing || mine.head)
      fault = "rank " + std::to_string(rank) +
              " hears that what it has not "
              "sent was taken";
    mine.outgoing = false;
    return ModelReason::None;
  }
  if (!mine.incoming || frame.group != ranks[rank].group)
    fault =
        "rank " + std::to_string(rank) + " takes a message of another group";
  bool isOwners = end(peer, rank).outgoing && !end(peer, rank).head;
  bool hasEnded =
      ranks[peer].phase == Phase::Failed || ranks[peer].phase == Phase::Dead;
  if (frame.kind == Kind::Shared && !isOwners && !hasEnded)
    fault = "rank " + std::to_string(rank) + " reads memory of rank " +
            std::to_string(peer) + " after its group";
  mine.incoming = false;
  mine.owesTaken = frame.kind == Kind::Shared;
  return ModelReason::None;
}

ModelReason ModelState::progress(uint32_t rank, uint32_t peer) {
  ModelReason reason = write(rank, peer);
  if (reason == ModelReason::None)
    reason = read(rank, peer);
  return reason == ModelReason::None ? write(rank, peer) : reason;
}

//===----------------------------------------------------------------------===//
// What is done: SharedMemoryTransport
//===----------------------------------------------------------------------===//

void ModelState::begin(uint32_t rank) {
  ranks[rank].phase = Phase::Within;
  std::vector<uint32_t> near;
  for (const ModelMessage &message : scenario->groups[ranks[rank].group]) {
    uint32_t peer = message.from == rank ? message.to : message.from;
    bool isMine = message.from == rank || message.to == rank;
    if (!isMine || !scenario->isNear(rank, peer))
      continue;
    ModelEnd &mine = endOf(rank, peer);
    if (message.to == rank)
      mine.incoming = true;
    else
      mine.outgoing = mine.head = true;
    if (std::find(near.begin(), near.end(), peer) == near.end())
      near.push_back(peer);
  }
  for (uint32_t peer : near) {
    ModelReason reason = progress(rank, peer);
    if (reason != ModelReason::None)
      return fail(rank, reason);
  }
}

/// And tells all that have a link.
void ModelState::fail(uint32_t rank, ModelReason reason) {
  ranks[rank].phase = Phase::Failed;
  ranks[rank].reason = reason;
  if (scenario->change == Change::TellsNobody)
    return;
  for (uint32_t peer = 0; peer < scenario->ranks; ++peer)
    if (peer != rank && scenario->isNear(rank, peer) &&
        ranks[peer].phase != Phase::Dead)
      socket(rank, peer).push_back({Kind::Aborted, 0, reason});
}

void ModelState::take(const ModelStep &step) {
  ModelRank &self = ranks[step.rank];
  ModelReason reason = ModelReason::None;
  switch (step.what) {
  case What::Begin:
    return begin(step.rank);
  case What::Progress:
    reason = progress(step.rank, step.peer);
    break;
  case What::End:
    self.phase = Phase::Between;
    ++self.group;
    break;
  case What::Abort:
    hasStruck = true;
    reason = ModelReason::Abort;
    break;
  case What::Die:
    hasStruck = true;
    self.phase = Phase::Dead;
    break;
  case What::Pause:
    hasStruck = self.paused = true;
    break;
  case What::Resume:
    self.paused = false;
    break;
  case What::Timeout:
    reason = ModelReason::Timeout;
    break;
  case What::Hear:
    reason = ModelReason::Lost;
    for (const ModelRank &one : ranks)
      if (one.phase == Phase::Failed)
        reason = one.reason;
    break;
  }
  if (reason != ModelReason::None)
    fail(step.rank, reason);
}

//===----------------------------------------------------------------------===//
// What must hold
//===----------------------------------------------------------------------===//

std::optional<std::string> ModelState::stuck() const {
  const std::map<Fault, ModelReason> reasons = {
      {Fault::None, ModelReason::None},
      {Fault::Abort, ModelReason::Abort},
      {Fault::Death, ModelReason::Lost},
      {Fault::Pause, ModelReason::Timeout}};
  for (uint32_t rank = 0; rank < scenario->ranks; ++rank) {
    const ModelRank &self = ranks[rank];
    if (self.phase == Phase::Within || mayFail(rank))
      return "rank " + std::to_string(rank) + " waits for ever";
    if (self.phase == Phase::Failed &&
        self.reason != reasons.at(scenario->fault))
      return "rank " + std::to_string(rank) + " fails by " +
             nameOf(self.reason);
  }
  return std::nullopt;
}

std::string ModelState::outcome() const {
  std::string text;
  for (const ModelRank &one : ranks) {
    text += text.empty() ? "" : " ";
    text += one.phase == Phase::Dead ? "dead" : nameOf(one.reason);
  }
  return text;
}

std::string ModelState::key() const {
  std::string key(1, char(hasStruck));
  for (const ModelRank &one : ranks)
    key +=
        {char(one.phase), char(one.group), char(one.reason), char(one.paused)};
  for (const ModelEnd &one : ends)
    key += char(one.incoming | one.outgoing << 1 | one.head << 2 |
                one.owesTaken << 3);
  for (const auto &frames : sockets) {
    key += char(frames.size());
    for (const ModelFrame &frame : frames)
      key += {char(frame.kind), char(frame.group), char(frame.reason)};
  }
  return key;
}

namespace {

/// Breadth first, so that what leads to a fault is as short as can be.
class Explorer {
public:
  Explorer(const ModelScenario &scenario,
           const std::function<void(const ModelPath &)> &visit)
      : visit(visit) {
    add(ModelState(scenario), {}, 0);
  }

  Exploration run() {
    for (size_t i = 0; i < found.size() && result.wrong.empty(); ++i)
      expand(i);
    result.states = found.size();
    return std::move(result);
  }

private:
  struct Found {
    ModelState state;
    ModelStep step;  // that has led here
    size_t from = 0; // the state before it
  };

  void add(ModelState state, const ModelStep &step, size_t from) {
    std::string key = state.key();
    if (seen.emplace(key, found.size()).second)
      found.push_back({std::move(state), step, from});
  }

  ModelPath pathTo(size_t index) const {
    ModelPath path;
    for (; index != 0; index = found[index].from)
      path.push_back(found[index].step);
    std::reverse(path.begin(), path.end());
    return path;
  }

  void say(const std::string &wrong, const ModelPath &path) {
    result.wrong = wrong + ", after";
    for (const ModelStep &step : path)
      result.wrong += " " + step.text() + ",";
  }

  void expand(size_t index) {
    std::vector<ModelStep> steps = found[index].state.steps();
    if (steps.empty()) {
      ++result.outcomes[found[index].state.outcome()];
      if (auto stuck = found[index].state.stuck())
        say(*stuck, pathTo(index));
    }
    for (const ModelStep &step : steps) {
      ModelState next = found[index].state;
      next.take(step);
      ++result.steps;
      ModelPath path;
      if (visit || next.broken()) {
        path = pathTo(index);
        path.push_back(step);
      }
      if (next.broken())
        return say(*next.broken(), path);
      if (visit)
        visit(path);
      add(std::move(next), step, index);
    }
  }

  const std::function<void(const ModelPath &)> &visit;
  std::vector<Found> found;
  std::map<std::string, size_t> seen;
  Exploration result;
};

} // namespace

Exploration explore(const ModelScenario &scenario,
                    const std::function<void(const ModelPath &)> &visit) {
  return Explorer(scenario, visit).run();
}

} // namespace dtrt::test
