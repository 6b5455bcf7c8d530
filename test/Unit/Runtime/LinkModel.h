//===- LinkModel.h - The protocol inside a host, as a model -----*- C++ -*-===//
//
// What `SharedMemoryTransport` and `LocalLink` do with messages, as a machine
// that is small enough for all its runs: what is in which socket, what each end
// of a link still waits for, who has begun which group, and who has failed and
// why. A step is one that the code takes as a whole: a begin, the `progress` of
// one link, an end, an abort, a death, a timeout.
//
// `explore` visits every state that any order of steps leads to, and finds what
// must never be. LinkModelTest.cpp takes the same steps with the code.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_TEST_LINKMODEL_H
#define DTRT_TEST_LINKMODEL_H

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dtrt::test {

/// From one rank to another.
struct ModelMessage {
  uint32_t from = 0, to = 0;
  /// Whether it lies in the sender's arena: if not it follows its frame.
  bool shared = true;
};

/// What all ranks do, and what happens to one of them.
struct ModelScenario {
  uint32_t ranks = 2;
  /// Host of each rank: only ranks of one host have a link.
  std::vector<uint32_t> hosts;
  std::vector<std::vector<ModelMessage>> groups;
  /// The transport within runs a group in one piece: `begin` waits for it.
  bool innerBlocks = false;

  enum class Fault { None, Abort, Death, Pause };
  Fault fault = Fault::None;
  uint32_t victim = 0;
  /// The fault comes before the victim begins this group; none: at any time.
  std::optional<size_t> before;

  /// A protocol that is wrong, which an exploration has to find.
  enum class Change { None, EndsBeforeTaken, TellsNobody };
  Change change = Change::None;

  bool isNear(uint32_t a, uint32_t b) const { return hosts[a] == hosts[b]; }
};

/// One step of one rank.
struct ModelStep {
  enum class What {
    Begin,
    Progress, // of the link to `peer`
    End,
    Abort,
    Die,
    Pause,
    Resume,
    Timeout,
    Hear, // of a failure, through the store
  };
  What what = What::Begin;
  uint32_t rank = 0, peer = 0;

  std::string text() const;
};

/// Why a rank has failed.
enum class ModelReason : uint8_t { None, Abort, Lost, Timeout, Unexpected };

struct ModelFrame {
  enum class Kind : uint8_t { Shared, Inline, Taken, Aborted };
  Kind kind = Kind::Shared;
  uint8_t group = 0;                      // of a message
  ModelReason reason = ModelReason::None; // of an abort
};

/// One rank's end of a link: `LocalLink`.
struct ModelEnd {
  bool incoming = false, outgoing = false;
  bool head = false; // of the outgoing message has yet to be written
  bool owesTaken = false;

  bool isDone() const { return !incoming && !outgoing && !head && !owesTaken; }
};

struct ModelRank {
  enum class Phase : uint8_t { Between, Within, Failed, Dead };
  Phase phase = Phase::Between;
  uint8_t group = 0; // the next one, or the one under way
  ModelReason reason = ModelReason::None;
  bool paused = false;
};

class ModelState {
public:
  explicit ModelState(const ModelScenario &scenario);

  /// Those that can be taken here.
  std::vector<ModelStep> steps() const;
  void take(const ModelStep &step);
  /// What must not be, if this is such a state.
  std::optional<std::string> broken() const { return fault; }
  /// Likewise, where no step is left.
  std::optional<std::string> stuck() const;
  /// States are the same when their keys are.
  std::string key() const;
  /// Per rank how it has ended, as "ok" or "abort".
  std::string outcome() const;

  const ModelRank &rank(uint32_t of) const { return ranks[of]; }
  const ModelEnd &end(uint32_t of, uint32_t peer) const {
    return ends[of * scenario->ranks + peer];
  }

private:
  ModelEnd &endOf(uint32_t of, uint32_t peer) {
    return ends[of * scenario->ranks + peer];
  }
  /// What `from` has written and `to` has not read.
  std::vector<ModelFrame> &socket(uint32_t from, uint32_t to) {
    return sockets[from * scenario->ranks + to];
  }
  const std::vector<ModelFrame> &socket(uint32_t from, uint32_t to) const {
    return sockets[from * scenario->ranks + to];
  }
  bool isFinished(uint32_t rank) const;
  bool canProgress(uint32_t rank, uint32_t peer) const;
  bool nearIsDone(uint32_t rank) const;
  bool farIsDone(uint32_t rank) const;
  bool farIsLost(uint32_t rank) const;
  bool hasBegun(uint32_t rank, size_t group) const;
  bool mayFail(uint32_t rank) const;
  void addRankSteps(uint32_t rank, std::vector<ModelStep> &steps) const;
  void addFaults(std::vector<ModelStep> &steps) const;
  ModelReason write(uint32_t rank, uint32_t peer);
  ModelReason read(uint32_t rank, uint32_t peer);
  ModelReason progress(uint32_t rank, uint32_t peer);
  ModelReason handle(uint32_t rank, uint32_t peer, const ModelFrame &frame);
  void begin(uint32_t rank);
  void fail(uint32_t rank, ModelReason reason);

  const ModelScenario *scenario;
  std::vector<ModelRank> ranks;
  std::vector<ModelEnd> ends;
  std::vector<std::vector<ModelFrame>> sockets;
  bool hasStruck = false; // the scenario's fault
  std::optional<std::string> fault;
};

struct Exploration {
  size_t states = 0, steps = 0;
  /// What is wrong, with the steps that lead there; empty: nothing.
  std::string wrong;
  /// Of the runs, by how their ranks end.
  std::map<std::string, size_t> outcomes;
};

/// A way from the start to a state.
using ModelPath = std::vector<ModelStep>;

/// All runs. `visit` is called for every step from every state, with a way that
/// ends with this step.
Exploration explore(const ModelScenario &scenario,
                    const std::function<void(const ModelPath &)> &visit = {});

} // namespace dtrt::test

#endif // DTRT_TEST_LINKMODEL_H
